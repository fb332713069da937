"""Families: queries that can share one structure, and how a workload falls into them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from skyband.engines.family import (
    UNBOUNDED,
    FamilyMember,
    QueryFamily,
    ReservedCapacity,
    common_query,
)
from skyband.errors import QueryError
from skyband.query import Distance, TopK, Weighted
from skyband.query.expression import Expression
from skyband.windows import MIN_TIME

Family = QueryFamily
Member = FamilyMember
Reserve = ReservedCapacity
NEVER = MIN_TIME
AFTER = UNBOUNDED
_POINTS = "points"


def families(
    queries: Sequence[TopK], names: Sequence[str] | None = None, *, few: int | None = None, bounded: Sequence[int] = ()
) -> list[Family]:
    """The families of a workload, in the order of their first queries; an error if it is none.

    More than `few` queries about points share a grid, but for those `bounded` to a part of the stream. None: no grids.
    """
    named = names or check(queries)
    near = {at: grid_key(query) for at, query in enumerate(queries) if few is not None and at not in bounded}
    sizes = Counter(near.values())
    split: dict[tuple[object, ...], list[Member]] = {}
    first: dict[tuple[object, ...], TopK] = {}
    for number, (query, name) in enumerate(zip(queries, named, strict=True)):
        key = near.get(number)
        if key is None or few is None or sizes[key] <= few:
            key = sharing_key(query, number)
        first.setdefault(key, query)
        split.setdefault(key, []).append(member_of(query, number, name, points=key[0] == _POINTS))
    return [
        Family(common_query(first[key], members), tuple(members), points=key[0] == _POINTS)
        for key, members in split.items()
    ]


def member_of(query: TopK, number: int, name: str, *, points: bool) -> Member:
    """A query as a member of a family."""
    by = query.by if points and isinstance(query.by, (Distance, Weighted)) else None
    return Member(number, name, int(query.k), query.window, by=by)


def sharing_key(query: TopK, number: int) -> tuple[object, ...]:
    """What queries must agree in to share. Those after every row share with none but their likes in all."""
    by = query.by.text if isinstance(query.by, Expression) else query.by
    alone = (number,) if query.window.kind == "row" else ()
    return (by, query.time, query.per, query.id, query.ascending, query.unit, *alone)


def grid_key(query: TopK) -> tuple[object, ...] | None:
    """What queries must agree in to share a grid; None if this one cannot.

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


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
