"""The base of engines over points: the cuts of the grid, the targets, who watches which cell, the loop over rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skyband.engines.family import UNBOUNDED
from skyband.engines.protocol import Answers, Objects, OneGroupEngine
from skyband.engines.validation import check_progress, require
from skyband.errors import SnapshotError
from skyband.kernels.answers import AnswerBuffer, concatenate
from skyband.kernels.grid import CHEBYSHEV, EUCLIDEAN, MANHATTAN, SUM, Aims, Grid, watch
from skyband.kernels.nearest import FINISHED, PAGE
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
from skyband.query import Distance, Weighted
from skyband.query.validation import check_choice, check_integer
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily


GRIDS = ("quantile", "uniform")
SAMPLE = 4096  # objects that a grid is fitted to
_USUAL_CELLS = 1 << 14  # at most, unless a number of slices is asked for
_PER_CELL = 16  # objects, where that leaves enough cells
_MAX_CELLS = 1 << 22


def slices_for(objects: int, d: int) -> int:
    """Return into how many slices to cut each dimension, for a window of so many objects.

    Examples
    --------
    >>> slices_for(40_000, 1), slices_for(40_000, 2), slices_for(40_000, 4), slices_for(40_000, 10)
    (256, 50, 7, 2)
    """
    if 1 << d > _MAX_CELLS:  # so many dimensions that two slices of each are too many
        return 1
    cells = min(max(objects // _PER_CELL, 4), _USUAL_CELLS)
    return min(max(int(cells ** (1 / d) + 1e-9), 2), 256)


def check_grid(grid: object, slices: object, d: int) -> None:
    """Raise unless a grid of this kind can be made."""
    check_choice("grid", grid, GRIDS)
    if slices is not None:
        check_integer("slices", slices, 1, max(int(_MAX_CELLS ** (1 / d) + 1e-9), 1))


def cut(sample: np.ndarray, slices: int, kind: str = "quantile") -> Grid:
    """Make a grid that fits a sample of points: "uniform" slices are equally wide, "quantile" slices equally full.

    Examples
    --------
    >>> some = np.array([[0.0], [1.0], [2.0], [10.0]])
    >>> cut(some, 2, "uniform").edge.tolist(), cut(some, 2, "quantile").edge.tolist()
    ([[0.0, 5.0, 10.0]], [[0.0, 1.5, 10.0]])
    """
    d = sample.shape[1]
    # where exactly the cuts are matters for speed only: keep clear of overflows
    finite = [np.clip(column[np.isfinite(column)], -1e300, 1e300) for column in sample.T]
    finite = [column if len(column) else np.zeros(1) for column in finite]
    share = np.linspace(0, 1, slices + 1)
    edge = np.empty((d, slices + 1))
    for j, column in enumerate(finite):
        edge[j] = (
            np.quantile(column, share) if kind == "quantile" else np.linspace(column.min(), column.max(), slices + 1)
        )
    edge = np.maximum.accumulate(edge, axis=1)  # rounding may put two of them the wrong way round
    buckets = max(8 * slices, 64)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        width = (edge[:, -1] - edge[:, 0]) / buckets
        steady = np.isfinite(width) & (width > 0) & np.isfinite(1 / width)
        scale = np.stack([edge[:, 0], np.where(steady, 1 / width, 0.0)], axis=1)
        width = np.where(steady, width, 0.0)
    starts = edge[:, :1] + width[:, None] * np.arange(buckets)
    guess = np.stack([np.searchsorted(e[1:-1], s, side="right") for e, s in zip(edge, starts, strict=True)])
    return Grid(edge, guess.astype(np.int64), np.ascontiguousarray(scale))


_KINDS = {"sum": SUM, "euclidean": EUCLIDEAN, "manhattan": MANHATTAN, "chebyshev": CHEBYSHEV}
_PAGE_ROWS = 1 << 16  # rows of answers after which the kernel returns
_WINDOW_ROWS = SAMPLE * 16  # assumed in a window by time


class Targets(NamedTuple):
    """What the queries ask: `k` rows by a score, one row of numbers for each query."""

    kind: int
    aims: Aims
    k: np.ndarray

    @classmethod
    def of(cls, family: QueryFamily) -> Targets:
        """Return the targets of a family of points; of a single query, whose score is the only dimension."""
        by, k = family.query.by, np.array([member.k for member in family.members], np.int64)
        if not family.points:
            return cls(SUM, Aims(np.zeros((1, 1)), np.ones((1, 1))), k)
        assert isinstance(by, (Distance, Weighted))
        sign = -1.0 if family.query.ascending and isinstance(by, Weighted) else 1.0
        each = [member.by for member in family.members if member.by is not None]
        shape = (len(each), len(by.columns))
        to = np.array([one.to or (0.0,) * shape[1] for one in each], np.float64).reshape(shape)
        weight = sign * np.array([one.weights or (1.0,) * shape[1] for one in each], np.float64).reshape(shape)
        return cls(_KINDS[by.kind], Aims(to, weight), k)


class GridEngine(OneGroupEngine):
    """An engine for many queries about points. An arrival meets the queries that watch its cell.

    The grid is fitted to the points now and then. The index of who watches which cell is lazy: a query that must look
    further than its cells reach is shown everything, one that could do with fewer keeps its cells, until objects shown
    without need have cost as much as a new index.
    """

    def __init__(self, family: QueryFamily, *, grid: str, slices: int | None, index: bool, partial: bool) -> None:
        self._assigner = assigner = WindowAssigner.of(family.query.window)
        self._set_targets(family)
        check_grid(grid, slices, self.dimensions)
        self._usual_rows = assigner.size if assigner.counts else _WINDOW_ROWS
        self._slices = slices or slices_for(self._usual_rows, self.dimensions)
        self._grid_kind, self._indexed, self._partial = grid, index, partial
        self._state = np.zeros(STATE, np.int64)
        self._state[BUDGET] = UNBOUNDED
        self._grid = cut(np.zeros((1, self.dimensions)), self._slices, grid)
        self._fit_at = 0  # rows after which the grid is fitted again
        self.peak = 0

    def _set_targets(self, family: QueryFamily) -> None:
        self._targets = Targets.of(family)
        self._numbers = None if family.is_single else family.records["number"]

    @property
    def dimensions(self) -> int:
        """How many coordinates a point has."""
        return int(self._targets.aims.to.shape[1])

    @property
    def counters(self) -> dict[str, int]:
        """Return how much was done: pairs of object and query that met, and indexes made."""
        return {"met": int(self._state[SHOWN]), "indexed": int(self._state[INDEXED])}

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:  # noqa: ARG002
        """Take arrivals, whose scores are points; one step for each, or for every position before `upto`.

        A point with a NaN is a step without an object.
        """
        points = arrivals.score.reshape(len(arrivals.id), self.dimensions)
        rows = Rows(*(np.require(c, requirements=["C", "W"]) for c in (points, arrivals.time, arrivals.id)))
        end, taken, found = int(np.asarray(upto).item()), 0, list[AnswerBuffer]()
        while True:
            if self._rows_taken() >= self._fit_at:
                self._fit(rows.point[taken:])
            last = min(len(rows.id), taken + self._fit_at - self._rows_taken())
            done = last == len(rows.id)
            found += self._run(Rows(*(c[taken:last] for c in rows)), end if done else int(rows.time[last]))
            taken = last
            if done:
                break
        self.peak = max(self.peak, self._peak())
        step, stop, _, query, first, id, score, rank = concatenate(found)
        numbers = None if self._numbers is None else self._numbers[query]
        group = np.zeros(len(step), np.int32)
        answers = Answers(step, stop, group, first, id, score, rank if self._partial else None, numbers)
        # the lists of one step come one after the other; lists of steps at the same time are ordered by query
        several = self._numbers is not None and (np.diff(answers.end) == 0).any()
        return answers.in_order() if several else answers

    def _run(self, rows: Rows, upto: int) -> list[AnswerBuffer]:
        state, total = self._state, int(self._targets.k.sum())
        capacity = max(2 * total, min(_PAGE_ROWS, 4 * len(rows.id) + 64) + total)
        state[ROW], why, found = 0, PAGE, []
        while why != FINISHED:
            if why == PAGE:
                buffer = AnswerBuffer.allocate(capacity + len(self._targets.k), capacity, "end", "query", "rank")
                state[[LISTS, OUT]] = 0
            else:
                self._make_space(why)
            why = self._call_kernel(rows, upto, buffer)
            if why in (PAGE, FINISHED):
                found.append(buffer.written(int(state[LISTS]), int(state[OUT])))
        state[SEEN] += len(rows.id)
        state[ROW] = 0
        return found

    @abstractmethod
    def _rows_taken(self) -> int:
        """Return how many rows have been taken."""

    @abstractmethod
    def _peak(self) -> int:
        """Return how many objects are kept, or were at once."""

    @abstractmethod
    def _fit(self, coming: np.ndarray) -> None:
        """Fit the grid to the points that are kept, or to those that come, and say when to do it again."""

    @abstractmethod
    def _call_kernel(self, rows: Rows, upto: int, buffer: AnswerBuffer) -> int:
        """Run the kernel; return why it came back."""

    @abstractmethod
    def _make_space(self, why: int) -> None:
        """Do what the kernel came back for."""

    def _cut_grid(self, sample: np.ndarray, held: np.ndarray) -> None:
        """Cut the grid for a sample of points; it contains all points that are held."""
        self._grid = grid = cut(sample, self._slices, self._grid_kind)
        if len(held):
            grid.edge[:, 0] = np.minimum(grid.edge[:, 0], held.min(axis=0))
            grid.edge[:, -1] = np.maximum(grid.edge[:, -1], held.max(axis=0))

    def _full_index(self) -> Index:
        """Make an index in which every query is shown every object."""
        queries, cells = len(self._targets.k), self._slices**self.dimensions
        self._state[WIDES] = queries
        wide = np.arange(queries, dtype=np.int32)
        return Index(np.zeros(cells + 1, np.int64), np.empty(0, np.int32), wide, np.ones(queries, np.bool_))

    def _make_index(self, reach: np.ndarray) -> Index:
        """Make the index anew: each query watches the cells in which something could score at least its `reach`."""
        state = self._state
        first, query, wide = watch(self._targets.kind, self._targets.aims, self._grid, reach)
        shown = np.zeros(len(wide), np.int32)
        state[WIDES] = wide.sum()
        shown[: state[WIDES]] = np.flatnonzero(wide)
        state[BUDGET] = 20_000 + 4 * len(query) + 20 * len(wide)
        state[INDEXED] += 1
        return Index(first, query, shown, wide)

    def _clear_misses(self) -> None:
        self._state[[MISSES, MOVED]] = 0

    def _check_restored(self, saved: Mapping[str, np.ndarray], rows: int) -> None:
        """Raise unless a snapshot is of these targets, and its numbers fit so many rows."""
        if not np.array_equal(saved["aims"], np.concatenate(self._targets.aims)):
            raise SnapshotError("the snapshot is of other queries: resume with those it was made with")
        state = saved["state"]
        require(state[FIRST] >= 0 and state[NEXT] - state[FIRST] == rows, "state counts other rows than there are")
        check_progress(state[DONE], counts=self._assigner.counts)
        require(state[SEEN] >= 0, "state has a value that it cannot have")
