"""MQTT as a streaming source: each message is stored before it is acknowledged to the broker.

A broker does not keep messages that it has delivered, so the spool, an SQLite file on the driver, is what can be read
again. From the spool on every message is processed exactly once. Before it, QoS 1 applies: the broker may deliver a
message twice. Messages published while nobody is connected are kept only if the broker keeps sessions, which it does
for a client id by default.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband.errors import MissingLibraryError, SourceError
from skyband.spark.source.reader import (
    NEWEST_ROWS,
    PAGE_ROWS,
    BrokerReader,
    BrokerSource,
    Rows,
    parse_record,
    to_batch,
)

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from skyband.spark.source.reader import Offset, Record

_NUMBER = "number"  # entry of an offset: the last message of the spool that was read


class MqttReader(BrokerReader):
    """Positions are numbers of messages in the spool."""

    format = "mqtt"

    def __init__(self, options: Mapping[str, str], schema: Any) -> None:
        super().__init__(options, schema)
        self.topic = self.required("topic", "sensors/#")
        self.spool = Path(self.required("spool", "spool/sensors"))
        self.host, self.port = self.options.get("host", "127.0.0.1"), self.positive("port", 1883)
        self.client_id = self.options.get("clientid", f"skyband-{self.topic}")
        self.qos = int(self.options.get("qos", "1"))
        self._client: Any = None
        self._store: sqlite3.Connection | None = None
        self._lock: Any = None
        self._failure: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_store": None, "_lock": None}

    def _execute(self, statement: str, *values: Any) -> list[Any]:
        """Run a statement on the spool, which is created at its first use."""
        if self._store is None:
            self.spool.mkdir(parents=True, exist_ok=True)
            self._lock = threading.Lock()
            self._store = sqlite3.connect(self.spool / "messages.sqlite", check_same_thread=False, isolation_level=None)
            self._store.execute("PRAGMA journal_mode=WAL")
            self._store.execute("PRAGMA synchronous=FULL")
            self._store.execute(
                "CREATE TABLE IF NOT EXISTS messages"
                " (number INTEGER PRIMARY KEY AUTOINCREMENT, came INTEGER, topic TEXT, payload BLOB)"
            )
        with self._lock:
            return self._store.execute(statement, values).fetchall()

    def _connect(self) -> None:
        """Subscribe, once; the client reconnects by itself."""
        if self._client is not None:
            return
        try:
            from paho.mqtt import client as mqtt
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError as error:
            raise SourceError(str(MissingLibraryError.of(self.format, "paho"))) from error
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=self.client_id, clean_session=False, manual_ack=True
        )
        if "username" in self.options:
            client.username_pw_set(self.options["username"], self.options.get("password"))

        def on_connect(client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
            self._failure = str(reason) if reason.is_failure else None
            if not reason.is_failure:
                client.subscribe(self.topic, qos=self.qos)

        def on_message(client: Any, _data: Any, message: Any) -> None:
            now = time.time_ns() // 1_000
            insert = "INSERT INTO messages (came, topic, payload) VALUES (?, ?, ?)"
            self._execute(insert, now, message.topic, message.payload)
            client.ack(message.mid, message.qos)  # only after the message is on disk

        client.on_connect, client.on_message = on_connect, on_message
        self._last_message()  # creates the spool before the client's thread uses it
        try:
            client.connect(self.host, self.port, keepalive=30)
        except OSError as error:
            raise SourceError(
                f"no MQTT broker answers at {self.host}:{self.port} ({error}): start it, or correct host and port"
            ) from error
        client.loop_start()
        self._client = client

    def _last_message(self) -> int:
        return int(self._execute("SELECT coalesce(max(number), 0) FROM messages")[0][0])

    def first_position(self) -> Offset:
        """Return the position before the first message."""
        return {_NUMBER: 0}

    def last_position(self) -> Offset:
        """Return the end of the spool, with the messages that come within a second."""
        self._connect()
        time.sleep(1)
        return {_NUMBER: self._last_message()}

    def next_position(self, start: Offset, goal: Offset | None, limit: int) -> Offset:
        """Return the last message of the spool, at most `limit` messages after `start`."""
        self._connect()
        if self._failure is not None:
            raise SourceError(f"the MQTT broker must accept the connection, but refused it: {self._failure}")
        low = int(start[_NUMBER])
        high = min(low + limit, (1 << 62) if goal is None else goal[_NUMBER])
        row = self._execute("SELECT max(number) FROM messages WHERE number > ? AND number <= ?", low, high)[0]
        return {_NUMBER: int(row[0] or low)}

    def newest_records(self) -> tuple[list[Record], int]:
        """Return the newest messages of the spool."""
        rows = self._execute("SELECT came, topic, payload FROM messages ORDER BY number DESC LIMIT ?", NEWEST_ROWS)
        came = max((row[0] for row in rows), default=0)
        return [_record(*row[1:]) for row in rows], time.time_ns() // 1_000 - came

    def row_partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the messages themselves: executors need not reach the spool."""
        found: list[InputPartition] = []
        at = int(start[_NUMBER])
        while at < int(end[_NUMBER]):
            rows = self._execute(
                "SELECT number, topic, payload FROM messages WHERE number > ? AND number <= ? ORDER BY number LIMIT ?",
                at,
                int(end[_NUMBER]),
                PAGE_ROWS,
            )
            if not rows:
                raise SourceError(
                    f"the spool {self.spool} must have message {at + 1}: restore it, or use a new checkpoint"
                )
            found.append(Rows(to_batch([_record(*row[1:]) for row in rows], self.schema)))
            at = int(rows[-1][0])
        return found

    def commit(self, end: Offset) -> None:
        """Delete processed messages from the spool, all but the last, which tell the newest event time."""
        self._execute("DELETE FROM messages WHERE number <= ?", int(end[_NUMBER]) - NEWEST_ROWS)

    def stop(self) -> None:
        """Disconnect from the broker, which keeps the session, and close the spool."""
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None
        if self._store is not None:
            self._store.close()
            self._store = None


class MqttSource(BrokerSource):
    """Messages of an MQTT topic; each is one JSON object, whose members are the columns.

    Options: `topic` (a filter such as `sensors/+/power`), `spool` (the folder that stores messages until Spark has
    committed them), `host`, `port`, `clientId`, `username`, `password`, `qos` (default 1), `maxRowsPerTrigger`, `time`
    and `idle`. A column named `topic` that a message does not have gets its topic.
    """

    format = MqttReader.format
    example = "ts timestamp, sensor string, watt double"
    reader_class = MqttReader


def _record(topic: str, payload: bytes) -> Record:
    return {"topic": topic, **parse_record(payload)}
