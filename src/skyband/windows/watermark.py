"""Tracks how far time has come, and which rows are late."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skyband.errors import SourceError
from skyband.windows.assigner import MAX_TIME, MIN_TIME

if TYPE_CHECKING:
    from skyband.windows.assigner import WindowAssigner, WindowAssignerUnion

__all__ = ["MAX_TIME", "MIN_TIME", "TIME_LIMIT", "DroppedRows", "WatermarkTracker", "check_watermark"]

TIME_LIMIT = 1 << 61
"""Microseconds, some 73,000 years: a time further from 1970 would leave no room for its windows."""


def check_watermark(micros: int, given: object) -> int:
    """Return a watermark in microseconds; raise if windows around it would not fit into 64 bits.

    Examples
    --------
    >>> check_watermark(5_000_000, "5 s")
    5000000
    """
    if abs(micros) > TIME_LIMIT:
        msg = f"watermark must be at most {TIME_LIMIT:,} microseconds from 1970, got {given!r}"
        raise SourceError(msg)
    return micros


class DroppedRows(NamedTuple):
    """Rows that were dropped because of their time."""

    late: int = 0
    ahead: int = 0


class WatermarkTracker:
    """Decides from times alone which rows are late and how far time has come.

    A row is late if its pane had closed at the watermark its batch began with. After the batch the watermark is the
    newest time seen less the allowed lateness, or what the source says. Rows are buffered until their pane closes,
    since an earlier row may still come.

    Examples
    --------
    >>> from skyband.windows import WindowAssigner
    >>> tracker = WatermarkTracker(WindowAssigner(size=10, slide=5), allowed_lateness=0)
    >>> tracker.admit(np.array([1, 7, 3])).tolist(), tracker.watermark, tracker.closed_until
    ([True, True, True], 7, 5)
    >>> tracker.admit(np.array([2, 8])).tolist(), tracker.dropped
    ([False, True], DroppedRows(late=1, ahead=0))
    """

    def __init__(
        self, assigner: WindowAssigner | WindowAssignerUnion, allowed_lateness: int = 0, ahead: int | None = None
    ) -> None:
        self.assigner = assigner
        self.allowed_lateness = allowed_lateness
        self.ahead = ahead
        self.watermark = MIN_TIME
        self.newest = MIN_TIME
        self.dropped = DroppedRows()

    def admit(self, time: np.ndarray, watermark: int | None = None, *, sorted_input: bool = False) -> np.ndarray | None:
        """Return which rows of a batch are taken, and move the watermark; None if `sorted_input` goes back in time."""
        taken = np.ones(len(time), np.bool_)
        if not len(time):
            if watermark is not None:
                self.watermark = max(self.watermark, watermark)
            return taken
        oldest = int(time.min())
        if sorted_input and oldest < self.newest:
            return None
        ahead = 0
        if self.ahead is not None:
            taken = time <= self._reachable(time)
            ahead = int(len(time) - taken.sum())
        newest = int(time[taken].max(initial=self.newest)) if ahead else int(time.max())
        if self.watermark > MIN_TIME and oldest < self.closed_until:
            taken &= time >= self.closed_until
        late = int(len(time) - taken.sum()) - ahead
        self.dropped = DroppedRows(self.dropped.late + late, self.dropped.ahead + ahead)
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

    @property
    def closed_until(self) -> int:
        """Panes before this have closed: the last boundary at or before the watermark."""
        if self.watermark == MIN_TIME or not self.assigner.slide:
            return self.watermark
        return self.assigner.pane(self.watermark)
