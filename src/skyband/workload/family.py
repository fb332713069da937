"""Families: queries that can share one structure, and how a workload falls into them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np

from skyband.errors import QueryError
from skyband.query import Counting, Distance, Sliding, TopK, Weighted, Window
from skyband.query.duration import format_duration, microseconds
from skyband.query.expression import Expression
from skyband.windows import WindowAssigner

NEVER = -(1 << 62)
AFTER = 1 << 62
FEW = 15
"""Up to so many queries about points are faster each alone, and keep less: a grid holds the whole window."""

_POINTS = "points"
_FIELDS = ("k", "size", "slide", "origin", "low", "high", "moment", "until", "number")


@dataclass(frozen=True)
class Member:
    """One query of a family, and which of its windows are answered: those that begin in [low, high)."""

    number: int  # its place in the workload, under which its answers go out
    name: str
    k: int
    window: Window
    low: int = NEVER
    high: int = AFTER
    moment: int = 0  # when it came and ...
    until: int = 0  # ... when it was followed, for counting windows: see `Family.moments`; 0: not while they ran
    by: Distance | Weighted | None = None  # its own score, in a family of points

    @cached_property
    def clock(self) -> WindowAssigner:
        """When its windows begin and end."""
        return WindowAssigner.of(self.window)

    @cached_property
    def row(self) -> list[int]:
        """The member as numbers, in the order of the columns of `Family.records`."""
        clock = self.clock
        bounds = [self.low, self.high, self.moment, self.until]
        return [self.k, clock.size, clock.slide, clock.origin, *bounds, self.number]

    def as_json(self) -> dict[str, Any]:
        """The member as plain values."""
        clock = self.clock
        window: dict[str, Any] = {"counts": clock.counts, "size": clock.size, "slide": clock.slide}
        if not clock.counts:
            window |= {"origin": clock.origin - clock.shift, "closed": self.window.closed}
        rest = {name: getattr(self, name) for name in ("number", "name", "k", "low", "high", "moment", "until")}
        by = None if self.by is None else {"kind": type(self.by).__name__, **asdict(self.by)}
        return {**rest, "window": window, "by": by}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Member:
        """The member that `as_json` told of."""
        said = dict(told["window"])
        window: Window
        if said.pop("counts"):
            window = Counting(**said)
        else:
            size, origin = (timedelta(microseconds=said[name]) for name in ("size", "origin"))
            slide = timedelta(microseconds=said["slide"]) if said["slide"] else "row"
            window = Sliding(size, slide, origin=origin, closed=said["closed"])
        by = None if told["by"] is None else _score(told["by"])
        return cls(**{**told, "window": window, "by": by})


@dataclass(frozen=True)
class Reserve:
    """What is held ready for time windows to come: the k best of every pane, whatever the queries of now want.

    Examples
    --------
    >>> import skyband as sb
    >>> reserve = Reserve(10, 60_000_000)
    >>> reserve.check(3, sb.Sliding("5 minutes", "1 minute"))
    >>> reserve.check(3, sb.Sliding("90 s", "1 minute"))
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: size must be a multiple of finest='1 min', got '90 s': round it
    """

    k: int  # the largest of any query
    finest: int  # microseconds: windows begin and end at multiples of this only

    def check(self, k: int, window: Window) -> None:
        """Raise unless a query of this k and window fits."""
        if k > self.k:
            msg = f"k={k} is more than max_k={self.k}, which is all that is kept: start anew with a larger one"
            raise QueryError(msg)
        if not isinstance(window, Sliding) or window.kind == "row":
            msg = f"window={window!r} has no panes: max_k and finest are for time windows with a slide"
            raise QueryError(msg)
        for field, length in window.lengths.items():
            if microseconds(length) % self.finest:
                finest = format_duration(self.finest)
                msg = f"{field} must be a multiple of finest={finest!r}, got {format_duration(length)!r}: round it"
                raise QueryError(msg)


@dataclass(frozen=True)
class Family:
    """Queries with one score, one clock and the same groups; they differ in window, k and name.

    Or, a family of `points`: queries after every row that have one window and the same columns to score by; they
    differ in target, weights, k and name.

    Examples
    --------
    >>> import skyband as sb
    >>> queries = [sb.TopK(k=k, by="x", window=sb.Counting(10 * k)) for k in (3, 5)]
    >>> family = families(queries)[0]
    >>> family.query.k, [m.name for m in family.members]
    (5, ['q0', 'q1'])
    """

    query: TopK  # what they share; its k is the largest, its window the longest
    members: tuple[Member, ...]
    moments: int = 1  # how often members came while counting windows were open, and one
    points: bool = False  # its members share a grid
    reserve: Reserve | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """The columns that make a row a point."""
        assert isinstance(self.query.by, (Distance, Weighted))
        return self.query.by.columns

    def apart(self, *, fixed: bool) -> bool:
        """Whether each member is better off alone: after every row, an engine need not give whole lists.

        Rows that are counted can be shared so that members come and go; where they are `fixed`, there is no need.
        """
        if self.points or self.query.window.kind == "row":
            return not self.points
        return fixed and all("every row" in member.window.kinds for member in self.members)

    @property
    def counts(self) -> bool:
        """Whether its windows count rows."""
        return self.query.window.counts

    @cached_property
    def numbers(self) -> int:
        """One more than the largest number of a member."""
        return max((member.number for member in self.members), default=-1) + 1

    @cached_property
    def records(self) -> dict[str, np.ndarray]:
        """The members as columns, by name."""
        table = np.array([member.row for member in self.members], np.int64).reshape(-1, len(_FIELDS))
        return {name: np.ascontiguousarray(table[:, at]) for at, name in enumerate(_FIELDS)}

    def names(self) -> list[str]:
        """The names by number; an empty one where there is no such member."""
        found = [""] * self.numbers
        for member in self.members:
            found[member.number] = member.name
        return found

    def with_members(self, members: Iterable[Member]) -> Family:
        """The same family with other members."""
        chosen = tuple(sorted(members, key=lambda m: (m.number, m.moment, m.low)))
        return replace(self, members=chosen, query=_common(self.query, chosen, self.reserve))

    def with_reserve(self, reserve: Reserve | None) -> Family:
        """The same family with a reserve."""
        return replace(self, reserve=reserve, query=_common(self.query, self.members, reserve))


def families(
    queries: Sequence[TopK], names: Sequence[str] | None = None, *, few: int | None = None, bounded: Sequence[int] = ()
) -> list[Family]:
    """The families of a workload, in the order of their first queries; an error if it is none.

    More than `few` queries about points share a grid, but for those `bounded` to a part of the stream. None: no grids.
    """
    named = names or check(queries)
    near = {at: place(query) for at, query in enumerate(queries) if few is not None and at not in bounded}
    sizes = Counter(near.values())
    split: dict[tuple[object, ...], list[Member]] = {}
    first: dict[tuple[object, ...], TopK] = {}
    for number, (query, name) in enumerate(zip(queries, named, strict=True)):
        key = near.get(number)
        if key is None or few is None or sizes[key] <= few:
            key = kinship(query, number)
        first.setdefault(key, query)
        split.setdefault(key, []).append(member_of(query, number, name, points=key[0] == _POINTS))
    return [
        Family(_common(first[key], members), tuple(members), points=key[0] == _POINTS) for key, members in split.items()
    ]


def member_of(query: TopK, number: int, name: str, *, points: bool) -> Member:
    """A query as a member of a family."""
    by = query.by if points and isinstance(query.by, (Distance, Weighted)) else None
    return Member(number, name, int(query.k), query.window, by=by)


def kinship(query: TopK, number: int) -> tuple[object, ...]:
    """What queries must agree in to share. Those after every row share with none but their likes in all."""
    by = query.by.text if isinstance(query.by, Expression) else query.by
    alone = (number,) if query.window.kind == "row" else ()
    return (by, query.time, query.per, query.id, query.ascending, query.unit, *alone)


def place(query: TopK) -> tuple[object, ...] | None:
    """What queries must agree in to share a grid; None if this one cannot.

    Examples
    --------
    >>> import skyband as sb
    >>> near = [sb.TopK(k=k, by=sb.distance(["x"], to=[k]), window=sb.Counting(5)) for k in (1, 2)]
    >>> place(near[0]) == place(near[1]), place(sb.TopK(k=1, by="x", window=sb.Counting(5)))
    (True, None)
    """
    by = query.by
    if not isinstance(by, (Distance, Weighted)) or "every row" not in query.window.kinds:
        return None
    if isinstance(by, Distance) and not query.ascending:  # the farthest: no cell is out of reach
        return None
    return (_POINTS, by.kind, by.columns, query.window, query.time, query.per, query.id, query.ascending, query.unit)


def check(queries: Sequence[TopK]) -> list[str]:
    """The names of the queries of a workload; an error that says how to split it if it is none."""
    for query in queries:
        if not isinstance(query, TopK):
            msg = f"query={type(query).__name__} is no query: write sb.TopK(k=..., by=..., window=...)"
            raise QueryError(msg)
    if not queries:
        return []
    fields = {name: name for name in ("emit", "ranks", "prefix")} | {"counts": "the kind of window"}
    if not any(query.window.counts for query in queries):
        fields |= {"time": "time", "unit": "unit"}  # one stream has one clock
    for field, word in fields.items():
        said: dict[object, list[str]] = {}
        for number, query in enumerate(queries):
            value = query.window.counts if field == "counts" else getattr(query, field)
            shown = ("rows" if value else "time") if field == "counts" else repr(value)
            said.setdefault(shown, []).append(query.name or f"q{number}")
        if len(said) > 1:
            parts = "; ".join(f"{value} in {_some(who)}" for value, who in said.items())
            msg = f"a workload agrees in {word}, here there is {parts}: run one workload for each"
            raise QueryError(msg)
    names = [query.name or f"q{number}" for number, query in enumerate(queries)]
    double = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if double:
        msg = f"name={double[0]!r} stands for more than one query: give each its own name"
        raise QueryError(msg)
    return names


def per_of(queries: Iterable[TopK]) -> list[str]:
    """The columns that any of the queries groups by, in the order in which they are first named."""
    return list(dict.fromkeys(name for query in queries for name in query.per))


def _score(told: Mapping[str, Any]) -> Distance | Weighted:
    """The score that `Member.as_json` told of."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    made: Any = Distance if values.pop("kind") == "Distance" else Weighted
    found: Distance | Weighted = made(**values)
    return found


def _common(query: TopK, members: Sequence[Member], reserve: Reserve | None = None) -> TopK:
    """The query that stands for a family: the largest k, or that in reserve, and the longest window."""
    if not members:
        return query
    longest = max(members, key=lambda m: m.clock.size).window
    largest = max(m.k for m in members) if reserve is None else reserve.k
    return replace(query, k=largest, window=longest, name=None)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
