"""The extractor of MTopS: takes the answer of one query out of a structure that holds those of all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from skyband.engines.protocol import Answers

if TYPE_CHECKING:
    from skyband.engines.family import FamilyMember


class Extractable(Protocol):
    """A structure that can tell the best rows of a view."""

    def best(self, number: int, k: int, ids: np.ndarray, scores: np.ndarray) -> int:
        """Put the k best of view `number` into the columns; how many there are."""


class Extractor:
    """Collects answers: at the end of a query's window, the first k rows of its view, best first.

    A view may serve several queries and hold more rows than this one wants; in MTopList it also shares its
    list with all other views. The paper names the task and gives no algorithm.

    Cost: O(k) an answer in MTopBand, O(rows on the list above the k-th) in MTopList.

    References
    ----------
    Shastri et al., CIKM 2011, section 3 (QRE) and lemma 6.3. Erratum: section 6.2 takes the answer to be the first
    k of the list, which is so only if the window that closes is the oldest; with windows of different sizes it need
    not be, so rows that came before it began are skipped.
    """

    def __init__(self, held: Extractable, most: int) -> None:
        self._held = held
        self._most = most
        self._ids, self._scores = np.empty(max(most, 1024), np.int64), np.empty(max(most, 1024))
        self.clear()

    def clear(self) -> None:
        """Begin a new collection."""
        self._lists: list[tuple[int, int, int]] = []
        self._first = [0]

    def extract(self, member: FamilyMember, number: int, start: int, end: int, *, told: bool) -> bool:
        """Answer `member` from view `number`; whether there are rows. An empty list is worth a word if `told`."""
        at = self._first[-1]
        if at + self._most > len(self._ids):
            grown = np.empty(2 * len(self._ids) + self._most, np.int64), np.empty(2 * len(self._ids) + self._most)
            grown[0][:at], grown[1][:at] = self._ids[:at], self._scores[:at]
            self._ids, self._scores = grown
        got = self._held.best(number, member.k, self._ids[at:], self._scores[at:])
        if got or told:
            self._note(member, start, end, got)
        return got > 0

    def say_nothing(self, member: FamilyMember, start: int, end: int) -> None:
        """The member's window has become empty."""
        self._note(member, start, end, 0)

    def _note(self, member: FamilyMember, start: int, end: int, rows: int) -> None:
        clock = member.clock
        self._lists.append(((start - clock.origin) // clock.slide, end, member.number))
        self._first.append(self._first[-1] + rows)

    def answers(self) -> Answers:
        """All that was collected."""
        step, end, query = np.array(self._lists, np.int64).reshape(-1, 3).T.copy()
        total = self._first[-1]
        group = np.zeros(len(step), np.int32)
        first = np.array(self._first, np.int64)
        return Answers(step, end, group, first, self._ids[:total].copy(), self._scores[:total].copy(), query=query)
