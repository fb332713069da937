"""Groups of a stream as operators number them: a group that was away for a window or longer appears anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.engines.columns import read_only
from skyband.engines.groups import grown_capacity
from skyband.engines.validation import require, typed_column, validate
from skyband.kernels.columns import Windows, number_runs
from skyband.runtime.groups import Groups

if TYPE_CHECKING:
    from skyband.windows import WindowAssigner

_NO_RUN = -1
_SPARE_RUNS = 1 << 12  # runs that may be over before they are forgotten
_SPARE_GROUPS = 1 << 16  # the same of groups, which cost more to forget


def window_columns(assigners: Sequence[WindowAssigner]) -> Windows:
    """Return the windows of several queries, of which one must be empty before a group appears anew."""
    table = np.array([(a.size, a.slide, a.origin) for a in assigners], np.int64).reshape(-1, 3)
    return Windows(*(np.ascontiguousarray(column) for column in table.T))


class GroupTracker:
    """Numbers the groups of a stream in the order in which they appear.

    With `forgets`, a group's rows are numbered by runs: a run ends when a window passes that holds no row of the group.
    Nothing of it is in an answer any more, so it makes no difference when it is forgotten: if the group returns, that
    is another run in any case. Rows must then come in the order of time.

    Examples
    --------
    >>> tracker = GroupTracker(["s"], forgets=True)
    >>> windows = Windows(np.array([2]), np.array([2]), np.array([0]))
    >>> code = tracker.codes(pa.table({"s": ["a", "b", "a", "a"]}))
    >>> tracker.numbers(code, np.array([1, 2, 3, 7]), windows).tolist(), tracker.values(np.array([2]))[0].to_pylist()
    ([0, 1, 0, 2], ['a'])
    """

    def __init__(self, per: Sequence[str], *, forgets: bool) -> None:
        self.known = Groups(per)
        self.forgets = forgets
        self._runs = 0
        self._owner = np.empty(0, np.int32)  # the group of each run; there is room for more
        self._run = np.empty(0, np.int32)  # the current run of each group
        self._last = np.empty(0, np.int64)  # the time of its last row
        self._active, self._active_groups = 0, 0  # runs and groups when some were last forgotten

    @property
    def per(self) -> list[str]:
        """The columns that make the groups."""
        return self.known.per

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return self._runs if self.forgets else len(self.known)

    def codes(self, rows: pa.Table) -> np.ndarray:
        """Return the code of each row's group, which `numbers` turns into its number."""
        return self.known.codes(rows)

    def numbers(self, code: np.ndarray, time: np.ndarray, windows: Windows) -> np.ndarray:
        """Return the number of each row's group, given its code."""
        if not self.forgets:
            return code

        self._make_room(len(self.known), self._runs + len(code))
        number, runs = number_runs(
            read_only(code), read_only(time), self._run, self._last, self._owner, self._runs, windows
        )
        self._runs = int(runs)
        return number

    def _make_room(self, groups: int, runs: int) -> None:
        if groups > len(self._run):
            more = grown_capacity(groups, len(self._run)) - len(self._run)
            self._run = np.concatenate([self._run, np.full(more, _NO_RUN, np.int32)])
            self._last = np.concatenate([self._last, np.zeros(more, np.int64)])
        if runs > len(self._owner):
            more = grown_capacity(runs, len(self._owner)) - len(self._owner)
            self._owner = np.concatenate([self._owner, np.zeros(more, np.int32)])

    def values(self, number: np.ndarray) -> list[pa.ChunkedArray]:
        """Return the `per` columns of groups."""
        return self.known.values(self._owner[number] if self.forgets else number)

    # ------------------------------------------------------------ forgetting

    def due(self) -> tuple[bool, bool]:
        """Return whether there are so many runs, and so many groups, that forgetting some is worth the work."""
        runs = self.forgets and self._runs > 2 * self._active + _SPARE_RUNS
        return runs, self.forgets and len(self.known) > 2 * self._active_groups + _SPARE_GROUPS

    def open_runs(self, since: int, windows: Windows) -> np.ndarray:
        """Return the runs that a row at `since` or later may belong to."""
        group = self._owner[: self._runs]
        current = np.flatnonzero(self._run[group] == np.arange(self._runs))
        last = self._last[group[current]]
        goes_on = np.full(len(current), len(windows.size) == 0)
        for size, slide, origin in zip(*(column.tolist() for column in windows), strict=True):
            end = last + size if slide == 0 else origin + ((last - origin) // slide + 1) * slide + size
            goes_on |= end > since
        return current[goes_on]

    def keep(self, runs: np.ndarray) -> None:
        """Forget all runs but these, which are ascending and get the numbers from 0 on."""
        number = np.full(self._runs, _NO_RUN, np.int32)
        number[runs] = np.arange(len(runs), dtype=np.int32)
        known = self._run >= 0
        self._run[known] = number[self._run[known]]
        self._owner = self._owner[runs]
        self._runs = self._active = len(runs)

    def keep_groups(self, codes: np.ndarray) -> np.ndarray:
        """Forget all groups without a run but these; return the new code of each group."""
        known = np.unique(np.concatenate([self._owner[: self._runs], codes]))
        self.known.keep(known)
        self._make_room(int(known.max(initial=-1)) + 1, 0)
        code = np.zeros(len(self._run), np.int32)
        code[known] = np.arange(len(known), dtype=np.int32)
        self._owner = code[self._owner[: self._runs]]
        self._run, self._last = self._run[known], self._last[known]
        self._active_groups = len(known)
        return code

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> tuple[dict[str, Any], np.ndarray]:
        """Return the groups by the numbers of their runs, then the others; and the new code of each group."""
        table = self.known.table()
        if table is None:
            return {}, np.empty(0, np.int32)
        if not self.forgets:
            return {"groups": table}, np.arange(len(self.known), dtype=np.int32)
        owner = self._owner[: self._runs]
        code = np.full(len(self.known), -1, np.int32)
        code[owner] = np.arange(len(owner), dtype=np.int32)
        rest = np.flatnonzero(code < 0)
        code[rest] = np.arange(len(owner), len(owner) + len(rest), dtype=np.int32)
        values = self.known.values(np.concatenate([owner, rest]))
        return {"groups": pa.Table.from_arrays(values, names=self.per), "groups/last": self._last[owner]}, code

    def restore(self, snapshot: Mapping[str, Any], now: int) -> np.ndarray:
        """Go on from a snapshot; return the code of each of its groups."""
        table = snapshot.get("groups")
        if table is None:
            return np.empty(0, np.int32)
        require(isinstance(table, pa.Table), "groups is not a table")
        if not self.forgets:
            self.known.load(table)
            return np.arange(len(self.known), dtype=np.int32)
        code = self.known.codes(table)
        # states of format 1 do not say when a group was last seen: it goes on
        last = {"groups/last": np.full(len(code), now), **snapshot}
        last_time = validate(last, {"groups/last": typed_column("i8", "runs")})["groups/last"]
        require(len(last_time) <= len(code), "groups/last has more groups than there are")
        owner = code[: len(last_time)]
        self._make_room(len(self.known), len(owner))
        self._runs = len(owner)
        self._owner[: len(owner)] = owner
        self._run[owner] = np.arange(len(owner), dtype=np.int32)
        self._last[owner] = last_time
        return code
