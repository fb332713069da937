"""The query: the k best rows of each window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from skyband.errors import QueryError
from skyband.query.expression import Expression, parse
from skyband.query.join import Join
from skyband.query.limits import MAX_JOIN_WINDOWS, MAX_K
from skyband.query.points import Distance, Weighted
from skyband.query.total import is_total, parse_total
from skyband.query.validation import check_integer
from skyband.query.window import AllTime, Counting, Sliding, Window, windows_per_row

Score = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""A score in Python: a function from NumPy columns to one float64 column."""

EMITS = ("answers", "changes", "arrivals")
RESERVED = ("query", "window_start", "window_end", "rank", "score", "final", "_change_type", "step")
"""Names of our own columns; a source that has one of them needs `prefix=`."""

_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True)
class TopK:
    """The `k` best rows of each window, best first.

    Parameters
    ----------
    k
        How many rows an answer has at most: 1 to 1,000,000.
    by
        What makes a row good: an SQL expression over the source's columns ("price * volume"), `sb.distance`,
        `sb.weighted`, or a function from NumPy columns to a float64 column. Larger is better, except for a
        distance; NULL and NaN are never ranked.
    window
        `Sliding`, `Tumbling` or `Counting`. Totals (see `of`) need none: without a window they are those of all time.
    time
        The column with the event time (not needed for `Counting`).
    per
        Columns that make groups, each with its own answers. Default: one group.
    id
        Column that breaks ties between equal scores and times: the larger first. Integers order as they
        are, other types by their xxhash64. Default: the arrival number.
    name
        Names the query in a workload.
    ascending
        Smaller scores are better. Default: only if `by` is a distance.
    emit
        "answers": the ranked list of each closed window. "changes": what entered and left since the
        group's previous list. "arrivals": each row once, when it first enters a list.
    ranks
        With "changes", also say which rows kept their place in the list but moved in it.
    unit
        What an integer `time` column counts: "s", "ms", "us" or "ns" since the epoch.
    prefix
        Put before the names of our own columns, for sources that have a column named like one of them.
    version
        Names the version of a Python score, since its code cannot be compared.
    join
        Remote data that the score needs: see `Join`.
    of
        Column (or columns) whose values are ranked instead of rows, `by` a total of their rows in the window:
        count(*), count(x), sum(x), max(x), min(x) or mean(x). A leaderboard; ties go to the larger key, ordered
        like an `id`.

    Examples
    --------
    >>> import skyband as sb
    >>> trades = {"ts": [0, 20, 40, 70], "symbol": ["A", "B", "A", "B"], "price": [5.0, 9.0, 7.0, 6.0]}
    >>> best = sb.TopK(k=1, by="price", window=sb.Tumbling("1 minute"), time="ts", unit="s")
    >>> sb.run(best, trades).select(["window_start", "score", "symbol"]).to_pylist()
    [{'window_start': 0, 'score': 9.0, 'symbol': 'B'}, {'window_start': 60, 'score': 6.0, 'symbol': 'B'}]

    >>> sb.TopK(k=0, by="price", window=sb.Counting(10))
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: k must be an integer from 1 to 1,000,000, got 0

    >>> most = sb.TopK(k=1, of="symbol", by="sum(price)", window=sb.Tumbling("1 minute"), time="ts", unit="s")
    >>> sb.run(most, trades).select(["window_start", "score", "symbol"]).to_pylist()
    [{'window_start': 0, 'score': 12.0, 'symbol': 'A'}, {'window_start': 60, 'score': 6.0, 'symbol': 'B'}]
    """

    k: int
    by: Expression | Distance | Weighted | Score
    window: Window
    time: str | None = None
    per: tuple[str, ...] = ()
    id: str | None = None
    name: str | None = None
    ascending: bool = False
    emit: str = "answers"
    ranks: bool = False
    unit: str | None = None
    prefix: str = ""
    version: str | None = None
    join: Join | None = None
    of: tuple[str, ...] = ()

    def __init__(  # noqa: PLR0913 - the one wide door
        self,
        k: int,
        by: str | Expression | Distance | Weighted | Score,
        window: Window | None = None,
        time: str | None = None,
        per: str | Iterable[str] = (),
        id: str | None = None,
        name: str | None = None,
        *,
        ascending: bool | None = None,
        emit: str = "answers",
        ranks: bool = False,
        unit: str | None = None,
        prefix: str = "",
        version: str | None = None,
        join: Join | None = None,
        of: str | Iterable[str] = (),
    ) -> None:
        of = _names("of", of)
        if isinstance(by, str) and not of and is_total(by):
            _refuse("by", by, 'is a total, which ranks keys and not rows: name their column, such as of="product"')
        by = (parse_total(by) if of else parse(by)) if isinstance(by, str) else by
        window = AllTime() if window is None and of else window
        ascending = bool(getattr(by, "ascending", False)) if ascending is None else ascending
        per = _names("per", per)
        given = locals()
        for field in fields(self):
            object.__setattr__(self, field.name, given[field.name])
        self._check()

    def _check(self) -> None:
        check_integer("k", self.k, 1, MAX_K)
        if not isinstance(self.by, (Expression, Distance, Weighted)) and not callable(self.by):
            _refuse(
                "by",
                self.by,
                'cannot score a row: write an expression such as "price * volume", or a function of columns',
            )
        kinds = (Sliding, Counting, AllTime) if self.of else (Sliding, Counting)
        if not isinstance(self.window, kinds):
            _refuse(
                "window",
                self.window,
                'is no window: write sb.Sliding("10 minutes", "1 minute") or sb.Counting(1000, 100)',
            )
        if self.time is None and not self.window.counts:
            _refuse(
                "time",
                None,
                'leaves the window without a clock: name the column of the event time, such as time="ts"',
            )
        if self.emit not in EMITS:
            _refuse("emit", self.emit, f"is unknown: write one of {', '.join(map(repr, EMITS))}")
        if self.unit is not None and self.unit not in _UNITS:
            _refuse("unit", self.unit, f"is unknown: write one of {', '.join(map(repr, _UNITS))}")
        if self.ranks and self.emit != "changes":
            _refuse("ranks", self.ranks, f'says nothing with emit={self.emit!r}: write emit="changes"')
        self._check_plain()
        if len(set(self.per)) < len(self.per) or not all(isinstance(c, str) and c for c in self.per):
            _refuse("per", list(self.per), "is no list of distinct column names: name each column once")
        if self.time is not None and self.time in self.per:
            _refuse("per", list(self.per), f"holds the time column {self.time!r}: group by other columns")
        if self.join is not None:
            self._check_join()
        if self.of:
            self._check_totals()

    def _check_plain(self) -> None:
        """Names are texts, and flags are flags."""
        for field in ("ascending", "ranks"):
            if not isinstance(getattr(self, field), bool | np.bool_):
                _refuse(field, getattr(self, field), "is neither yes nor no: write True or False")
        if not isinstance(self.prefix, str):
            _refuse("prefix", self.prefix, 'is no text to put before our names: write one such as "sky_"')
        for field in ("time", "id", "name", "version"):
            value = getattr(self, field)
            if value is not None and (not isinstance(value, str) or not value):
                _refuse(field, value, "is no name: write a text that is not empty")

    def _check_join(self) -> None:
        join = self.join
        if not isinstance(join, Join):
            _refuse("join", join, 'is no join: write sb.Join(table, on="user", columns=["followers"])')
            return
        if self.of:
            _refuse(
                "of",
                list(self.of),
                'cannot go with join=: name the key in the join, as on=, and the total, as n="sum(quantity)"',
            )
        if "every row" in self.window.kinds:
            _refuse("window", self.window, "would look up remote values after every row: write a slide")
        windows = windows_per_row(self.window)
        if windows > MAX_JOIN_WINDOWS:
            msg = (
                f"a join must have at most {MAX_JOIN_WINDOWS:,} windows that hold one row, got {windows:,} with "
                f"window={self.window!r}: write a longer slide"
            )
            raise QueryError(msg)
        if self.per and self.window.counts:
            _refuse("per", list(self.per), "makes groups that count rows, which no budget can share: write sb.Sliding")
        if join.changes is not None and self.window.counts:
            _refuse("window", self.window, "has no moments, which pushed changes= need: write sb.Sliding")
        if self.emit != "answers":
            _refuse("emit", self.emit, 'cannot go with join=, whose scores change in place: write emit="answers"')
        if isinstance(self.by, Expression):
            used = set(self.by.columns)
            if not used & {*join.columns, *join.aggregate_names}:
                _refuse("by", self.by.text, f"uses no column of the join: name one of {', '.join(join.columns)}")

    def check(self) -> None:
        """Raise unless all fields go together, as at the start."""
        self._check()

    def joining(self, join: Join | None) -> TopK:
        """The same query with another join, or with none."""
        other = object.__new__(TopK)
        for field in fields(self):
            object.__setattr__(other, field.name, join if field.name == "join" else getattr(self, field.name))
        return other

    def _check_totals(self) -> None:
        names = [*self.of, *self.per]
        if len(set(names)) < len(names) or not all(isinstance(c, str) and c for c in self.of):
            _refuse("of", list(self.of), "is no list of distinct column names: name each column once, here or in per")
        if not isinstance(self.by, Expression) or self.by.tree[0] != "total":
            _refuse("by", self.by, "is no total, and of= ranks keys by one: write one such as sum(quantity)")
        if isinstance(self.window, AllTime):
            if self.time is not None:
                _refuse("time", self.time, "says nothing without a window: leave it out, or write a window")
        elif self.window.counts or self.window.kind == "row":
            _refuse(
                "window", self.window, 'has no totals: write sb.Sliding("1 day", "1 hour") or sb.Tumbling("1 hour")'
            )
        if self.id is not None:
            _refuse("id", self.id, "breaks ties between rows, but of= ranks keys, which break their own: leave it out")

    def column(self, name: str) -> str:
        """What one of our own columns is called in the answers."""
        return self.prefix + name


def _names(field: str, value: Any) -> tuple[Any, ...]:
    """Columns, as one name or several."""
    if value is None or isinstance(value, str):
        return () if value is None else (value,)
    if not isinstance(value, Iterable):
        _refuse(field, value, "is no column: write the name of one, or a list of names")
    return tuple(value)


def _refuse(field: str, value: Any, why: str) -> None:
    msg = f"{field}={value!r} {why}"
    raise QueryError(msg)
