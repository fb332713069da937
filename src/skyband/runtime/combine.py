"""Before the shuffle: what must travel of the rows of one task, and how it arrives."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.errors import QueryError
from skyband.runtime.batch import PreparedBatch, concat_batches
from skyband.runtime.groups import Groups, GroupTracker
from skyband.runtime.ids import row_hash
from skyband.runtime.row_store import RowStore
from skyband.runtime.schema import TimeType, conform
from skyband.windows import MAX_TIME, WindowAssigner

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.runtime.protocols import Assigner, OperatorSpec

_MAX_BUFFERED = 50_000  # rows that are collected before they are pruned again
_MAX_TRAVELLING = 100_000  # rows of one table
_SCORE, _TIME, _TIE = "__skyband_score", "__skyband_time", "__skyband_tie"
_ORIGIN = b"skyband origin"
COUNTS = ("pane", "rows", "without_score", "without_time")

Select = Callable[[PreparedBatch, np.ndarray, int, RowStore], np.ndarray]
"""Which rows must travel: of a batch, given the code of each row's pane and group, and how many there are."""


class Origin(NamedTuple):
    """Where rows come from, in whose order they came: a file or a partition, and which part of it."""

    segment: int  # hash of the file's path; number of the partition if rows are not read from files
    block: int  # where the part of the file begins
    piece: int = 0


