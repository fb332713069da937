"""Describe the families of a workload, for `explain`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from skyband.engines.registry import ENGINES, is_shared
from skyband.query import Weighted
from skyband.query.duration import format_duration
from skyband.workload.family import shorten_names, split

if TYPE_CHECKING:
    from skyband.engines.family import QueryFamily


def describe(
    families: Sequence[QueryFamily], engine: str, tasks: int = 1, *, fixed: bool = False
) -> tuple[str, tuple[str, ...]]:
    """Return the reason for the engine; lines on the workload, its families, what they keep, and their tasks."""
    shared = ENGINES[engine].traits.shared or all(family.points for family in families)
    why = "one structure for every family" if shared else "one for every query: nothing is shared"
    return why, tuple(_lines(families, engine, tasks, fixed=fixed))


def _lines(families: Sequence[QueryFamily], engine: str, tasks: int, *, fixed: bool) -> Iterator[str]:
    queries = sum(len(family.members) for family in families)
    traits = ENGINES[engine].traits
    yield f"workload: {queries} queries in {len(families)} {'family' if len(families) == 1 else 'families'}"
    if not all(family.points for family in families):
        yield f"keeps: {traits.memory}"
    for number, family in enumerate(families, 1):
        query, names = family.query, [member.name for member in family.members]
        by = _score_text(query.by) if not family.points else _point_score(family)
        per = f" per {', '.join(query.per)}" if query.per else ""
        yield f"family {number}: by {by}{per}: {shorten_names(names, 4)}"
        if family.points:
            yield from _grid_lines(family, engine)
            continue
        if traits.shared and not is_shared(engine, family, fixed=fixed):
            yield f"  after every row: on {'an engine of its own' if len(names) == 1 else 'engines of their own'}"
            continue
        sizes = [member.clock.size for member in family.members]
        ks = [member.k for member in family.members]
        views = sum(member.clock.ratio for member in family.members)
        window = f"{_length(min(sizes), family)} to {_length(max(sizes), family)}" if len(set(sizes)) > 1 else ""
        k = f"{min(ks)} to {max(ks)}" if len(set(ks)) > 1 else f"{ks[0]}"
        yield f"  windows of {window or _length(sizes[0], family)}, k {k}; at most {views} views open at once"
        if tasks > 1:
            for task, part in enumerate(split(family, tasks), 1):
                yield f"  task {task} on Spark: {shorten_names([member.name for member in part.members], 4)}"


def _grid_lines(family: QueryFamily, engine: str) -> Iterator[str]:
    """Describe what queries that share a grid keep and emit."""
    query, ks = family.query, [member.k for member in family.members]
    k = f"{min(ks)} to {max(ks)}" if len(set(ks)) > 1 else f"{ks[0]}"
    yield f"  windows of {_length(family.members[0].clock.size, family)} after every row, k {k}; they share one grid"
    traits = ENGINES[engine].traits
    if traits.points == "watched":
        yield f"  keeps: for each query what {engine} keeps, and one buffer for all"
        yield "  a row meets the queries that watch its cell, when it comes and when it leaves the buffer"
        return
    yield f"  keeps: every row of the window once, in the cells of the grid; for each query {traits.grid_list}"
    yield "  a row meets the queries that watch its cell; one that comes while the stream runs is exact at once"
    if query.emit == "answers":
        yield '  heavy: up to k rows a query for every row, where "changes" or "arrivals" say less'


def _point_score(family: QueryFamily) -> str:
    kind = "weighted sum" if isinstance(family.query.by, Weighted) else f"{family.query.by.metric} distance"  # type: ignore[union-attr]
    return f"a {kind} of {', '.join(family.axes)}, each its own"


def _score_text(by: object) -> str:
    text: str = getattr(by, "text", "a function")
    return text


def _length(size: int, family: QueryFamily) -> str:
    return f"{size} rows" if family.counts else format_duration(size)
