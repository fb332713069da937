"""The engines of top-k/w that define a threshold, many at once behind a query grid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines.arrival_engine import ArrivalEngine, check_rules
from skyband.engines.family import QueryFamily
from skyband.engines.grid_engine import SAMPLE, GridEngine
from skyband.engines.protocol import Objects
from skyband.engines.validation import MAX_MAGNITUDE, ColumnSpec, any_int_column, require, typed_column, validate
from skyband.kernels import watched as kernels
from skyband.kernels.grid import cells_of
from skyband.kernels.ranked import (
    END,
    FAR,
    HEAD,
    KIND,
    NUMBERS,
    PROBABILISTIC,
    REALS,
    K,
    Ranked,
)
from skyband.kernels.watched import BUFFER, LONGEST, NEED, ROOM, Buffer, Marks, Shape
from skyband.kernels.watching import FIRST, NEXT, ROW, SEEN, STATE, WIDES, Rows

if TYPE_CHECKING:
    from skyband.engines.protocol import EngineClass, Snapshot
    from skyband.kernels.answers import AnswerBuffer


def _list_holds(part: str) -> dict[str, ColumnSpec]:
    return {
        f"{part}/score": typed_column("f8", "queries", part),
        **{
            f"{part}/{name}": any_int_column("queries", part) for name in ("time", "id", "mark")
        },  # any where there is no row
        f"{part}/num": typed_column("i8", "queries", NUMBERS),
        f"{part}/real": typed_column("f8", "queries", REALS),
    }


_COLUMNS = {
    **_list_holds("band"),
    **_list_holds("screen"),
    "buffer/point": typed_column("f8", "slots", "d"),
    "buffer/time": typed_column("i8", "slots"),
    "buffer/id": typed_column("i8", "slots"),
    "buffer/inside": typed_column("u8", "slots", "words"),
    "marks/bar": typed_column("f8", "queries"),
    "marks/lowest": typed_column("f8", "queries"),
    "marks/due": typed_column("i8", "queries"),
    "state": typed_column("i8", STATE),
    "told": typed_column("i8", 3, low=0),
    "aims": typed_column("f8", "aims", "d"),
}


class Watched(GridEngine):
    """One engine a query, one buffer and one query grid for all: an arrival meets the queries that watch its cell.

    As exact as the engine. The threshold of PA is the score of its last candidate, that of an engine with a filter the
    k-th score of the filter (of PF: its bar); an object is shown when it comes and when it leaves the buffer. `strict`
    and `relaxed` define none. `PointGrid` is faster than all of them; this shows what the paper's own engines gain.

    Reports arrivals: each object once for each query. Members are fixed.

    Cost: a look at a cell for each row, and what the engine needs for each query that watches it. Memory: the
    lists, and the buffer once.

    Examples
    --------
    >>> import skyband as sb
    >>> near = [
    ...     sb.TopK(k=1, by=sb.distance(["x"], to=[at]), window=sb.Counting(4), emit="arrivals") for at in (0, 9)
    ... ]
    >>> found = sb.run(near, {"x": [4.5, 1.5, 8.5]}, engine="rapf", options={"buffer": 2, "grid": "uniform"})
    >>> list(zip(found["query"].to_pylist(), found["score"].to_pylist()))
    [('q0', 4.5), ('q1', 4.5), ('q0', 1.5), ('q1', 0.5)]

    References
    ----------
    Pripuzic et al., TODS 2015, section 6.1.
    """

    def __init__(
        self,
        family: QueryFamily,
        resume: Mapping[str, np.ndarray] | None = None,
        *,
        engine_class: EngineClass,
        grid: str = "quantile",
        slices: int | None = None,
        index: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(family, grid=grid, slices=slices, index=index, partial=True)
        queries, lists = len(family.members), []
        for member in family.members:
            alone = engine_class(QueryFamily.of(family.member_query(member)), **options)
            assert isinstance(alone, ArrivalEngine)
            lists.append(alone)
        span = lists[0].span
        self._shape = Shape(self._targets.kind, self._assigner.size, span, self._assigner.counts)
        self._band, self._filter = (
            _stack_lists([alone.band for alone in lists]),
            _stack_lists([alone.filter for alone in lists]),
        )
        low = np.full(queries, -np.inf)
        self._marks = Marks(low, low.copy(), low.copy(), np.full(queries, FAR), np.zeros(queries, np.int8))
        self._words = (queries + 63) // 64
        self._buffer = self._allocate_buffer(64)
        self._index = self._full_index()
        self._touched = np.empty(queries, np.int64)
        self._forget_at = 0
        # a strict or relaxed filter fills its cells: there a longer memory costs more than it saves
        gentle = not span or int(self._filter.num[0, KIND]) == PROBABILISTIC
        self._memory = self._usual_rows if gentle else 0
        if resume is not None:
            self._restore(resume)

    def kept(self, query: int) -> np.ndarray:
        """Return the ids of a query's band, best first; what waits in the buffer is not among them."""
        num = self._band.num[query]
        return self._band.id[query, num[HEAD] : num[END]].copy()

    def buffered(self) -> np.ndarray:
        """Return the ids in the buffer that serves all filters, oldest first."""
        return self._buffer.id[self._slots()]

    def candidates(self) -> Objects:
        """Return every object on a list or in the buffer, oldest first, without scores: each query has its own."""
        num, slots = self._band.num, self._slots()
        spans = [slice(head, end) for head, end in num[:, [HEAD, END]].tolist()]
        ids, times = (
            np.concatenate([kept[slots], *(column[q, span] for q, span in enumerate(spans))])
            for kept, column in ((self._buffer.id, self._band.id), (self._buffer.time, self._band.time))
        )
        id, place = np.unique(ids, return_index=True)
        return Objects(np.full(len(id), np.nan), times[place], id)

    def snapshot(self) -> Snapshot:
        """Return the lists, the buffer, the bars and the numbers. The grid is fitted again, to what comes."""
        parts: dict[str, Any] = {
            "band": self._band,
            "screen": self._filter,
            "buffer": self._buffer,
            "marks": self._marks,
        }
        named = {
            f"{part}/{name}": columns.copy()
            for part, held in parts.items()
            for name, columns in held._asdict().items()
            if f"{part}/{name}" in _COLUMNS
        }
        slots = self._slots()
        named |= {name: value[slots] for name, value in named.items() if name.startswith("buffer/")}
        numbers = np.array([self._rows_taken(), self._forget_at, self.peak])
        return {**named, "state": self._state.copy(), "told": numbers, "aims": np.concatenate(self._targets.aims)}

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        queries = len(self._targets.k)
        saved = validate(resume, _COLUMNS, queries=queries, d=self.dimensions, words=self._words)
        state, count = saved["state"], len(saved["buffer/id"])
        self._check_restored(saved, count)
        require(self._shape.span > 0 or not count, "there are rows in a buffer that it has not")
        require(np.diff(saved["buffer/time"]) >= 0, "its buffer is in no order of time")
        require(~np.isnan(saved["buffer/point"]), "its buffer has a row without a score")
        self._band, self._filter = (
            self._restored_lists(part, fresh, saved) for part, fresh in (("band", self._band), ("screen", self._filter))
        )
        self._state = state
        lengths = [lists.num[:, END] - lists.num[:, HEAD] for lists in (self._band, self._filter)]
        state[LONGEST] = np.max(lengths, initial=0)
        self._buffer = self._allocate_buffer(1 << max(count, 63).bit_length())
        slots = self._slots()
        for name in ("point", "time", "id", "inside"):
            getattr(self._buffer, name)[slots] = saved[f"buffer/{name}"]
        for name in ("bar", "lowest", "due"):
            getattr(self._marks, name)[:] = saved[f"marks/{name}"]
        self._fit_at, self._forget_at, self.peak = (int(n) for n in saved["told"])
        state[WIDES] = queries  # until the grid is fitted, every query is shown everything

    @staticmethod
    def _restored_lists(part: str, fresh: Ranked, saved: Mapping[str, np.ndarray]) -> Ranked:
        """Return stored lists, which must be of the same kind as the `fresh` ones."""
        score, time, id, mark, num, more = (saved[f"{part}/{name}"] for name in Ranked._fields if name != "heap")
        head, end = num[:, HEAD], num[:, END]
        require((head >= 0) & (head <= end) & (end <= score.shape[1]), "a list ends before it begins, or too late")
        place = np.arange(score.shape[1])
        here = (place >= head[:, None]) & (place < end[:, None])
        require(~here | (~np.isnan(score) & (np.abs(time) < MAX_MAGNITUDE)), "a list has a row without a score or time")
        require(~here[:, 1:] | ~here[:, :-1] | (score[:, :-1] >= score[:, 1:]), "a list does not come best first")
        check_rules(num, more, np.where(here, mark, 0), fresh.num, fresh.real)
        heap = np.empty((len(num), int(num[:, K].max(initial=1))), np.int64)
        return Ranked(score, time, id, mark, heap, num, more)

    def _rows_taken(self) -> int:
        return int(self._state[SEEN])

    def _peak(self) -> int:
        return int((self._band.num[:, END] - self._band.num[:, HEAD]).sum())

    def _call_kernel(self, rows: Rows, upto: int, buffer: AnswerBuffer) -> int:
        aims, lists = self._targets.aims, (self._buffer, self._band, self._filter, self._marks, self._touched)
        return int(kernels.advance(rows, upto, self._shape, aims, self._grid, self._index, *lists, buffer, self._state))

    def _make_space(self, why: int) -> None:
        if why == ROOM:
            self._band, self._filter = (self._grow_lists(one) for one in (self._band, self._filter))
        elif why == BUFFER:
            self._grow_buffer()
        else:
            self._reindex()

    def _fit(self, coming: np.ndarray) -> None:
        held = self._buffer.point[self._slots()]  # a point that has left the buffer is not kept
        sample = np.concatenate([held[-SAMPLE // 2 :], coming[:SAMPLE]])
        sample = sample[~np.isnan(sample).any(axis=1)]
        if len(sample):
            self._cut_grid(sample, held)
            if len(held):
                self._buffer.cell[self._slots()] = cells_of(held, self._grid)
            self._reindex()
        self._fit_at = self._rows_taken() + max(SAMPLE * 4, self._shape.size if self._shape.counts else 0)

    def _reindex(self) -> None:
        self._clear_misses()
        if not self._indexed:
            return
        # a threshold goes up and down as its objects come and go: watch what it needed at worst of late
        marks, state = self._marks, self._state
        marks.reach[:] = np.where(np.isneginf(marks.lowest), marks.bar, np.minimum(marks.lowest, marks.bar))
        marks.lowest[:] = marks.reach
        now = int(state[SEEN] + state[ROW])
        if now >= self._forget_at:
            marks.lowest[:] = marks.bar
            self._forget_at = now + self._memory
        self._index = self._make_index(marks.reach)

    def _slots(self) -> np.ndarray:
        return np.arange(self._state[FIRST], self._state[NEXT]) & (len(self._buffer.time) - 1)

    def _allocate_buffer(self, slots: int) -> Buffer:
        point = np.empty((slots, self.dimensions))
        time, id = (np.empty(slots, np.int64) for _ in range(2))
        return Buffer(point, time, id, np.zeros(slots, np.int32), np.zeros((slots, self._words), np.uint64))

    def _grow_buffer(self) -> None:
        """Double the capacity of the buffer."""
        old, slots = self._buffer, self._slots()
        self._buffer = self._allocate_buffer(2 * len(old.time))
        new = self._slots()
        for to, part in zip(self._buffer, old, strict=True):
            to[new] = part[slots]

    def _grow_lists(self, lists: Ranked) -> Ranked:
        """Put the lists in the middle of four times the space that the longest needs."""
        capacity = 4 * int(self._state[LONGEST] + self._state[NEED] + 8)
        if capacity <= lists.score.shape[1]:
            return lists
        columns = [np.empty((len(lists.num), capacity), column.dtype) for column in lists[:4]]
        for q, num in enumerate(lists.num):
            head, count = int(num[HEAD]), int(num[END] - num[HEAD])
            low = (capacity - count) // 2
            for new, old in zip(columns, lists[:4], strict=True):
                new[q, low : low + count] = old[q, head : head + count]
            num[HEAD], num[END] = low, low + count
        score, time, id, mark = columns
        heap = np.empty((len(lists.num), int(self._targets.k.max())), np.int64)
        return Ranked(score, time, id, mark, heap, lists.num, lists.real)


def _stack_lists(lists: list[Ranked]) -> Ranked:
    """Make empty lists, one a row."""
    queries = len(lists)
    numbers = [np.empty((queries, 1), np.int64) for _ in range(4)]
    num, real = (np.stack([one[at] for one in lists]) for at in (5, 6))
    num[:, HEAD] = num[:, END] = 0
    return Ranked(np.empty((queries, 1)), numbers[0], numbers[1], numbers[2], numbers[3], num, real)
