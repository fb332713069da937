"""MQTT as a streaming source: each message is written down before the broker hears that it has come.

A broker keeps no messages that it has handed over, so what can be read again is what the spool holds: a small
SQLite file beside the driver. From the spool on nothing is lost and nothing comes twice. Before it, QoS 1 holds: the
broker may hand a message over twice, and what is published while nobody is connected is kept only if the broker keeps
sessions (it does so for this client id unless it is told otherwise).
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow

from skyband.errors import SourceError
from skyband.runtime.snapshot import unwrite, write
from skyband.spark.emit import source_schema
from skyband.spark.source.records import (
    Idle,
    Record,
    beat_row,
    check_time,
    columns,
    most,
    newest_time,
    option,
    whole,
)

_PAGE = 10_000
_BEAT, _NUMBER = "beat", "number"


class MqttSource(DataSource):
    """Messages of an MQTT topic; each is one JSON object, whose members are the columns.

    Options: `topic` (a filter such as `sensors/+/power`), `spool` (the folder that keeps messages until Spark has
    committed them), `host`, `port`, `clientId`, `username`, `password`, `qos` (default 1), `maxRowsPerTrigger`, `time`
    and `idle`. A column named `topic` that a message does not have gets its topic.
    """

    @classmethod
    def name(cls) -> str:
        """How the format is called."""
        return "mqtt"

    def schema(self) -> str:
        """There is none to be found out."""
        msg = 'messages have no types: write .schema("ts timestamp, sensor string, watt double")'
        raise SourceError(msg)

    def streamReader(self, schema: Any) -> MqttReader:  # noqa: N802 - Spark's name
        """Read a stream."""
        return MqttReader(dict(self.options.items()), schema)


@dataclass
class Held(InputPartition):
    """Some messages as an Arrow blob: executors need not see the spool."""

    blob: bytes


class MqttReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are numbers of messages in the spool, and the moment to which time has come."""

    def __init__(self, options: dict[str, str], schema: Any) -> None:
        named = {name.lower(): value for name, value in options.items()}
        self.topic = option(named, "topic", of="mqtt", example="sensors/#")
        self.spool = Path(option(named, "spool", of="mqtt", example="spool/sensors"))
        self.host, self.port = named.get("host", "127.0.0.1"), whole(named, "port", 1883)
        self.client_id = named.get("clientid", f"skyband-{self.topic}")
        self.login = (named.get("username"), named.get("password"))
        self.qos = int(named.get("qos", "1"))
        self.limit = whole(named, "maxrowspertrigger", 1_000_000)
        self.idle = Idle(named.get("idle"), named.get("time"))
        self.schema = source_schema(schema)
        check_time(self.schema, self.idle)
        self._client: Any = None
        self._store: sqlite3.Connection | None = None
        self._lock: Any = None
        self._failure: str | None = None
        self._goal: int | None = None  # with availableNow: the last message that counts

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None, "_store": None, "_lock": None}

    @property
    def store(self) -> sqlite3.Connection:
        """The spool, made when first needed."""
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
        return self._store

    def _connect(self) -> None:
        """Subscribe, once; a lost connection is taken up again by the client itself."""
        if self._client is not None:
            return
        try:
            from paho.mqtt import client as mqtt
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError as error:
            msg = 'mqtt needs the paho-mqtt package: pip install "skyband[remote]"'
            raise SourceError(msg) from error
        _ = self.store
        client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=self.client_id, clean_session=False, manual_ack=True
        )
        user, password = self.login
        if user is not None:
            client.username_pw_set(user, password)

        def connected(client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
            if reason.is_failure:
                self._failure = str(reason)
                return
            self._failure = None
            client.subscribe(self.topic, qos=self.qos)

        def message(client: Any, _data: Any, message: Any) -> None:
            with self._lock:
                self.store.execute(
                    "INSERT INTO messages (came, topic, payload) VALUES (?, ?, ?)",
                    (time.time_ns() // 1_000, message.topic, message.payload),
                )
            client.ack(message.mid, message.qos)  # only now: it is on disk

        client.on_connect, client.on_message = connected, message
        try:
            client.connect(self.host, self.port, keepalive=30)
        except OSError as error:
            msg = f"no MQTT broker answers at {self.host}:{self.port} ({error}): start it, or correct host and port"
            raise SourceError(msg) from error
        client.loop_start()
        self._client = client

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Before the first message."""
        return {_NUMBER: 0, _BEAT: 0}

    def getDefaultReadLimit(self) -> ReadMaxRows:  # noqa: N802 - Spark's name
        """At most so many rows a batch."""
        return ReadMaxRows(self.limit)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Nothing that comes after this moment is read: what the spool holds, and what comes within a second."""
        self._connect()
        time.sleep(1)
        self._goal = int(self._ask("SELECT coalesce(max(number), 0) FROM messages")[0][0])

    def latestOffset(self, start: dict[str, Any], limit: Any = None) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """How many messages have come, and how far time."""
        self._connect()
        if self._failure is not None:
            msg = f"the MQTT broker refuses the connection: {self._failure}"
            raise SourceError(msg)
        low = int(start[_NUMBER])
        high = min(low + most(limit, self.limit), 1 << 62 if self._goal is None else self._goal)
        row = self._ask("SELECT max(number) FROM messages WHERE number > ? AND number <= ?", low, high)[0]
        number = int(row[0] or low)
        silent = number == low and self._goal is None
        return {_NUMBER: number, _BEAT: self._beat(int(start[_BEAT])) if silent else start[_BEAT]}

    def _ask(self, text: str, *values: Any) -> list[Any]:
        store = self.store
        with self._lock:
            return store.execute(text, values).fetchall()

    def _beat(self, last: int) -> int:
        if self.idle.after is None:
            return last
        rows = self._ask("SELECT came, topic, payload FROM messages ORDER BY number DESC LIMIT 100")
        if not rows:
            return last
        newest = newest_time((_record(*row[1:]) for row in rows), self.schema, self.idle.time)
        return self.idle.beat(newest, time.time_ns() // 1_000 - max(row[0] for row in rows), last)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Held]:
        """The messages themselves, some thousand at a time."""
        found: list[Held] = []
        at = int(start[_NUMBER])
        while at < int(end[_NUMBER]):
            rows = self._ask(
                "SELECT number, topic, payload FROM messages WHERE number > ? AND number <= ? ORDER BY number LIMIT ?",
                at,
                int(end[_NUMBER]),
                _PAGE,
            )
            if not rows:
                msg = f"the spool {self.spool} no longer has message {at + 1}: put it back, or use a new checkpoint"
                raise SourceError(msg)
            batch = columns([_record(*row[1:]) for row in rows], self.schema)
            found.append(Held(write(pa.Table.from_batches([batch]))))
            at = int(rows[-1][0])
        if end[_BEAT] > start[_BEAT]:
            assert self.idle.time is not None
            found.append(Held(write(pa.Table.from_batches([beat_row(self.schema, self.idle.time, end[_BEAT])]))))
        return found

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        """The rows of a blob."""
        yield from unwrite(partition.blob).to_batches()

    def commit(self, end: dict[str, Any]) -> None:
        """What Spark has done with leaves the spool, all but the last hundred, which tell how far time has come."""
        with self._lock if self._lock is not None else threading.Lock():
            self.store.execute("DELETE FROM messages WHERE number <= ?", (int(end[_NUMBER]) - 100,))

    def stop(self) -> None:
        """Leave the broker, which keeps what comes for us, and close the spool."""
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None
        if self._store is not None:
            self._store.close()
            self._store = None


def _record(topic: str, payload: bytes) -> Record:
    try:
        found = json.loads(payload)
    except ValueError:
        return {"topic": topic}
    return {"topic": topic, **found} if isinstance(found, dict) else {"topic": topic}
