"""ENGINES, the only list of engines there is.

The command line, the contract suite, the benchmarks and the docs all walk over it. Naming an engine's
module as text keeps numba out of `import skyband`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from skyband.engines.protocol import Traits

if TYPE_CHECKING:
    import numpy as np

    from skyband.engines.protocol import Engine, EngineClass
    from skyband.query import TopK


@dataclass(frozen=True)
class Entry:
    """An engine by name: what it can do, and where its class is."""

    name: str
    where: str  # "module:class" below skyband.engines
    traits: Traits

    def load(self) -> EngineClass:
        """The engine's class; imports its kernels."""
        module, _, attribute = self.where.partition(":")
        found: EngineClass = getattr(import_module(f"skyband.engines.{module}"), attribute)
        return found


class Registry(Mapping[str, Entry]):
    """The engines by name, best first.

    Examples
    --------
    >>> import skyband as sb
    >>> list(sb.ENGINES)
    ['sweep', 'mintopk', 'pretopk', 'recompute']
    >>> sb.ENGINES["mintopk"].traits.exact
    True
    """

    def __init__(self, *entries: Entry) -> None:
        self._entries = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


_EVERY = frozenset({"slide", "row"})
_SLIDE = frozenset({"slide"})
_MINTOPK = "Yang et al., EDBT 2011"

ENGINES = Registry(
    Entry(
        "sweep",
        "sweep:Sweep",
        Traits(
            exact=True,
            groups=True,
            windows=_EVERY,
            minimal=True,
            cost="O(1) for nearly every row, O(log k) for a candidate",
            memory="at most 1.4 times the minimal set",
            paper="ours",
        ),
    ),
    Entry(
        "mintopk",
        "slide.mintopk:MinTopk",
        Traits(
            exact=True,
            groups=False,
            windows=_SLIDE,
            minimal=True,
            cost="O(log c + w) for a candidate, with c candidates, on w of the open windows",
            memory="the minimal set, 2 marks a row, 1 pointer a window",
            paper=f"{_MINTOPK}, section 4",
        ),
    ),
    Entry(
        "pretopk",
        "slide.pretopk:PreTopk",
        Traits(
            exact=True,
            groups=False,
            windows=_SLIDE,
            minimal=True,
            cost="O(w log k) for a candidate, on w of the open windows",
            memory="k references for every open window",
            paper=f"{_MINTOPK}, section 3.2",
        ),
    ),
    Entry(
        "recompute",
        "slide.recompute:Recompute",
        Traits(
            exact=True,
            groups=False,
            windows=_EVERY,
            minimal=False,
            cost="O(size / slide)",
            memory="every row of the window",
            paper="the plain way",
        ),
    ),
)


def build(name: str, query: TopK, resume: Mapping[str, np.ndarray] | None = None) -> Engine:
    """A running engine for `query`, with `PerGroup` around one that knows no groups."""
    entry = ENGINES[name]
    if entry.traits.groups or not query.per:
        return entry.load()(query, resume)
    from skyband.engines.pergroup import PerGroup

    return PerGroup(entry.load(), query, resume)
