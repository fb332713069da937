"""Rows that came after their pane had closed, as long as a window that holds them is open.

Engines take rows in the order of time. A row that comes later is kept here, and merged into the lists of the windows
that hold it: the k best of all rows are among the k best of the engine's and these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.engines.protocol import Answers, Objects
from skyband.engines.validation import float_column, typed_column, validate

if TYPE_CHECKING:
    from skyband.engines.family import FamilyMember

_COLUMNS = {
    "score": float_column("rows"),
    "time": typed_column("i8", "rows"),
    "id": typed_column("i8", "rows"),
    "group": typed_column("i4", "rows"),
}

Order = Callable[[np.ndarray], np.ndarray]
"""Numbers that order rows of equal score, given their ids: by time and tie, the larger first."""


class _Lists(NamedTuple):
    """Lists that late rows belong to: a line for each list, or for each row of one."""

    end: np.ndarray
    query: np.ndarray
    group: np.ndarray
    step: np.ndarray

    def take(self, places: np.ndarray) -> _Lists:
        return _Lists(*(column[places] for column in self))


class LateRows:
    """Late rows of a family of queries, and the lists they belong to.

    Cost: O(late rows in open windows) for each batch that brings or closes any; nothing while there are none.
    """

    def __init__(self) -> None:
        self.rows = Objects.empty()._replace(group=np.empty(0, np.int32))

    def __len__(self) -> int:
        return len(self.rows.id)

    def add(self, rows: Objects) -> None:
        """Take late rows."""
        group = np.zeros(len(rows.id), np.int32) if rows.group is None else rows.group
        columns = zip(self.rows, rows._replace(group=group), strict=True)
        self.rows = Objects(*(np.concatenate(pair) for pair in columns))  # type: ignore[arg-type]

    def expire(self, members: Sequence[FamilyMember], upto: int) -> None:
        """Forget rows of which every window has closed; the first window after them has yet to be empty."""
        keep = np.zeros(len(self), np.bool_)
        for member in members:
            assigner = member.clock
            keep |= np.asarray(assigner.end(assigner.last(self.rows.time) + 1)) > upto
        self.rows = self.rows.take(np.flatnonzero(keep))

    def merge(
        self, answers: Answers, members: Sequence[FamilyMember], closed: tuple[int, int], order: Order
    ) -> Answers:
        """Merge late rows into the lists of the windows that end in (closed[0], closed[1]]."""
        pairs = [self._pairs(member, *closed) for member in members]
        lists = _Lists(*(np.concatenate(column) for column in zip(*(found for found, _ in pairs), strict=True)))
        rows = np.concatenate([place for _, place in pairs])
        if not len(lists.end):
            return answers
        k = {member.number: member.k for member in members}
        places = _places(answers, lists)
        affected, code = _distinct(lists)
        known = np.full(len(affected.end), -1, np.int64)
        known[code] = places
        kept = np.setdiff1d(np.arange(len(answers.step)), known)
        late = rows >= 0
        merged = self._merged(answers, known, code[late], rows[late], order)
        limits = np.array([k[number] for number in affected.query.tolist()], np.int64)
        fresh = _ranked(affected, *merged, limits)
        if answers.query is None:
            fresh = fresh._replace(query=None)
        return Answers.concat([answers.take(kept), fresh]).in_order()

    def _pairs(self, member: FamilyMember, before: int, upto: int) -> tuple[_Lists, np.ndarray]:
        """Return the lists of a query that late rows belong to, and the row of each; -1: one that may be empty."""
        assigner, time = member.clock, self.rows.time
        first = np.maximum(assigner.first(time), assigner.first(before))
        last = np.minimum(assigner.last(time) + 1, assigner.first(upto) - 1)
        count = np.maximum(last - first + 1, 0)
        row = np.repeat(np.arange(len(time)), count)
        window = np.repeat(first, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        start = np.asarray(assigner.start(window))
        inside = (start >= member.low) & (start < member.high)
        row, window = row[inside], window[inside]
        empty = window > np.asarray(assigner.last(time))[row]  # the window after the last that holds the row
        number = np.full(len(row), member.number)
        lists = _Lists(np.asarray(assigner.end(window)), number, self.rows.group[row], window)  # type: ignore[index]
        return lists, np.where(empty, -1, row)

    def _merged(
        self, answers: Answers, known: np.ndarray, code: np.ndarray, rows: np.ndarray, order: Order
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the list, id and score of all rows of the affected lists, best first within each."""
        there = np.flatnonzero(known >= 0)
        sizes = np.diff(answers.first)[known[there]]
        begins = answers.first[:-1][known[there]]
        place = np.arange(sizes.sum()) + np.repeat(begins - np.cumsum(sizes) + sizes, sizes)
        which = np.concatenate([np.repeat(there, sizes), code])
        ids = np.concatenate([answers.id[place], self.rows.id[rows]])
        score = np.concatenate([answers.score[place], self.rows.score[rows]])
        best = np.lexsort((-order(ids), -score, which))
        return which[best], ids[best], score[best]

    # ------------------------------------------------------------ what is kept

    def keep_groups(self, keep: np.ndarray) -> None:
        """Give the groups their new numbers; all groups of late rows are kept."""
        assert self.rows.group is not None
        self.rows = self.rows._replace(group=np.searchsorted(keep, self.rows.group).astype(np.int32))

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the rows as named arrays."""
        return {f"late/{name}": column for name, column in self.rows._asdict().items()}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        self.rows = Objects(**validate(saved, _COLUMNS))


def _places(answers: Answers, lists: _Lists) -> np.ndarray:
    """Return where each of these lists is among the answers; -1 where it is not."""
    query = np.zeros(len(answers.end), np.int64) if answers.query is None else answers.query
    number = np.zeros(len(lists.end), np.int64) if answers.query is None else lists.query
    columns = zip((answers.end, query, answers.group), (lists.end, number, lists.group), strict=True)
    both = np.stack([np.concatenate(pair) for pair in columns])
    code = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
    place = np.full(int(code.max(initial=-1)) + 1, -1, np.int64)
    place[code[: len(answers.end)]] = np.arange(len(answers.end))
    return place[code[len(answers.end) :]]


def _distinct(lists: _Lists) -> tuple[_Lists, np.ndarray]:
    """Return each list once, and which of them each line is."""
    _, first, code = np.unique(np.stack(lists), axis=1, return_index=True, return_inverse=True)
    return lists.take(first), code.reshape(-1)


def _ranked(lists: _Lists, which: np.ndarray, ids: np.ndarray, score: np.ndarray, k: np.ndarray) -> Answers:
    """Return the k best rows of each list."""
    sizes = np.bincount(which, minlength=len(lists.end))
    rank = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    inside = rank < k[which]
    first = np.concatenate([[0], np.cumsum(np.minimum(sizes, k))]).astype(np.int64)
    group = lists.group.astype(np.int32)
    return Answers(lists.step, lists.end, group, first, ids[inside], score[inside], query=lists.query)
