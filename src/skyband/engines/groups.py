"""Groups that come and go: the rows of each group, and marks, columns with one value for each group.

There may be millions of groups of which a batch touches a few. So there is capacity for more groups than there are, new
rows of a group are written behind all others, and gaps are closed only once they are as large as what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

_MIN_SPARE = 1024  # rows that there is space for in any case
_DENSE = 64  # groups a row of a batch: up to so many, marking those of the rows is cheaper than sorting these
Columns = Any
"""A named tuple of columns and, last, `first`: the rows of group g are first[0, g] to first[1, g]."""


class GroupedRows:
    """The rows of all groups, in columns.

    Cost: O(rows of the groups at hand) for `rows_of` and `set_rows`, on average.

    Examples
    --------
    >>> from collections import namedtuple
    >>> Rows = namedtuple("Rows", ["score", "first"])
    >>> rows = GroupedRows(Rows(np.array([5.0, 3.0, 4.0]), np.array([[0, 2], [2, 3]])))
    >>> rows.set_rows(np.array([0]), Rows(np.array([9.0]), np.array([[0], [1]])))
    >>> rows.rows_of(np.array([0, 1])).score.tolist(), len(rows)
    ([9.0, 4.0], 2)
    """

    def __init__(self, rows: Columns) -> None:
        self.replace(rows)

    def __len__(self) -> int:
        return self._live

    def replace(self, rows: Columns) -> None:
        """Keep these rows and no others."""
        *self._columns, self.first = rows
        self._kind = type(rows)
        self._used = len(self._columns[0])
        self._live = int((self.first[1] - self.first[0]).sum())
        self._compact = True

    @property
    def capacity(self) -> int:
        """For how many groups there is capacity."""
        return int(self.first.shape[1])

    def all_rows(self) -> Columns:
        """Return all rows, group by group."""
        if not self._compact or self._live < self._used:
            self._close_gaps(0)
        columns = (column[: self._used] for column in self._columns)
        return self._kind(*columns, self.first)

    def rows_of(self, groups: np.ndarray) -> Columns:
        """Return the rows of these groups, read-only; the groups are numbered from 0 on."""
        if len(groups) == 1:
            begin, end = self.first[:, groups[0]].tolist()
            columns = (column[begin:end] for column in self._columns)
            return self._kind(*columns, np.array([[0], [end - begin]]))
        low = self.first[0, groups]
        place, first = _places(low, self.first[1, groups] - low)
        return self._kind(*(column[place] for column in self._columns), first)

    def set_rows(self, groups: np.ndarray, rows: Columns) -> None:
        """Replace the rows of these groups."""
        size = len(rows[0])
        old = self.first[:, groups]
        space = int((old[1] - old[0]).sum())
        self._live -= space
        if len(groups) == 1 and size <= space:  # where they were
            begin = int(old[0, 0])
            for column, new in zip(self._columns, rows[:-1], strict=True):
                column[begin : begin + size] = new
            self.first[1, groups[0]] = begin + size
        else:
            if self._used + size > len(self._columns[0]):
                self.first[:, groups] = 0
            begin = self.append(*rows[:-1])
            self.first[:, groups] = rows[-1] + begin
        self._live += size

    def append(self, *rows: np.ndarray) -> int:
        """Write rows behind all others, which belong to no group until `first` says so; return where they begin."""
        size = len(rows[0])
        if self._used + size > len(self._columns[0]):
            self._close_gaps(size)
        begin = self._used
        for column, new in zip(self._columns, rows, strict=True):
            column[begin : begin + size] = new
        self._used, self._compact = begin + size, False
        return begin

    def columns(self) -> list[np.ndarray]:
        """Return all rows where they lie, also those of no group."""
        return [column[: self._used] for column in self._columns]

    def _close_gaps(self, more: int) -> None:
        """Move all rows together; if `more` are to come, into twice the space that is needed with them."""
        place, first = _places(self.first[0], self.first[1] - self.first[0])
        size = len(place)
        for number, column in enumerate(self._columns):
            fresh = np.empty(2 * (size + more) + _MIN_SPARE if more else size, column.dtype)
            fresh[:size] = column[place]
            self._columns[number] = fresh
        self.first, self._used, self._live, self._compact = first, size, size, True

    def enlarge(self, groups: int) -> None:
        """Add groups without rows, up to so many."""
        more = np.full((2, groups - self.capacity), self._used, np.int64)
        self.first = np.concatenate([self.first, more], axis=1)

    def keep_groups(self, keep: np.ndarray) -> None:
        """Forget all groups except these, and number them from 0 on."""
        self.set_bounds(np.ascontiguousarray(self.first[:, keep]))

    def set_bounds(self, first: np.ndarray) -> None:
        """Have other groups, whose rows are already there."""
        self.first = first
        self._live, self._compact = int((self.first[1] - self.first[0]).sum()), False


def _places(low: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of runs that begin at `low`, one run after the other; and where each run is among them."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    begins = ends - sizes
    return np.arange(total) + np.repeat(low - begins, sizes), np.stack([begins, ends])


def resize_marks(marks: Any, groups: int, new_group: Mapping[str, Any]) -> Any:
    """Return marks for so many groups, along the last axis; new ones have the values in `new_group`."""
    columns = []
    for name, old in marks._asdict().items():
        more = np.full((*old.shape[:-1], groups - old.shape[-1]), new_group[name], old.dtype)
        columns.append(np.concatenate([old, more], axis=-1))
    return type(marks)(*columns)


def take_marks(marks: Any, groups: np.ndarray) -> Any:
    """Copy the marks of some groups."""
    if len(groups) == 1:
        at = int(groups[0])
        return type(marks)(*(column[..., at : at + 1].copy() for column in marks))
    return type(marks)(*(np.ascontiguousarray(column[..., groups]) for column in marks))


def put_marks(marks: Any, groups: np.ndarray, new: Any) -> None:
    """Replace the marks of some groups."""
    for column, part in zip(marks, new, strict=True):
        column[..., groups] = part


def grown_capacity(groups: int, capacity: int) -> int:
    """Return for how many groups to allocate, with this capacity until now: half as many again, so that it is rare."""
    return groups if capacity == 0 else max(groups, capacity + capacity // 2)


def touched_groups(group: np.ndarray, moved: np.ndarray | None, groups: int) -> np.ndarray | None:
    """Return the groups of arrivals, and those that have `moved` without one; None: so many that all are handled."""
    if len(group) == 1 and groups > 1 and (moved is None or (moved == group[0]).all()):
        return group.astype(np.int64)
    if groups <= _DENSE * len(group):
        flags = np.zeros(groups, np.bool_)
        flags[group] = True
        if moved is not None:
            flags[moved] = True
        return None if 2 * np.count_nonzero(flags) > groups else np.flatnonzero(flags)
    found = np.unique(group if moved is None else np.concatenate([group, moved]))
    return None if 2 * len(found) > groups else found.astype(np.int64)
