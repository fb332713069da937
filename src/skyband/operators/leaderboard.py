"""Ranks keys by an aggregate of their rows: a leaderboard, of time windows or of all time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.engines.groups import grown_capacity
from skyband.engines.validation import any_int_column, require, section, typed_column, validate
from skyband.operators.partial_totals import (
    CodedTotals,
    Measure,
    PartialTotals,
    decode_totals,
    encode_totals,
    partial_totals,
    tie_numbers,
)
from skyband.operators.totals import Totals
from skyband.runtime import result as results
from skyband.runtime.combine import Combiner, Origin, bucket_of
from skyband.runtime.groups import Groups
from skyband.runtime.ids import row_hash
from skyband.runtime.protocols import Operator, OperatorSpec
from skyband.runtime.result import ResultColumns
from skyband.runtime.snapshot import table_of
from skyband.windows import MAX_TIME, MIN_TIME, WindowAssigner

if TYPE_CHECKING:
    from skyband.engines.protocol import Answers
    from skyband.query import TopK
    from skyband.runtime.groups import GroupTracker
    from skyband.runtime.protocols import Context, Goal, Snapshot

_SPARE_TOTALS = 1 << 16  # partial totals that may be buffered before those of one cell and pane are folded
_SPARE_CELLS = 1 << 12  # cells that may have no rows before they are forgotten
_SPARE_KEYS = 1 << 16  # the same of keys


@dataclass(frozen=True)
class LeaderboardSpec(OperatorSpec):
    """A query with `of=`."""

    query: TopK

    ordered = False
    engine = "totals"

    @property
    def all_time(self) -> bool:
        """Whether totals are those of all rows so far."""
        return self.query.window.kind == "all time"

    @property
    def event_time(self) -> bool:
        """Whether windows close as time goes by."""
        return not self.all_time

    @property
    def forgets_groups(self) -> bool:
        """Whether a group that was away for a window may be forgotten."""
        return not self.all_time

    @property
    def columns(self) -> Sequence[str]:
        """The columns that `prepare` needs."""
        by: Any = self.query.by
        return list(dict.fromkeys([*by.columns, *self.names]))

    @property
    def names(self) -> list[str]:
        """The columns that make groups and keys."""
        return [*self.query.per, *self.query.of]

    def assigner(self) -> WindowAssigner:
        """Return the windows and panes; all time is one window that never ends."""
        return WindowAssigner(1, 1, counts=True) if self.all_time else WindowAssigner.of(self.query.window)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the keys that are ranked."""
        return {"of": ", ".join(self.query.of)}

    def result(self, *, early: bool = False) -> ResultColumns:
        """Return the columns of the result."""
        return ResultColumns(self.query, self.per, row=self.query.of, windows=not self.all_time, early=early)

    def prepare(
        self, rows: pa.Table, row_id: np.ndarray, time: np.ndarray, groups: GroupTracker | None
    ) -> PartialTotals:
        """Return the partial totals of rows."""
        del row_id, groups
        return self.totals(rows, time)[0]

    def totals(self, rows: pa.Table, time: np.ndarray) -> tuple[PartialTotals, np.ndarray]:
        """Return the partial totals of rows, and which rows had a value to add."""
        pane = np.zeros(rows.num_rows, np.int64) if self.all_time else np.asarray(self.assigner().pane(time))
        return partial_totals(self.names, Measure.of(self.query, rows.schema), rows, pane)

    def combiner(self, buckets: int) -> TotalsCombiner:
        """Return what lets partial totals travel instead of rows."""
        return TotalsCombiner(self, buckets)

    def receive(
        self, tables: Sequence[pa.Table], schema: pa.Schema, groups: GroupTracker | None
    ) -> tuple[None, PartialTotals]:
        """Return the partial totals that have travelled."""
        del groups
        whole = pa.concat_tables(tables).unify_dictionaries()
        return None, decode_totals(whole, self.names, Measure.of(self.query, schema))

    def open(self, context: Context, snapshot: Snapshot | None = None) -> Leaderboard:
        """Return the operator, new or restored."""
        return Leaderboard(self, context, snapshot)


