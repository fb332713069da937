"""The query: the k best rows of each window."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from skyband.query.aggregate import is_aggregate, parse_total
from skyband.query.expression import Expression, parse
from skyband.query.join import Join
from skyband.query.limits import MAX_JOIN_WINDOWS, MAX_K
from skyband.query.points import Distance, Weighted
from skyband.query.validation import check_choice, check_flag, check_integer, check_names, check_text, invalid
from skyband.query.window import AllTime, Counting, Sliding, Window, windows_per_row

Score: TypeAlias = Callable[[Mapping[str, np.ndarray]], np.ndarray]
"""A score in Python: a function from NumPy columns to one float64 column."""

Emit = Literal["answers", "changes", "arrivals"]
Unit = Literal["s", "ms", "us", "ns"]
EMITS = get_args(Emit)
RESERVED = ("query", "window_start", "window_end", "rank", "score", "final", "_change_type", "step")
"""Names of our own columns; a source that has one of them needs `prefix=`."""

_TIME_WINDOWS = 'sb.Sliding("1 day", "1 hour") or sb.Tumbling("1 hour")'


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
    emit: Emit = "answers"
    ranks: bool = False
    unit: Unit | None = None
    prefix: str = ""
    version: str | None = None
    join: Join | None = None
    of: tuple[str, ...] = ()

    def __init__(  # noqa: PLR0913 - all that can be asked
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
        emit: Emit = "answers",
        ranks: bool = False,
        unit: Unit | None = None,
        prefix: str = "",
        version: str | None = None,
        join: Join | None = None,
        of: str | Iterable[str] = (),
    ) -> None:
        of = check_names("of", of)
        if isinstance(by, str):
            if not of and is_aggregate(by):
                raise invalid("by", "be a score of rows unless of= names the keys to rank", by, 'of="product"')
            by = parse_total(by) if of else parse(by)
        values = {
            "k": check_integer("k", k, 1, MAX_K),
            "by": by,
            "window": AllTime() if window is None and of else window,
            "per": check_names("per", per),
            "ascending": check_flag("ascending", getattr(by, "ascending", False) if ascending is None else ascending),
            "emit": check_choice("emit", emit, EMITS),
            "ranks": check_flag("ranks", ranks),
            "unit": None if unit is None else check_choice("unit", unit, get_args(Unit)),
            "prefix": check_text("prefix", prefix, empty=True),
            "join": join,
            "of": of,
        }
        for field, text in (("time", time), ("id", id), ("name", name), ("version", version)):
            values[field] = None if text is None else check_text(field, text)
        for field, value in values.items():
            object.__setattr__(self, field, value)
        self._check()

    def _check(self) -> None:
        if not isinstance(self.by, Expression | Distance | Weighted) and not callable(self.by):
            raise invalid("by", "be an expression or a function of columns", self.by, '"price * volume"')
        if not isinstance(self.window, (Sliding, Counting, AllTime) if self.of else (Sliding, Counting)):
            example = 'sb.Sliding("10 minutes", "1 minute") or sb.Counting(1000, 100)'
            raise invalid("window", "be a window", self.window, example)
        if self.time is None and not self.window.counts:
            raise invalid("time", "name the column of the event time", None, 'its name, such as time="ts"')
        if self.ranks and self.emit != "changes":
            raise invalid("ranks", f"be False with emit={self.emit!r}", self.ranks, 'emit="changes"')
        if self.time is not None and self.time in self.per:
            raise invalid("per", f"not have the time column {self.time!r}", list(self.per))
        if self.join is not None:
            self._check_join(self.join)
        if self.of:
            self._check_totals()

    def _check_join(self, join: Join) -> None:
        window = self.window
        if not isinstance(join, Join):
            raise invalid("join", "be a sb.Join", join, 'sb.Join(table, on="user", columns=["followers"])')
        if self.of:
            example = 'sb.Join(..., on="product", aggregates={"n": "sum(quantity)"})'
            raise invalid("of", "be left out with join=", list(self.of), example)
        if "every row" in window.kinds:
            raise invalid("window", "have a slide with join=: there is no look-up after every row", window)
        if windows_per_row(window) > MAX_JOIN_WINDOWS:
            most = f"hold a row in at most {MAX_JOIN_WINDOWS:,} windows with join="
            raise invalid("window", f"{most} (here {windows_per_row(window):,})", window, "a longer slide")
        if self.per and window.counts:
            raise invalid("per", "be left out with join= and counting windows", list(self.per), _TIME_WINDOWS)
        if join.changes is not None and window.counts:
            raise invalid("window", "be in time with pushed changes=", window, _TIME_WINDOWS)
        if self.emit != "answers":
            raise invalid("emit", 'be "answers" with join=, whose scores change in place', self.emit)
        if isinstance(self.by, Expression) and not {*join.columns, *join.aggregate_names} & set(self.by.columns):
            raise invalid("by", f"use a column of the join ({', '.join(join.columns)})", self.by.text)

    def _check_totals(self) -> None:
        if set(self.of) & set(self.per):
            raise invalid("of", "name other columns than per", list(self.of))
        if not isinstance(self.by, Expression) or self.by.tree[0] != "total":
            raise invalid("by", "be an aggregate with of=", self.by, '"sum(quantity)"')
        if isinstance(self.window, AllTime):
            if self.time is not None:
                raise invalid("time", "be left out without a window", self.time)
        elif self.window.counts or self.window.kind == "row":
            raise invalid("window", "be in time and have a slide with of=", self.window, _TIME_WINDOWS)
        if self.id is not None:
            raise invalid("id", "be left out with of=: keys break ties themselves", self.id)

    def joining(self, join: Join | None) -> TopK:
        """Return the query with another join. Deprecated: `dataclasses.replace` does this."""
        warnings.warn(
            "TopK.joining is deprecated: write dataclasses.replace(query, join=...)", DeprecationWarning, stacklevel=2
        )
        return replace(self, join=join)

    def column(self, name: str) -> str:
        """Return the name in the answers of one of our own columns."""
        return self.prefix + name
