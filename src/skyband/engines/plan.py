"""Which engine serves a query or a family, and with which options."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skyband.engines.registry import ENGINES, GRID_OPTIONS
from skyband.errors import QueryError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skyband.engines.family import QueryFamily
    from skyband.query import TopK


DEFAULT_ENGINE = next(iter(ENGINES))

TOTALS = "totals"
"""Reported as the engine of leaderboards, which take no rows and so have no entry in `ENGINES`."""

FEW_POINT_QUERIES = 15
"""Up to so many queries about points are faster on engines of their own, and keep less: a grid holds the window."""

# The stream is not known beforehand, so what counts is where an engine does worst: how many times slower it is than
# the best one, over all k, windows, slides and orders of rows in lab/results/plan.jsonl (`skyband bench plan`).
_SLIDE_REASON = "exact, serves every window and all groups in one call, and is fast on every stream"
_ROW_REASON = "exact, serves all groups in one call, and compares nearly every row once"


class Plan(NamedTuple):
    """An engine's name and the reason for it."""

    engine: str
    why: str


def choose(query: TopK, engine: str = "auto") -> Plan:
    """Choose the engine for `query`: the one asked for if it can serve the query, or the default.

    Examples
    --------
    >>> import skyband as sb
    >>> choose(sb.TopK(k=10, by="x", window=sb.Counting(100, 10))).engine
    'sweep'
    """
    if query.of:
        if engine not in ("auto", TOTALS):
            msg = f'engine must be "auto" for a query with of=, which ranks keys, got {engine!r}'
            raise QueryError(msg)
        return Plan(TOTALS, "keys ranked by their totals: partial totals by pane, and a view on the totals")
    if engine == "auto":
        return Plan(DEFAULT_ENGINE, _ROW_REASON if "every row" in query.window.kinds else _SLIDE_REASON)
    _check_name(engine)
    if not query.window.kinds & ENGINES[engine].traits.windows:
        able = ", ".join(name for name, entry in ENGINES.items() if query.window.kinds & entry.traits.windows)
        msg = f"engine={engine!r} does not serve {query.window!r}: write one of {able}"
        raise QueryError(msg)
    return Plan(engine, "asked for")


def resolve_engine(engine: str, queries: Iterable[TopK] = ()) -> str:
    """Return the name of the engine for many queries, each of which it must serve.

    Queries after every row run on the default engine where the one asked for shares a structure between windows.
    """
    if engine == "auto":
        return DEFAULT_ENGINE
    _check_name(engine)
    if not ENGINES[engine].traits.shared:
        for query in queries:
            choose(query, engine)
    return engine


def is_shared(engine: str, family: QueryFamily, *, fixed: bool = False) -> bool:
    """Return whether one structure serves all members of a family; if not, each has an engine of its own.

    Where members are `fixed`, none will be added or removed.
    """
    if family.points:
        return True
    return ENGINES[engine].traits.shared and not family.prefers_separate_engines(fixed=fixed)


def allows_changes(engine: str, family: QueryFamily, *, fixed: bool = False) -> bool:
    """Return whether members may be added to a running family, and change their k."""
    traits = ENGINES[engine].traits
    if family.points:
        return traits.points == "grid"
    return traits.shared and (traits.changes or not is_shared(engine, family, fixed=fixed))


def few_point_queries(engine: str, emit: str) -> int | None:
    """Return up to how many queries about points run on engines of their own; None: they never share a grid."""
    traits = ENGINES[engine].traits
    if traits.shared:
        return FEW_POINT_QUERIES if traits.points else None
    return 0 if traits.points == "grid" or (traits.points == "watched" and emit == "arrivals") else None


def check_options(engine: str, family: QueryFamily, options: Mapping[str, object] | None) -> None:
    """Raise unless the engine takes these options when it serves the family."""
    known = _options(engine, family)
    for option in options or {}:
        if option not in known:
            gridless = " for queries that share no grid" if option in GRID_OPTIONS and not family.points else ""
            msg = f"engine {engine!r} has no option {option!r}{gridless}: {nearest(str(option), known)}"
            raise QueryError(msg)


def _options(engine: str, family: QueryFamily) -> tuple[str, ...]:
    entry = ENGINES[engine]
    if not family.points:
        return entry.options
    return tuple(dict.fromkeys((*GRID_OPTIONS, *entry.options)))


def _check_name(engine: str) -> None:
    if engine not in ENGINES:
        msg = f'engine={engine!r} is unknown: write "auto", or {nearest(str(engine), ENGINES)}'
        raise QueryError(msg)
