"""ENGINES, the only list of engines there is.

The command line, the contract suite, the benchmarks and the docs all walk over it. Naming an engine's
module as text keeps numba out of `import skyband`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyband.engines.protocol import Traits
from skyband.errors import QueryError, nearest

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
    options: tuple[str, ...] = ()  # what `run(..., options=)` may set on it

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
    ['sweep', 'mintopk', 'pretopk', 'sap', 'recompute', 'strict', ...]
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
_ROWS = frozenset({"every row"})
_TOPKW = "Pripuzic et al., TODS 2015"


def _filtered(name: str, band: str, screen: str, cost: str, options: tuple[str, ...]) -> Entry:
    """SA or RA behind a buffer."""
    return Entry(
        name,
        f"filtered:{name}",
        Traits(
            exact=True,
            groups=False,
            windows=_ROWS,
            minimal=True,
            cost=cost,
            memory=f"a buffer of b rows, its {screen} filter, the {band} k-skyband",
            paper=f"{_TOPKW}, section 5",
        ),
        ("buffer", *options),
    )


def _celled(name: str, label: str, lists: str, search: str, paper: str) -> Entry:
    """An engine that keeps the whole window in the cells of a grid."""
    return Entry(
        name,
        f"{name}:{name.upper()}",
        Traits(
            exact=True,
            groups=False,
            windows=_ROWS,
            minimal=False,
            cost=f"O(1), O(k) for a candidate, and a search of the cells {search}",
            memory=f"every row of the window, and {lists}",
            paper=f"{paper}, after {_TOPKW}, section 2 ({label})",
        ),
        ("grid", "slices"),
    )


_BY_COUNT = "O(log c + k) on average in random order, of c candidates"
_BY_WALK = "O(log c + k + log k / gamma) on average in random order, of c candidates"
_BY_BAR = "2 comparisons for nearly every row in random order"

ENGINES = Registry(
    Entry(
        "sweep",
        "sweep:sweep_for",
        Traits(
            exact=True,
            groups=True,
            windows=_EVERY,
            minimal=True,
            cost="O(1) for nearly every row, O(log k) for a candidate",
            memory="about 1.5 times the minimal set in random order, at most twice",
            paper="ours",
        ),
    ),
    Entry(
        "mintopk",
        "mintopk:MinTopk",
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
        "pretopk:PreTopk",
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
        "sap",
        "sap:SAP",
        Traits(
            exact=True,
            groups=False,
            windows=_SLIDE,
            minimal=False,
            cost="2 comparisons for nearly every row; O(k p) an answer, with p partitions",
            memory="every row of the window, k places a partition",
            paper="Zhu et al., TKDE 2017",
        ),
        ("partition",),
    ),
    Entry(
        "recompute",
        "recompute:Recompute",
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
    Entry(
        "strict",
        "strict:Strict",
        Traits(
            exact=True,
            groups=False,
            windows=_ROWS,
            minimal=True,
            cost=_BY_COUNT,
            memory="the k-skyband and a counter a row",
            paper=f"{_TOPKW}, section 3.2 (SA)",
        ),
    ),
    Entry(
        "relaxed",
        "relaxed:Relaxed",
        Traits(
            exact=True,
            groups=False,
            windows=_ROWS,
            minimal=True,
            cost=_BY_WALK,
            memory="1 to 1 + gamma times the k-skyband",
            paper=f"{_TOPKW}, section 4.2 (RA)",
        ),
        ("gamma",),
    ),
    Entry(
        "probabilistic",
        "probabilistic:Probabilistic",
        Traits(
            exact=False,
            groups=False,
            windows=_ROWS,
            minimal=False,
            cost="1 comparison for nearly every row in random order",
            memory="the k + limit + additional best-ranked rows of the window",
            paper=f"{_TOPKW}, section 4.1 (PA)",
            bound="in random order, of N rows over windows of n, fewer than sigma * N / n missed and fewer than "
            "1.5 * sigma * N / n false; in any other order nothing",
        ),
        ("limit", "additional", "sigma"),
    ),
    _filtered("sasf", "strict", "strict", _BY_COUNT, ("cell",)),
    _filtered("sarf", "strict", "relaxed", _BY_WALK, ("gamma", "cell")),
    _filtered("sapf", "strict", "probabilistic", _BY_BAR, ("sigma", "limit")),
    _filtered("rasf", "relaxed", "strict", _BY_COUNT, ("gamma", "cell")),
    _filtered("rarf", "relaxed", "relaxed", _BY_WALK, ("gamma", "cell")),
    _filtered("rapf", "relaxed", "probabilistic", _BY_BAR, ("gamma", "sigma", "limit")),
    Entry(
        "hybrid",
        "hybrid:Hybrid",
        Traits(
            exact=False,
            groups=False,
            windows=_ROWS,
            minimal=False,
            cost="that of `probabilistic` in random order, else that of `rapf`; O(1) to tell them apart",
            memory="that of the engine at work, and a buffer of b rows",
            paper=f"ours, after {_TOPKW}, section 4.1.3",
            bound="that of `probabilistic` while the stream looks random; when order is seen, nothing that it still "
            "had or that is in the buffer is lost, and one window later answers are exact",
        ),
        ("buffer", "gamma", "sigma", "limit", "additional"),
    ),
    _celled("tma", "TMA", "the k best", "when one of the k best leaves", "Mouratidis et al., SIGMOD 2006"),
    _celled("sma", "SMA", "a k-skyband", "when fewer than k are left", "Mouratidis et al., SIGMOD 2006"),
    _celled("cpm", "CPM/w", "the k best", "when one of the k best leaves", "Mouratidis and Papadias, TKDE 2007"),
    _celled("snn", "SNN", "a k-skyband", "when fewer than k are left", "Mouratidis and Papadias, TKDE 2007"),
)


def build(
    name: str,
    query: TopK,
    resume: Mapping[str, np.ndarray] | None = None,
    options: Mapping[str, object] | None = None,
) -> Engine:
    """A running engine for `query`, with `PerGroup` around one that knows no groups."""
    entry = ENGINES[name]
    for option, value in (options or {}).items():
        if option not in entry.options:
            known = nearest(str(option), entry.options)
            msg = f"options={{{option!r}: {value!r}}} says nothing to engine={name!r}: {known}"
            raise QueryError(msg)
    told: dict[str, Any] = dict(options or {})
    made: EngineClass = partial(entry.load(), **told) if told else entry.load()
    if entry.traits.groups or not query.per:
        return made(query, resume)
    from skyband.engines.per_group import PerGroup

    return PerGroup(made, query, resume)
