"""Groups that come and go: the rows of each group, and marks, columns with one value for each group.

There may be millions of groups of which a batch touches a few. So there is capacity for more groups than there are, new
rows of a group are written behind all others, and gaps are closed only once they are as large as what is left.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skyband.engines.protocol import Answers, Engine, Objects, Snapshot
from skyband.engines.validation import validate
from skyband.kernels.columns import Columns, partition_by_group
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.validation import ColumnSpec


MAX_BUFFER_ROWS = 1 << 24
"""Rows of answers after which a kernel returns."""

_MIN_SPARE = 1024  # rows that there is space for in any case
_DENSE = 64  # groups a row of a batch: up to so many, marking those of the rows is cheaper than sorting these
GroupColumns = Any
"""A named tuple of columns and, last, `first`: the rows of group g are first[0, g] to first[1, g]."""


def read_only(column: np.ndarray) -> np.ndarray:
    """Return a contiguous, read-only view of the column, so that Numba compiles a kernel for one type only.

    Examples
    --------
    >>> column = np.arange(3)
    >>> read_only(column).flags.writeable, column.flags.writeable
    (False, True)
    """
    if not column.flags.c_contiguous:
        column = np.ascontiguousarray(column)
    if column.flags.writeable:
        column = column.view()
        column.flags.writeable = False
    return column


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

    def __init__(self, rows: GroupColumns) -> None:
        self.replace(rows)

    def __len__(self) -> int:
        return self._live

    def replace(self, rows: GroupColumns) -> None:
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

    def all_rows(self) -> GroupColumns:
        """Return all rows, group by group."""
        if not self._compact or self._live < self._used:
            self._close_gaps(0)
        columns = (column[: self._used] for column in self._columns)
        return self._kind(*columns, self.first)

    def rows_of(self, groups: np.ndarray) -> GroupColumns:
        """Return the rows of these groups, read-only; the groups are numbered from 0 on."""
        if len(groups) == 1:
            begin, end = self.first[:, groups[0]].tolist()
            columns = (column[begin:end] for column in self._columns)
            return self._kind(*columns, np.array([[0], [end - begin]]))
        low = self.first[0, groups]
        place, first = _places(low, self.first[1, groups] - low)
        return self._kind(*(column[place] for column in self._columns), first)

    def set_rows(self, groups: np.ndarray, rows: GroupColumns) -> None:
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


class GroupedEngine(Engine):
    """Keeps columns of rows, group by group, and marks: columns with one value for each group.

    A call handles the groups that have arrivals, or all of them if windows close. There is capacity for more groups
    than are known, so that a new one is seldom expensive.

    A subclass declares its columns and implements `_process`, which runs the kernel over some groups.
    """

    columns: ClassVar[Mapping[str, ColumnSpec]]  # of a snapshot
    parts: ClassVar[tuple[tuple[str, type], ...]]
    """The kept columns as kernels take them, with the prefix of their names in a snapshot; the marks are the last.

    All others are rows, of which the first part are the bands; their last column, `first`, says where groups begin."""
    new_group: ClassVar[Mapping[str, Any]]  # the marks of a group that has just come

    def __init__(self, resume: Mapping[str, np.ndarray] | None, **sizes: int) -> None:
        if resume is None:
            saved = _empty_columns(self.columns, **sizes)
        else:
            saved = validate(resume, self.columns, **sizes)
            self._check(saved)
        *rows, marks = (kind(*(saved[prefix + name] for name in kind._fields)) for prefix, kind in self.parts)  # type: ignore[attr-defined]
        self._rows = [GroupedRows(part) for part in rows]
        self._marks: Any = marks
        self.peak = int(saved["peak"])
        self._groups = self._capacity  # known ones
        self._upto = MIN_TIME
        self._by_group = (np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))

    @abstractmethod
    def _check(self, saved: Mapping[str, np.ndarray]) -> None:
        """Raise unless the columns of a snapshot fit together."""

    @abstractmethod
    def _process(self, rows: list[Any], marks: Any, arrivals: Objects, goal: np.ndarray) -> tuple[list[Any], Answers]:
        """Take the arrivals of some groups, and close their windows that end by `goal`; return their rows."""

    @abstractmethod
    def _settle(self) -> Objects:
        """Prune all groups; return their rows without groups."""

    def _may_close(self, before: int, upto: int) -> bool:  # noqa: ARG002 - for engines whose windows close without a row
        """Return whether a window may end by the time `upto` that had not ended at `before`."""
        return False

    @property
    def _bands(self) -> GroupedRows:
        return self._rows[0]

    @property
    def _capacity(self) -> int:
        return int(self._marks.done.shape[-1])

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """Take `arrivals`, then close every window that ends by `upto`."""
        self._add_groups(arrivals, upto)
        if isinstance(upto, np.ndarray):
            every = moved is None
        else:
            before, self._upto = self._upto, max(self._upto, upto)
            every = self._may_close(before, upto)
        group = arrivals.group
        some = None if group is None or every else touched_groups(group, moved, self._capacity)
        if group is None or some is None:
            rows = [part.all_rows() for part in self._rows]
            kept, answers = self._process(rows, self._marks, arrivals, self._goal(upto))
            self._replace_rows(kept)
            return answers
        marks = take_marks(self._marks, some)
        mine = arrivals._replace(group=np.searchsorted(some, group).astype(np.int32))
        goal = upto[some] if isinstance(upto, np.ndarray) else np.full(len(some), upto, np.int64)
        kept, answers = self._process([part.rows_of(some) for part in self._rows], marks, mine, goal)
        for part, rows in zip(self._rows, kept, strict=True):
            part.set_rows(some, rows)
        put_marks(self._marks, some, marks)
        return answers._replace(group=some[answers.group].astype(np.int32))

    def _goal(self, upto: int | np.ndarray) -> np.ndarray:
        """Return how far each group goes, for all groups that there is capacity for."""
        if not isinstance(upto, np.ndarray):
            return np.full(self._capacity, upto, np.int64)
        missing = self._capacity - len(upto)
        return np.concatenate([upto, np.zeros(missing, np.int64)]) if missing else upto

    def _sort_by_group(self, rows: Objects, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return score, time and id group by group, and the bounds; in memory that the next call uses again.

        The columns are read-only: Numba compiles a kernel for each mixture of writable and read-only ones.
        """
        size, source = len(rows.id), Columns(*(read_only(column) for column in rows[:3]))
        if groups == 1 or rows.group is None:
            return *source, np.array([[0], [size]])
        if len(self._by_group[0]) < size:
            self._by_group = (np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64))
        to = Columns(*(column[:size] for column in self._by_group))
        first = partition_by_group(source, read_only(rows.group), groups, to)
        return read_only(to.score), read_only(to.time), read_only(to.id), first

    def _replace_rows(self, kept: list[Any]) -> None:
        for part, rows in zip(self._rows, kept, strict=True):
            part.replace(rows)

    def _add_groups(self, arrivals: Objects, upto: int | np.ndarray) -> None:
        groups = self._groups
        if isinstance(upto, np.ndarray):
            groups = max(groups, len(upto))
        if arrivals.group is None:
            groups = max(groups, 1)
        elif len(arrivals.group):
            groups = max(groups, int(arrivals.group.max()) + 1)
        self._enlarge(groups)

    def _enlarge(self, groups: int) -> None:
        """Have capacity for so many groups."""
        if groups > self._capacity:
            capacity = grown_capacity(groups, self._capacity)
            self._marks = resize_marks(self._marks, capacity, self.new_group)
            for part in self._rows:
                part.enlarge(capacity)
        self._groups = max(self._groups, groups)

    def active_groups(self) -> np.ndarray:
        """Return the groups that keep rows, or have yet to report that a window has become empty."""
        shown = np.atleast_2d(self._marks.shown).any(axis=0)
        return np.flatnonzero((self._bands.first[1] > self._bands.first[0]) | shown)

    def keep_groups(self, keep: np.ndarray) -> None:
        """Forget all groups except these, and number them from 0 on."""
        known = keep[keep < self._groups]
        self._marks, self._groups = take_marks(self._marks, known), len(known)
        for part in self._rows:
            part.keep_groups(known)

    def candidates(self) -> Objects:
        """Return exactly the minimal set of each group, best first."""
        rows = self._settle()
        sizes = self._bands.first[1] - self._bands.first[0]
        return rows._replace(group=np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))

    def snapshot(self) -> Snapshot:
        """Return the rows and marks of all known groups."""
        known = np.arange(self._groups)
        rows = (part.all_rows() for part in self._rows)
        kept = [*(part._replace(first=part.first[:, known]) for part in rows), take_marks(self._marks, known)]
        named = {
            prefix + name: column.copy()
            for (prefix, _), part in zip(self.parts, kept, strict=True)
            for name, column in part._asdict().items()
        }
        return {**named, "peak": np.array(self.peak)}


def _empty_columns(columns: Mapping[str, ColumnSpec], /, **sizes: int) -> dict[str, Any]:
    """Make the declared columns before the first row: lengths given by name are 0 unless `sizes` has them."""
    return {
        name: np.zeros([n if isinstance(n, int) else sizes.get(n, 0) for n in spec.shape], spec.dtype)
        for name, spec in columns.items()
    }
