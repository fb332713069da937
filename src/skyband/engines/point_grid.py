"""The window's points in the cells of a grid, for many queries over one stream: ours, TMA, SMA, CPM and SNN."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from skyband.engines.grid_engine import SAMPLE, GridEngine
from skyband.engines.protocol import Objects, Snapshot
from skyband.engines.validation import float_column, require, typed_column, validate
from skyband.errors import SnapshotError
from skyband.kernels import nearest as kernels
from skyband.kernels.cells import Store, Work, file
from skyband.kernels.grid import cells_of
from skyband.kernels.lists import Lists
from skyband.kernels.nearest import CHANGED, EVERY, FRESH, ONCE, PEAK, SEARCHES, STORE, UNSEEN, Marks, Shape
from skyband.kernels.watching import FIRST, NEXT, STATE, Rows

if TYPE_CHECKING:
    from skyband.engines.family import QueryFamily
    from skyband.kernels.answers import AnswerBuffer


_EMITS = {"arrivals": ONCE, "changes": CHANGED, "answers": EVERY}
_FIT_AFTER = (64, 512, 4096)  # objects after which the grid is fitted again; then after every window
_COLUMNS = {
    "point": float_column("rows", "d"),
    "time": typed_column("i8", "rows"),
    "id": typed_column("i8", "rows"),
    "told": typed_column("u8", "rows", "words"),
    "list_score": typed_column("f8", "queries", "room"),
    "list_number": typed_column("i8", "queries", "room"),
    "list_beaten": typed_column("i4", "queries", "counters"),
    "list_size": typed_column("i8", "queries", low=0),
    "list_k": typed_column("i8", "queries"),
    "list_fill": typed_column("i8", "queries"),
    "list_most": typed_column("i8", "queries"),
    "list_cut": typed_column("i8", "queries"),
    "list_whole": typed_column("?", "queries"),
    "mark_bar": float_column("queries"),
    "mark_threshold": float_column("queries"),
    "mark_mark": typed_column("i1", "queries"),
    "mark_spoke": typed_column("?", "queries"),
    "state": typed_column("i8", STATE),
    "aims": typed_column("f8", "aims", "d"),
}


class ListRule(NamedTuple):
    """How a query's list is kept: how long a search makes it, when and how far it is cut, and whether it is pruned."""

    fill: Callable[[np.ndarray], np.ndarray]
    most: Callable[[np.ndarray], np.ndarray]
    cut: Callable[[np.ndarray], np.ndarray]
    prunes: bool = False


RESERVE = ListRule(lambda k: 2 * k + 16, lambda k: 4 * k + 32, lambda k: 2 * k + 16)
"""A reserve behind the k best makes searches rare; lists are not pruned, so no stream can make them long."""

BEST = ListRule(lambda k: k, lambda k: k, lambda k: k)
"""The k best and no more: TMA, CPM/w."""

BAND = ListRule(lambda k: k, lambda k: 4 * k + 8, lambda k: 2 * k, prunes=True)
"""Of the objects above the threshold, those that fewer than k later ones beat: SMA, SNN."""


