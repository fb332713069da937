"""The arithmetic of windows, on whole numbers.

Window number `w` covers [origin + w * slide, origin + w * slide + size). Times are microseconds; for
counting windows they are positions within a group, and windows end at multiples of the slide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from skyband.query import Counting, Sliding

    T = TypeVar("T", int, np.ndarray)


@dataclass(frozen=True)
class Clock:
    """When windows begin and end.

    Examples
    --------
    Windows of 10, every 4: a row at 9 is in windows 0, 1 and 2, and window 0 closes at 10.

    >>> clock = Clock(size=10, slide=4)
    >>> clock.first(9), clock.last(9), clock.end(0)
    (0, 2, 10)

    Panes are cut where a window begins (8, 12) or ends (10, 14):

    >>> [clock.pane(t) for t in (8, 9, 10, 11, 12)]
    [8, 8, 10, 10, 12]
    """

    size: int
    slide: int
    origin: int = 0
    counts: bool = False  # positions instead of microseconds
    shift: int = 0  # how far the boundaries inside lie after those a user sees: 1 for (start, end]

    @classmethod
    def of(cls, window: Sliding | Counting) -> Clock:
        """The clock of a query's window."""
        if window.counts:
            # ends at multiples of the slide, also where the size is none
            return cls(window.size, window.slide, -window.size, counts=True)
        shift = int(window.closed == "right")
        return cls(window.size, window.slide, window.origin + shift, shift=shift)

    @property
    def ratio(self) -> int:
        """In how many windows a row can be."""
        return -(-self.size // self.slide)

    def first(self, time: T) -> T:
        """The first window that holds `time`."""
        return (time - self.origin - self.size) // self.slide + 1

    def last(self, time: T) -> T:
        """The last window that holds `time`."""
        return (time - self.origin) // self.slide

    def start(self, window: T) -> T:
        """Where a window begins."""
        return self.origin + window * self.slide

    def end(self, window: T) -> T:
        """Where a window ends: its first moment outside."""
        return self.origin + window * self.slide + self.size

    def next_end(self, time: int) -> int:
        """The first moment after `time` at which a window ends."""
        return self.end(self.first(time))

    def pane(self, time: T) -> T:
        """The last boundary at or before `time`: the start of its pane."""
        into = (time - self.origin) % self.slide
        cut = self.size % self.slide
        return time - into + cut * (into >= cut)

    def pane_end(self, time: T) -> T:
        """The first boundary after `time`."""
        into = (time - self.origin) % self.slide
        cut = self.size % self.slide
        return time - into + cut + (self.slide - cut) * (into >= cut)

    def shown(self, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Start and end, as a user reads them, of windows that end at `end`."""
        start = end - self.size - self.shift
        return (start * (start > 0) if self.counts else start), end - self.shift
