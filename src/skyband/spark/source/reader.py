"""Base of the streaming sources: options, limits, records as typed columns, and event time of a silent stream."""

from __future__ import annotations

import datetime as dt
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

from skyband.errors import SchemaError, SourceError
from skyband.query.duration import parse_duration
from skyband.spark.schema import source_schema

Record = Mapping[str, Any]
Offset = dict[str, Any]

IDLE_TIME = "beat"
"""Entry of an offset: the event time to which silence has moved the stream, in microseconds."""

PAGE_ROWS = 10_000
"""Rows that are read at once."""

NEWEST_ROWS = 100
"""Rows at the end of a stream in which its newest event time is looked for."""

_MIN_STEP = 1_000_000  # microseconds: silence moves event time by no less
_CAST_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


class BrokerSource(DataSource):
    """A streaming source whose messages have no types: the user gives the schema."""

    format: ClassVar[str]
    example: ClassVar[str]
    reader_class: ClassVar[type[BrokerReader]]

    @classmethod
    def name(cls) -> str:
        """Return the name for `readStream.format(...)`."""
        return cls.format

    def schema(self) -> str:
        """Raise SourceError: there is no schema to infer."""
        raise SourceError(
            f'{self.format} needs a schema, since its messages have no types: write .schema("{self.example}")'
        )

    def streamReader(self, schema: Any) -> BrokerReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream."""
        return self.reader_class(dict(self.options.items()), schema)


@dataclass
class Rows(InputPartition):
    """A partition that holds its rows."""

    rows: pa.RecordBatch


class BrokerReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads from a broker up to an offset: positions in the broker, and `IDLE_TIME`.

    With `idle`, a stream without messages for that long advances its event time with the clock, by rows that have a
    time and NULL elsewhere.
    """

    format: ClassVar[str]

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        self.limit = self.positive("maxrowspertrigger", 1_000_000)
        self.schema = source_schema(schema)
        self.time = self.options.get("time")
        self.idle = parse_duration(self.options["idle"], "idle") if "idle" in self.options else None
        if self.idle is not None:
            self._check_time()
        self._goal: Offset | None = None  # with availableNow: where to stop

    def required(self, name: str, example: str) -> str:
        """Return an option that must be given."""
        value = self.options.get(name)
        if not value:
            raise SourceError(f'{self.format} needs the option {name!r}: write .option("{name}", "{example}")')
        return value

    def positive(self, name: str, default: int) -> int:
        """Return an option that is a positive integer."""
        text = self.options.get(name, str(default))
        if not text.isdigit() or int(text) < 1:
            raise SourceError(f"{name} must be a positive integer, got {text!r}")
        return int(text)

    def _check_time(self) -> None:
        if not self.time:
            raise SourceError('idle needs the event-time column: write .option("time", "ts")')
        if self.time not in self.schema.names or not pa.types.is_timestamp(self.schema.field(self.time).type):
            raise SchemaError(
                f"time must name a timestamp column of the schema, got {self.time!r}: {', '.join(self.schema.names)}"
            )

    # ------------------------------------------------------------ what a broker implements

    @abstractmethod
    def first_position(self) -> Offset:
        """Return where a new stream begins."""

    @abstractmethod
    def last_position(self) -> Offset:
        """Return the end of what the broker has now."""

    @abstractmethod
    def next_position(self, start: Offset, goal: Offset | None, limit: int) -> Offset:
        """Return the end of a batch after `start`, of at most `limit` rows and not beyond `goal`."""

    @abstractmethod
    def newest_records(self) -> tuple[list[Record], int]:
        """Return the newest records, and how long ago the last of them came, in microseconds."""

    @abstractmethod
    def row_partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the partitions of the rows between two offsets."""

    def read_partition(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition that does not hold them."""
        raise NotImplementedError

    # ------------------------------------------------------------ what Spark calls

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return the offset of a new stream."""
        return {**self.first_position(), IDLE_TIME: 0}

    def getDefaultReadLimit(self) -> ReadMaxRows:  # noqa: N802 - Spark's name
        """Return the limit of rows per batch."""
        return ReadMaxRows(self.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Stop at what is available now."""
        self._goal = self.last_position()

    def latestOffset(self, start: Offset, limit: Any = None) -> Offset:  # noqa: N802 - Spark's name
        """Return the end of the next batch."""
        rows = self.limit
        if isinstance(limit, ReadMaxRows):
            rows = int(limit.max_rows)
        elif isinstance(limit, ReadAllAvailable):
            rows = 1 << 62
        end = self.next_position(start, self._goal, rows)
        silent = self._goal is None and all(start.get(name) == position for name, position in end.items())
        return {**end, IDLE_TIME: self._idle_time(int(start[IDLE_TIME])) if silent else start[IDLE_TIME]}

    def _idle_time(self, last: int) -> int:
        if self.idle is None:
            return last
        records, silence = self.newest_records()
        newest = newest_time(records, self.schema, str(self.time))
        if newest is None or silence < self.idle:
            return last
        return newest + silence if newest + silence >= last + _MIN_STEP else last

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the partitions between two offsets."""
        found = self.row_partitions(start, end)
        if end[IDLE_TIME] > start[IDLE_TIME]:
            found.append(Rows(time_row(self.schema, str(self.time), end[IDLE_TIME])))
        return found

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        if isinstance(partition, Rows):
            yield partition.rows
        else:
            yield from self.read_partition(partition)


# ---------------------------------------------------------------- records as columns


def to_batch(records: Sequence[Record], schema: pa.Schema) -> pa.RecordBatch:
    """Convert records to a batch. A value that does not have the type of its column is NULL, as is a missing one.

    Examples
    --------
    >>> to_batch([{"x": "1.5"}, {"x": "none"}, {}], pa.schema([("x", pa.float64())])).to_pydict()
    {'x': [1.5, None, None]}
    """
    columns = [_to_column([record.get(field.name) for record in records], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def newest_time(records: Sequence[Record], schema: pa.Schema, time: str) -> int | None:
    """Return the newest time of some records, in microseconds."""
    kind = schema.field(time).type
    times = _to_column([record.get(time) for record in records], kind)
    return pc.max(times.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())).as_py()


def time_row(schema: pa.Schema, time: str, micros: int) -> pa.RecordBatch:
    """Return a row with a time, and NULL in the other columns."""
    kind = schema.field(time).type
    moment = pa.array([micros], pa.int64()).cast(pa.timestamp("us", kind.tz)).cast(kind)
    columns = [moment if field.name == time else pa.nulls(1, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _to_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_binary(kind):
        return pa.array([v if isinstance(v, bytes) or v is None else str(v).encode() for v in values], kind)
    values = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values]
    if pa.types.is_nested(kind):
        values = [_parse_json(v) for v in values]
    try:
        return _cast(values, kind)
    except _CAST_ERRORS:
        return pa.array([_cast_one(v, kind) for v in values], kind)


def _cast(values: list[Any], kind: pa.DataType) -> pa.Array:
    if all(isinstance(v, str) or v is None for v in values):
        texts = pa.array(values, pa.string())
        if pa.types.is_timestamp(kind):
            return _cast_times(texts, kind)
        if pa.types.is_boolean(kind):
            texts = pc.utf8_lower(texts)
        return texts.cast(kind)
    if pa.types.is_timestamp(kind) and all(isinstance(v, int | float) or v is None for v in values):
        return pa.array([None if v is None else round(v * 1_000_000) for v in values], pa.int64()).cast(kind)
    if pa.types.is_string(kind):
        values = [v if isinstance(v, str) or v is None else json.dumps(v) for v in values]
    return pa.array(values, kind)


def _cast_times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast ISO 8601 (UTC without a zone) or seconds since the epoch."""
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


def _cast_one(value: Any, kind: pa.DataType) -> Any:
    try:
        return _cast([value], kind)[0].as_py()
    except _CAST_ERRORS:
        return None


def _parse_json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str | bytes) else value
    except ValueError:
        return None


def parse_record(payload: str | bytes) -> dict[str, Any]:
    """Parse a message that is one JSON object; anything else has no columns."""
    found = _parse_json(payload)
    return found if isinstance(found, dict) else {}
