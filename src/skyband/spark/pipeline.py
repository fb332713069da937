"""top_k: the stages joined, from DataFrame to DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.engines.plan import choose
from skyband.engines.registry import ENGINES
from skyband.errors import QueryError, SchemaError
from skyband.join.checks import check_names
from skyband.join.shared import shared_join
from skyband.query import AllTime, Sliding, TopK
from skyband.query.duration import format_duration, microseconds
from skyband.spark.board import Board
from skyband.spark.joined import LOOKUPS, Joined, pack_changes
from skyband.spark.session import column, quoted, suit
from skyband.spark.share import Share, Shared, Single
from skyband.workload.family import check, per_of
from skyband.workload.split import check_parts, split
from skyband.workload.workload import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from skyband.spark.operator import Operator

OLDEST = (4, 2)
_SOME, _SOME_BYTES = 50_000, 32 << 20  # rows and bytes that are pruned at a time
_NEWEST = "__skyband_newest"
Pack = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def top_k(  # noqa: PLR0913 - the one wide door
    query: TopK | Sequence[TopK] | Workload,
    *,
    engine: str = "auto",
    early: bool = False,
    buckets: int | None = None,
    tasks: int = 1,
    metric: str | None = None,
    checkpoint: str | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """The k best rows of each window of a Spark DataFrame, streaming or batch: for `df.transform(...)`.

    Parameters
    ----------
    query
        What to rank; or many queries, whose answers carry their name in a column `query`: those of the same score and
        groups share one read, one shuffle and one state. A stream needs `df.withWatermark(time, ...)` for time windows.
    engine
        "auto", or a name in `sb.ENGINES`.
    early
        Also report, at every trigger, the provisional answer of the windows still open; column `final` tells
        them apart.
    buckets
        Into how many parts the groups are dealt (default 8, or 1 without `per`). Fixed at the first start of a
        stream.
    tasks
        Into how many tasks a family of queries is split at most: more than one where a single task cannot keep pace.
        Fixed at the first start too.
    metric
        The name of the observed metric. Default: "skyband", or "skyband NAME" for one query with `name="NAME"`. Two
        of them in one stream of Spark must have different names.
    checkpoint
        Where the stream has its checkpoint. A changed query is then refused at once, and not when rows come.

    Returns
    -------
    A function from DataFrame to DataFrame. Its columns are those of `sb.run`. Counts of rows, late rows and rows
    without a score go out as an observed metric of each batch.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=10, by="price * volume", window=sb.Sliding("10 minutes", "1 minute"), time="ts")
    >>> step = sb.spark.top_k(query)  # then: trades.withWatermark("ts", "30 seconds").transform(step)
    """
    check_version()
    asked = [query] if isinstance(query, TopK) else list(_queries(query))
    _check(asked, early=early)
    check_parts("tasks", tasks)
    if buckets is not None:
        check_parts("buckets", buckets)
    shares = [_share(query, engine)] if isinstance(query, TopK) else _shares(query, asked, engine, tasks)
    named = metric_name(metric, asked[0].name if len(asked) == 1 else None)

    def transform(df: DataFrame) -> DataFrame:
        return _transformed(df, asked, shares, buckets, early=early, metric=named, checkpoint=checkpoint)

    return transform


def metric_name(metric: object, query: str | None = None) -> str:
    """The name of the observed metric, by the name of the query unless it is given."""
    if metric is None:
        return f"skyband {query}" if query else "skyband"
    if not isinstance(metric, str) or not metric:
        msg = f'metric must be a text that is not empty, got {metric!r}: write one such as metric="skyband trades"'
        raise QueryError(msg)
    return metric


def _check(asked: list[TopK], *, early: bool) -> None:
    """Refuse what cannot run as one stream on Spark."""
    for one in asked:
        if callable(one.by) and one.version is None:
            msg = 'by is a function, whose code cannot be compared after a restart: name it, such as version="1"'
            raise QueryError(msg)
    if early and asked[0].emit != "answers":
        msg = f'early=True goes with emit="answers", not {asked[0].emit!r}: leave one of them out'
        raise QueryError(msg)
    if any(one.join is not None for one in asked) and any(one.join is None for one in asked):
        msg = "queries with and without join= cannot share a stream on Spark: run a stream for each kind"
        raise QueryError(msg)
    if len(asked) > 1 and any(one.of for one in asked):
        msg = "of= ranks keys, which a workload cannot share: run a stream of its own for it"
        raise QueryError(msg)
    if early and isinstance(asked[0].window, AllTime):
        msg = "early=True says nothing without a window: totals of all time are told at every trigger"
        raise QueryError(msg)


def _share(query: TopK, engine: str) -> Share:
    """What answers one query."""
    if query.join is not None:
        return Joined.of(query)
    return Board(query) if query.of else Single(query, choose(query, engine).engine)


def _shares(query: Sequence[TopK] | Workload, asked: list[TopK], engine: str, tasks: int) -> list[Share]:
    """What answers many queries."""
    workload, per = query if isinstance(query, Workload) else Workload(asked), tuple(per_of(asked))
    if asked[0].join is not None:
        return [Joined.of(asked[0], dict(workload.items()), per)]
    chosen = workload.chosen(engine)
    found = [
        (part, f"{at} of {len(parts)}" if len(parts) > 1 else "")
        for parts in (split(family, tasks) for family in workload.families(chosen))
        for at, part in enumerate(parts, 1)
    ]
    sole = len(found) == 1
    return [Shared(family, per, chosen, at == 0, sole, part) for at, (family, part) in enumerate(found)]


def _queries(query: object) -> Iterable[TopK]:
    """The queries of a workload, under the names they have in it."""
    if isinstance(query, Workload):
        return [replace(one, name=name) for name, one in query.items()]
    if isinstance(query, (list, tuple)) and query:
        check(query)
        return query
    msg = f"query={type(query).__name__} is no query: write sb.TopK(k=..., by=..., window=...), or a list of such"
    raise QueryError(msg)


def check_version() -> None:
    """Raise unless Spark is new enough."""
    import pyspark

    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < OLDEST:
        msg = f"Spark {pyspark.__version__} is too old: skyband needs Spark {'.'.join(map(str, OLDEST))} or later"
        raise ImportError(msg)


def _transformed(  # noqa: PLR0913 - what `top_k` was given
    df: DataFrame,
    asked: list[TopK],
    shares: list[Share],
    buckets: int | None,
    *,
    early: bool,
    metric: str,
    checkpoint: str | None,
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    from skyband.spark.control import CONTROL
    from skyband.spark.emit import check_case, result_type, source_schema
    from skyband.spark.state import check_checkpoint, fingerprint

    if not hasattr(df, "sparkSession"):
        msg = f"{type(df).__name__} is no DataFrame of Spark: write df.transform(sb.spark.top_k(query))"
        raise SchemaError(msg)
    suit(df.sparkSession)
    first, ruled = asked[0], CONTROL in df.columns
    if ruled and (not isinstance(shares[0], Shared) or shares[0].family.reserve is None):
        msg = 'control rows need what queries to come must fit into: write sb.Workload(..., max_k=100, finest="10 s")'
        raise QueryError(msg)
    if ruled and not ENGINES[shares[0].engine].traits.changes:
        msg = f"engine={shares[0].engine!r} does not let queries come and go by control rows: write engine='sweep'"
        raise QueryError(msg)
    own = df.drop(CONTROL) if ruled else df
    schema = source_schema(own.schema)
    for query in asked:
        out = result_type(own.schema, query, early=early)
        if df.isStreaming:
            _check_stream(df, query)
    if isinstance(shares[0], Shared):
        out = result_type(own.schema, first, early=early, per=shares[0].per)
    if isinstance(shares[0], Joined):
        joined = shares[0]
        for query in joined.queries:
            check_names(query, schema)
        per = None if joined.others is None else joined.per
        out = result_type(df.schema, joined.query, early=early, per=per, join=shared_join(joined.queries))
    check_case(df.sparkSession, out)
    rows = _ordered(df, own, asked)
    parts = [_buckets(share, buckets) for share in shares]
    keys = bucket_keys(sum(parts))
    dealt = [keys[sum(parts[:at]) : sum(parts[: at + 1])] for at in range(len(parts))]
    packed = map_rows(rows, _packing(list(zip(shares, dealt, strict=True))))
    if first.join is not None and first.join.changes is not None:
        packed = packed.unionAll(_changes(df, first, dealt[0]))
    by_key = {key: share for share, mine in zip(shares, dealt, strict=True) for key in mine}
    if not df.isStreaming:
        if first.emit == "changes" and first.time is not None:  # how far time has come decides what was deleted
            packed = packed.crossJoin(F.broadcast(df.agg(F.max(column(first.time)).alias(_NEWEST))))
        return packed.groupBy("bucket").applyInArrow(_answering(by_key, schema, early=early), out)
    from skyband.spark.operator import COUNTED, Operator

    identity = {
        key: fingerprint(share.query, len(mine), share.told())
        for share, mine in zip(shares, dealt, strict=True)
        for key in mine
    }
    counted = (*COUNTED, *LOOKUPS) if isinstance(shares[0], Joined) else (*COUNTED, "refused") if ruled else COUNTED
    operator = Operator(by_key, schema, identity, early=early, counted=counted)
    if checkpoint is not None:
        check_checkpoint(df.sparkSession, checkpoint, identity)
    return stateful(packed, operator, "none" if first.window.counts else "eventTime", metric, out)


def map_rows(df: DataFrame, pack: Pack) -> DataFrame:
    """`df.mapInArrow`, with any names of columns: Spark would take a dot for a path, and `A` for `a`."""
    from skyband.kernels._jit import tier
    from skyband.spark.prune import PACKED

    names = df.columns

    def named(batch: pa.RecordBatch) -> pa.RecordBatch:
        tier.saw(batch.num_rows)
        return pa.RecordBatch.from_arrays(batch.columns, names=names)

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return pack(map(named, batches))

    return df.toDF(*(f"c{number}" for number in range(len(names)))).mapInArrow(packed, PACKED)


def stateful(packed: DataFrame, operator: Operator, time: str, metric: str, out: Any) -> DataFrame:
    """Packed rows through the operator; its counts as an observed metric, its answers as rows."""
    from skyband.spark.emit import decoded
    from skyband.spark.operator import told_type

    told = told_type(operator.counted)
    said = packed.groupBy("bucket").transformWithStateInPandas(operator, told, "append", time)
    counts = [_counted(count, operator).alias(count) for count in operator.counted]
    if "refused" in operator.counted:
        counts.append(_counted("notice", operator).alias("notice"))
    said = said.observe(metric, *counts)
    return said.filter("blob IS NOT NULL").select("blob").mapInArrow(decoded, out)


def _counted(count: str, operator: Operator) -> Any:
    """One number of a trigger from what all buckets tell.

    Every share meets all rows, which are counted once; late are those that any of them lost. Rows without a score are
    counted by each family. All buckets of a share are told the same orders.
    """
    from functools import reduce

    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    shares = {place: operator.shares[key] for key, place in operator.places.items()}
    if count in ("refused", "notice"):
        each = [F.max(F.when(F.col("share") == place, F.col(count))) for place in shares]
        if count == "notice":
            return F.nullif(F.concat_ws("; ", *each), F.lit(""))
        return reduce(lambda one, other: one + other, [F.coalesce(most, F.lit(0)) for most in each])
    if len(shares) < 2 or count not in ("rows", "without_time", "late", "without_score"):
        return F.sum(count)
    first = [place for place, share in shares.items() if getattr(share, "part", "")[:2] in ("", "1 ")]
    mine = first if count == "without_score" else shares if count == "late" else [0]
    each = [F.coalesce(F.sum(F.when(F.col("share") == place, F.col(count))), F.lit(0)) for place in mine]
    return F.greatest(*each) if count == "late" else reduce(lambda one, other: one + other, each)


def _buckets(share: Share, buckets: int | None) -> int:
    """Into how many parts the groups are dealt. Those of a join stay together unless told otherwise: one budget."""
    if not share.query.per or (isinstance(share, Joined) and share.others is not None):
        return 1
    return buckets or (1 if isinstance(share, Joined) else 8)


def _changes(df: DataFrame, query: TopK, keys: list[int]) -> DataFrame:
    """The pushed changes of a join, packed."""
    assert query.join is not None
    assert query.time is not None
    changes, names = query.join.changes, [query.join.on, *query.join.columns]
    for name in (*names, query.time):
        if name not in changes.columns:
            msg = f"changes has no column {name!r}: give {', '.join(names)} and the time {query.time!r}"
            raise SchemaError(msg)
    if changes.isStreaming != df.isStreaming:
        msg = "changes and rows must both be streams, or both be batches: read them alike"
        raise SchemaError(msg)
    if df.isStreaming:
        _check_stream(changes, query)
    return map_rows(changes, pack_changes(keys, query.time, names))


def _check_stream(df: DataFrame, query: TopK) -> None:
    if not isinstance(query.window, Sliding):
        return
    assert query.time is not None
    if "spark.watermarkDelayMs" not in df.schema[query.time].metadata:
        time = query.time if query.time.isidentifier() else quoted(query.time)
        msg = (
            f"time={query.time!r} has no watermark, so no window of this stream could ever close: write "
            f'df.withWatermark("{time}", "30 seconds") before it'
        )
        raise SchemaError(msg)
    for field, length in query.window.lengths.items():
        if microseconds(length) % 1000:
            msg = f"{field} must be whole milliseconds, as Spark's watermark is, got {format_duration(length)!r}"
            raise SchemaError(msg)


def _ordered(df: DataFrame, own: DataFrame, asked: list[TopK]) -> DataFrame:
    """The rows with what orders them where they have no id: the place they come from, or a hash of them."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    from skyband.spark.prune import ID

    if all(query.id is not None or query.of for query in asked):
        return df
    if asked[0].window.counts:
        return _with_origin(df)
    return df.withColumn(ID, F.xxhash64(*[column(f.name) for f in own.schema if _hashable(f.dataType)]))


