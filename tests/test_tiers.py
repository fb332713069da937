"""Kernels run as plain Python or compiled: the answers are equal, and a run may change between any two batches."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.kernels._jit import tier

SLIDING = {"time": "t", "unit": "s", "window": sb.Sliding("20 s", "5 s")}
ROWS = {"time": "t", "unit": "s", "window": sb.Sliding("20 s", "row")}
KINDS = {
    "one list": sb.TopK(k=3, by="x", **SLIDING),
    "ids": sb.TopK(k=3, by="x", id="n", **SLIDING),
    "groups": sb.TopK(k=3, by="x", per="g", emit="changes", **SLIDING),
    "arrivals": sb.TopK(k=3, by="x", emit="arrivals", **SLIDING),
    "after every row": sb.TopK(k=3, by="x", per="g", **ROWS),
    "changes after every row": sb.TopK(k=3, by="x", emit="changes", **ROWS),
    "counting": sb.TopK(k=3, by="x", per="g", window=sb.Counting(20, 3)),
    "leaderboard": sb.TopK(k=2, by="sum(x)", of="g", emit="changes", **SLIDING),
    "averages": sb.TopK(k=2, by="avg(y)", of="n", per="g", **SLIDING),
    "totals": sb.TopK(k=2, by="count(*)", of="g", emit="changes"),
    "workload": [sb.TopK(k=k, by="x", **SLIDING) for k in (1, 2, 4)],
    "workload of groups": [sb.TopK(k=k, by="x", per="g", emit="changes", **SLIDING) for k in (1, 4)],
    "points": [
        sb.TopK(k=2, by=sb.distance(["x", "y"], to=[float(n), 2.0]), window=sb.Counting(30, 5), name=f"n{n}")
        for n in range(9)
    ],
    "mtopband": ([sb.TopK(k=k, by="x", **SLIDING) for k in (1, 3)], "mtopband"),
}
KINDS |= {name: (KINDS["one list"], name) for name in ("mintopk", "pretopk", "sap")}


@pytest.fixture
def tiers():
    """Choose a tier for one test."""
    yield tier.choose
    tier.choose(os.environ["SKYBAND_KERNELS"])


def batches():
    rng = np.random.default_rng(3)
    for number in range(12):
        time = 10 * number + rng.integers(-4, 10, 40)
        x = np.where(rng.random(40) < 0.1, np.nan, rng.integers(0, 9, 40))
        yield pa.table({"t": time, "x": x, "y": rng.random(40), "g": rng.integers(0, 4, 40), "n": rng.permutation(40)})


def answers(kind, switched=lambda _: None):
    query, engine = KINDS[kind] if isinstance(KINDS[kind], tuple) else (KINDS[kind], "auto")
    stepped = (switched(number) or batch for number, batch in enumerate(batches()))
    timed = {} if "counting" in kind or kind in ("totals", "points") else {"late": "3 s"}
    return pa.concat_tables(sb.stream(query, stepped, engine=engine, **timed)).to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_may_change_tier_between_two_batches(kind, tiers):
    tiers("interpreted")
    want = answers(kind)
    assert want

    def alternate(number):
        tiers(("compiled", "interpreted")[number // 2 % 2])

    assert repr(answers(kind, alternate)) == repr(want)
    tiers("compiled")
    assert repr(answers(kind)) == repr(want)


def test_a_view_may_change_tier_between_two_changes(tiers):
    def followed(names):
        stock = sb.tables.ArrayTable(np.arange(500) * 7 % 13.0)
        view = sb.View(stock, k=3, by="value", kmax=6)
        rng = np.random.default_rng(4)
        found = []
        for name in itertools.islice(itertools.cycle(names), 20):
            tiers(name)
            ids, values = rng.permutation(500)[:60], rng.random(60) * 13
            stock.value[ids] = values
            view.apply({"id": ids, "value": values})
            found.append(view.read().to_pydict())
        return found, view.stats.refills

    assert followed(["interpreted"]) == followed(["compiled", "interpreted"]) == followed(["compiled"])


FIRST = """
import sys
import skyband as sb
query = sb.TopK(k=1, by="x", time="t", unit="s", window=sb.Sliding("20 s", "5 s"))
rows = {"t": list(range(1000)), "x": [float(n % 97) for n in range(1000)]}
best = sb.run(query, rows)
print(best.num_rows, "numba" in sys.modules)
many = {"t": list(range(60000)), "x": [float(n % 97) for n in range(60000)]}
best = sb.run(query, many)
print(best.num_rows, "numba" in sys.modules)
"""


def test_short_runs_do_not_load_numba_and_long_ones_do():
    env = {name: value for name, value in os.environ.items() if name != "SKYBAND_KERNELS"}
    done = subprocess.run([sys.executable, "-c", FIRST], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["203", "False", "12003", "True"]


def test_who_waits_for_a_compilation_is_told_once(tmp_path):
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "SKYBAND_KERNELS": "compiled"}
    done = subprocess.run([sys.executable, "-c", FIRST], env=env, capture_output=True, text=True, check=True)
    assert done.stderr.count("skyband warm") == 1


def test_compiling_ahead_announces_nothing(tmp_path):
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "SKYBAND_KERNELS": "compiled"}
    ahead = FIRST.replace("query =", "from skyband.kernels._jit import silence_notice; silence_notice(); query =")
    done = subprocess.run([sys.executable, "-c", ahead], env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_tier_that_does_not_exist_is_refused():
    env = os.environ | {"SKYBAND_KERNELS": "fast"}
    done = subprocess.run([sys.executable, "-c", FIRST], env=env, capture_output=True, text=True, check=False)
    assert "SKYBAND_KERNELS must be auto, compiled or interpreted, got 'fast'" in done.stderr
