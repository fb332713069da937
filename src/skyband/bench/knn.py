"""The k-NN suite: many queries over one stream of points, at the settings of the top-k/w paper, figures 9 to 12."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from skyband.bench.points import POINTS
from skyband.bench.slide import checked
from skyband.engines import ENGINES, Objects, build
from skyband.engines.grid.many import Many, Targets
from skyband.engines.grid.watched import Watched
from skyband.query import Counting, Distance, TopK

WAYS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "ours": {},
        "ours, even grid": {"grid": "uniform"},
        "ours, no grid": {"index": False},
        "cpm": {"rule": "best"},
        "snn": {"rule": "band"},
    }
)
"""Ways to answer all queries together, as options of `Many`."""

ALONE = ("sweep", "probabilistic", "rapf", "sasf")
"""Engines that are also measured alone: once a query, over the column of its distances. They define figure 10's left
side; `probabilistic` is not exact."""

WATCHED = tuple(f"{name}, grid" for name in ALONE if name != "sweep")
"""The same behind a query grid: figure 10's right side."""

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
    buffer: int | None = None  # of engines with a filter; default: theirs
    gamma: float | None = None

    def __str__(self) -> str:
        cut = f" slices={self.slices}" if self.slices else ""
        return f"{self.points} k={self.k} queries={self.queries} n={self.n} d={self.d}{cut}"

    @property
    def engine(self) -> str:
        """The engine that a way runs for each query."""
        return self.way.removesuffix(", grid")

    @property
    def options(self) -> dict[str, object] | None:
        """What is set on the engine."""
        told = {"buffer": self.buffer, "gamma": self.gamma}
        return {name: told[name] for name in ENGINES[self.engine].options if told.get(name) is not None} or None


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
    objects: float  # objects kept, divided by the queries: figure 12
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
    """What the suite measures: k over all streams (figures 9, 10), then d, grid, queries and n (figure 11).

    Examples
    --------
    >>> len(cases(quick=False)) > len(cases(quick=True, ways=["ours"]))
    True
    """
    every = [*WAYS, *WATCHED, *ALONE]
    ways = checked(ways, every, "way") or every
    streams = checked(points, POINTS, "points") or list(POINTS)
    sizes = (9, 81) if quick else _K
    found = [Case(stream, way, k) for stream in streams for k in sizes for way in ways]
    uneven = [stream for stream in streams if stream in ("clustered", "shuffled")]  # the paper's grid, and ours
    found += [Case(s, way, d=4, slices=10) for s in uneven for way in ways if way in ("ours", "ours, even grid")]
    if "uniform" in streams:
        grids = [way for way in ways if way in WAYS and way != "ours, no grid"]
        varied = [
            *(Case(d=d, slices=2, way=way) for d in ((2, 6) if quick else (2, 4, 6, 8, 10)) for way in grids),
            *(Case(d=4, slices=s, way=way) for s in ((5, 10) if quick else (2, 4, 6, 8, 9, 10, 12)) for way in grids),
            *(Case(d=4, queries=u, way=way) for u in ((1600,) if quick else (100, 200, 800, 1600)) for way in grids),
            *(
                Case(d=4, n=n, way=way)
                for n in ((10_000,) if quick else (10_000, 20_000, 80_000, 160_000))
                for way in grids
            ),
        ]
        found += dict.fromkeys(varied)
    return found


def run(todo: Iterable[Case], rows: int, *, seed: int = 0, data: Path | None = None) -> Iterator[Line]:
    """Measure one case after the other; `rows` of each stream count, after those that fill the window."""
    held: tuple[str, int, int] | None = None
    stream = np.empty((0, 1))
    for case in todo:
        wanted = (case.points, case.d, case.n)
        if held != wanted:
            more = {"data": data} if case.points in ("real", "shuffled") else {}
            stream, held = POINTS[case.points](rows + case.n, case.d, seed, **more), wanted
        yield measure(case, stream, seed)


