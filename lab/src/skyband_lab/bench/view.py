"""The view suite: what an update of a top-k view costs, against kmax, workload and the database beneath.

All ways of choosing kmax take the same batches in turn, within the same seconds, against one table in memory. It
counts refills and measures updates; what a refill costs is measured on real databases of the same size, and with it
the cost per update follows for each of them, as in section 6.4 of Yi et al., ICDE 2003.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.tables import ArrayTable
from skyband.view.index import ViewIndex
from skyband.view.policy import Adaptive
from skyband.view.refill import Fetched, RefillWorker
from skyband.view.view import View
from skyband_lab.bench.prices import Price, indexed, refill_prices
from skyband_lab.bench.updates import WORKLOADS

__all__ = ["FIXED", "FULL", "POLICIES", "QUICK", "WORKLOADS", "Cost", "K", "Ran", "Scale", "indexed", "ran", "run"]

K = 100
FIXED = (100, 150, 200, 300, 500, 1_000, 2_000, 4_000)
POLICIES = ("adaptive", "model", "figure 7", "sqrt")
_PRINTED = Adaptive(share=1, watch=False)  # figure 7 as it is in the paper
Say = Callable[[str], None]


class Scale(NamedTuple):
    """How much is measured."""

    rows: int
    updates: int  # for each kmax
    budget: float  # seconds of CPU after which one of them drops out
    rounds: int = 1


QUICK, FULL = Scale(100_000, 10_000_000, 1.0), Scale(1_000_000, 400_000_000, 6.0, 4)


@dataclass(frozen=True)
class Cost:
    """One line: a workload at one kmax over one kind of table."""

    suite: str
    case: str  # the workload
    base: str  # where the table is
    kmax: str
    rows: int
    updates: int
    refills: int
    update_ns: float  # CPU of an update, all of `View.apply`
    refill_ms: float  # of one refill that brings k rows
    cost_ns: float  # an update with its part of the refills
    against_best: float  # cost, relative to the best fixed kmax
    each_round: tuple[float, ...]  # the same, round by round
    ended_at: int  # kmax at the end of the last round

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, costs rounded to what they are worth."""
        found = {name: float(f"{v:.4g}") if isinstance(v, float) else v for name, v in asdict(self).items()}
        return {**found, "each_round": [float(f"{v:.4g}") for v in self.each_round]}


class Ran(NamedTuple):
    """What a workload did to a view."""

    updates: int
    refills: int
    cpu: float  # seconds of an update
    relevant: float  # the part of the updates that concerned the view
    refilled: int  # rows that came with refills
    kmax: int  # at the end

    def cost(self, price: Price) -> float:
        """Seconds of an update with its part of the refills."""
        return self.cpu + price.of(self.refills, self.refilled) / self.updates


class _PricedWorker(RefillWorker):
    """Reports what a refill would cost on another table."""

    price = Price(0.0)

    def fetch(self, n: int, below: tuple[float, object] | None) -> Fetched:
        rows = super().fetch(n, below).rows
        return Fetched(rows, self.price.of(1, rows.num_rows))


class _Runner:
    """A view that takes part, and what it has cost."""

    def __init__(self, table: ArrayTable, kmax: int | str, price: Price) -> None:
        self.table = table
        worker = type("_Worker", (_PricedWorker,), {"price": price})
        priced = type("_PricedView", (View,), {"_worker_type": worker})  # known before the first rows are fetched
        self.view = priced(table, K, "value", kmax=_PRINTED if kmax == "figure 7" else kmax)
        self.done, self.spent, self.asked = 0, 0.0, 0.0

    def take(self, batch: pa.Table) -> None:
        before, asked = time.process_time(), self.table.seconds
        self.view.apply(batch)
        asked = self.table.seconds - asked
        self.spent += time.process_time() - before - asked
        self.asked += asked
        self.done += batch.num_rows

    def ran(self) -> Ran:
        seen = self.view.stats
        relevant = 1 - seen.ignorable / max(seen.updates, 1)
        cpu = max(self.spent, 1e-12) / self.done
        return Ran(self.done, int(seen.refills), cpu, relevant, seen.refilled_rows, self.view.kmax)


