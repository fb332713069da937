"""Texts from outside as typed columns, and the rows that let time go on."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import SchemaError, SourceError
from skyband.query.duration import parse_duration

Record = Mapping[str, Any]


def option(options: Mapping[str, str], name: str, *, of: str, example: str) -> str:
    """An option that must be given."""
    value = options.get(name)
    if not value:
        msg = f'{of} needs the option {name!r}: write .option("{name}", "{example}")'
        raise SourceError(msg)
    return value


def whole(options: Mapping[str, str], name: str, default: int) -> int:
    """An option that is a whole number of at least 1."""
    text = options.get(name, str(default))
    if not text.isdigit() or int(text) < 1:
        msg = f"{name}={text!r} is no whole number of at least 1"
        raise SourceError(msg)
    return int(text)


class Idle:
    """When a silent stream's time goes on.

    Examples
    --------
    >>> idle = Idle("30 seconds", "ts")
    >>> idle.beat(newest=1_000_000, silent=29_000_000, last=0), idle.beat(newest=1_000_000, silent=31_000_000, last=0)
    (0, 32000000)
    """

    def __init__(self, after: str | None, time: str | None) -> None:
        self.after = None if after is None else parse_duration(after, "idle")
        if after is not None and not time:
            msg = 'idle lets time go on, so the source must know it: write .option("time", "ts")'
            raise SourceError(msg)
        self.time = time

    def beat(self, newest: int | None, silent: int, last: int) -> int:
        """To which moment time has come, in microseconds: `last` unless the stream is silent for long enough."""
        if self.after is None or newest is None or silent < self.after:
            return last
        return newest + silent if newest + silent >= last + 1_000_000 else last


def columns(records: Sequence[Record], schema: pa.Schema) -> pa.RecordBatch:
    """Records as a batch. A value that is no such type is NULL; so is a field that is missing.

    Examples
    --------
    >>> columns([{"x": "1.5"}, {"x": "none"}, {}], pa.schema([("x", pa.float64())])).to_pydict()
    {'x': [1.5, None, None]}
    """
    return pa.RecordBatch.from_arrays(
        [_column([r.get(field.name) for r in records], field.type) for field in schema], schema=schema
    )


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    texts = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values]
    if pa.types.is_binary(kind):
        return pa.array([v if isinstance(v, bytes) or v is None else str(v).encode() for v in values], kind)
    if pa.types.is_nested(kind):
        texts = [_parsed(v) for v in texts]
    try:
        return _cast(texts, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array([_one(v, kind) for v in texts], kind)


def _cast(texts: list[Any], kind: pa.DataType) -> pa.Array:
    if all(isinstance(v, str) or v is None for v in texts):
        plain = pa.array(texts, pa.string())
        if pa.types.is_timestamp(kind):
            return _instants(plain, kind)
        if pa.types.is_boolean(kind):
            plain = pc.utf8_lower(plain)
        return plain.cast(kind)
    if pa.types.is_timestamp(kind) and all(isinstance(v, int | float) or v is None for v in texts):
        return pa.array([None if v is None else round(v * 1_000_000) for v in texts], pa.int64()).cast(kind)
    if pa.types.is_string(kind):
        texts = [v if isinstance(v, str) or v is None else json.dumps(v) for v in texts]
    return pa.array(texts, kind)


def _instants(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times as ISO text (without a zone: UTC), or as seconds since the epoch."""
    seconds = pc.match_substring_regex(texts, r"^-?\d+(\.\d+)?$")
    if pc.any(seconds, skip_nulls=True).as_py():
        micros = [None if v is None else round(float(v) * 1_000_000) for v in texts.to_pylist()]
        return pa.array(micros, pa.int64()).cast(kind)
    zoned = pc.match_substring_regex(texts, r"(Z|[+-]\d\d:?\d\d)$")
    if pc.any(zoned, skip_nulls=True).as_py():
        found = [None if v is None else dt.datetime.fromisoformat(v) for v in texts.to_pylist()]
        aware = [v if v is None or v.tzinfo else v.replace(tzinfo=dt.UTC) for v in found]
        return pa.array(aware, pa.timestamp("us", "UTC")).cast(kind)
    return texts.cast(pa.timestamp("us")).cast(kind)


def _one(value: Any, kind: pa.DataType) -> Any:
    try:
        return _cast([value], kind)[0].as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


def newest_time(records: Iterable[Record], schema: pa.Schema, time: str | None) -> int | None:
    """The newest time of some records, in microseconds."""
    found = list(records)
    if time is None or not found:
        return None
    kind = schema.field(time).type
    newest = pc.max(_column([r.get(time) for r in found], kind).cast(pa.timestamp("us", kind.tz)).cast(pa.int64()))
    return newest.as_py()


def beat_row(schema: pa.Schema, time: str, micros: int) -> pa.RecordBatch:
    """A row with a time and nothing else."""
    kind = schema.field(time).type
    moment = pa.array([micros], pa.int64()).cast(pa.timestamp("us", kind.tz)).cast(kind)
    return pa.RecordBatch.from_arrays(
        [moment if f.name == time else pa.nulls(1, f.type) for f in schema], schema=schema
    )


def most(limit: Any, default: int) -> int:
    """How many rows Spark lets a batch have; `default` where it does not say."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    if isinstance(limit, ReadMaxRows):
        return int(limit.max_rows)
    return 1 << 62 if isinstance(limit, ReadAllAvailable) else default


def check_time(schema: pa.Schema, idle: Idle) -> None:
    """Raise unless the time column that `idle` moves is there and is a time."""
    if idle.after is None or idle.time is None:
        return
    if idle.time not in schema.names or not pa.types.is_timestamp(schema.field(idle.time).type):
        msg = f"time={idle.time!r} is no timestamp column of the schema, so `idle` cannot move it: {schema.names}"
        raise SchemaError(msg)
