"""The gate: tells whether an engine has become slower than it was, beside the others on the same machine.

Speeds say little about another day or another machine; what one way costs beside another, measured within the
same minute, says much. So ratios are kept, not speeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from skyband_lab.bench import arrival, knn, points, slide, workload, workloads
from skyband_lab.bench.slide import Setting
from skyband_lab.checkout import RESULTS

KEPT = RESULTS / "ratios.jsonl"
"""The ratios that were accepted last."""

SCAN = "scan"
ROUNDS, AGAIN = 2, 3  # each case is measured so often, and what seems to have moved so often once more
LEAST, MOST = 1.4, 3.0  # nothing below the one is called a move; above the other everything is
_SLACK = 1.25  # how much further than the accepted rounds lay apart
_SLIDE, _ARRIVAL = slide.Scale(2_000_000, 0.25), slide.Scale(1_000_000, 0.15)
_WORKLOAD = workload.Scale(1_500_000, 0.6, 10)
_POINTS = 30_000

Costs = dict[str, float]
"""Seconds a row, by the way it was done; the first is what the others are held against."""


class Case(NamedTuple):
    """Some ways of doing the same, measured one right after the other."""

    name: str
    costs: Callable[[], Costs]


class Ratio(NamedTuple):
    """What a way costs beside another: 2 is twice as dear."""

    case: str
    way: str
    beside: str
    value: float
    apart: float  # the largest of the rounds divided by the smallest

    @property
    def name(self) -> tuple[str, str, str]:
        """What is compared."""
        return self.case, self.way, self.beside

    @property
    def tolerance(self) -> float:
        """The factor from which on it has moved: as wide as the machine is restless."""
        return min(max(LEAST, self.apart * _SLACK), MOST)


class Verdict(NamedTuple):
    """A ratio now and as accepted."""

    now: Ratio
    kept: Ratio | None

    @property
    def factor(self) -> float:
        """How many times dearer than it was."""
        return self.now.value / self.kept.value if self.kept else 1.0

    @property
    def word(self) -> str:
        """What to call it.

        Examples
        --------
        >>> kept = Ratio("k=1", "sweep", "scan", 10.0, 1.1)
        >>> [Verdict(kept._replace(value=v), kept).word for v in (13.0, 15.0, 7.0)]
        ['as before', 'SLOWER', 'faster']
        >>> Verdict(kept, None).word
        'new'
        """
        if self.kept is None:
            return "new"
        if self.factor > self.kept.tolerance:
            return "SLOWER"
        return "faster" if self.factor * self.kept.tolerance < 1 else "as before"


def cases(seed: int = 0) -> list[Case]:
    """What the gate looks at: a part of each quick suite."""
    middle = slide.HEADLINE
    settings = [(middle, stream) for stream in ("lognormal", "walk", "increasing", "decreasing")]
    settings += [(middle._replace(k=k), "lognormal") for k in (10, 10_000)]
    settings += [(Setting(100, 100_000, s), "lognormal") for s in (100, 1_000)]
    each = [(9, stream) for stream in ("random", "walk", "increasing", "decreasing")] + [(81, "random")]
    found = [_slides(setting, stream, seed) for setting, stream in settings]
    found += [_arrivals(k, stream, seed) for k, stream in each]
    return [*found, _queries(seed), _nearest(seed)]


def _slides(setting: Setting, stream: str, seed: int) -> Case:
    def costs() -> Costs:
        score = workloads.STREAMS[stream](_SLIDE.rows, seed)
        done = [slide.measure(slide.Case(setting, stream, engine), score, _SLIDE.budget) for engine in _PAIR]
        scan = 1 / max(result.scan_rows_per_s for result in done)
        return {SCAN: scan, **{result.engine: 1 / result.rows_per_s for result in done}}

    return Case(f"slide {setting} {stream}", costs)


_PAIR = ("sweep", "mintopk")


def _arrivals(k: int, stream: str, seed: int) -> Case:
    def costs() -> Costs:
        score = arrival.STREAMS[stream](_ARRIVAL.rows, seed)
        todo = [arrival.Case(k, stream, engine) for engine in ("sweep", "strict")]
        done = [arrival.measure(case, score, _ARRIVAL.budget) for case in todo]
        scan = 1 / max(result.scan_rows_per_s for result in done)
        return {SCAN: scan, **{result.engine: 1 / result.rows_per_s for result in done}}

    return Case(f"arrival k={k} n={arrival.ROWS} {stream}", costs)


def _queries(seed: int) -> Case:
    kind = workload.KINDS[-1]

    def costs() -> Costs:
        score = workloads.lognormal(_WORKLOAD.rows, seed)
        todo = [workload.Case(kind, 100, "lognormal", engine) for engine in ("alone sweep", "sweep")]
        done = [workload.measure(case, score, _WORKLOAD, seed) for case in todo]
        return {result.engine: result.seconds / result.rows for result in done}

    return Case(f"workload 100 queries, any {kind.name}", costs)


def _nearest(seed: int) -> Case:
    def costs() -> Costs:
        where = points.uniform(_POINTS + 40_000, 2, seed)
        done = [knn.measure(knn.Case(way=way), where, seed) for way in ("rapf, grid", "ours")]
        return {line.way: line.cpu_seconds / line.rows for line in done}

    return Case("knn 400 queries, uniform", costs)


def ratios(case: Case, rounds: Iterable[Costs]) -> list[Ratio]:
    """Of the best round of each way; how far the rounds lie apart beside it.

    Examples
    --------
    >>> rounds = [{"scan": 1.0, "sweep": 4.0}, {"scan": 2.0, "sweep": 6.0}]
    >>> ratios(Case("k=1", dict), rounds)
    [Ratio(case='k=1', way='sweep', beside='scan', value=4.0, apart=1.33)]
    """
    rounds = list(rounds)
    best = {way: min(costs[way] for costs in rounds) for way in rounds[0]}
    ways = list(best)
    pairs = [(ways[1], ways[0]), *((way, ways[1] if ways[0] == SCAN else ways[0]) for way in ways[2:])]
    found = []
    for way, beside in pairs:
        each = [costs[way] / costs[beside] for costs in rounds]
        value, apart = (float(f"{x:.3g}") for x in (best[way] / best[beside], max(each) / min(each)))
        found.append(Ratio(case.name, way, beside, value, apart))
    return found


def measured(todo: Iterable[Case], kept: Mapping[tuple[str, str, str], Ratio]) -> Iterator[list[Verdict]]:
    """Case by case what was found; a move is believed only when further rounds do not take it back."""
    for case in todo:
        case.costs()  # compiled, and warm
        rounds = [case.costs() for _ in range(ROUNDS)]
        verdicts = [Verdict(ratio, kept.get(ratio.name)) for ratio in ratios(case, rounds)]
        for _ in range(AGAIN):
            if all(verdict.word in ("as before", "new") for verdict in verdicts):
                break
            rounds.append(case.costs())
            verdicts = [Verdict(ratio, kept.get(ratio.name)) for ratio in ratios(case, rounds)]
        yield verdicts


def load(path: Path = KEPT) -> dict[tuple[str, str, str], Ratio]:
    """The accepted ratios by what they compare; none where there is no such file."""
    if not path.is_file():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {ratio.name: ratio for ratio in (Ratio(**line) for line in lines)}


def save(found: Iterable[Ratio], path: Path = KEPT) -> None:
    """Accept these."""
    text = "".join(json.dumps(ratio._asdict()) + "\n" for ratio in found)
    path.write_text(text, encoding="utf-8")
