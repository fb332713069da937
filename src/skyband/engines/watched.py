"""The engines of top-k/w that define a threshold, many at once behind a query grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines.arrival_engine import Steps
from skyband.engines.grid_cells import SAMPLE, check, cut, slices_for
from skyband.engines.grid_pages import COLUMNS, bound
from skyband.engines.options import span as buffer_span
from skyband.engines.protocol import Objects
from skyband.engines.registry import ENGINES, build
from skyband.engines.targets import KINDS, Targets
from skyband.engines.validation import FAR as MOST
from skyband.engines.validation import Column, checked, held, progressed, require, whole
from skyband.errors import QueryError, SnapshotError
from skyband.kernels import watched as kernels
from skyband.kernels.answers import AnswerBuffer
from skyband.kernels.grid import Aims, cells_of, watch
from skyband.kernels.ranked import (
    ADDITIONAL,
    CELL,
    END,
    FAR,
    HEAD,
    KIND,
    LEAST,
    LIMIT,
    NUMBERS,
    PROBABILISTIC,
    RATE,
    REALS,
    RELAXED,
    K,
    Ranked,
)
from skyband.kernels.watched import BUFFER, FINISHED, LONGEST, NEED, PAGE, ROOM, Buffer, Marks, Shape
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
from skyband.query import TopK
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.protocol import Answers, Snapshot
    from skyband.query import Window

THRESHOLDS = ("probabilistic", "sasf", "sarf", "sapf", "rasf", "rarf", "rapf")
"""Engines that define a threshold: PA that of its last candidate, those with a filter the filter's k-th score."""

_ROWS = 1 << 16


def _list_holds(part: str) -> dict[str, Column]:
    return {
        f"{part}/score": held("f8", "queries", part),
        **{f"{part}/{name}": whole("queries", part) for name in ("time", "id", "mark")},  # also where no row is
        f"{part}/num": held("i8", "queries", NUMBERS),
        f"{part}/real": held("f8", "queries", REALS),
    }


_HOLDS = {
    **_list_holds("band"),
    **_list_holds("screen"),
    "buffer/point": held("f8", "slots", "d"),
    "buffer/time": held("i8", "slots"),
    "buffer/id": held("i8", "slots"),
    "buffer/inside": held("u8", "slots", "words"),
    "marks/bar": held("f8", "queries"),
    "marks/lowest": held("f8", "queries"),
    "marks/due": held("i8", "queries"),
    "state": held("i8", STATE),
    "told": held("i8", 3, low=0),
    "aims": held("f8", "aims", "d"),
}


