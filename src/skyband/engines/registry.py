"""ENGINES, the one list of engines; which of them serves a query or a family, and how it is built.

The command line, the contract suite, the benchmarks and the docs iterate over it. Engine modules are named as text, so
that `import skyband` does not import kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from skyband.engines.family import QueryFamily
from skyband.errors import QueryError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np

    from skyband.engines.protocol import Engine, EngineClass
    from skyband.query import TopK


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What an engine can do, for the planner, the contract suite and the docs."""

    exact: bool = True  # agrees with the oracle row by row, ties included
    groups: bool = False  # takes a group column; otherwise `PerGroup` runs one engine for every group
    windows: frozenset[str]  # the kinds of window it serves, see `Sliding.kinds`: "slide", "row", "every row"
    minimal: bool = True  # candidates() is exactly the minimal set
    cost: str  # per object, for the table in the docs
    memory: str
    paper: str  # where it comes from
    bound: str = ""  # what it promises if it is not exact
    shared: bool = False  # one structure serves all queries of a family; otherwise each query has an engine of its own
    changes: bool = False  # queries may be added, removed and changed while it runs
    points: Literal["grid", "watched"] | None = None
    """How queries about points share a grid: "grid" keeps the window's points in it, "watched" keeps what the engine
    keeps for each query, of arrivals only; None: they do not."""
    grid_list: str = ""  # what each of them keeps besides the points in the grid


@dataclass(frozen=True)
class EngineEntry:
    """An engine by name: what it can do, and where its class is."""

    name: str
    where: str  # "module:class"; a module that begins with a dot is below skyband.engines
    traits: Traits
    options: tuple[str, ...] = ()  # what `run(..., options=)` may set on it

    def load(self) -> Callable[..., Engine]:
        """Import the engine; return a function that makes one: of a query, a snapshot and options.

        Examples
        --------
        >>> import skyband as sb
        >>> engine = sb.ENGINES["mintopk"].load()(sb.TopK(k=1, by="x", window=sb.Counting(3)))
        >>> len(engine.candidates().id)
        0
        """
        engine_class = self.engine_class()

        def make(query: TopK, resume: Mapping[str, np.ndarray] | None = None, **options: Any) -> Engine:
            return engine_class(QueryFamily.of(query), resume, **options)

        return make

    def engine_class(self) -> EngineClass:
        """Import the engine's class and its kernels."""
        module, _, attribute = self.where.partition(":")
        found: EngineClass = getattr(import_module(module, __package__), attribute)
        return found


class Registry(Mapping[str, EngineEntry]):
    """The engines by name, the default first.

    Examples
    --------
    >>> import skyband as sb
    >>> list(sb.ENGINES)
    ['sweep', 'mintopk', 'pretopk', 'sap', 'recompute', 'mtoplist', 'mtopband', 'strict', ...]
    >>> sb.ENGINES["mintopk"].traits.exact
    True
    """

    def __init__(self, *entries: EngineEntry) -> None:
        self._entries = {entry.name: entry for entry in entries}

    def __getitem__(self, name: str) -> EngineEntry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def register(self, entry: EngineEntry) -> None:
        """Add an engine, behind all others; its name must be new."""
        if entry.name in self._entries:
            raise QueryError(f"name must be new, got {entry.name!r}, which is an engine: choose another name")
        self._entries[entry.name] = entry


GRID_OPTIONS = ("grid", "slices", "index")
"""Options of a grid that queries share: see `PointGrid`."""

_EVERY = frozenset({"slide", "row"})
_SLIDE = frozenset({"slide"})
_MINTOPK = "Yang et al., EDBT 2011"
_MTOPS = "Shastri et al., CIKM 2011"
_ROWS = frozenset({"every row"})
_TOPKW = "Pripuzic et al., TODS 2015"


def _filtered(name: str, band: str, screen: str, cost: str, options: tuple[str, ...]) -> EngineEntry:
    """Make the entry of SA or RA behind a buffer."""
    return EngineEntry(
        name,
        f".topkw:{name}",
        Traits(
            windows=_ROWS,
            cost=cost,
            memory=f"a buffer of b rows, its {screen} filter, the {band} k-skyband",
            paper=f"{_TOPKW}, section 5",
            points="watched",
        ),
        ("buffer", *options),
    )


