"""Which queries of a workload share one structure, when each is active, and how a family is split over tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines.family import UNBOUNDED, FamilyMember, QueryFamily, common_query
from skyband.errors import QueryError
from skyband.query import Distance, TopK, Weighted
from skyband.query.duration import parse_instant
from skyband.query.expression import Expression
from skyband.query.validation import check_integer, invalid
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from datetime import datetime

    Moment = str | datetime | int | None

ALWAYS = (MIN_TIME, UNBOUNDED)
"""The span of a query that is not bounded."""

MAX_TASKS = 1024
"""Tasks, or buckets, of one stream."""

EXAMPLE = "sb.TopK(k=..., by=..., window=...)"
"""What error messages propose to write."""

_POINTS = "points"

# ---------------------------------------------------------------- which queries share


def families(
    queries: Sequence[TopK], names: Sequence[str] | None = None, *, few: int | None = None, bounded: Sequence[int] = ()
) -> list[QueryFamily]:
    """Return the families of a workload, in the order of their first queries.

    More than `few` queries about points share a grid, except those `bounded` to a part of the stream. None: no grids.
    """
    named = names or query_names(queries)
    near = {at: grid_key(query) for at, query in enumerate(queries) if few is not None and at not in bounded}
    sizes = Counter(near.values())
    members: dict[tuple[object, ...], list[FamilyMember]] = {}
    first: dict[tuple[object, ...], TopK] = {}
    for number, (query, name) in enumerate(zip(queries, named, strict=True)):
        key = near.get(number)
        if key is None or few is None or sizes[key] <= few:
            key = sharing_key(query, number)
        first.setdefault(key, query)
        members.setdefault(key, []).append(member_of(query, number, name, points=key[0] == _POINTS))
    return [
        QueryFamily(common_query(first[key], found), tuple(found), points=key[0] == _POINTS)
        for key, found in members.items()
    ]


def member_of(query: TopK, number: int, name: str, *, points: bool) -> FamilyMember:
    """Make a query a member of a family."""
    by = query.by if points and isinstance(query.by, (Distance, Weighted)) else None
    return FamilyMember(number, name, int(query.k), query.window, by=by)


def sharing_key(query: TopK, number: int) -> tuple[object, ...]:
    """Return what queries must agree in to share. Queries after every row of a time window do not share."""
    by = query.by.text if isinstance(query.by, Expression) else query.by
    alone = (number,) if query.window.kind == "row" else ()
    return (by, query.time, query.per, query.id, query.ascending, query.unit, *alone)


def grid_key(query: TopK) -> tuple[object, ...] | None:
    """Return what queries must agree in to share a grid; None if this one cannot.

    Examples
    --------
    >>> import skyband as sb
    >>> near = [sb.TopK(k=k, by=sb.distance(["x"], to=[k]), window=sb.Counting(5)) for k in (1, 2)]
    >>> grid_key(near[0]) == grid_key(near[1]), grid_key(sb.TopK(k=1, by="x", window=sb.Counting(5)))
    (True, None)
    """
    by = query.by
    if not isinstance(by, (Distance, Weighted)) or "every row" not in query.window.kinds:
        return None
    if isinstance(by, Distance) and not query.ascending:  # the farthest: no cell is out of reach
        return None
    return (_POINTS, by.kind, by.columns, query.window, query.time, query.per, query.id, query.ascending, query.unit)


def query_names(queries: Sequence[TopK]) -> list[str]:
    """Return the names of the queries of a workload; raise unless they agree in what a workload shares."""
    for query in queries:
        check_query(query)
    if not queries:
        return []
    names = [query.name or f"q{number}" for number, query in enumerate(queries)]
    shared = {name: [repr(getattr(query, name)) for query in queries] for name in ("emit", "ranks", "prefix")}
    shared["the kind of window"] = ["rows" if query.window.counts else "time" for query in queries]
    if not any(query.window.counts for query in queries):  # one stream has one time column
        shared |= {name: [repr(getattr(query, name)) for query in queries] for name in ("time", "unit")}
    for field, values in shared.items():
        if len(set(values)) > 1:
            who = {value: [names[at] for at, own in enumerate(values) if own == value] for value in values}
            parts = "; ".join(f"{value} in {shorten_names(found, 3)}" for value, found in who.items())
            raise QueryError(f"a workload agrees in {field}, here there is {parts}: run one workload for each")
    repeated = next((name for name, times in sorted(Counter(names).items()) if times > 1), None)
    if repeated is not None:
        raise QueryError(f"names must be distinct, got name={repeated!r} more than once: give each query its own name")
    return names


def check_query(query: object) -> None:
    """Raise unless this is a query."""
    if not isinstance(query, TopK):
        raise QueryError(f"query must be a sb.TopK, got {type(query).__name__}: write {EXAMPLE}")


def per_of(queries: Iterable[TopK]) -> list[str]:
    """Return the columns that any of the queries groups by, in the order in which they are first named."""
    return list(dict.fromkeys(name for query in queries for name in query.per))


def shorten_names(names: Sequence[str], most: int) -> str:
    """Return so many of the names as text, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# ---------------------------------------------------------------- when a query is active