def _with_origin(df: DataFrame) -> DataFrame:
    """The rows with the file, and the part of it, that they are read from."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    from skyband.spark.prune import BLOCK, FILE

    file, block = F.xxhash64(F.input_file_name()), F.input_file_block_start()
    try:
        return _analyzed(df.withColumn(FILE, file).withColumn(BLOCK, block))
    except AnalysisException:  # rows of several sources: partitions are all that is known
        return df.withColumn(FILE, F.lit(0).cast("long")).withColumn(BLOCK, F.lit(-1).cast("long"))


def _analyzed(df: DataFrame) -> DataFrame:
    """The same, once Spark has found nothing wrong with it: through Connect it looks when it is asked."""
    _ = df.schema
    return df


def _hashable(kind: Any) -> bool:
    """Whether Spark can hash a type: all but maps, and what holds one."""
    return "map<" not in kind.simpleString() and "variant" not in kind.simpleString()


def _packing(dealt: list[tuple[Share, list[int]]]) -> Pack:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from skyband.spark.control import orders_in, told_all

        packers = [share.packer(keys) for share, keys in dealt]
        for some in gathered(batches):
            rows, orders = orders_in(some, dealt[0][0].query)
            for packer in packers:
                packer.add(rows)
            if orders:  # to every bucket
                yield from told_all([key for _, keys in dealt for key in keys], orders)
        for packer in packers:
            yield from packer.packed()

    return pack


def gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of some batches at a time: Spark's are small, and each step over them has its price."""
    some: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            some.append(batch)
        if sum(b.num_rows for b in some) >= _SOME or sum(b.nbytes for b in some) >= _SOME_BYTES:
            yield pa.Table.from_batches(some).combine_chunks()
            some = []
    if some:
        yield pa.Table.from_batches(some).combine_chunks()


