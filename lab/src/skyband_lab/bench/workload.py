"""The workload suite: 10, 100 and 1000 queries over one stream, at the settings of the MTopS paper."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.engines import ENGINES, Objects, QueryFamily, build
from skyband.engines.composite import Independent
from skyband.query import Counting, TopK
from skyband.workload.family import families
from skyband_lab.bench.result import CANDIDATE, Result, scan_limit
from skyband_lab.bench.workloads import STREAMS, trades

if TYPE_CHECKING:
    from pathlib import Path

    from skyband.engines import Engine

SHARED = [name for name, entry in ENGINES.items() if entry.traits.shared]
ALONE = ("mintopk", "sweep")
"""Engines for one query that are run once for every query, to compare with."""

_BATCH = 100_000
_LEAST = 1_000  # rows of a batch, however slow the engine


class Kind(NamedTuple):
    """Which parameters of the queries vary, and between what; Shastri et al., CIKM 2011, section 7."""

    name: str
    k: tuple[int, int]
    win: tuple[int, int]
    slide: tuple[int, int]


KINDS = (
    Kind("k", (10, 1_000), (1_000_000, 1_000_000), (100_000, 100_000)),
    Kind("slide", (1_000, 1_000), (1_000_000, 1_000_000), (100_000, 1_000_000)),
    Kind("win, slide", (100, 100), (100_000, 1_000_000), (10_000, 100_000)),
    Kind("all", (10, 1_000), (100_000, 1_000_000), (10_000, 100_000)),
)
QUERIES = (10, 100, 1_000)


class Case(NamedTuple):
    """One engine on one workload over one stream."""

    kind: Kind
    queries: int
    stream: str
    engine: str  # a name in ENGINES, "alone " before it if each query has an engine of its own

    def __str__(self) -> str:
        return f"{self.queries} queries, any {self.kind.name}, {self.stream}"


class Scale(NamedTuple):
    """How much is measured."""

    rows: int  # of the stream; the first million fills the windows
    budget: float  # seconds of a case after which it is cut short
    sample: int  # independent engines that are run, of a thousand; the others are taken to cost as much


QUICK, FULL = Scale(1_500_000, 2.0, 20), Scale(3_000_000, 40.0, 1_000)
_ALONE = 16.0  # times the budget: a thousand engines fill a thousand windows


def engines() -> list[str]:
    """What the suite compares."""
    return [*SHARED, *(f"alone {name}" for name in ALONE)]


def cases(*, quick: bool, only: Iterable[str] = (), kinds: Iterable[str] = (), sizes: Iterable[int] = ()) -> list[Case]:
    """What the suite measures; a quick run has all engines on the general case, and the shared sweep on the others."""
    chosen = list(only) or engines()
    wanted, numbers = list(kinds) or [*(kind.name for kind in KINDS), "trades"], list(sizes) or list(QUERIES)
    found = []
    for kind in KINDS:
        for queries in numbers if kind.name in wanted else ():
            general = kind.name == "all" and queries == QUERIES[-1]
            able = [engine for engine in chosen if not quick or engine == "sweep" or general]
            found += [Case(kind, queries, "lognormal", engine) for engine in able]
    if quick or "trades" not in wanted:
        return found
    return found + [Case(KINDS[-1], numbers[-1], "trades", engine) for engine in chosen]


def workload(kind: Kind, queries: int, seed: int = 0) -> QueryFamily:
    """Random queries of this kind.

    Examples
    --------
    >>> [m.k for m in workload(KINDS[-1], 3).members]
    [852, 277, 84]
    """
    rng = np.random.default_rng(seed)

    def one(bounds: tuple[int, int]) -> int:
        return int(rng.integers(bounds[0], bounds[1] + 1))

    asked = []
    for _ in range(queries):
        k, win, slide = one(kind.k), one(kind.win), one(kind.slide)
        asked.append(TopK(k=k, by="x", window=Counting(win, min(slide, win))))
    return families(asked)[0]


def run(todo: Iterable[Case], scale: Scale, *, seed: int = 0, data: Path | None = None) -> Iterator[Result]:
    """Measure case after case. Seconds are CPU time of this process."""
    scores: dict[str, np.ndarray] = {}
    for case in todo:
        if case.stream not in scores:
            made = trades(scale.rows, seed, data) if case.stream == "trades" else STREAMS[case.stream](scale.rows, seed)
            scores = {case.stream: np.ascontiguousarray(made, np.float64)}
        yield measure(case, scores[case.stream], scale, seed)


def measure(case: Case, score: np.ndarray, scale: Scale, seed: int = 0) -> Result:
    """One case: fill the windows for half of the budget at most, then measure."""
    family = workload(case.kind, case.queries, seed)
    shared = case.engine in SHARED
    if shared:
        parts, times = [family], 1.0
    else:
        chosen = family.members[: max(1, min(scale.sample, case.queries))]
        parts = [family.with_members([member]) for member in chosen]
        times = case.queries / len(chosen)
    budget = scale.budget if shared else scale.budget * _ALONE
    fill = min(max(member.clock.size for member in family.members), len(score) * 2 // 3)
    _warm(case.engine, family)
    seconds, out, rows, peak, size, full = 0.0, 0.0, 0, 0, 0, True
    for part in parts:
        found = _timed(case.engine, part, score, fill, budget / len(parts))
        seconds += found.seconds / found.rows
        rows, full = max(rows, found.rows), full and found.filled
        out, peak, size = out + found.output / found.rows, peak + found.peak, size + found.size
    return Result(
        suite="workload",
        case=str(case),
        engine=case.engine,
        rows=rows,
        seconds=seconds * times * rows,
        output_rows=round(out * times * rows),
        candidates_peak=round(peak * times),
        candidate_bytes=round(size * times),
        scan_rows_per_s=scan_limit(score),
        filled=full,
    )


class Timing(NamedTuple):
    """What one engine did."""

    seconds: float
    rows: int
    output: int
    peak: int
    size: int
    filled: bool


def _timed(engine: str, family: QueryFamily, score: np.ndarray, fill: int, budget: float) -> Timing:
    """Fill the windows, then go on until the budget or the stream ends."""
    running: Any = _built(engine, family)
    at, batch, began = 0, _LEAST, time.process_time()
    filled, whole, output, seconds, rows = False, False, 0, 0.0, 0
    while at < len(score):
        high = min(at + batch, len(score) if filled else fill)
        before = time.process_time()
        answers = running.advance(_rows(score, at, high), np.array([high]))
        now = time.process_time()
        if filled:
            seconds, rows, output = seconds + now - before, rows + high - at, output + len(answers.id)
        at = high
        batch = min(2 * batch, _BATCH) if now - before < budget / 20 else max(batch // 2, _LEAST)
        if not filled and (at >= fill or now - began > budget):
            filled, began = True, now
            whole = at >= fill
        elif filled and now - began > budget:
            break
    rows = max(rows, 1)
    size = running.bytes() if hasattr(running, "bytes") else running.peak * CANDIDATE
    return Timing(seconds, rows, output, int(running.peak), int(size), whole)


def _built(engine: str, family: QueryFamily) -> Engine:
    """A shared engine, or with "alone" one for every query."""
    name = engine.removeprefix("alone ")
    return build(engine, family) if name == engine else Independent(partial(build, name), family)


def _warm(engine: str, family: QueryFamily) -> None:
    """Compile, if it was not."""
    small = family.with_members(family.members[:1])
    _built(engine, small).advance(_rows(np.arange(10.0), 0, 10), np.array([10]))


def _rows(score: np.ndarray, low: int, high: int) -> Objects:
    place = np.arange(low, high)
    return Objects(score[low:high], place, place)
