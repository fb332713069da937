"""Remote data that a score needs: what to look up, how often, and within what budget."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from difflib import get_close_matches
from inspect import signature
from numbers import Integral
from typing import Any

from skyband.errors import QueryError, nearest
from skyband.query.duration import format_duration, parse_duration
from skyband.query.expression import Expression, parse
from skyband.query.limits import MAX_K, MAX_ROWS
from skyband.query.validation import check_integer

POLICIES = {
    "never": "WST",
    "top": "AT-TSM",
    "border": "AT-BSM",
    "all": "AT-ASM",
    "at-lru": "AT-LRU",
    "at-wbm": "AT-WBM",
    "wsj-rnd": "WSJ-RND",
    "wsj-lru": "WSJ-LRU",
    "wsj-wbm": "WSJ-WBM",
    "likely": "",
}
"""The names of the refresh policies, and what the AcquaTop paper calls them."""

Choose = Callable[[Any, Any, int, int], Any]
"""A refresh policy: choose(candidates, replica, budget, now) gives the ids to look up, the most wanted first."""

TYPES = ("double", "long", "string", "boolean", "timestamp", "date")
"""The types that a remote column can be given."""

OWN = ("staleness", "status", "lookups")
"""The columns that a join adds to the answers, besides the remote ones."""

_NUMBERS = {
    "spare": (0, MAX_K),
    "reserve": (0, MAX_K),
    "batch": (1, MAX_K),
    "parallel": (1, 1000),
    "retries": (0, 1000),
    "replica_size": (1, MAX_ROWS),
}
"""The least and the largest value of each number."""

_AGGREGATE = re.compile(r"^\s*(count|sum|avg|min|max)\s*\((.*)\)\s*$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Budget:
    """How many look-ups an evaluation may make, and how many unused ones may be saved for later.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.Budget(7, save=21)
    Budget(each=7, save=21)
    """

    each: int
    save: int = 0

    def __post_init__(self) -> None:
        for field in ("each", "save"):
            object.__setattr__(self, field, check_integer(field, getattr(self, field), 0, MAX_ROWS))


@dataclass(frozen=True)
class Aggregate:
    """A value of a key over the window: `name` = `function` of `of` (None: of the rows)."""

    name: str
    function: str
    of: Expression | None


@dataclass(frozen=True)
class Join:
    """Remote columns for the rows of a stream, by a key.

    A local replica holds what was read; before each answer a policy chooses what to read again, within the
    budget and the deadline. Arrivals of one key are one object: the newest replaces the older.

    Parameters
    ----------
    table
        Where the remote rows are: a value with `key` and `fetch(ids, columns, timeout)`, such as those in
        `skyband.tables`. None where all changes are pushed (`changes=`).
    on
        The stream's key column.
    columns
        The remote columns that the score or the answers need: their names, or with their types, such as
        {"followers": "long"}: double, long, string, boolean, timestamp or date. On Spark, where types are fixed
        before the first look-up, those without are doubles.
    budget
        Look-ups an evaluation may make: a number, or a `Budget` that saves unused ones.
    policy
        What to look up: a name in `skyband.query.join.POLICIES`, or a function
        choose(candidates, replica, budget, now) -> ids.
    spare
        How many objects to keep behind the k best of every window (the paper's N), at most 1,000,000.
    reserve
        How many more to keep behind those, which no policy refreshes: they fill the gaps that changes leave.
    unlisted
        What to do with a change of an object that is not kept, pushed or read for another group or query: "bound"
        gives it a lower bound of its score, "ignore" leaves it out.
    deadline
        Wall time that the look-ups of an evaluation may take; what is not back by then stays stale.
    batch
        Ids that one call may ask for, at most 1,000,000.
    parallel
        Calls that may be under way at once, at most 1,000.
    retries
        How often a refused or failed call is tried again, within the deadline; at most 1,000.
    each
        "key": arrivals of a key are one object. "row": every row is one, though many share a remote row.
    initial
        What the replica starts with: a table, or a path, with the key and the columns.
    replica_size
        Keep at most so many keys; those that no open window needs go first, the longest unread first.
    changes
        Pushed changes of the remote side: a source with the key, the columns and, if it is a stream over time,
        the query's time column.
    aggregates
        Values over the window that the score uses, such as mentions="count(*)": count, sum, avg, min or max.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.tables import Memory
    >>> users = Memory({"user": ["ann", "bob"], "followers": [10, 70]}, key="user")
    >>> query = sb.TopK(
    ...     k=1, by="mentions + followers / 100", window=sb.Tumbling("1 minute"), time="ts", unit="s",
    ...     join=sb.Join(users, on="user", columns=["followers"], budget=5, mentions="count(*)"),
    ... )
    >>> seen = {"ts": [0, 10, 20], "user": ["ann", "bob", "ann"]}
    >>> sb.run(query, seen).select(["rank", "score", "user", "followers"]).to_pylist()
    [{'rank': 1, 'score': 2.1, 'user': 'ann', 'followers': 10}]
    """

    table: Any
    on: str
    columns: tuple[str, ...]
    budget: Budget
    policy: str | Choose
    spare: int
    reserve: int
    unlisted: str
    deadline: int
    batch: int
    parallel: int
    retries: int
    each: str
    initial: Any
    replica_size: int | None
    changes: Any
    aggregates: tuple[Aggregate, ...]
    types: tuple[tuple[str, str], ...]

    def __init__(  # noqa: PLR0913 - all that can be said of a join
        self,
        table: Any = None,
        on: str = "",
        columns: str | Iterable[str] | Mapping[str, str] = (),
        budget: int | Budget = 10,
        policy: str | Choose = "likely",
        spare: int = 10,
        *,
        reserve: int = 0,
        unlisted: str = "bound",
        deadline: str | timedelta = "1 second",
        batch: int = 100,
        parallel: int = 4,
        retries: int = 2,
        each: str = "key",
        initial: Any = None,
        replica_size: int | None = None,
        changes: Any = None,
        **aggregates: str,
    ) -> None:
        given = dict(locals())
        given["types"] = tuple(columns.items()) if isinstance(columns, Mapping) else ()
        given["aggregates"] = tuple(_aggregate(name, text) for name, text in aggregates.items())
        if isinstance(changes, bool):
            _refuse("changes", changes, "is no source of changes: give a path, a table or an iterator of batches")
        for field in fields(self):
            object.__setattr__(self, field.name, _kept(field.name, given[field.name]))
        self._check()
        self._check_table()

    def replaced(self, **change: Any) -> Join:
        """The same join, but for some fields.

        Examples
        --------
        >>> import skyband as sb
        >>> join = sb.Join(on="user", columns=["followers"], initial={"user": [1], "followers": [10]})
        >>> join.replaced(budget=3, policy="top").budget
        Budget(each=3, save=0)
        """
        names = [field.name for field in fields(self)]
        other = object.__new__(Join)
        for name in names:
            object.__setattr__(other, name, _kept(name, change[name]) if name in change else getattr(self, name))
        for name, value in change.items():
            if name not in names:
                _refuse(name, value, f"is no field of a join: {nearest(name, names)}")
        other._check()
        return other

    @property
    def aggregate_names(self) -> tuple[str, ...]:
        """The names of the values over the window."""
        return tuple(a.name for a in self.aggregates)

    def _check(self) -> None:
        if not isinstance(self.on, str) or not self.on:
            _refuse("on", self.on, 'names no column: write the stream\'s key, such as on="user"')
        if not self.columns or not all(isinstance(c, str) and c for c in self.columns):
            _refuse("columns", list(self.columns), 'names no remote column: write columns=["followers"]')
        if len({*self.columns, self.on}) <= len(self.columns):
            _refuse("columns", list(self.columns), "names a column twice, or the key: name each remote column once")
        unknown = {name: kind for name, kind in self.types if kind not in TYPES}
        if unknown:
            _refuse("columns", unknown, f"has an unknown type: write one of {', '.join(TYPES)}")
        taken = [name for name in self.aggregate_names if name in (*self.columns, self.on)]
        if taken:
            msg = f"{taken[0]} is the name of a value over the window, and of a column of the join: give it another"
            raise QueryError(msg)
        for field, (low, high) in _NUMBERS.items():
            if field != "replica_size" or self.replica_size is not None:
                check_integer(field, getattr(self, field), low, high)
        if self.unlisted not in ("bound", "ignore"):
            _refuse("unlisted", self.unlisted, 'is unknown: write "bound" or "ignore"')
        if self.each not in ("key", "row"):
            _refuse("each", self.each, 'is unknown: write "key" or "row"')
        if self.deadline <= 0:
            given = format_duration(self.deadline) if self.deadline else "0 s"
            _refuse("deadline", given, 'leaves no time: write a length above zero, such as "1 second"')
        if self.each == "row" and self.aggregates:
            _refuse("each", self.each, 'cannot go with a value over the window, which is one a key: write each="key"')

    def _check_table(self) -> None:
        table = self.table
        if table is None:
            if self.changes is None and self.initial is None:
                _refuse("table", None, "gives no remote rows: hand over a table, or changes= that are pushed")
            return
        asked = not isinstance(table, type) and callable(getattr(table, "fetch", None))
        if not asked or not isinstance(getattr(table, "key", None), str):
            named = table.__name__ if isinstance(table, type) else type(table).__name__
            _refuse(
                "table",
                named,
                "cannot be asked: give a value with key and fetch(ids, columns), such as "
                'skyband.tables.Http("https://...", key="user")',
            )
        there = getattr(table, "columns", self.columns)  # those that know them say so
        for name in self.columns:
            if name not in there:
                _refuse("columns", list(self.columns), f"has {name!r}, and the table has not: {nearest(name, there)}")


def _kept(field: str, value: Any) -> Any:
    """A field in the one form that it is kept in."""
    if field == "columns":
        if not isinstance(value, Iterable):
            _refuse("columns", value, 'names no remote column: write columns=["followers"]')
        return (value,) if isinstance(value, str) else tuple(value)
    if field == "budget":
        return value if isinstance(value, Budget) else Budget(check_integer("budget", value, 0, MAX_ROWS))
    if field == "deadline":
        return parse_duration(value, "deadline")
    if field == "policy":
        return _policy(value)
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return int(value) if whole and field in _NUMBERS else value


def _aggregate(name: str, text: object) -> Aggregate:
    found = _AGGREGATE.match(text) if isinstance(text, str) else None
    if found is None:
        close = get_close_matches(name, signature(Join).parameters, 1)
        hint = f". Did you mean {close[0]}=?" if close else ""
        _refuse(name, text, f"is no value over the window: write count(*), or sum, avg, min or max of a column{hint}")
    assert found is not None
    function, of = found[1].lower(), found[2].strip()
    if of == "*" and function == "count":
        return Aggregate(name, function, None)
    if of in ("", "*"):
        _refuse(name, text, f"says not of what: name a column, such as {function}(x); only count takes *")
    try:
        return Aggregate(name, function, parse(of))
    except QueryError as error:
        msg = str(error).replace("by=", f"{name}=", 1)
        raise QueryError(msg) from None


def _policy(policy: str | Choose) -> str | Choose:
    if not isinstance(policy, str):
        if not callable(policy):
            _refuse("policy", policy, "is no policy: write a name, or choose(candidates, replica, budget, now)")
        return policy
    papers = {paper.lower(): name for name, paper in POLICIES.items() if paper}
    name = papers.get(policy.lower(), policy.lower())
    if name not in POLICIES:
        _refuse("policy", policy, f"is unknown: {nearest(policy, POLICIES)}")
    return name


def _refuse(field: str, value: object, why: str) -> None:
    msg = f"{field}={value!r} {why}"
    raise QueryError(msg)
