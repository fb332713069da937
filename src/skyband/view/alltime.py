"""A leaderboard of all time: totals that only grow, ranked again after every batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from skyband.engines.checked import checked, held, require
from skyband.flow.emit import Lines, change_names
from skyband.flow.pipeline import Stats
from skyband.flow.saved import refusing
from skyband.flow.schema import conform
from skyband.view.keyed import Keyed
from skyband.view.partial import numbers_of, partial_totals
from skyband.view.saved import check_cells, load_keys
from skyband.view.totals import Totals
from skyband.windows import Clock, Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines import Answers
    from skyband.flow.saved import Saved
    from skyband.query import TopK

_HOLDS = {
    "key": held("i4", "cells", low=0, high=(1 << 31) - 1),
    "step": held("i8", 2, low=0),
    "last": held("i8", 2, "lists"),
    "lists/cell": held("i8", "listed", low=0),
    "lists/score": held("f8", "listed"),
}


class AllTime(Keyed):
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
        self.clock = Clock(1, 1, counts=True)
        self.timeline = Timeline(self.clock)
        self.totals = Totals(query, self.measure, self.clock)
        self.step = 0
        self._last = np.zeros((2, 0), np.int64)  # each group's last list ...
        self._cell_of, self._score_of = np.empty(0, np.int64), np.empty(0)  # ... its cells and scores
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
        if self.groups is not None:
            self.groups.codes(rows)
        found, without = partial_totals(self.query, self.measure, rows, np.zeros(rows.num_rows, np.int64))
        self.stats.without_score += without
        answers = self._grown(found)
        return self._table(answers) if self.live else self._columns(Lines.none(changes=True))

    def take(self, partials: pa.Table) -> pa.Table:
        """Take partial totals; give the lists that have changed."""
        return self._table(self._grown(partials))

    def _grown(self, partials: pa.Table) -> Answers:
        cell = np.empty(0, np.int32)
        if partials.num_rows:
            cell = self.numbers(partials, self.totals)
        answers = self.totals.grow(cell, *numbers_of(partials, self.measure), self.step)
        self.stats.peak_candidates = self.totals.peak
        return answers

    def finish(self) -> pa.Table:
        """What has not been told yet."""
        if self.live:
            return self._columns(Lines.none(changes=True))
        self.totals.boards.stale[:] = True  # nothing was told so far
        self.totals.cells.told[:] = False
        empty = np.empty((0, self.measure.ints), np.int64), np.empty((0, self.measure.floats))
        return self._table(self.totals.grow(np.empty(0, np.int32), *empty, self.step))

    def _table(self, found: Answers) -> pa.Table:
        """What the lists are now, of groups whose list is another than it was; or what changed in them."""
        lines = self._arrivals(found) if self.query.emit == "arrivals" else self._changes(found)
        self.stats.answer_rows += len(lines)
        self.stats.windows += len(np.unique(lines.group))
        table = self._columns(lines)
        self.step += bool(table.num_rows)
        return table

    @staticmethod
    def _arrivals(found: Answers) -> Lines:
        assert found.rank is not None
        group = np.repeat(found.group, np.diff(found.first))
        return Lines(group, group, group, found.rank, found.score, found.id)

    def _changes(self, found: Answers) -> Lines:
        from skyband.kernels.boards import moves

        groups = 1 if self.groups is None else len(self.groups)
        more = np.zeros((2, max(groups - self._last.shape[1], 0)), np.int64)
        self._last = np.concatenate([self._last, more], axis=1)
        cells, scores = np.concatenate([self._cell_of, found.id]), np.concatenate([self._score_of, found.score])
        first, group = found.first + len(self._cell_of), found.group
        which, kind, place, rank = moves(cells, scores, first, group, self._last, self.query.ranks)
        if self.query.emit == "answers":
            lists = np.unique(which)
            sizes = first[lists + 1] - first[lists]
            begin = np.repeat(first[lists], sizes)
            rank = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
            which, place, kind = np.repeat(lists, sizes), begin + rank - 1, None
        out = Lines(which, which, group[which], rank, scores[place], cells[place], kind)
        sizes = self._last[1] - self._last[0]
        ends = np.cumsum(sizes)
        last = np.arange(sizes.sum()) + np.repeat(self._last[0] - ends + sizes, sizes)
        self._cell_of, self._score_of = cells[last], scores[last]
        self._last = np.stack([ends - sizes, ends])
        return out

    def _columns(self, lines: Lines) -> pa.Table:
        query = self.query
        columns = {query.column("step"): pa.array(np.full(len(lines), self.step))}
        for name in query.per:
            columns[name] = self.values(self.groups, name, lines.group)
        if query.emit == "changes":
            assert lines.change is not None
            columns[query.column("_change_type")] = change_names(lines.change)
        columns[query.column("rank")] = pa.array(lines.rank, pa.int32())
        columns[query.column("score")] = pa.array(-lines.score if query.ascending else lines.score)
        for name in query.of:
            columns[name] = self.values(self.keys, name, self.key_of[lines.slot])
        return pa.table(columns)

    def alive(self) -> bool:
        """Totals of all time are always remembered."""
        return True

    def save(self) -> Saved:
        """All that is needed to go on elsewhere, as named arrays and tables; all that is due has been told."""
        saved: Saved = {
            **self.totals.grown(),
            "key": self.key_of,
            "step": np.array([self.step, 1 if self.groups is None else len(self.groups)]),
            "last": self._last,
            "lists/cell": self._cell_of,
            "lists/score": self._score_of,
        }
        for name, groups in (("groups", self.groups), ("keys", self.keys)):
            table = None if groups is None else groups.table()
            if table is not None:
                saved[name] = table
        return saved

    @refusing()
    def load(self, saved: Saved) -> None:
        """Go on where another one stood."""
        found = checked(saved, _HOLDS)
        load_keys(self, saved)
        self.key_of, self._last = found["key"], found["last"]
        self.step, groups_then = (int(x) for x in found["step"])
        groups = 1 if self.groups is None else len(self.groups)
        require(groups_then == groups, "step counts other groups than there are")
        self.totals.grow_from(cast("Mapping[str, np.ndarray]", saved), groups)
        self._cell_of, self._score_of = found["lists/cell"], found["lists/score"]
        check_cells(self, self.totals, self._last, self._cell_of)
        self.rehash(len(self.key_of), self.totals)