@dataclass(frozen=True)
class Admission:
    """From when on a query that was added to a running stream is answered.

    Its windows are exact, and answered, from the one that starts at `exact_from` on: rows that came before may be
    gone. None: all of them. With counting windows of many groups it is the position of the group that is furthest on.
    """

    name: str
    exact_from: Any = None


def latest_admission(name: str, admissions: Sequence[Admission]) -> Admission:
    """Return what holds for all streams that run: usually there is one."""
    later = [admission for admission in admissions if admission.exact_from is not None]
    return max(later, key=lambda admission: admission.exact_from, default=Admission(name))


def first_start(member: FamilyMember) -> int:
    """Return where the first window of a member begins."""
    assigner = member.clock
    if member.low == MIN_TIME or not assigner.slide:
        return member.low
    return assigner.origin + -(-(member.low - assigner.origin) // assigner.slide) * assigner.slide


def active_span(query: TopK, active: tuple[Moment, Moment] | None) -> tuple[int, int]:
    """Return from when to when a query is active, in microseconds or positions.

    Examples
    --------
    >>> import skyband as sb
    >>> active_span(sb.TopK(k=1, by="x", window=sb.Tumbling("1 s"), time="t"), ("1970-01-01T00:00:01", None))[0]
    1000000
    """
    if active is None:
        return ALWAYS
    try:
        begin, end = active
    except (TypeError, ValueError):
        raise invalid("active", "be a pair of times or positions", active, "(from, to), each may be None") from None
    low = MIN_TIME if begin is None else _position(query, begin)
    high = UNBOUNDED if end is None else _position(query, end)
    if low >= high:
        raise invalid("active", "end after it begins", active, "(from, to)")
    if query.window.counts and low <= 0:  # the first windows begin there, though they lack rows
        low = MIN_TIME
    member = with_span(member_of(query, 0, "", points=False), (low, high))
    if first_start(member) >= member.high:
        raise invalid("active", f"contain a whole window of {query.window!r}", active, "a longer span")
    return low, high


def _position(query: TopK, value: Any) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if query.window.counts:
            return int(value)
        from skyband.runtime.schema import TICKS

        per, parts = TICKS[query.unit or "us"]
        return int(value) * per // parts
    if query.window.counts:
        raise invalid("active", f"have positions, since {query.window!r} counts rows", value, "whole numbers")
    try:
        return parse_instant(value, "active")
    except QueryError:
        usage = '"2024-01-01T06:00:00", a datetime or a whole number'
        raise invalid("active", "have times", value, usage) from None


def with_span(member: FamilyMember, span: tuple[int, int]) -> FamilyMember:
    """Return the member with only the windows in a span: they begin at its start or later and end by its end."""
    (low, high), assigner = span, member.clock
    return replace(
        member,
        low=low if low == MIN_TIME else low + assigner.shift,
        high=high if high == UNBOUNDED else high + assigner.shift - assigner.size + 1,
    )


# ---------------------------------------------------------------- a family over several tasks


def check_tasks(field: str, tasks: object) -> None:
    """Raise unless this is a number of tasks or buckets.

    Examples
    --------
    >>> check_tasks("tasks", 0)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: tasks must be an integer from 1 to 1,024, got 0
    """
    check_integer(field, tasks, 1, MAX_TASKS)


def split(family: QueryFamily, tasks: int) -> list[QueryFamily]:
    """Split a family into so many parts of about the same weight, for as many tasks.

    Examples
    --------
    >>> import skyband as sb
    >>> one = families([sb.TopK(k=k, by="x", window=sb.Counting(100, 10)) for k in (1, 5, 6, 2)])[0]
    >>> [[m.k for m in part.members] for part in split(one, 2)]
    [[1, 6], [5, 2]]
    """
    parts: list[list[FamilyMember]] = [[] for _ in range(min(tasks, len(family.members)))]
    weight = [0.0] * len(parts)
    for member in sorted(family.members, key=_weight, reverse=True):
        lightest = weight.index(min(weight))
        parts[lightest].append(member)
        weight[lightest] += _weight(member)
    return [family.with_members(part) for part in parts] if len(parts) > 1 else [family]


def _weight(member: FamilyMember) -> float:
    """Return the rows of answers for each unit of time."""
    return member.k / max(member.clock.slide, 1)
