"""Turns ranked lists into rows to emit: the lists themselves, their changes, or each row once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.engines.groups import GroupedRows, grown_capacity
from skyband.engines.validation import check_bounds, float_column, require, typed_column, validate

if TYPE_CHECKING:
    from skyband.engines.protocol import Answers

CHANGE_TYPES = ("delete", "update_preimage", "update_postimage", "insert")

_MAX_QUERIES = 1 << 20  # a reported row and its query are one number: row * _MAX_QUERIES + query
_COLUMNS = {
    "reported": typed_column("i8", "reported"),
    "ids": typed_column("i8", "listed"),
    "scores": float_column("listed"),
    "rows": typed_column("i8", "listed"),
    "last": typed_column("i8", 2, "lists"),
    "shape": typed_column("i8", 2, low=0),
}


class EmittedRows(NamedTuple):
    """Rows to emit, as numbers: the list each belongs to, its rank, score and row."""

    list: np.ndarray  # its place in the answers
    rank: np.ndarray
    score: np.ndarray
    row: np.ndarray
    change: np.ndarray | None = None  # its place in CHANGE_TYPES

    def take(self, places: np.ndarray) -> EmittedRows:
        """Return the rows at these places."""
        return EmittedRows(*(None if column is None else column[places] for column in self))  # type: ignore[arg-type]


class _Lists(NamedTuple):
    """The last list of each query and group."""

    ids: np.ndarray
    scores: np.ndarray
    rows: np.ndarray
    first: np.ndarray


class SortedNumbers:
    """A set of numbers in sorted runs, each at most half as long as the one before. Cost: O(log) a number.

    Examples
    --------
    >>> reported = SortedNumbers()
    >>> reported.add(np.array([3, 5])).tolist(), reported.add(np.array([4, 5])).tolist()
    ([True, True], [True, False])
    """

    def __init__(self, numbers: np.ndarray | None = None) -> None:
        self._runs = [] if numbers is None or not len(numbers) else [np.sort(numbers)]

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, numbers: np.ndarray) -> np.ndarray:
        """Take ascending numbers; return which of them are new."""
        new = np.ones(len(numbers), np.bool_)
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, numbers), len(run) - 1)
            new &= run[place] != numbers
        if new.any():
            self._runs.append(numbers[new])
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]), kind="stable")
        return new

    def values(self) -> np.ndarray:
        """Return all numbers, ascending."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *self._runs]))


