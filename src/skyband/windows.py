"""Window arithmetic on whole numbers: which windows hold a row, when they close, and which rows are late.

Window number `w` covers [origin + w * slide, origin + w * slide + size). Times are microseconds; for counting windows
they are positions within a group, and windows end at multiples of the slide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from skyband.errors import SourceError
from skyband.query.window import AllTime, Counting

if TYPE_CHECKING:
    from skyband.query.window import Window

    T = TypeVar("T", int, np.ndarray)

MIN_TIME = -(1 << 62)
MAX_TIME = (1 << 62) - 1
"""Before and after all times and positions."""

TIME_LIMIT = 1 << 61
"""Microseconds, some 73,000 years: a time further from 1970 would leave no room for its windows."""

_MAX_BOUNDARIES = 1 << 20  # pane boundaries that are enumerated however few the times are


@dataclass(frozen=True)
class WindowAssigner:
    """The windows and panes of one query.

    Examples
    --------
    Windows of 10, every 4: a row at 9 is in windows 0, 1 and 2, and window 0 closes at 10.

    >>> assigner = WindowAssigner(size=10, slide=4)
    >>> assigner.first(9), assigner.last(9), assigner.end(0)
    (0, 2, 10)

    Panes are cut where a window begins (8, 12) or ends (10, 14):

    >>> [assigner.pane(t) for t in (8, 9, 10, 11, 12)]
    [8, 8, 10, 10, 12]
    """

    size: int
    slide: int  # 0: a window after every row
    origin: int = 0
    counts: bool = False  # positions instead of microseconds
    shift: int = 0  # internal boundaries minus displayed ones: 1 for (start, end]

    @classmethod
    def of(cls, window: Window) -> WindowAssigner:
        """Return the assigner of a query's window. All time has no boundaries: every row is a pane of its own."""
        if isinstance(window, AllTime):
            return cls(1, 1, counts=True)
        if isinstance(window, Counting):
            # windows end at multiples of the slide, also where the size is none
            return cls(window.size, window.slide, -window.size, counts=True)
        shift, lengths = int(window.closed == "right"), window.lengths
        return cls(lengths["size"], lengths.get("slide", 0), lengths["origin"] + shift, shift=shift)

    @property
    def ratio(self) -> int:
        """The largest number of windows that hold one row."""
        return -(-self.size // self.slide)

    def first(self, time: T) -> T:
        """Return the first window that holds `time`."""
        return (time - self.origin - self.size) // self.slide + 1

    def last(self, time: T) -> T:
        """Return the last window that holds `time`."""
        return (time - self.origin) // self.slide

    def start(self, window: T) -> T:
        """Return where a window starts."""
        return self.origin + window * self.slide

    def end(self, window: T) -> T:
        """Return where a window ends: its first moment outside."""
        return self.origin + window * self.slide + self.size

    def last_end(self, time: T) -> T:
        """Return where the last window that holds `time` ends."""
        return self.end(self.last(time))

    def next_end(self, time: int) -> int:
        """Return the first window end after `time`."""
        return self.end(self.first(time))

    def pane(self, time: T) -> T:
        """Return the start of the pane of `time`: the last boundary at or before it."""
        into = (time - self.origin) % self.slide
        cut = self.size % self.slide
        return time - into + cut * (into >= cut)

    def pane_end(self, time: T) -> T:
        """Return the end of the pane of `time`: the first boundary after it."""
        into = (time - self.origin) % self.slide
        cut = self.size % self.slide
        return time - into + cut + (self.slide - cut) * (into >= cut)

    def bounds(self, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the displayed start and end of windows that end at `end`."""
        start = end - self.size - self.shift
        return (start * (start > 0) if self.counts else start), end - self.shift


class WindowAssignerUnion:
    """The panes of several queries: cut wherever a window of any of them begins or ends.

    `finest` adds boundaries at its multiples, for windows of queries to come.

    Cost: O(assigners) for one time; times in bulk are searched among the boundaries between the first and the last.

    Examples
    --------
    >>> both = WindowAssignerUnion([WindowAssigner(size=4, slide=4), WindowAssigner(size=6, slide=6)])
    >>> [both.pane(t) for t in (3, 4, 7, 9)], both.pane_end(7), both.next_end(7)
    ([0, 4, 6, 8], 8, 8)
    """

    def __init__(self, assigners: Iterable[WindowAssigner], *, counts: bool = False, finest: int | None = None) -> None:
        distinct = list(dict.fromkeys(assigners))
        self.counts = distinct[0].counts if distinct else counts
        self._members = len(distinct)
        if finest is not None:
            shifts = {0, *(assigner.shift for assigner in distinct)}
            distinct += [WindowAssigner(finest, finest, shift) for shift in sorted(shifts)]
        table = np.array([(a.size, a.slide, a.origin) for a in distinct], np.int64).reshape(-1, 3)
        self._size, self._slide, self._origin = (np.ascontiguousarray(column) for column in table.T)
        self._cut = self._size % self._slide
        members = slice(self._members)
        self.slide = int(self._slide[members].min(initial=MAX_TIME)) if self._members else 1
        self.size = int(self._size[members].max(initial=1))

    def pane(self, time: T) -> T:
        """Return the start of the pane of `time`: the last boundary at or before it."""
        if isinstance(time, np.ndarray):
            boundaries = self._boundaries(time)
            if boundaries is None:
                return self._panes(time)[0]
            return boundaries[np.searchsorted(boundaries, time, side="right") - 1]
        if not len(self._slide):
            return time
        into = (time - self._origin) % self._slide
        return int((time - into + self._cut * (into >= self._cut)).max())

    def pane_end(self, time: T) -> T:
        """Return the end of the pane of `time`: the first boundary after it."""
        if isinstance(time, np.ndarray):
            boundaries = self._boundaries(time)
            if boundaries is None:
                return self._panes(time)[1]
            return boundaries[np.searchsorted(boundaries, time, side="right")]
        into = (time - self._origin) % self._slide
        ends = time - into + self._cut + (self._slide - self._cut) * (into >= self._cut)
        return int(ends.min(initial=MAX_TIME))

    def last_end(self, time: np.ndarray) -> np.ndarray:
        """Return where the last window of any query that holds `time` ends."""
        found = np.full(len(time), MIN_TIME)
        columns = (each[: self._members].tolist() for each in (self._size, self._slide, self._origin))
        for assigner in map(WindowAssigner, *columns):
            np.maximum(found, assigner.last_end(time), out=found)
        return found

    def next_end(self, time: int) -> int:
        """Return the first window end after `time`, of any query."""
        size, slide, origin = (each[: self._members] for each in (self._size, self._slide, self._origin))
        window = (time - origin - size) // slide + 1
        return int((origin + size + window * slide).min(initial=MAX_TIME))

    def _panes(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the start and the end of the pane of each time, from the panes of every assigner."""
        low, high = np.full(len(time), MIN_TIME), np.full(len(time), MAX_TIME)
        for slide, origin, cut in zip(*map(np.ndarray.tolist, (self._slide, self._origin, self._cut)), strict=True):
            into = (time - origin) % slide
            start = time - into + cut * (into >= cut)
            np.maximum(low, start, out=low)
            np.minimum(high, np.where(into >= cut, start - cut + slide, start + cut), out=high)
        return low, high

    def _boundaries(self, time: np.ndarray) -> np.ndarray | None:
        """Return all boundaries around these times; None if there are too many."""
        if not len(time):
            return np.array([MIN_TIME, MAX_TIME])
        low, high = self.pane(int(time.min())), self.pane_end(int(time.max()))
        if 2 * ((high - low) / self._slide + 1).sum() > max(_MAX_BOUNDARIES, len(time) * len(self._slide)):
            return None
        found = [np.array([low, high])]
        for size, slide, origin in zip(*map(np.ndarray.tolist, (self._size, self._slide, self._origin)), strict=True):
            offsets = {origin % slide, (origin + size) % slide}
            found.extend(np.arange(low + (offset - low) % slide, high, slide) for offset in offsets)
        return np.unique(np.concatenate(found))


def check_watermark(micros: int, given: object) -> int:
    """Return a watermark in microseconds; raise if windows around it would not fit into 64 bits.

    Examples
    --------
    >>> check_watermark(5_000_000, "5 s")
    5000000
    """
    if abs(micros) > TIME_LIMIT:
        raise SourceError(f"watermark must be at most {TIME_LIMIT:,} microseconds from 1970, got {given!r}")
    return micros


class WatermarkTracker:
    """Tracks how far time has come.

    After each batch the watermark is the newest time seen less the allowed lateness, or what the source says. It never
    goes back.

    Examples
    --------
    >>> tracker = WatermarkTracker(allowed_lateness=2)
    >>> tracker.observe(np.array([1, 9, 3])).tolist(), tracker.watermark
    ([True, True, True], 7)
    >>> tracker.closed_until(WindowAssigner(size=10, slide=5))
    5
    """

    def __init__(self, allowed_lateness: int = 0, ahead: int | None = None) -> None:
        self.allowed_lateness = allowed_lateness
        self.ahead = ahead
        self.watermark = MIN_TIME
        self.newest = MIN_TIME
        self.ahead_rows = 0

    def observe(
        self, time: np.ndarray, watermark: int | None = None, *, sorted_input: bool = False
    ) -> np.ndarray | None:
        """Move the watermark by a batch; return which rows are not too far ahead.

        None if `sorted_input` was promised, and time goes back.
        """
        taken = np.ones(len(time), np.bool_)
        if not len(time):
            if watermark is not None:
                self.watermark = max(self.watermark, watermark)
            return taken
        if sorted_input and int(time.min()) < self.newest:
            return None
        newest = int(time.max())
        if self.ahead is not None:
            taken = time <= self._reachable(time)
            self.ahead_rows += int(len(time) - taken.sum())
            newest = int(time.max(where=taken, initial=MIN_TIME))
        self.newest = max(self.newest, newest)
        self.watermark = max(self.watermark, self.newest - self.allowed_lateness if watermark is None else watermark)
        return taken

    def close(self) -> None:
        """Move the watermark to the newest time seen: the source has ended, so no earlier row can come."""
        self.watermark = max(self.watermark, self.newest)

    def _reachable(self, time: np.ndarray) -> int:
        """Return how far time can have come: from the newest seen, in steps of at most `ahead`, in any order."""
        assert self.ahead is not None
        # in the first batch its median stands for the newest: one old row must not make all others "ahead"
        start = int(np.median(time)) if self.newest == MIN_TIME else self.newest
        times = np.concatenate([[start], np.sort(time[time > start])])
        jumps = np.flatnonzero(np.diff(times) > self.ahead)
        return int(times[jumps[0]] if len(jumps) else times[-1])

    def closed_until(self, assigner: WindowAssigner | WindowAssignerUnion) -> int:
        """Return the last pane boundary at or before the watermark: panes before it have closed."""
        if self.watermark == MIN_TIME or not assigner.slide:
            return self.watermark
        return assigner.pane(self.watermark)
