"""After every row: many nearest-neighbour queries, the errors of PA, what is kept, and the paper's probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines import Objects, QueryFamily, build
from skyband.engines.candidate_limit import limit as candidate_limit
from skyband.query import Counting, TopK
from skyband_lab.bench import knn
from skyband_lab.bench.points import POINTS

if TYPE_CHECKING:
    from skyband_lab.reproduce.kinds import Settings

_ALONG = 60  # steps of a curve
_SAMPLES = 200_000


def nearest(settings: Settings, data: Path | None) -> dict[str, Any]:
    """One way to answer many queries: what the k-NN suite measures."""
    case, points = _case(settings, data)
    line = knn.measure(case, points, settings.get("seed", 0))
    return {
        "us": line.cpu_seconds / line.rows * 1e6,
        "us_per_query": line.cpu_seconds / line.rows * 1e6 / case.queries,
        "rows": line.rows,
        "met": line.met,
        "searches": line.searches,
        "references": line.references,
        "measured": line.measured,
    }


def _case(settings: Settings, data: Path | None) -> tuple[knn.Case, np.ndarray]:
    case = knn.Case(
        settings["points"],
        settings["way"],
        settings["k"],
        settings["queries"],
        settings["n"],
        settings["d"],
        settings.get("slices"),
        settings.get("buffer", knn.BUFFER),
        settings.get("gamma", knn.GAMMA),
    )
    return case, _points(settings, settings["rows"] + settings["n"], data)


def _points(settings: Settings, rows: int, data: Path | None) -> np.ndarray:
    more = {"data": data} if settings["points"] in ("real", "shuffled") else {}
    return POINTS[settings["points"]](rows, settings["d"], settings.get("seed", 0), **more)


def errors(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Objects that PA misses and those it tells in vain, a query, against an exact engine: figure 8."""
    n, sigma = settings["n"], settings["sigma"]
    points = _points(settings, settings["rows"], data)
    rng = np.random.default_rng(settings.get("seed", 0) + 1)
    targets = points[rng.integers(0, len(points), settings["queries"])]
    number = np.arange(len(points))
    missed = false = told = 0
    for target in targets:
        score = -np.sqrt(((points - target) ** 2).sum(axis=1))
        exact, likely = (_told(name, options, settings["k"], n, score, number) for name, options in _BOTH(sigma))
        missed += len(np.setdiff1d(exact, likely, assume_unique=True))
        false += len(np.setdiff1d(likely, exact, assume_unique=True))
        told += len(exact)
    each, bound = len(targets), sigma * (len(points) - n) / n
    return {
        "missed": missed / each,
        "vain": false / each,
        "told": told / each,
        "bound": bound,
        "missed_of_bound": missed / each / bound,
        "vain_of_bound": false / each / (1.5 * bound),
    }


def _BOTH(sigma: float) -> tuple[tuple[str, dict[str, object]], ...]:  # noqa: N802 - as a constant, but for sigma
    return ("rapf", {}), ("probabilistic", {"sigma": sigma})


def _told(engine: str, options: dict[str, object], k: int, n: int, score: np.ndarray, number: np.ndarray) -> np.ndarray:
    """The objects that are told after the first full window."""
    running = build(
        engine, QueryFamily.of(TopK(k=k, by="x", window=Counting(n), emit="arrivals")), options=options or None
    )
    known = running.advance(Objects(score[:n], number[:n], number[:n]), np.array([n])).id
    later = running.advance(Objects(score[n:], number[n:], number[n:]), np.array([len(score)])).id
    return np.setdiff1d(later, known)


def space(settings: Settings, data: Path | None) -> dict[str, Any]:
    """References a query keeps, and objects kept by all queries divided by them: figure 12."""
    k, n, queries, engine = settings["k"], settings["n"], settings["queries"], settings["engine"]
    points = _points(settings, 2 * n, data)
    if engine in ("cpm", "snn"):
        line = knn.measure(knn.Case("uniform", engine, k, queries, n, settings["d"]), points)
        return {"references": line.references, "objects": line.objects}
    rng = np.random.default_rng(settings.get("seed", 0) + 1)
    number = np.arange(len(points))
    references, kept = 0, np.empty(0, np.int64)
    for target in points[rng.integers(0, len(points), queries)]:
        running: Any = build(engine, QueryFamily.of(TopK(k=k, by="x", window=Counting(n), emit="arrivals")))
        score = -np.sqrt(((points - target) ** 2).sum(axis=1))
        running.advance(Objects(score, number, number), np.array([len(score)]))
        references += running.kept_counts()[0]
        kept = np.union1d(kept, np.concatenate([running.band_rows()[0].id, running.buffer.id]))
    return {"references": references / queries, "objects": len(kept) / queries}


def limit(settings: Settings, data: Path | None) -> dict[str, Any]:
    """The candidate limit of table V: as printed, by definition 4.5, and how far they are apart."""
    del data
    found = candidate_limit(settings["n"], settings["k"], settings["sigma"])
    return {"limit": found.printed, "by_definition": found.summed, "shortfall": found.shortfall}


def rank(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Lemma 4.3: how likely an object of initial rank l has another rank s steps later, computed and drawn at random.

    With `rank` the curve goes along the steps, with `step` along the ranks.
    """
    del data
    l, n = settings["l"], settings["n"]  # noqa: E741 - the paper's name
    if "step" in settings:
        ranks = np.arange(1, settings["upto"] + 1)
        chance = np.array([rank_chance(l, int(one), n, settings["step"]) for one in ranks])
        drawn = _drawn(l, n, settings["step"], settings.get("seed", 0))
        share = np.array([(drawn == one).mean() for one in ranks])
        return {
            "along": ranks.tolist(),
            "chance": chance.tolist(),
            "highest": float(chance.max()),
            "apart": float(np.abs(chance - share).max()),
        }
    steps = np.unique(np.linspace(1, n - 1, _ALONG, dtype=np.int64))
    chance = np.array([rank_chance(l, settings["rank"], n, int(step)) for step in steps])
    rise = np.diff(chance)
    middle = int(np.searchsorted(steps, n // 2))
    return {
        "along": steps.tolist(),
        "chance": chance.tolist(),
        "rising": float((rise > 0).mean()),
        "peak_at": float(steps[int(chance.argmax())] / n),
        "early": float((chance[middle] - chance[0]) / max(chance[-1] - chance[0], 1e-300)),
    }


def rank_chance(l: int, later: int, n: int, s: int) -> float:  # noqa: E741 - the paper's name
    """Probability that an object of rank `l` has rank `later` after s steps: lemma 4.3 with (5) and (6).

    Examples
    --------
    >>> round(sum(rank_chance(3, later, 10, 4) for later in range(1, 11)), 9)
    1.0
    """
    from math import comb

    total = 0.0
    for y in range(later):
        x = l - later + y
        if 0 <= x <= min(l - 1, s) and s - x <= n - l and y <= s:
            drop = comb(l - 1, x) * comb(n - l, s - x) / comb(n - 1, s)
            total += drop * (comb(l - 1 + y, y) * comb(n - l + s - y, s - y) / comb(n + s, s))
    return total


def _drawn(l: int, n: int, s: int, seed: int) -> np.ndarray:  # noqa: E741 - the paper's name
    """Ranks after s steps of a random stream: without the lemma, by drawing scores and what leaves."""
    rng = np.random.default_rng(seed)
    gone = rng.hypergeometric(l - 1, n - l, s, _SAMPLES)
    above = rng.beta(l, n - l + 1, _SAMPLES)  # how likely a new object beats one of rank l
    return l - gone + rng.binomial(s, above)
