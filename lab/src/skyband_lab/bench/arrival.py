"""The arrival suite, one query: every engine after every row, at the settings of the top-k/w paper.

Its cases have the form of the other suites' (`cases`, `run`, `Result` lines), so that further parts can be put
behind it in `skyband bench arrival`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from skyband.engines import ENGINES, Engine, Objects, QueryFamily, build
from skyband.query import Counting, TopK
from skyband_lab.bench.result import CANDIDATE, Result, scan_limit
from skyband_lab.bench.slide import Scale, checked
from skyband_lab.bench.workloads import decreasing, increasing, lognormal, sensorscope, walk

ROWS, BUFFER = 40_000, 2_000  # n and b: Pripuzic et al., TODS 2015, section 8
KS = (1, 9, 81)
QUICK, FULL = Scale(2_000_000, 0.04), Scale(16_000_000, 5.0)
HALF = "rapf2"
"""RAPF with the largest buffer there can be, b = n / 2."""

STREAMS: Mapping[str, Callable[[int, int], np.ndarray]] = MappingProxyType(
    {
        "random": lognormal,
        "walk": walk,
        "increasing": increasing,
        "decreasing": decreasing,
        "sensorscope": sensorscope,
    }
)
GROUPS = (("probabilistic", "sapf", "rapf"), ("relaxed", "sarf", "rarf"), ("strict", "sasf", "rasf"))
"""The paper's engines from fast to slow, as section 8.2 has them."""

_SLOW = ("sasf", "sarf", "rasf", "rarf", HALF, "tma", "sma", "cpm", "snn")  # a quick run has them at k 9 only
_BATCH = 1_000_000
_PASSES = 3
_LOOKS, _BETWEEN = 8, 5_000  # so often it is counted what is kept, every so many rows


class Case(NamedTuple):
    """One engine at one k over one stream."""

    k: int
    stream: str
    engine: str
    size: int = ROWS
    buffer: int = BUFFER

    def __str__(self) -> str:
        return f"k={self.k} n={self.size} {self.stream}"


@dataclass(frozen=True)
class Kept(Result):
    """A result, and what is kept on average: figure 12 of the paper, for one query."""

    references: float  # to objects, in all of its lists
    objects: float  # in lists and buffer

    def as_dict(self) -> dict[str, str | int | float | bool]:
        """The fields by name, rounded to what they are worth."""
        return {**super().as_dict(), "references": round(self.references, 1), "objects": round(self.objects, 1)}


def able() -> list[str]:
    """The engines for windows after every row, ours first, and RAPF with half a window as its buffer."""
    return ["sweep", *(name for name, entry in ENGINES.items() if "every row" in entry.traits.windows), HALF]


def cases(
    *, quick: bool, engines: Iterable[str] = (), streams: Iterable[str] = (), ks: Iterable[int] = ()
) -> list[Case]:
    """What is measured, stream by stream. A quick run has k 9 over all streams, and k 1 and 81 in random order.

    Examples
    --------
    >>> [str(case) for case in cases(quick=True, engines=["sweep"], streams=["random"])]
    ['k=1 n=40000 random', 'k=9 n=40000 random', 'k=81 n=40000 random']
    """
    engines = checked(engines, able(), "engine") or able()
    streams = checked(streams, STREAMS, "stream") or list(STREAMS)
    return [
        Case(k, stream, engine)
        for stream in streams
        for k in (list(ks) or KS)
        for engine in engines
        if not quick or k == KS[1] or (stream == "random" and engine not in _SLOW)
    ]


def run(todo: Iterable[Case], scale: Scale, *, seed: int = 0, data: Path | None = None) -> Iterator[Kept]:
    """Measure one case after the other, in the order given."""
    todo = list(todo)
    for engine in dict.fromkeys(case.engine for case in todo):
        warm(engine)
    score, held = np.empty(0), ""
    for case in todo:
        if case.stream != held:
            held = case.stream
            real = held == "sensorscope"
            score = sensorscope(scale.rows, seed, data) if real else STREAMS[held](scale.rows, seed)
        yield measure(case, score, scale.budget)


def warm(engine: str) -> None:
    """Compile what `engine` needs, by streams too small to matter."""
    for stream in ("random", "walk", "decreasing"):
        case = Case(3, stream, engine, 100, 20)
        _go(case, STREAMS[stream](2_000, 0), np.arange(2_000), 1.0)


