"""A driver to be killed: the k best rows of the files in a folder, into a folder of Parquet files."""

import sys

from test_top_k import QUERIES, asked

import skyband as sb
from skyband.spark.session import session

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "700m",
    "spark.driver.host": "127.0.0.1",
}

if __name__ == "__main__":
    source, out, checkpoint, name, *master = sys.argv[1:]
    spark = session("skyband driver", master[0] if master else "local[2]", SETTINGS)
    schema = spark.read.parquet(source).schema
    df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)
    step = sb.spark.top_k(asked(**QUERIES[name]))
    stream = df.withWatermark("ts", "30 seconds").transform(step).writeStream.format("parquet")
    started = stream.option("path", out).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    started.awaitTermination()
