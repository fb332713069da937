"""The rows of a view and what changes do to them: columns and numbers only, no table and no clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from skyband.engines.columns import fixed
from skyband.engines.validation import checked, held, ranked, real, require, whole
from skyband.kernels import view as kernel
from skyband.kernels.sieve import words_for
from skyband.view.swings import Stretch

_LOW_ID = -(1 << 63)
_NONE = np.empty(0, np.int64)
_ROW = ("id", "score", "row")
_MOST = 1 << 26  # rows of a view that was saved
_LINE, _FIELDS = 64, 4  # bytes of a cache line, and numbers of eight bytes for each place
_HOLDS = {
    "id": whole("rows"),
    "score": real("rows"),
    "row": held("i8", "rows", low=0),
    "marks": whole(kernel.LOW),  # what follows begins anew with every batch
    "bound": real(1),
    "bound_id": whole(1),
    "kmax": held("i8", 3, low=0),
    "seen_id": whole("seen"),
    "seen_version": whole("seen"),
    "seen_score": held("f8", "seen"),
    "seen_row": held("i8", "seen"),
}


class Counts(NamedTuple):
    """How many changes of each kind there were (section 3 of the paper), and how many were too old to count."""

    ignorable: int
    neutral: int
    good: int
    bad: int
    stale: int


class Core:
    """Between k and kmax rows, best first; every row of the table that ranks at or before `bound` is one of them.

    Cost: O(1) a change. A read of rows that have not changed is O(k); the first one after changes ranks them again,
    O(k' + changed * log changed).

    Examples
    --------
    >>> core = Core(kmax=3)
    >>> core.apply(np.array([7, 8, 9, 5]), np.array([2.0, 4.0, 3.0, 1.0]))
    4
    >>> core.top(2)[0].tolist(), core.size, core.bound
    ([8, 9], 3, (2.0, 7))

    Row 5 is outside, and so is everything at or below it until the table is asked. Row 8 goes:

    >>> core.apply(np.array([8]), np.array([np.nan]))
    1
    >>> core.top(2)[0].tolist(), core.counts
    ([9, 7], Counts(ignorable=0, neutral=0, good=4, bad=1, stale=0))

    References
    ----------
    Yi et al., ICDE 2003, section 3. The paper compares with the lowest row kept; here the bound stays where it was when
    rows leave, so that a row which comes back between the two is still known (`follow=True` is the paper's way).
    """

    def __init__(self, kmax: int, *, versions: bool = False, follow: bool = False) -> None:
        self.kmax = kmax
        self.follow = follow
        self.marks = np.zeros(kernel.COUNT, np.int64)
        self._bound_score = np.array([-np.inf])
        self._bound_id = np.array([_LOW_ID])
        self._rows = _room(kmax)
        self._seen = _seen(1024 if versions else 0)
        self._remembered = 0
        self.turn = 0
        """Counts what may have changed the rows: while it stands still, so do they."""
        kernel.place(_NONE, self._rows, self.marks)

    @property
    def size(self) -> int:
        """k', the number of rows."""
        return int(self.marks[kernel.SIZE])

    @property
    def versions(self) -> bool:
        """Whether the newest version of each row is remembered."""
        return len(self._seen.id) > 0

    @property
    def bound(self) -> tuple[float, int] | None:
        """The rank at or before which all is known; None if all rows of the table are here."""
        score, number = float(self._bound_score[0]), int(self._bound_id[0])
        return None if score == -np.inf and number == _LOW_ID else (score, number)

    @bound.setter
    def bound(self, bound: tuple[float, int] | None) -> None:
        self._bound_score[0], self._bound_id[0] = (-np.inf, _LOW_ID) if bound is None else bound

    @property
    def counts(self) -> Counts:
        """What changes there were."""
        return Counts(*self.marks[kernel.IGNORABLE : kernel.STALE + 1].tolist())

    def take_least(self) -> int:
        """The smallest size since this was last asked."""
        least = int(self.marks[kernel.LEAST])
        self.marks[kernel.LEAST] = self.marks[kernel.SIZE]
        return min(least, self.size)

    def take_stretch(self, updates: int) -> Stretch:
        """How the number of rows went since this was last asked, as if no row had to make room for another."""
        marks = self.marks
        level, peak, draw, low = marks[kernel.LEVEL : kernel.LOW + 1].tolist()
        marks[kernel.LEVEL : kernel.LOW + 1] = 0
        return Stretch(updates, draw, peak, low, level)

    def apply(  # noqa: PLR0913 - columns and their reading
        self,
        ids: np.ndarray,
        score: np.ndarray,
        version: np.ndarray | None = None,
        *,
        first: int = 0,
        stop: int = 0,
        fresh: bool = False,
        again: bool = False,
        base: int = 0,
    ) -> int:
        """Take changes from place `first` on until fewer than `stop` rows are left. Where it stopped."""
        self.turn += 1
        seen = self._seen
        if len(seen.id) and not fresh and not again:
            assert version is not None
            new = len(ids) - first
            if 2 * (self._remembered + new) > len(seen.id):
                seen = self._note_again(seen.version != kernel.NO_VERSION, new)
            self._remembered += new
        ids, score, version = (fixed(c) for c in (ids, score, _NONE if version is None else version))
        shape = (first, stop, self.kmax, self._kept_of_full(stop), self.follow, fresh, again, base)
        return int(
            kernel.apply(ids, score, version, self._rows, seen, self.marks, self._bound_score, self._bound_id, shape)
        )

    def _kept_of_full(self, stop: int) -> int:
        """How many rows a view that is full keeps: a few less than it may, so that this is done now and then."""
        return self.kmax if self.follow else self.kmax - (self.kmax - min(max(stop, 1), self.kmax)) // 8

    def _note_again(self, used: np.ndarray, more: int) -> kernel.Seen:
        """Move what is used to a table with room for more."""
        old = kernel.Seen(*(column[used] for column in self._seen))
        self._remembered = len(old.id)
        self._seen = _seen(1 << int(4 * (self._remembered + more)).bit_length())
        kernel.remember(*old, self._seen)
        return self._seen

    def recall(self) -> None:
        """After the table gave rows and the bound has fallen: add those above it that only changes spoke of."""
        seen = self._seen
        score, number = self._bound_score[0], self._bound_id[0]
        inside = (seen.score > score) | ((seen.score == score) & (seen.id >= number))
        told = np.flatnonzero((seen.version != kernel.NO_VERSION) & inside)
        if len(told):
            kmax = self.kmax
            self.resize(max(kmax, self.size + len(told)))  # none may push out another
            base = int(max(seen.row.max(), self._rows.row.max())) + 1
            self.apply(seen.id[told], seen.score[told], seen.version[told], again=True, base=base)
            self.renumber(seen.row[told], base)
            self.resize(max(kmax, self.size))

    def told_rows(self) -> np.ndarray:
        """The row numbers of what changes spoke of, where that is remembered."""
        return self._seen.row[self._seen.version != kernel.NO_VERSION]

    def forget(self, version: int) -> None:
        """The table has all changes up to this one, and none of them will come again."""
        if len(self._seen.id):
            self._note_again(self._seen.version > version, 256)

    def resize(self, kmax: int) -> None:
        """Another kmax; rows beyond it go."""
        self.turn += 1
        kernel.cut(self._rows, self.marks, self._bound_score, self._bound_id, kmax)
        if kmax + 1 != len(self._rows.id):  # what lies close together is found sooner
            old, order = self._rows, self.order().copy()
            self._rows = _room(kmax)
            for to, column in zip(self._rows[:3], old[:3], strict=True):
                to[: len(order)] = column[order]
            kernel.place(self._rows.id[: len(order)], self._rows, self.marks)
        self.kmax = kmax

    def top(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids, scores and row numbers of the k best, best first."""
        rows = self._rows
        order = self.order()[:k]
        return rows.id[order], rows.score[order], rows.row[order]

    def order(self) -> np.ndarray:
        """The places of all rows, best first."""
        if self.marks[kernel.TOUCHED]:
            kernel.rank(self._rows, self.marks)
        return self._rows.order[: self.marks[kernel.SIZE]]

    def renumber(self, number: np.ndarray, base: int) -> None:
        """Rows numbered from `base` on get the numbers in `number`."""
        self.turn += 1
        places = self.order()
        for row, there in ((self._rows.row, places), (self._seen.row, slice(None))):
            mine = np.arange(len(row))[there]
            mine = mine[row[mine] >= base]
            row[mine] = number[row[mine] - base]

    def snapshot(self) -> dict[str, np.ndarray]:
        """All that is kept, as named arrays."""
        order = self.order()
        used = self._seen.version != kernel.NO_VERSION
        return {
            **{name: column[order] for name, column in zip(_ROW, self._rows, strict=False)},
            "marks": self.marks[: kernel.LOW].copy(),
            "bound": self._bound_score.copy(),
            "bound_id": self._bound_id.copy(),
            "kmax": np.array([self.kmax, self.follow, len(self._seen.id) > 0]),
            **{f"seen_{name}": column[used] for name, column in zip(kernel.Seen._fields, self._seen, strict=True)},
        }

    @classmethod
    def resume(cls, saved: Mapping[str, np.ndarray]) -> Core:
        """Go on from a snapshot."""
        saved = checked(saved, _HOLDS)
        kmax, follow, versions = (int(x) for x in saved["kmax"])
        size = len(saved["id"])
        require(max(size, 1) <= kmax <= _MOST, f"kmax is {kmax}, and there are {size} rows")
        ranked(saved["score"], saved["id"])
        for ids in (saved["id"], saved["seen_id"]):
            require(len(np.unique(ids)) == len(ids), "a row is there twice")
        require(saved["seen_version"] != kernel.NO_VERSION, "a change has no version")
        core = cls(kmax, versions=bool(versions), follow=bool(follow))
        for to, name in zip(core._rows, _ROW, strict=False):
            to[:size] = saved[name]
        kernel.place(saved["id"], core._rows, core.marks)
        counted = slice(kernel.IGNORABLE, kernel.LEAST + 1)
        core.marks[counted] = saved["marks"][counted]
        core._bound_score[:], core._bound_id[:] = saved["bound"], saved["bound_id"]
        if versions:
            core._seen = kernel.Seen(*(saved[f"seen_{name}"] for name in kernel.Seen._fields))
            core._note_again(np.ones(len(core._seen.id), np.bool_), 256)
        return core

    def _check(self) -> None:
        """Every row once, in order, found by its id, none beyond the bound."""
        rows, order = self._rows, self.order()
        ranks = list(zip(rows.score[order].tolist(), rows.id[order].tolist(), strict=True))
        assert ranks == sorted(ranks, reverse=True)
        assert len(set(rows.id[order].tolist())) == self.size <= self.kmax
        assert sorted([*order.tolist(), *rows.free[: self.marks[kernel.FREE]].tolist()]) == list(range(len(rows.id)))
        assert sorted(rows.slots[rows.slots >= 0].tolist()) == sorted(order.tolist())
        assert self.bound is None or all(rank >= self.bound for rank in ranks)


def _room(kmax: int) -> kernel.Rows:
    """Places for so many rows; the hash table has four slots for each, so that a search ends soon.

    What belongs to a place lies together: a stream of changes has driven it from the nearest caches when one concerns
    it, and half a line is brought back sooner than four.
    """
    size = kmax + 1
    whole = np.zeros(_FIELDS * size + _LINE // 8, np.int64)
    first = -whole.ctypes.data % _LINE // 8
    fields = whole[first : first + _FIELDS * size].reshape(size, _FIELDS)
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


def _seen(size: int) -> kernel.Seen:
    version = np.full(size, kernel.NO_VERSION, np.int64)
    return kernel.Seen(np.zeros(size, np.int64), version, np.full(size, np.nan), np.zeros(size, np.int64))
