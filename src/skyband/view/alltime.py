"""A leaderboard of all time: totals that only grow, ranked again after every batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from skyband.engines.validation import require, typed_column, validate
from skyband.runtime.arrow import take_rows
from skyband.runtime.emit import EmittedRows, change_names
from skyband.runtime.pipeline import Stats
from skyband.runtime.saved import refusing
from skyband.runtime.schema import conform
from skyband.runtime.steps import InOneStep
from skyband.view.keyed import Keyed, LastLists
from skyband.view.partial import Partials, folded_rows, numbers_of
from skyband.view.saved import check_cells, load_keys
from skyband.view.totals import Totals
from skyband.windows import WatermarkTracker, WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines import Answers
    from skyband.query import TopK
    from skyband.runtime.saved import Saved

_HOLDS = {
    "key": typed_column("i4", "cells", low=0, high=(1 << 31) - 1),
    "step": typed_column("i8", 2, low=0),
    "last": typed_column("i8", 2, "lists"),
    "lists/cell": typed_column("i8", "listed", low=0),
    "lists/score": typed_column("f8", "listed"),
}


class AllTime(Keyed, InOneStep):
    """One query with `of=` and no window.

    `push` takes a batch; if `live`, it gives the lists that have changed by it, else `finish` gives them once.

    Cost: O(1) a key of a batch, O(k' + k log k) a list that changed. Memory: one total for each key of each group.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, of="p", by="sum(n)")
    >>> rows = pa.table({"p": ["a", "a", "b"], "n": [5, -2, 4]})
    >>> board = AllTime(query, rows.schema, live=True)
    >>> board.push(rows.slice(0, 2)).to_pylist(), board.push(rows.slice(2)).to_pylist()
    ([{'step': 0, 'rank': 1, 'score': 3.0, 'p': 'a'}], [{'step': 1, 'rank': 1, 'score': 4.0, 'p': 'b'}])

    References
    ----------
    Yi et al., ICDE 2003, section 5, cases 1 and 2: totals without a window.
    """

    time = None

    def __init__(self, query: TopK, schema: pa.Schema, *, live: bool = False) -> None:
        super().__init__(query, schema)
        self.live = live
        self.clock = WindowAssigner(1, 1, counts=True)
        self.timeline = WatermarkTracker(self.clock)
        self.totals = Totals(query, self.measure, self.clock)
        self.step = 0
        self._last = LastLists()  # of each group
        self._empty: pa.Table | None = None
        self.stats = Stats()

    @property
    def kept(self) -> int:
        """How many totals are kept."""
        return len(self.key_of)

    def push(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take a batch."""
        del watermark  # time plays no part
        self.stats.rows += rows.num_rows
        rows = conform(rows, self.schema)
        ints, floats, given = self.measure.values(rows)
        without = len(given) - int(given.sum())
        if without:
            places = np.flatnonzero(given)
            rows, ints, floats = take_rows(rows, places), ints[places], floats[places]
            self.stats.without_score += without
        group, key = self.codes(rows)
        none = np.zeros(len(key), np.int64)
        found = folded_rows(Partials(none, group, key, none, ints, floats))
        answers = self._grown(found.group, found.key, found.ints, found.floats)
        return self._table(answers if self.live else None)

    def take(self, partials: pa.Table) -> pa.Table:
        """Take partial totals; give the lists that have changed."""
        return self._table(self._grown(*self.codes(partials), *numbers_of(partials, self.measure)))

    def _grown(self, group: np.ndarray, key: np.ndarray, ints: np.ndarray, floats: np.ndarray) -> Answers | None:
        if not len(key):
            return None
        groups = 1 if self.groups is None else len(self.groups)
        cell = self.numbers(group, key, groups, self.totals)
        answers = self.totals.grow(cell, ints, floats, self.step)
        self.stats.peak_candidates = self.totals.peak
        return answers

    def finish(self) -> pa.Table:
        """What has not been told yet."""
        if self.live:
            return self._table(None)
        self.totals.boards.stale[:] = True  # nothing was told so far
        self.totals.cells.told[:] = False
        empty = np.empty((0, self.measure.ints), np.int64), np.empty((0, self.measure.floats))
        return self._table(self.totals.grow(np.empty(0, np.int32), *empty, self.step))

    def _table(self, found: Answers | None) -> pa.Table:
        """What the lists are now, of groups whose list is another than it was; or what changed in them."""
        if found is None or not len(found.group):
            if self._empty is None:
                self._empty = self._columns(EmittedRows.none(changes=True))
            return self._empty
        lines = self._arrivals(found) if self.query.emit == "arrivals" else self._changes(found)
        self.stats.answer_rows += len(lines)
        self.stats.windows += len(np.unique(lines.group))
        table = self._columns(lines)
        self.step += bool(table.num_rows)
        return table

    @staticmethod
    def _arrivals(found: Answers) -> EmittedRows:
        assert found.rank is not None
        group = np.repeat(found.group, np.diff(found.first))
        return EmittedRows(group, group, group, found.rank, found.score, found.id)

    def _changes(self, found: Answers) -> EmittedRows:
        groups = 1 if self.groups is None else len(self.groups)
        first, group = found.first, found.group
        which, kind, rank, cell, score = self._last.moves(found.id, found.score, first, group, groups, self.query.ranks)
        if self.query.emit != "answers":
            return EmittedRows(which, which, group[which], rank, score, cell, kind)
        lists = np.unique(which)
        sizes = first[lists + 1] - first[lists]
        rank = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
        place, which = np.repeat(first[lists], sizes) + rank - 1, np.repeat(lists, sizes)
        return EmittedRows(which, which, group[which], rank, found.score[place], found.id[place], None)

    def _columns(self, lines: EmittedRows) -> pa.Table:
        query = self.query
        columns = {query.column("step"): pa.array(np.full(len(lines), self.step))}
        for name in query.per:
            columns[name] = self.values(self.groups, name, lines.group)
        if query.emit == "changes":
            assert lines.change is not None
            columns[query.column("_change_type")] = change_names(lines.change)
        columns[query.column("rank")] = pa.array(lines.rank.astype(np.int32))
        columns[query.column("score")] = pa.array(-lines.score if query.ascending else lines.score)
        for name in query.of:
            columns[name] = self.values(self.keys, name, self.key_of[lines.slot])
        return pa.table(columns)

    def alive(self) -> bool:
        """Totals of all time are always remembered."""
        return True

    def save(self) -> Saved:
        """All that is needed to go on elsewhere, as named arrays and tables; all that is due has been told."""
        cells, scores, last = self._last.saved()
        saved: Saved = {
            **self.totals.grown(),
            "key": self.key_of,
            "step": np.array([self.step, 1 if self.groups is None else len(self.groups)]),
            "last": last,
            "lists/cell": cells,
            "lists/score": scores,
        }
        for name, groups in (("groups", self.groups), ("keys", self.keys)):
            table = None if groups is None else groups.table()
            if table is not None:
                saved[name] = table
        return saved

    @refusing()
    def load(self, saved: Saved) -> None:
        """Go on where another one stood."""
        found = validate(saved, _HOLDS)
        load_keys(self, saved)
        self.key_of = found["key"]
        self.step, groups_then = (int(x) for x in found["step"])
        groups = 1 if self.groups is None else len(self.groups)
        require(groups_then == groups, "step counts other groups than there are")
        self.totals.grow_from(cast("Mapping[str, np.ndarray]", saved), groups)
        self._last = LastLists.load(found["lists/cell"], found["lists/score"], found["last"])
        check_cells(self, self.totals, found["last"], found["lists/cell"])
        self.rehash(len(self.key_of), self.totals)
