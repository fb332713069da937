"""The main cases against a local Connect server, in a process of their own: a session is either classic or remote."""

import os
import sys
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from streams import write_batches
from test_top_k import QUERIES, asked, closed, cut, plain, trades

import skyband as sb
from skyband.spark.session import ROCKSDB, find_java

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    find_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.python.daemon.module", "skyband.spark.daemon")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .getOrCreate()
    )
    assert "connect" in type(spark).__module__
    batches = cut(trades(200, seed=3, disorder=20), 3, seed=1)
    write_batches(folder / "in", batches)
    stored = spark.read.parquet(str(folder / "in"))
    for name in ("hopping", "per group", "changes"):
        query = asked(**QUERIES[name])
        got = stored.transform(sb.spark.top_k(query)).toArrow()
        assert plain(got) == plain(sb.run(query, pa.concat_tables(batches))), f"{name}, batch"
    for name in ("changes", "per group"):
        query = asked(**QUERIES[name])
        df = spark.readStream.schema(stored.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        running = (
            df.withWatermark("ts", "30 seconds")
            .transform(sb.spark.top_k(query))
            .writeStream.format("parquet")
            .option("path", str(folder / name))
            .option("checkpointLocation", str(folder / f"{name} checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        running.awaitTermination()
        want = closed(sb.run(query, iter(batches), late="30 seconds"), batches, 30, query)
        got = spark.read.parquet(str(folder / name)).toArrow()
        assert plain(got.select(want.column_names)) == plain(want), f"{name}, stream"
    query = asked(**QUERIES["per group"], emit="changes")
    url = f"sqlite:///{folder}/leaders.db"
    lists = []
    for checkpoint in ("first", "second"):  # the id of a checkpoint is not told here; batch 0 begins anew
        df = spark.readStream.schema(stored.schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
        running = (
            df.withWatermark("ts", "30 seconds")
            .transform(sb.spark.top_k(query))
            .writeStream.foreachBatch(sb.spark.latest(query, url, name="leaders"))
            .option("checkpointLocation", str(folder / f"{checkpoint} checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        running.awaitTermination()
        with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
            lists.append(connection.execute(sa.text("SELECT * FROM leaders ORDER BY symbol, rank")).all())
            connection.execute(sa.text("UPDATE leaders SET score = -1"))
    assert lists[0] == lists[1], "a new checkpoint starts over"
    assert lists[0]
    spark.stop()
    sys.stdout.write("connect: all as in process\n")
