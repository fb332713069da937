"""The k-NN suite: many queries over one stream of points, at the settings of the top-k/w paper, figures 9 to 12."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from skyband.engines import ENGINES, Objects, QueryFamily, build
from skyband.query import Counting, Distance, TopK
from skyband.workload.family import families
from skyband_lab.bench.points import POINTS
from skyband_lab.bench.slide import checked

WAYS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "ours": {},
        "ours, even grid": {"grid": "uniform"},
        "ours, no grid": {"index": False},
        "cpm": {},
        "snn": {},
    }
)
"""Ways to answer all queries together: the options of the engine of that name, or of `sweep`."""

HALF = "rapf2"
"""RAPF with the largest buffer there can be, b = n / 2."""

ALONE = ("sweep", "probabilistic", "rapf", HALF, "sasf")
"""Engines that are also measured alone: once a query, over the column of its distances. They define figure 10's left
side; `probabilistic` is not exact."""

WATCHED = tuple(f"{name}, grid" for name in ALONE if name != "sweep")
"""The same behind a query grid: figure 10's right side."""

GAMMA, BUFFER = 0.2, 2_000  # the paper's
ROWS, QUICK = 1_000_000, 20_000  # after the first window
_SAMPLE = 4  # queries that an engine alone is measured on; the time is scaled to all
_AGAIN, _PASSES = 1.0, 3  # a case that took less CPU time than this is done again, so often
_K = (1, 3, 9, 27, 81)


