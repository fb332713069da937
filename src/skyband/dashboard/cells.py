"""Cells of a table as the page shows them: numbers, moments, and text that is not too long."""

from __future__ import annotations

import math
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST = 240
"""Characters of a cell that are sent."""

_TIMESTAMP = pa.timestamp("us").id
_NUMBERS = {of.id for of in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64())}  # asked for at every cell
_EXACT = 1 << 53  # whole numbers beyond it would be rounded by a browser


def kind(of: pa.DataType) -> str:
    """How a column is shown: "number", "time" or "text".

    Examples
    --------
    >>> kind(pa.int8()), kind(pa.timestamp("ns")), kind(pa.string())
    ('number', 'time', 'text')
    """
    if pa.types.is_dictionary(of):
        return kind(of.value_type)
    if pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of):
        return "number"
    return "time" if pa.types.is_timestamp(of) or pa.types.is_date(of) else "text"


def plain(column: pa.ChunkedArray) -> list[Any]:
    """The cells of `column` as JSON can carry them.

    Examples
    --------
    >>> plain(pa.chunked_array([[1, 2**60, None]])), plain(pa.chunked_array([[b"a"]]))
    ([1, '1152921504606846976', None], ['61'])
    """
    kind_of = column.type.id
    if kind_of == _TIMESTAMP:  # naive is UTC; NumPy writes them ten times faster than datetime
        return [_moment(text) for text in column.to_numpy().astype("datetime64[us]").astype(str).tolist()]
    if kind_of in _NUMBERS and not column.null_count:  # NumPy makes a list of them faster than Arrow
        values = column.to_numpy()
        exact = values.dtype.kind == "f" or values.dtype.itemsize <= 4 or bool((np.abs(values) <= _EXACT).all())
        if exact and bool(np.isfinite(values).all()):
            return values.tolist()
    return [None if value is None else _cell(value) for value in column.to_pylist()]


def first(column: pa.ChunkedArray) -> Any:
    """The first cell of `column`, as `plain` would show it."""
    return spelled(raw(column.slice(0, 1))[0], column.type)


def spelled(value: Any, of: pa.DataType) -> Any:
    """A cell as `raw` gives it, as `plain` would show it; the same moment is written once for all boards.

    Examples
    --------
    >>> spelled(6, pa.timestamp("s")), spelled(6, pa.int64())
    ('1970-01-01T00:00:06', 6)
    """
    if of.id == _TIMESTAMP:
        return _spelled(value, of.unit)
    return None if value is None else _cell(value)


@lru_cache(maxsize=4096)
def _spelled(moment: int | None, unit: str) -> str | None:
    return None if moment is None else _moment(str(np.array(moment, f"datetime64[{unit}]").astype("datetime64[us]")))


def raw(column: pa.ChunkedArray) -> list[Any]:
    """The cells of `column` to compare with each other; moments as numbers.

    Examples
    --------
    >>> raw(pa.chunked_array([pa.array([5], pa.timestamp("s"))]))
    [5]
    """
    kind_of = column.type.id
    if kind_of == _TIMESTAMP:
        return column.to_numpy().view("i8").tolist()
    return column.to_numpy().tolist() if kind_of in _NUMBERS and not column.null_count else column.to_pylist()


def _moment(text: str) -> str | None:
    """A moment as NumPy writes it, without a fraction that says nothing."""
    return None if text == "NaT" else text.removesuffix(".000000")


def texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The cells of `column` as text, to name groups by.

    Examples
    --------
    >>> texts(pa.chunked_array([[1, None]])).to_pylist()
    ['1', None]
    """
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.chunked_array(
            [pa.array([None if v is None else str(_cell(v)) for v in column.to_pylist()], pa.string())]
        )


def cut(text: str) -> str:
    """`text`, shortened to what is sent."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _cell(value: Any) -> Any:
    shown = _SHOWN.get(type(value))
    return shown(value) if shown is not None else cut(str(value))


def _float(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


_SHOWN: dict[type, Callable[[Any], Any]] = {
    bool: lambda value: "true" if value else "false",
    int: lambda value: value if -_EXACT <= value <= _EXACT else str(value),
    float: _float,
    str: cut,
    bytes: lambda value: cut(value[:LONGEST].hex()),
    date: date.isoformat,
}
