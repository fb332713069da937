"""Recompute: keep every row, select the best again for every window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.protocol import Answers, Objects, OneGroupEngine, Snapshot
from skyband.engines.validation import MAX_WINDOWS_AHEAD, object_columns, require, typed_column, validate
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skyband.engines.family import QueryFamily

_DueAnswer = tuple[int, int, int, int]
"""Step and end of an answer, and which rows to select from, [low, high)."""

_COLUMNS = {**object_columns(), "state": typed_column("i8", 5)}


class Recompute(OneGroupEngine):
    """Keep every row of the window; select its k best again for every answer.

    The obvious implementation, which the other engines are measured against.

    Exact. Serves windows that slide and, with `Sliding(size, "row")`, an answer after every row.

    Cost: O(rows in the window + k log k) for every answer. Memory: every row of the open windows.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3, 1))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="recompute")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]
    """

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        query = family.query
        self._k = int(query.k)
        self._size = WindowAssigner.of(query.window).size
        # after every row there are no windows to number
        self._assigner = WindowAssigner.of(query.window) if query.window.kind == "slide" else None
        self._rows = Objects.empty()
        self._next: int | None = None  # the next window to answer, None: no row yet
        self._steps = 0  # rows seen, for answers after every row
        self._spoke = False  # the last answer had rows, so an empty window must be reported
        self.peak = 0
        if resume is not None:
            saved = validate(resume, _COLUMNS)
            require(np.diff(saved["time"]) >= 0, "its rows are in no order of time")
            self._rows = Objects.restore(saved)
            started, following, self._steps, spoke, self.peak = (int(n) for n in saved["state"])
            if started and self._assigner is not None and len(self._rows.time):
                behind = int(self._assigner.first(int(self._rows.time[-1]))) - following
                require(behind < MAX_WINDOWS_AHEAD, "a row lies far after the next window")
            self._next = following if started else None
            self._spoke = bool(spoke)

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:  # noqa: ARG002
        """Take `arrivals`, then answer every window that ends by `upto`."""
        limit, assigner = int(np.asarray(upto).item()), self._assigner
        due = self._due_rows(arrivals) if assigner is None else self._due_windows(arrivals, limit, assigner)
        steps, ends, picks = [], [], []
        for step, end, low, high in due:
            self.peak = max(self.peak, high - low)
            if low < high or self._spoke:
                self._spoke = low < high
                steps.append(step)
                ends.append(end)
                picks.append(low + best(self._rows.score[low:high], self._k))
        rows = self._rows.take(np.concatenate([np.empty(0, np.int64), *picks]))
        self._forget(limit)
        first, group = np.cumsum([0, *map(len, picks)]), np.zeros(len(steps), np.int32)
        return Answers(np.array(steps, np.int64), np.array(ends, np.int64), group, first, rows.id, rows.score)

    def candidates(self) -> Objects:
        """Return every row of the open windows, best first."""
        return self._rows.by_rank()

    def owes_empty_list(self) -> bool:
        """Return whether the last window had rows; after every row of a time window none is owed."""
        return self._spoke and self._assigner is not None

    def snapshot(self) -> Snapshot:
        """Return the rows, and how far they have come."""
        state = (self._next is not None, self._next or 0, self._steps, self._spoke, self.peak)
        return {**self._rows.snapshot(), "state": np.array(state, np.int64)}

    def _due_windows(self, arrivals: Objects, upto: int, assigner: WindowAssigner) -> Iterator[_DueAnswer]:
        """Yield every window that closes, but not all of the empty ones."""
        self._rows = Objects.concat([self._rows, arrivals])
        time = self._rows.time
        if self._next is None:
            if not len(time):
                return
            self._next = int(assigner.first(int(time[0])))
        while assigner.end(self._next) <= upto:
            bounds = [assigner.start(self._next), assigner.end(self._next)]
            low, high = (int(place) for place in np.searchsorted(time, bounds))
            yield self._next, bounds[1], low, high
            self._next += 1
            if low == high:  # the next window that has a row may be years away
                reach = int(time[low]) if low < len(time) else upto
                self._next = max(self._next, int(assigner.first(min(reach, upto))))

    def _due_rows(self, arrivals: Objects) -> Iterator[_DueAnswer]:
        """Yield the window after every arrival."""
        scored = ~np.isnan(arrivals.score)  # without a score: a step that adds no object
        highs = len(self._rows.score) + np.cumsum(scored)
        self._rows = Objects.concat([self._rows, arrivals.take(scored)])
        lows = np.searchsorted(self._rows.time, arrivals.time - self._size, side="right")
        steps = self._steps + np.arange(1, len(highs) + 1)
        self._steps += len(highs)
        yield from zip(steps.tolist(), (arrivals.time + 1).tolist(), lows.tolist(), highs.tolist(), strict=True)

    def _forget(self, upto: int) -> None:
        """Drop the rows that no window to come can hold."""
        assigner, time = self._assigner, self._rows.time
        reach = upto - self._size + 1 if assigner is None else int(assigner.start(assigner.first(upto)))
        self._rows = self._rows.take(slice(int(np.searchsorted(time, reach)), None))
        self.peak = max(self.peak, len(self._rows.score))


def best(score: np.ndarray, k: int) -> np.ndarray:
    """Return where the k best are, best first; of equal scores the later row is better.

    Examples
    --------
    >>> best(np.array([1.0, 3.0, 3.0, 3.0, 2.0]), 2).tolist()
    [3, 2]
    """
    rows = np.arange(len(score))
    if k < len(score):
        rows = np.argpartition(score, len(score) - k)[len(score) - k :]
        least = score[rows].min()
        above = rows[score[rows] > least]
        # argpartition takes any of the rows that tie for the last places: take the latest
        tied = np.flatnonzero(score == least)[len(above) - k :]
        rows = np.concatenate([above, tied])
    return rows[np.lexsort((rows, score[rows]))[::-1]]
