"""The slide suite: every engine over counting windows, at the settings of the MinTopk paper."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skyband.engines import ENGINES, Engine, Objects, QueryFamily, build
from skyband.errors import QueryError, nearest
from skyband.query import Counting, TopK
from skyband_lab.bench.cycles import BASELINES, Cycles
from skyband_lab.bench.result import CANDIDATE, Result, scan_limit
from skyband_lab.bench.workloads import STREAMS, trades

BATCH = 1_000_000
"""Rows an engine is given at once, unless they would take it too long."""

_FILL = 100_000  # rows before the clock starts, where the window is smaller than that
_PATIENCE = 3  # a window may take this many budgets to fill; then the clock starts all the same
_PASSES, _ENOUGH = 5, 2.0  # a case that ends early is done again, so often or for so many seconds


class Setting(NamedTuple):
    """A query of the suite."""

    k: int
    win: int
    slide: int

    def __str__(self) -> str:
        return f"k={self.k} win={self.win} slide={self.slide}"


class Case(NamedTuple):
    """One engine at one setting over one stream."""

    setting: Setting
    stream: str
    engine: str

    def __str__(self) -> str:
        return f"{self.setting} {self.stream}"


class Scale(NamedTuple):
    """How much is measured."""

    rows: int  # of each stream
    budget: float  # seconds after which a case is cut short


QUICK, FULL = Scale(4_000_000, 0.5), Scale(16_000_000, 20.0)
HEADLINE = Setting(1_000, 1_000_000, 100_000)
# Yang et al., EDBT 2011: k in figures 7 and 8, the window in 9 and 10, the slide in 11 and 12
SETTINGS = tuple(
    dict.fromkeys(
        [
            HEADLINE,
            *(Setting(k, 1_000_000, 100_000) for k in (10, 100, 1_000, 10_000)),
            *(Setting(1_000, win, win // 10) for win in (1_000, 10_000, 100_000, 1_000_000)),
            *(Setting(1_000, 1_000_000, slide) for slide in (100, 1_000, 10_000, 100_000)),
        ]
    )
)


def able() -> list[str]:
    """The engines that serve windows that slide."""
    return [name for name, entry in ENGINES.items() if "slide" in entry.traits.windows]


def cases(*, quick: bool, engines: Iterable[str] = (), streams: Iterable[str] = ()) -> list[Case]:
    """What the suite measures, stream by stream.

    A quick run has all engines at the headline setting over all streams, and sweep and mintopk at all
    settings over the log-normal stream.

    Examples
    --------
    >>> [str(case) for case in cases(quick=True, engines=["sweep"], streams=["walk"])]
    ['k=1000 win=1000000 slide=100000 walk']
    """
    engines = checked(engines, able(), "engine") or able()
    streams = checked(streams, STREAMS, "stream") or list(STREAMS)
    return [
        Case(setting, stream, engine)
        for stream in streams
        for setting in SETTINGS
        for engine in engines
        if not quick or setting == HEADLINE or (stream == "lognormal" and engine in ("sweep", "mintopk"))
    ]


def checked(names: Iterable[str], known: Iterable[str], field: str) -> list[str]:
    """The names, each of them known."""
    names, known = list(names), list(known)
    for name in names:
        if name not in known:
            raise QueryError(f"{field}={name!r} is unknown: {nearest(name, known)}")
    return names


def run(todo: Iterable[Case], scale: Scale, *, seed: int = 0, data: Path | None = None) -> Iterator[Result]:
    """Measure one case after the other, in the order given."""
    todo = list(todo)
    for engine in dict.fromkeys(case.engine for case in todo):
        warm(engine)
    score, held = np.empty(0), ""
    for case in todo:
        if case.stream != held:  # one stream at a time: a full one has 128 MB
            held = case.stream
            score = trades(scale.rows, seed, data) if held == "trades" else STREAMS[held](scale.rows, seed)
        yield measure(case, score, scale.budget)


def warm(engine: str) -> None:
    """Compile what `engine` needs, by a stream too small to matter."""
    running = build(engine, QueryFamily.of(TopK(k=3, by="x", window=Counting(100, 10))))
    score = STREAMS["lognormal"](1_000, 0)
    _give(running, score, np.arange(1_000), 0, 500)
    _give(running, score, np.arange(1_000), 500, 1_000)


class Pass(NamedTuple):
    """One engine's way through a stream."""

    rows: int
    seconds: float
    output_rows: int
    candidates_peak: int
    filled: bool
    complete: bool  # it reached the end of the stream


