"""Numbers of a query beyond its limits are refused when it is built; at the limits memory grows with the rows only."""

import json
import subprocess
import sys

import numpy as np
import pytest

import skyband as sb
from joins import join_of
from skyband.tables import Memory

USERS = Memory({"u": [1, 2], "b": [1.0, 2.0]}, key="u")
ROWS = {"t": [0, 1, 2, 5], "x": [3.0, 1.0, 4.0, 1.5], "u": [1, 2, 1, 2]}


def topk(**change):
    return sb.TopK(**{"k": 1, "by": "x", "window": sb.Counting(3), **change})


def join(**change):
    return join_of(USERS, on="u", columns=["b"], **change)


def view(**change):
    return sb.View(**{"table": sb.tables.ArrayTable(np.arange(4.0)), "k": 2, "by": "value", **change})


def points(**options):
    queries = [topk(by=sb.distance(["x", "t"], to=(i, 0))) for i in range(20)]
    return sb.run(queries, ROWS, options=options)


SETTERS = {
    "k": lambda value: topk(k=value),
    "size": sb.Counting,
    "slide": lambda value: sb.Counting(1_000_000_000, value),
    "max_k": lambda value: sb.Workload([], max_k=value, finest="1 s"),
    "budget": lambda value: join(budget=value),
    "each": sb.Budget,
    "save": lambda value: sb.Budget(1, save=value),
    "spare": lambda value: join(spare=value),
    "reserve": lambda value: join(reserve=value),
    "batch": lambda value: join(batch=value),
    "parallel": lambda value: join(parallel=value),
    "retries": lambda value: join(retries=value),
    "replica_size": lambda value: join(replica_size=value),
    "kmax": lambda value: view(kmax=value),
    "refill_at": lambda value: view(refill_at=value),
    "tasks": lambda value: sb.explain([topk()], tasks=value),
    "buckets": lambda value: sb.spark.top_k(topk(), buckets=value),
    "slices": lambda value: points(slices=value),
    "limit": lambda value: sb.run(topk(), ROWS, engine="probabilistic", options={"limit": value}),
    "additional": lambda value: sb.run(topk(), ROWS, engine="probabilistic", options={"additional": value}),
    "buffer": lambda value: sb.run(topk(), ROWS, engine="sasf", options={"buffer": value}),
}


@pytest.mark.parametrize("field", list(SETTERS))
@pytest.mark.parametrize("value", [2**31, 2**63 - 1, 2**63, 10**40, -1, 2.5, "9", None, True])
def test_numbers_out_of_range_are_refused_with_their_limits(field, value):
    if value is None and field in ("replica_size", "refill_at", "buckets", "slices", "limit", "additional", "buffer"):
        return  # None is their default
    if field == "kmax" and not isinstance(value, int):
        return  # may be a policy
    shown = value if not isinstance(value, str) else repr(value)
    with pytest.raises(sb.QueryError, match=f"{field}.*{shown}"):
        SETTERS[field](value)


@pytest.mark.parametrize("field", ["k", "size", "max_k", "spare", "budget"])
def test_whole_numbers_of_numpy_are_numbers(field):
    SETTERS[field](np.int32(7))


def test_limits_hold_in_texts_too():
    text = """SELECT * FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rn
      FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' HOUR))) WHERE rn <= 9223372036854775807"""
    with pytest.raises(sb.ParseError, match=r"k must be .* got 9223372036854775807"):
        sb.parse(text)


@pytest.mark.parametrize(
    ("engine", "change"),
    [
        ("pretopk", {"window": sb.Counting(1_000_000_000, 2)}),
        ("pretopk", {"k": 1_000_000, "window": sb.Counting(1000, 2)}),
    ],
)
def test_engines_whose_memory_grows_with_the_query_refuse_what_is_too_much(engine, change):
    with pytest.raises(sb.QueryError, match=f"{engine}.*k={change.get('k', 1)}"):
        sb.run(topk(**change), ROWS, engine=engine)


@pytest.mark.parametrize("engine", ["mtoplist", "mtopband"])
def test_workload_engines_that_open_every_window_refuse_too_many(engine):
    many = [topk(window=sb.Counting(1_000_000_000, 2)), topk(window=sb.Counting(4, 2))]
    with pytest.raises(sb.QueryError, match=r"at most .* got 500,000,00[02]"):
        sb.run(many, ROWS, engine=engine)


def test_a_join_refuses_more_windows_for_a_row_than_it_can_evaluate():
    with pytest.raises(sb.QueryError, match=r"at most 100,000 windows .*\(here 1,000,000\)"):
        topk(by="x + b", window=sb.Sliding("1000000 s", "1 s"), time="t", unit="s", join=join())


_AT_THE_LIMITS = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
import numpy as np, skyband as sb
from skyband.tables import Memory
rows = {"t": [0, 1, 2, 5], "x": [3.0, 1.0, 4.0, 1.5], "u": [1, 2, 1, 2]}
most = {"k": 1_000_000, "by": "x"}
timed = {"time": "t", "unit": "s"}
users = Memory({"u": [1, 2], "b": [1.0, 2.0]}, key="u")
join = sb.Join(users, on="u", columns=["b"], spare=1_000_000, reserve=1_000_000, replica_size=1_000_000_000)
board = {"k": 1_000_000, "of": "u", "by": "sum(x)"}
queries = {
    "rows": sb.TopK(**most, window=sb.Counting(1_000_000_000)),
    "slides": sb.TopK(**most, window=sb.Counting(1_000_000_000, 2)),
    "groups": sb.TopK(**most, window=sb.Counting(1_000_000_000, 2), per="u"),
    "time": sb.TopK(**most, **timed, window=sb.Tumbling("3650000 days")),
    "every row": sb.TopK(**most, **timed, window=sb.Sliding("3650000 days", "row"), per="u"),
    "workload": [sb.TopK(**{**most, "k": k}, window=sb.Counting(1_000_000_000, 2)) for k in (1, 1_000_000)],
    "leaderboard": sb.TopK(**board, **timed, window=sb.Tumbling("3650000 days"), per="x"),
    "all time": sb.TopK(**board, per="x"),
    "join": sb.TopK(**{**most, "by": "x + b"}, **timed, window=sb.Tumbling("3650000 days"), join=join),
}
found = {name: sb.run(query, rows).num_rows for name, query in queries.items()}
axes = [f"c{n}" for n in range(40)]
wide = [sb.TopK(k=1, by=sb.distance(axes, to=[i] * 40), window=sb.Counting(3)) for i in range(20)]
found["forty dimensions"] = sb.run(wide, {name: [1.0, 2.0] for name in axes}).num_rows
found["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(json.dumps(found))
"""


def test_at_the_limits_memory_grows_with_the_rows_only():
    done = subprocess.run([sys.executable, "-c", _AT_THE_LIMITS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found.pop("megabytes") < 1500
    assert found == {
        "rows": 10,
        "slides": 6,
        "groups": 4,
        "time": 4,
        "every row": 6,
        "workload": 8,
        "leaderboard": 4,
        "all time": 4,
        "join": 2,
        "forty dimensions": 40,
    }
