"""The engine of leaderboards: partial totals in, ranked lists of cells (a key within a group) out."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from skyband.engines import Answers
from skyband.engines.groups import grown_capacity
from skyband.engines.validation import MAX_MAGNITUDE, ColumnSpec, any_int_column, require, typed_column, validate
from skyband.kernels.boards import EPOCH, HIGH, LOW, NO_BOUND, SPLIT, STEP, Boards, Cells, Entries, close, grow, resume
from skyband.runtime.ids import Ids
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.protocol import Snapshot
    from skyband.operators.partial_totals import Measure
    from skyband.query import TopK

_NEVER = -(1 << 62)
_LIST = 64  # keys that there is room for in every list from the start
_CELLS: dict[str, ColumnSpec] = {
    "group": typed_column("i4", "cells"),
    "tie": any_int_column("cells"),
    "missing": typed_column("i1", "cells", low=0, high=1),
    "told": typed_column("?", "cells"),
}
_GROWN = {
    **_CELLS,
    "back_ints": any_int_column("cells", "wide_ints"),
    "back_floats": typed_column("f8", "cells", "wide_floats"),
}
_HOLDS = {
    **_CELLS,
    "marks": typed_column("i8", 5),
    "pane": typed_column("i8", "entries"),
    "cell": typed_column("i4", "entries"),
    "ints": any_int_column("entries", "wide_ints"),
    "floats": typed_column("f8", "entries", "wide_floats"),
    "shown": typed_column("?", "groups"),
}


class Totals:
    """The k best cells of every window by their totals.

    Each cell's total is folded from the totals of panes, never by subtracting. A view of the best between k and
    kmax cells of each group spares looking at all of them.

    Cost: O(1) a partial total, O(k' + k log k) a list that changed. Memory: the partial totals of the window.

    References
    ----------
    Yi et al., ICDE 2003, section 5, case 3: totals in a moving window, p = q, so kmax of about the root of the
    number of keys.
    """

    def __init__(self, query: TopK, measure: Measure, clock: WindowAssigner) -> None:
        self.query = query
        self.measure = measure
        self._clock = (clock.size, clock.slide, clock.origin)
        self.marks = np.array([_NEVER, 0, 0, 0, _NEVER], np.int64)
        self._count = 0  # entries in use; the rest is room
        self._entries = self._new_entries(0)
        self._list = min(query.k, _LIST)  # how long a list can be at most, as far as is known
        self._room = 2 * self._list + 16
        self._groups = 0  # there may be room for more
        self._cells_of = np.zeros(0, np.int64)  # how many cells each group has ...
        self._most = 0  # ... at most
        self.cells = self._new_cells(0)
        self._number = 0
        self.boards = self._new_boards(0)
        self.peak = 0

    def _new_entries(self, size: int) -> Entries:
        ints, floats = self.measure.ints, self.measure.floats
        return Entries(
            np.empty(size, np.int64),
            np.empty(size, np.int32),
            np.empty((size, ints), np.int64),
            np.empty((size, floats)),
            np.empty(size, np.int64),
            np.empty((size, ints), np.int64),
            np.empty((size, floats)),
        )

    def _new_cells(self, size: int) -> Cells:
        return Cells(
            np.zeros(size, np.int32),
            np.zeros(size, np.int64),
            np.zeros(size, np.int8),
            np.full(size, -1, np.int32),
            np.zeros(size, np.int32),
            np.full(size, -1, np.int64),
            np.zeros(size, np.int32),
            np.zeros((size, self.measure.ints), np.int64),
            np.zeros((size, self.measure.floats)),
            np.full(size, np.nan),
            np.full(size, -1, np.int32),
            np.zeros(size, np.bool_),
            np.zeros(size, np.bool_),
        )

    def _new_boards(self, size: int) -> Boards:
        return Boards(
            np.full(size, -1, np.int32),
            np.empty((size, self._room), np.int32),
            np.zeros(size, np.int64),
            np.full(size, -np.inf),
            np.zeros(size, np.int64),
            np.full(size, NO_BOUND, np.int8),
            np.empty((size, self._list), np.int32),
            np.zeros(size, np.int64),
            np.zeros(size, np.bool_),
            np.zeros(size, np.bool_),
        )

    def meet(self, group: np.ndarray, ties: Ids, groups: int) -> None:
        """New cells, by the number of their group and what orders them; and how many groups there are now."""
        room = len(self.boards.size)
        if groups > room:
            self.boards = _grown(self.boards, self._new_boards(grown_capacity(groups, room)), room)
            more = np.zeros(len(self.boards.size) - room, np.int64)
            self._cells_of = np.concatenate([self._cells_of, more])
        self._groups = max(self._groups, groups)
        before, after = self._number, self._number + len(group)
        if after > len(self.cells.group):
            self.cells = _grown(self.cells, self._new_cells(max(after, 2 * before)), before)
        self._number = after
        self.cells.group[before:after], self.cells.tie[before:after] = group, ties.number
        self.cells.missing[before:after] = 0 if ties.missing is None else ties.missing
        np.add.at(self._cells_of, group, 1)
        self._most = max(self._most, int(self._cells_of[group].max(initial=0)))
        first = self.boards.first
        order = np.argsort(group, kind="stable") + before
        mine = self.cells.group[order]
        last = np.flatnonzero(np.diff(mine, append=-1))  # the cells of a group hang one after the other
        self.cells.beside[order[1:]] = order[:-1]
        start = np.concatenate([[0], last[:-1] + 1]) if len(last) else last
        self.cells.beside[order[start]] = first[mine[start]]
        first[mine[last]] = order[last]
        self._make_room()

    def _make_room(self) -> None:
        """A wider view once there are many cells: about the root of their number. Lists have at most all of them."""
        groups = max(self._groups, 1)
        most = min(self.query.k, self._most)
        if most > self._list:
            self._list = min(self.query.k, 2 * most)
            lists = np.empty((len(self.boards.size), self._list), np.int32)
            lists[:, : self.boards.board.shape[1]] = self.boards.board
            self.boards = self.boards._replace(board=lists)
        goal = most + max(most, 16, int(2 * np.sqrt(self._number / groups)))
        if goal > 1.5 * self._room:
            old, self._room = self.boards.near, goal
            wider = np.empty((len(self.boards.size), goal), np.int32)
            wider[:, : old.shape[1]] = old
            self.boards = self.boards._replace(near=wider)

    def add(self, pane: np.ndarray, cell: np.ndarray, ints: np.ndarray, floats: np.ndarray) -> None:
        """Take partial totals of closed panes, by pane; each cell at most once a pane."""
        new = len(pane)
        if self._count + new > len(self._entries.pane):
            self._tidy(new)
        low, high = self._count, self._count + new
        for to, column in zip(self._entries[:4], (pane, cell, ints, floats), strict=True):
            to[low:high] = column
        self._count = high

    def _tidy(self, new: int) -> None:
        """Forget the entries that windows have passed, and make room for new ones."""
        low, high = int(self.marks[LOW]), self._count
        fresh = self._new_entries(max(2 * (high - low), high - low + new, 1024))
        for to, old in zip(fresh, self._entries, strict=True):
            to[: high - low] = old[low:high]
        fresh.following[: high - low] -= low * (fresh.following[: high - low] >= 0)
        head = self.cells.head
        head -= low * (head >= 0)
        self._entries, self._count = fresh, high - low
        self.marks[[LOW, HIGH, SPLIT]] -= low

    def advance(self, upto: int) -> Answers:
        """The lists of all windows that end by `upto`."""
        self.peak = max(self.peak, self._count - int(self.marks[LOW]))  # before windows close and totals go
        lists, rows, score = close(self._used(), self.cells, self.boards, self.marks, upto, self._clock, self._shape())
        arrivals = self.query.emit == "arrivals"
        first = np.append(lists[3], rows.shape[1])
        return Answers(
            lists[0], lists[1], lists[2].astype(np.int32), first, rows[0], score, rows[1] if arrivals else None
        )

    def grow(self, cell: np.ndarray, ints: np.ndarray, floats: np.ndarray, step: int) -> Answers:
        """Without windows: add to the totals; the lists of the groups in which something changed, as of `step`."""
        group, first, rows, score = grow(cell, ints, floats, self.cells, self.boards, self._shape())
        self.peak = self._number
        when = np.full(len(group), step)
        return Answers(when, when, group.astype(np.int32), first, rows[0], score, rows[1])

    def regrown(self, step: int) -> Answers:
        """Without windows: return the lists of all groups, as if none had been returned before."""
        self.boards.stale[:] = True
        self.cells.told[:] = False
        none = np.empty((0, self.measure.ints), np.int64), np.empty((0, self.measure.floats))
        return self.grow(np.empty(0, np.int32), *none, step)

    def grown(self) -> Snapshot:
        """Without windows: the totals of all cells."""
        upto = self._number
        names = ("group", "tie", "missing", "told", "back_ints", "back_floats")
        return {name: getattr(self.cells, name)[:upto].copy() for name in names}

    def grow_from(self, saved: Mapping[str, np.ndarray], groups: int) -> None:
        """Without windows: go on from a snapshot."""
        saved = validate(_with_missing(saved), _GROWN, wide_ints=self.measure.ints, wide_floats=self.measure.floats)
        require((saved["group"] >= 0) & (saved["group"] < groups), "group has one that never came")
        self.meet(saved["group"], Ids(saved["tie"], saved["missing"]), groups)
        self.grow(np.arange(self._number, dtype=np.int32), saved["back_ints"], saved["back_floats"], 0)
        self.cells.told[: self._number] = saved["told"]

    def _used(self) -> Entries:
        return Entries(*(column[: self._count] for column in self._entries))

    def _shape(self) -> tuple[int, int, int, float, float, bool]:
        query, measure = self.query, self.measure
        sign = (-1.0 if query.ascending else 1.0) * (-1.0 if measure.name == "min" else 1.0)
        keep = (query.k + 3 * self._room) // 4
        return query.k, keep, measure.kind, measure.unit, sign, query.emit == "arrivals"

    def reach(self) -> tuple[int, int | None]:
        """Where the next window with an entry ends, and the pane of the newest entry; None: there is none."""
        low = int(self.marks[LOW])
        if self._count == low:
            return 0, None
        size, slide, origin = self._clock
        pane = self._entries.pane
        first = (int(pane[low]) - origin - size) // slide + 1
        return origin + max(first, int(self.marks[STEP])) * slide + size, int(pane[self._count - 1])

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self._groups

    @property
    def number(self) -> int:
        """How many cells there are."""
        return self._number

    @property
    def busy(self) -> bool:
        """Whether a window still holds something, or a list has yet to become empty."""
        return self._count > self.marks[LOW] or bool(self.boards.shown.any())

    @property
    def entries(self) -> int:
        """How many partial totals the open windows hold."""
        return self._count - int(self.marks[LOW])

    def active_cells(self) -> np.ndarray:
        """Return the cells that have entries."""
        low = int(self.marks[LOW])
        return np.unique(self._entries.cell[low : self._count])

    def kept(self, cells: np.ndarray, groups: np.ndarray) -> Totals:
        """Return the totals of these cells and groups only, which get the numbers from 0 on."""
        saved = self.snapshot()
        cell, group = np.full(max(self._number, 1), -1, np.int64), np.full(max(self._groups, 1), -1, np.int64)
        cell[cells], group[groups] = np.arange(len(cells)), np.arange(len(groups))
        saved.update(
            cell=cell[saved["cell"]].astype(np.int32),
            group=group[saved["group"][cells]].astype(np.int32),
            tie=saved["tie"][cells],
            missing=saved["missing"][cells],
            told=saved["told"][cells],
            shown=saved["shown"][groups],
        )
        fresh = Totals(self.query, self.measure, WindowAssigner(*self._clock))
        fresh.peak = self.peak
        fresh.load(saved)
        return fresh

    def snapshot(self) -> Snapshot:
        """The entries that windows still need, and what was shown."""
        low = int(self.marks[LOW])
        marks = self.marks.copy()
        marks[[LOW, HIGH, SPLIT]] -= low
        names = ("pane", "cell", "ints", "floats")
        return {
            "marks": marks,
            **{name: c[low : self._count].copy() for name, c in zip(names, self._entries[:4], strict=True)},
            "group": self.cells.group[: self._number].copy(),
            "tie": self.cells.tie[: self._number].copy(),
            "missing": self.cells.missing[: self._number].copy(),
            "told": self.cells.told[: self._number].copy(),
            "shown": self.boards.shown[: self._groups].copy(),
        }

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        saved = validate(_with_missing(saved), _HOLDS, wide_ints=self.measure.ints, wide_floats=self.measure.floats)
        marks = self._checked_marks(saved)
        self.meet(saved["group"], Ids(saved["tie"], saved["missing"]), len(saved["shown"]))
        self.cells.told[: self._number] = saved["told"]
        self.boards.shown[: len(saved["shown"])] = saved["shown"]
        self.add(saved["pane"], saved["cell"], saved["ints"], saved["floats"])
        self.marks = marks
        resume(self._used(), self.cells, self.boards, self.marks, self._clock, self._shape())

    def _checked_marks(self, saved: Mapping[str, np.ndarray]) -> np.ndarray:
        """The numbers of a snapshot, if they fit to its entries."""
        marks, pane, (size, slide, origin) = saved["marks"], saved["pane"], self._clock
        require((saved["group"] >= 0) & (saved["group"] < len(saved["shown"])), "group has one that never came")
        require((saved["cell"] >= 0) & (saved["cell"] < len(saved["group"])), "cell has one that never came")
        require(np.diff(pane) >= 0, "its panes are in no order")
        step, low, high = (int(marks[at]) for at in (STEP, LOW, HIGH))
        require(0 <= low <= high <= len(pane), "marks points outside of its panes")
        ratio, start = -(-size // slide), origin + (step - 1) * slide
        if high > low:  # of the window that was closed last
            require(
                -MAX_MAGNITUDE < start < MAX_MAGNITUDE and start <= pane[low] and pane[high - 1] < start + size,
                "a pane has closed",
            )
            require((pane[high:] >= start + size) & (marks[EPOCH] == (step - 1) // ratio), "a pane is not counted")
        else:
            marks[EPOCH] = max(step // ratio - 1, _NEVER)  # totals are folded anew
        return marks


def _with_missing(saved: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """A snapshot that may have been written before missing keys were told apart from the lowest."""
    tie = saved.get("tie")
    return {"missing": np.zeros(0 if tie is None else tie.shape, np.int8), **saved}


Kept = TypeVar("Kept", Cells, Boards)


def _grown(old: Kept, new: Kept, size: int) -> Kept:
    for to, column in zip(new, old, strict=True):
        to[:size] = column[:size]
    return new
