"""One board: the answers of one query and group, window by window, each beside the one before."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.dashboard.cells import first, kind, plain, raw
from skyband.dashboard.sheet import Rows, Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skyband.dashboard.about import About
    from skyband.dashboard.feed import Columns, Feed
    from skyband.dashboard.parts import Group

SENT = 100
"""Rows of a board that are sent while it changes; the API gives all."""

BRIEF, TREND = 5, 48
"""Rows and points of a board that is shown small."""


class Part(NamedTuple):
    """Rows of one board that are new."""

    first: int  # number of the table's first row
    table: pa.Table
    places: np.ndarray | None  # of the board's rows in it; None: all


class Window(NamedTuple):
    """The answer of one window, unopened."""

    number: int  # rises from window to window, and stays the same while it is kept
    end: Any
    last: float | None  # score of the last rank: the k-th, once there are k rows
    among: pa.Table  # that its rows are in
    start: int
    stop: int

    @property
    def table(self) -> pa.Table:
        """Its rows."""
        return self.among.slice(self.start, self.stop - self.start)


class Board:
    """The windows of one query and group that are kept, newest last.

    Cost: O(rows) for what is new since the last look; the newest two windows are opened, the others when asked for.
    """

    def __init__(self, feed: Feed, group: Group, history: int) -> None:
        self.windows: deque[Window] = deque(maxlen=history)
        self.feed = feed
        self.group = group
        self._seen = 0
        self.columns: Columns | None = None
        self._trend: deque[str] = deque(maxlen=TREND)
        self._opened: dict[int, Rows] = {}

    def pending(self) -> list[Part]:
        """What has been answered since the last look, oldest first; it counts as seen."""
        columns = self.feed.columns
        if columns is None:
            return []
        if columns != self.columns:
            self.windows.clear()
            self._trend.clear()
            self._opened.clear()
            self.columns = columns
        if columns.per:
            grouped = ((first, parts, parts.of(self.group)) for first, parts in self.feed.parts(self._seen))
            found = [Part(first, parts.table, places) for first, parts, places in grouped if len(places)]
        else:
            found = [Part(first, table, None) for first, table in self.feed.since(self._seen)]
        self._seen = self.feed.rows
        return found

    def take(self, part: Part, sheet: Sheet, at: int, stop: int, *, newest: bool = False) -> None:
        """Add the windows of `part`, whose rows are those of `sheet` from `at` to `stop`."""
        bounds = sheet.windows(at, stop)[-(self.windows.maxlen or 1) :]
        for left, (begin, end) in zip(range(len(bounds), 0, -1), bounds, strict=True):
            when = sheet.end(begin)
            number = part.first + (begin - at if part.places is None else int(part.places[begin - at]))
            if self.windows and self.windows[-1].end == when:
                self._opened.pop(self.windows.pop().number, None)  # said again: the later word counts
                self._trend.pop()
            last = float(sheet.score[end - 1])
            known = math.isfinite(last)
            self.windows.append(Window(number, when, last if known else None, sheet.table, begin, end))
            self._trend.append(f"{last:.7g}" if known else "null")
            if newest and left <= 2:  # it will be shown, beside the one before
                self._keep(number, sheet.rows(begin, end))

    def at(self, number: int) -> int | None:
        """The place of the window with this number, if it is still kept."""
        return next((i for i, window in enumerate(self.windows) if window.number == number), None)

    def shown(self, about: About, place: int = -1, *, rows: int | None = SENT) -> dict[str, Any]:
        """A window with all that can be said of it, for JSON; at most `rows` of its rows."""
        columns, window = self.columns, self.windows[place]
        assert columns is not None
        now, before, moves = self._moves(place, about)
        table = window.table.slice(0, rows)
        cells = [plain(table[name]) for name in columns.own]
        return {
            **self._head(window, now, columns, about),
            "start": first(table[columns.start]),
            "columns": [
                {"name": n, "kind": "id" if n == about.id else kind(table.schema.field(n).type)} for n in columns.own
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
        columns, window = self.columns, self.windows[-1]
        assert columns is not None
        now, _, moves = self._moves(-1, about)
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

    def _head(self, window: Window, now: Rows, columns: Columns, about: About) -> dict[str, Any]:
        return {
            "query": about.name,
            "group": dict(list(zip(columns.per, self.group, strict=True))[self.feed.shared :]),
            "number": window.number,
            "end": window.end,
            "timed": isinstance(window.end, str),
            "size": len(now.keys),
        }

    def _moves(self, place: int, about: About) -> tuple[Rows, Rows | None, list[int | None]]:
        """Who is on the board, who was before, and how many ranks each has won."""
        now = self._open(self.windows[place], about)
        place %= len(self.windows)
        if not place:
            return now, None, [0] * len(now.keys)  # nothing is known of before: nobody is called new
        before = self._open(self.windows[place - 1], about)
        ranks = dict(zip(before.keys, before.ranks, strict=True))
        moves = [ranks[key] - rank if key in ranks else None for key, rank in zip(now.keys, now.ranks, strict=True)]
        return now, before, moves

    def _open(self, window: Window, about: About) -> Rows:
        opened = self._opened.get(window.number)
        if opened is None:
            assert self.columns is not None
            opened = Sheet(window.table, self.columns, about.id).rows(0, window.stop - window.start)
            self._keep(window.number, opened)
        return opened

    def _keep(self, number: int, rows: Rows) -> None:
        while len(self._opened) >= 4:
            del self._opened[next(iter(self._opened))]
        self._opened[number] = rows

    def _left(self, place: int, before: Rows | None, now: Rows, columns: Columns, about: About) -> list[dict[str, Any]]:
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


def refresh(boards: Iterable[tuple[Board, About]]) -> None:
    """Take in what has been answered since the last look; what is newest on all of the boards is opened together."""
    together: dict[tuple[Columns, str | None], list[tuple[Board, Part]]] = {}
    for board, about in boards:
        found = board.pending()
        if not found:
            continue
        assert board.columns is not None
        for part in found[:-1]:
            _open([(board, part)], board.columns, about.id)
        together.setdefault((board.columns, about.id), []).append((board, found[-1]))
    for (columns, known), parts in together.items():
        try:
            _open(parts, columns, known, newest=True)
        except pa.ArrowInvalid:  # columns of the same names, but not of the same kinds
            for each in parts:
                _open([each], columns, known, newest=True)


def _open(parts: list[tuple[Board, Part]], columns: Columns, known: str | None, *, newest: bool = False) -> None:
    tables: dict[int, tuple[pa.Table, list[tuple[Board, Part]]]] = {}
    for board, part in parts:
        tables.setdefault(id(part.table), (part.table, []))[1].append((board, part))
    rows, order = [], []
    for table, shared in tables.values():
        places = [part.places for _, part in shared if part.places is not None]
        rows.append(table.take(np.concatenate(places)) if places else table)
        order += shared
    sheet = Sheet(rows[0] if len(rows) == 1 else pa.concat_tables(rows), columns, known)
    at = 0
    for board, part in order:
        stop = at + (part.table.num_rows if part.places is None else len(part.places))
        board.take(part, sheet, at, stop, newest=newest)
        at = stop
