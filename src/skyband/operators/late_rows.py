"""Rows that came after their pane had closed, as long as a window that holds them is open.

Engines take rows in the order of time. A row that comes later is kept here, and merged into the lists of the windows
that hold it: the k best of all rows are among the k best of the engine's and these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.engines.protocol import Answers, Objects
from skyband.engines.validation import object_columns, typed_column, validate

if TYPE_CHECKING:
    from skyband.engines.family import FamilyMember
    from skyband.runtime.batch import RowOrder
    from skyband.runtime.protocols import Assigner

_MAX_ROWS = 1 << 12  # before those that cannot be in an answer are pruned
_MAX_PAIRS = 1 << 20  # of late rows and windows that are merged at a time


class _Lists(NamedTuple):
    """Lists that late rows belong to: an entry for each list, or for each row of one."""

    end: np.ndarray
    query: np.ndarray
    group: np.ndarray
    step: np.ndarray
    k: np.ndarray

    def take(self, places: np.ndarray) -> _Lists:
        return _Lists(*(column[places] for column in self))


class LateRows:
    """Late rows of a family of queries over sliding time windows.

    Cost: O(late rows in open windows) for each batch that brings or closes any; nothing while there are none. Memory:
    at most four times the k best late rows of every pane and group, and 4,096 rows.
    """

    def __init__(self, order: RowOrder) -> None:
        self.rows = Objects.empty()._replace(group=np.empty(0, np.int32))
        self.peak = 0
        self._order = order
        self._limit = _MAX_ROWS

    def __len__(self) -> int:
        return len(self.rows.id)

    @property
    def groups(self) -> np.ndarray:
        """The group of each row."""
        assert self.rows.group is not None
        return self.rows.group

    def add(self, rows: Objects, assigner: Assigner, k: int) -> None:
        """Take late rows; if there are many, keep the k best of each pane and group."""
        group = np.zeros(len(rows.id), np.int32) if rows.group is None else rows.group
        columns = zip(self.rows, rows._replace(group=group), strict=True)
        self.rows = Objects(*(np.concatenate(pair) for pair in columns))  # type: ignore[arg-type]
        if len(self) > self._limit:
            pane = np.asarray(assigner.pane(self.rows.time))
            best = np.lexsort((-self._order.ranks(self.rows.id), -self.rows.score, self.groups, pane))
            new = np.r_[True, (np.diff(pane[best]) != 0) | (np.diff(self.groups[best]) != 0)]
            starts = np.flatnonzero(new)
            rank = np.arange(len(best)) - np.repeat(starts, np.diff(np.r_[starts, len(best)]))
            self.rows = self.rows.take(np.sort(best[rank < k]))
            self._limit = max(_MAX_ROWS, 4 * len(self))
        self.peak = max(self.peak, len(self))

    def merge(self, answers: Answers, members: Sequence[FamilyMember], before: int, upto: int) -> Answers:
        """Merge late rows into the lists of the windows that end in (before, upto]; forget rows of no later window."""
        assert answers.rank is None, "engines return complete lists of windows with a slide"
        assigners = [member.clock for member in members]
        time = self.rows.time
        # the first window after the last that holds a row may be empty, which has to be reported
        last = np.max([np.full(len(time), before), *(a.last_end(time) + a.slide for a in assigners)], axis=0)
        low = max(before, min((int(a.end(a.first(time)).min()) for a in assigners), default=before) - 1)
        high = min(upto, int(last.max()))
        windows = sum(min((high - low) // a.slide, a.ratio) + 1 for a in assigners)
        stride = max((high - low) // (len(time) * windows // _MAX_PAIRS + 1), 0) + 1
        for begin in range(low, high, stride):
            answers = self._merge(answers, members, begin, min(begin + stride, high))
        self.rows = self.rows.take(np.flatnonzero(last > upto))
        return answers

    def _merge(self, answers: Answers, members: Sequence[FamilyMember], before: int, upto: int) -> Answers:
        pairs = [self._pairs(member, before, upto) for member in members]
        lists = _Lists(*(np.concatenate(column) for column in zip(*(found for found, _ in pairs), strict=True)))
        rows = np.concatenate([row for _, row in pairs])
        if not len(rows):
            return answers
        affected, code = _distinct(lists)
        known = np.full(len(affected.end), -1, np.int64)  # their places among the answers
        known[code] = _places(answers, lists)
        others = np.setdiff1d(np.arange(len(answers.step)), known)
        late = rows >= 0
        merged = _ranked(affected, *self._merged_rows(answers, known, code[late], rows[late]))
        if answers.query is None:
            merged = merged._replace(query=None)
        return Answers.concat([answers.take(others), merged]).in_order()

    def _pairs(self, member: FamilyMember, before: int, upto: int) -> tuple[_Lists, np.ndarray]:
        """Return the lists of a query that late rows belong to, and the row of each; -1: a list that may be empty."""
        assigner, time = member.clock, self.rows.time
        first = np.maximum(assigner.first(time), assigner.first(before))
        last = np.minimum(assigner.last(time) + 1, assigner.first(upto) - 1)
        count = np.maximum(last - first + 1, 0)
        row = np.repeat(np.arange(len(time)), count)
        window = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
        start = assigner.start(window)
        inside = (start >= member.low) & (start < member.high)
        row, window = row[inside], window[inside]
        empty = window > assigner.last(time)[row]
        number, k = np.full(len(row), member.number), np.full(len(row), member.k)
        return _Lists(assigner.end(window), number, self.groups[row], window, k), np.where(empty, -1, row)

    def _merged_rows(
        self, answers: Answers, known: np.ndarray, code: np.ndarray, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the list, id and score of all rows of the affected lists, best first within each."""
        there = np.flatnonzero(known >= 0)
        sizes = np.diff(answers.first)[known[there]]
        begins = answers.first[:-1][known[there]]
        place = np.arange(sizes.sum()) + np.repeat(begins - np.cumsum(sizes) + sizes, sizes)
        which = np.concatenate([np.repeat(there, sizes), code])
        ids = np.concatenate([answers.id[place], self.rows.id[rows]])
        score = np.concatenate([answers.score[place], self.rows.score[rows]])
        best = np.lexsort((-self._order.ranks(ids), -score, which))
        return which[best], ids[best], score[best]

    # ------------------------------------------------------------ what is kept

    def keep_groups(self, keep: np.ndarray) -> None:
        """Give the groups their new numbers; all groups of late rows are kept."""
        self.rows = self.rows._replace(group=np.searchsorted(keep, self.groups).astype(np.int32))

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return the rows as named arrays; nothing if there are none."""
        return {f"late/{name}": column for name, column in self.rows._asdict().items()} if len(self) else {}

    def restore(self, saved: Mapping[str, Any], groups: int) -> None:
        """Go on from a snapshot; there are so many groups."""
        if saved:
            columns = {**object_columns(), "group": typed_column("i4", "rows", low=0, high=groups - 1)}
            self.rows = Objects(**validate(saved, columns))
            self.peak = len(self)


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
    """Return each list once, and which of them each entry is."""
    _, first, code = np.unique(np.stack(lists), axis=1, return_index=True, return_inverse=True)
    return lists.take(first), code.reshape(-1)


def _ranked(lists: _Lists, which: np.ndarray, ids: np.ndarray, score: np.ndarray) -> Answers:
    """Return the k best rows of each list."""
    sizes = np.bincount(which, minlength=len(lists.end))
    rank = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    inside = rank < lists.k[which]
    first = np.concatenate([[0], np.cumsum(np.minimum(sizes, lists.k))]).astype(np.int64)
    group = lists.group.astype(np.int32)
    return Answers(lists.step, lists.end, group, first, ids[inside], score[inside], query=lists.query)
