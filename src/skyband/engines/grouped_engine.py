"""The base of engines that take a group column: the rows and marks of groups that come and go."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skyband.engines.columns import read_only
from skyband.engines.groups import GroupedRows, grown_capacity, put_marks, resize_marks, take_marks, touched_groups
from skyband.engines.protocol import Answers, Engine, Objects, Snapshot
from skyband.engines.validation import empty_columns, validate
from skyband.kernels.columns import Columns, partition_by_group
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.validation import ColumnSpec

MAX_BUFFER_ROWS = 1 << 24
"""Rows of answers after which a kernel returns."""


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
            saved = empty_columns(self.columns, **sizes)
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
