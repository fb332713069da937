"""What goes out of a workload: as of one query, but every query remembers its own lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines.groups import grown_capacity
from skyband.engines.validation import checked, held, require
from skyband.runtime.emit import EmittedRows, Emitter, Reported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.query import TopK

_ROOM = 1 << 20  # queries that fit beside a slot into one number


class SharedEmitter(Emitter):
    """Turns the answers of a family into lines. A list belongs to a query and a group: number * groups + group."""

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self._shape = (0, 0)  # numbers and groups that there is room for
        self._groups = 0  # there are fewer groups

    def lines(self, answers: Any, groups: int, watermark: int) -> EmittedRows:
        """What of `answers` goes out."""
        if self._emit != "changes":
            lines = super().lines(answers, groups, watermark)
            lines.query = np.repeat(answers.query, np.diff(answers.first))
            whole = answers.rank is None  # else each row is there but once
            return self._first_seen(lines) if self._emit == "arrivals" and whole else lines
        numbers = max(int(answers.query.max(initial=-1)) + 1, self._shape[0])
        self._enlarge(numbers, groups)
        wide = self._shape[1]
        code = answers.query * wide + answers.group
        lines = super().lines(answers._replace(group=code), numbers * wide, watermark)
        lines.query, lines.group = lines.group // wide, lines.group % wide
        return lines

    def _arrivals(self, lines: EmittedRows) -> EmittedRows:
        return lines  # done by `_first_seen`, which knows the queries

    def _first_seen(self, lines: EmittedRows) -> EmittedRows:
        """Each row once for every query."""
        assert lines.query is not None
        keys, first = np.unique(lines.slot * _ROOM + lines.query, return_index=True)
        keep = np.sort(first[self._reported.add(keys)])
        names = ("step", "end", "group", "rank", "score", "slot", "query")
        return EmittedRows(**{name: getattr(lines, name)[keep] for name in names})

    def add_reported(self, number: int, slots: np.ndarray) -> None:
        """Rows that a query has had as arrivals already."""
        self._reported.add(np.unique(slots * _ROOM + number))

    def _enlarge(self, numbers: int, groups: int) -> None:
        self._groups = max(self._groups, groups)
        old = self._shape
        if numbers > old[0] or groups > old[1]:
            self._reshape(np.arange(old[1]), (max(numbers, old[0]), max(grown_capacity(groups, old[1]), old[1])))

    def _reshape(self, keep: np.ndarray, shape: tuple[int, int]) -> None:
        """Have only the lists of these groups, and room for so many numbers and groups."""
        wider = np.zeros((2, *shape), np.int64)
        known = self._last.first.reshape(2, *self._shape)[:, :, keep]
        wider[:, : self._shape[0], : len(keep)] = known
        self._last.set_bounds(wider.reshape(2, -1))
        self._shape, self._known = shape, shape[0] * shape[1]

    def saved(self) -> dict[str, np.ndarray]:
        """What is remembered, as named arrays."""
        self._reshape(np.arange(self._groups), (self._shape[0], self._groups))
        return {**super().saved(), "shape": np.array(self._shape, np.int64)}

    def load(self, saved: Mapping[str, np.ndarray], lists: int) -> None:
        """Go on from what was saved."""
        numbers, groups = (int(n) for n in checked(saved, {"shape": held("i8", 2, low=0)})["shape"])
        super().load(saved, numbers * groups)
        require(groups <= lists and numbers * groups == self._last.capacity, "shape does not fit to its lists")
        self._shape, self._groups = (numbers, groups), groups

    def busy(self) -> np.ndarray:
        """Groups with a query whose last list had rows."""
        last = self._last.first.reshape(2, *self._shape)
        return np.flatnonzero((last[1] > last[0]).any(axis=0))

    def regroup(self, keep: np.ndarray) -> None:
        """Forget all groups but these, which are numbered anew."""
        known = keep[keep < self._groups]
        self._reshape(known, (self._shape[0], len(known)))
        self._groups = len(known)

    def forget(self, number: int) -> None:
        """A query has left: its list is gone without a word."""
        if number < self._shape[0]:
            self._last.first.reshape(2, *self._shape)[:, number] = 0

    def needed(self, alive: np.ndarray) -> np.ndarray:
        """The slots whose rows may still go out, given those that engines keep."""
        if len(self._reported):
            numbers = self._reported.numbers()
            self._reported = Reported(numbers[np.isin(numbers // _ROOM, alive)])
        listed = self._last.all_rows().ids
        return np.concatenate([alive, listed]) if len(listed) else alive
