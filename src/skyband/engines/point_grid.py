"""Many queries over one stream of points: one store of objects, one grid, one index of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.grid_cells import SAMPLE, check, cut, slices_for
from skyband.engines.grid_pages import COLUMNS, bound
from skyband.engines.protocol import Answers, Objects, Snapshot
from skyband.engines.targets import KINDS, RULES, Targets
from skyband.engines.validation import checked, held, progressed, real, require
from skyband.errors import QueryError, SnapshotError
from skyband.kernels import nearest as kernels
from skyband.kernels.answers import AnswerBuffer
from skyband.kernels.cells import Store, Work, file
from skyband.kernels.grid import Aims, cells_of, watch
from skyband.kernels.lists import Lists
from skyband.kernels.nearest import (
    CHANGED,
    EVERY,
    FINISHED,
    FRESH,
    INDEX,
    ONCE,
    PAGE,
    PEAK,
    SEARCHES,
    STORE,
    UNSEEN,
    Marks,
    Shape,
)
from skyband.kernels.watching import (
    BUDGET,
    DONE,
    FIRST,
    INDEXED,
    LISTS,
    MISSES,
    MOVED,
    NEXT,
    OUT,
    ROW,
    SEEN,
    SHOWN,
    STATE,
    WIDES,
    Index,
    Rows,
)
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.query import Window

_TELLS = {"arrivals": ONCE, "changes": CHANGED, "answers": EVERY}
_PAGE = 1 << 16  # rows told before the loop comes up for air
_LEARN = (64, 512, 4096)  # objects after which the grid is learnt anew; then after every window
_NEVER = 1 << 62
_HOLDS = {
    "point": real("rows", "d"),
    "time": held("i8", "rows"),
    "id": held("i8", "rows"),
    "told": held("u8", "rows", "words"),
    "list_score": held("f8", "queries", "room"),
    "list_number": held("i8", "queries", "room"),
    "list_beaten": held("i4", "queries", "counters"),
    "list_size": held("i8", "queries", low=0),
    "list_k": held("i8", "queries"),
    "list_fill": held("i8", "queries"),
    "list_most": held("i8", "queries"),
    "list_cut": held("i8", "queries"),
    "list_whole": held("?", "queries"),
    "mark_bar": real("queries"),
    "mark_threshold": real("queries"),
    "mark_mark": held("i1", "queries"),
    "mark_spoke": held("?", "queries"),
    "state": held("i8", STATE),
    "aims": held("f8", "aims", "d"),
}


class Many:
    """Answer many queries after every row, each about the points nearest to its own target.

    All objects of the window lie once in the cells of a grid, oldest first, with one clock for all. A query
    keeps a list of the best and a bar; it watches the cells in which something could reach its bar, and an arrival
    meets the queries that watch its cell. When a query has fewer than k left it searches the cells, best first.

    The index of who watches what is lazy. A query that must look further than its cells reach is shown everything,
    one that could do with fewer stays where it is, until objects shown in vain have cost as much as a new index.

    Exact, whatever the stream, the grid and the rule. `rule` is "reserve" (ours: the list is made 2 k + 16 long and
    left to grow and shrink, so that on a steady stream hardly any search is due), "best" or "band".

    Cost: one look at a cell for each row, one comparison for each query that watches it; O(k) for a candidate,
    O(k + objects of the cells visited) for a search. Memory: the window's points, a bit for each query and object with
    emit="arrivals", and a list of some k for each query.

    Parameters
    ----------
    targets
        What is asked.
    window
        After every row: `Counting(n)` or `Sliding(size, "row")`; one for all.
    emit
        "arrivals": each object once for each query. "changes": a query's whole list at every step that changed it.
        "answers": every list at every step.
    rule
        How lists are kept.
    grid, slices
        "quantile" follows the data, "uniform" cuts evenly; into how many slices in each dimension.
    index
        False: every object meets every query.

    Examples
    --------
    >>> import skyband as sb
    >>> many = Many(Targets.of("euclidean", to=[(0, 0), (9, 9)], k=1), sb.Counting(2))
    >>> found = many.advance(np.array([(1.0, 0.0), (5.0, 5.0), (8.0, 9.0)]), np.arange(3), np.arange(3), 3)
    >>> list(zip(found.step.tolist(), found.group.tolist(), found.id.tolist(), found.score.tolist()))
    [(1, 0, 0, -1.0), (1, 1, 0, -12.041594578792296), (2, 1, 1, -5.656854249492381), (3, 0, 1, -7.0710678118654755),
    (3, 1, 2, -1.0)]

    References
    ----------
    Pripuzic et al., TODS 2015, section 6.1 (query indexing) and 8.2, which leaves a grid for data that is not uniform
    to others.
    """

    def __init__(  # noqa: PLR0913 - one name for each thing that can be chosen
        self,
        targets: Targets,
        window: Window,
        *,
        emit: str = "arrivals",
        rule: str = "reserve",
        grid: str = "quantile",
        slices: int | None = None,
        index: bool = True,
        resume: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        d = targets.to.shape[1]
        check(grid, slices, d)
        if not window.kinds & {"row", "every row"}:
            msg = f'window={window!r} has no answer after every row: write sb.Counting(n) or sb.Sliding(size, "row")'
            raise QueryError(msg)
        self._cut, self._indexed, self._tells, self._rule = grid, index, _TELLS[emit], RULES[rule]
        size = WindowAssigner.of(window).size
        self._usual = size if window.counts else SAMPLE * 16
        self._slices = slices or slices_for(self._usual, d)
        self._shape = Shape(KINDS[targets.kind], size, window.counts, self._rule.prunes, self._tells)
        self._begin(targets)
        self._state = np.zeros(STATE, np.int64)
        self._state[BUDGET] = _NEVER
        self._store = _room(1 << 6, d, self._words, self._slices**d)
        self._learn_at = 0
        self._grid = cut(np.zeros((1, d)), self._slices, grid)
        self._index = self._everything()
        if resume is not None:
            self._restore(resume)

    def _begin(self, targets: Targets) -> None:
        """Room for what queries keep; all lists are empty, and so is the window."""
        self.targets, rule, k = targets, self._rule, targets.k
        queries, d = targets.to.shape
        self._words = (queries + 63) // 64 if self._tells == ONCE else 0
        self._aims = Aims(targets.to, targets.weight)
        most = rule.most(k)
        room = int(most.max(initial=0)) + 1
        beaten = np.zeros((queries, room if rule.prunes else 1), np.int32)
        lists = np.empty((queries, room)), np.zeros((queries, room), np.int64), beaten, np.zeros(queries, np.int64)
        self._lists = Lists(*lists, k, rule.fill(k), most, rule.cut(k), np.ones(queries, np.bool_))
        bar, threshold, reach = (np.full(queries, -np.inf) for _ in range(3))
        spoke, chained = (np.zeros(queries, np.bool_) for _ in range(2))
        link, mark = np.full(queries, -1, np.int32), np.zeros(queries, np.int8)
        self._marks = Marks(bar, threshold, reach, link, mark, spoke, chained)
        cells, width = self._slices**d, (d, self._slices)
        heap = np.empty(cells), np.empty(cells, np.int64)
        self._work = Work(*heap, np.empty(width), np.empty(width, np.int64), np.empty(queries, np.int64))

    @property
    def peak(self) -> int:
        """The most objects ever in the window."""
        return int(self._state[PEAK])

    @property
    def counts(self) -> dict[str, int]:
        """What was done: pairs of object and query that met, searches, indexes made."""
        return {
            name: int(self._state[at]) for name, at in (("met", SHOWN), ("searches", SEARCHES), ("indexed", INDEXED))
        }

    def advance(self, point: np.ndarray, time: np.ndarray, id: np.ndarray, upto: int) -> Answers:
        """Take points in order of time and id; one step for each, or for every position before `upto`.

        A point with a NaN is a step without an object. The lists that come back have the query as their group.
        """
        rows = Rows(*(np.require(c, requirements=["C", "W"]) for c in (point, time, id)))
        pages: list[AnswerBuffer] = []
        taken = 0
        while True:
            self._learn(rows.point[taken:])
            last = min(len(rows.id), taken + self._learn_at - int(self._state[NEXT]))
            end = last == len(rows.id)
            edge = upto if end else int(rows.time[last])
            self._run(Rows(*(c[taken:last] for c in rows)), edge, pages)
            taken = last
            if end:
                break
        return bound(pages, whole=self._shape.tells != ONCE)

    def _run(self, rows: Rows, upto: int, pages: list[AnswerBuffer]) -> None:
        state, total = self._state, int(self.targets.k.sum())
        state[ROW] = 0
        why = PAGE
        while why != FINISHED:
            if why == PAGE:
                room = max(2 * total, min(_PAGE, 4 * len(rows.id) + 64) + total)
                page = AnswerBuffer.allocate(room + len(self.targets.k), room, *COLUMNS)
                state[[LISTS, OUT]] = 0
            elif why == STORE:
                self._grow()
            elif why == INDEX:
                self._reindex()
            parts = self._aims, self._grid, self._index, self._store, self._lists, self._marks, self._work
            why = kernels.advance(rows, upto, self._shape, *parts, page, state)
            if why in (PAGE, FINISHED):
                pages.append(page.written(int(state[LISTS]), int(state[OUT])))
        state[SEEN] += len(rows.id)

    def candidates(self) -> Objects:
        """Every object of the window, oldest first: a search may bring back any of them. Scores are not kept."""
        slots = self._slots()
        none = np.full(len(slots), np.nan)
        return Objects(none, self._store.time[slots], self._store.id[slots])

    def points(self) -> np.ndarray:
        """Every object of the window as a point, oldest first."""
        return self._store.point[self._slots()]

    def best(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        """The list of a query, best first: scores and ids. The first k are its answer."""
        held = slice(0, int(self._lists.size[query]))
        number = self._lists.number[query, held]
        alive = number >= self._state[FIRST]
        slots = number[alive] & (len(self._store.next) - 1)
        return self._lists.score[query, held][alive], self._store.id[slots]

    def threshold(self, query: int) -> float:
        """The score that this query's cells were last made for."""
        return float(self._marks.threshold[query])

    def snapshot(self) -> Snapshot:
        """The objects of the window, the lists, and the numbers."""
        slots = self._slots()
        kept = {name: getattr(self._store, name)[slots] for name in ("point", "time", "id", "told")}
        lists = {f"list_{name}": part.copy() for name, part in self._lists._asdict().items()}
        marks = {f"mark_{name}": getattr(self._marks, name).copy() for name in ("bar", "threshold", "mark", "spoke")}
        return {**kept, **lists, **marks, "state": self._state.copy(), "aims": np.concatenate(self._aims)}

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        lists, marks = self._lists, self._marks
        (queries, room), d = lists.score.shape, self._grid.edge.shape[0]
        sizes = {"queries": queries, "room": room, "counters": lists.beaten.shape[1], "words": self._words, "d": d}
        saved = checked(resume, _HOLDS, **sizes)
        same = np.array_equal(saved["aims"], np.concatenate(self._aims))
        fixed = ("k", "fill", "most", "cut")
        if not same or not all(np.array_equal(saved[f"list_{name}"], getattr(lists, name)) for name in fixed):
            msg = "the snapshot is of other queries, or of another rule: resume with those it was made with"
            raise SnapshotError(msg)
        state, count = saved["state"], len(saved["id"])
        require(state[FIRST] >= 0 and state[NEXT] - state[FIRST] == count, "state counts other rows than there are")
        progressed(state[DONE], counts=self._shape.counts)
        require(state[[SEEN, PEAK, SEARCHES]] >= 0, "state has a value that it cannot have")
        require(np.diff(saved["time"]) >= 0, "its rows are in no order of time")
        self._check_lists(saved)
        self._lists = Lists(*(saved[f"list_{name}"] for name in Lists._fields))
        self._state = state
        for name in ("bar", "threshold", "mark", "spoke"):
            getattr(marks, name)[:] = saved[f"mark_{name}"]
        state[FRESH] = (marks.mark == UNSEEN).sum()
        self._store = _room(1 << max(count, 63).bit_length(), d, self._words, len(self._store.head))
        slots = self._slots()
        for name in ("point", "time", "id", "told"):
            getattr(self._store, name)[slots] = saved[name]
        for query in range(queries):
            self._chain(query)
        self._index = self._everything()
        if count:
            self._regrid(saved["point"])

    def _check_lists(self, saved: Mapping[str, np.ndarray]) -> None:
        """Refuse lists of rows that are not in the window, or not best first."""
        size, number, score = (saved[f"list_{name}"] for name in ("size", "number", "score"))
        require(size <= saved["list_most"], "a list is longer than it can be")
        place = np.arange(score.shape[1])
        held, best = place < size[:, None], place < np.minimum(size, saved["list_k"])[:, None]
        first, upcoming = saved["state"][[FIRST, NEXT]]
        require(~held | ((number >= 0) & (number < upcoming)), "a list has a row that never came")
        require(~best | (number >= first), "a list has a row that has left the window among its best")
        require(~held | ~np.isnan(score), "a list has a row without a score")
        require(~held[:, 1:] | (score[:, :-1] >= score[:, 1:]), "a list does not come best first")
        mark = saved["mark_mark"]
        require((mark == 0) | ((mark == UNSEEN) & (size == 0)), "a query waits that has a list")

    def _chain(self, query: int) -> None:
        """Have a query looked at when the oldest of its k best leaves."""
        best = self._lists.number[query, : min(self._lists.size[query], self._lists.k[query])]
        if len(best):
            slot, marks, wakes = int(best.min()) & (len(self._store.next) - 1), self._marks, self._store.wakes
            marks.link[query], wakes[slot], marks.chained[query] = wakes[slot], query, True

    def change(self, targets: Targets, moved: np.ndarray) -> None:
        """Go on with other queries: old query i is now `moved[i]`, or gone if that is -1.

        All objects of the window are here, so a query that comes is exact from the next step on. It tells all that
        it finds then; one that stays, also with another k, tells what it has not told.
        """
        old_lists, old_marks, told = self._lists, self._marks, self._store.told
        stays = np.flatnonzero(moved >= 0)
        self._begin(targets)
        self._store = self._store._replace(told=_dealt(told, stays, moved[stays], self._words))
        self._store.wakes[:] = -1
        lists, marks = self._lists, self._marks
        marks.mark[:], lists.whole[:], marks.bar[:], marks.threshold[:] = UNSEEN, False, np.inf, np.inf
        for old, new in zip(stays.tolist(), moved[stays].tolist(), strict=True):
            marks.spoke[new] = old_marks.spoke[old]
            if lists.k[new] != old_lists.k[old]:
                continue
            for field in ("score", "number", "beaten"):
                row = getattr(old_lists, field)[old]
                width = min(len(row), getattr(lists, field).shape[1])
                getattr(lists, field)[new, :width] = row[:width]
            for field in ("size", "whole"):
                getattr(lists, field)[new] = getattr(old_lists, field)[old]
            for field in ("bar", "threshold", "mark"):
                getattr(marks, field)[new] = getattr(old_marks, field)[old]
            self._chain(new)
        self._state[FRESH] = (marks.mark == UNSEEN).sum()
        self._index = self._everything()
        if self._state[NEXT]:
            self._reindex()

    def _slots(self) -> np.ndarray:
        return np.arange(self._state[FIRST], self._state[NEXT]) & (len(self._store.next) - 1)

    def _learn(self, coming: np.ndarray) -> None:
        """Fit the grid to what is in the window, or to what comes, now and then."""
        seen = int(self._state[NEXT])
        if seen < self._learn_at:
            return
        held = self._store.point[self._slots()]
        sample = np.concatenate([held, coming[:SAMPLE]]) if len(held) < SAMPLE else held
        sample = sample[~np.isnan(sample).any(axis=1)]
        if len(sample):
            self._regrid(sample)
        known = seen + min(len(coming), SAMPLE)
        later = [at for at in _LEARN if at > known]
        self._learn_at = later[0] if later else seen + max(SAMPLE, len(held))

    def _regrid(self, sample: np.ndarray) -> None:
        some = sample[np.linspace(0, len(sample) - 1, min(len(sample), SAMPLE), dtype=np.int64)]
        grid = cut(some, self._slices, self._cut)
        held = self._store.point[self._slots()]
        if len(held):
            grid.edge[:, 0] = np.minimum(grid.edge[:, 0], held.min(axis=0))
            grid.edge[:, -1] = np.maximum(grid.edge[:, -1], held.max(axis=0))
        self._grid = grid
        file(self._store, self._state, cells_of(held, grid))
        self._reindex()

    def _everything(self) -> Index:
        """An index in which every query is shown every object."""
        queries = len(self.targets.k)
        self._state[WIDES], self._marks.reach[:] = queries, -np.inf
        cells = len(self._store.head)
        wide = np.arange(queries, dtype=np.int32)
        return Index(np.zeros(cells + 1, np.int64), np.empty(0, np.int32), wide, np.ones(queries, np.bool_))

    def _reindex(self) -> None:
        """Make the index anew from the bars as they are."""
        state = self._state
        state[[MISSES, MOVED]] = 0
        if not self._indexed:
            return
        first, query, wide = watch(self._shape.kind, self._aims, self._grid, self._marks.bar)
        shown = np.zeros(len(wide), np.int32)
        state[WIDES] = wide.sum()
        shown[: state[WIDES]] = np.flatnonzero(wide)
        self._marks.reach[:] = self._marks.bar
        self._index = Index(first, query, shown, wide)
        state[BUDGET] = 20_000 + 4 * len(query) + 20 * len(wide)
        state[INDEXED] += 1

    def _grow(self) -> None:
        """Twice the room for objects."""
        old, state = self._store, self._state
        slots = self._slots()
        d, words = old.point.shape[1], old.told.shape[1]
        self._store = _room(2 * len(old.next), d, words, len(old.head))
        new = self._slots()
        for name in ("point", "time", "id", "told", "wakes"):
            getattr(self._store, name)[new] = getattr(old, name)[slots]
        file(self._store, state, old.cell[slots])


def _room(slots: int, d: int, words: int, cells: int) -> Store:
    numbers = [np.empty(slots, np.int64) for _ in range(2)]
    small = [np.full(slots, -1, np.int32) for _ in range(3)]
    told = np.zeros((slots, words), np.uint64)
    ends = [np.full(cells, -1, np.int32) for _ in range(2)]
    return Store(np.empty((slots, d)), numbers[0], numbers[1], small[0], small[1], told, small[2], ends[0], ends[1])


def _dealt(told: np.ndarray, old: np.ndarray, new: np.ndarray, words: int) -> np.ndarray:
    """The bits of queries `old` at the places `new`."""
    bits = np.unpackbits(np.ascontiguousarray(told).view(np.uint8), axis=1, bitorder="little")
    moved = np.zeros((len(told), words * 64), np.uint8)
    if words:
        moved[:, new] = bits[:, old]
    return np.packbits(moved, axis=1, bitorder="little").view(np.uint64)
