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
    if query.window.kind == "row":
        return table.filter(pa.array(end < newest - late * SECOND))
    return table.filter(pa.array(end <= newest - late * SECOND))


# test_buckets.py has them all, without a JVM
@pytest.mark.parametrize("name", ["hopping", "closed right", "changes", "every row"])
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
    assert (told["rows"], told["late"]) == (400, counts.late_rows)
    assert told["without_score"] == counts.without_score


@pytest.mark.parametrize("name", ["no multiple", "per group", "changes", "every row"])
def test_a_batch_says_what_sb_run_says(spark, tmp_path, name):
    query = asked(**QUERIES[name])
    batches = cut(trades(300, seed=5, disorder=20), 3, seed=2)
    write_batches(tmp_path / "in", batches)
    got = spark.read.parquet(str(tmp_path / "in")).transform(sb.spark.top_k(query)).toArrow()
    assert plain(got) == plain(sb.run(query, pa.concat_tables(batches)))


def test_many_queries_about_points_are_one_operator(spark, tmp_path):
    window = sb.Sliding("60 seconds", "row")
    queries = [
        asked(k=1 + at % 3, by=sb.distance(["price", "id"], to=(at % 5, 4 * at)), window=window, emit="arrivals")
        for at in range(100)
    ]
    batches = cut(trades(400, seed=3, disorder=20), 3, seed=1)
    write_batches(tmp_path / "in", batches)
    step = sb.spark.top_k(queries)
    got, progress = answers(spark, tmp_path / "in", step, watermark="30 seconds")
    want, counts = sb.run(queries, iter(batches), late="30 seconds", stats=True)
    want = closed(want.set_column(0, "query", want["query"].cast(pa.string())), batches, 30, queries[0])
    assert got.column_names == want.column_names
    assert plain(got) == plain(want)
    told = counted(progress)
    assert (told["rows"], told["late"]) == (400, counts.late_rows), "each row is counted once, not for every query"


def test_families_and_tasks_count_each_row_once(spark, tmp_path):
    window = sb.Sliding("60 seconds", "20 seconds")
    queries = [
        asked(window=window),
        asked(window=sb.Tumbling("10 seconds")),
        asked(window=window, per="symbol"),
        asked(window=window, by="-price"),
    ]
    batches = cut(trades(400, seed=3, disorder=20), 3, seed=1)
    write_batches(tmp_path / "in", batches)
    got, progress = answers(spark, tmp_path / "in", sb.spark.top_k(queries, tasks=2), watermark="30 seconds")
    want, counts = sb.run(queries, iter(batches), late="30 seconds", stats=True)
    want = closed(want.set_column(0, "query", want["query"].cast(pa.string())), batches, 30, queries[0])
    assert plain(got) == plain(want)
    told = counted(progress)
    assert (told["rows"], told["late"], told["without_score"]) == (400, counts.late_rows, counts.without_score)


def test_counting_windows_follow_the_batches(spark, tmp_path):
    query = sb.TopK(k=2, by="price", window=sb.Counting(30, 10), time="ts", id="id", per="symbol")
    batches = [b.sort_by([("ts", "ascending"), ("id", "ascending")]) for b in cut(trades(300, seed=9), 3, seed=5)]
    write_batches(tmp_path / "in", batches)
    got, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query))
    assert plain(got) == plain(sb.run(query, iter(batches)))


def test_early_answers_are_marked_and_final_ones_stay_the_same(spark, tmp_path):
    query = asked(window=sb.Sliding("2 minutes", "30 seconds"))
    batches = cut(trades(200, seed=13), 3, seed=6)
    write_batches(tmp_path / "in", batches)
    got, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query, early=True), watermark="30 seconds")
    final = got.filter(got["final"])
    want = closed(sb.run(query, iter(batches), late="30 seconds"), batches, 30, query)
    assert plain(final.drop_columns(["final"])) == plain(want)
    assert got.num_rows > final.num_rows, "open windows are reported too"
    whole = spark.read.parquet(str(tmp_path / "in")).transform(sb.spark.top_k(query, early=True)).toArrow()
    assert all(whole["final"].to_pylist()), "a batch leaves nothing open"
    assert plain(whole.drop_columns(["final"])) == plain(sb.run(query, iter(batches), late="1 hour"))


