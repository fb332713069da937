"""Base of the tables that are read over the network: time limits, redacted errors, rows as Arrow tables."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib import import_module
from typing import Any, TypeVar

import pyarrow as pa

from skyband.errors import MissingLibraryError, TableError
from skyband.redaction import redact_urls

T = TypeVar("T")
Row = dict[str, Any]

CALL_SECONDS = 30.0
"""Time limit of a call without one of its own."""

MAX_VALUES = 2_000_000
"""Values of a response. Parsed from JSON, a value takes up to 150 bytes."""

CALL_ERRORS = (OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError)
"""What a failed call raises besides the errors of its client."""

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\})")
_UNSUITABLE = (pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError)


class RemoteTable(ABC):
    """A table of a service. Subclasses open a client and read rows; the client stays in its process.

    `${NAME}` in the URL is replaced from the environment of the process that calls: a table can be pickled, printed and
    stored without the secrets in its address.
    """

    def __init__(self, url: str, key: str) -> None:
        self.key = key
        self._url = url
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """Return the rows with these ids.

        An error that concerns some of the rows raises a `TableError` whose `rows` holds the others.
        """
        rows: list[Row] = []
        error: TableError | None = None
        try:
            for row in self._read(ids, columns, time.monotonic() + (CALL_SECONDS if timeout is None else timeout)):
                if isinstance(row, TableError):
                    error = row
                else:
                    rows.append(row)
        except TableError as failure:
            error = failure
        except self._errors() as failure:
            error = TableError(redact_urls(f"{self._url} failed: {type(failure).__name__} {failure}".strip()))
            error.__cause__ = failure
        return rows_to_table(rows, [self.key, *columns], error)

    @abstractmethod
    def _read(self, ids: Sequence[object], columns: Sequence[str], deadline: float) -> Iterator[Row | TableError]:
        """Yield the rows, and an error for each row that cannot be read."""

    @abstractmethod
    def _connect(self) -> Any:
        """Open an asynchronous client."""

    @abstractmethod
    def _errors(self) -> tuple[type[Exception], ...]:
        """Return the exceptions of a failed call: of the client, and of responses in another shape than expected."""

    def client(self) -> Any:
        """Return the client, opening it at its first use on the event loop of this process; call it on the loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._client = loop, self._connect()
            weakref.finalize(self, _close, self._client, loop)
        return self._client

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_loop": None}


