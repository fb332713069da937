"""The clock of a family: panes are cut wherever a window of any of its queries begins or ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skyband.workload.family import Family


_CUTS = 1 << 20  # boundaries that are laid out whatever the number of times


class SharedClock:
    """What flows need to know of many clocks at once; times are microseconds or positions.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.workload.family import families
    >>> every = [sb.TopK(k=1, by="x", window=sb.Sliding(f"{n} us", f"{n} us"), time="t") for n in (4, 6)]
    >>> clock = SharedClock(families(every)[0])
    >>> [clock.pane(t) for t in (3, 4, 7, 9)], clock.pane_end(7)
    ([0, 4, 6, 8], 8)
    """

    def __init__(self, family: Family) -> None:
        records = family.records
        self.counts = family.counts
        self._size, self._slide, self._origin = (records[name] for name in ("size", "slide", "origin"))
        self._shift = np.array([member.clock.shift for member in family.members], np.int64)
        self.slide = int(self._slide.min(initial=1 << 62)) if len(self._slide) else 1
        self.size = int(self._size.max(initial=1))
        self._members = len(self._slide)
        if family.reserve is not None:  # cut wherever a window of a query to come may begin or end
            finest = np.array([family.reserve.finest])
            self._size, self._slide = np.append(self._size, finest), np.append(self._slide, finest)
            self._origin = np.append(self._origin, 0 * finest)
            shifts = set(self._shift.tolist()) - {0}
            for shift in shifts:  # of windows that are closed on the right
                self._size, self._slide = np.append(self._size, finest), np.append(self._slide, finest)
                self._origin = np.append(self._origin, finest * 0 + shift)

    def pane(self, time: int | np.ndarray) -> int | np.ndarray:
        """The last boundary at or before `time`: the start of its pane."""
        if isinstance(time, np.ndarray):
            cuts = self._cuts(time)
            if cuts is None:
                return self._each(time)[0]
            return cuts[np.searchsorted(cuts, time, side="right") - 1]
        if not len(self._slide):
            return time
        cut = self._size % self._slide
        into = (time - self._origin) % self._slide
        return int((time - into + cut * (into >= cut)).max())

    def pane_end(self, time: int | np.ndarray) -> int | np.ndarray:
        """The first boundary after `time`."""
        if isinstance(time, np.ndarray):
            cuts = self._cuts(time)
            if cuts is None:
                return self._each(time)[1]
            return cuts[np.searchsorted(cuts, time, side="right")]
        cut = self._size % self._slide
        into = (time - self._origin) % self._slide
        return int((time - into + cut + (self._slide - cut) * (into >= cut)).min(initial=1 << 62))

    def next_end(self, time: int) -> int:
        """The first moment after `time` at which a window of any query ends."""
        size, slide, origin = (each[: self._members] for each in (self._size, self._slide, self._origin))
        ahead = (time - origin - size) // slide + 1
        return int((origin + size + ahead * slide).min(initial=1 << 62))

    def _each(self, time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where the panes of these times begin and end, from the panes of every clock."""
        low, high = np.full(len(time), -(1 << 62)), np.full(len(time), 1 << 62)
        clocks = {*zip(self._size.tolist(), self._slide.tolist(), self._origin.tolist(), strict=True)}
        for size, slide, origin in clocks:
            into, cut = (time - origin) % slide, size % slide
            begun = time - into + cut * (into >= cut)
            np.maximum(low, begun, out=low)
            np.minimum(high, np.where(into >= cut, begun - cut + slide, begun + cut), out=high)
        return low, high

    def _cuts(self, time: np.ndarray) -> np.ndarray | None:
        """All boundaries from the one before the first of these times to the one after the last; None: too many."""
        if not len(time):
            return np.array([-(1 << 62), 1 << 62])
        low, high = int(self.pane(int(time.min()))), int(self.pane_end(int(time.max())))
        if 2 * ((high - low) / self._slide + 1).sum() > max(_CUTS, len(time) * len(self._slide)):
            return None
        ends = [np.array([low, high])]
        for size, slide, origin in zip(self._size.tolist(), self._slide.tolist(), self._origin.tolist(), strict=True):
            cut = {origin % slide, (origin + size) % slide}
            ends.extend(np.arange(low + (moved - low) % slide, high, slide) for moved in cut)
        return np.unique(np.concatenate(ends))
