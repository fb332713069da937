"""Before the shuffle: score the rows, and let only the k best of each pane and group travel.

What travels is one row for each bucket of a partition: the surviving rows as an Arrow blob, and how many rows of
each pane they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.flow.ids import id_numbers, mixed
from skyband.flow.keys import Groups
from skyband.flow.part import Part, joined
from skyband.flow.schema import conform
from skyband.flow.score import scores
from skyband.flow.time import TimeType
from skyband.windows import Clock

if TYPE_CHECKING:
    from skyband.spark.share import Shared, Single

PACKED = "bucket int, counts binary, blob binary"
"""Rows of one bucket of a partition, and how many rows of each pane they stand for, both as Arrow blobs."""

ID = "__skyband_id"
SCORE, TIME, NUMBER = "__skyband_score", "__skyband_time", "__skyband_number"
_MANY = 50_000
_MOST = 100_000  # rows of one blob


class Packer:
    """Takes the rows of one partition, keeps what may matter, and packs it."""

    def __init__(self, share: Single | Shared, keys: list[int]) -> None:
        query = self.query = share.query
        self.clock = share.clock()
        self.keys = np.array(keys, np.int32)
        self.groups = Groups(query.per) if query.per else None
        self.parts: list[Part] = []
        self.counts: dict[tuple[int, int], np.ndarray] = {}  # (bucket, pane end): rows, without score
        self.without_time = 0
        self.limit = _MANY

    def add(self, rows: pa.Table) -> None:
        """Take a batch."""
        rows = in_utc(rows)
        number = rows.column(ID).to_numpy() if ID in rows.column_names else None
        rows = rows.drop_columns([ID]) if number is not None else rows
        time = np.zeros(rows.num_rows, np.int64)
        if self.query.time is not None:
            kind = TimeType.of(self.query, rows.schema.field(self.query.time).type)
            time, missing = kind.micros(rows.column(self.query.time))
            if missing is not None and not self.clock.counts:
                self.without_time += int(missing.sum())
                rows, time = rows.filter(pa.array(~missing)), time[~missing]
                number = None if number is None else number[~missing]
        if self.query.id is not None:
            number = id_numbers(rows.column(self.query.id), self.query.id)
        score = scores(self.query.by, rows)
        score = -score if self.query.ascending else score
        group = np.zeros(len(score), np.int32) if self.groups is None else self.groups.codes(rows)
        part = Part(rows, score, time, number, group)
        if self.prunes:
            self._count(part)
            part = self._pruned(part.take(np.flatnonzero(~np.isnan(score))) if np.isnan(score).any() else part)
        self.parts.append(part)
        if self.prunes and sum(len(p.time) for p in self.parts) > self.limit:
            self.parts = [self._pruned(joined(self.parts))]
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
        found = mixed(table)
        return ((found ^ (found >> np.uint64(32))) % np.uint64(len(self.keys))).astype(np.int64)

    def _count(self, part: Part) -> None:
        """How many rows each pane and bucket stands for."""
        bucket = self.bucket()[part.group]
        pane, ends = self._panes(part.time)
        width = len(self.keys)
        code = pane * width + bucket
        rows = np.bincount(code, minlength=len(ends) * width)
        none = np.bincount(code[np.isnan(part.score)], minlength=len(ends) * width)
        for at in np.flatnonzero(rows):
            key = (int(at % width), int(ends[at // width]))
            self.counts[key] = self.counts.get(key, np.zeros(2, np.int64)) + np.array([rows[at], none[at]])

    def _panes(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each row the number of its pane in this batch, and where the panes end."""
        start = np.asarray(self.clock.pane(time))
        low, high = int(start.min(initial=0)), int(start.max(initial=0))
        if low == high and len(time):
            return np.zeros(len(time), np.int64), np.array([self.clock.pane_end(int(time[0]))])
        regular = isinstance(self.clock, Clock) and self.clock.size % self.clock.slide == 0
        step = self.clock.slide if regular else 1
        if (high - low) // step <= 4 * len(time) and regular:  # close together: no need to sort
            number = (start - low) // step
            there = np.bincount(number) > 0
            ends = self.clock.pane_end(low + step * np.flatnonzero(there))
            return (np.cumsum(there) - 1)[number], np.asarray(ends)
        starts, pane = np.unique(start, return_inverse=True)
        return pane, np.asarray(self.clock.pane_end(starts))

    def _pruned(self, part: Part) -> Part:
        from skyband.kernels.prune import best_rows

        pane, ends = self._panes(part.time)
        groups = 1 if self.groups is None else len(self.groups)
        code, codes = pane * groups + part.group, len(ends) * groups
        if codes > 4 * len(code) + 1024:
            _, code = np.unique(code, return_inverse=True)
            codes = int(code.max(initial=-1)) + 1
        keep = best_rows(part.score, part.time, part.id, code, codes, self.query.k)
        return part if keep.all() else part.take(np.flatnonzero(keep))

    def packed(self) -> Iterator[pa.RecordBatch]:
        """All that is left, one row for each bucket, or more where there is much."""
        whole = joined(self.parts) if self.parts else None
        if whole is not None and self.prunes:
            whole = self._pruned(whole)
        mine = np.empty(0, np.int64) if whole is None else self.bucket()[whole.group]
        if not self.prunes:
            for bucket, rows in enumerate(np.bincount(mine)):
                self.counts[(bucket, NEVER)] = np.array([rows, 0])
        if self.without_time:
            self.counts[(0, NEVER)] = self.counts.get((0, NEVER), 0) + np.array([self.without_time, 0])
        keys: list[int] = []
        counts, blobs = Blobs(), Blobs()
        for bucket in sorted({key[0] for key in self.counts}):
            places = np.flatnonzero(mine == bucket)
            for at in range(0, max(len(places), 1), _MOST):
                keys.append(int(self.keys[bucket]))
                counts.add(self._counted(bucket) if at == 0 else _NO_COUNTS)
                blobs.add(_columns(whole.take(places[at : at + _MOST])) if whole is not None and len(places) else None)
        if keys:
            columns = [pa.array(keys, pa.int32()), counts.column(), blobs.column()]
            yield pa.RecordBatch.from_arrays(columns, ["bucket", "counts", "blob"])

    def _counted(self, bucket: int) -> pa.Table:
        found = [(pane, *both) for (mine, pane), both in self.counts.items() if mine == bucket]
        panes = np.array(found, np.int64).reshape(-1, 3)
        timeless = np.where(panes[:, 0] == NEVER, self.without_time if bucket == 0 else 0, 0)
        return pa.table([*panes.T, timeless], names=COUNTS)


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
_NO_COUNTS = pa.table({name: np.empty(0, np.int64) for name in COUNTS})


def _columns(part: Part) -> pa.Table:
    """Rows with their score, time and number as columns."""
    table = part.rows
    for name, column in ((SCORE, part.score), (TIME, part.time), (NUMBER, part.id)):
        table = table.append_column(name, pa.array(column))
    return table


def unpacked(table: pa.Table, schema: pa.Schema) -> Part:
    """The rows of a blob again, in the types of `schema`; groups are the receiver's to number."""
    rows = conform(table.drop_columns([SCORE, TIME, NUMBER]), schema)
    score, time, number = (table.column(name).to_numpy() for name in (SCORE, TIME, NUMBER))
    return Part(rows, score, time, number, None)


def settled(part: Part) -> Part:
    """Rows by time and id, and those that agree in both by what is in them: never by which task was first."""
    part = part.sorted()
    if part.id is None:
        return part
    same = (np.diff(part.time) == 0) & (np.diff(part.id) == 0)
    if not same.any():
        return part
    doubtful = np.flatnonzero(np.r_[same, False] | np.r_[False, same])
    content = mixed(part.rows.take(pa.array(doubtful)))
    order = np.lexsort((content, part.id[doubtful], part.time[doubtful]))
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
