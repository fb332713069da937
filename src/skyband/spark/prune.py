"""Before the shuffle: score the rows, and let only the k best of each pane and group travel.

What travels is one row for each pane and bucket of a partition: the surviving rows as an Arrow blob, and
how many rows they stand for.
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
from skyband.spark.state import write
from skyband.windows import Clock

if TYPE_CHECKING:
    from skyband.query import TopK

PACKED = "bucket int, pane long, rows long, without_score long, without_time long, blob binary"
"""One row for each bucket and pane of a partition. `pane` is its end in microseconds, NULL where it has none."""

ID = "__skyband_id"
SCORE, TIME, NUMBER = "__skyband_score", "__skyband_time", "__skyband_number"
_MANY = 50_000


class Packer:
    """Takes the rows of one partition, keeps what may matter, and packs it."""

    def __init__(self, query: TopK, keys: list[int]) -> None:
        self.query = query
        self.clock = Clock.of(query.window)
        self.keys = np.array(keys, np.int32)
        self.groups = Groups(query.per) if query.per else None
        self.parts: list[Part] = []
        self.counts: dict[tuple[int | None, int], np.ndarray] = {}  # (pane end, bucket): rows, without score
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
            key = (int(ends[at // width]), int(at % width))
            self.counts[key] = self.counts.get(key, np.zeros(2, np.int64)) + np.array([rows[at], none[at]])

    def _panes(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each row the number of its pane in this batch, and where the panes end."""
        if len(time) and self.clock.pane(int(time.min())) == self.clock.pane(int(time.max())):
            return np.zeros(len(time), np.int64), np.array([self.clock.pane_end(int(time[0]))])
        ends, pane = np.unique(np.asarray(self.clock.pane_end(time)), return_inverse=True)
        return pane, ends

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
        """All that is left, one row for each bucket and pane."""
        bucket = self.bucket()
        whole = joined(self.parts) if self.parts else None
        if whole is not None and self.prunes:
            whole = self._pruned(whole)
        found: dict[tuple[int | None, int], bytes] = {}
        if whole is not None and len(whole.score):
            mine = bucket[whole.group]
            ends = np.asarray(self.clock.pane_end(whole.time)) if self.prunes else np.zeros(len(mine), np.int64)
            order = np.lexsort((mine, ends))
            cuts = np.flatnonzero((np.diff(ends[order]) != 0) | (np.diff(mine[order]) != 0)) + 1
            for places in np.split(order, cuts):
                pane = int(ends[places[0]]) if self.prunes else None
                found[(pane, int(mine[places[0]]))] = write(_columns(whole.take(np.sort(places))))
                if not self.prunes:
                    self.counts[(None, int(mine[places[0]]))] = np.array([len(places), 0])
        lines = [
            (int(self.keys[b]), pane, int(rows), int(none), 0, found.get((pane, b)))
            for (pane, b), (rows, none) in self.counts.items()
        ]
        if self.without_time:
            lines.append((int(self.keys[0]), None, self.without_time, 0, self.without_time, None))
        if lines:
            kinds = (pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.int64(), pa.binary())
            columns = [pa.array(column, kind) for column, kind in zip(zip(*lines, strict=True), kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(
                columns, ["bucket", "pane", "rows", "without_score", "without_time", "blob"]
            )


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
