"""Schemas between Spark and Arrow, and the columns of results as Spark sees them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import SchemaError
from skyband.runtime.schema import TimeType, check_schema
from skyband.runtime.score import check_types
from skyband.runtime.snapshot import unwrite
from skyband.spark.pack import utc_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from skyband.query import TopK
    from skyband.runtime.result import ResultColumns


def source_schema(schema: StructType) -> pa.Schema:
    """Return the source's columns as operators see them: every zone as UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return pa.schema([pa.field(f.name, utc_type(f.type)) for f in to_arrow_schema(schema, timezone="UTC")])


def check_source(queries: Sequence[TopK], schema: StructType) -> None:
    """Raise unless the queries fit the columns of the source."""
    arrow = source_schema(schema)
    for query in queries:
        check_schema(query, arrow)
        check_types(query, arrow)
        if query.time is not None and not query.window.counts:
            TimeType.of(query, arrow.field(query.time).type)


def result_schema(columns: ResultColumns, source: StructType) -> StructType:
    """Return the columns of a result; those of the source have its types."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StringType, StructField, StructType

    fields = []
    for name, kind, of in columns.fields(source_schema(source)):
        if of is not None:
            fields.append(StructField(name, source[of].dataType))
        else:
            fields.append(StructField(name, StringType() if pa.types.is_dictionary(kind) else from_arrow_type(kind)))
    return StructType(fields)


def check_case(spark: SparkSession, result: StructType) -> None:
    """Raise where Spark takes two columns of a result for one, which it does unless case matters to it."""
    if spark.conf.get("spark.sql.caseSensitive", "false") == "true":
        return
    seen: dict[str, str] = {}
    for name in result.names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SchemaError(
                f"result columns must differ in more than case, got {other!r} and {name!r}: rename those of the "
                f'source, or write prefix="sb_" to rename ours'
            )


def decoder(result: StructType) -> Any:
    """Return an Arrow UDF from encoded results to arrays of rows.

    An Arrow UDF keeps the event time of the column beside it, which `mapInArrow` does not.
    """
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import ArrayType

    kind = pa.struct(list(to_arrow_type(result, timezone="UTC")))

    def decode(blobs: pa.Array) -> pa.Array:
        tables = [unwrite(blob.as_py()) for blob in blobs]
        rows = [
            pa.StructArray.from_arrays(
                [_whole(table.column(field.name)).cast(field.type) for field in kind], fields=list(kind)
            )
            for table in tables
        ]
        offsets = pa.array([0, *accumulate(map(len, rows))], pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.concat_arrays(rows) if rows else pa.array([], kind))

    arrow_udf: Any = functions.arrow_udf  # type: ignore[attr-defined]  # not in Spark's type stubs
    return arrow_udf(decode, ArrayType(result))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
