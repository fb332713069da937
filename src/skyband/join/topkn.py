"""Topk+N: the best of every open window and some behind them, with scores that may change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from skyband.engines.validation import WINDOWS, checked, held, real, require

EXACT, BOUND, GUESS = 0, 1, 2
STATUS = ("exact", "bound", "approximate")
"""What is known of an answer's row: its score and place; a lower bound of its score; neither for certain."""

_LOWEST = np.finfo(np.float64).min  # stands for the score of a forgotten object that is minus infinity

_HOLDS = {
    "score": real("rows"),
    **{name: held("i8", "rows", low=0) for name in ("slot", "key", "part")},
    "last": held("i8", "rows"),
    "kind": held("i1", "rows", low=EXACT, high=GUESS),
    "upper": real("rows"),
    "lost": real("windows"),
    "at": held("i8", 2),
}


class Listed(NamedTuple):
    """Objects by rank, as columns: the same columns for those that arrive and those that are kept."""

    score: np.ndarray  # float64
    slot: np.ndarray  # int64: the stream's row; rises along the stream, so the later of two equal scores ranks first
    key: np.ndarray  # int64: the remote key's number
    part: np.ndarray  # int64: which of the key's remote rows
    last: np.ndarray  # int64: the last window that holds it
    kind: np.ndarray  # int8: EXACT, BOUND or GUESS
    upper: np.ndarray  # float64: what its score may be at most; for exact ones the score
    values: np.ndarray  # float64, (objects, columns): what the score uses of the stream

    @classmethod
    def of(  # noqa: PLR0913 - one a column
        cls,
        score: np.ndarray,
        slot: np.ndarray,
        key: np.ndarray,
        last: np.ndarray,
        part: np.ndarray | None = None,
        kind: int = EXACT,
        upper: np.ndarray | None = None,
        values: np.ndarray | None = None,
    ) -> Listed:
        """Objects with what they have; the rest is usual."""
        score = np.asarray(score, np.float64)
        slot, key, last = (np.asarray(column, np.int64) for column in (slot, key, last))
        part = np.zeros(len(score), np.int64) if part is None else part
        most = score if upper is None else np.asarray(upper, np.float64)
        values = np.empty((len(score), 0)) if values is None else values
        return cls(score, slot, key, part, last, np.full(len(score), kind, np.int8), most, values)

    def take(self, places: np.ndarray) -> Listed:
        """Some of them."""
        return Listed(*(column[places] for column in self))


def _none(columns: int) -> Listed:
    empty = np.empty(0, np.int64)
    return Listed.of(np.empty(0), empty, empty, empty, values=np.empty((0, columns)))


