"""A driver to be killed: the k best rows of the files in a folder, into a folder of Parquet files."""

import sys

from pyspark.sql import SparkSession
from test_top_k import QUERIES, asked

import skyband as sb
from conftest import ROCKSDB

if __name__ == "__main__":
    source, out, checkpoint, name = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.python.daemon.module", "skyband.spark.daemon")
        .getOrCreate()
    )
    schema = spark.read.parquet(source).schema
    df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)
    step = sb.spark.top_k(asked(**QUERIES[name]))
    stream = df.withWatermark("ts", "30 seconds").transform(step).writeStream.format("parquet")
    started = stream.option("path", out).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    started.awaitTermination()
