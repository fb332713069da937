"""Rows of a Spark task on their way to the buckets: prepared, combined, and packed into one row for each bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.runtime.combine import COUNTS, Origin
from skyband.spark.commands import COMMAND, command_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skyband.runtime.protocols import OperatorSpec

PACKED = "bucket int, input string, counts binary, blob binary"
"""What travels: rows of one bucket and how many of each pane they stand for, both as Arrow streams."""

TIE = "__skyband_tie_hash"
FILE, BLOCK = "__skyband_file", "__skyband_block"
"""Where a row was read: a hash of its file's path, and where its part of the file begins (-1: not a file)."""

_MAX_ROWS, _MAX_BYTES = 50_000, 32 << 20  # that are prepared at a time
NO_COUNTS = pa.table({name: np.empty(0, np.int64) for name in COUNTS})
Pack = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def map_rows(df: DataFrame, pack: Pack) -> DataFrame:
    """Return `df.mapInArrow(pack)`, whatever the columns are called: Spark takes a dot for a path, and `A` for `a`."""
    from skyband.kernels._jit import tier

    names = df.columns

    def named(batch: pa.RecordBatch) -> pa.RecordBatch:
        tier.saw(batch.num_rows)
        return pa.RecordBatch.from_arrays(batch.columns, names=names)

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return pack(map(named, batches))

    return df.toDF(*(f"c{number}" for number in range(len(names)))).mapInArrow(packed, PACKED)


def packer(specs: Sequence[OperatorSpec], keys: Sequence[Sequence[int]]) -> Pack:
    """Return what packs the rows of a task for operators, whose buckets have these keys."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        combiners = [spec.combiner(len(mine)) for spec, mine in zip(specs, keys, strict=True)]
        for table in _gathered(batches):
            rows, commands = command_texts(table, specs[0].query)
            for origin, tie, some in _by_origin(in_utc(rows)):
                for combiner in combiners:
                    combiner.add(some, tie, origin)
            if commands:
                every = [key for mine in keys for key in mine]
                yield from broadcast("commands", pa.table({COMMAND: pa.array(commands, pa.string())}), every)
        out = _PackedRows()
        for combiner, mine in zip(combiners, keys, strict=True):
            for bucket in combiner.counts.buckets():
                counts = combiner.counts.table(bucket)
                for rows in combiner.drain(bucket):
                    out.add(mine[bucket], "rows", counts, rows)
                    counts = NO_COUNTS
                if counts is not NO_COUNTS:
                    out.add(mine[bucket], "rows", counts, None)
        yield from out.batches()

    return pack


def broadcast(name: str, rows: pa.Table, keys: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Return rows of an input, packed for every bucket."""
    out = _PackedRows()
    for key in keys:
        out.add(key, name, NO_COUNTS, rows)
    yield from out.batches()


class _PackedRows:
    """Packed rows, in one batch."""

    def __init__(self) -> None:
        self._keys: list[int] = []
        self._inputs: list[str] = []
        self._counts, self._rows = _Blobs(), _Blobs()

    def add(self, key: int, name: str, counts: pa.Table, rows: pa.Table | None) -> None:
        self._keys.append(key)
        self._inputs.append(name)
        self._counts.add(counts)
        self._rows.add(rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self._keys:
            columns = [pa.array(self._keys, pa.int32()), pa.array(self._inputs, pa.string())]
            columns += [self._counts.column(), self._rows.column()]
            yield pa.RecordBatch.from_arrays(columns, ["bucket", "input", "counts", "blob"])


class _Blobs:
    """Tables as one binary column, written where they stay: what is large is copied once."""

    def __init__(self) -> None:
        self._sink = pa.BufferOutputStream()
        self._ends = [0]

    def add(self, table: pa.Table | None) -> None:
        if table is not None:
            with pa.ipc.new_stream(self._sink, table.schema) as writer:
                writer.write_table(table)
        self._ends.append(self._sink.tell())

    def column(self) -> pa.Array:
        offsets = pa.py_buffer(np.array(self._ends, np.int32))
        return pa.Array.from_buffers(pa.binary(), len(self._ends) - 1, [None, offsets, self._sink.getvalue()])


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Return the rows of some batches at a time: Spark's are small, and each step over them has its cost."""
    some: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            some.append(batch)
        if sum(b.num_rows for b in some) >= _MAX_ROWS or sum(b.nbytes for b in some) >= _MAX_BYTES:
            yield pa.Table.from_batches(some).combine_chunks()
            some = []
    if some:
        yield pa.Table.from_batches(some).combine_chunks()


def _by_origin(rows: pa.Table) -> Iterator[tuple[Origin | None, np.ndarray | None, pa.Table]]:
    """Return the rows in pieces of one origin each, in the order in which they came, with what breaks their ties."""
    helpers: Mapping[str, Any] = {n: rows.column(n).to_numpy() for n in (TIE, FILE, BLOCK) if n in rows.column_names}
    rows = rows.drop_columns(list(helpers))
    if FILE not in helpers or not rows.num_rows:
        yield None, helpers.get(TIE), rows
        return
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    file, block = helpers[FILE], helpers[BLOCK]
    bounds = np.flatnonzero(np.r_[True, (np.diff(file) != 0) | (np.diff(block) != 0), True])
    for low, high in zip(bounds[:-1], bounds[1:], strict=True):
        segment = partition if block[low] < 0 else int(file[low])
        yield Origin(segment, int(block[low])), None, rows.slice(low, high - low)


def in_utc(rows: pa.Table) -> pa.Table:
    """Return the rows with all times in UTC, so that the session's zone cannot change a type."""
    schema = pa.schema([pa.field(f.name, utc_type(f.type)) for f in rows.schema])
    return rows if schema.types == rows.schema.types else rows.cast(schema)


def utc_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with every zone in it as UTC."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(utc_type(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(utc_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(utc_type(kind.key_type), utc_type(kind.item_type))
    return kind
