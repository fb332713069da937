"""Tracks how far time has come, and which rows are late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.errors import SourceError
from skyband.windows.assigner import MAX_TIME, MIN_TIME

if TYPE_CHECKING:
    from skyband.windows.assigner import WindowAssigner, WindowAssignerUnion

__all__ = ["MAX_TIME", "MIN_TIME", "TIME_LIMIT", "WatermarkTracker", "check_watermark"]

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


class WatermarkTracker:
    """Tracks how far time has come.

    After each batch the watermark is the newest time seen less the allowed lateness, or what the source says. It never
    goes back.

    Examples
    --------
    >>> from skyband.windows import WindowAssigner
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
