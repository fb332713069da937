"""sb.spark.top_k: the stages joined, from DataFrame to DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import QueryError, SchemaError
from skyband.operators.plan import plan_operators
from skyband.query import Sliding, TopK
from skyband.query.duration import format_duration
from skyband.spark.buckets import bucket_keys
from skyband.spark.commands import COMMAND
from skyband.spark.pack import BLOCK, FILE, TIE, broadcast, in_utc, map_rows, packer
from skyband.spark.session import column, configure_session, quoted
from skyband.windows import MIN_TIME
from skyband.workload.family import check_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

    from skyband.runtime.protocols import OperatorSpec
    from skyband.spark.stateful import BucketProcessor
    from skyband.workload.workload import Workload

OLDEST = (4, 2)
_NEWEST = "__skyband_newest"
_OLD_NAMES = {"late_rows": "late", "missed_deadline": "overdue"}
"""Counters that are also observed under the name they had before."""


def top_k(  # noqa: PLR0913 - the one wide entry point
    query: TopK | Sequence[TopK] | Workload,
    *,
    engine: str = "auto",
    early: bool = False,
    buckets: int | None = None,
    tasks: int = 1,
    metric: str | None = None,
    checkpoint: str | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """Return the k best rows of each window of a Spark DataFrame, streaming or batch: for `df.transform(...)`.

    Parameters
    ----------
    query
        What to rank; or several queries, whose results carry their name in a column `query`: those of the same score
        and groups share one read, one shuffle and one state. A stream needs `df.withWatermark(time, ...)` for time
        windows.
    engine
        "auto", or a name in `sb.ENGINES`.
    early
        Also return, at every trigger, the provisional results of open windows; the column `final` tells them apart.
    buckets
        Into how many buckets groups are hashed (default 8, or 1 without `per`). Fixed at the first start of a stream.
    tasks
        Into how many tasks a family of queries is split at most: more than one where a single task cannot keep pace.
        Fixed at the first start too.
    metric
        The name of the observed metric. Default: "skyband", or "skyband NAME" for one query with `name="NAME"`. Two
        of them in one stream of Spark must have different names.
    checkpoint
        The checkpoint location of the stream. A changed query is then refused at once, not when rows come.

    Returns
    -------
    A function from DataFrame to DataFrame. The columns are those of `sb.run`. Counts of rows, late rows and rows
    without a score go out as an observed metric of each batch.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=10, by="price * volume", window=sb.Sliding("10 minutes", "1 minute"), time="ts")
    >>> step = sb.spark.top_k(query)  # then: trades.withWatermark("ts", "30 seconds").transform(step)
    """
    check_version()
    check_tasks("tasks", tasks)
    if buckets is not None:
        check_tasks("buckets", buckets)
    queries, specs = plan_operators(query, engine, tasks)
    _check(queries, early=early)
    name = metric_name(metric, queries[0].name if len(queries) == 1 else None)

    def transform(df: DataFrame) -> DataFrame:
        return _TopK(df, queries, specs, buckets, early=early).result(name, checkpoint)

    return transform


def metric_name(metric: object, query: str | None = None) -> str:
    """Return the name of the observed metric, by the name of the query unless it is given."""
    if metric is None:
        return f"skyband {query}" if query else "skyband"
    if not isinstance(metric, str) or not metric:
        raise QueryError(
            f'metric must be a non-empty string, got {metric!r}: write one such as metric="skyband trades"'
        )
    return metric


def check_version() -> None:
    """Raise unless Spark is new enough."""
    import pyspark

    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < OLDEST:
        raise ImportError(
            f"Spark must be {'.'.join(map(str, OLDEST))} or later, got {pyspark.__version__}: upgrade pyspark"
        )


def _check(queries: Sequence[TopK], *, early: bool) -> None:
    """Refuse what cannot run as one stream on Spark."""
    first = queries[0]
    for query in queries:
        if callable(query.by) and query.version is None:
            raise QueryError(
                'version must be given if by is a function, whose code cannot be compared: write version="1"'
            )
    if early and first.emit != "answers":
        raise QueryError(f'early=True needs emit="answers", got {first.emit!r}: leave one of them out')
    if early and first.window.kind == "all time":
        raise QueryError("early=True needs a window, got none: totals of all time are emitted at every trigger")


class _TopK:
    """One use of `top_k` on a DataFrame."""

    def __init__(
        self,
        df: DataFrame,
        queries: Sequence[TopK],
        specs: Sequence[OperatorSpec],
        buckets: int | None,
        *,
        early: bool,
    ) -> None:
        from skyband.spark.schema import check_case, check_source, result_schema, source_schema

        if not hasattr(df, "sparkSession"):
            raise SchemaError(
                f"df must be a Spark DataFrame, got {type(df).__name__}: write df.transform(sb.spark.top_k(query))"
            )
        configure_session(df.sparkSession)
        commands = COMMAND in df.columns
        if commands:
            for spec in specs:
                spec.check_commands()
        self.df, self.own = df, df.drop(COMMAND) if commands else df
        self.queries, self.specs, self.early = queries, specs, early
        check_source(queries, self.own.schema)
        for query in queries if df.isStreaming else ():
            _check_watermark(df, query)
        self.schema = source_schema(self.own.schema)
        for spec in specs:
            spec.check(self.schema)
        self.out = result_schema(specs[0].result(early=early), self.own.schema)
        check_case(df.sparkSession, self.out)
        sizes = [_bucket_count(spec, buckets) for spec in specs]
        keys = bucket_keys(sum(sizes))
        self.keys = [keys[sum(sizes[:at]) : sum(sizes[: at + 1])] for at in range(len(sizes))]
        extra = dict.fromkeys(name for spec in specs for name in spec.own_counters)
        self.counters = (*(("refused",) if commands else ()), *extra)

    def result(self, metric: str, checkpoint: str | None) -> DataFrame:
        """Return the result of a stream, or of a batch."""
        packed = self._packed()
        by_key = {key: spec for spec, mine in zip(self.specs, self.keys, strict=True) for key in mine}
        if not self.df.isStreaming:
            return self._batch(packed, by_key)
        from skyband.spark.state import check_checkpoint, fingerprint
        from skyband.spark.stateful import COUNTERS, BucketProcessor

        prints = {
            key: fingerprint(spec.query, len(mine), spec.fingerprint())
            for spec, mine in zip(self.specs, self.keys, strict=True)
            for key in mine
        }
        if checkpoint is not None:
            check_checkpoint(self.df.sparkSession, checkpoint, prints)
        event_time = self.queries[0].column("window_end") if _carries_event_time(self.queries) else None
        processor = BucketProcessor(
            by_key,
            self.schema,
            prints,
            counters=(*COUNTERS, *self.counters),
            event_time=event_time,
            early=self.early,
        )
        return stateful(packed, processor, metric, self.out, timed=self.specs[0].event_time)

    def _packed(self) -> DataFrame:
        packed = map_rows(self._with_ties(), packer(self.specs, self.keys))
        for spec, keys in zip(self.specs, self.keys, strict=True):
            for name, (rows, columns) in spec.side_inputs().items():
                packed = packed.unionAll(self._side_input(name, rows, columns, spec.query, keys))
        return packed

    def _with_ties(self) -> DataFrame:
        """Return the rows with what orders them where they have no id: the place they come from, or a hash of them."""
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

        if all(query.id is not None or query.of for query in self.queries):
            return self.df
        if self.queries[0].window.counts:
            return _with_origin(self.df)
        hashed = [column(f.name) for f in self.own.schema if _hashable(f.dataType)]
        return self.df.withColumn(TIE, F.xxhash64(*hashed))

    def _side_input(self, name: str, rows: Any, columns: list[str], query: TopK, keys: list[int]) -> DataFrame:
        """Return the rows of another input, packed for every bucket."""
        assert query.time is not None
        for needed in (*columns, query.time):
            if needed not in rows.columns:
                raise SchemaError(
                    f"{name} must have the columns {', '.join(columns)} and the time {query.time!r}, got no {needed!r}"
                )
        if rows.isStreaming != self.df.isStreaming:
            raise SchemaError(f"{name} and rows must both be streams, or both be batches: read them alike")
        if self.df.isStreaming:
            _check_watermark(rows, query)
        wanted = [*columns, query.time]

        def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            found = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
            if found:
                yield from broadcast(name, in_utc(pa.concat_tables(found)).select(wanted), keys)

        return map_rows(rows, pack)

    def _batch(self, packed: DataFrame, specs: Mapping[int, OperatorSpec]) -> DataFrame:
        """Return the result of a batch DataFrame: the end of the input closes everything."""
        from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

        first = self.queries[0]
        if first.emit == "changes" and first.time is not None:  # how far time has come decides what was deleted
            packed = packed.crossJoin(F.broadcast(self.df.agg(F.max(column(first.time)).alias(_NEWEST))))

        return packed.groupBy("bucket").applyInArrow(answer_batch(specs, self.schema, early=self.early), self.out)


def answer_batch(
    specs: Mapping[int, OperatorSpec], schema: pa.Schema, *, early: bool = False
) -> Callable[[pa.Table], pa.Table]:
    """Return what answers all packed rows of a bucket at once: the end of the input closes everything."""

    def answer(rows: pa.Table) -> pa.Table:
        from skyband.runtime.schema import TimeType
        from skyband.spark.bucket import Bucket

        columns, newest = rows.to_pydict(), MIN_TIME
        spec = specs[columns["bucket"][0]]
        bucket = Bucket(spec, schema, early=early, live=False)
        found = bucket.advance(columns, MIN_TIME)
        if early:  # there is but one trigger, and nothing is open after it
            found = found.filter(found.column(spec.query.column("final")))
        if _NEWEST in columns:
            moment = in_utc(rows).column(_NEWEST)
            newest = int(TimeType.of(spec.query, moment.type).micros(moment)[0][0])
        return pa.concat_tables([found, bucket.finish(newest)], promote_options="permissive")

    return answer


def stateful(packed: DataFrame, processor: BucketProcessor, metric: str, out: Any, *, timed: bool) -> DataFrame:
    """Return the results of buckets as typed rows, with their event time; their counters are observed."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way
    from pyspark.sql.types import StructType

    from skyband.spark.schema import decoder

    moment = processor.event_time
    counters = ", ".join(f"{name} long" for name in processor.counters)
    encoded = f"blob binary, operator int, {counters}, notice string"
    if moment is not None:
        encoded = f"{quoted(moment)} timestamp, {encoded}"
    mode = "eventTime" if timed else "none"
    grouped = packed.groupBy("bucket")
    found = grouped.transformWithStateInPandas(processor, encoded, "append", mode, eventTimeColumnName=moment or "")
    found = found.observe(metric, *_observed(processor)).filter("blob IS NOT NULL")
    decode = decoder(StructType([field for field in out if field.name != moment]))
    own = [] if moment is None else [column(moment)]
    rows = found.select(*own, F.explode(decode("blob")).alias("row"))
    # the event time as it is: an expression on it would lose its mark
    return rows.select(*[column(n) if n == moment else F.col("row")[n].alias(n) for n in out.names])