class Emitter:
    """Emits what a query's `emit` asks for, and remembers what that needs: the last list of each query and group.

    Parameters
    ----------
    emit, ranks
        As of the query.
    only_changed
        Emit a list only if it differs from the one before.

    Cost: O(rows of the answers), whatever the number of groups.
    """

    def __init__(self, emit: str, *, ranks: bool = False, only_changed: bool = False) -> None:
        self._emit, self._ranks, self._only_changed = emit, ranks, only_changed
        self._reported = SortedNumbers()  # "arrivals": rows that were emitted and are still live
        self._shape = (0, 0)  # queries and groups that there is room for
        self._groups = 0  # of these, groups that there are
        none = np.empty(0, np.int64)
        self._last = GroupedRows(_Lists(none, np.empty(0), none, np.zeros((2, 0), np.int64)))

    def emit(self, answers: Answers, groups: int, watermark: int) -> EmittedRows:
        """Return the rows to emit; lists that became empty count only up to the watermark."""
        if self._emit == "changes":
            return self._changes(answers, groups, watermark)
        if self._emit == "answers" and self._only_changed:
            changed = np.unique(self._changes(answers, groups, watermark).list)
            rows = _all_rows(answers)
            return rows.take(np.flatnonzero(np.isin(rows.list, changed)))
        rows = _all_rows(answers)
        return self._first_time(rows, answers.query) if self._emit == "arrivals" and answers.rank is None else rows

    def _first_time(self, rows: EmittedRows, query: np.ndarray | None) -> EmittedRows:
        """Return the rows that the query has not emitted before."""
        number = rows.row * _MAX_QUERIES + (0 if query is None else query[rows.list])
        number, first = np.unique(number, return_index=True)
        return rows.take(np.sort(first[self._reported.add(number)]))

    def _changes(self, answers: Answers, groups: int, watermark: int) -> EmittedRows:
        from skyband.kernels.diff import diff

        queries = 1 if answers.query is None else int(answers.query.max(initial=0)) + 1
        self._make_room(queries, groups)
        # lists that became empty after the watermark emit nothing: the end of the source deletes no row
        there = np.flatnonzero((np.diff(answers.first) > 0) | (answers.end <= watermark))
        code = answers.group[there].astype(np.int64)
        if answers.query is not None:
            code += answers.query[there] * self._shape[1]
        first = np.append(answers.first[:-1][there], answers.first[-1])
        begin = self._last.append(answers.id, answers.score, _rows(answers))
        ids, scores, rows = self._last.columns()
        which, kind, place, rank = diff(ids, scores, first + begin, code, self._last.first, self._ranks)
        return EmittedRows(there[which], rank, scores[place], rows[place], kind)

    def _make_room(self, queries: int, groups: int) -> None:
        self._groups = max(self._groups, groups)
        wide, long = self._shape
        if queries > wide or groups > long:
            self._reshape(np.arange(long), (max(queries, wide), max(grown_capacity(groups, long), long)))

    def _reshape(self, keep: np.ndarray, shape: tuple[int, int]) -> None:
        """Keep the lists of these groups, with room for so many queries and groups."""
        first = np.zeros((2, *shape), np.int64)
        first[:, : self._shape[0], : len(keep)] = self._last.first.reshape(2, *self._shape)[:, :, keep]
        self._last.set_bounds(first.reshape(2, -1))
        self._shape = shape

    # ------------------------------------------------------------ what is remembered

    def active_groups(self) -> np.ndarray:
        """Return the groups whose last list had rows, which may still have to be deleted."""
        last = self._last.first.reshape(2, *self._shape)
        return np.flatnonzero((last[1] > last[0]).any(axis=0))

    def keep_groups(self, keep: np.ndarray) -> None:
        """Forget all groups but these, which get the numbers from 0 on."""
        known = keep[keep < self._groups]
        self._reshape(known, (self._shape[0], len(known)))
        self._groups = len(known)

    def forget_query(self, number: int) -> None:
        """Forget the lists of a query that has left."""
        if number < self._shape[0]:
            self._last.first.reshape(2, *self._shape)[:, number] = 0

    def add_reported(self, number: int, ids: np.ndarray) -> None:
        """Note rows that were emitted as arrivals of a query."""
        self._reported.add(np.unique(ids * _MAX_QUERIES + number))

    def keep_reported(self, candidates: np.ndarray) -> None:
        """Forget reported rows that are not candidates any more."""
        if len(self._reported):
            numbers = self._reported.values()
            self._reported = SortedNumbers(numbers[np.isin(numbers // _MAX_QUERIES, candidates)])

    def live_rows(self) -> np.ndarray:
        """Return the rows of the last lists, which may still have to be deleted."""
        rows: np.ndarray = self._last.all_rows().rows
        return rows

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return what is remembered as named arrays."""
        self._reshape(np.arange(self._groups), (self._shape[0], self._groups))
        ids, scores, rows, last = self._last.all_rows()
        columns = {"reported": self._reported.values(), "ids": ids, "scores": scores, "rows": rows, "last": last}
        return {name: column.copy() for name, column in columns.items()} | {"shape": np.array(self._shape, np.int64)}

    def restore(self, snapshot: Mapping[str, np.ndarray], groups: int) -> None:
        """Go on from a snapshot; there are so many groups."""
        found = validate(snapshot, _COLUMNS)
        self._shape = shape = (int(found["shape"][0]), int(found["shape"][1]))
        require(shape[0] < _MAX_QUERIES, "shape has too many queries")
        require(shape[1] <= groups, "there are lists of groups that never came")
        require(shape[0] * shape[1] == found["last"].shape[1], "shape does not fit to its lists")
        check_bounds(found["last"], len(found["ids"]), "last", apart=False)
        self._reported = SortedNumbers(found["reported"])
        self._last = GroupedRows(_Lists(found["ids"], found["scores"], found["rows"], found["last"]))
        self._groups = shape[1]


def _all_rows(answers: Answers) -> EmittedRows:
    sizes = np.diff(answers.first)
    rank = answers.rank
    if rank is None:
        rank = np.arange(len(answers.id)) - np.repeat(answers.first[:-1], sizes) + 1
    return EmittedRows(np.repeat(np.arange(len(sizes)), sizes), rank, answers.score, _rows(answers))


def _rows(answers: Answers) -> np.ndarray:
    return answers.id if answers.row is None else answers.row


def change_names(change: np.ndarray) -> pa.Array:
    """Return the `_change_type` column of changes, given their places in CHANGE_TYPES."""
    return pa.DictionaryArray.from_arrays(pa.array(change.astype(np.int8)), pa.array(CHANGE_TYPES)).cast(pa.string())
