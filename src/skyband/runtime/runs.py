"""Groups as engines number them: a group that has been away for a window or longer appears anew."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.engines.columns import read_only
from skyband.engines.groups import grown_capacity

_NONE = -1
_SPARE = 1 << 12  # runs that may be over before they are forgotten
_SPARE_GROUPS = 1 << 16  # the same of groups, which are dearer to forget


class Spans(NamedTuple):
    """The windows that must be empty before a group appears anew; slide 0: one after every row."""

    size: np.ndarray
    slide: np.ndarray
    origin: np.ndarray


class GroupRuns:
    """Numbers runs of groups in the order in which they appear; rows must come in the order of time.

    A run ends when a window passes that holds no row of the group: nothing of it is in an answer any more. So it makes
    no difference when it is forgotten: if the group returns, that is another run in any case.

    Examples
    --------
    >>> runs = GroupRuns()
    >>> spans = Spans(np.array([2]), np.array([2]), np.array([0]))
    >>> runs.numbers(np.array([0, 1, 0, 0], np.int32), np.array([1, 2, 3, 7]), 2, spans).tolist()
    [0, 1, 0, 2]
    """

    def __init__(self) -> None:
        self.count = 0
        self._owner = np.empty(0, np.int32)  # the group of each run; there is room for more
        self._run = np.empty(0, np.int32)  # of each group
        self._last = np.empty(0, np.int64)  # the time of its last row
        self._active, self._active_groups = 0, 0  # when runs and groups were last forgotten

    def numbers(self, group: np.ndarray, time: np.ndarray, groups: int, spans: Spans) -> np.ndarray:
        """The run of each row, given its group; there are so many groups."""
        from skyband.kernels.columns import Windows, number_runs

        self._make_room(groups, self.count + len(group))
        number, self.count = number_runs(
            read_only(group), read_only(time), self._run, self._last, self._owner, self.count, Windows(*spans)
        )
        self.count = int(self.count)
        return number

    def _make_room(self, groups: int, runs: int) -> None:
        if groups > len(self._run):
            more = grown_capacity(groups, len(self._run)) - len(self._run)
            self._run = np.concatenate([self._run, np.full(more, _NONE, np.int32)])
            self._last = np.concatenate([self._last, np.zeros(more, np.int64)])
        if runs > len(self._owner):
            more = grown_capacity(runs, len(self._owner)) - len(self._owner)
            self._owner = np.concatenate([self._owner, np.zeros(more, np.int32)])

    def groups(self, runs: np.ndarray) -> np.ndarray:
        """The group of each of some runs."""
        return self._owner[runs]

    def open(self, since: int, spans: Spans) -> np.ndarray:
        """The runs that a row at `since` or later may belong to."""
        group = self._owner[: self.count]
        current = np.flatnonzero(self._run[group] == np.arange(self.count))
        last = self._last[group[current]]
        goes_on = np.full(len(current), len(spans.size) == 0)
        for size, slide, origin in zip(*(column.tolist() for column in spans), strict=True):
            end = last + size if slide == 0 else origin + ((last - origin) // slide + 1) * slide + size
            goes_on |= end > since
        return current[goes_on]

    def due(self, groups: int) -> tuple[bool, bool]:
        """Whether it is time to forget runs, and to forget groups, of which there are so many."""
        return (
            self.count > 2 * self._active + _SPARE,
            groups > 2 * self._active_groups + _SPARE_GROUPS,
        )

    def keep(self, runs: np.ndarray) -> None:
        """Forget all runs but these, which rise; they are numbered anew."""
        number = np.full(self.count, _NONE, np.int32)
        number[runs] = np.arange(len(runs), dtype=np.int32)
        known = self._run >= 0
        self._run[known] = number[self._run[known]]
        self._owner = self._owner[runs]
        self.count = self._active = len(runs)

    def keep_groups(self, groups: np.ndarray) -> np.ndarray:
        """Forget all groups but these, which rise and include those of all runs; the new number of each."""
        self._make_room(int(groups.max(initial=-1)) + 1, 0)
        number = np.zeros(len(self._run), np.int32)
        number[groups] = np.arange(len(groups), dtype=np.int32)
        self._owner = number[self._owner[: self.count]]
        self._run, self._last = self._run[groups], self._last[groups]
        self._active_groups = len(groups)
        return number

    def saved(self) -> np.ndarray:
        """When the last row of each run came."""
        return self._last[self._owner[: self.count]]

    def load(self, group: np.ndarray, last: np.ndarray, groups: int) -> None:
        """Go on with these runs of groups, of which there are so many."""
        self.__init__()  # type: ignore[misc]
        self._make_room(groups, len(group))
        self.count = len(group)
        self._owner[: len(group)] = group
        self._run[group] = np.arange(len(group), dtype=np.int32)
        self._last[group] = last