def _answering(shares: dict[int, Share], schema: pa.Schema, *, early: bool) -> Callable[[pa.Table], pa.Table]:
    """All rows of a bucket of a batch DataFrame: the end of the input closes everything."""

    def answer(packed: pa.Table) -> pa.Table:
        from skyband.spark.prune import in_utc
        from skyband.windows.watermark import MIN_TIME

        columns = packed.to_pydict()
        share = shares[columns["bucket"][0]]
        bucket = share.bucket(schema, share.engine, early=early)
        taken = bucket.take(columns, MIN_TIME)
        if early:  # there is but one trigger, and nothing is open after it
            taken = taken.filter(taken.column(share.query.column("final")))
        newest = MIN_TIME
        if _NEWEST in columns and bucket.line.time is not None:
            time, _ = bucket.line.time.micros(in_utc(packed).column(_NEWEST))
            newest = int(time[0])
        return pa.concat_tables([taken, bucket.finish(newest)])

    return answer


def bucket_keys(buckets: int) -> list[int]:
    """Keys whose hash is 0, 1, 2, ...: whatever the number of shuffle partitions, they spread evenly.

    Spark's hash of an integer (Murmur3, seed 42) can be undone step by step.

    Examples
    --------
    >>> [murmur3(key) for key in bucket_keys(4)]
    [0, 1, 2, 3]
    """
    return [_undone(number) for number in range(buckets)]


