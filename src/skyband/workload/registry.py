"""WORKLOADS, the list of engines for many queries; every engine for one query serves them too, one by one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from skyband.engines.protocol import Traits
from skyband.engines.registry import ENGINES
from skyband.errors import QueryError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

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


def build_shared(name: str, family: Family, resume: Mapping[str, np.ndarray] | None = None) -> SharedEngine:
    """A running engine for `family`: a shared one, or one for every query."""
    if name not in WORKLOADS:
        from skyband.workload.independent import Independent

        return Independent(name, family, resume)
    made = WORKLOADS[name].load()
    if WORKLOADS[name].traits.groups or not family.query.per:
        return made(family, resume)
    from skyband.workload.pergroup import SharedPerGroup

    return SharedPerGroup(made, family, resume)


def known(name: str) -> str:
    """The name, "auto" resolved; an error if there is no such engine."""
    if name == "auto":
        return next(iter(WORKLOADS))
    if name not in WORKLOADS and name not in ENGINES:
        msg = f'engine={name!r} is unknown: write "auto", or {nearest(name, [*WORKLOADS, *ENGINES])}'
        raise QueryError(msg)
    return name
