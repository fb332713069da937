"""One board: the answers of one query and group, window by window, each beside the one before."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.dashboard.cells import at, first, kind, plain, raw

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.dashboard.about import About
    from skyband.dashboard.feed import Columns, Feed
    from skyband.dashboard.parts import Group

SENT = 100
"""Rows of a board that are sent while it changes; the API gives all."""

BRIEF, TREND = 5, 48
"""Rows and points of a board that is shown small."""

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Window:
    """The answer of one window, unopened."""

    number: int  # rises from window to window, and stays the same while it is kept
    end: Any
    last: float | None  # score of the last rank: the k-th, once there are k rows
    table: pa.Table


class _Rows(NamedTuple):
    """Who is on the board of one window."""

    keys: list[str]
    ranks: list[int]
    scores: list[Any]
    labels: list[str]


class Board:
    """The windows of one query and group that are kept, newest last.

    Cost: O(rows) for what is new since the last look; the newest two windows are opened, the others when asked for.
    """

    def __init__(self, feed: Feed, group: Group, history: int) -> None:
        self.windows: deque[Window] = deque(maxlen=history)
        self.feed = feed
        self.group = group
        self._seen = 0
        self._columns: Columns | None = None
        self._label: str | None = ""  # the column that a row is called by; "" if not known yet
        self._trend: deque[str] = deque(maxlen=TREND)
        self._opened: dict[int, _Rows] = {}

    def refresh(self) -> Board:
        """Take in what has been answered since the last time."""
        columns = self.feed.columns
        if columns is None:
            return self
        if columns != self._columns:
            self.windows.clear()
            self._trend.clear()
            self._opened.clear()
            self._columns = columns
            self._label = ""
        for begin, table, places in self.feed.mine(self._seen, self.group):
            self._take(table, columns, begin, places)
        self._seen = self.feed.rows
        return self

    def _take(self, table: pa.Table, columns: Columns, begin: int, places: np.ndarray | None) -> None:
        rank, score = (table[name].to_numpy() for name in (columns.rank, columns.score))
        ends = table[columns.end]
        cuts = (np.flatnonzero(rank[1:] <= rank[:-1]) + 1).tolist()  # a list begins where the ranks begin again
        room = self.windows.maxlen or 1
        for start, stop in list(zip([0, *cuts], [*cuts, len(rank)], strict=True))[-room:]:
            part = table.slice(start, stop - start) if cuts else table
            end = at(ends, start)
            number = begin + (start if places is None else int(places[start]))
            if self.windows and self.windows[-1].end == end:
                self._opened.pop(self.windows.pop().number, None)  # said again: the later word counts
                self._trend.pop()
            last = float(score[stop - 1])
            known = math.isfinite(last)
            self.windows.append(Window(number, end, last if known else None, part))
            self._trend.append(f"{last:.7g}" if known else "null")

    def at(self, number: int) -> int | None:
        """The place of the window with this number, if it is still kept."""
        return next((i for i, window in enumerate(self.windows) if window.number == number), None)

    def shown(self, about: About, place: int = -1, *, rows: int | None = SENT) -> dict[str, Any]:
        """A window with all that can be said of it, for JSON; at most `rows` of its rows."""
        columns, window = self._columns, self.windows[place]
        assert columns is not None
        now, before, moves = self._moves(place, columns, about)
        schema, table = window.table.schema, window.table.slice(0, rows)
        cells = [plain(table[name]) for name in columns.own]
        return {
            **self._head(window, now, columns, about),
            "start": first(window.table[columns.start]),
            "columns": [
                {"name": n, "kind": "id" if n == about.id else kind(schema.field(n).type)} for n in columns.own
            ],
            "rows": [
                {"key": key, "rank": rank, "move": move, "score": score, "label": label, "cells": [c[i] for c in cells]}
                for i, (key, rank, move, score, label) in enumerate(
                    zip(*(part[:rows] for part in (now.keys, now.ranks, moves, now.scores, now.labels)), strict=True)
                )
            ],
            "left": self._left(place, before, now, columns, about)[:rows],
        }

    def brief(self, about: About) -> dict[str, Any]:
        """The newest window, for a card: the best rows and how they moved."""
        columns, window = self._columns, self.windows[-1]
        assert columns is not None
        now, _, moves = self._moves(-1, columns, about)
        rows = zip(now.keys[:BRIEF], now.ranks, moves, now.scores, now.labels, strict=False)
        return {
            **self._head(window, now, columns, about),
            "rows": [
                {"key": key, "rank": rank, "move": move, "score": score, "label": label}
                for key, rank, move, score, label in rows
            ],
        }

    def trend(self) -> str:
        """The last scores of the newest windows, as JSON."""
        return f"[{','.join(self._trend)}]"

    def past(self) -> list[tuple[int, Any, float | None]]:
        """Number, end and last score of every window that is kept."""
        return [(window.number, window.end, window.last) for window in self.windows]

    def _head(self, window: Window, now: _Rows, columns: Columns, about: About) -> dict[str, Any]:
        return {
            "query": about.name,
            "group": dict(list(zip(columns.per, self.group, strict=True))[self.feed.shared :]),
            "number": window.number,
            "end": window.end,
            "timed": isinstance(window.end, str),
            "size": len(now.keys),
        }

    def _moves(self, place: int, columns: Columns, about: About) -> tuple[_Rows, _Rows | None, list[int | None]]:
        """Who is on the board, who was before, and how many ranks each has won."""
        now = self._open(self.windows[place], columns, about)
        place %= len(self.windows)
        if not place:
            return now, None, [0] * len(now.keys)  # nothing is known of before: nobody is called new
        before = self._open(self.windows[place - 1], columns, about)
        ranks = dict(zip(before.keys, before.ranks, strict=True))
        moves = [ranks[key] - rank if key in ranks else None for key, rank in zip(now.keys, now.ranks, strict=True)]
        return now, before, moves

    def _open(self, window: Window, columns: Columns, about: About) -> _Rows:
        opened = self._opened.get(window.number)
        if opened is None:
            table = window.table
            scores = plain(table[columns.score])
            if self._label == "":
                self._label = _named(table.schema, columns, about)
            ranks = raw(table[columns.rank])
            opened = _Rows(_keys(table, scores, columns, about), ranks, scores, _labels(table, self._label, ranks))
            while len(self._opened) >= 4:
                del self._opened[next(iter(self._opened))]
            self._opened[window.number] = opened
        return opened

    def _left(
        self, place: int, before: _Rows | None, now: _Rows, columns: Columns, about: About
    ) -> list[dict[str, Any]]:
        if before is None:
            return []
        still = set(now.keys)
        gone = [i for i, key in enumerate(before.keys) if key not in still]
        times, start = [], 0
        if gone and about.time in columns.own:
            times = raw(self.windows[place - 1].table[about.time])
            start = raw(self.windows[place].table[columns.start].slice(0, 1))[0]
        return [
            {
                "key": before.keys[i],
                "rank": before.ranks[i],
                "label": before.labels[i],
                "why": "" if not times else "expired" if times[i] < start else "beaten",
            }
            for i in gone
        ]


def _keys(table: pa.Table, scores: list[Any], columns: Columns, about: About) -> list[str]:
    """What makes a row the same row in the next window: its id, or all of its own columns."""
    if about.id is not None and about.id in columns.own:
        named = [str(value) for value in raw(table[about.id])]
    elif columns.own:
        named = [repr(row) for row in zip(*(raw(table[name]) for name in columns.own), strict=True)]
    else:
        named = [repr(score) for score in scores]
    keys = [name if len(name) < 20 else f"{hash(name) & _MASK:x}" for name in named]
    if len(set(keys)) < len(keys):  # rows alike in all: told apart by their order
        times: Counter[str] = Counter()
        for i, key in enumerate(keys):
            times[key] += 1
            keys[i] = key if times[key] == 1 else f"{key}~{times[key]}"
    return keys


def _named(schema: pa.Schema, columns: Columns, about: About) -> str | None:
    """What a row is called by where there is room for one word: its first text, else its id, else its first column."""
    words = (name for name in columns.own if kind(schema.field(name).type) == "text")
    return next(words, None) or (about.id if about.id in columns.own else next(iter(columns.own), None))


def _labels(table: pa.Table, named: str | None, ranks: list[int]) -> list[str]:
    if named is None:
        return [f"#{rank}" for rank in ranks]
    return ["NULL" if value is None else str(value) for value in plain(table[named])]