class PaneCounts:
    """How many rows of each bucket and pane there were, how many of them without a score, and rows without a time.

    They travel with the rows, since only behind the shuffle it is known which panes have closed.
    """

    def __init__(self, buckets: int) -> None:
        self._buckets = buckets
        self._found: dict[tuple[int, int], np.ndarray] = {}  # (bucket, pane end): rows, without score, without time

    def add(
        self, ends: np.ndarray, bucket: np.ndarray | None, without: np.ndarray, pane: np.ndarray | None = None
    ) -> None:
        """Count rows by where their pane ends; with `pane`, by its place in `ends`. No `bucket`: it is the first."""
        if pane is None:
            ends, pane = np.unique(ends, return_inverse=True)
        code = pane * self._buckets + (0 if bucket is None else bucket)
        rows = np.bincount(code, minlength=len(ends) * self._buckets)
        unscored = np.bincount(code[without], minlength=len(ends) * self._buckets)
        for at in np.flatnonzero(rows):
            self._count(int(at % self._buckets), int(ends[at // self._buckets]), int(rows[at]), int(unscored[at]), 0)

    def add_without_time(self, rows: int) -> None:
        """Count rows without a time."""
        self._count(0, MAX_TIME, rows, 0, rows)

    def _count(self, bucket: int, end: int, *counts: int) -> None:
        self._found[bucket, end] = self._found.get((bucket, end), 0) + np.array(counts, np.int64)

    def buckets(self) -> list[int]:
        """Return those that any row belongs to."""
        return sorted({bucket for bucket, _ in self._found})

    def table(self, bucket: int) -> pa.Table:
        """Return the counts of a bucket, a row for each pane."""
        lines = [(end, *counts) for (mine, end), counts in self._found.items() if mine == bucket]
        return pa.table(list(np.array(lines, np.int64).reshape(-1, len(COUNTS)).T), names=COUNTS)


def read_counts(
    table: pa.Table, late_panes: Callable[[np.ndarray], np.ndarray], counters: dict[str, int], unranked: str
) -> None:
    """Add the counts of a table to `counters`; `late_panes` returns of which panes rows are late, given their ends.

    `unranked` is the counter of rows without a score.
    """
    pane, rows, without_score, without_time = (column.to_numpy() for column in table.columns)
    late = late_panes(pane)
    found = {
        "late_rows": rows[late],
        unranked: without_score[~late],
        "rows": rows,
        "without_time": without_time,
    }
    for name, counts in found.items():
        counters[name] = counters.get(name, 0) + int(counts.sum())


class Combiner(ABC):
    """Takes the rows of one task, and keeps what must travel to each bucket."""

    def __init__(self, spec: OperatorSpec, buckets: int) -> None:
        self.spec, self.query, self.buckets = spec, spec.query, buckets
        self.counts = PaneCounts(buckets)

    @abstractmethod
    def add(self, rows: pa.Table, tie: np.ndarray | None = None, origin: Origin | None = None) -> None:
        """Take a batch; `tie` breaks ties between rows without an id, `origin` tells where they come from."""

    @abstractmethod
    def drain(self, bucket: int) -> Iterator[pa.Table]:
        """Return what is left for a bucket."""

    def times(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the times of the rows, and the places of those that have one (None: all)."""
        name = self.query.time
        if name is None:
            return np.zeros(rows.num_rows, np.int64), None
        kind = TimeType.of(self.query, rows.schema.field(name).type)
        time, missing = kind.micros(rows.column(name))
        if missing is None or self.query.window.counts:
            return time, None
        self.counts.add_without_time(int(missing.sum()))
        places = np.flatnonzero(~missing)
        return time[places], places


class RowCombiner(Combiner):
    """Lets rows travel with their score, time and tie: of each pane and group those that `select` keeps.

    Counting windows, and those after every row, need every row.
    """

    def __init__(self, spec: OperatorSpec, buckets: int, select: Select) -> None:
        super().__init__(spec, buckets)
        self._assigner, self._select = spec.assigner(), select
        self._prunes = not self._assigner.counts and self._assigner.slide > 0
        self._groups = GroupTracker(spec.per, forgets=False) if spec.per else None
        self._rows = RowStore()
        self._batches: list[tuple[Origin | None, PreparedBatch]] = []
        self._limit = _MAX_BUFFERED
        self._parted: list[tuple[Origin | None, PreparedBatch, np.ndarray]] | None = None

    def add(self, rows: pa.Table, tie: np.ndarray | None = None, origin: Origin | None = None) -> None:
        """Take a batch."""
        time, places = self.times(rows)
        row_id = self._rows.add(rows)
        if places is not None:
            rows, row_id = rows.take(pa.array(places)), row_id[places]
            tie = None if tie is None else tie[places]
        batch = self.spec.prepare(rows, row_id, time, self._groups)
        if tie is not None and self.query.id is None:
            batch = batch._replace(tie=tie)
        bucket = None if self._groups is None else self._buckets()[batch.group]
        if self._prunes:
            pane, ends = _panes(self._assigner, time)
            without = np.isnan(batch.score)
            self.counts.add(ends, bucket, without, pane)
            batch = self._pruned(batch.take(np.flatnonzero(~without)) if without.any() else batch)
        else:
            self.counts.add(np.full(batch.size, MAX_TIME), bucket, np.zeros(batch.size, np.bool_))
        # counting windows without an id take rows in the order in which they came
        self._batches.append((origin if self._assigner.counts and self.query.id is None else None, batch))
        if self._prunes and sum(batch.size for _, batch in self._batches) > self._limit:
            whole = self._pruned(concat_batches([batch for _, batch in self._batches]))
            self._rows.keep(whole.row_id)
            self._batches = [(None, whole)]
            self._limit = max(_MAX_BUFFERED, 2 * whole.size)

    def _buckets(self) -> np.ndarray:
        """Return the bucket of each group: by its hash, so that every task and every restart agrees."""
        if self._groups is None:
            return np.zeros(1, np.int64)
        table = self._groups.known.table()
        return np.zeros(0, np.int64) if table is None else bucket_of(row_hash(table), self.buckets)

    def _pruned(self, batch: PreparedBatch) -> PreparedBatch:
        pane, ends = _panes(self._assigner, batch.time)
        groups = 1 if self._groups is None else len(self._groups.known)
        code, codes = pane * groups + (0 if batch.group is None else batch.group), len(ends) * groups
        if codes > 4 * len(code) + 1024:
            _, code = np.unique(code, return_inverse=True)
            codes = int(code.max(initial=-1)) + 1
        keep = self._select(batch, code, codes, self._rows)
        return batch if keep.all() else batch.take(np.flatnonzero(keep))

    def drain(self, bucket: int) -> Iterator[pa.Table]:
        """Return the rows of a bucket, in tables of limited size."""
        if self._parted is None:
            self._parted = []
            for origin, found in groupby(self._batches, key=lambda pair: pair[0]):
                whole = concat_batches([batch for _, batch in found])
                whole = self._pruned(whole) if self._prunes else whole
                group = np.zeros(whole.size, np.int32) if whole.group is None else whole.group
                self._parted.append((origin, whole, self._buckets()[group]))
        for origin, whole, mine in self._parted:
            places = np.flatnonzero(mine == bucket)
            for piece, low in enumerate(range(0, len(places), _MAX_TRAVELLING)):
                batch = whole.take(places[low : low + _MAX_TRAVELLING])
                rows = self._rows.take(batch.row_id)
                assert rows is not None
                yield _encoded(rows, batch, None if origin is None else origin._replace(piece=piece))


def bucket_of(number: np.ndarray, buckets: int) -> np.ndarray:
    """Return the bucket of each hash."""
    return ((number ^ (number >> np.uint64(32))) % np.uint64(buckets)).astype(np.int64)


def _panes(assigner: Assigner, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row the number of its pane among those of the batch, and where the panes end."""
    if not len(time):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    start = np.asarray(assigner.pane(time))
    low, high = int(start.min()), int(start.max())
    if low == high:
        return np.zeros(len(time), np.int64), np.array([assigner.pane_end(low)])
    regular = isinstance(assigner, WindowAssigner) and assigner.size % assigner.slide == 0
    if regular and (high - low) // assigner.slide <= 4 * len(time):  # close together: no need to sort
        starts = low + assigner.slide * np.arange((high - low) // assigner.slide + 1)
        return (start - low) // assigner.slide, np.asarray(assigner.pane_end(starts))
    starts, pane = np.unique(start, return_inverse=True)
    return pane, np.asarray(assigner.pane_end(starts))


# ---------------------------------------------------------------- the form in which rows travel


def _encoded(rows: pa.Table, batch: PreparedBatch, origin: Origin | None) -> pa.Table:
    score = pa.array(batch.score.reshape(-1))
    if batch.score.ndim > 1:  # points
        score = pa.FixedSizeListArray.from_arrays(score, batch.score.shape[1])
    rows = rows.append_column(_SCORE, score).append_column(_TIME, pa.array(batch.time))
    if batch.tie is not None:
        rows = rows.append_column(_TIE, pa.array(batch.tie, mask=batch.missing))
    return rows if origin is None else rows.replace_schema_metadata({_ORIGIN: json.dumps(origin)})


def decode_rows(tables: Sequence[pa.Table], schema: pa.Schema, query: TopK) -> tuple[pa.Table, PreparedBatch]:
    """Return the rows of tables that have travelled, and what an operator takes of them, in the order of the stream.

    Groups are the receiver's to number. The row ids are places in the table.
    """
    rows, batches, origins = [], [], []
    for table in tables:
        found = (table.schema.metadata or {}).get(_ORIGIN)
        origins.append(None if found is None else Origin(*json.loads(found)))
        own = [name for name in (_SCORE, _TIME, _TIE) if name in table.column_names]
        rows.append(conform(table.drop_columns(own), schema))
        batches.append(_decoded(table))
    if origins[0] is not None:
        order = sorted(range(len(tables)), key=lambda at: origins[at])  # type: ignore[arg-type, return-value]
        rows, batches = [rows[at] for at in order], [batches[at] for at in order]
        origins = [origins[at] for at in order]
    whole, batch = pa.concat_tables(rows), concat_batches(batches)
    batch = batch._replace(row_id=np.arange(batch.size))
    if origins[0] is None:
        return whole, _in_defined_order(batch, whole)
    segments = np.repeat([origin.segment for origin in origins], [each.size for each in batches])  # type: ignore[union-attr]
    return whole, _in_counting_order(batch, whole, segments, query)


def _decoded(table: pa.Table) -> PreparedBatch:
    time, tie, missing = table.column(_TIME).to_numpy(), None, None
    if _TIE in table.column_names:
        ties = table.column(_TIE)
        missing = ties.is_null().to_numpy() if ties.null_count else None
        tie = ties.fill_null(0).to_numpy()
    score = table.column(_SCORE).combine_chunks()
    if pa.types.is_fixed_size_list(score.type):
        points = score.flatten().to_numpy().reshape(-1, score.type.list_size)
        return PreparedBatch(time, time, points, tie, missing)
    return PreparedBatch(time, time, score.to_numpy(zero_copy_only=False), tie, missing)


def _in_defined_order(batch: PreparedBatch, rows: pa.Table) -> PreparedBatch:
    """Sort rows by time and tie, and those that agree in both by their values: never by which task was first."""
    batch = batch.sorted()
    tie = batch.tie_order()
    if tie is None:
        return batch
    same = (np.diff(batch.time) == 0) & (np.diff(tie) == 0)
    if not same.any():
        return batch
    tied = np.flatnonzero(np.r_[same, False] | np.r_[False, same])
    values = row_hash(rows.take(pa.array(batch.row_id[tied])))
    places = np.arange(batch.size)
    places[tied] = tied[np.lexsort((values, tie[tied], batch.time[tied]))]
    return batch.take(places)


def _in_counting_order(batch: PreparedBatch, rows: pa.Table, segments: np.ndarray, query: TopK) -> PreparedBatch:
    """Order rows as they came, which is known within a file or a partition; those of several go by time."""
    if (segments == segments[:1]).all():
        return batch
    if query.time is not None:
        return batch.take(np.argsort(batch.time, kind="stable"))
    group = Groups(query.per).codes(rows) if query.per else np.zeros(len(segments), np.int32)
    pairs = np.unique(np.stack([group, np.unique(segments, return_inverse=True)[1]]), axis=1)
    if len(np.unique(pairs[0])) < pairs.shape[1]:
        raise QueryError(
            f"counting windows need rows in a defined order, got rows of a batch from {len(np.unique(segments))} files "
            f"or partitions and neither time= nor id=: write time= or id=, or read one file or partition at a time"
        )
    return batch
