"""The decorators of all kernels, which run in two tiers: as plain Python at first, then compiled by Numba.

Importing Numba takes half a second and compiling the kernels of a query about 20 seconds, which a short run need not
wait for. Kernels work on arrays only, so a run can change tier between any two calls. SKYBAND_KERNELS=compiled or
interpreted fixes one tier; NUMBA_DISABLE_JIT=1 fixes the interpreted one.
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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

ROWS = 50_000
"""Rows that a process may see before kernels are compiled."""
SECONDS = 0.5
"""Time that a process may spend in interpreted kernels before they are compiled."""


class _Tier:
    """The tier that runs, and what decides when it changes."""

    def __init__(self) -> None:
        self.compiled = False
        self.fixed = False
        self._rows, self._seconds = 0, 0.0

    def choose(self, name: str) -> None:
        """Fix one tier, or start with the interpreted one ("auto")."""
        if name not in ("auto", "compiled", "interpreted"):
            raise ValueError(f"SKYBAND_KERNELS must be auto, compiled or interpreted, got {name!r}")
        self.compiled, self.fixed = name == "compiled", name != "auto"
        self._rows, self._seconds = 0, 0.0

    def compile(self) -> None:
        """Run compiled from now on, unless a tier was fixed."""
        self.compiled = self.compiled or not self.fixed

    def saw(self, rows: int) -> None:
        """Count rows that kernels will process next."""
        self._rows += rows
        if self._rows > ROWS:
            self.compile()

    def spend(self, seconds: float) -> None:
        """Count time spent in interpreted kernels."""
        self._seconds += seconds
        if self._seconds > SECONDS:
            self.compile()


tier = _Tier()
_jit_disabled = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
tier.choose("interpreted" if _jit_disabled else os.environ.get("SKYBAND_KERNELS") or "auto")


class Kernel:
    """A function over arrays that runs in either tier."""

    def __init__(self, function: FunctionType) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._python: Callable[..., Any] | None = None
        self._compiled: Any = None

    def __call__(self, *args: Any) -> Any:
        """Run in the current tier."""
        if tier.compiled:
            return self._compiled(*args) if self._compiled is not None else self._compile_and_run(args)
        if self._python is None:
            self._python = _link(self.function, compiled=False)
        start = perf_counter()
        with np.errstate(all="ignore"):  # numbers overflow without a warning, as in compiled code
            result = self._python(*args)
        tier.spend(perf_counter() - start)
        return result

    def _compile_and_run(self, args: tuple[Any, ...]) -> Any:
        """Run compiled for the first time, and tell a user who has to wait for the compilation why."""
        compiled = self.dispatcher
        timer = threading.Timer(1.0, _print_notice, [compiled])
        timer.daemon = True
        timer.start()
        try:
            result = compiled(*args)
        finally:
            timer.cancel()
        if compiled.stats.cache_misses and compiled.stats.cache_path:
            _remove_stale(compiled.stats.cache_path)
        self._compiled = compiled
        return result

    @property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of the function."""
        return _link(self.function, compiled=True)


def kernel(function: Any) -> Any:
    """Make a kernel, which may allocate arrays."""
    return Kernel(_mark(function, "kernel"))


def inplace(function: Any) -> Any:
    """Make a kernel that works on the arrays it is given and allocates none, so that no references are counted.

    Counting them where arrays are passed on or taken from tuples costs up to half of a loop's time.
    """
    return Kernel(_mark(function, "inplace"))


def inline(function: Any) -> Any:
    """Make a function that is inlined into the kernels that call it."""
    return _mark(function, "inline")


def simd(function: Any) -> Any:
    """Make a function like `inline`, which `_vector` replaces where the processor has AVX-512."""
    return _mark(function, "simd")


def _mark(function: Any, kind: str) -> Any:
    function.kernel_kind = kind
    return function


# ------------------------------------------------------------ linking

_lock = threading.RLock()
_linked: dict[tuple[FunctionType, bool], Any] = {}


def _link(function: FunctionType, *, compiled: bool) -> Any:
    """Return the function of a tier: a copy whose globals name functions of the same tier."""
    with _lock:
        if (function, compiled) not in _linked:
            _link_module(function.__globals__, compiled=compiled)
        return _linked[function, compiled]


