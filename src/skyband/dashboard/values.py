"""Values of Arrow columns as the page shows them and as rows are compared."""

from __future__ import annotations

import math
from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_TEXT = 240
"""Characters of a value that are sent."""

_TIMESTAMP = pa.timestamp("us").id
_NUMBERS = {kind.id for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64())}
_EXACT = 1 << 53  # a browser rounds larger integers


def value_kind(column_type: pa.DataType) -> str:
    """Return how a column is shown: "number", "time" or "text".

    Examples
    --------
    >>> value_kind(pa.int8()), value_kind(pa.timestamp("ns")), value_kind(pa.string())
    ('number', 'time', 'text')
    """
    if pa.types.is_dictionary(column_type):
        return value_kind(column_type.value_type)
    if pa.types.is_integer(column_type) or pa.types.is_floating(column_type) or pa.types.is_decimal(column_type):
        return "number"
    return "time" if pa.types.is_timestamp(column_type) or pa.types.is_date(column_type) else "text"


def to_json(column: pa.ChunkedArray) -> list[Any]:
    """Convert a column to values that JSON can carry.

    Examples
    --------
    >>> to_json(pa.chunked_array([[1, 2**60, None]])), to_json(pa.chunked_array([[b"a"]]))
    ([1, '1152921504606846976', None], ['61'])
    """
    kind = column.type.id
    if kind == _TIMESTAMP:  # naive is UTC; NumPy formats ten times as fast as datetime
        texts = column.to_numpy().astype("datetime64[us]").astype(str).tolist()
        return [None if text == "NaT" else text.removesuffix(".000000") for text in texts]
    if kind in _NUMBERS and not column.null_count:  # faster through NumPy
        values = column.to_numpy()
        exact = values.dtype.kind == "f" or values.dtype.itemsize <= 4 or bool((np.abs(values) <= _EXACT).all())
        if exact and bool(np.isfinite(values).all()):
            return values.tolist()
    return [None if value is None else _to_json(value) for value in column.to_pylist()]


def to_comparable(column: pa.ChunkedArray) -> list[Any]:
    """Convert a column to values that can be compared with each other; timestamps to integers.

    Examples
    --------
    >>> to_comparable(pa.chunked_array([pa.array([5], pa.timestamp("s"))]))
    [5]
    """
    if column.type.id == _TIMESTAMP:
        return column.to_numpy().view("i8").tolist()
    fast = column.type.id in _NUMBERS and not column.null_count
    return column.to_numpy().tolist() if fast else column.to_pylist()


def to_hashable(column: pa.ChunkedArray) -> list[Any]:
    """Convert a column so that equal values have equal hashes: no lists, no NaN."""
    values = to_comparable(column)
    has_nan = pa.types.is_floating(column.type) and any(value is not None and math.isnan(value) for value in values)
    return [repr(value) for value in values] if has_nan or pa.types.is_nested(column.type) else values


def to_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to strings, to name groups.

    Examples
    --------
    >>> to_text(pa.chunked_array([[1, None]])).to_pylist()
    ['1', None]
    """
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        texts = [None if value is None else str(_to_json(value)) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])


def _to_json(value: Any) -> Any:
    convert = _CONVERSIONS.get(type(value))
    return convert(value) if convert is not None else _shorten(str(value))


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


_CONVERSIONS: dict[type, Callable[[Any], Any]] = {
    bool: lambda value: "true" if value else "false",
    int: lambda value: value if -_EXACT <= value <= _EXACT else str(value),
    float: lambda value: value if math.isfinite(value) else str(value),
    str: _shorten,
    bytes: lambda value: _shorten(value[:MAX_TEXT].hex()),
    date: date.isoformat,
}
