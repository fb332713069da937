"""The one decorator of all kernels, which run in two tiers: as plain Python at first, then compiled by Numba.

To import Numba takes half a second and to compile the kernels of a query some 20 seconds, which a short run need not
wait for. Kernels work on arrays alone, so a run can change from one tier to the other between any two calls.

SKYBAND_KERNELS=compiled or interpreted chooses one tier; so does NUMBA_DISABLE_JIT=1, for Python.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from time import perf_counter
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

ROWS = 50_000
"""Rows that a process may see before kernels are compiled."""
SECONDS = 0.5
"""Time that a process may spend in kernels before they are compiled."""

_LINE = "skyband: compiling, once for all later runs; `skyband warm` does it ahead"
_KINDS: dict[str, dict[str, Any]] = {
    "kernel": {"nogil": True},
    "bare": {"nogil": True, "_nrt": False},
    "inlined": {"inline": "always"},
}


class _Tier:
    """Which tier runs, and what decides when it changes."""

    def __init__(self) -> None:
        self.compiled = False
        self.fixed = False
        self._rows, self._seconds = 0, 0.0

    def choose(self, name: str) -> None:
        """One tier from now on, or "auto": first one, then the other."""
        if name not in ("auto", "compiled", "interpreted"):
            msg = f"SKYBAND_KERNELS must be auto, compiled or interpreted, got {name!r}"
            raise ValueError(msg)
        self.compiled, self.fixed = name == "compiled", name != "auto"
        self._rows, self._seconds = 0, 0.0

    def compile(self) -> None:
        """Run compiled from now on, unless one tier was chosen."""
        self.compiled = self.compiled or not self.fixed

    def saw(self, rows: int) -> None:
        """Count rows that kernels will work on next."""
        self._rows += rows
        if self._rows > ROWS:
            self.compile()

    def spend(self, seconds: float) -> None:
        """Count time that kernels took as Python."""
        self._seconds += seconds
        if self._seconds > SECONDS:
            self.compile()


tier = _Tier()
_without = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
tier.choose("interpreted" if _without else os.environ.get("SKYBAND_KERNELS") or "auto")


class Kernel:
    """A loop over arrays that runs in either tier."""

    def __init__(self, function: FunctionType, kind: str) -> None:
        self.function, self.kind = function, kind
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__
        self.__wrapped__ = function
        self._python: Callable[..., Any] | None = None
        self._compiled: Any = None

    def __call__(self, *args: Any) -> Any:
        """Run in the tier that is due."""
        if tier.compiled:
            return self._compiled(*args) if self._compiled is not None else self._first(args)
        if self._python is None:
            self._python = _linked(self.function, compiled=False)
        start = perf_counter()
        with np.errstate(all="ignore"):  # numbers overflow without a warning, as in compiled code
            found = self._python(*args)
        tier.spend(perf_counter() - start)
        return found

    def _first(self, args: tuple[Any, ...]) -> Any:
        """Run compiled for the first time; who has to wait is told why."""
        compiled = self.dispatcher
        told = threading.Timer(1.0, _tell, [compiled])
        told.daemon = True
        told.start()
        try:
            found = compiled(*args)
        finally:
            told.cancel()
        if compiled.stats.cache_misses and compiled.stats.cache_path:
            remove_stale(compiled.stats.cache_path)
        self._compiled = compiled
        return found

    @property
    def dispatcher(self) -> Any:
        """What Numba makes of the function."""
        return _linked(self.function, compiled=True)


def kernel(function: Callable[..., Any]) -> Any:
    """Make a kernel of a function."""
    return Kernel(_marked(function, "kernel"), "kernel")


def bare(function: Callable[..., Any]) -> Any:
    """Make a kernel that works on the arrays it is given and makes none: no references are counted at all."""
    return Kernel(_marked(function, "bare"), "bare")


def inlined(function: Callable[..., Any]) -> Any:
    """Let kernels have a function for their innermost loops.

    A call that takes arrays counts references, which costs more than a comparison.
    """
    return _marked(function, "inlined")


def vectorized(function: Callable[..., Any]) -> Any:
    """Let kernels have a function like `inlined`; `_vector` has a faster one of this name for some processors."""
    return _marked(function, "vectorized")


def _marked(function: Any, kind: str) -> FunctionType:
    function.skyband_kind = kind
    found: FunctionType = function
    return found


# ------------------------------------------------------------ linking

_lock = threading.RLock()
_spaces: dict[tuple[int, bool], dict[str, Any]] = {}
_functions: dict[tuple[FunctionType, bool], Any] = {}


def _linked(function: FunctionType, *, compiled: bool) -> Any:
    """The function with all kernels that it calls in the same tier."""
    with _lock:
        found = _functions.get((function, compiled))
        if found is None:
            space = _space(function.__globals__, compiled=compiled)
            found = FunctionType(function.__code__, space, function.__name__, function.__defaults__)
            found.__module__, found.__qualname__, found.__doc__ = (
                function.__module__,
                function.__qualname__,
                function.__doc__,
            )
            if compiled:
                found.__qualname__ = f"{function.__qualname__}-{source_hash()}"
                found = _compiler(function)(found)
            _functions[function, compiled] = found
        return found


def _space(names: dict[str, Any], *, compiled: bool) -> dict[str, Any]:
    """The names of a module, with functions of a tier in place of kernels."""
    found = _spaces.get((id(names), compiled))
    if found is None:
        found = _spaces[id(names), compiled] = dict(names)
        for name, value in names.items():
            function = value.function if isinstance(value, Kernel) else value
            if isinstance(function, FunctionType) and hasattr(function, "skyband_kind"):
                found[name] = _Later(function, compiled=compiled)
        for name, value in list(found.items()):
            if isinstance(value, _Later):
                found[name] = _linked(value.function, compiled=compiled)
    return found


class _Later:
    """A function that is yet to be linked."""

    def __init__(self, function: FunctionType, *, compiled: bool) -> None:
        self.function, self.compiled = function, compiled


def _compiler(function: Any) -> Callable[[Any], Any]:
    import numba

    njit: Any = numba.njit  # its types leave `_nrt` out
    kind = function.skyband_kind
    if kind == "vectorized":
        from skyband.kernels import _vector

        fast = _vector.found().get(function.__name__)
        if fast is not None:
            return lambda _: fast
        kind = "inlined"
    # cache: the second process starts warm. No fastmath: ranks must equal the oracle's, infinities included.
    cache = {} if kind == "inlined" else {"cache": kept()[0]}
    made: Callable[[Any], Any] = njit(error_model="numpy", **_KINDS[kind], **cache)
    return made


_told = threading.Event()


def _tell(dispatcher: Any) -> None:
    """Say that kernels are compiled, unless what takes long is to load them."""
    if dispatcher.stats.cache_misses and not _told.is_set():
        _told.set()
        sys.stderr.write(f"{_LINE}\n")


# ------------------------------------------------------------ where compiled code is kept

_kept: tuple[bool, str | None] | None = None


def kept() -> tuple[bool, str | None]:
    """Whether compiled code is kept, and in which temporary folder if none of Numba's own can be written to.

    Its own are NUMBA_CACHE_DIR, the folder of the package, and one in the user's home.
    """
    global _kept  # noqa: PLW0603 - asked once
    if _kept is None:
        _kept = _find_folder()
    return _kept


@functools.cache
def source_hash() -> str:
    """Hash of the source of every kernel.

    Numba keeps compiled code in files named after the module and the qualified name of a function, and compares only
    the file that defines it, not those of the functions compiled into it. Kernels carry this hash in their qualified
    name, so that a change to any of them makes all of them compile again.
    """
    from hashlib import sha256
    from importlib.resources import files

    found = sha256()
    for file in _python_files(files(__package__)):
        found.update(file.read_bytes())
    return found.hexdigest()[:12]


def _python_files(folder: Traversable) -> Iterator[Traversable]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _python_files(entry)
        elif entry.name.endswith(".py"):
            yield entry


def remove_stale(folder: str) -> None:
    """Delete compiled code of other versions of the kernels from one of Numba's cache folders."""
    from pathlib import Path

    for file in Path(folder).glob("*.nb[ic]"):
        if source_hash() not in file.name:
            with contextlib.suppress(OSError):  # another process was faster, or the folder is read-only
                file.unlink()


