"""The ids and scores of a view's rows, and what changes do to them: arrays only, no table and no payload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from skyband.engines.groups import read_only
from skyband.engines.validation import any_int_column, check_ranked, float_column, require, typed_column, validate
from skyband.kernels import view as kernel
from skyband.kernels.sieve import words_for
from skyband.view.drawdown import SizePath
from skyband.view.policy import MAX_VIEW_ROWS

MIN_ID = -(1 << 63)
NONE = np.empty(0, np.int64)
_CACHE_LINE, _FIELDS = 64, 4  # bytes; numbers of eight bytes per row
_ROW = ("id", "score", "row")
_MARKS, _STORED_COUNTS = 14, slice(2, 8)  # numbers of the stored column "marks", of which only these are used
_STORED = {
    "id": any_int_column("rows"),
    "score": float_column("rows"),
    "row": typed_column("i8", "rows", low=0),
    "marks": any_int_column(_MARKS),
    "bound": float_column(1),
    "bound_id": any_int_column(1),
    "kmax": typed_column("i8", 3, low=0),
    "seen_id": any_int_column("seen"),
    "seen_version": any_int_column("seen"),
    "seen_score": typed_column("f8", "seen"),
    "seen_row": typed_column("i8", "seen"),
}


class Counts(NamedTuple):
    """Changes by kind (section 3 of the paper), and those older than what is known of their row."""

    ignorable: int
    neutral: int
    good: int
    bad: int
    stale: int


class ViewIndex:
    """At most kmax rows, ranked when they are read: all rows of the table that rank at or above `bound`.

    Cost: O(1) a change. O(k) to read rows that have not changed; the first read after changes ranks the rows again,
    O(k' + changed * log changed).

    Parameters
    ----------
    kmax
        Maximum number of rows.
    versions
        Remember the newest version of each row that a change was about, and ignore older changes.
    follow
        Let the bound follow the lowest row, as in the paper. By default it stays when rows leave, so that rows which
        come back between the two are still known.

    Examples
    --------
    >>> index = ViewIndex(kmax=3)
    >>> index.apply(np.array([7, 8, 9, 5]), np.array([2.0, 4.0, 3.0, 1.0]))
    4
    >>> index.top(2)[0].tolist(), index.size, index.bound
    ([8, 9], 3, (2.0, 7))

    Row 5 was dropped: from now on the index knows nothing of rows below the bound. A score of NaN deletes a row:

    >>> index.apply(np.array([8]), np.array([np.nan]))
    1
    >>> index.top(2)[0].tolist(), index.counts
    ([9, 7], Counts(ignorable=0, neutral=0, good=4, bad=1, stale=0))

    References
    ----------
    Yi et al., ICDE 2003, section 3.
    """

    def __init__(self, kmax: int, *, versions: bool = False, follow: bool = False) -> None:
        self.kmax, self.follow = kmax, follow
        self.min_rows = 1
        """At least so many rows stay when a full index drops some."""
        self.generation = 0
        """Grows with every call that may change rows."""
        self._marks = np.zeros(kernel.COUNT, np.int64)
        self._bound_score, self._bound_id = np.array([-np.inf]), np.array([MIN_ID])
        self._rows = _allocate_rows(kmax)
        self._seen = _allocate_versions(1024 if versions else 0)
        self._seen_upto = 0  # upper limit of the remembered versions
        kernel.place(NONE, self._rows, self._marks)

    @property
    def size(self) -> int:
        """The number of rows, k' in the paper."""
        return int(self._marks[kernel.SIZE])

    @property
    def has_versions(self) -> bool:
        """Whether the newest version of each row is remembered."""
        return len(self._seen.id) > 0

    @property
    def bound(self) -> tuple[float, int] | None:
        """The rank (score, id) down to which all rows are known; None if all rows of the table are."""
        score, row_id = float(self._bound_score[0]), int(self._bound_id[0])
        return None if score == -np.inf and row_id == MIN_ID else (score, row_id)

    @bound.setter
    def bound(self, bound: tuple[float, int] | None) -> None:
        self._bound_score[0], self._bound_id[0] = (-np.inf, MIN_ID) if bound is None else bound

    @property
    def counts(self) -> Counts:
        """Changes by kind."""
        return Counts(*self._marks[kernel.IGNORABLE : kernel.STALE + 1].tolist())

    def take_min_size(self) -> int:
        """The smallest size since the last call."""
        smallest = min(int(self._marks[kernel.LEAST]), self.size)
        self._marks[kernel.LEAST] = self._marks[kernel.SIZE]
        return smallest

    def take_path(self, updates: int) -> SizePath:
        """How the size moved since the last call, had no row been dropped because the index was full."""
        end, peak, drawdown, low = self._marks[kernel.LEVEL : kernel.LOW + 1].tolist()
        self._marks[kernel.LEVEL : kernel.LOW + 1] = 0
        return SizePath(updates, drawdown, peak, low, end)

    def apply(
        self,
        ids: np.ndarray,
        score: np.ndarray,
        version: np.ndarray = NONE,
        *,
        first: int = 0,
        stop: int = 0,
        base: int = 0,
    ) -> int:
        """Apply changes from position `first` on until fewer than `stop` rows are left; return where that was.

        A change that enters at position i gets the row number base + i.
        """
        if self.has_versions:
            self._reserve_versions(len(ids) - first)
        return self._run((ids, score, version), first, stop, base=base)

    def add_fetched(self, ids: np.ndarray, score: np.ndarray, *, base: int = 0) -> None:
        """Add rows fetched from the table, except those known from a change, which may be newer. Not counted."""
        self._run_uncounted((ids, score, NONE), fresh=True, base=base)

    def reapply(self, ids: np.ndarray, score: np.ndarray, version: np.ndarray = NONE, *, base: int = 0) -> None:
        """Apply changes again, to rows fetched since the first time. Not counted."""
        self._run_uncounted((ids, score, version), again=True, base=base)

    def _run_uncounted(self, columns: Iterable[np.ndarray], **mode: int) -> None:
        counted = [slice(kernel.IGNORABLE, kernel.STALE + 1), slice(kernel.LEVEL, kernel.LOW + 1)]
        before = [self._marks[part].copy() for part in counted]
        self._run(columns, **mode)
        for part, values in zip(counted, before, strict=True):
            self._marks[part] = values
        self._marks[kernel.LEAST] = self._marks[kernel.SIZE]

    def _run(self, columns: Iterable[np.ndarray], first: int = 0, stop: int = 0, **mode: int) -> int:
        """Run the kernel on columns of ids, scores and versions."""
        self.generation += 1
        # a full index drops an eighth of its spare rows at once, so that it is seldom full
        spare = self.kmax - min(max(stop, self.min_rows), self.kmax)
        kept_when_full = self.kmax if self.follow else self.kmax - spare // 8
        modes = bool(mode.get("fresh")), bool(mode.get("again")), mode["base"]
        shape = (first, stop, self.kmax, kept_when_full, self.follow, *modes)
        state = self._rows, self._seen, self._marks, self._bound_score, self._bound_id
        return int(kernel.apply(*map(read_only, columns), *state, shape))

    def _reserve_versions(self, new: int) -> None:
        """Make room for the versions of `new` changes."""
        if 2 * (self._seen_upto + new) > len(self._seen.id):
            self._rebuild_versions(self._seen.version != kernel.NO_VERSION, new)
        self._seen_upto += new

    def _rebuild_versions(self, keep: np.ndarray, new: int) -> None:
        """Keep only some of the remembered versions, with room for `new` ones."""
        old = kernel.Seen(*(column[keep] for column in self._seen))
        self._seen_upto = len(old.id)
        self._seen = _allocate_versions(1 << int(4 * (self._seen_upto + new)).bit_length())
        kernel.remember(*old, self._seen)

    def add_remembered(self) -> None:
        """Add rows that are known from changes and rank at or above the bound, after a refill has lowered it."""
        seen = self._seen
        score, row_id = self._bound_score[0], self._bound_id[0]
        inside = (seen.score > score) | ((seen.score == score) & (seen.id >= row_id))
        places = np.flatnonzero((seen.version != kernel.NO_VERSION) & inside)
        if not len(places):
            return
        kmax = self.kmax
        self.resize(max(kmax, self.size + len(places)))  # so that none is dropped
        base = int(max(seen.row.max(), self._rows.row.max())) + 1
        self.reapply(seen.id[places], seen.score[places], seen.version[places], base=base)
        self.renumber(seen.row[places], base)
        self.resize(max(kmax, self.size))

    def forget(self, version: int) -> None:
        """Drop remembered versions up to this one."""
        if self.has_versions:
            self._rebuild_versions(self._seen.version > version, 256)

    def clear(self) -> None:
        """Drop all rows. Counts and remembered versions stay."""
        self.generation += 1
        kernel.place(NONE, self._rows, self._marks)

    def resize(self, kmax: int) -> None:
        """Change kmax; the lowest rows beyond it are dropped."""
        self.generation += 1
        kernel.cut(self._rows, self._marks, self._bound_score, self._bound_id, kmax)
        if kmax + 1 != len(self._rows.id):  # smaller arrays stay in nearer caches
            old, order = self._rows, self.order().copy()
            self._rows = _allocate_rows(kmax)
            for to, column in zip(self._rows[:3], old[:3], strict=True):
                to[: len(order)] = column[order]
            kernel.place(self._rows.id[: len(order)], self._rows, self._marks)
        self.kmax = kmax

    def top(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids, scores and row numbers of the k best rows, best first."""
        rows = self._rows
        order = self.order()[:k]
        return rows.id[order], rows.score[order], rows.row[order]

    def order(self) -> np.ndarray:
        """Positions of all rows in the arrays, best first."""
        if self._marks[kernel.TOUCHED]:
            kernel.rank(self._rows, self._marks)
        return self._rows.order[: self._marks[kernel.SIZE]]

    def row_numbers(self) -> np.ndarray:
        """Row numbers of all rows, and of all changes that are remembered; some repeat."""
        row = self._rows.row[self.order()]
        if not self.has_versions:
            return row
        return np.concatenate([row, self._seen.row[self._seen.version != kernel.NO_VERSION]])

    def renumber(self, number: np.ndarray, base: int) -> None:
        """Replace each row number base + i by number[i]."""
        self.generation += 1
        places = self.order()
        for row, some in ((self._rows.row, places), (self._seen.row, slice(None))):
            new = np.arange(len(row))[some]
            new = new[row[new] >= base]
            row[new] = number[row[new] - base]

    def snapshot(self) -> dict[str, np.ndarray]:
        """All state as named arrays."""
        order = self.order()
        used = self._seen.version != kernel.NO_VERSION
        marks = np.zeros(_MARKS, np.int64)
        marks[_STORED_COUNTS] = *self.counts, min(int(self._marks[kernel.LEAST]), self.size)
        return {
            **{name: column[order] for name, column in zip(_ROW, self._rows, strict=False)},
            "marks": marks,
            "bound": self._bound_score.copy(),
            "bound_id": self._bound_id.copy(),
            "kmax": np.array([self.kmax, self.follow, self.has_versions]),
            **{f"seen_{name}": column[used] for name, column in zip(kernel.Seen._fields, self._seen, strict=True)},
        }

    @classmethod
    def restore(cls, snapshot: Mapping[str, np.ndarray]) -> ViewIndex:
        """Continue from a snapshot, after checking it."""
        stored = validate(snapshot, _STORED)
        kmax, follow, versions = (int(x) for x in stored["kmax"])
        size = len(stored["id"])
        require(max(size, 1) <= kmax <= MAX_VIEW_ROWS, f"kmax is {kmax} with {size} rows")
        check_ranked(stored["score"], stored["id"])
        for ids in (stored["id"], stored["seen_id"]):
            require(len(np.unique(ids)) == len(ids), "an id occurs twice")
        require(stored["seen_version"] != kernel.NO_VERSION, "a remembered change has no version")
        index = cls(kmax, versions=bool(versions), follow=bool(follow))
        for to, name in zip(index._rows, _ROW, strict=False):
            to[:size] = stored[name]
        kernel.place(stored["id"], index._rows, index._marks)
        *counts, smallest = stored["marks"][_STORED_COUNTS]
        index._marks[kernel.IGNORABLE : kernel.STALE + 1], index._marks[kernel.LEAST] = counts, smallest
        index._bound_score[:], index._bound_id[:] = stored["bound"], stored["bound_id"]
        if versions:
            index._seen = kernel.Seen(*(stored[f"seen_{name}"] for name in kernel.Seen._fields))
            index._rebuild_versions(np.ones(len(index._seen.id), np.bool_), 256)
        return index

    def _check(self) -> None:
        """Assert the invariants: each row once, in order, found by its id, none below the bound."""
        rows, order = self._rows, self.order()
        ranks = list(zip(rows.score[order].tolist(), rows.id[order].tolist(), strict=True))
        assert ranks == sorted(ranks, reverse=True)
        assert len(set(rows.id[order].tolist())) == self.size <= self.kmax
        assert sorted([*order.tolist(), *rows.free[: self._marks[kernel.FREE]].tolist()]) == list(range(len(rows.id)))
        assert sorted(rows.slots[rows.slots >= 0].tolist()) == sorted(order.tolist())
        assert self.bound is None or all(rank >= self.bound for rank in ranks)


def _allocate_rows(kmax: int) -> kernel.Rows:
    """Arrays for kmax + 1 rows; the hash table has at least four slots for each, so that searches are short.

    The fields of a row lie in one cache line: between two changes of a row the stream drives it out of the caches, and
    half a line comes back sooner than four.
    """
    size = kmax + 1
    buffer = np.zeros(_FIELDS * size + _CACHE_LINE // 8, np.int64)
    aligned = -buffer.ctypes.data % _CACHE_LINE // 8
    fields = buffer[aligned : aligned + _FIELDS * size].reshape(size, _FIELDS)
    return kernel.Rows(
        fields[:, 0],
        fields[:, 1].view(np.float64),
        fields[:, 2],
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.full(1 << int(4 * size).bit_length(), -1, np.int32),
        fields.view(np.uint8)[:, 8 * 3],
        np.zeros(size, np.int32),
        words_for(size),
    )


def _allocate_versions(size: int) -> kernel.Seen:
    version = np.full(size, kernel.NO_VERSION, np.int64)
    return kernel.Seen(np.zeros(size, np.int64), version, np.full(size, np.nan), np.zeros(size, np.int64))
