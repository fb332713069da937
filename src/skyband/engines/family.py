"""Queries that one engine serves: members of a family, and the capacity reserved for members to come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np

from skyband.errors import QueryError
from skyband.query import Counting, Distance, Sliding, TopK, Weighted, Window
from skyband.query.duration import format_duration
from skyband.windows import MIN_TIME, WindowAssigner

UNBOUNDED = 1 << 62
"""No limit, such as the end of a member without one; the value is stored in checkpoints."""

_FIELDS = ("k", "size", "slide", "origin", "low", "high", "moment", "until", "number")


@dataclass(frozen=True)
class FamilyMember:
    """One query of a family, and which of its windows are answered: those that begin in [low, high)."""

    number: int  # its place in the workload, reported in `Answers.query`
    name: str
    k: int
    window: Window
    low: int = MIN_TIME
    high: int = UNBOUNDED
    moment: int = 0  # counting windows: the admission (see `QueryFamily.moments`) with which it came ...
    until: int = 0  # ... and the one that replaced it; 0: neither happened while rows were counted
    by: Distance | Weighted | None = None  # its own score, in a family of points

    @cached_property
    def clock(self) -> WindowAssigner:
        """When its windows begin and end."""
        return WindowAssigner.of(self.window)

    @property
    def is_bounded(self) -> bool:
        """Whether some of its windows are not answered."""
        return self.low > MIN_TIME or self.high < UNBOUNDED

    @cached_property
    def row(self) -> list[int]:
        """The member as numbers, in the order of the columns of `QueryFamily.records`."""
        clock = self.clock
        bounds = [self.low, self.high, self.moment, self.until]
        return [self.k, clock.size, clock.slide, clock.origin, *bounds, self.number]

    def as_json(self) -> dict[str, Any]:
        """Return the member as plain values."""
        clock = self.clock
        window: dict[str, Any] = {"counts": clock.counts, "size": clock.size, "slide": clock.slide}
        if not clock.counts:
            window |= {"origin": clock.origin - clock.shift, "closed": self.window.closed}
        rest = {name: getattr(self, name) for name in ("number", "name", "k", "low", "high", "moment", "until")}
        by = None if self.by is None else {"kind": type(self.by).__name__, **asdict(self.by)}
        return {**rest, "window": window, "by": by}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> FamilyMember:
        """Make the member that `as_json` returned."""
        fields = dict(values["window"])
        window: Window
        if fields.pop("counts"):
            window = Counting(**fields)
        else:
            size, origin = (timedelta(microseconds=fields[name]) for name in ("size", "origin"))
            slide = timedelta(microseconds=fields["slide"]) if fields["slide"] else "row"
            window = Sliding(size, slide, origin=origin, closed=fields["closed"])
        by = None if values["by"] is None else _score_from_json(values["by"])
        return cls(**{**values, "window": window, "by": by})


@dataclass(frozen=True)
class ReservedCapacity:
    """What is kept for queries to come over time windows: the k best rows of every pane, whatever the members need.

    Examples
    --------
    >>> import skyband as sb
    >>> reserve = ReservedCapacity(10, 60_000_000)
    >>> reserve.check(3, sb.Sliding("5 minutes", "1 minute"))
    >>> reserve.check(3, sb.Sliding("90 s", "1 minute"))
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: size must be a multiple of finest='1 min', got '90 s'
    """

    k: int  # the largest k of any query
    finest: int  # microseconds: windows begin and end at multiples of this only

    def check(self, k: int, window: Window) -> None:
        """Raise unless a query with this k and window fits."""
        if k > self.k:
            raise QueryError(f"k must be at most max_k={self.k}, got {k}: start a new stream with a larger max_k")
        if not isinstance(window, Sliding) or window.kind == "row":
            raise QueryError(f"max_k and finest need time windows with a slide, got window={window!r}")
        for field, length in window.lengths.items():
            if length % self.finest:
                finest = format_duration(self.finest)
                raise QueryError(f"{field} must be a multiple of finest={finest!r}, got {format_duration(length)!r}")


@dataclass(frozen=True)
class QueryFamily:
    """Queries with the same score, time column and groups; they differ in window, k and name.

    A family of points consists of queries after every row with one window and the same columns to score by; its members
    differ in target, weights, k and name.

    Examples
    --------
    >>> import skyband as sb
    >>> family = QueryFamily.of(sb.TopK(k=3, by="x", window=sb.Counting(30), name="three"))
    >>> family.is_single, [(member.name, member.k) for member in family.members]
    (True, [('three', 3)])
    """

    query: TopK  # what the members share; its k is the largest, its window the longest
    members: tuple[FamilyMember, ...]
    moments: int = 1  # admissions while rows were counted, plus one
    points: bool = False  # whether members share a grid
    reserve: ReservedCapacity | None = None
    is_single: bool = False  # a query by itself: answers have no query column, and no member comes or goes

    @classmethod
    def of(cls, query: TopK) -> QueryFamily:
        """Make the family of a single query."""
        member = FamilyMember(0, query.name or "q0", int(query.k), query.window)
        return cls(query, (member,), is_single=True)

    @property
    def axes(self) -> tuple[str, ...]:
        """The columns that make a row a point."""
        assert isinstance(self.query.by, (Distance, Weighted))
        return self.query.by.columns

    def prefers_separate_engines(self, *, fixed: bool) -> bool:
        """Whether each member is better served by an engine of its own, which need not return complete lists.

        Per-row windows over counted rows are shared where members may come and go; where members are `fixed`, not.
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
        """The members as columns of numbers, by name."""
        table = np.array([member.row for member in self.members], np.int64).reshape(-1, len(_FIELDS))
        return {name: np.ascontiguousarray(table[:, at]) for at, name in enumerate(_FIELDS)}

    def names(self) -> list[str]:
        """Return the names by number; empty where there is no such member."""
        found = [""] * self.numbers
        for member in self.members:
            found[member.number] = member.name
        return found

    def member_query(self, member: FamilyMember) -> TopK:
        """Return the query of one member."""
        return replace(self.query, k=member.k, window=member.window, name=member.name)

    def with_members(self, members: Iterable[FamilyMember]) -> QueryFamily:
        """Return the family with other members."""
        chosen = tuple(sorted(members, key=lambda m: (m.number, m.moment, m.low)))
        return replace(self, members=chosen, query=common_query(self.query, chosen, self.reserve))

    def with_reserve(self, reserve: ReservedCapacity | None) -> QueryFamily:
        """Return the family with other reserved capacity."""
        return replace(self, reserve=reserve, query=common_query(self.query, self.members, reserve))


def common_query(query: TopK, members: Sequence[FamilyMember], reserve: ReservedCapacity | None = None) -> TopK:
    """Return the query that stands for a family: the largest k, or the reserved one, and the longest window."""
    if not members:
        return query
    longest = max(members, key=lambda m: m.clock.size).window
    largest = max(m.k for m in members) if reserve is None else reserve.k
    return replace(query, k=largest, window=longest, name=None)


def _score_from_json(values: Mapping[str, Any]) -> Distance | Weighted:
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    kind: Any = Distance if fields.pop("kind") == "Distance" else Weighted
    score: Distance | Weighted = kind(**fields)
    return score