def _link_module(module: dict[str, Any], *, compiled: bool) -> None:
    names = dict(module)
    for name, value in module.items():
        function = value.function if isinstance(value, Kernel) else value
        if not isinstance(function, FunctionType) or not hasattr(function, "kernel_kind"):
            continue
        if function.__globals__ is not module:
            names[name] = _link(function, compiled=compiled)
            continue
        copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
        functools.update_wrapper(copy, function)
        del copy.__wrapped__  # type: ignore[attr-defined]  # Numba would compile what it wraps
        names[name] = _linked[function, compiled] = _jit(copy) if compiled else copy


def _jit(function: FunctionType) -> Any:
    import numba

    functions, options = _private_parts()
    kind = function.kernel_kind  # type: ignore[attr-defined]
    if kind == "simd" and function.__name__ in functions:
        return functions[function.__name__]
    if kind in ("inline", "simd"):
        return numba.njit(error_model="numpy", inline="always")(function)
    function.__qualname__ = f"{function.__qualname__}-{source_hash()}"
    options = options if kind == "inplace" else {}
    # No fastmath: ranks must equal the oracle's, infinities included.
    return numba.njit(error_model="numpy", nogil=True, cache=cache_folder().usable, **options)(function)


@functools.cache
def _private_parts() -> tuple[dict[str, Any], dict[str, Any]]:
    """Functions made of private parts of Numba, and options of kernels that allocate nothing."""
    try:
        from skyband.kernels._vector import FUNCTIONS, INPLACE_OPTIONS
    except ImportError:  # this Numba has them elsewhere
        return {}, {}
    return FUNCTIONS, INPLACE_OPTIONS


# ------------------------------------------------------------ the notice to a user who waits

_NOTICE = "skyband: compiling, once for all later runs; `skyband warm` does it ahead"
_noticed = threading.Event()


def silence_notice() -> None:
    """Do not announce compilations in this process."""
    _noticed.set()


def _print_notice(dispatcher: Any) -> None:
    """Announce the compilation, unless loading compiled code is what takes long."""
    if dispatcher.stats.cache_misses and not _noticed.is_set():
        _noticed.set()
        sys.stderr.write(f"{_NOTICE}\n")


# ------------------------------------------------------------ cache of compiled code


class CacheFolder(NamedTuple):
    """Whether compiled code can be stored, and the temporary folder used if none of Numba's own can be written to."""

    usable: bool
    temporary: str | None


@functools.cache
def cache_folder() -> CacheFolder:
    """Find where compiled code can be stored: NUMBA_CACHE_DIR, the package, the user's home, or a temporary folder."""
    import numba

    config: Any = numba.config  # filled in when it is loaded, so type checkers do not know its attributes
    if _can_store():
        return CacheFolder(usable=True, temporary=None)
    folder, before = _temporary_folder(), os.environ.get("NUMBA_CACHE_DIR")
    if folder is not None:
        os.environ["NUMBA_CACHE_DIR"] = folder  # Numba reads it again, and child processes inherit it
        config.reload_config()
        if _can_store():
            return CacheFolder(usable=True, temporary=folder)
        os.environ.pop("NUMBA_CACHE_DIR")
        os.environ.update({} if before is None else {"NUMBA_CACHE_DIR": before})
    return CacheFolder(usable=False, temporary=None)


def _can_store() -> bool:
    from numba import njit

    try:
        njit(cache=True)(_probe)
    except RuntimeError:  # no folder that Numba knows can be written to
        return False
    return True


def _probe() -> None:
    """Stand for a kernel when Numba is asked whether it can store one."""


def _temporary_folder() -> str | None:
    """Return a temporary folder that only this user can write to, since Numba runs what it finds there."""
    import stat
    import tempfile
    from pathlib import Path

    try:
        folder = Path(tempfile.gettempdir()) / f"skyband-kernels-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
        return str(folder) if own else tempfile.mkdtemp(prefix="skyband-kernels-")
    except (OSError, AttributeError):  # nothing can be written to; Windows has no user ids
        return None


@functools.cache
def source_hash() -> str:
    """Hash the source of all kernels.

    Numba stores compiled code in files named after the module and the qualified name of a function, and compares only
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


def _remove_stale(folder: str) -> None:
    """Delete compiled code of other versions of the kernels."""
    from pathlib import Path

    for file in Path(folder).glob("*.nb[ic]"):
        if source_hash() not in file.name:
            with contextlib.suppress(OSError):  # another process was faster, or the folder is read-only
                file.unlink()
