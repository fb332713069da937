"""WORKLOADS, the list of engines for many queries; every engine for one query serves them too, one by one."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from skyband.engines.plan import choose
from skyband.engines.protocol import Traits
from skyband.engines.registry import ENGINES
from skyband.errors import QueryError, nearest
from skyband.workload.family import FEW
from skyband.workload.pergroup import SharedPerGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np

    from skyband.query import TopK
    from skyband.workload.family import Family
    from skyband.workload.protocol import SharedEngine, SharedEngineClass


class Entry(NamedTuple):
    """An engine by name: what it can do, and where its class is."""

    name: str
    where: str  # "module:class" below skyband.workload
    traits: Traits
    changes: bool  # whether queries may come and go

    def load(self) -> SharedEngineClass:
        """The engine's class; imports its kernels."""
        module, _, attribute = self.where.partition(":")
        found: SharedEngineClass = getattr(import_module(f"skyband.workload.{module}"), attribute)
        return found


_SLIDE = frozenset({"slide"})
_MTOPS = "Shastri et al., CIKM 2011"
WORKLOADS = {
    entry.name: entry
    for entry in (
        Entry(
            "sweep",
            "sweep:SharedSweep",
            Traits(
                exact=True,
                groups=True,
                windows=_SLIDE,
                minimal=True,
                cost="O(1) for nearly every row, a walk down the band for an answer",
                memory="at most twice the minimal set of all queries",
                paper="ours",
            ),
            changes=True,
        ),
        Entry(
            "mtoplist",
            "mtoplist:MTopList",
            Traits(
                exact=True,
                groups=False,
                windows=_SLIDE,
                minimal=True,
                cost="O(v / 64 + w) for an arrival that enters w of v views",
                memory="the minimal set of all queries, 1 pointer a view",
                paper=f"{_MTOPS}, section 6",
            ),
            changes=False,
        ),
        Entry(
            "mtopband",
            "mtopband:MTopBand",
            Traits(
                exact=True,
                groups=False,
                windows=_SLIDE,
                minimal=True,
                cost="O(v / 64 + w log k) for an arrival that enters w of v views",
                memory="the minimal set of all queries, k references a view",
                paper=f"{_MTOPS}, section 5",
            ),
            changes=False,
        ),
    )
}


GRIDS = {"sweep": "reserve", "tma": "best", "cpm": "best", "sma": "band", "snn": "band"}
"""Engines under which queries about points share a grid, and how they keep their lists."""

WATCHED = ("probabilistic", "sasf", "sarf", "sapf", "rasf", "rarf", "rapf")
"""Engines for one query that define a threshold: of arrivals, they share a grid and a buffer."""

GRID_OPTIONS = ("grid", "slices", "index")
"""What a grid that queries share can be told: see `engines.point_grid.Many`."""


def build_shared(
    name: str,
    family: Family,
    resume: Mapping[str, np.ndarray] | None = None,
    options: Mapping[str, object] | None = None,
) -> SharedEngine:
    """A running engine for `family`: a shared one, or one for every query."""
    if family.points:
        from skyband.workload.grid import SharedGrid, SharedWatched

        how: dict[str, Any] = dict(options or {})
        made: Any = partial(SharedGrid, rule=GRIDS[name]) if name in GRIDS else partial(SharedWatched, engine=name)
        gridded = cast("SharedEngineClass", partial(made, **how))
        return SharedPerGroup(gridded, family, resume) if family.query.per else gridded(family, resume)
    if name not in WORKLOADS:
        from skyband.workload.independent import Independent

        return Independent(name, family, resume)
    shared = WORKLOADS[name].load()
    if WORKLOADS[name].traits.groups or not family.query.per:
        return shared(family, resume)
    return SharedPerGroup(shared, family, resume)


def few_for(name: str, emit: str) -> int | None:
    """Up to how many queries about points do not share a grid under an engine; None: they never do."""
    if name in WORKLOADS:
        return FEW if name in GRIDS else None
    return 0 if name in GRIDS or (name in WATCHED and emit == "arrivals") else None


def known(name: str, queries: Iterable[TopK] = ()) -> str:
    """The name, "auto" resolved; an error if there is no such engine, or if it does not serve one of the queries."""
    if name == "auto":
        return next(iter(WORKLOADS))
    if name in WORKLOADS:
        return name
    if name not in ENGINES:
        msg = (
            f'engine={name!r} is unknown: write "auto", or {nearest(str(name), dict.fromkeys([*WORKLOADS, *ENGINES]))}'
        )
        raise QueryError(msg)
    for query in queries:
        choose(query, name)
    return name
