"""Rows in any order in, rows in order out; what comes too late is dropped and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skyband.errors import SourceError

if TYPE_CHECKING:
    from skyband.windows.clock import Clock

BEGINNING = -(1 << 62)
FAR = 1 << 61
"""Microseconds, some 73,000 years: a time further from 1970 would leave no room for its windows."""


def check_watermark(micros: int, given: object) -> int:
    """A watermark in microseconds, or an error if windows around it would not fit into 64 bits.

    Examples
    --------
    >>> check_watermark(5_000_000, "5 s")
    5000000
    """
    if abs(micros) > FAR:
        msg = f"watermark must be at most {FAR:,} microseconds from 1970, got {given!r}"
        raise SourceError(msg)
    return micros


class Late(NamedTuple):
    """Rows that a batch lost."""

    late: int = 0
    ahead: int = 0


class Timeline:
    """Decides from times alone which rows are late and how far time has come.

    A row is late if its pane has closed at the watermark that held when its batch began. After the batch the
    watermark is the newest time seen less the allowed lateness, or what the source says. Rows stay open until
    their pane closes, since a row before them may still come.

    Examples
    --------
    >>> from skyband.windows import Clock
    >>> line = Timeline(Clock(size=10, slide=5), late=0)
    >>> line.admit(np.array([1, 7, 3])).tolist(), line.watermark, line.edge
    ([True, True, True], 7, 5)
    >>> line.admit(np.array([2, 8])).tolist(), line.lost
    ([False, True], Late(late=1, ahead=0))
    """

    def __init__(self, clock: Clock, late: int = 0, ahead: int | None = None) -> None:
        self.clock = clock
        self.late = late
        self.ahead = ahead
        self.watermark = BEGINNING
        self.newest = BEGINNING
        self.lost = Late()

    def admit(self, time: np.ndarray, watermark: int | None = None, *, rising: bool = False) -> np.ndarray | None:
        """Which rows of a batch are taken; moves the watermark. None: `rising` was promised, and time went back."""
        taken = np.ones(len(time), np.bool_)
        if not len(time):
            if watermark is not None:
                self.watermark = max(self.watermark, watermark)
            return taken
        oldest = int(time.min())
        if rising and oldest < self.newest:
            return None
        ahead = 0
        if self.ahead is not None:
            taken = time <= self._reach(time)
            ahead = int(len(time) - taken.sum())
        newest = int(time[taken].max(initial=self.newest)) if ahead else int(time.max())
        if self.watermark > BEGINNING and oldest < self.edge:
            taken &= time >= self.edge
        self.lost = Late(self.lost.late + int(len(time) - taken.sum()) - ahead, self.lost.ahead + ahead)
        self.newest = max(self.newest, newest)
        self.watermark = max(self.watermark, self.newest - self.late if watermark is None else watermark)
        return taken

    def close(self) -> None:
        """Move the watermark to the newest time seen: the source has ended, so no earlier row can come."""
        self.watermark = max(self.watermark, self.newest)

    def _reach(self, time: np.ndarray) -> int:
        """How far time can have come: from the newest seen, in steps of at most `ahead`, whatever the order."""
        assert self.ahead is not None
        # at first the middle of the batch stands for what is usual: one old row must not make all others "ahead"
        start = int(np.median(time)) if self.newest == BEGINNING else self.newest
        times = np.concatenate([[start], np.sort(time[time > start])])
        jumps = np.flatnonzero(np.diff(times) > self.ahead)
        return int(times[jumps[0]] if len(jumps) else times[-1])

    @property
    def edge(self) -> int:
        """Rows before this are complete: the last boundary at or before the watermark."""
        if self.watermark == BEGINNING or not self.clock.slide:
            return self.watermark
        return int(self.clock.pane(self.watermark))
