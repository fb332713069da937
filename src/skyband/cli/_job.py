"""A pipeline file on Spark: its source, its queries, its sink, as one stream."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from skyband.lang import Job

BOARD = "skyband board"
"""The observed metric that carries the newest answers of each batch to the screen."""

AHEAD = "skyband ahead"
_WORKERS = 2
_SHOWN = 200  # rows of answers that a batch shows at most


def opened(job: Job, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The session that the file asks for."""
    from skyband.spark.session import session

    master = job.spark.master.get() if job.spark.master else None
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with _hushed():
        spark = session(f"skyband {job.name}", master, {**job.spark.settings(), **(settings or {})})
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():  # Spark's own calls the JVM in the middle of another call
            signal.signal(number, handler)
    return spark


def warm(spark: SparkSession) -> None:
    """Let Python workers start, and import what they need, while Spark still plans the first batch."""

    def work() -> None:
        rows = spark.range(_WORKERS, numPartitions=_WORKERS)
        with contextlib.suppress(Exception):  # what is wrong will be told by the stream itself
            rows.mapInArrow(lambda batches: batches, "id long").count()

    threading.Thread(target=work, name="warm", daemon=True).start()


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """What the JVM says while it starts, and later, goes to a file: the screen is ours. Shown if it does not start."""
    with tempfile.TemporaryFile() as said:
        before = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException:
            said.seek(0)
            os.write(before, said.read())
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)


def rows(spark: SparkSession, job: Job) -> DataFrame:
    """The source as a stream, with its watermark."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    source, options = job.source, job.source.settings()
    reader = spark.readStream
    if source.kind in ("redis", "mqtt"):
        from skyband.spark import register

        register(spark)
        times = {"time": job.watermark.column} if job.watermark else {}
        options = {**_address(source), **times, **({"idle": source.idle} if source.idle else {}), **options}
        reader = reader.format({"redis": "redis-stream", "mqtt": "mqtt"}[source.kind])
    else:
        reader = reader.format(source.kind)
    if source.kind == "kafka":
        known = {"kafka.bootstrap.servers": source.url, "subscribe": source.topic}
        options = {**{name: late.get() for name, late in known.items() if late is not None}, **options}
    elif source.schema is not None:
        reader = reader.schema(source.schema)
    elif source.path is not None:
        reader = reader.schema(spark.read.format(source.kind).options(**options).load(source.path.get()).schema)
    path = source.path.get() if source.path is not None else None
    df = reader.options(**options).load(path) if path is not None else reader.options(**options).load()
    if source.kind == "kafka" and source.schema is not None:
        df = df.select(F.from_json(F.col("value").cast("string"), source.schema).alias("row")).select("row.*")
    if job.watermark is None:
        return df
    from skyband.spark.session import quoted

    time = quoted(job.watermark.column)
    if job.watermark.column in df.columns and df.schema[job.watermark.column].dataType.typeName() == "timestamp_ntz":
        df = df.withColumn(
            job.watermark.column, F.col(time).cast("timestamp")
        )  # naive means UTC, as the session has it
    if job.ahead_of_clock is not None:  # before the watermark, which one wrong clock would move for good
        far = F.col(time) > F.expr(f"current_timestamp() + INTERVAL '{_seconds(job.ahead_of_clock)}' SECOND")
        df = df.observe(AHEAD, F.count_if(far).alias("ahead")).filter(~F.coalesce(far, F.lit(False)))
    return df.withWatermark(time, job.watermark.delay)


def _address(source: Any) -> dict[str, str]:
    """Where a broker is, in the words of its source."""
    url, topic = source.url.get(), source.topic.get()
    if source.kind == "redis":
        return {"url": url, "stream": topic}
    from urllib.parse import urlsplit

    parts = urlsplit(url if "//" in url else f"//{url}")
    known = {"host": parts.hostname, "port": parts.port, "username": parts.username, "password": parts.password}
    return {"topic": topic, **{name: str(value) for name, value in known.items() if value is not None}}


def _seconds(text: str) -> int:
    from skyband.query.duration import parse_duration

    return parse_duration(text, "ahead_of_clock") // 1_000_000


def answers(spark: SparkSession, job: Job) -> DataFrame:
    """The queries over the source; the newest answers also go out as an observed metric."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    from skyband.spark import top_k
    from skyband.spark.session import column

    if job.sink.mode != "append":
        msg = f"sink mode {job.sink.mode!r} is not for answers, which are final: write append"
        raise QueryError(msg)
    asked: Any = job.queries if len(job.queries) > 1 else job.queries[0]
    checkpoint = None if job.checkpoint is None else job.checkpoint.get()
    df = rows(spark, job).transform(top_k(asked, early=job.early, checkpoint=checkpoint))
    first = job.queries[0]
    newest = F.struct(column(first.column("window_end")), -column(first.column("rank")))
    return df.observe(BOARD, F.max_by(F.struct("*"), newest, _SHOWN).alias("rows"))


def started(job: Job, df: DataFrame) -> StreamingQuery:
    """The stream, running."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    sink = job.sink
    writer = df.writeStream.queryName((sink.kind == "memory" and sink.table) or job.name)
    if job.checkpoint is not None:
        writer = writer.option("checkpointLocation", job.checkpoint.get())
    if job.trigger.every is not None:
        writer = writer.trigger(processingTime=job.trigger.every)
    elif job.trigger.kind in ("available_now", "once"):
        writer = writer.trigger(availableNow=True)
    writer = writer.options(**sink.settings())
    if sink.kind == "console":  # the screen is ours
        return writer.format("noop").start()
    if sink.kind == "latest":
        from skyband.spark import upsert_sink

        assert sink.url is not None
        assert sink.table is not None
        return writer.foreachBatch(upsert_sink(job.queries[0], sink.url.get(), sink.table)).start()
    if sink.kind == "kafka":
        known = {"kafka.bootstrap.servers": sink.url, "topic": sink.topic}
        named = {name: late.get() for name, late in known.items() if late is not None}
        packed = df.select(F.to_json(F.struct("*")).alias("value")).writeStream.queryName(job.name)
        if job.checkpoint is not None:
            packed = packed.option("checkpointLocation", job.checkpoint.get())
        return packed.format("kafka").options(**named).options(**sink.settings()).start()
    path = sink.path.get() if sink.path is not None else None
    return writer.format(sink.kind).start(path)
