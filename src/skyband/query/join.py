"""Remote data that a score needs: what to join, how to refresh it, and how to call the service that has it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal, TypeAlias, get_args

from skyband.errors import QueryError, nearest
from skyband.query.aggregate import Aggregate, parse_aggregate
from skyband.query.duration import parse_duration
from skyband.query.limits import MAX_K, MAX_ROWS
from skyband.query.validation import check_choice, check_integer, check_names, check_text, invalid

Policy = Literal["never", "top", "border", "all", "at-lru", "at-wbm", "wsj-rnd", "wsj-lru", "wsj-wbm", "likely"]
"""The refresh policies."""

PaperPolicy = Literal["WST", "AT-TSM", "AT-BSM", "AT-ASM", "AT-LRU", "AT-WBM", "WSJ-RND", "WSJ-LRU", "WSJ-WBM"]
"""What the AcquaTop paper calls them, in the same order; "likely" is not in it."""

POLICIES: dict[str, str] = dict(zip(get_args(Policy), (*get_args(PaperPolicy), ""), strict=True))
"""The names of the refresh policies, and what the AcquaTop paper calls them."""

Choose: TypeAlias = Callable[[Any, Any, int, int], Any]
"""A refresh policy as a function: choose(candidates, replica, budget, now) gives the ids to look up, best first."""

Each = Literal["key", "row"]
Unlisted = Literal["bound", "ignore"]
ColumnType = Literal["double", "long", "string", "boolean", "timestamp", "date"]
"""The types that a remote column can be given."""

OWN = ("staleness", "status", "lookups")
"""The columns that a join adds to the answers, besides the remote ones."""


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
class Refresh:
    """How the replica of a join is refreshed: what is read again before each answer, and within what limits.

    Parameters
    ----------
    policy
        What to look up: a name in `skyband.query.join.POLICIES`, or a function
        choose(candidates, replica, budget, now) -> ids.
    budget
        Look-ups an evaluation may make: a number, or a `Budget` that saves unused ones.
    deadline
        Wall time that the look-ups of an evaluation may take; what is not back by then stays stale.
    spare
        How many objects to keep behind the k best of every window (the paper's N), at most 1,000,000.
    reserve
        How many more to keep behind those, which no policy refreshes: they fill the gaps that changes leave.
    unlisted
        What to do with a change of an object that is not kept, pushed or read for another group or query: "bound"
        gives it a lower bound of its score, "ignore" leaves it out.
    replica_size
        Keep at most so many keys; those that no open window needs go first, the longest unread first.

    Examples
    --------
    >>> import skyband as sb
    >>> from dataclasses import replace
    >>> refresh = sb.Refresh("top", budget=7, deadline="300 ms")
    >>> replace(refresh, budget=sb.Budget(7, save=21)).budget
    Budget(each=7, save=21)
    """

    policy: Policy | Choose
    budget: Budget
    deadline: timedelta
    spare: int
    reserve: int
    unlisted: Unlisted
    replica_size: int | None

    def __init__(  # noqa: PLR0913 - all that can be set
        self,
        policy: Policy | PaperPolicy | Choose = "likely",
        budget: int | Budget = 10,
        deadline: str | timedelta = "1 second",
        *,
        spare: int = 10,
        reserve: int = 0,
        unlisted: Unlisted = "bound",
        replica_size: int | None = None,
    ) -> None:
        if not isinstance(budget, Budget):
            budget = Budget(check_integer("budget", budget, 0, MAX_ROWS))
        if replica_size is not None:
            replica_size = check_integer("replica_size", replica_size, 1, MAX_ROWS)
        checked = {
            "policy": _policy(policy),
            "budget": budget,
            "deadline": timedelta(microseconds=parse_duration(deadline, "deadline", least=1)),
            "spare": check_integer("spare", spare, 0, MAX_K),
            "reserve": check_integer("reserve", reserve, 0, MAX_K),
            "unlisted": check_choice("unlisted", unlisted, get_args(Unlisted)),
            "replica_size": replica_size,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)


def _policy(policy: str | Choose) -> Policy | Choose:
    if not isinstance(policy, str):
        if not callable(policy):
            raise invalid("policy", "be a name or a function choose(candidates, replica, budget, now)", policy)
        return policy
    names = {paper.lower(): name for name, paper in POLICIES.items() if paper}
    choices: tuple[Policy, ...] = get_args(Policy)
    return check_choice("policy", names.get(policy.lower(), policy.lower()), choices)


@dataclass(frozen=True)
class Calls:
    """How the service of a join is called.

    Parameters
    ----------
    batch
        Ids that one call may ask for, at most 1,000,000.
    parallel
        Calls that may be under way at once, at most 1,000.
    retries
        How often a refused or failed call is tried again, within the deadline; at most 1,000.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.Calls(batch=10)
    Calls(batch=10, parallel=4, retries=2)
    """

    batch: int = 100
    parallel: int = 4
    retries: int = 2

    def __post_init__(self) -> None:
        for name, low, high in (("batch", 1, MAX_K), ("parallel", 1, 1000), ("retries", 0, 1000)):
            object.__setattr__(self, name, check_integer(name, getattr(self, name), low, high))


PARTS: dict[str, str] = {f.name: part for part, of in (("refresh", Refresh), ("calls", Calls)) for f in fields(of)}
"""The part of a join that each of its former keywords belongs to."""


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
    aggregates
        Values over the window that the score uses, such as {"mentions": "count(*)"}: count, sum, max, min or mean.
    each
        "key": arrivals of a key are one object. "row": every row is one, though many share a remote row.
    initial
        What the replica starts with: a table, or a path, with the key and the columns.
    changes
        Pushed changes of the remote side: a source with the key, the columns and, if it is a stream over time,
        the query's time column.
    refresh
        What is read again before each answer, and within what limits: see `Refresh`.
    calls
        How the service is called: see `Calls`.
    types
        Types of columns, where `columns` has names only.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.tables import Memory
    >>> users = Memory({"user": ["ann", "bob"], "followers": [10, 70]}, key="user")
    >>> join = sb.Join(
    ...     users, on="user", columns=["followers"], aggregates={"mentions": "count(*)"}, refresh=sb.Refresh(budget=5)
    ... )
    >>> query = sb.TopK(
    ...     k=1, by="mentions + followers / 100", window=sb.Tumbling("1 minute"), time="ts", unit="s", join=join
    ... )
    >>> seen = {"ts": [0, 10, 20], "user": ["ann", "bob", "ann"]}
    >>> sb.run(query, seen).select(["rank", "score", "user", "followers"]).to_pylist()
    [{'rank': 1, 'score': 2.1, 'user': 'ann', 'followers': 10}]
    """

    table: Any
    on: str
    columns: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    each: Each
    initial: Any
    changes: Any
    refresh: Refresh
    calls: Calls
    types: tuple[tuple[str, ColumnType], ...]

    def __init__(  # noqa: PLR0913 - all that can be set
        self,
        table: Any = None,
        on: str = "",
        columns: str | Iterable[str] | Mapping[str, ColumnType] = (),
        *deprecated: Any,
        aggregates: Mapping[str, str] | Iterable[Aggregate] = (),
        each: Each = "key",
        initial: Any = None,
        changes: Any = None,
        refresh: Refresh | None = None,
        calls: Calls | None = None,
        types: Mapping[str, ColumnType] | Iterable[tuple[str, ColumnType]] = (),
        **options: Any,
    ) -> None:
        if isinstance(columns, Mapping):
            types = columns
        if isinstance(aggregates, Mapping):
            aggregates = [parse_aggregate(name, text) for name, text in aggregates.items()]
        names = check_names("columns", columns, required=True)
        given = {
            "table": table,
            "on": check_text("on", on),
            "columns": names,
            "aggregates": tuple(aggregates),
            "each": check_choice("each", each, get_args(Each)),
            "initial": initial,
            "changes": changes,
            "refresh": Refresh() if refresh is None else refresh,
            "calls": Calls() if calls is None else calls,
            "types": tuple((name, kind) for name, kind in dict(types).items() if name in names),
        }
        if deprecated or options:
            given |= _from_flat(given, dict(zip(("budget", "policy", "spare"), deprecated, strict=False)) | options)
        for name, value in given.items():
            object.__setattr__(self, name, value)
        self._check()
        self._check_table()

    def __getattr__(self, name: str) -> Any:
        """Read fields that moved into `refresh` and `calls`, for one version, with a warning."""
        if name not in PARTS or "refresh" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        _warn(f"Join.{name} is deprecated: read join.{PARTS[name]}.{name}")
        return getattr(getattr(self, PARTS[name]), name)

    def replaced(self, **change: Any) -> Join:
        """Return the join with other fields. Deprecated: `dataclasses.replace` does this."""
        _warn("Join.replaced is deprecated: write dataclasses.replace(join, ...)")
        flat = {name: change.pop(name) for name in list(change) if name in PARTS}
        parts = {name: getattr(self, name) for name in ("refresh", "calls")}
        return replace(self, **change, **_moved(parts, flat))

    @property
    def aggregate_names(self) -> tuple[str, ...]:
        """The names of the values over the window."""
        return tuple(a.name for a in self.aggregates)

    def _check(self) -> None:
        if self.on in self.columns:
            raise invalid("columns", f"not have the key {self.on!r}", list(self.columns))
        for name, kind in self.types:
            check_choice(f"the type of column {name!r}", kind, get_args(ColumnType))
        for name, made in (("refresh", Refresh), ("calls", Calls)):
            if not isinstance(getattr(self, name), made):
                raise invalid(name, f"be a sb.{made.__name__}", getattr(self, name), f"sb.{made.__name__}(...)")
        for name in self.aggregate_names:
            if name in (*self.columns, self.on):
                raise invalid("aggregates", "have names that no column of the join has", name)
        if self.each == "row" and self.aggregates:
            raise invalid("each", 'be "key" with aggregates, of which a key has one value', self.each)
        if isinstance(self.changes, bool):
            raise invalid("changes", "be a source of changes", self.changes, "a path, a table or batches")

    def _check_table(self) -> None:
        table = self.table
        if table is None:
            if self.changes is None and self.initial is None:
                raise invalid("table", "be given unless rows come from changes= or initial=", None)
            return
        fetches = not isinstance(table, type) and callable(getattr(table, "fetch", None))
        if not fetches or not isinstance(getattr(table, "key", None), str):
            shown = table.__name__ if isinstance(table, type) else type(table).__name__
            example = 'skyband.tables.Http("https://...", key="user")'
            raise invalid("table", "have key and fetch(ids, columns)", shown, example)
        known = getattr(table, "columns", self.columns)  # some tables know theirs
        for name in self.columns:
            if name not in known:
                raise invalid("columns", f"name columns of the table ({nearest(name, known)})", name)


def _from_flat(given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Sort the keywords of former versions: refresh and calls had no parts of their own, aggregates no mapping."""
    flat = {name: value for name, value in options.items() if name in PARTS}
    others = {name: value for name, value in options.items() if name not in PARTS}
    for name, value in others.items():
        if not isinstance(value, str) or "(" not in value:
            known = [*given, *PARTS]
            raise QueryError(f"Join has no option {name!r}: {nearest(name, known)}")
    found = _moved({name: given[name] for name in ("refresh", "calls")}, flat)
    new = [f"{part}=sb.{part.title()}({', '.join(n for n in flat if PARTS[n] == part)}=...)" for part in found]
    if others:
        found["aggregates"] = (*given["aggregates"], *(parse_aggregate(name, text) for name, text in others.items()))
        new.append(f"aggregates={others!r}")
    _warn(f"Join({', '.join(options)}) is deprecated: write Join(..., {', '.join(new)})", 4)
    return found


def _moved(parts: Mapping[str, Any], flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts that flat keywords change."""
    found = {}
    for part, value in parts.items():
        change = {name: given for name, given in flat.items() if PARTS[name] == part}
        if change:
            found[part] = replace(value, **change)
    return found


def _warn(message: str, level: int = 3) -> None:
    warnings.warn(message, DeprecationWarning, stacklevel=level)
