"""Several clocks as one: panes are cut wherever a window of any of them begins or ends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from skyband.windows.clock import Clock

    T = TypeVar("T", int, np.ndarray)


class Clocks:
    """What a flow asks of a clock, answered for a few at once. O(clocks) for each question.

    Examples
    --------
    >>> from skyband.windows import Clock
    >>> both = Clocks([Clock(size=4, slide=4), Clock(size=6, slide=6)])
    >>> [both.pane(t) for t in (3, 4, 7, 9)], both.pane_end(7), both.next_end(7)
    ([0, 4, 6, 8], 8, 8)
    """

    def __init__(self, clocks: Sequence[Clock]) -> None:
        self._clocks = list(dict.fromkeys(clocks))
        self.counts = self._clocks[0].counts
        self.slide = min(clock.slide for clock in self._clocks)
        self.size = max(clock.size for clock in self._clocks)

    def pane(self, time: T) -> T:
        """The last boundary at or before `time`: the start of its pane."""
        found = [clock.pane(time) for clock in self._clocks]
        return reduce(np.maximum, found) if isinstance(time, np.ndarray) else max(found)

    def pane_end(self, time: T) -> T:
        """The first boundary after `time`."""
        found = [clock.pane_end(time) for clock in self._clocks]
        return reduce(np.minimum, found) if isinstance(time, np.ndarray) else min(found)

    def next_end(self, time: int) -> int:
        """The first moment after `time` at which a window ends."""
        return min(clock.next_end(time) for clock in self._clocks)