def _observed(processor: BucketProcessor) -> list[Column]:
    """Return the counters of a trigger, from those of all buckets."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    found = []
    for name in processor.counters:
        found.append(_merged(name, processor).alias(name))
        if name in _OLD_NAMES:
            found.append(_merged(name, processor).alias(_OLD_NAMES[name]))
    if "refused" in processor.counters:
        notices = [F.max(F.when(F.col("operator") == number, F.col("notice"))) for number in _numbers(processor)]
        found.append(F.nullif(F.concat_ws("; ", *notices), F.lit("")).alias("notice"))
    return found


def _numbers(processor: BucketProcessor) -> list[int]:
    return sorted(set(processor.operators.values()))


def _merged(name: str, processor: BucketProcessor) -> Column:
    """Return one counter of a trigger.

    Every operator takes all rows, which are counted once; late are those that any of them lost. Rows without a score
    are counted by each family. All buckets of an operator get the same commands.
    """
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    of = {number: processor.specs[key] for key, number in processor.operators.items()}
    across = {"rows": "first", "without_time": "first", "late_rows": "max"}.get(name, "sum")
    within = F.max if name == "refused" else F.sum
    if len(of) == 1:
        return within(name)
    chosen = [min(of)] if across == "first" else sorted(of)
    if name == "without_score":  # parts of one family take the same rows
        chosen = [number for number in chosen if of[number].counts_rows]
    each = [F.coalesce(within(F.when(F.col("operator") == number, F.col(name))), F.lit(0)) for number in chosen]
    return F.greatest(*each) if across == "max" else reduce(lambda one, other: one + other, each)


def _bucket_count(spec: OperatorSpec, buckets: int | None) -> int:
    """Return into how many buckets the groups of an operator are hashed."""
    if not spec.per or spec.max_buckets == 1:
        return 1
    return buckets or spec.default_buckets


def _carries_event_time(queries: Sequence[TopK]) -> bool:
    """Return whether results have an event time that no watermark has passed when they come out."""
    windows = [query.window for query in queries]
    slides = all(window.kind == "slide" and not window.counts for window in windows)
    return slides and all(getattr(window, "closed", "left") == "left" for window in windows)


def _check_watermark(df: DataFrame, query: TopK) -> None:
    if query.window.counts:
        return
    assert query.time is not None
    if "spark.watermarkDelayMs" not in df.schema[query.time].metadata:
        time = query.time if query.time.isidentifier() else quoted(query.time)
        raise SchemaError(
            f"time={query.time!r} must have a watermark on a stream, or no window could ever close: write "
            f'df.withWatermark("{time}", "30 seconds") before it'
        )
    assert isinstance(query.window, Sliding)
    for field, length in query.window.lengths.items():
        if length % 1000:
            given = format_duration(length)
            raise SchemaError(
                f"{field} must be a whole number of milliseconds, in which Spark's watermark counts, got {given!r}"
            )


def _with_origin(df: DataFrame) -> DataFrame:
    """Return the rows with the file, and the part of it, that they are read from."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    file, block = F.xxhash64(F.input_file_name()), F.input_file_block_start()
    try:
        found = df.withColumn(FILE, file).withColumn(BLOCK, block)
        _ = found.schema  # through Connect Spark looks at the plan when it is asked
    except AnalysisException:  # rows of several sources: partitions are all that is known
        return df.withColumn(FILE, F.lit(0).cast("long")).withColumn(BLOCK, F.lit(-1).cast("long"))
    return found


def _hashable(kind: Any) -> bool:
    """Return whether Spark can hash a type: all but maps and variants, and what holds one."""
    return "map<" not in kind.simpleString() and "variant" not in kind.simpleString()
