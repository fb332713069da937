"""The Spark stream of a pipeline file: its source, its queries and its sink."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from skyband.lang import Job

NEWEST_ROWS = "skyband board"
"""The observed metric that carries the newest answers of each batch to the screen."""

AHEAD = "skyband ahead"
"""The observed metric that counts the rows dropped by `ahead_of_clock`."""

_MAX_ROWS = 200  # of answers in the metric of a batch
_WORKERS = 2  # Python workers that are started ahead
_POLL_SECONDS = 0.25


def open_session(job: Job, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Open the session that the file asks for."""
    from skyband.spark.session import session

    master = job.spark.master.get() if job.spark.master else None
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with _stderr_to_file():
        spark = session(f"skyband {job.name}", master, {**job.spark.settings(), **(settings or {})})
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():  # Spark's own calls the JVM in the middle of another call
            signal.signal(number, handler)
    return spark


def start_workers(spark: SparkSession) -> None:
    """Let Python workers start and import what they need while Spark plans the first batch."""

    def work() -> None:
        rows = spark.range(_WORKERS, numPartitions=_WORKERS)
        with contextlib.suppress(Exception):  # the stream itself reports errors
            rows.mapInArrow(lambda batches: batches, "id long").count()

    threading.Thread(target=work, name="warm", daemon=True).start()


@contextlib.contextmanager
def _stderr_to_file() -> Iterator[None]:
    """Keep the JVM's messages off the screen; print those of its start if it fails."""
    with tempfile.TemporaryFile() as messages:
        before = os.dup(2)
        os.dup2(messages.fileno(), 2)
        try:
            yield
        except BaseException:
            messages.seek(0)
            os.write(before, messages.read())
            raise
        finally:
            os.dup2(before, 2)
            os.close(before)


def read_source(spark: SparkSession, job: Job) -> DataFrame:
    """Return the source as a stream, with its watermark."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's convention

    source, options = job.source, job.source.settings()
    reader = spark.readStream.format({"redis": "redis-stream"}.get(source.kind, source.kind))
    if source.kind in ("redis", "mqtt"):
        from skyband.spark import register

        register(spark)
        time_option = {"time": job.watermark.column} if job.watermark else {}
        idle_option = {"idle": source.idle} if source.idle else {}
        options = {**_broker_options(source), **time_option, **idle_option, **options}
    if source.kind == "kafka":
        options = {**_filled({"kafka.bootstrap.servers": source.url, "subscribe": source.topic}), **options}
    elif source.schema is not None:
        reader = reader.schema(source.schema)
    elif source.path is not None:
        reader = reader.schema(spark.read.format(source.kind).options(**options).load(source.path.get()).schema)
    reader = reader.options(**options)
    df = reader.load() if source.path is None else reader.load(source.path.get())
    if source.kind == "kafka" and source.schema is not None:
        df = df.select(F.from_json(F.col("value").cast("string"), source.schema).alias("row")).select("row.*")
    return df if job.watermark is None else _add_watermark(df, job)


def _add_watermark(df: DataFrame, job: Job) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - Spark's convention

    from skyband.query.duration import parse_duration
    from skyband.spark.session import quoted

    assert job.watermark is not None
    column = job.watermark.column
    time = quoted(column)
    if column in df.columns and df.schema[column].dataType.typeName() == "timestamp_ntz":
        df = df.withColumn(column, F.col(time).cast("timestamp"))  # without a zone it is UTC, as in the session
    if job.ahead_of_clock is not None:  # before the watermark, which one wrong clock would move for good
        seconds = parse_duration(job.ahead_of_clock, "ahead_of_clock") // 1_000_000
        far = F.col(time) > F.expr(f"current_timestamp() + INTERVAL '{seconds}' SECOND")
        df = df.observe(AHEAD, F.count_if(far).alias("ahead")).filter(~F.coalesce(far, F.lit(False)))
    return df.withWatermark(time, job.watermark.delay)


def _broker_options(source: Any) -> dict[str, str]:
    """Return the address of a broker as options of its source."""
    url, topic = source.url.get(), source.topic.get()
    if source.kind == "redis":
        return {"url": url, "stream": topic}
    from urllib.parse import urlsplit

    parts = urlsplit(url if "//" in url else f"//{url}")
    address = {"host": parts.hostname, "port": parts.port, "username": parts.username, "password": parts.password}
    return {"topic": topic, **{name: str(value) for name, value in address.items() if value is not None}}


def _filled(templates: Mapping[str, Any]) -> dict[str, str]:
    return {name: template.get() for name, template in templates.items() if template is not None}


def run_queries(spark: SparkSession, job: Job) -> DataFrame:
    """Return the answers of the queries; the newest of each batch are also observed as a metric."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's convention

    from skyband.spark import top_k
    from skyband.spark.session import column

    if job.sink.mode != "append":
        raise QueryError(f"the mode of the sink must be append, since answers are final, got {job.sink.mode!r}")
    queries: Any = job.queries if len(job.queries) > 1 else job.queries[0]
    checkpoint = None if job.checkpoint is None else job.checkpoint.get()
    df = read_source(spark, job).transform(top_k(queries, early=job.early, checkpoint=checkpoint))
    first = job.queries[0]
    newest = F.struct(column(first.column("window_end")), -column(first.column("rank")))
    return df.observe(NEWEST_ROWS, F.max_by(F.struct("*"), newest, _MAX_ROWS).alias("rows"))


