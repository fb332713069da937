"""Groups as numbers, and ids as numbers that order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import SchemaError

_MISSING = -(1 << 63)


class Groups:
    """Gives each combination of the `per` columns a number, in the order in which they are first seen.

    NULL is a value like any other, as in GROUP BY.

    Examples
    --------
    >>> groups = Groups(["s"])
    >>> groups.codes(pa.table({"s": ["b", "a", "b"]})).tolist(), groups.codes(pa.table({"s": ["a"]})).tolist()
    ([0, 1, 0], [1])
    """

    def __init__(self, per: Sequence[str]) -> None:
        self.per = list(per)
        self._code: dict[tuple[object, ...], int] = {}
        self._seen: list[pa.Table] = []

    def __len__(self) -> int:
        return len(self._code)

    def codes(self, rows: pa.Table) -> np.ndarray:
        """The number of each row's group."""
        code, codes = np.zeros(rows.num_rows, np.int64), 1
        for name in self.per:
            column = _encoded(rows.column(name), name)
            here, more = column.indices.to_numpy(zero_copy_only=False), max(len(column.dictionary), 1)
            code, codes = (here, more) if codes == 1 else (code * more + here, codes * more)
        local, places = _numbered(code, codes)
        known = rows.select(self.per).take(pa.array(places))
        numbers = np.empty(len(places), np.int32)
        before = len(self._code)
        new: list[int] = []
        for i, value in enumerate(zip(*(known.column(name).to_pylist() for name in self.per), strict=True)):
            numbers[i] = self._code.setdefault(value, len(self._code))
            if numbers[i] == before + len(new):
                new.append(i)
        if new:
            self._seen.append(known.take(pa.array(new)))
        return numbers[local]

    def values(self, codes: np.ndarray) -> list[pa.Array]:
        """The `per` columns of rows with these group numbers."""
        table = pa.concat_tables(self._seen, promote_options="default").combine_chunks()
        self._seen = [table]
        return [column.take(pa.array(codes)).combine_chunks() for column in table.columns]


def _numbered(code: np.ndarray, codes: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers from 0 on for codes, in the order in which they are first seen, and where that is."""
    from skyband.kernels.order import first_seen

    if codes > 4 * len(code) + (1 << 20):
        _, code = np.unique(code, return_inverse=True)
        codes = int(code.max(initial=0)) + 1
    place = first_seen(code, codes)
    order = np.argsort(place, kind="stable")
    rank = np.empty(codes, np.int32)
    rank[order] = np.arange(codes, dtype=np.int32)
    return rank[code], place[order][: int((place < len(code)).sum())]


def _encoded(column: pa.ChunkedArray, name: str) -> pa.DictionaryArray:
    if pa.types.is_nested(column.type):
        msg = f"per holds {name!r}, which is {column.type}: group by columns of plain values"
        raise SchemaError(msg)
    if not pa.types.is_dictionary(column.type) or column.null_count:
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        column = pc.dictionary_encode(plain, null_encoding="encode")
    column = column.unify_dictionaries()
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def id_numbers(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """Ids as integers: integers as they are, any other type by its xxhash64 with Spark's seed."""
    from skyband.kernels.xxhash import SEED, hash_bytes, hash_words

    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    missing = column.is_null().to_numpy() if column.null_count else None
    if pa.types.is_integer(kind):
        wide = column.cast(pa.int64(), safe=False)
        return (wide.fill_null(_MISSING) if missing is not None else wide).to_numpy()
    if pa.types.is_decimal(kind):
        # as Spark: a short decimal by its unscaled value, a long one by the bytes of it, big end first
        unscaled = [0 if v is None else int(v.scaleb(kind.scale)) for v in column.to_pylist()]
        if kind.precision <= 18:
            hashed = hash_words(np.array(unscaled, np.int64).view(np.uint64))
        else:
            hashed = hash_bytes(*_runs([v.to_bytes((v.bit_length() + 8) // 8, "big", signed=True) for v in unscaled]))
    elif pa.types.is_floating(kind):
        doubles = column.cast(pa.float64()).fill_null(0.0).to_numpy() + 0.0
        hashed = hash_words(np.ascontiguousarray(doubles).view(np.uint64))
    elif pa.types.is_temporal(kind) and not pa.types.is_date32(kind):
        ticks = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        hashed = hash_words(np.ascontiguousarray(ticks.fill_null(0).to_numpy()).view(np.uint64))
    elif not pa.types.is_nested(kind):
        if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            data = column.cast(pa.large_binary())
        else:
            data = column.cast(pa.large_string()).cast(pa.large_binary())
        whole = data.fill_null(b"").combine_chunks()
        whole = pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
        offsets = np.frombuffer(whole.buffers()[1], np.int64)[whole.offset : whole.offset + len(whole) + 1]
        text = whole.buffers()[2]
        hashed = hash_bytes(np.frombuffer(text if text is not None else b"", np.uint8), offsets)
    else:
        msg = f"id={name!r} is {kind}: order by a column of plain values"
        raise SchemaError(msg)
    if missing is not None:
        hashed[missing] = SEED
    return hashed


def _runs(values: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    return np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *map(len, values)])
