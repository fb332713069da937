"""Redis Streams as a streaming source: every entry has an id, so any part can be read again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from skyband.errors import MissingLibraryError, SourceError
from skyband.spark.source.reader import NEWEST_ROWS, PAGE_ROWS, BrokerReader, BrokerSource, parse_record, to_batch

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.spark.source.reader import Offset, Record

_BEGIN = "0-0"  # before all entries


@dataclass
class Span(InputPartition):
    """Entries of one stream after `low`, up to `high`."""

    stream: str
    low: str
    high: str


class RedisReader(BrokerReader):
    """Positions are the last entry read of each stream."""

    format = "redis-stream"

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        super().__init__(options, schema)
        self.url = self.options.get("url", "redis://127.0.0.1:6379")
        self.streams = [name.strip() for name in self.required("stream", "trades").split(",")]
        self.from_beginning = self.options.get("start", "0") == "0"
        self.json_field = self.options.get("json")
        self.fail_on_data_loss = self.options.get("failondataloss", "true").lower() != "false"
        self._client: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    @property
    def client(self) -> Any:
        """The connection, opened at its first use."""
        if self._client is None:
            try:
                from redis import Redis
            except ImportError as error:
                raise SourceError(str(MissingLibraryError.of(self.format, "redis"))) from error
            self._client = Redis.from_url(self.url, socket_timeout=30, socket_connect_timeout=10)
        return self._client

    def first_position(self) -> Offset:
        """Return the beginning of the streams; with start="$" their end."""
        return dict.fromkeys(self.streams, _BEGIN) if self.from_beginning else self.last_position()

    def last_position(self) -> Offset:
        """Return the last entry of each stream."""
        return {name: self._last_entry(name) for name in self.streams}

    def _last_entry(self, name: str) -> str:
        newest = self.client.xrevrange(name, count=1)
        return newest[0][0].decode() if newest else _BEGIN

    def next_position(self, start: Offset, goal: Offset | None, limit: int) -> Offset:
        """Return the last entry of each stream, at most `limit` entries after `start`."""
        end = {}
        for name in self.streams:
            low = start.get(name, _BEGIN)
            self._check_loss(name, low)
            end[name] = self._limit(name, low, self._last_entry(name) if goal is None else goal[name], limit)
        return end

    def _limit(self, name: str, low: str, last: str, left: int) -> str:
        """Return `last`, or the entry that is `left` entries after `low` if that comes sooner."""
        if _order(last) <= _order(low):
            return low
        if int(self.client.xlen(name)) <= left:
            return last
        at = low
        while left > 0:
            page = self.client.xrange(name, min=f"({at}", max=last, count=min(left, PAGE_ROWS))
            if not page:
                break
            at, left = page[-1][0].decode(), left - len(page)
        return at

    def _check_loss(self, name: str, low: str) -> None:
        """Raise if entries after `low` may have been trimmed.

        Redis trims the oldest entries first: none after `low` is gone while `low` itself exists. Once it is gone, newer
        ones may be gone as well.
        """
        if not self.fail_on_data_loss or low == _BEGIN or not self.client.exists(name):
            return
        info = self.client.xinfo_stream(name)
        newest, deleted = (_order(info.get(key, _BEGIN)) for key in ("last-generated-id", "max-deleted-entry-id"))
        trimmed = newest > _order(low) and not self.client.xrange(name, min=low, max=low)
        if trimmed or deleted > _order(low):
            raise SourceError(
                f"entries of the stream {name!r} after {low} may have been trimmed before they were read: keep that "
                f"entry and all later ones (XADD ... MAXLEN), or skip the lost ones with failOnDataLoss=false"
            )

    def newest_records(self) -> tuple[list[Record], int]:
        """Return the newest entries; their ids tell when they came."""
        entries = [entry for name in self.streams for entry in self.client.xrevrange(name, count=NEWEST_ROWS)]
        seconds, micros = self.client.time()
        came = max((_order(key)[0] for key, _ in entries), default=0) * 1_000
        return [self._record(fields) for _, fields in entries], seconds * 1_000_000 + micros - came

    def row_partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return one partition for each stream with new entries."""
        spans = [Span(name, start.get(name, _BEGIN), end.get(name, _BEGIN)) for name in self.streams]
        return [span for span in spans if span.low != span.high]

    def read_partition(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the entries, page by page."""
        at = partition.low
        while page := self.client.xrange(partition.stream, min=f"({at}", max=partition.high, count=PAGE_ROWS):
            yield to_batch([self._record(fields) for _, fields in page], self.schema)
            at = page[-1][0].decode()

    def _record(self, fields: Any) -> Record:
        named = {name.decode("utf-8", "replace"): value for name, value in (fields or {}).items()}
        return named if self.json_field is None else parse_record(named.get(self.json_field, b"null"))

    def stop(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None


class RedisSource(BrokerSource):
    """Entries of one or more Redis Streams; their fields are the columns.

    Options: `stream` (names, separated by commas), `url` (default redis://127.0.0.1:6379), `start` ("0" for all
    existing entries, the default, or "$" for new ones only), `maxRowsPerTrigger` for each stream, `json` (the field
    that holds all columns as one JSON object), `time` and `idle`.

    Trimmed entries cannot be read again: once the last entry read has been trimmed and newer ones were added, the query
    fails; with `failOnDataLoss=false` it continues.
    """

    format = RedisReader.format
    example = "ts timestamp, price double"
    reader_class = RedisReader


def _order(entry: str | bytes) -> tuple[int, int]:
    text = entry.decode() if isinstance(entry, bytes) else entry
    milliseconds, _, number = text.partition("-")
    return int(milliseconds), int(number or 0)
