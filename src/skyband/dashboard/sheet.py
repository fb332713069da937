"""Answers as lists: a column is read once for all the boards that have rows in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.dashboard.cells import kind, plain, raw, spelled

if TYPE_CHECKING:
    from skyband.dashboard.feed import Columns

_MASK = (1 << 64) - 1


class Rows(NamedTuple):
    """Who is on the board of one window."""

    keys: list[str]
    ranks: list[int]
    scores: list[Any]
    labels: list[str]


class Sheet:
    """Some answers, perhaps of many boards, one after the other.

    Reading a column costs the same for ten rows as for two hundred: boards that are shown together are read together.

    Cost: O(rows), when the rows are first asked for.

    Examples
    --------
    >>> from skyband.dashboard.feed import Columns
    >>> columns = {"window_start": [0, 0], "window_end": [9, 9], "rank": [1, 2], "score": [7, 5], "who": ["a", "b"]}
    >>> sheet = Sheet(pa.table(columns), Columns.of(pa.table(columns).schema))
    >>> sheet.end(0), sheet.rows(1, 2)
    (9, Rows(keys=["('b',)"], ranks=[2], scores=[5], labels=['b']))
    """

    def __init__(self, table: pa.Table, columns: Columns, known: str | None = None) -> None:
        self.table, self._columns = table, columns
        self._id = known if known in columns.own else None  # the column that a row is known by
        self.rank, self.score = (table[name].to_numpy() for name in (columns.rank, columns.score))

    def end(self, place: int) -> Any:
        """When the window of a row ends."""
        ends, kind_of = self._ends
        return spelled(ends[place], kind_of)

    def windows(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Where the windows among some rows begin and end: a list begins where the ranks begin again."""
        cuts = self._cuts[bisect_right(self._cuts, start) : bisect_left(self._cuts, stop)]
        return list(zip([start, *cuts], [*cuts, stop], strict=True))

    def rows(self, start: int, stop: int) -> Rows:
        """The rows of one window."""
        every = self._lists
        keys = every.keys[start:stop]
        if len(set(keys)) < len(keys):  # rows alike in all: told apart by their order
            times: Counter[str] = Counter()
            for i, key in enumerate(keys):
                times[key] += 1
                keys[i] = key if times[key] == 1 else f"{key}~{times[key]}"
        return Rows(keys, every.ranks[start:stop], every.scores[start:stop], every.labels[start:stop])

    @cached_property
    def _ends(self) -> tuple[list[Any], pa.DataType]:
        column = self.table[self._columns.end]
        return raw(column), column.type

    @cached_property
    def _cuts(self) -> list[int]:
        return (np.flatnonzero(self.rank[1:] <= self.rank[:-1]) + 1).tolist()

    @cached_property
    def _lists(self) -> Rows:
        ranks, scores = self.rank.tolist(), plain(self.table[self._columns.score])
        return Rows(self._keys(scores), ranks, scores, self._labels(ranks))

    def _keys(self, scores: list[Any]) -> list[str]:
        """What makes a row the same row in the next window: its id, or all of its own columns."""
        if self._id is not None:
            named = [str(value) for value in raw(self.table[self._id])]
        elif self._columns.own:
            rows = list(zip(*(_known(self.table[name]) for name in self._columns.own), strict=True))
            if len(self._columns.own) > 1:
                return [f"{hash(row) & _MASK:x}" for row in rows]
            named = [repr(row) for row in rows]
        else:
            named = [repr(score) for score in scores]
        return [name if len(name) < 20 else f"{hash(name) & _MASK:x}" for name in named]

    def _labels(self, ranks: list[int]) -> list[str]:
        """What rows are called where there is room for one word: their first text, else their id, or first column."""
        words = (name for name in self._columns.own if kind(self.table.schema.field(name).type) == "text")
        named = next(words, None) or self._id or next(iter(self._columns.own), None)
        if named is None:
            return [f"#{rank}" for rank in ranks]
        return ["NULL" if value is None else str(value) for value in plain(self.table[named])]


def _known(column: pa.ChunkedArray) -> list[Any]:
    """The cells of `column`, so that equal cells have equal hashes: no lists, no NaN."""
    values = raw(column)
    broken = pa.types.is_floating(column.type) and any(value is not None and isnan(value) for value in values)
    if broken or pa.types.is_nested(column.type):
        return [repr(value) for value in values]
    return values
