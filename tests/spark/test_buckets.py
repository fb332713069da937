"""The operator without a JVM: packed, kept, saved and loaded between every two batches, against sb.run."""

import numpy as np
import pyarrow as pa
import pytest
from bucketed import streamed
from test_top_k import QUERIES, asked, closed, cut, plain, trades

import skyband as sb
from skyband.operators.plan import plan, plan_operators

LATE = 30
COUNTED = ("rows", "late_rows", "without_score")


@pytest.mark.parametrize("name", QUERIES)
def test_one_query(name):
    query = asked(**QUERIES[name])
    batches = cut(trades(400, seed=3, disorder=60), 5, seed=1)
    got, counts = streamed(plan(query), batches, LATE)
    want, told = sb.run(query, iter(batches), late=f"{LATE} seconds", stats=True)
    assert plain(got) == plain(closed(want, batches, LATE, query))
    assert tuple(counts[name] for name in COUNTED) == tuple(getattr(told, name) for name in COUNTED)


@pytest.mark.parametrize("query", [asked(**QUERIES["hopping"]), asked(**QUERIES["every row"])], ids=str)
def test_rows_without_a_time_are_dropped_and_counted(query):
    rows = trades(60, seed=3)
    missing = np.arange(60) % 7 == 0
    rows = rows.set_column(0, "ts", pa.array(rows["ts"].to_numpy(), pa.timestamp("us", "UTC"), mask=missing))
    got, counts = streamed(plan(query), [rows], LATE)
    want, told = sb.run(query, iter([rows]), late=f"{LATE} seconds", stats=True)
    assert plain(got) == plain(closed(want, [rows.filter(rows["ts"].is_valid())], LATE, query))
    assert (counts["rows"], counts["without_time"], counts["late_rows"]) == (60, told.without_time, 0) == (60, 9, 0)


def test_a_workload():
    queries = [
        asked(window=sb.Sliding("2 minutes", "30 seconds")),
        asked(window=sb.Sliding("100 seconds", "20 seconds"), k=2, name="short"),
        asked(window=sb.Tumbling("1 minute"), per=["symbol"]),
        asked(window=sb.Tumbling("1 minute"), by="price", k=1),
    ]
    batches = cut(trades(400, seed=3, disorder=60), 4, seed=1)
    workload = sb.Workload(queries)
    _, specs = plan_operators(workload)
    assert len(specs) == 3
    got = pa.concat_tables([streamed(spec, batches, LATE)[0] for spec in specs])
    want = sb.run(queries, iter(batches), late=f"{LATE} seconds")
    want = closed(want.set_column(0, "query", want["query"].cast(pa.string())), batches, LATE, queries[0])
    assert got.column_names == want.column_names
    assert plain(got) == plain(want)


NEAR = {
    "arrivals": {"emit": "arrivals"},
    "changes": {"emit": "changes"},
    "answers": {"emit": "answers", "window": sb.Sliding("20 seconds", "row")},
    "per group": {"emit": "changes", "per": ["symbol"], "window": sb.Sliding("40 seconds", "row")},
    "counted": {"emit": "arrivals", "window": sb.Counting(25), "per": ["symbol"]},
}


def near(count, **change):
    """Queries about the trades nearest to a price and a number."""
    window = sb.Sliding("60 seconds", "row")
    return [
        asked(k=1 + at % 3, by=sb.distance(["price", "id"], to=(at % 5, 20 * at)), **{"window": window, **change})
        for at in range(count)
    ]


@pytest.mark.parametrize("name", NEAR)
def test_many_queries_about_points(name):
    queries = near(20, **NEAR[name])
    batches = cut(trades(300, seed=3, disorder=20), 4, seed=1)
    if queries[0].window.counts:
        batches = [batch.sort_by([("ts", "ascending"), ("id", "ascending")]) for batch in batches]
    _, (spec,) = plan_operators(queries)
    assert spec.family.points
    got, counts = streamed(spec, batches, LATE)
    want, told = sb.run(queries, iter(batches), late=f"{LATE} seconds", stats=True)
    want = want.set_column(0, "query", want["query"].cast(pa.string()))
    want = want if queries[0].window.counts else closed(want, batches, LATE, queries[0])
    assert got.column_names == want.column_names
    assert plain(got) == plain(want)
    assert tuple(counts[name] for name in COUNTED) == tuple(getattr(told, name) for name in COUNTED)


@pytest.mark.parametrize("name", NEAR)
def test_one_query_about_points(name):
    query = near(3, **NEAR[name])[-1]
    batches = cut(trades(300, seed=3, disorder=20), 4, seed=1)
    if query.window.counts:
        batches = [batch.sort_by([("ts", "ascending"), ("id", "ascending")]) for batch in batches]
    got, _ = streamed(plan(query), batches, LATE)
    want = sb.run(query, iter(batches), late=f"{LATE} seconds")
    assert plain(got) == plain(want if query.window.counts else closed(want, batches, LATE, query))


def test_other_targets_are_another_state():
    one, two = (plan_operators(near(count))[1][0].fingerprint() for count in (20, 21))
    assert one["by"] == two["by"] == "of each"
    assert "distance(['price', 'id'], to=(1.0, 20.0)" in one["queries"]
    assert one["queries"] != two["queries"]


TOTALS = {
    "sums": {},
    "per group": {"per": ["symbol"], "of": "id"},
    "changes": {"emit": "changes"},
    "counts": {"by": "count(*)"},
    "means": {"by": "mean(price)"},
}


def totals(**change):
    window = sb.Sliding("2 minutes", "30 seconds")
    return sb.TopK(**{"k": 2, "of": "symbol", "by": "sum(price)", "window": window, "time": "ts", **change})


@pytest.mark.parametrize("name", TOTALS)
def test_a_leaderboard(name):
    query = totals(**TOTALS[name])
    batches = cut(trades(400, seed=3, disorder=60), 4, seed=1)
    got, counts = streamed(plan(query), batches, LATE)
    want, told = sb.run(query, iter(batches), late=f"{LATE} seconds", stats=True)
    assert plain(got) == plain(closed(want, batches, LATE, query))
    assert tuple(counts[name] for name in COUNTED) == tuple(getattr(told, name) for name in COUNTED)


@pytest.mark.parametrize("emit", ["answers", "changes", "arrivals"])
def test_totals_of_all_time(emit):
    """Told after every batch, each cut into two partitions; the state goes through save and load."""
    query = sb.TopK(k=2, of="id", by="sum(price)", per=["symbol"], emit=emit)
    batches = cut(trades(400, seed=3, disorder=60), 4, seed=1)
    got, counts = streamed(plan(query), batches, LATE)
    want, told = sb.run(query, iter(batches), stats=True)
    order = [(name, "ascending") for name in ("step", "symbol", "rank", "id")]
    assert got.sort_by(order).to_pylist() == want.sort_by(order).to_pylist()
    assert (counts["rows"], counts["without_score"]) == (told.rows, told.without_score)