class Case(NamedTuple):
    """One way at one setting over one stream of points."""

    points: str = "uniform"
    way: str = "ours"
    k: int = 9
    queries: int = 400
    n: int = 40_000
    d: int = 2
    slices: int | None = None
    buffer: int = BUFFER
    gamma: float = GAMMA

    def __str__(self) -> str:
        cut = f" slices={self.slices}" if self.slices else ""
        cut += f" b={self.buffer}" if self.buffer != BUFFER else ""
        cut += f" gamma={self.gamma}" if self.gamma != GAMMA else ""
        return f"{self.points} k={self.k} queries={self.queries} n={self.n} d={self.d}{cut}"

    def engine(self) -> tuple[str, dict[str, Any]]:
        """The engine of a way that has one for each query, and what it is told.

        Examples
        --------
        >>> Case(way="rapf2, grid").engine()
        ('rapf', {'buffer': 20000, 'gamma': 0.2})
        """
        name = self.way.removesuffix(", grid")
        half = name == HALF
        name = "rapf" if half else name
        told = {"buffer": self.n // 2 if half else min(self.buffer, self.n // 2), "gamma": self.gamma}
        return name, {option: value for option, value in told.items() if option in ENGINES[name].options}


@dataclass(frozen=True)
class Line:
    """What one way did in one case."""

    suite: str
    case: str
    way: str
    rows: int  # in the measured time
    cpu_seconds: float  # for all queries
    reports: int  # (query, object) pairs told
    met: float  # queries that an object met, on average
    searches: int
    indexed: int  # times the index was made anew
    references: float  # objects on a query's list, on average at the end
    objects: float  # objects kept, in lists and buffer, divided by the queries: figure 12
    measured: int  # queries that were run; fewer than asked for: the time is scaled

    @property
    def rows_per_s(self) -> float:
        """Rows a second of CPU time, with all queries served."""
        return self.rows / self.cpu_seconds

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, rounded to what they are worth."""
        short = {name: float(f"{getattr(self, name):.4g}") for name in ("cpu_seconds", "met", "references", "objects")}
        return {**asdict(self), **short, "rows_per_s": round(self.rows_per_s)}


def cases(*, quick: bool, ways: Iterable[str] = (), points: Iterable[str] = ()) -> list[Case]:
    """What the suite measures: k over all streams (figures 9, 10, 12), then d, grid, queries, b, gamma, n (figure 11).

    A quick run has one value beside the paper's default of each.

    Examples
    --------
    >>> len(cases(quick=False)) > len(cases(quick=True, ways=["ours"]))
    True
    """
    every = [*WAYS, *WATCHED, *ALONE]
    ways = checked(ways, every, "way") or every
    streams = checked(points, POINTS, "points") or list(POINTS)
    sizes = (9,) if quick else _K
    found = [Case(stream, way, k) for stream in streams for k in sizes for way in ways]
    if quick and "uniform" in streams:
        found += [Case(way=way, k=81) for way in ways if way == "ours" or way in WATCHED]
    uneven = [stream for stream in streams if stream in ("clustered", "shuffled")]  # the paper's grid, and ours
    found += [Case(s, way, d=4, slices=10) for s in uneven for way in ways if way in ("ours", "ours, even grid")]
    if "uniform" in streams:
        found += varied(quick=quick, ways=ways)
    return list(dict.fromkeys(found))


def varied(*, quick: bool, ways: Iterable[str]) -> Iterator[Case]:
    """Figure 11: one thing after the other is varied, in four dimensions. Only filters have a buffer and a gamma."""
    grids = [way for way in ways if way in (*WAYS, *WATCHED) and way != "ours, no grid"]
    grids = [way for way in grids if not quick or way in ("ours", "cpm", "snn", "rapf, grid")]
    filters = [way for way in ways if way == "rapf, grid" or (way == "sasf, grid" and not quick)]
    for way in grids:
        yield from (Case(d=d, slices=2, way=way) for d in ((6,) if quick else (2, 4, 6, 8, 10)))
        yield from (Case(d=4, slices=cut, way=way) for cut in ((5,) if quick else (2, 4, 6, 8, 10, 12)))
        yield from (Case(d=4, queries=many, way=way) for many in ((1600,) if quick else (100, 200, 400, 800, 1600)))
        yield from (Case(d=4, n=n, way=way) for n in ((10_000,) if quick else (10_000, 20_000, 80_000, 160_000)))
    for way in filters:
        yield from (Case(d=4, buffer=b, way=way) for b in ((8_000,) if quick else (500, 1_000, 4_000, 8_000, 16_000)))
        if way == "rapf, grid":
            yield from (Case(d=4, gamma=g, way=way) for g in ((1.0,) if quick else (0.05, 0.1, 0.5, 1.0, 2.0)))


def run(todo: Iterable[Case], rows: int, *, seed: int = 0, data: Path | None = None) -> Iterator[Line]:
    """Measure one case after the other; `rows` of each stream count, after those that fill the window."""
    held: tuple[str, int, int] | None = None
    stream, ready = np.empty((0, 1)), set[tuple[str, int]]()
    for case in todo:
        wanted = (case.points, case.d, case.n)
        if held != wanted:
            more = {"data": data} if case.points in ("real", "shuffled") else {}
            stream, held = POINTS[case.points](rows + case.n, case.d, seed, **more), wanted
        if (case.way, case.d) not in ready:  # compiled, by streams too small to matter
            ready.add((case.way, case.d))
            measure(case._replace(n=200, queries=3, k=3), stream[:1_000], seed)
        yield measure(case, stream, seed, again=_AGAIN if rows > QUICK else 0.0)


def measure(case: Case, points: np.ndarray, seed: int = 0, *, again: float = _AGAIN) -> Line:
    """CPU time of `case` over the points after the first window; targets are drawn from all of them.

    The best of three passes, or of fewer once they have taken `again` seconds.

    Examples
    --------
    >>> from skyband_lab.bench.points import uniform
    >>> measure(Case(queries=5, n=100, k=3), uniform(300, 2)).rows
    200
    """
    chosen = np.random.default_rng(seed + 1).integers(0, len(points), case.queries)
    targets = points[chosen]
    pass_ = _together if case.way in WAYS else _watched if case.way.endswith(", grid") else _alone
    best, spent = pass_(case, points, targets), 0.0
    for _ in range(_PASSES - 1):
        spent += best.cpu_seconds * best.measured / case.queries
        if spent > again:
            break
        best = min(best, pass_(case, points, targets), key=lambda line: line.cpu_seconds)
    return best


def _queries(case: Case, targets: np.ndarray) -> list[TopK]:
    """One query for each target."""
    names = tuple(f"x{j}" for j in range(case.d))
    every = [Distance(names, tuple(target)) for target in targets.tolist()]
    return [TopK(k=case.k, by=by, window=Counting(case.n), emit="arrivals") for by in every]


def _together(case: Case, points: np.ndarray, targets: np.ndarray) -> Line:
    engine = case.way if case.way in ENGINES else "sweep"
    (family,) = families(_queries(case, targets), few=0)
    many: Any = build(engine, family, options={"slices": case.slices, **WAYS[case.way]})
    number, full = np.arange(len(points)), min(case.n, len(points) // 2)
    rows = Objects(points, number, number)
    many.advance(rows.take(slice(full)), full)
    before = many.counters
    began = time.thread_time()
    told = many.advance(rows.take(slice(full, None)), len(points))
    took = time.thread_time() - began
    done = {name: count - before[name] for name, count in many.counters.items()}
    return Line(
        suite="knn",
        case=str(case),
        way=case.way,
        rows=len(points) - full,
        cpu_seconds=max(took, 1e-9),
        reports=len(told.id),
        met=done["met"] / (len(points) - full),
        searches=done["searches"],
        indexed=done["indexed"],
        references=float(np.mean([len(many.best(q)[1]) for q in range(case.queries)])),
        objects=len(many.candidates().id) / case.queries,
        measured=case.queries,
    )


def _watched(case: Case, points: np.ndarray, targets: np.ndarray) -> Line:
    """An engine of the paper for each query, all behind one query grid."""
    engine, told = case.engine()
    (family,) = families(_queries(case, targets), few=0)
    watched: Any = build(engine, family, options={"grid": "uniform", "slices": case.slices, **told})
    number, full = np.arange(len(points)), min(case.n, len(points) // 2)
    rows = Objects(points, number, number)
    watched.advance(rows.take(slice(full)), full)
    before = watched.counters
    began = time.thread_time()
    answers = watched.advance(rows.take(slice(full, None)), len(points))
    took = time.thread_time() - began
    done = {name: count - before[name] for name, count in watched.counters.items()}
    held = [watched.kept(q) for q in range(case.queries)]
    return Line(
        suite="knn",
        case=str(case),
        way=case.way + ("" if ENGINES[engine].traits.exact else " (not exact)"),
        rows=len(points) - full,
        cpu_seconds=max(took, 1e-9),
        reports=len(answers.id),
        met=done["met"] / (len(points) - full),
        searches=0,
        indexed=done["indexed"],
        references=float(np.mean([len(one) for one in held])),
        objects=len(np.unique(np.concatenate([*held, watched.buffered()]))) / case.queries,
        measured=case.queries,
    )


def _alone(case: Case, points: np.ndarray, targets: np.ndarray) -> Line:
    """One engine a query, over its own column of scores: no grid, and every object meets every query."""
    some = min(_SAMPLE, case.queries)
    number, full = np.arange(len(points)), min(case.n, len(points) // 2)
    took, told, kept = 0.0, 0, set[int]()
    references = []
    engine, how = case.engine()
    for query, target in zip(_queries(case, targets)[:some], targets, strict=False):
        running = build(engine, QueryFamily.of(query), options=how or None)
        first = -np.sqrt(((points[:full] - target) ** 2).sum(axis=1))
        known = running.advance(Objects(first, number[:full], number[:full]), np.array([full])).id
        began = time.thread_time()
        score = np.zeros(len(points) - full)
        for j in range(case.d):  # column by column: far less memory than the differences of whole points
            score += (points[full:, j] - target[j]) ** 2
        score = -np.sqrt(score)
        answers = running.advance(Objects(score, number[full:], number[full:]), np.array([len(points)]))
        took += time.thread_time() - began
        told += len(np.setdiff1d(answers.id, known))  # an engine may give whole lists
        held = running.candidates().id
        references.append(len(held))
        kept.update(held.tolist())
    scale = case.queries / some
    return Line(
        suite="knn",
        case=str(case),
        way=case.way + ("" if ENGINES[engine].traits.exact else " (not exact)"),
        rows=len(points) - full,
        cpu_seconds=max(took * scale, 1e-9),
        reports=round(told * scale),
        met=float(case.queries),
        searches=0,
        indexed=0,
        references=float(np.mean(references)),
        objects=len(kept) / some,
        measured=some,
    )