def test_payload_of_every_spark_type_survives(spark, tmp_path):
    rows = spark.sql(
        """
        SELECT timestamp_micros(1700000000000000 + id * 1000000) AS ts, id, CAST(id AS DOUBLE) AS price,
          CASE WHEN id % 2 = 0 THEN 9007199254740993L + id END AS big, CAST(id AS DECIMAL(38, 10)) / 3 AS dec,
          map('k', id) AS m, array(id, NULL) AS a, named_struct('x', id, 's', CAST(id AS STRING)) AS s,
          to_timestamp_ntz('2024-01-01 00:00:00') AS naive, DATE'2024-02-29' AS d, CAST('b' AS BINARY) AS b,
          id % 3 = 0 AS f, CAST(id AS FLOAT) AS fl, CAST(id AS TINYINT) AS t, CAST(NULL AS STRING) AS n
        FROM range(40)
        """
    )
    rows.coalesce(1).write.parquet(str(tmp_path / "in"))
    query = sb.TopK(k=40, by="price", window=sb.Tumbling("1 day"), time="ts", id="id")
    stored = spark.read.parquet(str(tmp_path / "in"))
    got = stored.transform(sb.spark.top_k(query)).orderBy("rank")
    want = stored.orderBy("price", ascending=False)
    assert got.drop("window_start", "window_end", "rank", "score").collect() == want.collect()
    assert [f.dataType for f in got.schema if f.name in stored.columns] == [f.dataType for f in stored.schema]
    far = spark.createDataFrame([(dt.datetime(2099, 1, 1), 41, 1.0)], "ts timestamp, id long, price double")
    write_batches(tmp_path / "s", [stored.select("ts", "id", "price").toArrow(), far.toArrow()])
    got, _ = answers(spark, tmp_path / "s", sb.spark.top_k(query), watermark="30 seconds")
    assert got.num_rows == 40, "a row from 2099 closes what came before it"


def test_ten_thousand_groups(spark, tmp_path):
    rng = np.random.default_rng(2)
    n = 40_000
    table = pa.table(
        {
            "ts": pa.array(np.sort(rng.integers(0, 300, n)) * SECOND, pa.timestamp("us", "UTC")),
            "id": np.arange(n),
            "price": np.round(rng.random(n), 2),
            "symbol": rng.integers(0, 10_000, n),
        }
    )
    query = asked(window=sb.Sliding("1 minute", "30 seconds"), per="symbol", by="price")
    batches = [table.slice(0, 20_000), table.slice(20_000)]
    write_batches(tmp_path / "in", batches)
    got, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query), watermark="0 seconds")
    assert plain(got) == plain(closed(sb.run(query, table), batches, 0, query))


def test_late_rows_are_those_of_closed_panes_not_of_closed_windows(spark, tmp_path):
    """The docs state how this differs from groupBy(window): a late row is in no window here, there in the open ones."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    def rows(*found):
        times, values = zip(*found, strict=True)
        return pa.table({"ts": pa.array([t * SECOND for t in times], pa.timestamp("us", "UTC")), "x": values})

    # the row of time 4 comes when the watermark is at 6: its pane, 0 to 5, has closed, its window 0 to 10 has not
    batches = [rows((6, 1)), rows((4, 9), (5, 2)), rows((100, 0))]
    write_batches(tmp_path / "in", batches)
    query = sb.TopK(k=3, by="x", window=sb.Sliding("10 seconds", "5 seconds"), time="ts", id="x")
    got, progress = answers(spark, tmp_path / "in", sb.spark.top_k(query), watermark="0 seconds")
    ours = [row["x"] for row in got.to_pylist() if row["window_end"].timestamp() == 10]
    assert (sorted(ours), counted(progress)["late"]) == ([1, 2], 1)
    want, counts = sb.run(query, iter(batches), late="0 seconds", stats=True)
    assert (plain(got), 1) == (plain(closed(want, batches, 0, query)), counts.late_rows)

    def grouped(df):
        return df.groupBy(F.window("ts", "10 seconds", "5 seconds")).agg(F.collect_list("x").alias("x"))

    theirs, _ = answers(
        spark, tmp_path / "in", grouped, watermark="0 seconds", checkpoint=tmp_path / "theirs", out=None
    )
    (found,) = [row["x"] for row in theirs.to_pylist() if row["window"]["end"].timestamp() == 10]
    assert sorted(found) == [1, 2, 9]