def contest(case: str, ways: Sequence[tuple[int | str, Price]], scale: Scale, seed: int) -> list[Ran]:
    """Run a workload against one view for each (kmax, price of a refill), batch by batch in turn."""
    more = {} if case == "moving window" else {"batch": min(scale.rows, 1_000_000)}
    value, batches = WORKLOADS[case](scale.rows, seed, **more)
    table = ArrayTable(value)
    runners = [_Runner(table, kmax, price) for kmax, price in ways]
    first = _Runner(table, FIXED[-1], Price(0.0))  # it brings a batch into the caches, and is not measured
    left, rng = list(runners), np.random.default_rng(seed)
    for ids, new in itertools.islice(batches, max(1, scale.updates // scale.rows)):
        table.value[ids] = new
        batch = pa.table({"id": ids, "value": new})
        first.take(batch)
        for turn in rng.permutation(len(left)):
            left[turn].take(batch)
        left = [one for one in left if one.spent + one.asked < scale.budget]
    return [one.ran() for one in runners]


def ran(case: str, kmax: int | str, price: float, scale: Scale, seed: int) -> Ran:
    """Run a workload against a view whose refills are taken to cost `price` seconds.

    Examples
    --------
    >>> ran("ups and downs", 150, 0.01, Scale(2_000, 4_000, 1.0), 0).updates
    4000
    """
    return contest(case, [(kmax, Price(price))], scale, seed)[0]


def _ways(prices: Mapping[str, Price]) -> dict[tuple[str, str], tuple[int | str, Price]]:
    """Who takes part, by base and kmax: what is fixed runs once for all bases, the others choose by their costs."""
    fixed: dict[tuple[str, str], tuple[int | str, Price]] = {
        ("", str(kmax)): (kmax, prices["sqlite"]) for kmax in (*FIXED, "sqrt")
    }
    return fixed | {
        (base, kmax): (kmax, price) for base, price in prices.items() for kmax in POLICIES if kmax != "sqrt"
    }


def run(
    scale: Scale,
    *,
    cases: Sequence[str] = tuple(WORKLOADS),
    prices: Mapping[str, Price] | None = None,
    seed: int = 0,
    say: Say = lambda _: None,
) -> Iterator[Cost]:
    """Measure everything, workload by workload."""
    if prices is None:
        say("what a refill costs")
        prices = refill_prices(scale.rows, K)
    ways = _ways(prices)
    for case in cases:
        _ready(case, list(ways.values()), seed)
        rounds: list[dict[tuple[str, str], Ran]] = []
        for number in range(scale.rounds):
            say(f"{case}, round {number + 1} of {scale.rounds}")
            rounds.append(dict(zip(ways, contest(case, list(ways.values()), scale, seed + number), strict=True)))
        for base, price in prices.items():
            yield from _lines(case, base, price, scale, rounds)


def _ready(case: str, ways: Sequence[tuple[int | str, Price]], seed: int) -> None:
    """Do all that a view may do, so that nothing is compiled or loaded while others are measured."""
    contest(case, ways, Scale(1_000, 2_000, 1.0), seed)
    index = ViewIndex(10 * K)
    index.apply(np.arange(5 * K), np.arange(5.0 * K))
    for kmax in (4 * K, K, 10 * K):
        index.resize(kmax)


def _lines(
    case: str, base: str, price: Price, scale: Scale, rounds: Sequence[Mapping[tuple[str, str], Ran]]
) -> Iterator[Cost]:
    """What each kmax cost over one kind of table."""
    ran = [{kmax: one for (its, kmax), one in found.items() if its in ("", base)} for found in rounds]
    costs = [{kmax: one.cost(price) for kmax, one in found.items()} for found in ran]
    best = [min(found[str(kmax)] for kmax in FIXED) for found in costs]
    whole = min(_mean(found[str(kmax)] for found in costs) for kmax in FIXED)
    at = price.of(1, K)
    for kmax in (*map(str, FIXED), *POLICIES):
        mine = [found[kmax] for found in ran]
        cost = _mean(found[kmax] for found in costs)
        yield Cost("view", case, base, kmax, scale.rows, sum(one.updates for one in mine),
                   sum(one.refills for one in mine), 1e9 * _mean(one.cpu for one in mine), 1e3 * at, 1e9 * cost,
                   cost / whole, tuple(found[kmax] / least for found, least in zip(costs, best, strict=True)),
                   mine[-1].kmax)  # fmt: skip
    yield Cost("view", case, base, "ask at every read", scale.rows, 1, 1, 0.0, 1e3 * at, 1e9 * at, at / whole,
               tuple(at / least for least in best), K)  # fmt: skip


def _mean(values: Iterator[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