class TopKN:
    """The Super-MTK+N list: what is among the `cap` best of some open window.

    All objects of a later window are in the earlier ones too, so an object's career is one run of windows, from its
    start mark to its end mark. What is pushed out is forgotten; the best score forgotten is remembered by window,
    so that an answer can tell which of its rows are certain. Whoever changes scores must `doubt` those of forgotten
    objects. When a change takes an object down or away, later objects of the list fill the gap: their start marks
    move back.

    Cost: O(list) for any number of arrivals or changes at once. Memory: (k + spare) * H(win / slide) objects in
    random order, whatever the number of rows in the window.

    Examples
    --------
    >>> best = TopKN(cap=2, oldest=0, ratio=2)
    >>> best.arrive(Listed.of(score=[5, 9, 7], slot=[0, 1, 2], key=[0, 1, 2], last=[0, 0, 1])).key
    array([0])
    >>> best.marks()
    [(1, 0, 0), (2, 0, 1)]
    >>> best.arrive(Listed.of(score=[1], slot=[1], key=[1], last=[0]), replaced=np.array([1])).key
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
        self.listed = _none(columns)
        self.start = np.empty(0, np.int64)
        self._bound = np.empty(0, np.int64)
        self.lost = np.full(ratio + 1, -np.inf)  # best score forgotten, by last window from the oldest on
        self.peak = 0

    def __len__(self) -> int:
        return len(self.start)

    def arrive(self, new: Listed, replaced: np.ndarray | None = None) -> Listed:
        """Take new objects, after those with a key in `replaced` have left the list; what is forgotten."""
        old = self.listed
        if replaced is not None and len(replaced):
            old = old.take(np.flatnonzero(~np.isin(old.key, replaced)))
        merged = Listed(*(np.concatenate(pair) for pair in zip(old, new, strict=True)))
        return self._settle(merged.take(np.lexsort((merged.part, -merged.slot, -merged.score))))

    def expire(self, oldest: int) -> None:
        """Close all windows before `oldest`."""
        gone = min(max(oldest - self.oldest, 0), len(self.lost))
        self.lost = np.concatenate([self.lost[gone:], np.full(gone, -np.inf)])
        self.oldest = oldest
        self._settle(self.listed.take(np.flatnonzero(self.listed.last >= oldest)))

    def doubt(self, upper: np.ndarray, last: np.ndarray) -> None:
        """Objects that are not kept may score up to `upper` in windows up to `last`."""
        upper, last = upper[last >= self.oldest], last[last >= self.oldest]
        self._reach(int(last.max(initial=self.oldest)) - self.oldest + 1)
        np.maximum.at(self.lost, last - self.oldest, np.maximum(upper, _LOWEST))

    def _reach(self, windows: int) -> None:
        """Have room for so many windows."""
        if windows > len(self.lost):
            self.lost = np.concatenate([self.lost, np.full(windows - len(self.lost), -np.inf)])

    def _settle(self, ranked: Listed) -> Listed:
        """Set the marks; forget what is in no window's list."""
        from skyband.kernels.topkn import OUT, sweep

        windows = int(max(ranked.last.max(initial=self.oldest) - self.oldest + 1, self._ratio))
        self._reach(windows)
        start = np.empty(len(ranked.last), np.int64)
        bound = np.empty(windows, np.int64)
        sweep(ranked.last, self.cap, self.oldest, np.zeros(windows, np.int64), start, bound)
        stay = start > OUT
        gone = ranked.take(np.flatnonzero(~stay))
        if len(gone.score):
            self.doubt(gone.upper, gone.last)
            bound = np.where(bound >= 0, np.cumsum(stay)[bound] - 1, -1)
            ranked, start = ranked.take(np.flatnonzero(stay)), start[stay]
        self.listed, self.start, self._bound = ranked, start, bound
        self.peak = max(self.peak, len(start))
        return gone

    def within(self, cap: int) -> np.ndarray:
        """Which objects are among the `cap` best of some open window."""
        from skyband.kernels.topkn import OUT, sweep

        if cap >= self.cap:
            return np.ones(len(self.start), np.bool_)
        start = np.empty(len(self.start), np.int64)
        windows = len(self._bound)
        sweep(self.listed.last, cap, self.oldest, np.zeros(windows, np.int64), start, np.empty(windows, np.int64))
        return start > OUT

    def answer(self, window: int, k: int) -> tuple[Listed, np.ndarray]:
        """The k best of a window, and what is known of each: EXACT, BOUND or GUESS.

        A row is EXACT if its score is, and no object can have a better place than it seems: none that was forgotten,
        none behind it whose score is not known, and no guess before it. The last row of a short answer is not EXACT if
        a forgotten object may belong behind it.
        """
        inside = self.listed.take(np.flatnonzero(self.listed.last >= window))
        best = inside.take(np.arange(min(k, len(inside.score))))
        if not len(best.score):
            return best, np.empty(0, np.int64)
        here, guessed = slice(len(best.score)), inside.kind > EXACT
        unsure = np.zeros(len(best.score), np.bool_)
        if guessed.any():
            # a lower bound stays before what it is before, unless both are equal; any other guess may be anywhere
            least = np.where(guessed, np.where(inside.kind == BOUND, inside.score, -np.inf), np.inf)
            before = np.append(False, np.logical_or.accumulate(guessed)[:-1])[here]
            unsure |= before & (best.score >= np.append(np.inf, np.minimum.accumulate(least)[:-1])[here])
            most = np.where(guessed, inside.upper, -np.inf)[::-1]
            behind = np.append(np.logical_or.accumulate(guessed[::-1])[::-1][1:], False)[here]
            unsure |= behind & (best.score <= np.append(np.maximum.accumulate(most)[::-1][1:], -np.inf)[here])
        if self.forgot(window):
            unsure |= best.score <= self.lost[window - self.oldest :].max()
            unsure[-1] |= len(best.score) < k
        return best, np.where(best.kind == EXACT, np.where(unsure, GUESS, EXACT), best.kind).astype(np.int64)

    def forgot(self, window: int) -> bool:
        """Whether an object of the window was forgotten that may have a score."""
        return bool((self.lost[window - self.oldest :] > -np.inf).any())

    def marks(self) -> list[tuple[int, int, int]]:
        """Of every object, best first: its key, and the first and last window of its career."""
        return list(zip(self.listed.key.tolist(), self.start.tolist(), self.listed.last.tolist(), strict=True))

    def bounds(self) -> dict[int, int]:
        """The key at the lower bound pointer of every window that is full."""
        full = np.flatnonzero(self._bound >= 0)
        return dict(zip((full + self.oldest).tolist(), self.listed.key[self._bound[full]].tolist(), strict=True))

    def saved(self) -> dict[str, np.ndarray]:
        """The list as named arrays; `values` are in the rows."""
        columns = dict(zip(Listed._fields[:-1], self.listed, strict=False))
        return {**columns, "lost": self.lost, "at": np.array([self.oldest, self.peak])}

    def load(self, saved: Mapping[str, np.ndarray]) -> None:
        """Go on from what was saved; `values` must be set again."""
        saved = checked(saved, _HOLDS)
        self.oldest, peak = (int(x) for x in saved["at"])
        self.lost = saved["lost"]
        require(len(self.lost) > 0, "lost has no window")
        ahead = saved["last"] - self.oldest
        require((ahead >= 0) & (ahead < WINDOWS), "a row is in no open window")
        values = np.full((len(saved["score"]), self.listed.values.shape[1]), np.nan)
        listed = Listed(**{name: saved[name] for name in Listed._fields[:-1]}, values=values)
        order = np.lexsort((listed.part, -listed.slot, -listed.score))
        require(order == np.arange(len(order)), "its rows do not come best first")
        self._settle(listed)
        self.peak = peak

    def _check(self) -> None:
        """What must always hold."""
        score, slot = self.listed.score, self.listed.slot
        order = np.lexsort((self.listed.part, -slot, -score))
        assert (order == np.arange(len(order))).all()
        assert (self.start <= self.listed.last).all()
        for w in range(self.oldest, self.oldest + self._ratio):
            inside = (self.start <= w) & (self.listed.last >= w)
            assert inside.sum() == min(self.cap, (self.listed.last >= w).sum())
