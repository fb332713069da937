"""Ids as numbers that order: integers as they are, anything else by Spark's hash of it."""

from __future__ import annotations

from decimal import localcontext
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.errors import SchemaError
from skyband.runtime.arrow import plain, plain_type
from skyband.runtime.schema import TICKS

_LOWEST = -(1 << 63)


class Ids(NamedTuple):
    """Ids as numbers that order: the larger ranks first, and one that is missing after all others."""

    number: np.ndarray  # int64
    missing: np.ndarray | None = None  # None: none is


def read_ids(column: pa.ChunkedArray, name: str) -> Ids:
    """Return ids as integers: integers as they are, any other type by its xxhash64 with Spark's seed.

    Examples
    --------
    >>> read_ids(pa.chunked_array([["hello", None]]), "i")
    Ids(number=array([-4367754540140381902,                   42]), missing=array([False,  True]))
    """
    kind = plain_type(column.type)
    if pa.types.is_nested(kind):
        raise SchemaError(f"id must name a column of plain values, got {name!r} of type {column.type}")
    column = plain(column)
    missing = column.is_null().to_numpy() if column.null_count else None
    if pa.types.is_uint64(kind):  # the sign bit turned keeps the order
        number = column.fill_null(0).to_numpy().view(np.int64) ^ _LOWEST
    elif pa.types.is_integer(kind):
        number = column.cast(pa.int64(), safe=False).fill_null(_LOWEST).to_numpy()
    else:
        number = hashes(column)
    return Ids(number, missing)


def id_numbers(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """Return the numbers of ids that are never missing, such as keys.

    Examples
    --------
    >>> id_numbers(pa.chunked_array([[7, 3]]), "i").tolist()
    [7, 3]
    """
    return read_ids(column, name).number


def hashes(column: pa.ChunkedArray) -> np.ndarray:
    """Return the xxhash64 of each value, as Spark computes it; of NULL it is the seed."""
    from skyband.kernels.xxhash import SEED, hash_bytes, hash_words

    kind = column.type
    if pa.types.is_decimal(kind):
        hashed = _hash_decimals(column)
    elif pa.types.is_boolean(kind) or pa.types.is_date32(kind) or pa.types.is_float32(kind) or _narrow(kind):
        whole = column.cast(pa.int8()) if pa.types.is_boolean(kind) else column
        numbers = whole.cast(pa.float32() if pa.types.is_float32(kind) else pa.int32()).fill_null(0).to_numpy()
        four = np.ascontiguousarray(numbers if numbers.dtype == np.int32 else _canonical(numbers))
        hashed = hash_bytes(four.view(np.uint8), np.arange(0, 4 * len(four) + 4, 4))
    elif pa.types.is_floating(kind):
        hashed = hash_words(_words(_canonical(column.cast(pa.float64()).fill_null(0.0).to_numpy())))
    elif pa.types.is_integer(kind):
        hashed = hash_words(_words(column.cast(pa.int64(), safe=False).fill_null(0).to_numpy()))
    elif pa.types.is_time(kind) or pa.types.is_duration(kind):
        ticks = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
        hashed = hash_words(_words(ticks.fill_null(0).to_numpy()))
    elif pa.types.is_interval(kind):
        whole = pa.binary(kind.bit_width // 8)
        hashed = hash_bytes(*_runs(pa.chunked_array([chunk.view(whole) for chunk in column.chunks], whole)))
    elif pa.types.is_temporal(kind):
        hashed = _hash_times(column)
    else:
        hashed = hash_bytes(*_runs(column))
    if column.null_count:
        hashed[column.is_null().to_numpy()] = SEED
    return hashed


def row_hash(table: pa.Table) -> np.ndarray:
    """Return one number for each row, from all its columns: the same wherever and whenever it is computed.

    Examples
    --------
    >>> one, other = row_hash(pa.table({"a": [1, 1], "b": [["x"], ["y"]]})).tolist()
    >>> one == row_hash(pa.table({"a": [1], "b": [["x"]]})).tolist()[0], one == other
    (True, False)
    """
    found = np.zeros(table.num_rows, np.uint64)
    for column in table.columns:
        values = plain(column)
        if pa.types.is_nested(values.type):
            values = pa.chunked_array([pa.array(map(repr, values.to_pylist()), pa.string())])
        found = found * np.uint64(31) + hashes(values).view(np.uint64)
    return found


def _narrow(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) and kind.bit_width < 64 and kind != pa.uint32()


def _canonical(numbers: np.ndarray) -> np.ndarray:
    """Return floats with one bit pattern for both zeros, and one for every NaN."""
    with np.errstate(invalid="ignore"):  # of a signalling NaN
        found = numbers + numbers.dtype.type(0)
    found[np.isnan(found)] = np.nan
    return found


def _words(numbers: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(numbers).view(np.uint64)


def _hash_times(column: pa.ChunkedArray) -> np.ndarray:
    """Hash timestamps and dates by their microseconds; those that are not whole ones by the hash of their ticks."""
    from skyband.kernels.xxhash import hash_words

    kind = column.type
    given = column.cast(pa.int64()).fill_null(0).to_numpy()
    unit = kind.unit if pa.types.is_timestamp(kind) else "ms"
    if unit == "us":
        return hash_words(_words(given))
    per, parts = TICKS[unit]
    micros = given * per // parts
    hashed = hash_words(_words(micros))
    rounded = micros * parts // per != given
    if rounded.any():
        hashed[rounded] = hash_words(_words(hash_words(_words(given[rounded]))))
    return hashed


def _hash_decimals(column: pa.ChunkedArray) -> np.ndarray:
    """Hash a short decimal by its unscaled value, a long one by the bytes of it, big end first."""
    from skyband.kernels.xxhash import hash_bytes, hash_words

    kind = column.type
    with localcontext(prec=kind.precision):  # or digits beyond the 28th would be rounded
        unscaled = [0 if value is None else int(value.scaleb(kind.scale)) for value in column.to_pylist()]
    if kind.precision <= 18:
        return hash_words(_words(np.array(unscaled, np.int64)))
    parts = [value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True) for value in unscaled]
    return hash_bytes(np.frombuffer(b"".join(parts), np.uint8), np.cumsum([0, *map(len, parts)]))


def _runs(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """Return texts or bytes as one run of bytes, and where each begins."""
    kind = column.type
    if not (pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        column = column.cast(pa.large_string())
    whole = column.cast(pa.large_binary()).fill_null(b"").combine_chunks()
    whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
    offsets = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole) + 1]
    text = whole.buffers()[2]
    return np.frombuffer(text if text is not None else b"", np.uint8), offsets