def _celled(name: str, label: str, lists: str, search: str, paper: str) -> EngineEntry:
    """Make the entry of an engine that keeps the whole window in the cells of a grid."""
    return EngineEntry(
        name,
        f".point_grid:{name.upper()}",
        Traits(
            windows=_ROWS,
            minimal=False,
            cost=f"O(1), O(k) for a candidate, and a search of the cells {search}",
            memory=f"every row of the window; for each query {lists}",
            paper=f"{paper}, after {_TOPKW}, section 2 ({label})",
            points="grid",
            grid_list=lists,
        ),
        GRID_OPTIONS,
    )


_BY_COUNT = "O(log c + k) on average in random order, of c candidates"
_BY_WALK = "O(log c + k + log k / gamma) on average in random order, of c candidates"
_BY_BAR = "2 comparisons for nearly every row in random order"

ENGINES = Registry(
    EngineEntry(
        "sweep",
        ".sweep:sweep_for",
        Traits(
            groups=True,
            windows=_EVERY,
            cost="O(1) for nearly every row, O(log k) for a candidate",
            memory="at most twice the minimal set, about 1.5 times in random order",
            paper="ours",
            shared=True,
            changes=True,
            points="grid",
            grid_list="a reserve behind its k best",
        ),
    ),
    EngineEntry(
        "mintopk",
        ".mintopk:MinTopk",
        Traits(
            windows=_SLIDE,
            cost="O(log c + w) for a candidate, with c candidates, on w of the open windows",
            memory="the minimal set, 2 marks a row, 1 pointer a window",
            paper=f"{_MINTOPK}, section 4",
        ),
    ),
    EngineEntry(
        "pretopk",
        ".pretopk:PreTopk",
        Traits(
            windows=_SLIDE,
            cost="O(w log k) for a candidate, on w of the open windows",
            memory="k references for every open window",
            paper=f"{_MINTOPK}, section 3.2",
        ),
    ),
    EngineEntry(
        "sap",
        ".sap:SAP",
        Traits(
            windows=_SLIDE,
            minimal=False,
            cost="2 comparisons for nearly every row; O(k p) an answer, with p partitions",
            memory="every row of the window, k places a partition",
            paper="Zhu et al., TKDE 2017",
        ),
        ("partition",),
    ),
    EngineEntry(
        "recompute",
        ".recompute:Recompute",
        Traits(
            windows=_EVERY,
            minimal=False,
            cost="O(size / slide)",
            memory="every row of the window",
            paper="baseline",
        ),
    ),
    EngineEntry(
        "mtoplist",
        ".mtoplist:MTopList",
        Traits(
            windows=_SLIDE,
            cost="O(v / 64 + w) for an arrival that enters w of v views",
            memory="the minimal set of all queries, 1 pointer a view",
            paper=f"{_MTOPS}, section 6",
            shared=True,
        ),
    ),
    EngineEntry(
        "mtopband",
        ".mtopband:MTopBand",
        Traits(
            windows=_SLIDE,
            cost="O(v / 64 + w log k) for an arrival that enters w of v views",
            memory="the minimal set of all queries, k references a view",
            paper=f"{_MTOPS}, section 5",
            shared=True,
        ),
    ),
    EngineEntry(
        "strict",
        ".topkw:Strict",
        Traits(
            windows=_ROWS,
            cost=_BY_COUNT,
            memory="the k-skyband and a counter a row",
            paper=f"{_TOPKW}, section 3.2 (SA)",
        ),
    ),
    EngineEntry(
        "relaxed",
        ".topkw:Relaxed",
        Traits(
            windows=_ROWS,
            cost=_BY_WALK,
            memory="1 to 1 + gamma times the k-skyband",
            paper=f"{_TOPKW}, section 4.2 (RA)",
        ),
        ("gamma",),
    ),
    EngineEntry(
        "probabilistic",
        ".topkw:Probabilistic",
        Traits(
            exact=False,
            windows=_ROWS,
            minimal=False,
            cost="1 comparison for nearly every row in random order",
            memory="the k + limit + additional best-ranked rows of the window",
            paper=f"{_TOPKW}, section 4.1 (PA)",
            bound="in random order, of N rows over windows of n, fewer than sigma * N / n missed and fewer than "
            "1.5 * sigma * N / n false; in any other order nothing",
            points="watched",
        ),
        ("limit", "additional", "sigma"),
    ),
    _filtered("sasf", "strict", "strict", _BY_COUNT, ("cell",)),
    _filtered("sarf", "strict", "relaxed", _BY_WALK, ("gamma", "cell")),
    _filtered("sapf", "strict", "probabilistic", _BY_BAR, ("sigma", "limit")),
    _filtered("rasf", "relaxed", "strict", _BY_COUNT, ("gamma", "cell")),
    _filtered("rarf", "relaxed", "relaxed", _BY_WALK, ("gamma", "cell")),
    _filtered("rapf", "relaxed", "probabilistic", _BY_BAR, ("gamma", "sigma", "limit")),
    EngineEntry(
        "hybrid",
        ".hybrid:Hybrid",
        Traits(
            exact=False,
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
    _celled("tma", "TMA", "its k best", "when one of the k best leaves", "Mouratidis et al., SIGMOD 2006"),
    _celled("sma", "SMA", "a k-skyband", "when fewer than k are left", "Mouratidis et al., SIGMOD 2006"),
    _celled("cpm", "CPM/w", "its k best", "when one of the k best leaves", "Mouratidis and Papadias, TKDE 2007"),
    _celled("snn", "SNN", "a k-skyband", "when fewer than k are left", "Mouratidis and Papadias, TKDE 2007"),
)


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
            raise QueryError(f'engine must be "auto" for a query with of=, which ranks keys, got {engine!r}')
        return Plan(TOTALS, "keys ranked by their totals: partial totals by pane, and a view on the totals")
    if engine == "auto":
        return Plan(DEFAULT_ENGINE, _ROW_REASON if "every row" in query.window.kinds else _SLIDE_REASON)
    _check_name(engine)
    if not query.window.kinds & ENGINES[engine].traits.windows:
        able = ", ".join(name for name, entry in ENGINES.items() if query.window.kinds & entry.traits.windows)
        raise QueryError(f"engine={engine!r} does not serve {query.window!r}: write one of {able}")
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
            raise QueryError(f"engine {engine!r} has no option {option!r}{gridless}: {nearest(str(option), known)}")


def _options(engine: str, family: QueryFamily) -> tuple[str, ...]:
    entry = ENGINES[engine]
    if not family.points:
        return entry.options
    return tuple(dict.fromkeys((*GRID_OPTIONS, *entry.options)))


def _check_name(engine: str) -> None:
    if engine not in ENGINES:
        raise QueryError(f'engine={engine!r} is unknown: write "auto", or {nearest(str(engine), ENGINES)}')


def build(
    name: str,
    family: QueryFamily,
    resume: Mapping[str, np.ndarray] | None = None,
    options: Mapping[str, object] | None = None,
    *,
    fixed: bool = False,
) -> Engine:
    """Build an engine for `family`, or restore it from a snapshot.

    A single query, or a family that shares a structure, gets one engine, behind `PerGroup` if it takes no group
    column; any other family gets one engine for every member. Where members are `fixed`, none will be added or removed.
    """
    check_options(name, family, options)
    entry = ENGINES[name]
    if not family.is_single and not is_shared(name, family, fixed=fixed):
        from skyband.engines.composite import Independent

        alone = DEFAULT_ENGINE if entry.traits.shared else name
        return Independent(partial(build, alone, options=options), family, resume)
    given: dict[str, Any] = dict(options or {})
    engine_class: Any = entry.engine_class()
    if family.points and entry.traits.points == "watched":
        from skyband.engines.watched import Watched

        given["engine_class"], engine_class = engine_class, Watched
    make: EngineClass = partial(engine_class, **given)
    if family.query.per and (family.points or not entry.traits.groups):
        from skyband.engines.composite import PerGroup

        return PerGroup(make, family, resume)
    return make(family, resume)
