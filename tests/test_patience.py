"""Nobody waits for ever: servers that take a connection and never answer, and databases that are busy for a while."""

import contextlib
import socket
import sqlite3
import threading

import pyarrow as pa
import pytest

import skyband as sb
from skyband.spark.sink import UpsertTable
from skyband.tables import Redis, remote, sql_schema

QUERY = sb.TopK(k=1, by="x", window=sb.Tumbling("1 minute"), time="ts", unit="s")


@contextlib.contextmanager
def silent():
    """The port of a server that accepts connections and sends nothing.

    It closes them after a minute: a client without a time limit then reports a closed connection, not a timeout.
    """
    with socket.socket() as server, contextlib.ExitStack() as stack:
        server.bind(("127.0.0.1", 0))
        server.listen(8)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    accepted.append(server.accept()[0])

        accepted = []
        threading.Thread(target=accept, daemon=True).start()
        minute = threading.Timer(60, lambda: [link.close() for link in accepted])
        minute.start()
        stack.callback(lambda: [link.close() for link in accepted])
        stack.callback(minute.cancel)
        stack.callback(server.shutdown, socket.SHUT_RDWR)
        yield server.getsockname()[1]


def test_a_database_that_never_answers_is_an_error(monkeypatch):
    pytest.importorskip("psycopg")
    monkeypatch.setattr(sql_schema, "CONNECT_SECONDS", 2)
    with silent() as port, pytest.raises(sb.TableError, match="timeout expired"):
        sb.tables.open_table(f"postgresql+psycopg://someone@127.0.0.1:{port}/shop", "stock", key="id")


def test_a_redis_that_never_answers_is_an_error(monkeypatch):
    pytest.importorskip("redis")
    monkeypatch.setattr(remote, "CALL_SECONDS", 0.2)
    with silent() as port, pytest.raises(sb.TableError, match="Timeout"):
        Redis(f"redis://127.0.0.1:{port}", key="user").fetch(["a"], ["x"])


def test_a_sink_tries_again_while_its_database_is_busy(tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr("skyband.spark.sink.time.sleep", pauses.append)
    answers = pa.table({"window_start": [0], "window_end": [60], "rank": [1], "score": [5.0], "x": [5.0]})
    sink = UpsertTable(QUERY, f"sqlite:///{tmp_path}/leaders.db?timeout=0.05")
    assert sink.write("s", 0, answers)
    with contextlib.closing(sqlite3.connect(tmp_path / "leaders.db", isolation_level=None)) as busy:
        busy.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sb.SkybandError, match="locked"):  # for longer than it is tried
            sink.write("s", 1, answers)
        assert sum(pauses) > 1, "it gave up too early"
        monkeypatch.setattr("skyband.spark.sink.time.sleep", lambda _: busy.rollback())
        assert sink.write("s", 1, answers), "written once the other one had gone"
    assert not sink.write("s", 1, answers), "and not twice"