class TotalsCombiner(Combiner):
    """Adds up in each task what can be added up there."""

    def __init__(self, spec: LeaderboardSpec, buckets: int) -> None:
        super().__init__(spec, buckets)
        self._spec, self._found = spec, list[pa.Table]()

    def add(self, rows: pa.Table, tie: np.ndarray | None = None, origin: Origin | None = None) -> None:
        """Take a batch."""
        del tie, origin
        time, places = self.times(rows)
        rows = rows if places is None else rows.take(pa.array(places))
        totals, given = self._spec.totals(rows, time)
        ends = (
            np.full(rows.num_rows, MAX_TIME)
            if self._spec.all_time
            else np.asarray(self._spec.assigner().pane_end(time))
        )
        self.counts.add(ends, self._bucket(rows), ~given)
        self._found.append(encode_totals(totals))

    def _bucket(self, rows: pa.Table) -> np.ndarray:
        if not self._spec.per:
            return np.zeros(rows.num_rows, np.int64)
        return bucket_of(row_hash(rows.select(list(self._spec.per))), self.buckets)

    @cached_property
    def _whole(self) -> tuple[pa.Table, np.ndarray]:
        whole = pa.concat_tables(self._found).unify_dictionaries()
        return whole, self._bucket(whole)

    def drain(self, bucket: int) -> Iterator[pa.Table]:
        """Return the partial totals of a bucket."""
        whole, mine = self._whole if self._found else (None, np.empty(0))
        places = np.flatnonzero(mine == bucket)
        if whole is not None and len(places):
            yield whole.take(pa.array(places))


