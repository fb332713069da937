"""How a workload falls into families, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from skyband.engines.registry import ENGINES
from skyband.query.duration import spoken
from skyband.query.expression import Expression
from skyband.workload.registry import WORKLOADS
from skyband.workload.split import split

if TYPE_CHECKING:
    from skyband.workload.family import Family


def described(families: Sequence[Family], engine: str, tasks: int = 1) -> tuple[str, tuple[str, ...]]:
    """Why the engine; lines on the workload, on each family and what it keeps, and on its parts in so many tasks."""
    shared = engine in WORKLOADS
    why = "one structure for every family" if shared else "one for every query: nothing is shared"
    return why, tuple(_lines(families, engine, tasks))


def _lines(families: Sequence[Family], engine: str, tasks: int) -> Iterator[str]:
    queries = sum(len(family.members) for family in families)
    traits = WORKLOADS[engine].traits if engine in WORKLOADS else ENGINES[engine].traits
    yield f"workload: {queries} queries in {len(families)} {'family' if len(families) == 1 else 'families'}"
    yield f"keeps: {traits.memory}"
    for number, family in enumerate(families, 1):
        query, names = family.query, [member.name for member in family.members]
        by = query.by.text if isinstance(query.by, Expression) else "a function"
        per = f" per {', '.join(query.per)}" if query.per else ""
        yield f"family {number}: by {by}{per}: {_some(names)}"
        if query.window.kind == "row":
            yield "  after every row: on an engine of its own"
            continue
        sizes = [member.window.size for member in family.members]
        ks = [member.k for member in family.members]
        views = sum(-(-member.window.size // member.window.slide) for member in family.members)
        window = f"{_long(min(sizes), family)} to {_long(max(sizes), family)}" if len(set(sizes)) > 1 else ""
        k = f"{min(ks)} to {max(ks)}" if len(set(ks)) > 1 else f"{ks[0]}"
        yield f"  windows of {window or _long(sizes[0], family)}, k {k}; at most {views} views open at once"
        if tasks > 1:
            for task, part in enumerate(split(family, tasks), 1):
                yield f"  task {task} on Spark: {_some([member.name for member in part.members])}"


def _some(names: Sequence[str]) -> str:
    return f"{', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}"


def _long(size: int, family: Family) -> str:
    return f"{size} rows" if family.counts else spoken(size)
