"""Redis Streams as a streaming source: every entry has an id, so any part can be read again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

from skyband.errors import SourceError
from skyband.spark.emit import source_schema
from skyband.spark.source.records import (
    Idle,
    beat_row,
    check_time,
    columns,
    most,
    newest_time,
    option,
    whole,
)

if TYPE_CHECKING:
    import pyarrow as pa

_PAGE = 10_000
_LOOK = 100  # entries at the end of a stream that are looked at for its newest time
_BEAT = "beat"


class RedisSource(DataSource):
    """Entries of one or more Redis Streams; their fields are the columns.

    Options: `stream` (names, with commas between), `url` (default redis://127.0.0.1:6379), `start` ("0" for
    all that is there, the default, or "$" for what comes), `maxRowsPerTrigger` for each stream, `json` (the
    field that holds all columns as one JSON object), `time` and `idle`.

    What has been trimmed from a stream cannot be read again: once the last entry read has been trimmed and newer ones
    were added, the query fails; `failOnDataLoss=false` lets it go on.
    """

    @classmethod
    def name(cls) -> str:
        """How the format is called."""
        return "redis-stream"

    def schema(self) -> str:
        """There is none to be found out."""
        msg = 'the fields of a Redis Stream have no types: write .schema("ts timestamp, price double")'
        raise SourceError(msg)

    def streamReader(self, schema: Any) -> RedisReader:  # noqa: N802 - Spark's name
        """Read a stream."""
        return RedisReader(dict(self.options.items()), schema)


@dataclass
class Span(InputPartition):
    """Entries of one stream after `low`, up to `high`; or a beat."""

    stream: str
    low: str
    high: str
    beat: int = 0


class RedisReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are the last entry read of each stream, and the moment to which time has come."""

    def __init__(self, options: dict[str, str], schema: Any) -> None:
        named = {name.lower(): value for name, value in options.items()}
        self.url = named.get("url", "redis://127.0.0.1:6379")
        streams = option(named, "stream", of="redis-stream", example="trades")
        self.streams = [name.strip() for name in streams.split(",")]
        self.start = named.get("start", "0")
        self.field = named.get("json")
        self.limit = whole(named, "maxrowspertrigger", 1_000_000)
        self.strict = named.get("failondataloss", "true").lower() != "false"
        self.idle = Idle(named.get("idle"), named.get("time"))
        self.schema = source_schema(schema)
        check_time(self.schema, self.idle)
        self._client: Any = None
        self._goal: dict[str, str] | None = None  # with availableNow: the last entries that count

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}  # a connection stays where it is

    @property
    def client(self) -> Any:
        """The connection, opened when first needed."""
        if self._client is None:
            try:
                from redis import Redis
            except ImportError as error:
                msg = 'redis-stream needs the redis package: pip install "skyband[remote]"'
                raise SourceError(msg) from error
            self._client = Redis.from_url(self.url, socket_timeout=30, socket_connect_timeout=10)
        return self._client

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Before the first entry, or after the last one there is."""
        return {name: "0-0" if self.start == "0" else self._last(name) for name in self.streams} | {_BEAT: 0}

    def getDefaultReadLimit(self) -> ReadMaxRows:  # noqa: N802 - Spark's name
        """At most so many rows a batch."""
        return ReadMaxRows(self.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Nothing that comes after this moment is read."""
        self._goal = {name: self._last(name) for name in self.streams}

    def latestOffset(self, start: dict[str, Any], limit: Any = None) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """How far the streams have come, at most `maxRowsPerTrigger` entries ahead of `start`."""
        end: dict[str, Any] = {}
        for name in self.streams:
            low = start.get(name, "0-0")
            self._check_loss(name, low)
            last = self._last(name) if self._goal is None else self._goal[name]
            end[name] = self._limited(name, low, last, most(limit, self.limit))
        silent = self._goal is None and all(end[name] == start.get(name, "0-0") for name in self.streams)
        return end | {_BEAT: self._beat(int(start[_BEAT])) if silent else start[_BEAT]}

    def _limited(self, name: str, low: str, last: str, left: int) -> str:
        """`last`, or the entry that is `left` after `low` if that comes sooner."""
        if _order(last) <= _order(low):
            return low
        if int(self.client.xlen(name)) <= left:
            return last
        at = low
        while left > 0:
            page = self.client.xrange(name, min=f"({at}", max=last, count=min(left, _PAGE))
            if not page:
                break
            at, left = page[-1][0].decode(), left - len(page)
        return at

    def _last(self, name: str) -> str:
        newest = self.client.xrevrange(name, count=1)
        return newest[0][0].decode() if newest else "0-0"

    def _check_loss(self, name: str, low: str) -> None:
        """Refuse to go on if entries after `low` may have been trimmed.

        Redis trims the oldest entries first: none after `low` is gone while `low` itself is there. Once it is gone, no
        one can tell whether newer ones went with it.
        """
        if not self.strict or low == "0-0" or not self.client.exists(name):
            return
        about = self.client.xinfo_stream(name)
        newest, deleted = (
            _order(_text(about.get(key, "0-0"))) for key in ("last-generated-id", "max-deleted-entry-id")
        )
        trimmed = newest > _order(low) and not self.client.xrange(name, min=low, max=low)
        if trimmed or deleted > _order(low):
            msg = (
                f"entries of the stream {name!r} after {low} may have been trimmed before they were read: keep that "
                f"entry and all later ones (XADD ... MAXLEN), or go on without what is gone by failOnDataLoss=false"
            )
            raise SourceError(msg)

    def _beat(self, last: int) -> int:
        """Time goes on if the newest entry of all streams is old enough; its id tells when it came."""
        if self.idle.after is None:
            return last
        entries = [entry for name in self.streams for entry in self.client.xrevrange(name, count=_LOOK)]
        if not entries:
            return last
        seconds, micros = self.client.time()
        came = max(_order(key.decode())[0] for key, _ in entries) * 1_000
        newest = newest_time((self._record(fields) for _, fields in entries), self.schema, self.idle.time)
        return self.idle.beat(newest, seconds * 1_000_000 + micros - came, last)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Span]:
        """One for each stream that has gone on."""
        spans = [
            Span(name, start.get(name, "0-0"), end[name])
            for name in self.streams
            if end.get(name, "0-0") != start.get(name, "0-0")
        ]
        if end[_BEAT] > start[_BEAT]:
            spans.append(Span("", "", "", end[_BEAT]))
        return spans

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The entries, page by page."""
        if partition.beat:
            assert self.idle.time is not None
            yield beat_row(self.schema, self.idle.time, partition.beat)
            return
        at = partition.low
        while True:
            page = self.client.xrange(partition.stream, min=f"({at}", max=partition.high, count=_PAGE)
            if not page:
                return
            yield columns([self._record(fields) for _, fields in page], self.schema)
            at = page[-1][0].decode()

    def _record(self, fields: Any) -> dict[str, Any]:
        named = {name.decode("utf-8", "replace"): value for name, value in (fields or {}).items()}
        if self.field is None:
            return named
        try:
            found = json.loads(named.get(self.field, b"null"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def stop(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _order(entry: str) -> tuple[int, int]:
    milliseconds, _, number = entry.partition("-")
    return int(milliseconds), int(number or 0)
