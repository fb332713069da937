"""What goes out of a workload: as of one query, but every query remembers its own lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines.checked import checked, held, require
from skyband.engines.protocol import Answers as Ranked
from skyband.flow.emit import Emitter, Lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.query import TopK

_ROOM = 1 << 20  # queries that fit beside a slot into one number


class SharedEmitter(Emitter):
    """Turns the answers of a family into lines. A list belongs to a query and a group: number * groups + group."""

    def __init__(self, query: TopK) -> None:
        super().__init__(query)
        self._shape = (0, 0)  # numbers and groups that `_last` has room for

    def lines(self, answers: Any, groups: int, watermark: int) -> Lines:
        """What of `answers` goes out."""
        if self._emit != "changes":
            lines = super().lines(Ranked(*answers[:6])._replace(rank=answers.rank), groups, watermark)
            lines.query = np.repeat(answers.query, np.diff(answers.first))
            whole = answers.rank is None  # else each row is there but once
            return self._first_seen(lines) if self._emit == "arrivals" and whole else lines
        numbers = max(int(answers.query.max(initial=-1)) + 1, self._shape[0])
        self._enlarge(numbers, groups)
        wide = self._shape[1]
        code = answers.query * wide + answers.group
        lines = super().lines(Ranked(*answers[:6])._replace(group=code), numbers * wide, watermark)
        lines.query, lines.group = lines.group // wide, lines.group % wide
        return lines

    def _arrivals(self, lines: Lines) -> Lines:
        return lines  # done by `_first_seen`, which knows the queries

    def _first_seen(self, lines: Lines) -> Lines:
        """Each row once for every query."""
        assert lines.query is not None
        keys, first = np.unique(lines.slot * _ROOM + lines.query, return_index=True)
        keep = np.sort(first[~np.isin(keys, self._reported, assume_unique=True)])
        self._reported = np.union1d(self._reported, keys)
        names = ("step", "end", "group", "rank", "score", "slot", "query")
        return Lines(**{name: getattr(lines, name)[keep] for name in names})

    def add_reported(self, number: int, slots: np.ndarray) -> None:
        """Rows that a query has had as arrivals already."""
        self._reported = np.union1d(self._reported, slots * _ROOM + number)

    def _enlarge(self, numbers: int, groups: int) -> None:
        old = self._shape
        if numbers <= old[0] and groups <= old[1]:
            return
        new = (max(numbers, old[0]), max(groups, old[1]))
        wider = np.zeros((2, *new), np.int64)
        wider[:, : old[0], : old[1]] = self._last.reshape(2, *old)
        self._last, self._shape = wider.reshape(2, -1), new

    def saved(self) -> dict[str, np.ndarray]:
        """What is remembered, as named arrays."""
        return {**super().saved(), "shape": np.array(self._shape, np.int64)}

    def load(self, saved: Mapping[str, np.ndarray], lists: int) -> None:
        """Go on from what was saved."""
        numbers, groups = (int(n) for n in checked(saved, {"shape": held("i8", 2, low=0)})["shape"])
        super().load(saved, numbers * groups)
        require(groups <= lists and numbers * groups == self._last.shape[1], "shape does not fit to its lists")
        self._shape = (numbers, groups)

    def busy(self) -> np.ndarray:
        """Groups with a query whose last list had rows."""
        numbers, groups = self._shape
        last = self._last.reshape(2, numbers, groups)
        return np.flatnonzero((last[1] > last[0]).any(axis=0))

    def regroup(self, keep: np.ndarray) -> None:
        """Forget all groups but these, which are numbered anew."""
        numbers, groups = self._shape
        known = keep[keep < groups]
        last = self._last.reshape(2, numbers, groups)[:, :, known]
        self._shape = (numbers, len(keep))
        wider = np.zeros((2, *self._shape), np.int64)
        wider[:, :, : len(known)] = last
        self._last = wider.reshape(2, -1)

    def forget(self, number: int) -> None:
        """A query has left: its list is gone without a word."""
        numbers, groups = self._shape
        if number < numbers:
            self._last.reshape(2, numbers, groups)[:, number] = 0

    def needed(self, alive: np.ndarray) -> np.ndarray:
        """The slots whose rows may still go out, given those that engines keep."""
        if len(self._reported):
            self._reported = self._reported[np.isin(self._reported // _ROOM, alive)]
        return np.concatenate([alive, self._ids]) if len(self._ids) else alive
