"""Topk+N: the best of every open window and some behind them, with scores that may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from skyband.engines.validation import MAX_WINDOWS_AHEAD, float_column, require, typed_column, validate

EXACT, BOUND, APPROXIMATE = 0, 1, 2
STATUS = ("exact", "bound", "approximate")
"""What is known of an answer's row: its score and place; a lower bound of its score; neither for certain."""

_LOWEST = np.finfo(np.float64).min  # stands for the score of a forgotten object that is minus infinity

_COLUMNS = {
    "score": float_column("rows"),
    "time": typed_column("i8", "rows"),
    **{name: typed_column("i8", "rows", low=0) for name in ("id", "key", "part")},
    "last": typed_column("i8", "rows"),
    "status": typed_column("i1", "rows", low=EXACT, high=APPROXIMATE),
    "upper": float_column("rows"),
    "best_forgotten": float_column("windows"),
    "reached": typed_column("i8", 2),
}


class ListedObjects(NamedTuple):
    """Objects as columns, those that arrive and those on the list alike.

    Of equal scores the later object ranks first, by time, then by id.
    """

    score: np.ndarray  # float64
    time: np.ndarray  # int64
    id: np.ndarray  # int64: of the stream's row
    key: np.ndarray  # int64: the number of the remote key
    part: np.ndarray  # int64: which of the key's remote rows
    last: np.ndarray  # int64: the last window that holds it
    status: np.ndarray  # int8: EXACT, BOUND or APPROXIMATE
    upper: np.ndarray  # float64: what its score may be at most; for exact ones the score
    values: np.ndarray  # float64, (objects, columns): the numbers of the stream that the score uses

    @classmethod
    def of(  # noqa: PLR0913 - one for each column
        cls,
        score: np.ndarray,
        time: np.ndarray,
        id: np.ndarray,
        key: np.ndarray,
        last: np.ndarray,
        part: np.ndarray | None = None,
        status: int = EXACT,
        upper: np.ndarray | None = None,
        values: np.ndarray | None = None,
    ) -> ListedObjects:
        """Make objects with default values for the columns that are not given."""
        score = np.asarray(score, np.float64)
        time, id, key, last = (np.asarray(column, np.int64) for column in (time, id, key, last))
        part = np.zeros(len(score), np.int64) if part is None else part
        most = score if upper is None else np.asarray(upper, np.float64)
        values = np.empty((len(score), 0)) if values is None else values
        return cls(score, time, id, key, part, last, np.full(len(score), status, np.int8), most, values)

    @classmethod
    def empty(cls, columns: int = 0) -> ListedObjects:
        """Make no objects, whose scores use so many columns."""
        none = np.empty(0, np.int64)
        return cls.of(np.empty(0), none, none, none, none, values=np.empty((0, columns)))

    def take(self, places: np.ndarray) -> ListedObjects:
        """Return the objects at these places."""
        return ListedObjects(*(column[places] for column in self))

    def ranking(self) -> np.ndarray:
        """Return the places of the objects, best first."""
        return np.lexsort((self.part, -self.id, -self.time, -self.score))


