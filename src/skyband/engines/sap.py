"""SAP: self-adaptive partitions of the window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.protocol import Answers, Objects
from skyband.engines.slide_engine import SlideEngine
from skyband.kernels import sap as kernels
from skyband.kernels.sap import SLOTS, P, PartitionRule, Partitions
from skyband.kernels.slide import S
from skyband.query.validation import check_choice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily
    from skyband.kernels.answers import AnswerBuffer
    from skyband.kernels.columns import Columns

_EQUAL, _LEAST, _MOST = 10, 30, 4  # partitions of equal length; most and fewest of those whose length follows the rows
_DROP = 3.0  # standard errors; the best of panes vary more than any rows do
_CAPACITY = 1_024


class SAP(SlideEngine):
    """Cut the window into partitions; keep the k best of each, and look behind them only where a partition expires.

    The k best of a window are among the k best of its partitions, as long as no partition is cut by the window's start.
    Of the one that is, the meaningful rows are looked up once, when its first row leaves: those that fewer than k
    later ones beat, the k best of all later partitions among these. With `partition="dynamic"` a partition ends when
    the best of a new pane are significantly worse than those of the pane before; with "equal" after a tenth of the
    window.

    Exact. Keeps every row of the window, since any may turn out to be meaningful.

    Cost: one comparison for nearly every row when it comes and one when its partition expires; O(k * partitions) an
    answer. Memory: every row of the window, k places a partition, the meaningful rows of one of them.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3, 1))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="sap")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    Zhu et al., "SAP: Improving Continuous Top-K Queries over Streaming Data", TKDE 2017: the framework of
    partitions, candidates and meaningful objects. Here the meaningful ones are a ranked array instead of a tree, the
    unit is the pane, and the lengths of partitions are bounded by parts of the window, not by a model of the cost.
    """

    def __init__(
        self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None, *, partition: str = "dynamic"
    ) -> None:
        super().__init__(family, P.size)
        self._check_memory("sap", f"k rows of each of {SLOTS} partitions", SLOTS * self._k)
        self._rule = _rule(partition, self._assigner.ratio)
        self._state[P.built] = -1
        none, best_of_each = np.zeros((5, SLOTS), np.int64), np.zeros((SLOTS, self._k), np.int64)
        self._parts = Partitions(none[0], none[1], none[2], none[3], best_of_each, none[4], np.zeros(self._k))
        self._front = np.empty(_CAPACITY, np.int64)
        self._rows = Objects(np.empty(_CAPACITY), np.empty(_CAPACITY, np.int64), np.empty(_CAPACITY, np.int64))
        self._low = self._high = 0  # where in them the rows of the open windows are
        self._restore(resume)

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """Take `arrivals`, then close every window that ends by `upto`."""
        self._append(arrivals)
        rows = Objects(*(column[: self._high] for column in self._rows[:3]))
        answers, state = super().advance(rows, upto, moved), self._state
        state[S.peak] = max(state[S.peak], self._high - self._low)
        live = int(self._assigner.start(int(state[S.oldest])))
        self._low += int(np.searchsorted(rows.time[self._low :], live))
        state[S.candidates] = self._high - self._low
        self.peak = int(state[S.peak])
        return answers

    def _call_kernel(self, arrivals: Columns, end: int, buffer: AnswerBuffer) -> int:
        kept = self._rule, self._parts, self._front
        return int(kernels.advance(arrivals, end, self._k, self._shape, *kept, buffer, self._state))

    def candidates(self) -> Objects:
        """Return every row of the open windows, best first."""
        return Objects(*(column[self._low : self._high] for column in self._rows[:3])).by_rank()

    def partitions(self) -> tuple[int, int]:
        """Return how many were made so far, and for how many of them meaningful rows were looked up."""
        return int(self._state[P.made]), int(self._state[P.builds])

    def _append(self, arrivals: Objects) -> None:
        """Append rows; now and then move all to the front, or to more memory."""
        new, parts, state = len(arrivals.id), self._parts, self._state
        if self._high + new > len(self._rows.id):
            # a partition keeps its first row as long as it has others: by it one sees that it expires
            base = min(self._low, int(parts.low[state[P.first]])) if state[P.parts] else self._low
            kept, old = self._high - base, self._rows[:3]
            small = 4 * (kept + new) > 3 * len(self._rows.id)  # new memory is expensive: use the old again if it fits
            moved = [np.empty(max(2 * (kept + new), _CAPACITY), column.dtype) for column in old] if small else old
            for to, column in zip(moved, old, strict=True):
                to[:kept] = column[base : self._high]
            self._rows = Objects(*moved)
            self._shift(base)
        for to, column in zip(self._rows[:3], arrivals[:3], strict=True):
            to[self._high : self._high + new] = column
        self._high += new

    def _shift(self, by: int) -> None:
        """Adjust positions: rows have moved to the front by so many places."""
        parts, state = self._parts, self._state
        self._low, self._high = self._low - by, self._high - by
        state[P.taken] -= by
        for places in (parts.low, parts.high, parts.best):
            np.subtract(places, by, out=places)
        self._front[: max(int(state[P.built]), 0)] -= by

    def _grow(self) -> None:
        """Double the space for meaningful rows."""
        self._front = np.concatenate([self._front, np.empty(len(self._front), np.int64)])


def _rule(partition: str, ratio: int) -> PartitionRule:
    """Return how long partitions are, for windows of so many panes."""
    if check_choice("partition", partition, ("dynamic", "equal")) == "equal":
        length = math.ceil(ratio / _EQUAL)
        return PartitionRule(length, length, math.inf)
    return PartitionRule(math.ceil(ratio / _LEAST), math.ceil(ratio / _MOST), _DROP)