def made(setting: Setting, engine: str) -> Engine:
    """A running engine; of the papers' baselines, which answer after every row, one that answers at slides."""
    if engine in BASELINES:
        return Cycles(engine, setting.k, setting.win, setting.slide)
    return build(engine, QueryFamily.of(TopK(k=setting.k, by="x", window=Counting(setting.win, setting.slide))))


def measure(case: Case, score: np.ndarray, budget: float) -> Result:
    """Time `case` over the rows of `score` that follow the first full window, in seconds of one core.

    A case that does not end within `budget` seconds reports the rows it managed; one that ends sooner is
    done again, and the best pass counts. The limit is measured right before and right after.

    Examples
    --------
    >>> from skyband_lab.bench.workloads import lognormal
    >>> measure(Case(Setting(10, 1_000, 100), "lognormal", "sweep"), lognormal(2_000), 1.0).output_rows
    100
    """
    number = np.arange(len(score))
    limit = scan_limit(score, clock=time.thread_time)
    best, spent = _go(case, score, number, budget)
    for _ in range(_PASSES - 1):
        if not best.complete or spent > min(budget, _ENOUGH):
            break
        again, took = _go(case, score, number, budget)
        spent += took
        best = min(best, again, key=lambda done: done.seconds / done.rows)
    return Result(
        suite="slide",
        case=str(case),
        engine=case.engine,
        rows=best.rows,
        seconds=best.seconds,
        output_rows=best.output_rows,
        candidates_peak=best.candidates_peak,
        candidate_bytes=best.candidates_peak * CANDIDATE,
        scan_rows_per_s=max(limit, scan_limit(score, clock=time.thread_time)),
        filled=best.filled,
    )


def _go(case: Case, score: np.ndarray, number: np.ndarray, budget: float) -> tuple[Pass, float]:
    """One pass, and how long it took with filling the window."""
    k, win, slide = case.setting
    running = made(case.setting, case.engine)
    began = time.thread_time()
    full = max(win, min(_FILL, len(score) // 2))
    if full >= len(score):
        raise QueryError(f"{case} leaves no row to time: give more than the {win} rows of a window")
    # a slow engine may take minutes over a million rows: find out how many it can be given at once
    most = max(10_000, min(BATCH, BATCH // 2 * slide // k))  # what is put out at once has to fit as well
    at, _, batch = _feed(running, score, number, (0, full, most), max(slide, 1_000), _PATIENCE * budget)
    filling = time.thread_time()
    end, rows_out, _ = _feed(running, score, number, (at, len(score), most), batch, budget)
    ended = time.thread_time()
    done = Pass(end - at, ended - filling, rows_out, running.peak, at >= win, end == len(score))
    return done, ended - began


def _feed(
    running: Engine,
    score: np.ndarray,
    number: np.ndarray,
    between: tuple[int, int, int],
    batch: int,
    budget: float,
) -> tuple[int, int, int]:
    """Give the rows until they or the time run out: how far it came, rows of answers, the size of a batch."""
    at, high, most = between
    rows_out, now = 0, time.thread_time()
    till = now + budget
    while at < high and now < till:
        to = min(at + batch, high)
        rows_out += _give(running, score, number, at, to)
        before, now = now, time.thread_time()
        bearable = round((to - at) / max(now - before, 1e-6) * budget / 8)  # or one batch outlasts the budget
        batch = max(1_000, min(4 * batch, bearable, most))
        at = to
    return at, rows_out, batch


def _give(running: Engine, score: np.ndarray, number: np.ndarray, low: int, high: int) -> int:
    """Hand over some rows of a counting window: their positions are their times."""
    arrivals = Objects(score[low:high], number[low:high], number[low:high])
    return len(running.advance(arrivals, np.array([high])).id)