def made(case: Case) -> Engine:
    """The case's engine."""
    query = TopK(k=case.k, by="x", window=Counting(case.size), emit="arrivals")
    if case.engine == HALF:
        return build("rapf", QueryFamily.of(query), options={"buffer": case.size // 2})
    takes = "buffer" in ENGINES[case.engine].options
    return build(case.engine, QueryFamily.of(query), options={"buffer": case.buffer} if takes else None)


def measure(case: Case, score: np.ndarray, budget: float) -> Kept:
    """Time `case` over the rows of `score` that follow the first full window, in seconds of one core.

    A case that does not end within `budget` seconds reports the rows it managed; one that ends sooner is done again,
    and the best pass counts.

    Examples
    --------
    >>> result = measure(Case(1, "increasing", "sweep", 100), increasing(1_000), 1.0)
    >>> result.rows, result.output_rows, result.filled
    (900, 900, True)
    """
    number = np.arange(len(score))
    limit = scan_limit(score, clock=time.thread_time)
    best = _go(case, score, number, budget)
    for _ in range(_PASSES - 1):
        if best[0] + case.size < len(score) or best[1] > budget:
            break
        best = min(best, _go(case, score, number, budget), key=lambda done: done[1] / done[0])
    rows, seconds, told, peak = best
    references, objects = _kept(case, score, number)
    return Kept(
        suite="arrival",
        case=str(case),
        engine=case.engine,
        rows=rows,
        seconds=seconds,
        output_rows=told,
        candidates_peak=peak,
        candidate_bytes=peak * CANDIDATE,
        scan_rows_per_s=max(limit, scan_limit(score, clock=time.thread_time)),
        filled=True,
        references=references,
        objects=objects,
    )


def _go(case: Case, score: np.ndarray, number: np.ndarray, budget: float) -> tuple[int, float, int, int]:
    """One pass: rows and seconds after the first full window, rows told in them, the most rows kept."""
    running, at, told = made(case), case.size, 0
    _give(running, score, number, 0, at)
    batch = 10_000  # a slow engine may take long over a million rows: find out how many it can be given
    began = now = time.thread_time()
    while at < len(score) and now - began < budget:
        to = min(at + batch, len(score))
        told += _give(running, score, number, at, to)
        before, now = now, time.thread_time()
        bearable = round((to - at) / max(now - before, 1e-6) * budget / 4)
        at, batch = to, max(1_000, min(8 * batch, bearable, _BATCH))
    return at - case.size, max(now - began, 1e-9), told, running.peak


def _kept(case: Case, score: np.ndarray, number: np.ndarray) -> tuple[float, float]:
    """References and objects kept, on average over some moments after the first full window."""
    running, at = made(case), min(case.size, len(score))
    _give(running, score, number, 0, at)
    looks = []
    for _ in range(_LOOKS):
        to = min(at + _BETWEEN, len(score))
        _give(running, score, number, at, to)
        looks.append(running.kept_counts())  # type: ignore[attr-defined]
        at = to
    references, objects = np.mean(looks, axis=0).tolist()
    return references, objects


def _give(running: Engine, score: np.ndarray, number: np.ndarray, low: int, high: int) -> int:
    arrivals = Objects(score[low:high], number[low:high], number[low:high])
    return len(running.advance(arrivals, np.array([high])).id)


def verdicts(results: Iterable[Result]) -> Iterator[str]:
    """For each case that has all of the paper's engines, whether they come in the order of section 8.2."""
    speeds: dict[str, dict[str, float]] = {}
    for result in results:
        speeds.setdefault(result.case, {})[result.engine] = result.rows_per_s
    for case, speed in speeds.items():
        if not all(name in speed for group in GROUPS for name in group):
            continue
        order = sorted((name for group in GROUPS for name in group), key=lambda name: -speed[name])
        ranks = [[order.index(name) for name in group] for group in GROUPS]
        fits = all(max(before) < min(behind) for before, behind in zip(ranks, ranks[1:], strict=False))
        told = "as in section 8.2" if fits else "not as in section 8.2"
        yield f"{case}: {told}: {' > '.join(order)}"
