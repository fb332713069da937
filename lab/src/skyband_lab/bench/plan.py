"""The plan suite: every exact engine at many settings, to see from where on which of them is the fastest.

`choose` sees the query and never the stream, so what it picks must do well on every order of the rows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from skyband.engines import ENGINES
from skyband.engines.registry import DEFAULT_ENGINE, choose
from skyband.query import Counting, TopK
from skyband_lab.bench import arrival, slide
from skyband_lab.bench.workloads import STREAMS
from skyband_lab.checkout import RESULTS

KEPT = RESULTS / "plan.jsonl"
"""The run that the choice follows from."""

ENOUGH = 1.3
"""The chosen engine may be so many times slower than the best of a setting."""

ORDERS = ("lognormal", "walk", "increasing", "decreasing")
KS, SHAPES = (
    (1, 10, 100, 1_000),
    ((1_000_000, 100_000), (100_000, 10_000), (100_000, 1_000), (10_000, 1_000), (10_000, 10)),
)
ROW_KS, ROW_SIZES = (1, 9, 81), (1_000, 40_000)
_BUDGET, _FILL = 0.06, 0.3  # seconds that a pass may take, and filling the window before it
_CLOSE, _PASSES = 2.5, 5  # who is within this factor of the best is measured so often in all


class Setting(NamedTuple):
    """A counting window over one order of rows; slide 0: an answer after every row."""

    k: int
    win: int
    slide: int
    stream: str

    @property
    def query(self) -> TopK:
        """What is asked."""
        window = Counting(self.win, self.slide) if self.slide else Counting(self.win)
        return TopK(k=self.k, by="x", window=window, emit="answers" if self.slide else "arrivals")

    @property
    def engines(self) -> list[str]:
        """The exact ones that serve it.

        After every row without the papers' engines for many queries (mtoplist, mtopband), which open a view for every
        window: that would be one for every row.
        """
        kinds, named = self.query.window.kinds, ENGINES.items()
        serving = [name for name, entry in named if entry.traits.exact and kinds & entry.traits.windows]
        return [name for name in serving if self.slide or name == DEFAULT_ENGINE or not ENGINES[name].traits.shared]

    def __str__(self) -> str:
        every = f"every {self.slide:,}" if self.slide else "each row"
        return f"k={self.k:,} win={self.win:,} {every} {self.stream}"


@dataclass(frozen=True)
class Line:
    """What one engine did at one setting: the best of its passes."""

    k: int
    win: int
    slide: int
    stream: str
    engine: str
    rows: int
    seconds: float  # of one core
    passes: int
    filled: bool  # whether the window was full when the clock started

    @property
    def setting(self) -> Setting:
        """Where it was."""
        return Setting(self.k, self.win, self.slide, self.stream)

    @property
    def cost(self) -> float:
        """Nanoseconds a row."""
        return self.seconds / self.rows * 1e9

    def as_dict(self) -> dict[str, str | int | float | bool]:
        """The fields by name."""
        return {**asdict(self), "seconds": float(f"{self.seconds:.4g}"), "ns_per_row": float(f"{self.cost:.3g}")}


def settings(*, quick: bool = False) -> list[Setting]:
    """All settings, order by order; a quick run has a few of each kind.

    Examples
    --------
    >>> len(settings()) >= 60
    True
    >>> str(settings(quick=True)[0])
    'k=10 win=1,000,000 every 100,000 lognormal'
    """
    ks, shapes, row_ks, sizes = KS, SHAPES, ROW_KS, ROW_SIZES
    if quick:
        ks, shapes, row_ks, sizes = (10, 1_000), (SHAPES[0], SHAPES[2]), (9,), (40_000,)  # type: ignore[assignment]
    slides = [Setting(k, *shape, stream) for stream in ORDERS for shape in shapes for k in ks]
    return [*slides, *(Setting(k, n, 0, stream) for stream in ORDERS for n in sizes for k in row_ks)]


def run(todo: Iterable[Setting], *, seed: int = 0) -> Iterator[Line]:
    """Measure setting after setting, all its engines by turns."""
    todo = list(todo)
    for engine in dict.fromkeys(engine for setting in todo for engine in setting.engines):
        if "slide" in ENGINES[engine].traits.windows:
            slide.warm(engine)
        if "slide" not in ENGINES[engine].traits.windows or engine == DEFAULT_ENGINE:
            arrival.warm(engine)
    for setting in todo:
        yield from measure(setting, STREAMS[setting.stream](rows_for(setting), seed))


def rows_for(setting: Setting) -> int:
    """As many rows as it takes: a full window and some more."""
    return setting.win + max(setting.win, 300_000)


def measure(setting: Setting, score: np.ndarray) -> list[Line]:
    """Every engine once; those near the best again and again, by turns, so that all meet the same machine.

    Examples
    --------
    >>> from skyband_lab.bench.workloads import lognormal
    >>> lines = measure(Setting(3, 100, 10, "lognormal"), lognormal(2_000))
    >>> sorted({line.engine for line in lines} & {"sweep", "mintopk"})
    ['mintopk', 'sweep']
    """
    number = np.arange(len(score))
    best: dict[str, Line] = {}
    near = setting.engines
    for _ in range(_PASSES):
        for engine in near:
            line, old = _pass(setting, engine, score, number), best.get(engine)
            taken = line if old is None or line.cost < old.cost else old
            best[engine] = Line(**{**asdict(taken), "passes": old.passes + 1 if old else 1})
        least = min(line.cost for line in best.values())
        near = [name for name, line in best.items() if line.cost < _CLOSE * least]
    return list(best.values())


def _pass(setting: Setting, engine: str, score: np.ndarray, number: np.ndarray) -> Line:
    k, win, step, stream = setting
    if step:
        case = slide.Case(slide.Setting(k, win, step), stream, engine)
        done, _ = slide._go(case, score, number, _BUDGET)  # noqa: SLF001 - a pass of that suite
        return Line(k, win, step, stream, engine, done.rows, done.seconds, 1, done.filled)
    running = arrival.made(arrival.Case(k, stream, engine, win, min(arrival.BUFFER, win // 4)))
    # an engine that looks through its cells for every row may take minutes to fill a window
    at, _, batch = slide._feed(running, score, number, (0, win, len(score)), 1_000, _FILL)  # noqa: SLF001
    began = time.thread_time()
    end, _, _ = slide._feed(running, score, number, (at, len(score), len(score)), batch, _BUDGET)  # noqa: SLF001
    return Line(k, win, step, stream, engine, end - at, time.thread_time() - began, 1, at >= win)


class Row(NamedTuple):
    """A setting: who is the fastest there, and how the chosen one does beside it."""

    setting: Setting
    best: str
    cost: float
    chosen: str
    behind: float  # how many times slower the chosen one is; 1: it is the fastest


def judged(lines: Iterable[Line]) -> list[Row]:
    """Setting by setting; only whole windows count."""
    found: dict[Setting, dict[str, Line]] = {}
    for line in lines:
        found.setdefault(line.setting, {})[line.engine] = line
    rows = []
    for setting, costs in found.items():
        chosen = choose(setting.query).engine
        best = min((line for line in costs.values() if line.filled), key=lambda line: line.cost)
        rows.append(Row(setting, best.engine, best.cost, chosen, costs[chosen].cost / best.cost))
    return rows


def regrets(lines: Iterable[Line]) -> Mapping[tuple[str, str], float]:
    """For each engine and kind of window, how many times slower than the best it is where it does worst.

    The engine with the least of these is what one picks without knowing the stream.
    """
    lines = list(lines)
    best: dict[Setting, float] = {}
    for line in lines:
        if line.filled:
            best[line.setting] = min(best.get(line.setting, line.cost), line.cost)
    worst: dict[tuple[str, str], float] = {}
    for line in lines:
        key = ("slide" if line.slide else "each row", line.engine)
        worst[key] = max(worst.get(key, 1.0), line.cost / best[line.setting])
    return worst


def load(path: Path = KEPT) -> list[Line]:
    """The lines of a run that was kept."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Line(**{name: value for name, value in line.items() if name != "ns_per_row"}) for line in lines]
