"""The one decorator of all kernels, and where their compiled code is kept."""

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit

_config: Any = numba.config  # made as it is loaded: its types do not know what it has


def _probe() -> None:
    """What Numba is asked to keep, to see whether it can."""


def _can_keep() -> bool:
    try:
        njit(cache=True)(_probe)
    except RuntimeError:  # no folder that it knows can be written to
        return False
    return True


def _temporary_folder() -> str | None:
    """A temporary folder that belongs to this user alone; None if there is none.

    Numba runs what it finds there, so that nobody else may write to it.
    """
    try:
        folder = Path(tempfile.gettempdir()) / f"skyband-kernels-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
        return str(folder) if own else tempfile.mkdtemp(prefix="skyband-kernels-")
    except (OSError, AttributeError):  # nothing can be written to; Windows has no user ids
        return None


def _keep() -> tuple[bool, str | None]:
    """Whether compiled code is kept, and in which temporary folder if none of Numba's own can be written to.

    Its own are NUMBA_CACHE_DIR, the folder of the package, and one in the user's home.
    """
    if _can_keep():
        return True, None
    folder, before = _temporary_folder(), os.environ.get("NUMBA_CACHE_DIR")
    if folder is not None:
        os.environ["NUMBA_CACHE_DIR"] = folder  # which Numba reads again, and processes of ours inherit
        _config.reload_config()
        if _can_keep():
            return True, folder
        os.environ.pop("NUMBA_CACHE_DIR")
        os.environ.update({} if before is None else {"NUMBA_CACHE_DIR": before})
    return False, None


KEPT, TEMPORARY = _keep()

# cache: the second process starts warm. No fastmath: ranks must equal the oracle's, infinities included.
kernel: Any = njit(cache=KEPT, nogil=True, error_model="numpy")

# For loops that work on the arrays they are given and make none: no references are counted at all.
bare: Any = njit(cache=KEPT, nogil=True, error_model="numpy", _nrt=False)  # type: ignore[call-overload]  # left out of its types

# For the innermost loops: a call that takes arrays counts references, which costs more than a comparison.
inlined = njit(inline="always", error_model="numpy")

if _config.DISABLE_JIT:  # plain Python: numbers overflow without a warning, as in compiled code
    kernel = bare = np.errstate(all="ignore")
