"""Before the shuffle: score the rows, and let only the k best of each pane and group travel.

What travels is one row for each bucket of a partition: the surviving rows as an Arrow blob, and how many rows of
each pane they stand for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.errors import QueryError
from skyband.runtime.batch import PreparedBatch, joined
from skyband.runtime.groups import Groups
from skyband.runtime.ids import read_ids, row_hash
from skyband.runtime.schema import conform
from skyband.runtime.time_type import TimeType
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.spark.joined import Joined
    from skyband.spark.share import Shared, Single

PACKED = "bucket int, counts binary, blob binary"
"""Rows of one bucket of a partition, and how many rows of each pane they stand for, both as Arrow blobs."""

ID = "__skyband_id"
FILE, BLOCK = "__skyband_file", "__skyband_block"
"""Where a row was read: a hash of its file's path, and where its part of the file begins (-1: no file)."""

SCORE, TIME, NUMBER = "__skyband_score", "__skyband_time", "__skyband_number"
_MANY = 50_000
_MOST = 100_000  # rows of one blob


class Packer:
    """Takes the rows of one partition, keeps what may matter, and packs it."""

    def __init__(self, share: Single | Shared | Joined, keys: list[int]) -> None:
        self.share, query = share, share.query
        self.query = query
        self.clock = share.clock()
        self.keys = np.array(keys, np.int32)
        self.groups = Groups(query.per) if query.per else None
        self.parts: list[PreparedBatch] = []
        self.origins: list[Origin | None] = []  # of each part
        self.counts = Counts(len(keys))
        self.limit = _MANY

    def add(self, rows: pa.Table) -> None:
        """Take a batch."""
        for origin, some in _by_origin(rows):
            self._add(some, origin if self.clock.counts and self.query.id is None else None)

    def _add(self, rows: pa.Table, origin: Origin | None) -> None:
        rows = in_utc(rows)
        number = rows.column(ID).to_numpy() if ID in rows.column_names else None
        rows = rows.drop_columns([ID]) if number is not None else rows
        time = np.zeros(rows.num_rows, np.int64)
        if self.query.time is not None:
            kind = TimeType.of(self.query, rows.schema.field(self.query.time).type)
            time, missing = kind.micros(rows.column(self.query.time))
            if missing is not None and not self.clock.counts:
                self.counts.timeless(int(missing.sum()))
                rows, time = rows.filter(pa.array(~missing)), time[~missing]
                number = None if number is None else number[~missing]
        missing_id = None
        if self.query.id is not None:
            number, missing_id = read_ids(rows.column(self.query.id), self.query.id)
        score = self.share.values(rows)
        group = np.zeros(len(score), np.int32) if self.groups is None else self.groups.codes(rows)
        part = PreparedBatch(rows, score, time, number, group, missing_id)
        if self.prunes:
            pane, ends = self._panes(time)
            unscored = np.isnan(score)
            self.counts.add(ends, None if self.groups is None else self.bucket()[group], unscored, pane)
            if unscored.any():
                there = np.flatnonzero(~unscored)
                part, pane = part.take(there), pane[there]
            part = self._pruned(part, pane, ends)
        else:
            bucket = None if self.groups is None else self.bucket()[group]
            self.counts.add(np.full(len(time), NEVER), bucket, np.zeros(len(time), np.bool_))
        self.parts.append(part)
        self.origins.append(origin)
        if self.prunes and sum(len(p.time) for p in self.parts) > self.limit:
            whole = joined(self.parts)
            self.parts, self.origins = [self._pruned(whole, *self._panes(whole.time))], [None]
            self.limit = max(_MANY, 2 * len(self.parts[0].time))

    @property
    def prunes(self) -> bool:
        """Whether rows can be pruned here: time windows with a slide. Others need every row."""
        return not self.clock.counts and self.clock.slide > 0

    def bucket(self) -> np.ndarray:
        """The bucket of each group: by its hash, so that every partition and every restart agrees."""
        if self.groups is None:
            return np.zeros(1, np.int64)
        table = self.groups.table()
        if table is None:
            return np.zeros(0, np.int64)
        return placed(row_hash(table), len(self.keys))

    def _panes(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each row the number of its pane in this batch, and where the panes end."""
        if not len(time):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        start = np.asarray(self.clock.pane(time))
        low, high = int(start.min()), int(start.max())
        if low == high:
            return np.zeros(len(time), np.int64), np.array([self.clock.pane_end(low)])
        regular = isinstance(self.clock, WindowAssigner) and self.clock.size % self.clock.slide == 0
        step = self.clock.slide if regular else 1
        if (high - low) // step <= 4 * len(time) and regular:  # close together: no need to sort
            ends = self.clock.pane_end(low + step * np.arange((high - low) // step + 1))
            return (start - low) // step, np.asarray(ends)
        starts, pane = np.unique(start, return_inverse=True)
        return pane, np.asarray(self.clock.pane_end(starts))

    def _pruned(self, part: PreparedBatch, pane: np.ndarray, ends: np.ndarray) -> PreparedBatch:
        from skyband.kernels.select import best_of_panes

        groups = 1 if self.groups is None else len(self.groups)
        code, codes = pane * groups + part.group, len(ends) * groups
        if codes > 4 * len(code) + 1024:
            _, code = np.unique(code, return_inverse=True)
            codes = int(code.max(initial=-1)) + 1
        keep = best_of_panes(part.score, part.time, part.id_order(), code, codes, self.query.k)
        return part if keep.all() else part.take(np.flatnonzero(keep))

    def packed(self) -> Iterator[pa.RecordBatch]:
        """All that is left, one row for each bucket, or more where there is much."""
        wholes = []
        for origin, parts in groupby(zip(self.origins, self.parts, strict=True), key=lambda found: found[0]):
            whole = joined([part for _, part in parts])
            if self.prunes:
                whole = self._pruned(whole, *self._panes(whole.time))
            wholes.append((origin, whole, self.bucket()[whole.group]))
        out = Packed()
        for bucket in self.counts.buckets():
            key, counts = int(self.keys[bucket]), self.counts.table(bucket)
            for origin, whole, mine in wholes:
                places = np.flatnonzero(mine == bucket)
                for piece, at in enumerate(range(0, len(places), _MOST)):
                    rows = _columns(whole.take(places[at : at + _MOST]))
                    out.add(key, counts, rows if origin is None else origin._replace(piece=piece).noted(rows))
                    counts = NO_COUNTS
            if counts is not NO_COUNTS:
                out.add(key, counts, None)
        yield from out.batches()


class Origin(NamedTuple):
    """Where rows come from, in whose order they came: a file or a partition, and which part of it."""

    segment: int  # hash of the file's path; number of the partition if rows are not read from files
    block: int  # where the part of the file begins
    piece: int = 0

    def noted(self, rows: pa.Table) -> pa.Table:
        """The rows with their origin in the metadata of the schema."""
        return rows.replace_schema_metadata({_ORIGIN: json.dumps(self)})

    @classmethod
    def of(cls, rows: pa.Table) -> Origin | None:
        """The origin that was noted; None where rows have an order of their own."""
        found = (rows.schema.metadata or {}).get(_ORIGIN)
        return None if found is None else cls(*json.loads(found))


_ORIGIN = b"skyband origin"


def _by_origin(rows: pa.Table) -> Iterator[tuple[Origin | None, pa.Table]]:
    """The rows in pieces of one origin each, in the order in which they came."""
    if FILE not in rows.column_names or not rows.num_rows:
        yield None, rows.drop_columns([name for name in (FILE, BLOCK) if name in rows.column_names])
        return
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    file, block = (rows.column(name).to_numpy() for name in (FILE, BLOCK))
    rows = rows.drop_columns([FILE, BLOCK])
    bounds = np.flatnonzero(np.r_[True, (np.diff(file) != 0) | (np.diff(block) != 0), True])
    for low, high in zip(bounds[:-1], bounds[1:], strict=True):
        segment = partition if block[low] < 0 else int(file[low])
        yield Origin(segment, int(block[low])), rows.slice(low, high - low)


class Counts:
    """How many rows each bucket and pane stands for, how many of them without a score, and rows without a time."""

    def __init__(self, buckets: int) -> None:
        self._width = buckets
        self._found: dict[tuple[int, int], np.ndarray] = {}  # (bucket, pane end): rows, without score, without time

    def add(
        self, ends: np.ndarray, bucket: np.ndarray | None, none: np.ndarray, pane: np.ndarray | None = None
    ) -> None:
        """Rows by where their pane ends; with `pane`, by its number in `ends`. Without `bucket`, all of the first."""
        if pane is None:
            ends, pane = np.unique(ends, return_inverse=True)
        code = pane * self._width + (0 if bucket is None else bucket)
        rows = np.bincount(code, minlength=len(ends) * self._width)
        without = np.bincount(code[none], minlength=len(ends) * self._width)
        for at in np.flatnonzero(rows):
            self._more(int(at % self._width), int(ends[at // self._width]), int(rows[at]), int(without[at]), 0)

    def timeless(self, rows: int) -> None:
        """Rows without a time."""
        self._more(0, NEVER, rows, 0, rows)

    def _more(self, bucket: int, end: int, *counts: int) -> None:
        self._found[(bucket, end)] = self._found.get((bucket, end), 0) + np.array(counts, np.int64)

    def buckets(self) -> list[int]:
        """Those that stand for any row."""
        return sorted({bucket for bucket, _ in self._found})

    def table(self, bucket: int) -> pa.Table:
        """The counts of a bucket, a row for each pane."""
        lines = [(end, *counts) for (mine, end), counts in self._found.items() if mine == bucket]
        return pa.table(list(np.array(lines, np.int64).reshape(-1, 4).T), names=COUNTS)

    @staticmethod
    def read(table: pa.Table, edge: int, total: dict[str, int]) -> None:
        """Add the counts of a table to `total`; rows of panes that have closed by `edge` are late."""
        counted = {name: column.to_numpy() for name, column in zip(COUNTS, table.columns, strict=True)}
        late = counted["pane"] <= edge
        total["late"] += int(counted["rows"][late].sum())
        total["without_score"] += int(counted["without_score"][~late].sum())
        for name in ("rows", "without_time"):
            total[name] += int(counted[name].sum())


class Packed:
    """Rows for the shuffle: a bucket, its counts, its rows."""

    def __init__(self) -> None:
        self._keys: list[int] = []
        self._counts, self._rows = Blobs(), Blobs()

    def add(self, key: int, counts: pa.Table, rows: pa.Table | None) -> None:
        """One row."""
        self._keys.append(key)
        self._counts.add(counts)
        self._rows.add(rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All of them."""
        if self._keys:
            columns = [pa.array(self._keys, pa.int32()), self._counts.column(), self._rows.column()]
            yield pa.RecordBatch.from_arrays(columns, ["bucket", "counts", "blob"])


def placed(number: np.ndarray, buckets: int) -> np.ndarray:
    """The bucket of each number."""
    return ((number ^ (number >> np.uint64(32))) % np.uint64(buckets)).astype(np.int64)


class Blobs:
    """Tables as one binary column, written where they stay: what is large is copied once."""

    def __init__(self) -> None:
        self.sink = pa.BufferOutputStream()
        self.ends = [0]

    def add(self, table: pa.Table | None) -> None:
        """One more value; of None, an empty one."""
        if table is not None:
            with pa.ipc.new_stream(self.sink, table.schema) as writer:
                writer.write_table(table)
        self.ends.append(self.sink.tell())

    def column(self) -> pa.Array:
        """All of them."""
        offsets = pa.py_buffer(np.array(self.ends, np.int32))
        return pa.Array.from_buffers(pa.binary(), len(self.ends) - 1, [None, offsets, self.sink.getvalue()])


NEVER = (1 << 62) - 1  # the end of a pane that never closes: rows without a time, and where nothing is pruned
COUNTS = ["pane", "rows", "without_score", "without_time"]
NO_COUNTS = pa.table({name: np.empty(0, np.int64) for name in COUNTS})


def _columns(part: PreparedBatch) -> pa.Table:
    """Rows with their score, time and number as columns."""
    table = part.rows
    score = pa.array(part.score.reshape(-1))
    if part.score.ndim > 1:  # a point
        score = pa.FixedSizeListArray.from_arrays(score, part.score.shape[1])
    table = table.append_column(SCORE, score).append_column(TIME, pa.array(part.time))
    return table if part.id is None else table.append_column(NUMBER, pa.array(part.id, mask=part.missing))


def unpacked(table: pa.Table, schema: pa.Schema) -> PreparedBatch:
    """The rows of a blob again, in the types of `schema`; groups are the receiver's to number."""
    numbered = NUMBER in table.column_names
    rows = conform(table.drop_columns([SCORE, TIME, *([NUMBER] if numbered else [])]), schema)
    time, number, missing = table.column(TIME).to_numpy(), None, None
    if numbered:
        ids = table.column(NUMBER)
        missing = ids.is_null().to_numpy() if ids.null_count else None
        number = ids.fill_null(0).to_numpy()
    score = table.column(SCORE).combine_chunks()
    if pa.types.is_fixed_size_list(score.type):
        point = score.flatten().to_numpy().reshape(-1, score.type.list_size)
        return PreparedBatch(rows, point, time, number, None, missing)
    return PreparedBatch(rows, score.to_numpy(zero_copy_only=False), time, number, None, missing)


def arranged(parts: Sequence[PreparedBatch], origins: Sequence[Origin | None], query: TopK) -> PreparedBatch:
    """All rows of a batch in the order in which they are taken.

    Rows with an id go by time and id. Rows of counting windows without one go in the order in which they came, which
    is known within a file or a partition; those of several go by `time`.
    """
    if origins[0] is None:
        return settled(joined(list(parts)))
    order = sorted(range(len(parts)), key=lambda at: origins[at])  # type: ignore[arg-type, return-value]
    whole = joined([parts[at] for at in order])
    segments = np.repeat([origins[at].segment for at in order], [len(parts[at].time) for at in order])  # type: ignore[union-attr]
    if (segments == segments[:1]).all():
        return whole
    if query.time is not None:
        return whole.take(np.argsort(whole.time, kind="stable"))
    group = Groups(query.per).codes(whole.rows) if query.per else np.zeros(len(segments), np.int32)
    pairs = np.unique(np.stack([group, np.unique(segments, return_inverse=True)[1]]), axis=1)
    if len(np.unique(pairs[0])) < pairs.shape[1]:
        msg = (
            f"counting windows need rows in a defined order, got rows of a batch from {len(np.unique(segments))} files "
            f"or partitions and neither time= nor id=: write time= or id=, or read one file or partition at a time"
        )
        raise QueryError(msg)
    return whole


def settled(part: PreparedBatch) -> PreparedBatch:
    """Rows by time and id, and those that agree in both by what is in them: never by which task was first."""
    part = part.sorted()
    ids = part.id_order()
    if ids is None:
        return part
    same = (np.diff(part.time) == 0) & (np.diff(ids) == 0)
    if not same.any():
        return part
    doubtful = np.flatnonzero(np.r_[same, False] | np.r_[False, same])
    content = row_hash(part.rows.take(pa.array(doubtful)))
    order = np.lexsort((content, ids[doubtful], part.time[doubtful]))
    places = np.arange(len(part.time))
    places[doubtful] = doubtful[order]
    return part.take(places)


def in_utc(rows: pa.Table) -> pa.Table:
    """Times with a zone as UTC, so that the session's zone cannot change a type."""
    schema = pa.schema([pa.field(f.name, utc_type(f.type)) for f in rows.schema])
    return rows if schema.types == rows.schema.types else rows.cast(schema)


def utc_type(kind: pa.DataType) -> pa.DataType:
    """A type with every zone in it as UTC."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(utc_type(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(utc_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(utc_type(kind.key_type), utc_type(kind.item_type))
    return kind