_WORD = 0xFFFFFFFF


def murmur3(key: int) -> int:
    """Spark's hash of an INT, as it partitions by it."""
    h = _turn((key * 0xCC9E2D51) & _WORD, 15) * 0x1B873593 & _WORD
    h = (_turn(42 ^ h, 13) * 5 + 0xE6546B64) & _WORD
    h ^= 4
    h = ((h ^ h >> 16) * 0x85EBCA6B) & _WORD
    h = ((h ^ h >> 13) * 0xC2B2AE35) & _WORD
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def _undone(value: int) -> int:
    h = value & _WORD
    h ^= h >> 16
    h = h * pow(0xC2B2AE35, -1, 1 << 32) & _WORD
    h ^= h >> 13 ^ h >> 26
    h = h * pow(0x85EBCA6B, -1, 1 << 32) & _WORD
    h ^= h >> 16
    h ^= 4
    h = (h - 0xE6546B64) * pow(5, -1, 1 << 32) & _WORD
    h = _turn(h, 19) ^ 42
    h = _turn(h * pow(0x1B873593, -1, 1 << 32) & _WORD, 17) * pow(0xCC9E2D51, -1, 1 << 32) & _WORD
    return h - (1 << 32) if h >> 31 else h


def _turn(x: int, bits: int) -> int:
    return (x << bits | x >> 32 - bits) & _WORD
