"""Recompute: keep every row, select anew for every window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.protocol import Answers, Objects, OneGroupEngine, Snapshot
from skyband.engines.validation import MAX_WINDOWS_AHEAD, column, object_columns, require, validate
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skyband.engines.family import QueryFamily

Asked = tuple[int, int, int, int]
"""An answer to give: its step and end, and which rows to select from, [low, high)."""

_HOLDS = {**object_columns(), "state": column("i8", 5)}


class Recompute(OneGroupEngine):
    """Keep every row of the window; select its k best anew whenever there is an answer.

    What one would write without thinking, and so what the other engines are measured against.

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
        self._rows = Objects(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
        self._next: int | None = None  # the next window to answer, None: no row yet
        self._steps = 0  # rows seen, for answers after every row
        self._spoke = False  # the last answer had rows, so an empty window must be told
        self.peak = 0
        if resume is not None:
            saved = validate(resume, _HOLDS)
            require(np.diff(saved["time"]) >= 0, "its rows are in no order of time")
            self._rows = Objects(saved["score"], saved["time"], saved["id"])
            started, following, self._steps, spoke, self.peak = (int(n) for n in saved["state"])
            if started and self._assigner is not None and len(self._rows.time):
                behind = int(self._assigner.first(int(self._rows.time[-1]))) - following
                require(behind < MAX_WINDOWS_AHEAD, "a row lies far after the next window")
            self._next = following if started else None
            self._spoke = bool(spoke)

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:  # noqa: ARG002
        """Take `arrivals`, then answer every window that ends by `upto`."""
        moment = int(np.asarray(upto).item())
        clock = self._assigner
        asked = self._rows_asked(arrivals) if clock is None else self._windows_asked(arrivals, moment, clock)
        steps, ends, picks = [], [], []
        for step, end, low, high in asked:
            self.peak = max(self.peak, high - low)
            if low < high or self._spoke:
                self._spoke = low < high
                steps.append(step)
                ends.append(end)
                picks.append(low + best(self._rows.score[low:high], self._k))
        first = np.cumsum([0, *map(len, picks)])
        rows = np.concatenate([np.empty(0, np.int64), *picks])
        id, score = self._rows.id[rows], self._rows.score[rows]
        self._forget(moment)
        return Answers(
            np.array(steps, np.int64),
            np.array(ends, np.int64),
            np.zeros(len(steps), np.int32),
            first,
            id,
            score,
        )

    def candidates(self) -> Objects:
        """Every row of the open windows, best first."""
        return self._rows.take(best(self._rows.score, len(self._rows.score)))

    def owes_empty_list(self) -> bool:
        """Return whether the last window had rows; after every row of a time window none is owed."""
        return self._spoke and (self._assigner is not None)

    def snapshot(self) -> Snapshot:
        """The rows, and how far they have come."""
        state = (self._next is not None, self._next or 0, self._steps, self._spoke, self.peak)
        score, time, id, _ = self._rows
        return {"score": score, "time": time, "id": id, "state": np.array(state, np.int64)}

    def _windows_asked(self, arrivals: Objects, upto: int, clock: WindowAssigner) -> Iterator[Asked]:
        """Every window that closes, but not all of the empty ones."""
        self._rows = _joined(self._rows, arrivals)
        time = self._rows.time
        if self._next is None:
            if not len(time):
                return
            self._next = int(clock.first(int(time[0])))
        while clock.end(self._next) <= upto:
            bounds = [clock.start(self._next), clock.end(self._next)]
            low, high = (int(place) for place in np.searchsorted(time, bounds))
            yield self._next, bounds[1], low, high
            self._next += 1
            if low == high:  # the next window that has a row may be years away
                reach = int(time[low]) if low < len(time) else upto
                self._next = max(self._next, int(clock.first(min(reach, upto))))

    def _rows_asked(self, arrivals: Objects) -> Iterator[Asked]:
        """The window after every arrival."""
        scored = ~np.isnan(arrivals.score)  # without a score: a step that adds no object
        highs = len(self._rows.score) + np.cumsum(scored)
        self._rows = _joined(self._rows, arrivals.take(scored))
        lows = np.searchsorted(self._rows.time, arrivals.time - self._size, side="right")
        steps = self._steps + np.arange(1, len(highs) + 1)
        self._steps += len(highs)
        yield from zip(steps.tolist(), (arrivals.time + 1).tolist(), lows.tolist(), highs.tolist(), strict=True)

    def _forget(self, upto: int) -> None:
        """Drop the rows that no window to come can hold."""
        clock, time = self._assigner, self._rows.time
        reach = upto - self._size + 1 if clock is None else int(clock.start(clock.first(upto)))
        self._rows = self._rows.take(slice(int(np.searchsorted(time, reach)), None))
        self.peak = max(self.peak, len(self._rows.score))


def best(score: np.ndarray, k: int) -> np.ndarray:
    """Where the k best are, best first; of equal scores the later row is better.

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


def _joined(kept: Objects, arrivals: Objects) -> Objects:
    return Objects(*(np.concatenate(columns) for columns in zip(kept[:3], arrivals[:3], strict=True)))
