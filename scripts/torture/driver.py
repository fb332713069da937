"""The Spark driver that is tortured: it runs the streams of a round and starts again whatever falls over.

It knows nothing of faults. What it does for its streams is what a user's supervisor would do: start, look, start again.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.torture.pipelines import LATE, SCHEMA, Stream, drawn, remote

from skyband.spark import latest, register, top_k
from skyband.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "Asia/Kolkata",  # must not matter
    "spark.driver.memory": "1500m",
    "spark.executor.memory": "600m",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.python.authenticate.socketTimeout": "120s",  # Python starts slowly on a machine that is tortured
    "spark.sql.streaming.minBatchesToRetain": "4",
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
}


def started(spark: SparkSession, stream: Stream, room: dict[str, str], name: str) -> StreamingQuery:
    """Start one stream, or go on with it."""
    if stream.source == "redis":
        source = register(spark).readStream.format("redis-stream").schema(SCHEMA)
        df = source.options(url=room["redis"], stream=stream.name).load()
    else:
        reader = spark.readStream.schema(SCHEMA)
        if stream.files:
            reader = reader.option("maxFilesPerTrigger", stream.files)
        df = reader.parquet(f"{room['in']}/{stream.name}")
    if not stream.query.window.counts:
        df = df.withWatermark("ts", f"{LATE} seconds")
    asked = stream.asked if stream.kind != "join" else remote(stream.query, room["service"])
    writer = df.transform(top_k(asked, buckets=3)).writeStream
    writer = writer.option("checkpointLocation", f"{room['checkpoint']}/{stream.name}").queryName(name)
    if stream.sink == "latest":
        return writer.foreachBatch(latest(stream.query, room["database"], stream.name)).start()
    return writer.format("parquet").option("path", f"{room['sink']}/{stream.name}").start()


def main() -> None:
    """Run until killed. On SIGUSR1, say in the log where every thread stands."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    seed, streams, master, told = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    room: dict[str, str] = json.loads(sys.argv[5])
    spark = session("skyband torture", master, {**SETTINGS, "spark.local.dir": room["local"]})
    running: dict[str, StreamingQuery] = {}
    said: dict[str, Any] = {"pid": os.getpid(), "starts": {}, "errors": []}
    rest = dict.fromkeys([stream.name for stream in drawn(seed, streams)], 0.0)
    while True:
        for stream in drawn(seed, streams):
            query = running.get(stream.name)
            if (query is not None and query.isActive) or time.monotonic() < rest[stream.name]:
                continue
            rest[stream.name] = time.monotonic() + 1  # not faster than once a second
            try:
                if query is not None:
                    _note(said, stream, query.exception())
                running.pop(stream.name, None)
                number = said["starts"].get(stream.name, 0)
                running[stream.name] = started(spark, stream, room, f"{stream.name} {number}")
                said["starts"][stream.name] = number + 1
            except Exception as error:  # noqa: BLE001 - a start may meet any fault; what it was is told
                _note(said, stream, error)
        text = told.with_suffix(".new")
        text.write_text(json.dumps(said))
        text.rename(told)
        time.sleep(0.2)


def _note(said: dict[str, Any], stream: Stream, error: object) -> None:
    said["errors"] = [*said["errors"][-20:], f"{stream.name}: {str(error)[-1500:]}"]
    sys.stderr.write(f"--- {stream.name} fell over: {str(error)[:6000]}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
