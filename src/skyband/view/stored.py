"""What a view saved, in a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.errors import SnapshotError
from skyband.runtime.snapshot import dump, read

if TYPE_CHECKING:
    from skyband.runtime.saved import Saved

_KIND = {"kind": "view"}
_AGAIN = "build the view again with sb.View(...)"


def store(saved: Saved, path: Path) -> None:
    """Write named arrays and tables into a file; it is the old one until all of the new one is there.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store({"id": np.array([[3, 4]])}, Path(folder) / "view.arrow")
    ...     stored(Path(folder) / "view.arrow")
    {'id': array([[3, 4]])}
    """
    fresh = path.with_name(path.name + ".new")
    try:
        with fresh.open("wb") as file:
            file.write(dump(saved, _KIND))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        msg = f"path={str(path)!r} cannot be written ({error.strerror}): write a path in a folder that exists"
        raise SnapshotError(msg) from error


def stored(path: Path) -> Saved:
    """What `store` wrote. Raises SnapshotError where the file is missing, damaged, or something else."""
    wrong = f"{path.name} holds no saved view"
    try:
        blob = path.read_bytes()
    except OSError as error:
        msg = f"{wrong} ({error.strerror}): {_AGAIN}"
        raise SnapshotError(msg) from error
    header, saved = read(blob, wrong, _AGAIN)
    if header.get("kind") != _KIND["kind"]:
        msg = f"{wrong}, but the state of something else: {_AGAIN}"
        raise SnapshotError(msg)
    return saved
