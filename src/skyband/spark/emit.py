"""Answers out: blobs of the stateful operator as typed rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from skyband.errors import SchemaError
from skyband.query import AllTime
from skyband.runtime.schema import check_schema
from skyband.runtime.score import check_types
from skyband.runtime.snapshot import unwrite
from skyband.runtime.time_type import TimeType
from skyband.spark.prune import utc_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from skyband.query import TopK
    from skyband.query.join import Join


def result_type(
    schema: StructType, query: TopK, *, early: bool, per: Sequence[str] | None = None, join: Join | None = None
) -> StructType:
    """The columns of the answers, after checking that the query fits. `per` is the workload's, as is `join`."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import BooleanType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

    arrow = to_arrow_schema(schema, timezone="UTC")
    check_schema(query, arrow)
    check_types(query, arrow)
    time: Any = LongType()
    if query.time is not None and not query.window.counts:
        TimeType.of(query, arrow.field(query.time).type)
        time = schema[query.time].dataType
    fields = [StructField(query.column("query"), StringType())] if per is not None else []
    ever = isinstance(query.window, AllTime)
    if not ever:
        fields += [StructField(query.column("window_start"), time), StructField(query.column("window_end"), time)]
    per = query.per if per is None else per
    if query.emit == "changes" or ever:
        fields.append(StructField(query.column("step"), LongType()))
    fields += [StructField(name, schema[name].dataType) for name in per]
    if query.emit == "changes":
        fields.append(StructField(query.column("_change_type"), StringType()))
    fields += [StructField(query.column("rank"), IntegerType()), StructField(query.column("score"), DoubleType())]
    own = [schema[name] for name in query.of] if query.of else [f for f in schema if f.name not in per]
    fields += [StructField(f.name, f.dataType) for f in own]
    if join is not None:
        fields += _joined(query, join)
    if early:
        fields.append(StructField(query.column("final"), BooleanType()))
    return StructType(fields)


def check_case(spark: SparkSession, answers: StructType) -> None:
    """Raise where Spark takes two columns of the answers for one, which it does unless told that case matters."""
    if spark.conf.get("spark.sql.caseSensitive", "false") == "true":
        return
    seen: dict[str, str] = {}
    for name in answers.names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            msg = (
                f"Spark takes the columns {other!r} and {name!r} of the answers for one: rename the source's, or write "
                f'prefix="sb_" to rename ours'
            )
            raise SchemaError(msg)


def _joined(query: TopK, join: Join) -> list[Any]:
    """The columns that a join adds."""
    from pyspark.sql import types

    kinds = {
        "double": types.DoubleType(),
        "long": types.LongType(),
        "string": types.StringType(),
        "boolean": types.BooleanType(),
        "timestamp": types.TimestampType(),
        "date": types.DateType(),
    }
    known = dict(join.types)
    counts = types.StructType([types.StructField(n, types.LongType()) for n in ("wanted", "made", "failed", "late")])
    found: dict[str, Any] = {a.name: kinds["long" if a.function == "count" else "double"] for a in join.aggregates}
    found |= {name: kinds[known[name]] for name in join.columns}
    own = {"staleness": kinds["double"], "status": kinds["string"], "lookups": counts}
    found |= {query.column(name): kind for name, kind in own.items()}
    return [types.StructField(name, kind) for name, kind in found.items()]


def source_schema(schema: StructType) -> pa.Schema:
    """The source's columns as the operator sees them: every zone as UTC."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    return pa.schema([pa.field(f.name, utc_type(f.type)) for f in to_arrow_schema(schema, timezone="UTC")])


def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in the blobs."""
    for batch in batches:
        for blob in batch.column("blob"):
            yield from unwrite(blob.as_py()).to_batches()
