"""One session, one stream of files and one sink, for skyband and for plain Spark alike."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

if TYPE_CHECKING:
    from _task import Columns

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


@cache
def session() -> SparkSession:
    """Two local threads."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def files(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows of `parts`, a file a batch, with score `s`, time `et` and the symbol's number `g`."""
    schema = "ts long, id long, price double, volume int, symbol string"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "parts"))
    return stream.select(
        "ts",
        "id",
        (F.col("price") * F.col("volume")).alias("s"),
        F.col("ts").cast("timestamp").alias("et"),
        F.substring("symbol", 4, 3).cast("long").alias("g"),
    )


def told(answers: DataFrame, folder: Path) -> Columns:
    """Run it over all files there are; what went out."""
    found: list[list[np.ndarray]] = []

    def heed(batch: DataFrame, _: int) -> None:
        table = batch.select("e", "g", "r", "id").toArrow()
        found.append([table[name].to_numpy() for name in ("e", "g", "r", "id")])

    scratch = tempfile.mkdtemp(prefix="checkpoint-", dir=folder)
    writer = answers.writeStream.foreachBatch(heed).option("checkpointLocation", scratch).outputMode("append")
    writer.trigger(availableNow=True).start().awaitTermination()
    shutil.rmtree(scratch, ignore_errors=True)
    return tuple(np.concatenate([one[at] for one in found]) for at in range(4))


def stopped() -> None:
    """End the session."""
    session().stop()