class Watched:
    """One engine a query, one buffer and one query grid for all: an arrival meets those that watch its cell.

    As exact as the engine. The threshold of PA is the score of its last candidate, that of an engine with a filter the
    k-th score of the filter (of PF: its bar); an object is shown when it comes and when it leaves the buffer. `strict`
    and `relaxed` define none. `Many` is faster than all of them; this shows what the paper's own engines gain.

    Tells arrivals: each object once for each query.

    Cost: a look at a cell for each row, and what the engine needs for each query that watches it. Memory: the
    lists, and the buffer once.

    Examples
    --------
    >>> import skyband as sb
    >>> many = Watched("rapf", Targets.of("euclidean", to=[(0, 0), (9, 9)], k=1), sb.Counting(2))
    >>> found = many.advance(np.array([(1.0, 0.0), (5.0, 5.0), (8.0, 9.0)]), np.arange(3), np.arange(3), 3)
    >>> list(zip(found.step.tolist(), found.group.tolist(), found.id.tolist()))
    [(1, 0, 0), (1, 1, 0), (2, 1, 1), (3, 0, 1), (3, 1, 2)]

    References
    ----------
    Pripuzic et al., TODS 2015, section 6.1.
    """

    def __init__(  # noqa: PLR0913 - one name for each thing that can be chosen
        self,
        engine: str,
        targets: Targets,
        window: Window,
        *,
        options: Mapping[str, object] | None = None,
        grid: str = "quantile",
        slices: int | None = None,
        index: bool = True,
        resume: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        if engine not in THRESHOLDS:
            msg = f"engine={engine!r} defines no threshold to watch cells by: write one of {', '.join(THRESHOLDS)}"
            raise QueryError(msg)
        queries, d = targets.to.shape
        check(grid, slices, d)
        self.targets, self._cut, self._indexed = targets, grid, index
        size = WindowAssigner.of(window).size
        self._slices = slices or slices_for(size if window.counts else SAMPLE * 16, d)
        lists = [self._steps(engine, k, window, options) for k in targets.k.tolist()]
        one = TopK(k=1, by="x", window=window, time="t")
        filtered = "buffer" in ENGINES[engine].options
        span = buffer_span(one, (options or {}).get("buffer")) if filtered else 0
        self._shape = Shape(KINDS[targets.kind], size, span, window.counts)
        self._band, self._screen = _stacked([s.band for s in lists]), _stacked([s.screen for s in lists])
        self._aims = Aims(targets.to, targets.weight)
        low = np.full(queries, -np.inf)
        self._marks = Marks(low, low.copy(), low.copy(), np.full(queries, FAR), np.zeros(queries, np.int8))
        self._words = (queries + 63) // 64
        self._buffer = self._room(64)
        self._state = np.zeros(STATE, np.int64)
        self._state[[BUDGET, WIDES]] = 1 << 62, queries
        cells = self._slices**d
        wide = np.arange(queries, dtype=np.int32)
        self._index = Index(np.zeros(cells + 1, np.int64), np.empty(0, np.int32), wide, np.ones(queries, np.bool_))
        self._grid = cut(np.zeros((1, d)), self._slices, grid)
        self._touched = np.empty(queries, np.int64)
        self._seen, self._learn_at, self._forget_at = 0, 0, 0
        # a strict or relaxed filter fills its cells: there a longer memory costs more than it saves
        gentle = not filtered or int(self._screen.num[0, KIND]) == PROBABILISTIC
        self._memory = (size if window.counts else SAMPLE * 16) if gentle else 0
        self.peak = 0
        if resume is not None:
            self._restore(resume)

    @staticmethod
    def _steps(engine: str, k: int, window: Window, options: Mapping[str, object] | None) -> Steps:
        running = build(engine, TopK(k=k, by="x", window=window, time="t", emit="arrivals"), options=options)
        assert isinstance(running, Steps)
        return running

    @property
    def met(self) -> int:
        """Pairs of object and query that met, also when an object left the buffer."""
        return int(self._state[SHOWN])

    @property
    def indexed(self) -> int:
        """How often the index was made."""
        return int(self._state[INDEXED])

    def kept(self, query: int) -> np.ndarray:
        """The ids of a query's band, best first; what waits in the buffer is not among them."""
        num = self._band.num[query]
        return self._band.id[query, num[HEAD] : num[END]].copy()

    def waiting(self) -> np.ndarray:
        """The ids in the buffer that serves all filters, oldest first."""
        return self._buffer.id[self._slots()]

    def advance(self, point: np.ndarray, time: np.ndarray, id: np.ndarray, upto: int) -> Answers:
        """Take points in order of time and id, as `Many.advance` does."""
        rows = Rows(*(np.require(c, requirements=["C", "W"]) for c in (point, time, id)))
        pages: list[AnswerBuffer] = []
        taken = 0
        while True:
            self._learn(rows.point[taken:])
            last = min(len(rows.id), taken + self._learn_at - self._seen)
            end = last == len(rows.id)
            self._run(Rows(*(c[taken:last] for c in rows)), upto if end else int(rows.time[last]), pages)
            self._seen += last - taken
            taken = last
            if end:
                self.peak = max(self.peak, int((self._band.num[:, END] - self._band.num[:, HEAD]).sum()))
                return bound(pages, whole=False)

    def candidates(self) -> Objects:
        """Every object on a list or in the buffer, oldest first. Scores are not kept: each query has its own."""
        num, slots = self._band.num, self._slots()
        spans = [slice(head, end) for head, end in num[:, [HEAD, END]].tolist()]
        ids, times = (
            np.concatenate([kept[slots], *(column[q, span] for q, span in enumerate(spans))])
            for kept, column in ((self._buffer.id, self._band.id), (self._buffer.time, self._band.time))
        )
        id, place = np.unique(ids, return_index=True)
        return Objects(np.full(len(id), np.nan), times[place], id)

    def snapshot(self) -> Snapshot:
        """The lists, the buffer, the bars and the numbers. The grid is learnt anew, from what comes."""
        parts: dict[str, Any] = {
            "band": self._band,
            "screen": self._screen,
            "buffer": self._buffer,
            "marks": self._marks,
        }
        named = {
            f"{part}/{name}": columns.copy()
            for part, held in parts.items()
            for name, columns in held._asdict().items()
            if f"{part}/{name}" in _HOLDS
        }
        slots = self._slots()
        named |= {name: value[slots] for name, value in named.items() if name.startswith("buffer/")}
        told = [self._seen, self._forget_at, self.peak]
        return {**named, "state": self._state.copy(), "told": np.array(told), "aims": np.concatenate(self._aims)}

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        queries, d = self.targets.to.shape
        saved = checked(resume, _HOLDS, queries=queries, d=d, words=self._words)
        if not np.array_equal(saved["aims"], np.concatenate(self._aims)):
            msg = "the snapshot is of other queries: resume with those it was made with"
            raise SnapshotError(msg)
        state, count = saved["state"], len(saved["buffer/id"])
        require(state[FIRST] >= 0 and state[NEXT] - state[FIRST] == count, "state counts other rows than there are")
        progressed(state[DONE], counts=self._shape.counts)
        require(state[SEEN] >= 0, "state has a value that it cannot have")
        require(self._shape.span > 0 or not count, "there are rows in a buffer that it has not")
        require(np.diff(saved["buffer/time"]) >= 0, "its buffer is in no order of time")
        require(~np.isnan(saved["buffer/point"]), "its buffer has a row without a score")
        self._band, self._screen = (
            self._right(part, fresh, saved) for part, fresh in (("band", self._band), ("screen", self._screen))
        )
        self._state = state
        lengths = [lists.num[:, END] - lists.num[:, HEAD] for lists in (self._band, self._screen)]
        state[LONGEST] = np.max(lengths, initial=0)
        self._buffer = self._room(1 << max(count, 63).bit_length())
        slots = self._slots()
        for name in ("point", "time", "id", "inside"):
            getattr(self._buffer, name)[slots] = saved[f"buffer/{name}"]
        for name in ("bar", "lowest", "due"):
            getattr(self._marks, name)[:] = saved[f"marks/{name}"]
        self._seen, self._forget_at, self.peak = (int(n) for n in saved["told"])
        self._learn_at = self._seen
        state[WIDES] = queries  # until the grid is learnt, everyone is shown everything

    @staticmethod
    def _right(part: str, fresh: Ranked, saved: Mapping[str, np.ndarray]) -> Ranked:
        """Saved lists, which must be of the same kind as the `fresh` ones."""
        score, time, id, mark, num, more = (saved[f"{part}/{name}"] for name in Ranked._fields if name != "heap")
        fixed = [KIND, K, ADDITIONAL, LEAST]
        same = np.array_equal(num[:, fixed], fresh.num[:, fixed])
        require(same and np.array_equal(more[:, [RATE, CELL]], fresh.real[:, [RATE, CELL]]), "a list has other rules")
        limit = (num[:, LIMIT] == fresh.num[:, LIMIT]) | ((num[:, KIND] == RELAXED) & (num[:, LIMIT] >= 0))
        require(limit, "a list has another limit than its engine")
        head, end = num[:, HEAD], num[:, END]
        require((head >= 0) & (head <= end) & (end <= score.shape[1]), "a list ends before it begins, or too late")
        place = np.arange(score.shape[1])
        here = (place >= head[:, None]) & (place < end[:, None])
        require(~here | (~np.isnan(score) & (np.abs(time) < MOST)), "a list has a row without a score or time")
        require(~here[:, 1:] | ~here[:, :-1] | (score[:, :-1] >= score[:, 1:]), "a list does not come best first")
        require(~here | ((mark >= 0) & (mark <= 2 * num[:, [K]] + 1)), "a row is beaten by more than it can be")
        heap = np.empty((len(num), int(num[:, K].max(initial=1))), np.int64)
        return Ranked(score, time, id, mark, heap, num, more)

    def _run(self, rows: Rows, upto: int, pages: list[AnswerBuffer]) -> None:
        state, total = self._state, int(self.targets.k.sum())
        state[ROW], why = 0, PAGE
        while why != FINISHED:
            if why == PAGE:
                room = max(2 * total, min(_ROWS, 4 * len(rows.id) + 64) + total)
                page = AnswerBuffer.allocate(room + len(self.targets.k), room, *COLUMNS)
                state[[LISTS, OUT]] = 0
            elif why == ROOM:
                self._band, self._screen = (self._grown(one) for one in (self._band, self._screen))
            elif why == BUFFER:
                self._grow()
            else:
                self._reindex()
            shared = self._aims, self._grid, self._index, self._buffer, self._band, self._screen, self._marks
            why = kernels.advance(rows, upto, self._shape, *shared, self._touched, page, state)
            if why in (PAGE, FINISHED):
                pages.append(page.written(int(state[LISTS]), int(state[OUT])))
        state[SEEN] += len(rows.id)
        state[ROW] = 0

    def _learn(self, coming: np.ndarray) -> None:
        """Fit the grid to what comes, now and then. A point that left the buffer is nowhere any more."""
        if self._seen < self._learn_at:
            return
        held = self._buffer.point[self._slots()]
        sample = np.concatenate([held[-SAMPLE // 2 :], coming[:SAMPLE]])
        sample = sample[~np.isnan(sample).any(axis=1)]
        if len(sample):
            self._grid = cut(sample, self._slices, self._cut)
            if len(held):
                edge = self._grid.edge
                edge[:, 0] = np.minimum(edge[:, 0], held.min(axis=0))
                edge[:, -1] = np.maximum(edge[:, -1], held.max(axis=0))
                self._buffer.cell[self._slots()] = cells_of(held, self._grid)
            self._reindex()
        self._learn_at = self._seen + max(SAMPLE * 4, self._shape.size if self._shape.counts else 0)

    def _reindex(self) -> None:
        state = self._state
        state[[MISSES, MOVED]] = 0
        if not self._indexed:
            return
        # a threshold goes up and down as its objects come and go: watch what it needed at worst of late
        marks = self._marks
        marks.reach[:] = np.where(np.isneginf(marks.lowest), marks.bar, np.minimum(marks.lowest, marks.bar))
        marks.lowest[:] = marks.reach
        now = int(state[SEEN] + state[ROW])
        if now >= self._forget_at:
            marks.lowest[:] = marks.bar
            self._forget_at = now + self._memory
        first, query, wide = watch(self._shape.kind, self._aims, self._grid, marks.reach)
        shown = np.zeros(len(wide), np.int32)
        state[WIDES] = wide.sum()
        shown[: state[WIDES]] = np.flatnonzero(wide)
        self._index = Index(first, query, shown, wide)
        state[BUDGET] = 20_000 + 4 * len(query) + 20 * len(wide)
        state[INDEXED] += 1

    def _slots(self) -> np.ndarray:
        return np.arange(self._state[FIRST], self._state[NEXT]) & (len(self._buffer.time) - 1)

    def _room(self, slots: int) -> Buffer:
        point = np.empty((slots, self.targets.to.shape[1]))
        time, id = (np.empty(slots, np.int64) for _ in range(2))
        return Buffer(point, time, id, np.zeros(slots, np.int32), np.zeros((slots, self._words), np.uint64))

    def _grow(self) -> None:
        """Twice the room for the buffer."""
        old, slots = self._buffer, self._slots()
        self._buffer = self._room(2 * len(old.time))
        new = self._slots()
        for to, part in zip(self._buffer, old, strict=True):
            to[new] = part[slots]

    def _grown(self, lists: Ranked) -> Ranked:
        """The lists in the middle of four times the room that the longest needs."""
        room = 4 * int(self._state[LONGEST] + self._state[NEED] + 8)
        if room <= lists.score.shape[1]:
            return lists
        columns = [np.empty((len(lists.num), room), column.dtype) for column in lists[:4]]
        for q, num in enumerate(lists.num):
            head, count = int(num[HEAD]), int(num[END] - num[HEAD])
            low = (room - count) // 2
            for new, old in zip(columns, lists[:4], strict=True):
                new[q, low : low + count] = old[q, head : head + count]
            num[HEAD], num[END] = low, low + count
        score, time, id, mark = columns
        heap = np.empty((len(lists.num), int(self.targets.k.max())), np.int64)
        return Ranked(score, time, id, mark, heap, lists.num, lists.real)


def _stacked(lists: list[Ranked]) -> Ranked:
    """Empty lists, one a row."""
    queries = len(lists)
    numbers = [np.empty((queries, 1), np.int64) for _ in range(4)]
    num, real = (np.stack([one[at] for one in lists]) for at in (5, 6))
    num[:, HEAD] = num[:, END] = 0
    return Ranked(np.empty((queries, 1)), numbers[0], numbers[1], numbers[2], numbers[3], num, real)