class TopKN:
    """The Super-MTK+N list: the objects that are among the `cap` best of some open window.

    All objects of a later window are in the earlier ones too, so an object is listed for one run of windows, from its
    start mark to its end mark. Objects that are pushed out are forgotten; the best forgotten score is remembered by
    window, so that an answer can tell which of its rows are certain. Whoever changes the scores of forgotten objects
    must `note_forgotten`. When a change moves an object down or away, later objects of the list fill the gap: their
    start marks move back.

    Cost: O(list) for any number of arrivals or changes at once. Memory: (k + spare) * H(win / slide) objects in
    random order, whatever the number of rows in the window.

    Examples
    --------
    >>> best = TopKN(cap=2, oldest=0, ratio=2)
    >>> three = ListedObjects.of(score=[5, 9, 7], time=[0, 1, 2], id=[0, 1, 2], key=[0, 1, 2], last=[0, 0, 1])
    >>> best.insert(three).key
    array([0])
    >>> best.marks()
    [(1, 0, 0), (2, 0, 1)]
    >>> best.insert(ListedObjects.of(score=[1], time=[1], id=[1], key=[1], last=[0]), replaced=np.array([1])).key
    array([], dtype=int64)
    >>> best.marks()
    [(2, 0, 1), (1, 0, 0)]
    >>> best.answer(0, 2)[1]  # object 0 was forgotten with a score of 5
    array([0, 2])

    References
    ----------
    Zahmatkesh and Della Valle, AcquaTop, sections 4.1 to 4.4. Errata: "2(K + N) on average" is (K + N) *
    H(win / slide); algorithm 4 moves a lower bound pointer only when its object dies, the example at time 12
    whenever it leaves the window, as here.
    """

    def __init__(self, cap: int, oldest: int, ratio: int, columns: int = 0) -> None:
        self.cap = cap
        self.oldest = oldest
        self._ratio = ratio
        self.listed = ListedObjects.empty(columns)
        self.start = np.empty(0, np.int64)
        self._bound = np.empty(0, np.int64)
        self.best_forgotten = np.full(ratio + 1, -np.inf)  # score, by last window from the oldest on
        self.peak = 0

    def __len__(self) -> int:
        return len(self.start)

    def insert(self, new: ListedObjects, replaced: np.ndarray | None = None) -> ListedObjects:
        """Take new objects in place of those with a key in `replaced`; return the objects that are forgotten."""
        old = self.listed
        if replaced is not None and len(replaced):
            old = old.take(np.flatnonzero(~np.isin(old.key, replaced)))
        merged = ListedObjects(*(np.concatenate(pair) for pair in zip(old, new, strict=True)))
        return self._mark(merged.take(merged.ranking()))

    def expire(self, oldest: int) -> None:
        """Close all windows before `oldest`."""
        gone = min(max(oldest - self.oldest, 0), len(self.best_forgotten))
        self.best_forgotten = np.concatenate([self.best_forgotten[gone:], np.full(gone, -np.inf)])
        self.oldest = oldest
        self._mark(self.listed.take(np.flatnonzero(self.listed.last >= oldest)))

    def note_forgotten(self, upper: np.ndarray, last: np.ndarray) -> None:
        """Note that objects that are not kept may score up to `upper` in windows up to `last`."""
        upper, last = upper[last >= self.oldest], last[last >= self.oldest]
        self._make_room(int(last.max(initial=self.oldest)) - self.oldest + 1)
        np.maximum.at(self.best_forgotten, last - self.oldest, np.maximum(upper, _LOWEST))

    def _make_room(self, windows: int) -> None:
        more = windows - len(self.best_forgotten)
        if more > 0:
            self.best_forgotten = np.concatenate([self.best_forgotten, np.full(more, -np.inf)])

    def _mark(self, ranked: ListedObjects) -> ListedObjects:
        """Set the marks; forget and return the objects that are in no window's list."""
        from skyband.kernels.topkn import OUT, sweep

        windows = int(max(ranked.last.max(initial=self.oldest) - self.oldest + 1, self._ratio))
        self._make_room(windows)
        start = np.empty(len(ranked.last), np.int64)
        bound = np.empty(windows, np.int64)
        sweep(ranked.last, self.cap, self.oldest, np.zeros(windows, np.int64), start, bound)
        stay = start > OUT
        gone = ranked.take(np.flatnonzero(~stay))
        if len(gone.score):
            self.note_forgotten(gone.upper, gone.last)
            bound = np.where(bound >= 0, np.cumsum(stay)[bound] - 1, -1)
            ranked, start = ranked.take(np.flatnonzero(stay)), start[stay]
        self.listed, self.start, self._bound = ranked, start, bound
        self.peak = max(self.peak, len(start))
        return gone

    def within(self, cap: int) -> np.ndarray:
        """Return which objects are among the `cap` best of some open window."""
        from skyband.kernels.topkn import OUT, sweep

        if cap >= self.cap:
            return np.ones(len(self.start), np.bool_)
        start = np.empty(len(self.start), np.int64)
        windows = len(self._bound)
        sweep(self.listed.last, cap, self.oldest, np.zeros(windows, np.int64), start, np.empty(windows, np.int64))
        return start > OUT

    def answer(self, window: int, k: int) -> tuple[ListedObjects, np.ndarray]:
        """Return the k best of a window, and the status of each.

        A row is EXACT if its score is, and no object can have a better place than it seems: none that was forgotten,
        none behind it whose score is not known, and none before it without a known score. The last row of a short
        answer is not EXACT if a forgotten object may belong behind it.
        """
        inside = self.listed.take(np.flatnonzero(self.listed.last >= window))
        best = inside.take(np.arange(min(k, len(inside.score))))
        if not len(best.score):
            return best, np.empty(0, np.int64)
        here, inexact = slice(len(best.score)), inside.status > EXACT
        unsure = np.zeros(len(best.score), np.bool_)
        if inexact.any():
            # a lower bound stays before what it is before, unless both are equal; an estimate may belong anywhere
            least = np.where(inexact, np.where(inside.status == BOUND, inside.score, -np.inf), np.inf)
            before = np.append(False, np.logical_or.accumulate(inexact)[:-1])[here]
            unsure |= before & (best.score >= np.append(np.inf, np.minimum.accumulate(least)[:-1])[here])
            most = np.where(inexact, inside.upper, -np.inf)[::-1]
            behind = np.append(np.logical_or.accumulate(inexact[::-1])[::-1][1:], False)[here]
            unsure |= behind & (best.score <= np.append(np.maximum.accumulate(most)[::-1][1:], -np.inf)[here])
        if self.has_forgotten(window):
            unsure |= best.score <= self.best_forgotten[window - self.oldest :].max()
            unsure[-1] |= len(best.score) < k
        status = np.where(best.status == EXACT, np.where(unsure, APPROXIMATE, EXACT), best.status)
        return best, status.astype(np.int64)

    def has_forgotten(self, window: int) -> bool:
        """Return whether an object of the window was forgotten that may have a score."""
        return bool((self.best_forgotten[window - self.oldest :] > -np.inf).any())

    def marks(self) -> list[tuple[int, int, int]]:
        """Return of every object, best first: its key, and the first and last window for which it is listed."""
        return list(zip(self.listed.key.tolist(), self.start.tolist(), self.listed.last.tolist(), strict=True))

    def bounds(self) -> dict[int, int]:
        """Return the key at the lower bound pointer of every window that is full."""
        full = np.flatnonzero(self._bound >= 0)
        return dict(zip((full + self.oldest).tolist(), self.listed.key[self._bound[full]].tolist(), strict=True))

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the list as named arrays, without `values`, which are in the rows."""
        columns = dict(zip(ListedObjects._fields[:-1], self.listed, strict=False))
        return {**columns, "best_forgotten": self.best_forgotten, "reached": np.array([self.oldest, self.peak])}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot; `values` must be set again."""
        found = validate(saved, _COLUMNS)
        self.oldest, peak = (int(x) for x in found["reached"])
        self.best_forgotten = found["best_forgotten"]
        require(len(self.best_forgotten) > 0, "best_forgotten has no window")
        ahead = found["last"] - self.oldest
        require((ahead >= 0) & (ahead < MAX_WINDOWS_AHEAD), "an object is in no open window")
        values = np.full((len(found["score"]), self.listed.values.shape[1]), np.nan)
        listed = ListedObjects(**{name: found[name] for name in ListedObjects._fields[:-1]}, values=values)
        require(listed.ranking() == np.arange(len(listed.score)), "the objects do not come best first")
        self._mark(listed)
        self.peak = peak

    def _check(self) -> None:
        """Assert what must always hold."""
        order = self.listed.ranking()
        assert (order == np.arange(len(order))).all()
        assert (self.start <= self.listed.last).all()
        for w in range(self.oldest, self.oldest + self._ratio):
            inside = (self.start <= w) & (self.listed.last >= w)
            assert inside.sum() == min(self.cap, (self.listed.last >= w).sum())
