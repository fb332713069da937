"""Groups that come and go: columns with one value for each group, and the rows of each group.

There may be millions of groups of which a batch touches a few. So there is room for more groups than there are, rows of
the groups at hand are written behind all others, and gaps are closed only once they are as large as what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

_SPARE = 1024  # rows that there is room for in any case
_FLAGS = 64  # groups a row of a batch: up to so many, marking those of the rows is cheaper than sorting these
Columns = Any
"""A named tuple of columns and, last, `first`: the rows of group g are first[0, g] to first[1, g]."""


class Pool:
    """The rows of all groups, in columns.

    Cost: O(rows of the groups at hand) for `part` and `put`, on average.

    Examples
    --------
    >>> from collections import namedtuple
    >>> Rows = namedtuple("Rows", ["score", "first"])
    >>> pool = Pool(Rows(np.array([5.0, 3.0, 4.0]), np.array([[0, 2], [2, 3]])))
    >>> pool.put(np.array([0]), Rows(np.array([9.0]), np.array([[0], [1]])))
    >>> pool.part(np.array([0, 1])).score.tolist(), len(pool)
    ([9.0, 4.0], 2)
    """

    def __init__(self, rows: Columns) -> None:
        self.replace(rows)

    def __len__(self) -> int:
        return self._live

    def replace(self, rows: Columns) -> None:
        """Have these rows and no others; group by group, without gaps, where they were computed by a kernel."""
        *self._columns, self.first = rows
        self._kind = type(rows)
        self._used = len(self._columns[0])
        self._live = int((self.first[1] - self.first[0]).sum())
        self._tidy = True

    @property
    def groups(self) -> int:
        """How many groups there is room for."""
        return int(self.first.shape[1])

    def whole(self) -> Columns:
        """All rows, group by group."""
        if not self._tidy or self._live < self._used:
            self._tidied(0)
        columns = (column[: self._used] for column in self._columns)
        return self._kind(*columns, self.first)

    def part(self, groups: np.ndarray) -> Columns:
        """The rows of these groups, which have the numbers from 0 on. Not to be written to."""
        if len(groups) == 1:
            begin, end = self.first[:, groups[0]].tolist()
            columns = (column[begin:end] for column in self._columns)
            return self._kind(*columns, np.array([[0], [end - begin]]))
        low = self.first[0, groups]
        place, first = _places(low, self.first[1, groups] - low)
        return self._kind(*(column[place] for column in self._columns), first)

    def put(self, groups: np.ndarray, rows: Columns) -> None:
        """Other rows for these groups."""
        size = len(rows[0])
        old = self.first[:, groups]
        room = int((old[1] - old[0]).sum())
        self._live += size - room
        if len(groups) == 1 and size <= room:  # where they were
            begin = int(old[0, 0])
            for column, new in zip(self._columns, rows, strict=False):
                column[begin : begin + size] = new
            self.first[1, groups[0]] = begin + size
            return
        if self._used + size > len(self._columns[0]):
            self.first[:, groups] = 0
            self._tidied(size)
        for column, new in zip(self._columns, rows, strict=False):
            column[self._used : self._used + size] = new
        self.first[:, groups] = rows[-1] + self._used
        self._used += size
        self._tidy = False

    def extend(self, *rows: np.ndarray) -> int:
        """Write rows behind all others, which no group has until `first` says so; where they begin."""
        size = len(rows[0])
        if self._used + size > len(self._columns[0]):
            self._tidied(size)
        begin = self._used
        for column, new in zip(self._columns, rows, strict=True):
            column[begin : begin + size] = new
        self._used, self._tidy = begin + size, False
        return begin

    def columns(self) -> list[np.ndarray]:
        """All rows where they lie, those of no group too."""
        return [column[: self._used] for column in self._columns]

    def _tidied(self, more: int) -> None:
        """Close the gaps, and make room for `more` rows and as many again as there are, if there are more."""
        place, first = _places(self.first[0], self.first[1] - self.first[0])
        size = len(place)
        for number, column in enumerate(self._columns):
            fresh = np.empty(2 * (size + more) + _SPARE if more else size, column.dtype)
            fresh[:size] = column[place]
            self._columns[number] = fresh
        self.first, self._used, self._live, self._tidy = first, size, size, True

    def enlarge(self, groups: int) -> None:
        """Room for more groups, without rows."""
        more = np.full((2, groups - self.groups), self._used, np.int64)
        self.first = np.concatenate([self.first, more], axis=1)

    def regroup(self, keep: np.ndarray) -> None:
        """Forget all groups but these, which are numbered anew, in this order."""
        self.point(np.ascontiguousarray(self.first[:, keep]))

    def point(self, first: np.ndarray) -> None:
        """Have other groups, with rows that are there."""
        self.first = first
        self._live, self._tidy = int((self.first[1] - self.first[0]).sum()), False


def _places(low: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The places of runs that begin at `low`, one run after the other; and where each run is among them."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    begins = ends - sizes
    return np.arange(total) + np.repeat(low - begins, sizes), np.stack([begins, ends])


def enlarged(marks: Any, groups: int, fresh: Mapping[str, Any]) -> Any:
    """Marks with room for so many groups; new ones begin with the values in `fresh`. Groups are along the last axis."""
    columns = []
    for name, old in marks._asdict().items():
        more = np.full((*old.shape[:-1], groups - old.shape[-1]), fresh[name], old.dtype)
        columns.append(np.concatenate([old, more], axis=-1))
    return type(marks)(*columns)


def marks_of(marks: Any, groups: np.ndarray) -> Any:
    """The marks of some groups."""
    if len(groups) == 1:
        at = int(groups[0])
        return type(marks)(*(column[..., at : at + 1].copy() for column in marks))
    return type(marks)(*(np.ascontiguousarray(column[..., groups]) for column in marks))


def put_marks(marks: Any, groups: np.ndarray, new: Any) -> None:
    """Other marks for some groups."""
    for column, part in zip(marks, new, strict=True):
        column[..., groups] = part


def room_for(groups: int, room: int) -> int:
    """How many groups to make room for, if there is room for so many: half as many again, so that it is seldom done."""
    return groups if room == 0 else max(groups, room + room // 2)


def touched(group: np.ndarray, moved: np.ndarray | None, groups: int) -> np.ndarray | None:
    """The groups of arrivals, and those that have `moved` without one; None: so many that all are handled at once."""
    if len(group) == 1 and groups > 1 and (moved is None or (moved == group[0]).all()):
        return group.astype(np.int64)
    if groups <= _FLAGS * len(group):
        flags = np.zeros(groups, np.bool_)
        flags[group] = True
        if moved is not None:
            flags[moved] = True
        return None if 2 * np.count_nonzero(flags) > groups else np.flatnonzero(flags)
    found = np.unique(group if moved is None else np.concatenate([group, moved]))
    return None if 2 * len(found) > groups else found.astype(np.int64)