class PointGrid(GridEngine):
    """Answer many queries after every row, each about the points nearest to its own target, or of the largest sums.

    All objects of the window lie once in the cells of a grid, oldest first. A query keeps a list of the best and a
    bar; it watches the cells in which something could reach its bar, and an arrival meets the queries that watch its
    cell. When a query has fewer than k left it searches the cells, best first.

    Exact, whatever the stream, the grid and the rule of lists. Here a list is made 2 k + 16 long and left to grow and
    shrink, so that on a steady stream searches are rare. Members may be added: since every row of the window is kept, a
    new one is exact at once. A single query has its score as the only dimension.

    Cost: one look at a cell for each row, one comparison for each query that watches it; O(k) for a candidate,
    O(k + objects of the cells visited) for a search. Memory: the window's points, a bit for each query and object with
    emit="arrivals", and a list of some k for each query.

    Parameters
    ----------
    family
        A family of points, or a single query with a window after every row.
    resume
        A snapshot.
    grid, slices
        "quantile" follows the data, "uniform" cuts evenly; into how many slices in each dimension.
    index
        False: every object meets every query.

    Examples
    --------
    >>> import skyband as sb
    >>> near = [sb.TopK(k=1, by=sb.distance(["x"], to=[at]), window=sb.Counting(2)) for at in range(6)]
    >>> sb.run(near, {"x": [4.5, 1.5]}, engine="cpm")["score"].to_pylist()[6:]
    [1.5, 0.5, 0.5, 1.5, 0.5, 0.5]

    References
    ----------
    Pripuzic et al., TODS 2015, section 6.1 (query indexing) and 8.2, which leaves a grid for data that is not uniform
    to others.
    """

    rule: ClassVar[ListRule] = RESERVE

    def __init__(
        self,
        family: QueryFamily,
        resume: Mapping[str, np.ndarray] | None = None,
        *,
        grid: str = "quantile",
        slices: int | None = None,
        index: bool = True,
    ) -> None:
        emit = family.query.emit
        if family.is_single and emit == "changes":  # one list a step: the emitter finds out what has changed
            emit = "answers"
        self._emit = _EMITS[emit]
        super().__init__(family, grid=grid, slices=slices, index=index, partial=self._emit == ONCE)
        self._allocate_lists()
        self._store = _allocate_store(1 << 6, self.dimensions, self._words, self._slices**self.dimensions)
        self._watch_everything()
        if resume is not None:
            self._restore(resume)

    def _allocate_lists(self) -> None:
        """Allocate what queries keep; all lists are empty."""
        rule, (_, aims, k), queries = self.rule, self._targets, len(self._targets.k)
        size, counts = self._assigner.size, self._assigner.counts
        self._shape = Shape(self._targets.kind, size, counts, rule.prunes, self._emit)
        self._words = (queries + 63) // 64 if self._emit == ONCE else 0
        most = rule.most(k)
        room = int(most.max(initial=0)) + 1
        beaten = np.zeros((queries, room if rule.prunes else 1), np.int32)
        lists = np.empty((queries, room)), np.zeros((queries, room), np.int64), beaten, np.zeros(queries, np.int64)
        self._lists = Lists(*lists, k, rule.fill(k), most, rule.cut(k), np.ones(queries, np.bool_))
        bar, threshold, reach = (np.full(queries, -np.inf) for _ in range(3))
        spoke, chained = (np.zeros(queries, np.bool_) for _ in range(2))
        link, mark = np.full(queries, -1, np.int32), np.zeros(queries, np.int8)
        self._marks = Marks(bar, threshold, reach, link, mark, spoke, chained)
        cells, width = self._slices**self.dimensions, (aims.to.shape[1], self._slices)
        heap = np.empty(cells), np.empty(cells, np.int64)
        self._work = Work(*heap, np.empty(width), np.empty(width, np.int64), np.empty(queries, np.int64))

    @property
    def counters(self) -> dict[str, int]:
        """Return how much was done: pairs of object and query that met, indexes made, and searches."""
        return {**super().counters, "searches": int(self._state[SEARCHES])}

    def _rows_taken(self) -> int:
        return int(self._state[NEXT])

    def _peak(self) -> int:
        return int(self._state[PEAK])

    def _call_kernel(self, rows: Rows, upto: int, buffer: AnswerBuffer) -> int:
        aims, parts = self._targets.aims, (self._store, self._lists, self._marks, self._work)
        return int(kernels.advance(rows, upto, self._shape, aims, self._grid, self._index, *parts, buffer, self._state))

    def _make_space(self, why: int) -> None:
        if why == STORE:
            self._grow_store()
        else:
            self._reindex()

    def owes_empty_list(self) -> bool:
        """Return whether the last list of any query had rows; after every row of a time window none is owed."""
        return self._assigner.counts and bool(self._marks.spoke.any())

    def candidates(self) -> Objects:
        """Return every object of the window, since a search may bring back any: of one query best first.

        Of a family of points oldest first and without scores, of which each query has its own.
        """
        slots = self._slots()
        time, id = self._store.time[slots], self._store.id[slots]
        if self._numbers is None:
            return Objects(self._store.point[slots, 0], time, id).by_rank()
        return Objects(np.full(len(slots), np.nan), time, id)

    def best(self, query: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the list of a query, best first: scores and ids. The first k are its answer."""
        held = slice(0, int(self._lists.size[query]))
        number = self._lists.number[query, held]
        alive = number >= self._state[FIRST]
        slots = number[alive] & (len(self._store.next) - 1)
        return self._lists.score[query, held][alive], self._store.id[slots]

    def threshold(self, query: int) -> float:
        """Return the k-th score when this query's list was last made: what the papers index the query by."""
        return float(self._marks.threshold[query])

    def kept_counts(self) -> tuple[int, int]:
        """Return the references to objects in lists, and the objects in the cells."""
        return sum(len(self.best(q)[1]) for q in range(len(self._targets.k))), len(self._slots())

    def snapshot(self) -> Snapshot:
        """Return the objects of the window, the lists, and the numbers."""
        slots = self._slots()
        kept = {name: getattr(self._store, name)[slots] for name in ("point", "time", "id", "told")}
        lists = {f"list_{name}": part.copy() for name, part in self._lists._asdict().items()}
        marks = {f"mark_{name}": getattr(self._marks, name).copy() for name in ("bar", "threshold", "mark", "spoke")}
        return {**kept, **lists, **marks, "state": self._state.copy(), "aims": np.concatenate(self._targets.aims)}

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        lists, marks = self._lists, self._marks
        (queries, room), d = lists.score.shape, self.dimensions
        sizes = {"queries": queries, "room": room, "counters": lists.beaten.shape[1], "words": self._words, "d": d}
        saved = validate(resume, _COLUMNS, **sizes)
        count = len(saved["id"])
        self._check_restored(saved, count)
        for name in ("k", "fill", "most", "cut"):
            if not np.array_equal(saved[f"list_{name}"], getattr(lists, name)):
                raise SnapshotError(
                    "the snapshot is of another engine, or of other k: resume with those it was made with"
                )
        require(saved["state"][[PEAK, SEARCHES]] >= 0, "state has a value that it cannot have")
        require(np.diff(saved["time"]) >= 0, "its rows are in no order of time")
        self._check_lists(saved)
        self._lists = Lists(*(saved[f"list_{name}"] for name in Lists._fields))
        self._state = state = saved["state"]
        self.peak = self._peak()
        for name in ("bar", "threshold", "mark", "spoke"):
            getattr(marks, name)[:] = saved[f"mark_{name}"]
        state[FRESH] = (marks.mark == UNSEEN).sum()
        self._store = _allocate_store(1 << max(count, 63).bit_length(), d, self._words, len(self._store.head))
        slots = self._slots()
        for name in ("point", "time", "id", "told"):
            getattr(self._store, name)[slots] = saved[name]
        for query in range(queries):
            self._chain(query)
        self._watch_everything()
        if count:
            self._refit(saved["point"])

    def _check_lists(self, saved: Mapping[str, np.ndarray]) -> None:
        """Raise unless lists are of rows in the window, best first."""
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

    def change(self, family: QueryFamily, moved: np.ndarray, positions: np.ndarray | None = None) -> None:  # noqa: ARG002
        """Continue with other members: old member i is now `moved[i]`, or gone if that is -1.

        All objects of the window are here, so a new member is exact from the next step on. It reports all that it finds
        then; one that stays, also with another k, reports what it has not reported.
        """
        old_lists, old_marks, told = self._lists, self._marks, self._store.told
        stays = np.flatnonzero(moved >= 0)
        self._set_targets(family)
        self._allocate_lists()
        self._store = self._store._replace(told=_move_bits(told, stays, moved[stays], self._words))
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
        self._watch_everything()
        if self._state[NEXT]:
            self._reindex()

    def _chain(self, query: int) -> None:
        """Have a query looked at when the oldest of its k best leaves."""
        best = self._lists.number[query, : min(self._lists.size[query], self._lists.k[query])]
        if len(best):
            slot, marks, wakes = int(best.min()) & (len(self._store.next) - 1), self._marks, self._store.wakes
            marks.link[query], wakes[slot], marks.chained[query] = wakes[slot], query, True

    def _slots(self) -> np.ndarray:
        return np.arange(self._state[FIRST], self._state[NEXT]) & (len(self._store.next) - 1)

    def _fit(self, coming: np.ndarray) -> None:
        seen, held = self._rows_taken(), self._store.point[self._slots()]
        sample = np.concatenate([held, coming[:SAMPLE]]) if len(held) < SAMPLE else held
        sample = sample[~np.isnan(sample).any(axis=1)]
        if len(sample):
            self._refit(sample)
        known = seen + min(len(coming), SAMPLE)
        later = [at for at in _FIT_AFTER if at > known]
        self._fit_at = later[0] if later else seen + max(SAMPLE, len(held))

    def _refit(self, sample: np.ndarray) -> None:
        held = self._store.point[self._slots()]
        self._cut_grid(sample[np.linspace(0, len(sample) - 1, min(len(sample), SAMPLE), dtype=np.int64)], held)
        file(self._store, self._state, cells_of(held, self._grid))
        self._reindex()

    def _watch_everything(self) -> None:
        self._index, self._marks.reach[:] = self._full_index(), -np.inf

    def _reindex(self) -> None:
        self._clear_misses()
        if self._indexed:
            self._index = self._make_index(self._marks.bar)
            self._marks.reach[:] = self._marks.bar

    def _grow_store(self) -> None:
        old, slots = self._store, self._slots()
        d, words = old.point.shape[1], old.told.shape[1]
        self._store = _allocate_store(2 * len(old.next), d, words, len(old.head))
        new = self._slots()
        for name in ("point", "time", "id", "told", "wakes"):
            getattr(self._store, name)[new] = getattr(old, name)[slots]
        file(self._store, self._state, old.cell[slots])


def _allocate_store(slots: int, d: int, words: int, cells: int) -> Store:
    numbers = [np.empty(slots, np.int64) for _ in range(2)]
    small = [np.full(slots, -1, np.int32) for _ in range(3)]
    told = np.zeros((slots, words), np.uint64)
    ends = [np.full(cells, -1, np.int32) for _ in range(2)]
    return Store(np.empty((slots, d)), numbers[0], numbers[1], small[0], small[1], told, small[2], ends[0], ends[1])


def _move_bits(told: np.ndarray, old: np.ndarray, new: np.ndarray, words: int) -> np.ndarray:
    """Move the bits of queries `old` to the places `new`."""
    bits = np.unpackbits(np.ascontiguousarray(told).view(np.uint8), axis=1, bitorder="little")
    moved = np.zeros((len(told), words * 64), np.uint8)
    if words:
        moved[:, new] = bits[:, old]
    return np.packbits(moved, axis=1, bitorder="little").view(np.uint64)


class TMA(PointGrid):
    """Keep the k best; when one of them leaves and no better one comes, search all objects of the window.

    The objects lie in the cells of a grid. A search visits cells from the best corner on, and stops at the first that
    cannot beat the k-th found. Written for scores that rise or fall with every column; for one query the score itself
    is the only column.

    Exact.

    Cost: O(k) for one of the k best, O(1) for all others; a search, O(k log k + objects of the cells visited), for
    every one of the k best that leaves: about k * (1 + ln(n / k)) searches a window of n in random order.
    Memory: every object of the window.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="tma")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Mouratidis et al., SIGMOD 2006, as described by Pripuzic et al., TODS 2015, section 2, and Yang et al., EDBT 2011,
    section 8. Both have prose only: the order of the cells and the queues in them are ours.
    """

    rule: ClassVar[ListRule] = BEST


class SMA(PointGrid):
    """Keep, of the objects above a threshold, those that fewer than k later ones beat.

    The threshold is the k-th score at the last search, so that most objects that expire leave a successor behind. Only
    when fewer than k are left is there a search, as in TMA.

    Exact. A list beyond 4 k + 8 is cut to its best 2 k, and the threshold raised to the last of them: otherwise the
    threshold of a window that was still filling up would stay for good.

    Cost: O(k) for an object above the threshold, O(1) for all others; a search when fewer than k are left.
    Memory: every object of the window, and the list.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="sma")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Mouratidis et al., SIGMOD 2006, as described by Pripuzic et al., TODS 2015, section 2, and Yang et al., EDBT 2011,
    sections 6 and 8. Both have prose only: the order of the cells and the counters of dominators are ours.
    """

    rule: ClassVar[ListRule] = BAND


class CPM(PointGrid):
    """Keep the k nearest; when one of them leaves and no nearer one comes, search outwards from the target.

    As `tma`, for distances: the search visits cells by their distance from the target. A query watches the cells that
    the k-th distance reaches; its index entry is rebuilt when that grows, and lazily when it shrinks. For one query the
    score is the only dimension; `sb.run` of a list of `sb.distance` queries serves many targets.

    Exact.

    Cost: O(k) for one of the k nearest, O(1) for all others; a search for every one of them that leaves.
    Memory: every object of the window.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="cpm")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Mouratidis and Papadias, TKDE 2007, as described by Pripuzic et al., TODS 2015, section 2 and table II. At step 8 it
    has the threshold s3 for CPM/w and s1 for SNN, and the text says that neither is indexed again. All of it holds if
    the threshold is the k-th score at the last search (at step 8 only CPM/w has one), and cells are given up
    later than it moves.
    """

    rule: ClassVar[ListRule] = BEST


class SNN(PointGrid):
    """Keep, of the objects nearer than a threshold, those that fewer than k later ones beat.

    As `sma`, for distances: a search visits cells outwards from the target. For one query the score is the only
    dimension; `sb.run` of a list of `sb.distance` queries serves many targets.

    Exact. A list beyond 4 k + 8 is cut to its best 2 k, as in `sma`.

    Cost: O(k) for an object nearer than the threshold, O(1) for all others; a search when fewer than k are left.
    Memory: every object of the window, and the list.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="snn")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Mouratidis and Papadias, TKDE 2007, as described by Pripuzic et al., TODS 2015, section 2 and table II. Erratum: the
    text lets the threshold become s2 at step 2; table II keeps s1 up to step 8, as does a threshold that only searches
    set.
    """

    rule: ClassVar[ListRule] = BAND