class Leaderboard(Operator):
    """The k best keys of each window by their totals, folded from the totals of panes and never by subtracting.

    A cell is a key within a group. Its values are in the row store, by its row id.

    Cost: O(1) a partial total, O(k' + k log k) a list that changed. Memory: the partial totals of the window; for all
    time one total for each cell.

    References
    ----------
    Yi et al., ICDE 2003, section 5: cases 1 and 2 are totals of all time, case 3 those of a moving window.
    """

    def __init__(self, spec: LeaderboardSpec, context: Context, snapshot: Snapshot | None = None) -> None:
        self._spec, self._context, self._query = spec, context, spec.query
        self.assigner = spec.assigner()
        self._measure = Measure.of(spec.query, context.schema)
        self._totals = Totals(spec.query, self._measure, self.assigner)
        self._keys = Groups(spec.query.of)
        self._buffered: list[CodedTotals] = []  # of panes that are still open
        self._limit = _SPARE_TOTALS
        self._arrived = 0  # rows that came
        self._slots = np.full((2, 16), -1, np.int64)  # hash table from (group, key) to the cell
        self._cells = np.zeros(1, np.int64)  # how many cells there are
        self._key_of = np.empty(0, np.int32)  # of each cell; there is room for more
        self._row_id = np.empty(0, np.int64)  # of each cell; the same
        self._active, self._active_keys = 0, 0  # cells and keys when some were last forgotten
        self._reached = MIN_TIME
        self._next_end: int | None = None  # when the next window ends; None: not known
        self._step = 0
        if snapshot is not None:
            self._restore(snapshot)

    @property
    def peak(self) -> int:
        """The most partial totals ever at once."""
        return self._totals.peak

    # ------------------------------------------------------------ totals in, answers out

    def advance(self, parts: Mapping[str, Any], upto: Goal) -> Answers | None:
        """Take partial totals, then close the windows that end by `upto`."""
        part: PartialTotals | None = parts.get("rows")
        assert isinstance(upto, int)
        if self._spec.all_time:
            return self._grow(part, upto)
        if part is not None and len(part.time):
            self._buffer(part)
        if self._next_end is not None and upto < self._next_end:
            return None
        self._next_end = self.assigner.next_end(upto)
        self._reached = max(self._reached, upto)
        self._release(upto if upto == MAX_TIME else self.assigner.pane(upto) if upto > MIN_TIME else upto)
        return self._ranked(self._totals.advance(upto))

    def _ranked(self, answers: Answers) -> Answers:
        return answers._replace(id=self._row_id[answers.id])

    def _coded(self, part: PartialTotals) -> CodedTotals:
        groups = self._context.groups
        group = np.zeros(len(part.time), np.int32) if groups is None else groups.codes(part.keys)
        return CodedTotals(part.time, group, self._keys.codes(part.keys), part.arrived, part.ints, part.floats)

    def _buffer(self, part: PartialTotals) -> None:
        """Keep partial totals until a window closes."""
        coded = self._coded(part)
        self._buffered.append(coded._replace(arrived=coded.arrived + self._arrived))
        self._arrived += int(coded.arrived.max(initial=-1)) + 1
        if sum(len(each.pane) for each in self._buffered) > self._limit:
            self._limit = max(_SPARE_TOTALS, 2 * len(self._folded().pane))

    def _folded(self) -> CodedTotals:
        """Return all that is buffered, one total for each pane, group and key."""
        whole = CodedTotals(*(np.concatenate(column) for column in zip(*self._buffered, strict=True)))
        self._buffered = [whole.folded()]
        return self._buffered[0]

    def _release(self, before: int) -> None:
        """Give the totals of panes before a moment to the windows."""
        if not self._buffered:
            return
        whole = self._folded()
        cut = int(np.searchsorted(whole.pane, before))
        due, rest = whole.take(slice(0, cut)), whole.take(slice(cut, None))
        self._buffered = [rest] if len(rest.pane) else []
        if not cut:
            return
        groups, number = self._context.groups, due.group
        if groups is not None:
            due = due.take(np.lexsort((due.arrived, due.pane)))
            number = groups.numbers(due.group, due.pane, self.windows)
        self._totals.add(due.pane, self._cells_of(number, due.key), due.ints, due.floats)

    def _grow(self, part: PartialTotals | None, upto: int) -> Answers | None:
        """All time: add to the totals; the lists that may have changed, of a finite source only at its end."""
        totals, live = self._totals, self._context.live
        answers = None
        if part is not None and len(part.time):
            coded = self._coded(part)
            answers = totals.grow(self._cells_of(coded.group, coded.key), coded.ints, coded.floats, self._step)
        if not live and upto == MAX_TIME and part is None:
            answers = totals.regrown(self._step)
        elif not live:
            return None
        if answers is None:
            return None
        self._step += 1
        return self._ranked(answers if self._query.emit == "arrivals" else answers._replace(rank=None))

    def _cells_of(self, group: np.ndarray, key: np.ndarray) -> np.ndarray:
        """Return the cell of each pair of group and key; new cells are made known to the totals."""
        from skyband.kernels.totals import paired

        before = int(self._cells[0])
        if 2 * (before + len(key)) > self._slots.shape[1]:
            self._rehash(before + len(key))
        cell, fresh = paired(group, key, self._slots, self._cells)
        if len(fresh):
            after = before + len(fresh)
            if after > len(self._key_of):
                more = grown_capacity(after, len(self._key_of)) - len(self._key_of)
                self._key_of = np.concatenate([self._key_of, np.empty(more, np.int32)])
                self._row_id = np.concatenate([self._row_id, np.empty(more, np.int64)])
            values = pa.Table.from_arrays(self._keys.values(key[fresh]), names=self._keys.per)
            self._key_of[before:after] = key[fresh]
            self._row_id[before:after] = self._context.rows.add(values)
            groups = 1 if self._context.groups is None else self._context.groups.count
            self._totals.meet(group[fresh], tie_numbers(values, self._query.of), groups)
        return cell

    def _rehash(self, cells: int) -> None:
        """Make the table of cells larger."""
        from skyband.kernels.totals import paired

        self._slots = np.full((2, 1 << int(4 * cells).bit_length()), -1, np.int64)
        known = int(self._cells[0])
        self._cells[0] = 0
        paired(self._totals.cells.group[:known], self._key_of[:known], self._slots, self._cells)

    def affordable(self, due: np.ndarray, goal: int, groups: int) -> int:
        """Return how far to advance so that answers stay few: a total can be in very many windows."""
        totals, assigner = self._totals, self.assigner
        number = totals.number + len(due) + sum(len(each.pane) for each in self._buffered)
        windows = max(results.STEP_ROWS // max(min(int(self._query.k) * max(groups, 1), number), 1), 1)
        times = [due, *(each.pane for each in self._buffered)]
        oldest = min((int(time.min()) for time in times if len(time)), default=None)
        newest = max((int(time.max()) for time in times if len(time)), default=None)
        first, last = totals.reach()
        if last is None and oldest is None:
            return goal
        start = assigner.next_end(oldest) if oldest is not None else first
        start = max(start if last is None else min(start, first), assigner.next_end(self._reached))
        end = max(MIN_TIME if last is None else last, MIN_TIME if newest is None else newest)
        reached = start + (windows - 1) * assigner.slide
        return goal if reached >= min(goal, end + assigner.size + assigner.slide) else reached

    # ------------------------------------------------------------ what is kept

    def candidates(self) -> int:
        """Return how many partial totals are kept; for all time, how many totals."""
        if self._spec.all_time:
            return int(self._cells[0])
        return self._totals.entries + sum(len(each.pane) for each in self._buffered)

    def live_rows(self) -> np.ndarray:
        """Return the rows that have the values of cells."""
        return self._row_id[: int(self._cells[0])]

    def is_idle(self) -> bool:
        """Return whether nothing is kept; totals of all time always are."""
        return not self._spec.all_time and not self._buffered and not self._totals.busy

    def next_timer(self, watermark: int) -> int | None:
        """Return when the next window ends."""
        if not self.candidates():
            return None
        if watermark == MIN_TIME and self._buffered:
            watermark = int(min(each.pane.min() for each in self._buffered))
        return self.assigner.next_end(watermark)

    def tidy(self, watermark: int) -> None:
        """Forget cells without rows, if there are so many that the work is small beside that of their rows."""
        del watermark
        if self._spec.all_time or self._totals.number <= 2 * self._active + _SPARE_CELLS:
            return
        self._keep(np.arange(self._totals.groups))

    def active_groups(self) -> np.ndarray:
        """Return the groups of cells that have rows or are listed, and those whose list has yet to become empty."""
        shown = np.flatnonzero(self._totals.boards.shown[: self._totals.groups])
        return np.concatenate([self._totals.cells.group[self._live_cells()], shown]).astype(np.int64)

    def _live_cells(self) -> np.ndarray:
        """Return the cells that have rows, or are in the last list of their group."""
        cells = self._totals.active_cells()
        listed = self._context.emitter.live_rows()
        if len(listed):
            cells = np.union1d(cells, np.flatnonzero(np.isin(self.live_rows(), listed)))
        return cells.astype(np.int64)

    def keep_groups(self, keep: np.ndarray) -> None:
        """Forget all groups but these, and their cells."""
        self._keep(keep[keep < self._totals.groups])

    def _keep(self, groups: np.ndarray) -> None:
        cells = self._live_cells()
        if len(cells) < self._totals.number or len(groups) < self._totals.groups:
            self._totals = self._totals.kept(cells, groups)
            self._key_of, self._row_id = self._key_of[cells], self._row_id[cells]
            self._cells[0] = len(cells)
            self._rehash(len(cells))
        self._active = len(cells)
        if len(self._keys) > 2 * self._active_keys + _SPARE_KEYS:
            self._forget_keys()

    def _forget_keys(self) -> None:
        """Forget keys that have no cell, and of which nothing is buffered."""
        cells = int(self._cells[0])
        known = np.unique(np.concatenate([self._key_of[:cells], *(each.key for each in self._buffered)]))
        number = np.zeros(len(self._keys), np.int32)
        number[known] = np.arange(len(known), dtype=np.int32)
        self._keys.keep(known)
        self._key_of = number[self._key_of[:cells]]
        self._row_id = self._row_id[:cells]
        self._buffered = [each._replace(key=number[each.key]) for each in self._buffered]
        self._active_keys = len(known)
        self._rehash(cells)

    def buffered_groups(self) -> np.ndarray:
        """Return the codes of groups of which totals are buffered."""
        return np.concatenate([np.empty(0, np.int32), *(each.group for each in self._buffered)])

    def renumber_groups(self, code: np.ndarray) -> None:
        """Give buffered totals the new codes of their groups."""
        self._buffered = [each._replace(group=code[each.group]) for each in self._buffered]

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> Snapshot:
        """Return the totals, and the keys they are of."""
        if not self._spec.all_time:
            self._keep(np.arange(self._totals.groups))
        self._forget_keys()
        cells = int(self._cells[0])
        totals = self._totals.grown() if self._spec.all_time else self._totals.snapshot()
        saved: Snapshot = {
            "key": self._key_of[:cells],
            "row_id": self._row_id[:cells],
            "reached": np.array([self._reached, self._step], np.int64),
            **{f"totals/{name}": column for name, column in totals.items()},
        }
        table = self._keys.table()
        if table is not None:
            saved["keys"] = table
        if self._buffered:
            columns = zip(CodedTotals._fields, self._folded(), strict=True)
            saved |= {f"buffer/{name}": column for name, column in columns}
        return saved

    def _restore(self, saved: Snapshot) -> None:
        found = validate(saved, _COLUMNS)
        self._reached, self._step = (int(x) for x in found["reached"])
        if "keys" in saved:
            self._keys.load(table_of(saved, "keys"))
        groups = 1 if self._context.groups is None else self._context.groups.count
        if self._spec.all_time:
            self._totals.grow_from(section(saved, "totals/"), groups)
        else:
            self._totals.load(section(saved, "totals/"))
        require(self._totals.groups <= groups, "there are lists of groups that never came")
        self._key_of, self._row_id = found["key"], found["row_id"]
        self._check_cells()
        self._cells[0] = len(self._key_of)
        self._rehash(len(self._key_of))
        buffered = section(saved, "buffer/")
        if buffered:
            part = validate(buffered, _BUFFERED, ints=self._measure.ints, floats=self._measure.floats)
            require(part["key"] < len(self._keys), "a key is buffered that never came")
            self._buffered = [CodedTotals(*(part[name] for name in CodedTotals._fields))]
            self._arrived = int(part["arrived"].max(initial=-1)) + 1

    def _check_cells(self) -> None:
        """Refuse cells that have no key, or are there twice."""
        key, group = self._key_of, self._totals.cells.group[: self._totals.number]
        require(len(key) == self._totals.number, "key has another number of cells than totals")
        require(key.max(initial=-1) < len(self._keys), "key has one that never came")
        pairs = np.unique(group * np.int64(max(len(self._keys), 1)) + key)
        require(len(pairs) == len(key), "a key is twice in a group")


_COLUMNS = {
    "key": typed_column("i4", "cells", low=0, high=(1 << 31) - 1),
    "row_id": typed_column("i8", "cells", low=0),
    "reached": typed_column("i8", 2),
}
_BUFFERED = {
    "pane": typed_column("i8", "rows"),
    "group": typed_column("i4", "rows", low=0, high=(1 << 31) - 1),
    "key": typed_column("i4", "rows", low=0, high=(1 << 31) - 1),
    "arrived": typed_column("i8", "rows"),
    "ints": any_int_column("rows", "ints"),
    "floats": typed_column("f8", "rows", "floats"),
}