def measure(case: Case, points: np.ndarray, seed: int = 0) -> Line:
    """CPU time of `case` over the points after the first window; targets are drawn from all of them.

    Examples
    --------
    >>> from skyband.bench.points import uniform
    >>> measure(Case(queries=5, n=100, k=3), uniform(300, 2)).rows
    200
    """
    chosen = np.random.default_rng(seed + 1).integers(0, len(points), case.queries)
    targets = Targets.of("euclidean", to=points[chosen], k=case.k)
    pass_ = _together if case.way in WAYS else _watched if case.way != case.engine else _alone
    pass_(case, points[: min(len(points), case.n + 200)], targets)  # compiled
    best, spent = pass_(case, points, targets), 0.0
    for _ in range(_PASSES - 1):
        spent += best.cpu_seconds * best.measured / case.queries
        if spent > _AGAIN:
            break
        best = min(best, pass_(case, points, targets), key=lambda line: line.cpu_seconds)
    return best


def _together(case: Case, points: np.ndarray, targets: Targets) -> Line:
    many = Many(targets, Counting(case.n), slices=case.slices, **WAYS[case.way])
    number, full = np.arange(len(points)), min(case.n, len(points) // 2)
    many.advance(points[:full], number[:full], number[:full], full)
    before = many.counts
    began = time.process_time()
    told = many.advance(points[full:], number[full:], number[full:], len(points))
    took = time.process_time() - began
    done = {name: count - before[name] for name, count in many.counts.items()}
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


def _watched(case: Case, points: np.ndarray, targets: Targets) -> Line:
    """An engine of the paper for each query, all behind one query grid."""
    engine = case.engine
    watched = Watched(engine, targets, Counting(case.n), options=case.options, grid="uniform", slices=case.slices)
    number, full = np.arange(len(points)), min(case.n, len(points) // 2)
    watched.advance(points[:full], number[:full], number[:full], full)
    met, indexed = watched.met, watched.indexed
    began = time.process_time()
    told = watched.advance(points[full:], number[full:], number[full:], len(points))
    took = time.process_time() - began
    held = [watched.kept(q) for q in range(case.queries)]
    return Line(
        suite="knn",
        case=str(case),
        way=case.way + ("" if ENGINES[engine].traits.exact else " (not exact)"),
        rows=len(points) - full,
        cpu_seconds=max(took, 1e-9),
        reports=len(told.id),
        met=(watched.met - met) / (len(points) - full),
        searches=0,
        indexed=watched.indexed - indexed,
        references=float(np.mean([len(one) for one in held])),
        objects=len(np.unique(np.concatenate(held))) / case.queries,
        measured=case.queries,
    )


def _alone(case: Case, points: np.ndarray, targets: Targets) -> Line:
    """One engine a query, over its own column of scores: no grid, and every object meets every query."""
    some = min(_SAMPLE, case.queries)
    number, full = np.arange(len(points)), min(case.n, len(points) // 2)
    names = tuple(f"x{j}" for j in range(case.d))
    took, told, kept = 0.0, 0, set[int]()
    references = []
    for q in range(some):
        by = Distance(names, tuple(targets.to[q]))
        query = TopK(k=case.k, by=by, window=Counting(case.n), emit="arrivals")
        running = build(case.way, query, options=case.options)
        first = -np.sqrt(((points[:full] - targets.to[q]) ** 2).sum(axis=1))
        known = running.advance(Objects(first, number[:full], number[:full]), np.array([full])).id
        began = time.process_time()
        score = np.zeros(len(points) - full)
        for j in range(case.d):  # column by column: far less memory than the differences of whole points
            score += (points[full:, j] - targets.to[q, j]) ** 2
        score = -np.sqrt(score)
        answers = running.advance(Objects(score, number[full:], number[full:]), np.array([len(points)]))
        took += time.process_time() - began
        told += len(np.setdiff1d(answers.id, known))  # an engine may give whole lists
        held = running.candidates().id
        references.append(len(held))
        kept.update(held.tolist())
    scale = case.queries / some
    return Line(
        suite="knn",
        case=str(case),
        way=case.way + ("" if ENGINES[case.way].traits.exact else " (not exact)"),
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
