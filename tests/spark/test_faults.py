"""Restarts, kills, changed queries and damaged state: nothing lost, nothing twice, nothing different."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from streams import answers, write_batches
from test_top_k import QUERIES, asked, closed, cut, plain, trades

import skyband as sb
from skyband.runtime.snapshot import FORMAT, dump, read
from skyband.spark.state import check, check_bucket, fingerprint

pytestmark = pytest.mark.spark


def resumed(spark, folder):
    df = spark.readStream.schema(spark.read.parquet(str(folder / "in")).schema).parquet(str(folder / "in"))
    return df.withWatermark("ts", "30 seconds")


def test_a_second_start_goes_on_where_the_first_ended(spark, tmp_path):
    query = asked(**QUERIES["changes"])
    batches = cut(trades(300, seed=7, disorder=10), 4, seed=4)
    step = sb.spark.top_k(query)
    write_batches(tmp_path / "in", batches[:2])
    first, _ = answers(spark, tmp_path / "in", step, watermark="30 seconds")
    write_batches(tmp_path / "in", batches[2:], first=2)
    second, _ = answers(spark, tmp_path / "in", step, watermark="30 seconds")
    want = closed(sb.run(query, iter(batches), late="30 seconds"), batches, 30, query)
    assert plain(pa.concat_tables([first, second])) == plain(want)


def test_a_changed_query_is_refused_with_what_changed(spark, tmp_path):
    write_batches(tmp_path / "in", cut(trades(100, seed=1), 2, seed=1))
    answers(spark, tmp_path / "in", sb.spark.top_k(asked(window=sb.Tumbling("1 minute"))), watermark="30 seconds")
    write_batches(tmp_path / "in", [trades(10, seed=2)], first=2)
    with pytest.raises(Exception, match=r"k was '3' and is '4'.*new checkpoint"):
        answers(
            spark, tmp_path / "in", sb.spark.top_k(asked(window=sb.Tumbling("1 minute"), k=4)), watermark="30 seconds"
        )


def test_a_changed_query_is_refused_before_rows_come(spark, tmp_path):
    """As soon as the checkpoint is known; and what may change, or a new checkpoint, is let pass."""
    query = asked(window=sb.Tumbling("1 minute"), per="symbol")
    write_batches(tmp_path / "in", [trades(100, seed=1)])
    where = str(tmp_path / "checkpoint")
    df = resumed(spark, tmp_path)
    df.transform(sb.spark.top_k(query, checkpoint=where))
    answers(spark, tmp_path / "in", sb.spark.top_k(query), watermark="30 seconds")
    df.transform(sb.spark.top_k(query, checkpoint=where))
    other = asked(window=sb.Tumbling("1 minute"), per="symbol", k=4)
    with pytest.raises(sb.SnapshotError, match=r"k was '3' and is '4'.*Workload\(.*max_k="):
        df.transform(sb.spark.top_k(other, checkpoint=where))


def test_killed_at_any_moment_nothing_is_lost_or_said_twice(spark, tmp_path):
    """Three times kill -9 of driver, JVM and workers, before, in and after a batch; then a run to the end."""
    query = asked(**QUERIES["per group"])
    batches = cut(trades(400, seed=11, disorder=15), 8, seed=3)
    write_batches(tmp_path / "in", batches)
    folders = [str(tmp_path / name) for name in ("in", "out", "checkpoint")]
    command = [sys.executable, str(Path(__file__).with_name("driver.py")), *folders, "per group"]
    paths = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    rng = random.Random(5)
    for kills in range(1, 4):
        driver = subprocess.Popen(
            command, env=env, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 90
        while driver.poll() is None and time.monotonic() < deadline:
            if len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) >= 2 * kills - 1:
                time.sleep(rng.random())
                break
            time.sleep(0.05)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=180)
    got = spark.read.parquet(folders[1]).toArrow()
    want = closed(sb.run(query, iter(batches), late="30 seconds"), batches, 30, query)
    assert plain(got.select(want.column_names)) == plain(want)


def test_damaged_and_foreign_state_is_refused():
    query = asked(window=sb.Tumbling("1 minute"))
    blob = dump({"a": pa.array([1, 2, 3]).to_numpy()}, {"engine": "sweep", "query": fingerprint(query, 1)})
    header, saved = read(blob)
    assert header["format"] == FORMAT
    assert saved["a"].tolist() == [1, 2, 3]
    check(header, fingerprint(query, 1))
    with pytest.raises(sb.SnapshotError, match="buckets was '1' and is '2'"):
        check(header, fingerprint(query, 2))
    for broken in (b"", blob[: len(blob) // 2], b"x" * 100, blob[:40] + b"\xff" * 40 + blob[80:]):
        with pytest.raises(sb.SnapshotError, match="damaged"):
            read(broken)


@pytest.mark.parametrize("name", ["hopping", "per group", "every row"])
def test_exchanged_folders_of_partitions_are_noticed(spark, tmp_path, name):
    """Before anything goes out: rows would be missing, and others be told twice."""
    query = asked(**QUERIES[name])
    batches = cut(trades(300, seed=7, groups=12), 4, seed=4)
    step, said = sb.spark.top_k(query), []
    write_batches(tmp_path / "in", batches[:2])
    answers(spark, tmp_path / "in", step, watermark="0 seconds")
    state = tmp_path / "checkpoint" / "state" / "0"
    (state / "0").rename(state / "2")
    (state / "1").rename(state / "0")
    (state / "2").rename(state / "1")
    write_batches(tmp_path / "in", batches[2:], first=2)
    with pytest.raises(Exception, match=r"state of bucket \d must be in partition \d of 2, got partition \d"):
        answers(
            spark, tmp_path / "in", step, watermark="0 seconds", out=lambda df, _: said.extend(df.toArrow().to_pylist())
        )
    assert said == []
    with pytest.raises(sb.SnapshotError, match=r"state of bucket \d must be in partition \d of 2, got partition \d"):
        resumed(spark, tmp_path).transform(sb.spark.top_k(query, checkpoint=str(tmp_path / "checkpoint")))


def test_a_session_with_another_number_of_partitions_goes_on(spark, tmp_path):
    """Spark keeps to the number that the checkpoint has."""
    query = asked(**QUERIES["per group"])
    batches = cut(trades(300, seed=7, groups=12), 4, seed=4)
    write_batches(tmp_path / "in", batches[:2])
    first, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query), watermark="0 seconds")
    write_batches(tmp_path / "in", batches[2:], first=2)
    spark.conf.set("spark.sql.shuffle.partitions", "5")
    try:
        second, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query), watermark="0 seconds")
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    want = closed(sb.run(query, iter(batches)), batches, 0, query)
    assert plain(pa.concat_tables([first, second])) == plain(want)


def test_a_state_of_another_bucket_is_refused():
    check_bucket({"bucket": 3}, 3)
    check_bucket({}, 3)  # written before buckets were stored
    with pytest.raises(sb.SnapshotError, match=r"state of bucket 3 must be its own, got that of bucket 5"):
        check_bucket({"bucket": 5}, 3)


def test_queries_that_cannot_run_on_a_stream(spark, tmp_path):
    write_batches(tmp_path / "in", [trades(10, seed=1)])
    df = spark.readStream.schema(spark.read.parquet(str(tmp_path / "in")).schema).parquet(str(tmp_path / "in"))
    with pytest.raises(sb.SchemaError, match=r'must have a watermark.*df.withWatermark\("ts"'):
        df.transform(sb.spark.top_k(asked(window=sb.Tumbling("1 minute"))))
    with pytest.raises(sb.SchemaError, match="did you mean symbol"):
        df.transform(sb.spark.top_k(asked(window=sb.Tumbling("1 minute"), per=["symbl"])))
    with pytest.raises(sb.SchemaError, match="column 'symbol' in by must be a number, got string"):
        df.transform(sb.spark.top_k(asked(window=sb.Tumbling("1 minute"), by="symbol")))
    with pytest.raises(sb.SchemaError, match="column 'symbol' in by must be a number, got string"):
        df.transform(sb.spark.top_k(asked(window=sb.Tumbling("1 minute"), by="max(symbol)", of="symbol", id=None)))
    with pytest.raises(sb.SchemaError, match=r"DataFrame, got Table: write df\.transform"):
        sb.spark.top_k(asked(window=sb.Tumbling("1 minute")))(trades(10, seed=1))
    with pytest.raises(sb.SchemaError, match="size must be a whole number of milliseconds"):
        df.withWatermark("ts", "1 second").transform(sb.spark.top_k(asked(window=sb.Tumbling("1500 us"))))
    with pytest.raises(sb.QueryError, match='early=True needs emit="answers"'):
        sb.spark.top_k(asked(window=sb.Tumbling("1 minute"), emit="changes"), early=True)
    with pytest.raises(sb.QueryError, match=r"buckets must be .* got 0"):
        sb.spark.top_k(asked(window=sb.Tumbling("1 minute")), buckets=0)