def start_stream(job: Job, df: DataFrame) -> StreamingQuery:
    """Start the stream into its sink."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's convention

    sink, options = job.sink, job.sink.settings()
    if sink.kind == "kafka":
        df = df.select(F.to_json(F.struct("*")).alias("value"))
        options = {**_filled({"kafka.bootstrap.servers": sink.url, "topic": sink.topic}), **options}
    writer = df.writeStream.queryName((sink.kind == "memory" and sink.table) or job.name).options(**options)
    if job.checkpoint is not None:
        writer = writer.option("checkpointLocation", job.checkpoint.get())
    if job.trigger.every is not None:
        writer = writer.trigger(processingTime=job.trigger.every)
    elif job.trigger.kind in ("available_now", "once"):
        writer = writer.trigger(availableNow=True)
    if sink.kind == "console":  # the command itself shows the answers
        return writer.format("noop").start()
    if sink.kind == "latest":
        from skyband.spark import upsert_sink

        assert sink.url is not None
        assert sink.table is not None
        return writer.foreachBatch(upsert_sink(job.queries[0], sink.url.get(), sink.table)).start()
    return writer.format(sink.kind).start(None if sink.path is None else sink.path.get())


def follow_progress(query: StreamingQuery, stop: threading.Event, until: float = math.inf) -> Iterator[Any]:
    """Yield the progress report of each batch once, until the stream ends, `stop` is set, or `until` (monotonic)."""
    seen = -1
    while time.monotonic() < until and not stop.is_set():
        active = query.isActive
        for report in query.recentProgress:
            if report["batchId"] > seen:
                seen = report["batchId"]
                yield report
        if not active:
            return
        stop.wait(_POLL_SECONDS)


def stream_error(failure: str) -> Exception:
    r"""Return the error of ours in a failure that Spark reports; else its first line.

    Examples
    --------
    >>> stream_error("[STREAM_FAILED] ...\n  File x\nskyband.errors.SnapshotError: k was '3'.\nSQLSTATE: XXKST")
    SnapshotError("k was '3'.")
    """
    from skyband import errors

    lines = [line.strip() for line in failure.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("skyband.errors.")]
    if not ours:
        return RuntimeError(lines[0] if lines else "the stream has failed")
    name, _, message = ours[-1].removeprefix("skyband.errors.").partition(": ")
    error: Exception = getattr(errors, name, errors.SourceError)(message)
    return error
