"""sb.spark.top_k against sb.run, on real streams cut into real micro-batches."""

import datetime as dt
import random

import numpy as np
import pyarrow as pa
import pytest
from streams import answers, counted, write_batches

import skyband as sb

pytestmark = pytest.mark.spark
SECOND = 1_000_000


def trades(n, seed, span=600, groups=3, disorder=0):
    """Seeded trades with ties, gaps, NULL scores and rows out of order."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, span, n)) + rng.integers(-disorder, 1, n)
    price = np.round(rng.random(n) * 5, 1)
    return pa.table(
        {
            "ts": pa.array(at * SECOND + 1_700_000_000 * SECOND, pa.timestamp("us", "UTC")),
            "id": pa.array(rng.permutation(n)),
            "price": pa.array(price, mask=rng.random(n) < 0.1),
            "symbol": pa.array([f"S{g}" for g in rng.integers(0, groups, n)]),
        }
    )


def cut(table, batches, seed):
    rng = random.Random(seed)
    bounds = [0, *sorted(rng.randrange(table.num_rows + 1) for _ in range(batches - 1)), table.num_rows]
    return [table.slice(a, b - a) for a, b in zip(bounds, bounds[1:], strict=False)]


def plain(table):
    """Rows as tuples, in an order of our own: groups may come in any."""
    zoned = [
        c.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(c.type) and c.type.tz else c for c in table.columns
    ]
    return sorted(map(repr, zip(*(c.to_pylist() for c in zoned), strict=True)))


QUERIES = {
    "hopping": {"window": sb.Sliding("2 minutes", "30 seconds")},
    "tumbling": {"window": sb.Tumbling("1 minute"), "k": 1},
    "no multiple": {"window": sb.Sliding("100 seconds", "30 seconds", origin="7 seconds"), "ascending": True},
    "per group": {"window": sb.Sliding("2 minutes", "30 seconds"), "per": ["symbol"]},
    "closed right": {"window": sb.Sliding("60 seconds", "20 seconds", closed="right"), "per": "symbol"},
    "changes": {"window": sb.Sliding("2 minutes", "30 seconds"), "per": ["symbol"], "emit": "changes", "ranks": True},
    "arrivals": {"window": sb.Sliding("2 minutes", "30 seconds"), "emit": "arrivals"},
    "every row": {"window": sb.Sliding("20 seconds", "row"), "per": ["symbol"], "k": 2},
}


def asked(**change):
    return sb.TopK(**{"k": 3, "by": "price * 2", "time": "ts", "id": "id", **change})


def in_process(query, batches, late):
    """What sb.run says of the same batches, up to the watermark: a stream leaves the rest open."""
    line = list(sb.stream(query, iter([*batches]), late=late))
    return pa.concat_tables(line) if line else None


def closed(table, batches, late, query):
    """Of `table` the rows of windows that have closed at the last watermark."""
    newest = max(b["ts"].cast(pa.int64()).to_numpy().max(initial=0) for b in batches)
    end = table["window_end"].cast(pa.int64()).to_numpy()
    if not query.window.slide:
        return table.filter(pa.array(end < newest - late * SECOND))
    return table.filter(pa.array(end <= newest - late * SECOND))


@pytest.mark.parametrize("name", QUERIES)
def test_a_stream_says_what_sb_run_says(spark, tmp_path, name):
    query = asked(**QUERIES[name])
    batches = cut(trades(400, seed=3, disorder=20), 4, seed=1)
    write_batches(tmp_path / "in", batches)
    got, progress = answers(spark, tmp_path / "in", sb.spark.top_k(query), watermark="30 seconds")
    want, counts = sb.run(query, iter(batches), late="30 seconds", stats=True)
    want = closed(want, batches, 30, query)
    assert got.column_names == want.column_names
    assert plain(got) == plain(want)
    told = counted(progress)
    assert (told["rows"], told["late"]) == (400, counts.late)
    assert told["without_score"] == counts.without_score or not query.window.slide


@pytest.mark.parametrize("name", QUERIES)
def test_a_batch_says_what_sb_run_says(spark, tmp_path, name):
    query = asked(**QUERIES[name])
    batches = cut(trades(300, seed=5, disorder=20), 3, seed=2)
    write_batches(tmp_path / "in", batches)
    got = spark.read.parquet(str(tmp_path / "in")).transform(sb.spark.top_k(query)).toArrow()
    assert plain(got) == plain(sb.run(query, pa.concat_tables(batches)))
