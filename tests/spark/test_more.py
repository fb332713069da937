"""Many queries, made-up streams, added columns and ties: on real streams, against sb.run."""

import random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streams import answers, counted, write_batches
from test_top_k import QUERIES, SECOND, asked, closed, cut, plain, trades

import skyband as sb

pytestmark = pytest.mark.spark

MANY = [
    asked(window=sb.Sliding("2 minutes", "30 seconds")),
    asked(window=sb.Sliding("100 seconds", "20 seconds"), k=2, name="short"),
    asked(window=sb.Tumbling("1 minute"), per=["symbol"]),
    asked(window=sb.Tumbling("1 minute"), by="price", k=1),
]


def named(table):
    return table.set_column(0, "query", table["query"].cast(pa.string()))


def test_many_queries_share_a_stream_and_go_on_after_a_restart(spark, tmp_path):
    batches = cut(trades(300, seed=3, disorder=20), 4, seed=1)
    step = sb.spark.top_k(MANY, tasks=2)
    write_batches(tmp_path / "in", batches[:2])
    first, _ = answers(spark, tmp_path / "in", step, watermark="30 seconds")
    write_batches(tmp_path / "in", batches[2:], first=2)
    second, _ = answers(spark, tmp_path / "in", step, watermark="30 seconds")
    want = closed(named(sb.run(MANY, iter(batches), late="30 seconds")), batches, 30, MANY[0])
    got = pa.concat_tables([first, second])
    assert got.column_names == want.column_names
    assert plain(got) == plain(want)
    write_batches(tmp_path / "in", [trades(10, seed=2)], first=4)
    with pytest.raises(Exception, match=r"was .*new checkpoint"):
        answers(spark, tmp_path / "in", sb.spark.top_k(MANY[::-1], tasks=2), watermark="30 seconds")


def test_many_queries_over_a_batch(spark, tmp_path):
    rows = trades(300, seed=5, disorder=20)
    write_batches(tmp_path / "in", cut(rows, 3, seed=2))
    got = spark.read.parquet(str(tmp_path / "in")).transform(sb.spark.top_k(sb.Workload(MANY))).toArrow()
    assert plain(got) == plain(named(sb.run(MANY, rows)))


def test_a_leaderboard_of_totals(spark, tmp_path):
    query = sb.TopK(
        k=2, of="symbol", by="sum(price)", window=sb.Sliding("2 minutes", "30 seconds"), time="ts", emit="changes"
    )
    batches = cut(trades(300, seed=3, disorder=20), 3, seed=1)
    write_batches(tmp_path / "in", batches)
    got, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query), watermark="30 seconds")
    want = closed(sb.run(query, iter(batches), late="30 seconds"), batches, 30, query)
    assert plain(got) == plain(want)
    whole = spark.read.parquet(str(tmp_path / "in")).transform(sb.spark.top_k(query)).toArrow()
    assert plain(whole) == plain(sb.run(query, pa.concat_tables(batches)))


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1 << 30), name=st.sampled_from(sorted(QUERIES)))
def test_made_up_streams_in_made_up_batches(spark, tmp_path_factory, seed, name):
    """Out of order within the watermark and beyond it, empty batches, silent stretches."""
    rng = random.Random(seed)
    query = asked(**QUERIES[name])
    rows = trades(rng.randrange(1, 200), seed, span=rng.choice([50, 600, 5_000]), disorder=rng.choice([0, 15, 60]))
    batches = [batch for batch in cut(rows, rng.randrange(1, 5), seed) if batch.num_rows]
    folder = tmp_path_factory.mktemp("made")
    write_batches(folder / "in", batches)
    got, progress = answers(spark, folder / "in", sb.spark.top_k(query), watermark="30 seconds")
    want, counts = sb.run(query, iter(batches), late="30 seconds", stats=True)
    want = closed(want, batches, 30, query)
    assert plain(got if got is not None else want.slice(0, 0)) == plain(want)
    assert counted(progress).get("late", 0) == counts.late_rows


def test_columns_may_be_added_and_nothing_else(spark, tmp_path):
    query = asked(window=sb.Sliding("2 minutes", "30 seconds"))
    batches = cut(trades(200, seed=9), 2, seed=4)
    wider = batches[1].append_column("venue", pa.array(["X"] * batches[1].num_rows))
    write_batches(tmp_path / "in", batches[:1])
    first, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query), watermark="0 seconds")
    write_batches(tmp_path / "in", [wider], first=1)
    schema = spark.read.parquet(str(tmp_path / "in" / "00001.parquet")).schema
    second, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query), watermark="0 seconds", schema=schema)
    want = closed(sb.run(query, iter(batches), late="0 seconds"), batches, 0, query)
    both = pa.concat_tables([first, second.drop_columns(["venue"])])
    assert plain(both) == plain(want)
    assert set(second["venue"].to_pylist()) == {None, "X"}, "older rows have NULL there"
    other = sb.TopK(k=3, by="id", window=sb.Tumbling("1 minute"), time="ts", id="id")
    options = {"watermark": "0 seconds", "checkpoint": tmp_path / "other"}
    answers(spark, tmp_path / "in", sb.spark.top_k(other), **options)
    narrow = spark.read.parquet(str(tmp_path / "in")).drop("price").schema
    write_batches(tmp_path / "in", [trades(5, seed=4)], first=2)
    with pytest.raises(Exception, match="column 'price' was double and is gone"):
        answers(spark, tmp_path / "in", sb.spark.top_k(other), schema=narrow, **options)


def test_rows_that_agree_in_score_time_and_id_do_not_depend_on_tasks(spark):
    rows = pa.table(
        {
            "ts": pa.array([SECOND] * 40, pa.timestamp("us", "UTC")),
            "id": [1] * 40,
            "price": [1.0] * 40,
            "who": [f"w{n}" for n in range(40)],
        }
    )
    query = sb.TopK(k=3, by="price", window=sb.Tumbling("1 minute"), time="ts", id="id")
    df = spark.createDataFrame(rows)
    said = [df.repartition(n).transform(sb.spark.top_k(query)).toArrow() for n in (1, 3, 7)]
    assert len({repr(table.sort_by("rank")["who"].to_pylist()) for table in said}) == 1
    assert said[0].num_rows == 3


def test_a_limit_of_bytes_is_lifted_only_where_nobody_has_set_one(spark):
    limit = "spark.sql.execution.arrow.maxBytesPerBatch"
    for given_limit, want in ((None, str(2**31 - 1)), ("1m", "1m")):
        own = spark.newSession()
        own.conf.unset(limit) if given_limit is None else own.conf.set(limit, given_limit)
        rows = own.createDataFrame(trades(20, seed=1).to_pandas())
        rows.transform(sb.spark.top_k(asked(window=sb.Tumbling("1 minute"))))
        assert own.conf.get(limit) == want
