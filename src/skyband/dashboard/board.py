"""A board: the lists of one query and group, window by window, each compared with the one before."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.dashboard.history import to_comparable, to_hashable, to_json, value_kind

if TYPE_CHECKING:
    from skyband.dashboard.history import AnswerColumns, AnswerHistory, Group
    from skyband.query import TopK

MAX_ROWS = 100
"""Rows of a board that are sent with each change; the API returns all."""

CARD_ROWS, CARD_POINTS = 5, 48
"""Rows and points of a board that is shown as a card among others."""

_READ_WINDOWS = 4  # windows that are kept as lists
_HASH_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class QueryInfo:
    """What the page shows of a query; all but the name may be unknown."""

    name: str
    k: int | None = None
    by: str = ""
    window: str = ""
    time: str | None = None
    id: str | None = None
    ascending: bool = False

    @classmethod
    def from_query(cls, name: str, query: TopK) -> QueryInfo:
        """Describe a query.

        Examples
        --------
        >>> import skyband as sb
        >>> info = QueryInfo.from_query("big", sb.TopK(k=3, by="price * volume", window=sb.Counting(100, 10)))
        >>> info.k, info.by, info.window
        (3, 'price * volume', 'last 100 rows, every 10')
        """
        by = query.by if isinstance(query.by, str) else getattr(query.by, "text", getattr(query.by, "__name__", ""))
        return cls(name, query.k, str(by), _describe_window(query), query.time, query.id, query.ascending)


def _describe_window(query: TopK) -> str:
    from skyband.query import AllTime, Counting
    from skyband.query.duration import format_duration

    window = query.window
    if isinstance(window, AllTime):
        return "all time"
    if isinstance(window, Counting):
        return f"last {window.size:,} rows" + (f", every {window.slide:,}" if window.slide > 1 else "")
    slide = window.slide if isinstance(window.slide, str) else format_duration(window.slide)
    return f"last {format_duration(window.size)}, every {slide}"


class Window(NamedTuple):
    """The list of one window."""

    number: int  # increases from window to window, and never changes
    end: Any
    last_score: float | None  # of the last rank: the k-th score once there are k rows
    rows: pa.Table


class ListRows(NamedTuple):
    """The rows of a list as Python values."""

    keys: list[str]
    ranks: list[int]
    scores: list[Any]
    labels: list[str]


class Board:
    """The recent windows of one query and group, newest last.

    Cost: O(new rows) per refresh; a window is converted to Python values when it is shown.
    """

    def __init__(self, history: AnswerHistory, group: Group, max_windows: int) -> None:
        self.windows: deque[Window] = deque(maxlen=max_windows)
        self.history = history
        self.group = group
        self._columns: AnswerColumns | None = None
        self._seen = 0
        self._read: dict[int, ListRows] = {}

    @property
    def columns(self) -> AnswerColumns:
        """The columns of its answers."""
        assert self._columns is not None
        return self._columns

    def refresh(self) -> None:
        """Add the windows of answers that are new since the last refresh."""
        columns = self.history.columns
        if columns is None:
            return
        if columns != self._columns:
            self.windows.clear()
            self._read.clear()
            self._columns = columns
        if columns.per:
            for first, index in self.history.indexed(self._seen):
                positions = index.positions(self.group)
                if len(positions):
                    self._add(_take(index.table, positions), first + positions)
        else:
            for first, table in self.history.since(self._seen):
                self._add(table, first + np.arange(table.num_rows))
        self._seen = self.history.rows
        while len(self.windows) > 1 and self.windows[0].number < self.history.first:  # its memory is limited
            self.windows.popleft()

    def _add(self, rows: pa.Table, numbers: np.ndarray) -> None:
        """Add windows; a list starts where the ranks start again."""
        rank = rows[self.columns.rank].to_numpy()
        score = rows[self.columns.score].to_numpy()
        cuts = (np.flatnonzero(rank[1:] <= rank[:-1]) + 1).tolist()
        bounds = list(zip([0, *cuts], [*cuts, len(rank)], strict=True))[-(self.windows.maxlen or 1) :]
        for start, stop in bounds:
            window = rows.slice(start, stop - start)
            end = to_json(window[self.columns.end].slice(0, 1))[0]
            if self.windows and self.windows[-1].end == end:  # the later list of a window replaces the earlier
                self._read.pop(self.windows.pop().number, None)
            last = float(score[stop - 1])
            self.windows.append(Window(int(numbers[start]), end, last if math.isfinite(last) else None, window))

    def find(self, number: int) -> int | None:
        """Return the position of the window with this number, if it is still kept."""
        return next((i for i, window in enumerate(self.windows) if window.number == number), None)

    def detail(self, info: QueryInfo, position: int = -1, *, rows: int | None = MAX_ROWS) -> dict[str, Any]:
        """Return a window in full, for JSON; at most `rows` of its rows."""
        window, own = self.windows[position], self.columns.own
        now, before, moves = self._compare(position, info)
        table = window.rows.slice(0, rows)
        cells = list(zip(*(to_json(table[name]) for name in own), strict=True)) if own else [()] * len(now.keys)
        kinds = {name: "id" if name == info.id else value_kind(table.schema.field(name).type) for name in own}
        return {
            **self._summary(window, info),
            "start": to_json(table[self.columns.start].slice(0, 1))[0],
            "columns": [{"name": name, "kind": kind} for name, kind in kinds.items()],
            "rows": [
                {**row, "cells": list(values)} for row, values in zip(_to_dicts(now, moves, rows), cells, strict=True)
            ],
            "left": [] if before is None else self._left(position, before, now, info)[:rows],
        }

    def card(self, info: QueryInfo) -> dict[str, Any]:
        """Return the newest window for a card: the best rows, their moves and the recent last scores."""
        now, _, moves = self._compare(-1, info)
        trend = [window.last_score for window in self.windows][-CARD_POINTS:]
        return {**self._summary(self.windows[-1], info), "rows": _to_dicts(now, moves, CARD_ROWS), "trend": trend}

    def past(self) -> list[tuple[int, Any, float | None]]:
        """Return number, end and last score of every window that is kept."""
        return [window[:3] for window in self.windows]

    def _summary(self, window: Window, info: QueryInfo) -> dict[str, Any]:
        return {
            "query": info.name,
            "group": dict(list(zip(self.columns.per, self.group, strict=True))[self.history.shared :]),
            "number": window.number,
            "end": window.end,
            "timed": isinstance(window.end, str),
            "size": window.rows.num_rows,
        }

    def _compare(self, position: int, info: QueryInfo) -> tuple[ListRows, ListRows | None, list[int | None]]:
        """Return a list, the one before, and the ranks that each row has gained; None for a new row."""
        now = self._list(self.windows[position], info)
        position %= len(self.windows)
        if not position:
            return now, None, [0] * len(now.keys)  # without a list before, no row counts as new
        before = self._list(self.windows[position - 1], info)
        ranks = dict(zip(before.keys, before.ranks, strict=True))
        moves = [ranks[key] - rank if key in ranks else None for key, rank in zip(now.keys, now.ranks, strict=True)]
        return now, before, moves

    def _list(self, window: Window, info: QueryInfo) -> ListRows:
        found = self._read.get(window.number)
        if found is None:
            while len(self._read) >= _READ_WINDOWS:
                del self._read[next(iter(self._read))]
            found = self._read[window.number] = read_list(window.rows, self.columns, info.id)
        return found

    def _left(self, position: int, before: ListRows, now: ListRows, info: QueryInfo) -> list[dict[str, Any]]:
        """Return the rows of the list before that are not in this one."""
        present = set(now.keys)
        gone = [i for i, key in enumerate(before.keys) if key not in present]
        times, start = [], 0
        if gone and info.time in self.columns.own:
            times = to_comparable(self.windows[position - 1].rows[info.time])
            start = to_comparable(self.windows[position].rows[self.columns.start].slice(0, 1))[0]
        return [
            {
                "key": before.keys[i],
                "rank": before.ranks[i],
                "label": before.labels[i],
                "why": "" if not times else "expired" if times[i] < start else "beaten",
            }
            for i in gone
        ]


def _take(table: pa.Table, positions: np.ndarray) -> pa.Table:
    start, rows = int(positions[0]), len(positions)
    if int(positions[-1]) - start + 1 == rows:
        return table.slice(start, rows)  # much cheaper, and usual
    return table.take(pa.array(positions))


def _to_dicts(rows: ListRows, moves: list[int | None], limit: int | None) -> list[dict[str, Any]]:
    names = ("key", "rank", "move", "score", "label")
    columns = (rows.keys, rows.ranks, moves, rows.scores, rows.labels)
    return [dict(zip(names, row, strict=True)) for row in zip(*(column[:limit] for column in columns), strict=True)]


def read_list(rows: pa.Table, columns: AnswerColumns, id_column: str | None) -> ListRows:
    """Convert the list of one window.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from skyband.dashboard.history import AnswerColumns
    >>> rows = pa.table({"window_start": [0], "window_end": [9], "rank": [1], "score": [7], "who": ["a"]})
    >>> read_list(rows, AnswerColumns.from_schema(rows.schema), None)
    ListRows(keys=["('a',)"], ranks=[1], scores=[7], labels=['a'])
    """
    ranks, scores = rows[columns.rank].to_numpy().tolist(), to_json(rows[columns.score])
    id_column = id_column if id_column in columns.own else None
    texts = (name for name in columns.own if value_kind(rows.schema.field(name).type) == "text")
    label = next(texts, None) or id_column or next(iter(columns.own), None)
    labels = [f"#{rank}" for rank in ranks]
    if label is not None:
        labels = ["NULL" if value is None else str(value) for value in to_json(rows[label])]
    return ListRows(_row_keys(rows, columns, id_column, scores), ranks, scores, labels)


def _row_keys(rows: pa.Table, columns: AnswerColumns, id_column: str | None, scores: list[Any]) -> list[str]:
    """Return what identifies a row from window to window: its id, or all of its own columns."""
    if id_column is not None:
        names = [str(value) for value in to_comparable(rows[id_column])]
    elif columns.own:
        names = [repr(row) for row in zip(*(to_hashable(rows[name]) for name in columns.own), strict=True)]
    else:
        names = [repr(score) for score in scores]
    keys = [name if len(name) < 20 else f"{hash(name) & _HASH_MASK:x}" for name in names]
    if len(set(keys)) < len(keys):  # equal rows are distinguished by their order
        count: Counter[str] = Counter()
        for i, key in enumerate(keys):
            count[key] += 1
            keys[i] = key if count[key] == 1 else f"{key}~{count[key]}"
    return keys
