"""Counting windows without an id: rows take positions in the order in which they come, as in sb.run."""

import numpy as np
import pyarrow as pa
import pytest
from streams import answers, collected, write_batches
from test_top_k import plain

import skyband as sb
from skyband.tables import Memory

pytestmark = pytest.mark.spark
SECOND = 1_000_000


def rows(n, first=0, seed=1, disorder=0):
    """Rows with times that many of them share."""
    rng = np.random.default_rng([seed, first])
    at = (first + np.arange(n)) // 7 + rng.integers(-disorder, 1, n)
    return pa.table(
        {
            "ts": pa.array(at * SECOND, pa.timestamp("us", "UTC")),
            "x": rng.integers(0, 50, n),
            "symbol": [f"S{g}" for g in rng.integers(0, 3, n)],
            "n": first + np.arange(n),
        }
    )


BATCHES = [rows(120), rows(1, 120), rows(90, 121)]
UNORDERED = [rows(120, disorder=20), rows(1, 120), rows(90, 121, disorder=20)]
QUERIES = {
    "slides": {"window": sb.Counting(50, 20)},
    "every row": {"window": sb.Counting(40), "emit": "changes"},
    "per group, with time": {"window": sb.Counting(30, 10), "per": "symbol", "time": "ts"},
}


def asked(name):
    return sb.TopK(**{"k": 3, "by": "x", **QUERIES[name]})


@pytest.mark.parametrize("name", QUERIES)
def test_a_stream_of_one_file_at_a_time(spark, tmp_path, name):
    """Also where times go back within a file: positions have nothing to do with them."""
    write_batches(tmp_path / "in", UNORDERED)
    got, _ = answers(spark, tmp_path / "in", sb.spark.top_k(asked(name)))
    want = sb.run(asked(name), iter(UNORDERED))
    assert plain(got) == plain(want)
    start, end, n = (got[c].to_numpy() for c in ("window_start", "window_end", "n"))
    if name == "slides":
        assert ((start <= n) & (n < end)).all(), "rows lie inside their own window"


def test_a_batch_of_one_file(spark, tmp_path):
    whole = pa.concat_tables(BATCHES)
    write_batches(tmp_path / "in", [whole])
    df = spark.read.parquet(str(tmp_path / "in"))
    for name in QUERIES:
        got = df.transform(sb.spark.top_k(asked(name))).toArrow()
        assert plain(got) == plain(sb.run(asked(name), whole))


def test_a_file_that_is_read_in_several_parts(spark, tmp_path):
    """Each part of a large file is a partition of its own; the file has one order."""
    import pyarrow.parquet as pq

    (tmp_path / "in").mkdir()
    whole = rows(4000)
    pq.write_table(whole, tmp_path / "in" / "whole.parquet", row_group_size=500)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "12000")
    try:
        df = spark.read.parquet(str(tmp_path / "in"))
        assert df.rdd.getNumPartitions() > 2
        got = df.transform(sb.spark.top_k(asked("slides"))).toArrow()
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert plain(got) == plain(sb.run(asked("slides"), whole))


def test_rows_of_several_files_go_by_time(spark, tmp_path):
    """A small file is read after a large one, and in the same partition or another; time puts them right."""
    parts = [rows(30), rows(35, 35), rows(100, 70)]  # no time is in two files
    write_batches(tmp_path / "in", parts)
    query = sb.TopK(k=3, by="x", window=sb.Counting(50, 20), time="ts")
    df = spark.read.parquet(str(tmp_path / "in"))
    want = sb.run(query, pa.concat_tables(parts))
    assert plain(df.transform(sb.spark.top_k(query)).toArrow()) == plain(want)
    assert plain(df.coalesce(1).transform(sb.spark.top_k(query)).toArrow()) == plain(want)
    stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    assert plain(collected(stream.transform(sb.spark.top_k(query)), tmp_path / "checkpoint")) == plain(want)


def test_rows_of_several_files_without_time_or_id_are_refused(spark, tmp_path):
    write_batches(tmp_path / "in", BATCHES)
    df = spark.read.parquet(str(tmp_path / "in"))
    for several in (df, df.coalesce(1)):
        with pytest.raises(Exception, match=r"order.*3 files.*neither time= nor id="):
            several.transform(sb.spark.top_k(asked("slides"))).toArrow()
    stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    with pytest.raises(Exception, match=r"order.*3 files.*neither time= nor id="):
        collected(stream.transform(sb.spark.top_k(asked("slides"))), tmp_path / "checkpoint")


def test_partitions_that_share_no_group_need_neither_time_nor_id(spark, tmp_path):
    """As a log that is partitioned by the group: each group has an order of its own."""
    whole = pa.concat_tables(BATCHES)
    parts = [whole.filter(pa.array([s == name for s in whole["symbol"].to_pylist()])) for name in ("S2", "S0", "S1")]
    write_batches(tmp_path / "in", parts)
    query = sb.TopK(k=3, by="x", window=sb.Counting(30, 10), per="symbol")
    df = spark.read.parquet(str(tmp_path / "in"))
    assert plain(df.transform(sb.spark.top_k(query)).toArrow()) == plain(sb.run(query, whole))


def test_rows_of_several_sources_go_by_time(spark, tmp_path):
    """Spark does not tell which file rows come from that a union has mixed."""
    write_batches(tmp_path / "a", [rows(35)])
    write_batches(tmp_path / "b", [rows(70, 35)])
    df = spark.read.parquet(str(tmp_path / "b")).unionByName(spark.read.parquet(str(tmp_path / "a")))
    query = sb.TopK(k=3, by="x", window=sb.Counting(50, 20), time="ts")
    got = df.transform(sb.spark.top_k(query)).toArrow()
    assert plain(got) == plain(sb.run(query, pa.concat_tables([rows(35), rows(70, 35)])))


def test_many_queries_and_a_join_count_in_the_same_order(spark, tmp_path):
    write_batches(tmp_path / "in", UNORDERED)
    queries = [sb.TopK(k=k, by="x", window=sb.Counting(50, 20), name=f"q{k}") for k in (1, 4)]
    got, _ = answers(spark, tmp_path / "in", sb.spark.top_k(queries))
    want = sb.run(queries, iter(UNORDERED))
    assert plain(got) == plain(want.set_column(0, "query", want["query"].cast(pa.string())))
    table = Memory({"symbol": ["S0", "S1", "S2"], "weight": [1.0, 30.0, 60.0]}, key="symbol")
    join = sb.Join(table, on="symbol", columns={"weight": "double"}, refresh=sb.Refresh("top", budget=10, spare=3))
    query = sb.TopK(k=2, by="x + weight", window=sb.Counting(50, 20), join=join)
    got, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query), checkpoint=tmp_path / "joined")
    names = ["window_start", "window_end", "rank", "score", "n"]
    assert plain(got.select(names)) == plain(sb.run(query, iter(UNORDERED)).select(names))