def require(module: str) -> Any:
    """Import a module of an optional library, or raise an error that names the extra to install.

    Examples
    --------
    >>> require("no_such_module")
    Traceback (most recent call last):
        ...
    skyband.errors.TableError: this table needs no_such_module, which is not installed: pip install no_such_module
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise TableError(str(MissingLibraryError.of("this table", module))) from error


def fill_env(text: str) -> str:
    """Replace `${NAME}` and `${NAME:-default}` by values of the environment, and `$$` by a dollar.

    Examples
    --------
    >>> fill_env("redis://:${NO_SUCH_NAME:-secret}@localhost")
    'redis://:secret@localhost'
    """

    def value(found: re.Match[str]) -> str:
        name, default = found["name"], found["default"]
        if name is None:
            return "$"
        known = os.environ.get(name) or default
        if known is None:
            raise TableError(f"the environment variable {name} must be set in every process that reads the table")
        return known

    return _VARIABLE.sub(value, text)


# ---------------------------------------------------------------- time limits


def run_until(deadline: float, call: Callable[[], Awaitable[T]]) -> T:
    """Run `call` on the event loop for remote calls; raise TimeoutError if it is not done by `deadline` (monotonic).

    A socket's timeout bounds a single read, so a service that sends one byte at a time never exceeds it. Cancelling
    bounds the call as a whole (name resolution, connection, headers, body) and closes its connection.

    Examples
    --------
    >>> run_until(time.monotonic() + 0.01, asyncio.Event().wait)
    Traceback (most recent call last):
        ...
    TimeoutError: no complete response within 0.01 s
    """
    seconds = max(deadline - time.monotonic(), 0.0)

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await call()

    try:
        return asyncio.run_coroutine_threadsafe(bounded(), _event_loop()).result()
    except TimeoutError as error:
        raise TimeoutError(f"no complete response within {seconds:.2g} s") from error


_LOOP: asyncio.AbstractEventLoop | None = None
_LOCK = threading.Lock()


def _event_loop() -> asyncio.AbstractEventLoop:
    global _LOOP  # noqa: PLW0603 - one for all tables of the process
    with _LOCK:
        if _LOOP is None:
            _LOOP = asyncio.new_event_loop()
            threading.Thread(target=_LOOP.run_forever, daemon=True, name="skyband-calls").start()
        return _LOOP


def _close(client: Any, loop: asyncio.AbstractEventLoop) -> None:
    if loop is _LOOP:  # otherwise this is a fork, and the parent closes it
        asyncio.run_coroutine_threadsafe(client.aclose(), loop)


def _reset_after_fork() -> None:
    """Drop the loop, whose thread does not exist in the forked process."""
    global _LOOP, _LOCK
    _LOOP, _LOCK = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


# ---------------------------------------------------------------- rows as a table


def rows_to_table(rows: list[Row], names: Sequence[str], error: TableError | None = None) -> pa.Table:
    """Convert objects to a table with these columns, NULL where a field is missing.

    Raises `error`, or one about values of different types in a column, with the usable rows attached.
    """
    try:
        table = _to_columns(rows, names)
    except _UNSUITABLE as failure:
        error = TableError(f"the rows must fit into one table: {failure}")
        error.__cause__ = failure
        try:
            table = _to_columns(_drop_outliers(rows, names), names)
        except _UNSUITABLE:  # types differ inside nested values
            table = None
    if error is None:
        return table
    error.rows = table if table is not None and table.num_rows else None
    raise error


def _to_columns(rows: list[Row], names: Sequence[str]) -> pa.Table:
    columns = {name: [row.get(name) for row in rows] for name in names}
    for values in columns.values():
        if any(isinstance(value, (dict, list)) for value in values):
            _check_width(values, MAX_VALUES)
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def _check_width(values: list[Any], limit: int) -> int:
    """Raise if nested objects make a struct of more than `limit` values; return the rest of the limit.

    Arrow stores a value, mostly NULL, for every field of every object: 20,000 objects of one field each, all
    different, take 3 GB.
    """
    limit -= len(values)
    if limit < 0:
        raise ValueError(f"nested values must have at most {MAX_VALUES:,} fields in all")
    items = [item for value in values if isinstance(value, list) for item in value]
    if items:
        limit = _check_width(items, limit)
    fields = {name for value in values if isinstance(value, dict) for name in value}
    for name in fields:
        limit = _check_width([value.get(name) if isinstance(value, dict) else None for value in values], limit)
    return limit


def _drop_outliers(rows: list[Row], names: Sequence[str]) -> list[Row]:
    """Keep the rows whose values Arrow can store and have the most frequent type of their column."""
    rows = [row for row in rows if all(_is_storable(row.get(name)) for name in names)]
    for name in names:
        types = [_type_class(row.get(name)) for row in rows]
        usual = Counter(kind for kind in types if kind is not None).most_common(1)
        rows = [row for row, kind in zip(rows, types, strict=True) if kind is None or kind == usual[0][0]]
    return rows


def _is_storable(value: Any) -> bool:
    """Whether Arrow has a type for the value: not for an unpaired surrogate, nor for 10^400."""
    try:
        pa.array([value])
    except _UNSUITABLE:
        return False
    return True


def _type_class(value: Any) -> type | None:
    """Types that can share a column are one class; None shares with all."""
    if isinstance(value, int) and not isinstance(value, bool):
        return float if -(1 << 63) <= value < 1 << 63 else int
    return None if value is None else type(value)
