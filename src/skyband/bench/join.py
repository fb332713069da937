"""The join suite: the paper's grid of policies, budgets, change rates, k and N; costs; a slow service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.api import compare, run
from skyband.bench.acquatop import SEEDS, SPAN, load
from skyband.query import Join, Sliding, TopK
from skyband.query.join import POLICIES
from skyband.tables.memory import Memory


class Case(NamedTuple):
    """One comparison of all policies."""

    experiment: int  # of the paper
    name: str  # the set
    seed: int | None
    k: int
    spare: int
    budget: int


CH = {"ch05": 5, "ch10": 10, "ch20": 20, "ch40": 40, "ch80": 80}
BUDGETS = (1, 3, 5, 7, 10, 15, 20, 25, 30)
KS = (5, 7, 10, 15, 20, 30)
SPARES = (0, 10, 20, 30, 40)
OVER = {1: "budget", 2: "ch", 3: "k", 4: "spare"}
"""What each experiment varies: figures 12 to 15."""


def cases(*, quick: bool = False, experiments: tuple[int, ...] = (1, 2, 3, 4)) -> list[Case]:
    """The grid. Erratum: Table 5 has CH 10 for experiments 1, 3 and 4 where the text has 20; we follow the text."""
    seeds: tuple[int | None, ...] = (1,) if quick else SEEDS
    todo = []
    for seed in seeds:
        if 1 in experiments:
            todo += [Case(1, "ch20", seed, 5, 10, b) for b in (BUDGETS[1:7:2] if quick else BUDGETS)]
        if 2 in experiments:
            todo += [Case(2, c, seed, 5, 10, 7) for c in (("ch05", "ch80") if quick else CH)]
        if 3 in experiments:
            todo += [Case(3, "ch20", seed, k, 10, b) for b in (7, 15) for k in ((5, 10) if quick else KS)]
        if 4 in experiments:
            todo += [Case(4, "ch20", seed, 5, n, b) for b in (7, 15) for n in ((0, 10) if quick else SPARES)]
    if not quick:
        todo += [Case(2, c, None, 5, 10, b) for c in ("ch20", "ch40", "ch80") for b in BUDGETS if 2 in experiments]
    return todo


def measure(case: Case, data: Path, policies: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """One line a policy."""
    evening = load(data, case.name, case.seed)
    query = evening.query(case.k, case.spare, case.budget)
    began = time.process_time()
    table = compare(query, evening.mentions, policies or list(POLICIES), **SPAN)
    spent = time.process_time() - began
    for line in table.drop_columns(["ndcg_error", "precision_error"]).to_pylist():
        yield {"suite": "join", **case._asdict(), "ch": CH[case.name], **line, "cpu_seconds_of_all": round(spent, 3)}


def speed(rows: int = 2_000_000, keys: int = 400, seed: int = 0) -> Iterator[dict[str, Any]]:
    """CPU time an arrival with 400 keys, and a pushed change."""
    rng = np.random.default_rng(seed)
    span = rows // 1000
    stream = pa.table({
        "t": np.sort(rng.integers(0, span, rows)),
        "user": rng.integers(0, keys, rows),
        "x": rng.random(rows),
    })  # fmt: skip
    users = Memory({"user": np.arange(keys), "y": rng.random(keys)}, "user")
    window = Sliding("100 s", "20 s")
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "a value an arrival": ("x + y", {}),
        "a value over the window": ("n + y", {"n": "count(*)"}),
    }
    for name, (by, more) in cases.items():
        join = Join(users, on="user", columns=["y"], budget=7, policy="border", **more)
        query = TopK(k=5, by=by, window=window, time="t", unit="s", join=join)
        run(query, stream.slice(0, 1000), progress=False)
        seconds, stats = _timed(query, stream)
        yield {"suite": "join", "case": name, "rows": rows, "rows_per_s": round(rows / seconds), "kept": stats}
    changes = min(rows // 10, 100_000)
    pushed = pa.table({
        "t": np.sort(rng.integers(0, span, changes)),
        "user": rng.integers(0, keys, changes),
        "y": rng.random(changes),
    })  # fmt: skip
    base = Join(on="user", columns=["y"], changes=pushed.slice(0, 1), initial=users.rows)
    query = TopK(k=5, by="x + y", window=window, time="t", unit="s", join=base)
    without, _ = _timed(query, stream)
    with_, kept = _timed(query.joining(base.replaced(changes=pushed)), stream)
    cost = max(with_ - without, 0.0) / changes * 1e6
    yield {"suite": "join", "case": "pushed changes", "rows": changes, "us_per_change": round(cost, 2), "kept": kept}


def _timed(query: TopK, stream: pa.Table) -> tuple[float, int]:
    best, kept = np.inf, 0
    for _ in range(2):
        began = time.process_time()
        _, stats = run(query, stream, stats=True, progress=False)
        best, kept = min(best, time.process_time() - began), stats.peak_candidates
    return best, kept


class Slow:
    """A service that takes 100 ms for a call."""

    key = "user"

    def __init__(self, inner: Memory, delay: float = 0.1) -> None:
        self._inner, self._delay = inner, delay

    def fetch(self, ids: Any, columns: Any, timeout: float | None = None) -> pa.Table:
        """The rows, after a while."""
        time.sleep(self._delay)
        return self._inner.fetch(ids, columns, timeout)


def deadline(seconds: int = 10, rate: int = 1000) -> dict[str, Any]:
    """`rate` arrivals a second in real time, a window a second, look-ups of 100 ms each: how late answers are."""
    from skyband.api import stream

    rng = np.random.default_rng(0)
    users = Slow(Memory({"user": np.arange(400), "y": rng.random(400)}, "user"))
    join = Join(users, on="user", columns=["y"], budget=50, batch=10, parallel=5, deadline="500 ms")
    query = TopK(k=5, by="x + y", window=Sliding("5 s", "1 s"), time="t", unit="ms", join=join)
    warm = {"t": [0, 6000], "user": [1, 2], "x": [0.0, 0.0]}
    run(query, warm, progress=False)  # compiled, if it was not
    due: list[float] = []

    def batches() -> Iterator[dict[str, Any]]:
        began = time.monotonic()
        for step in range(10 * seconds + 1):
            time.sleep(max(began + step / 10 - time.monotonic(), 0))
            at = step * 100 + np.sort(rng.integers(0, 100, rate // 10))
            due.append(time.monotonic())
            yield {"t": at, "user": rng.integers(0, 400, len(at)), "x": rng.random(len(at))}
        due.append(0.0)  # the end closes the windows that are still open: no one waits for them

    worst, windows, made = 0.0, 0, 0
    for answers in stream(query, batches()):
        if not due[-1]:
            break
        worst = max(worst, time.monotonic() - due[-1])
        windows += 1
        made += answers["lookups"][0].as_py()["made"]
    return {
        "suite": "join",
        "case": f"{rate} arrivals/s, service of 100 ms",
        "windows": windows,
        "lookups": made,
        "deadline_s": 0.5,
        "slowest_answer_s": round(worst, 3),
        "missed": worst > 0.5,
    }
