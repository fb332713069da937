"""The join suite: the paper's grid of policies, budgets, change rates, k and N; costs; a slow service."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pyarrow as pa

from skyband.api import run
from skyband.query import Calls, Join, Refresh, Sliding, TopK
from skyband.query.join import POLICIES
from skyband.tables import Http, Memory
from skyband_lab.bench.acquatop import SEEDS, load
from skyband_lab.bench.replay import Replay


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

OURS = 5
"""The number of our own experiment: every set at every budget, for the three policies that are compared there."""

THREE = ["top", "border", "likely"]


def cases(*, quick: bool = False, experiments: tuple[int, ...] = (1, 2, 3, 4, OURS)) -> list[Case]:
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
        if OURS in experiments:
            todo += [Case(OURS, c, seed, 5, 10, b) for c in (("ch05", "ch80") if quick else CH) for b in BUDGETS[1:]]
    if not quick:
        mine = [Case(2, c, None, 5, 10, b) for c in ("ch20", "ch40", "ch80") for b in BUDGETS if 2 in experiments]
        todo = mine + todo
    return todo


def left(todo: list[Case], lines: list[dict[str, Any]]) -> list[tuple[Case, list[str]]]:
    """What of the grid is not among the lines of earlier runs: the cases, and their policies."""
    done = {(*(line[f] for f in Case._fields), line["policy"]) for line in lines if "experiment" in line}
    found = []
    for case in todo:
        policies = [p for p in (THREE if case.experiment == OURS else POLICIES) if (*case, p) not in done]
        if policies:
            found.append((case, policies))
    return found


def measure(case: Case, data: Path, policies: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """One line a policy."""
    evening = replay(data, case.name, case.seed)
    for policy in policies or list(POLICIES):
        began = time.process_time()
        found = evening.run(policy, case.k, case.spare, case.budget)
        yield {
            "suite": "join",
            **case._asdict(),
            "ch": CH[case.name],
            "policy": policy,
            "paper": POLICIES[policy],
            "ndcg": round(found.ndcg, 4),
            "precision": round(found.precision, 4),
            "lookups": found.lookups,
            "cpu_seconds": round(time.process_time() - began, 3),
        }


@lru_cache(maxsize=4)
def replay(data: Path, name: str, seed: int | None) -> Replay:
    """A set, ready for any number of policies."""
    return Replay(load(data, name, seed))


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
        "a value over the window": ("n + y", {"aggregates": {"n": "count(*)"}}),
    }
    for name, (by, more) in cases.items():
        join = Join(users, on="user", columns=["y"], refresh=Refresh("border", budget=7), **more)
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
    with_, kept = _timed(replace(query, join=replace(base, changes=pushed)), stream)
    cost = max(with_ - without, 0.0) / changes * 1e6
    yield {"suite": "join", "case": "pushed changes", "rows": changes, "us_per_change": round(cost, 2), "kept": kept}


def _timed(query: TopK, stream: pa.Table) -> tuple[float, int]:
    best, kept = np.inf, 0
    for _ in range(2):
        began = time.process_time()
        _, stats = run(query, stream, stats=True, progress=False)
        best, kept = min(best, time.process_time() - began), stats.peak_candidates
    return best, kept


@contextmanager
def slow_service(values: np.ndarray, delay: float = 0.1) -> Iterator[str]:
    """A real HTTP service on loopback that takes `delay` seconds for every call; yields its address."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Rows of the ids asked for, after a while."""
            ids = parse_qs(urlsplit(self.path).query)["ids"][0].split(",")
            time.sleep(delay)
            body = json.dumps([{"user": int(i), "y": float(values[int(i)])} for i in ids]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is written."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/users"
    finally:
        server.shutdown()
        server.server_close()


def deadline(seconds: int = 10, rate: int = 1000) -> dict[str, Any]:
    """`rate` arrivals a second in real time, a window a second, a service of 100 ms a call: how late answers are."""
    rng = np.random.default_rng(0)
    with slow_service(rng.random(400)) as url:
        return _in_real_time(Http(url, key="user"), rng, seconds, rate)


def _in_real_time(users: Http, rng: np.random.Generator, seconds: int, rate: int) -> dict[str, Any]:
    from skyband.api import stream

    refresh, calls = Refresh(budget=50, deadline="500 ms"), Calls(batch=10, parallel=5)
    join = Join(users, on="user", columns=["y"], refresh=refresh, calls=calls)
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

    waits, told = [], {"made": 0, "failed": 0, "late": 0}
    for answers in stream(query, batches()):
        if not due[-1]:
            break
        waits.append(time.monotonic() - due[-1])
        said = answers["lookups"][0].as_py()
        told = {name: count + said[name] for name, count in told.items()}
    return {
        "suite": "join",
        "case": f"{rate} arrivals/s, service of 100 ms",
        "windows": len(waits),
        "lookups": told["made"],
        "failed": told["failed"],
        "late": told["late"],
        "deadline_s": 0.5,
        "median_answer_s": round(float(np.median(waits)), 3),
        "slowest_answer_s": round(max(waits), 3),
        "missed": sum(wait > 0.5 for wait in waits),
    }
