"""Keys and groups that are NULL or NaN, over several partitions."""

import numpy as np
import pyarrow as pa
import pytest
from streams import answers, write_batches
from test_top_k import plain

import skyband as sb

pytestmark = pytest.mark.spark
SECOND = 1_000_000


NANS = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001]  # bit patterns


def rows(second, keys, nan=0):
    nan = float(np.array(NANS[nan], np.uint64).view(np.float64))
    return pa.table(
        {
            "ts": pa.array([second * SECOND] * len(keys), pa.timestamp("us", "UTC")),
            "product": pa.array(keys, pa.string()),
            "shop": pa.array([None, 1.5, nan, None][: len(keys)], pa.float64()),
            "n": pa.array(range(1, len(keys) + 1)),
        }
    )


BATCHES = [rows(1, ["a", None, None, "b"]), rows(2, [None, "b", "a", None], 1), rows(3, ["a", "b", "b"], 2)]
LAST = rows(100, [None, "a"])
QUERIES = {
    "leaderboard": {"window": sb.Tumbling("10 seconds"), "time": "ts"},
    "leaderboard of groups, one NULL and one NaN": {"window": sb.Tumbling("10 seconds"), "time": "ts", "per": "shop"},
    "leaderboard of all time": {},
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_null_key_of_a_leaderboard_is_ranked_like_any_other(spark, tmp_path, name):
    """Two files are two partitions, whose totals meet behind the shuffle."""
    query = sb.TopK(**{"k": 3, "of": "product", "by": "sum(n)", **QUERIES[name]})
    write_batches(tmp_path / "in", BATCHES)
    df = spark.read.schema(spark.read.parquet(str(tmp_path / "in")).schema).parquet(str(tmp_path / "in"))
    got = df.repartition(3).transform(sb.spark.top_k(query)).toArrow()
    want = sb.run(query, pa.concat_tables(BATCHES))
    assert None in got["product"].to_pylist()
    assert plain(got) == plain(want)


def test_a_stream_keeps_totals_of_a_null_key(spark, tmp_path):
    query = sb.TopK(k=3, of="product", by="sum(n)", window=sb.Tumbling("10 seconds"), time="ts")
    batches = [*BATCHES, LAST]
    write_batches(tmp_path / "in", batches)
    got, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query), watermark="0 seconds")
    want = sb.run(query, iter(batches))
    assert plain(got) == plain(want.filter(pa.array([end.second == 10 for end in want["window_end"].to_pylist()])))


def test_every_nan_is_one_group(spark, tmp_path):
    """Whatever its bits: the hash that places a group must not tell them apart."""
    query = sb.TopK(k=2, by="n", window=sb.Tumbling("10 seconds"), time="ts", per="shop", id="n")
    write_batches(tmp_path / "in", BATCHES)
    got = spark.read.parquet(str(tmp_path / "in")).transform(sb.spark.top_k(query)).toArrow()
    assert plain(got) == plain(sb.run(query, pa.concat_tables(BATCHES)))