def _find_folder() -> tuple[bool, str | None]:
    import numba

    config: Any = numba.config  # made as it is loaded: its types do not know what it has
    if _can_keep():
        return True, None
    folder, before = _temporary_folder(), os.environ.get("NUMBA_CACHE_DIR")
    if folder is not None:
        os.environ["NUMBA_CACHE_DIR"] = folder  # which Numba reads again, and processes of ours inherit
        config.reload_config()
        if _can_keep():
            return True, folder
        os.environ.pop("NUMBA_CACHE_DIR")
        os.environ.update({} if before is None else {"NUMBA_CACHE_DIR": before})
    return False, None


def _can_keep() -> bool:
    from numba import njit

    try:
        njit(cache=True)(_probe)
    except RuntimeError:  # no folder that it knows can be written to
        return False
    return True


def _probe() -> None:
    """What Numba is asked to keep, to see whether it can."""


def _temporary_folder() -> str | None:
    """A temporary folder that belongs to this user alone; None if there is none.

    Numba runs what it finds there, so that nobody else may write to it.
    """
    import stat
    import tempfile
    from pathlib import Path

    try:
        folder = Path(tempfile.gettempdir()) / f"skyband-kernels-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
        return str(folder) if own else tempfile.mkdtemp(prefix="skyband-kernels-")
    except (OSError, AttributeError):  # nothing can be written to; Windows has no user ids
        return None
