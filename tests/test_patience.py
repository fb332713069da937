"""Nobody waits for ever: servers that take a connection and never answer, and databases that are busy for a while."""

import contextlib
import socket
import sqlite3
import threading
import time

import pyarrow as pa
import pytest

import skyband as sb
from skyband.spark.sink import Latest
from skyband.tables import _patience
from skyband.tables import redis as redis_table

QUERY = sb.TopK(k=1, by="x", window=sb.Tumbling("1 minute"), time="ts", unit="s")


@contextlib.contextmanager
def silent():
    """A server that takes connections and says nothing; its port."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield server.getsockname()[1]


def test_a_database_that_never_answers_is_an_error(monkeypatch):
    pytest.importorskip("psycopg")
    monkeypatch.setattr(_patience, "CONNECT", 2)
    began = time.monotonic()
    with silent() as port, pytest.raises(sb.TableError, match="timeout expired"):
        sb.tables.open_table(f"postgresql+psycopg://someone@127.0.0.1:{port}/shop", "stock", key="id")
    assert time.monotonic() - began < 15


def test_a_redis_that_never_answers_is_an_error(monkeypatch):
    pytest.importorskip("redis")
    monkeypatch.setattr(redis_table, "TIME_LIMIT", 0.2)
    began = time.monotonic()
    with silent() as port, pytest.raises(sb.TableError, match="Timeout"):
        redis_table.Redis(f"redis://127.0.0.1:{port}", key="user").fetch(["a"], ["x"])
    assert time.monotonic() - began < 60


def test_a_sink_tries_again_while_its_database_is_busy(tmp_path):
    answers = pa.table({"window_start": [0], "window_end": [60], "rank": [1], "score": [5.0], "x": [5.0]})
    sink = Latest(QUERY, f"sqlite:///{tmp_path}/leaders.db?timeout=0.05")
    assert sink.write("s", 0, answers)
    with contextlib.closing(sqlite3.connect(tmp_path / "leaders.db", isolation_level=None)) as busy:
        busy.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sb.SkybandError, match="locked"):  # for longer than it is tried
            sink.write("s", 1, answers)
    with contextlib.closing(
        sqlite3.connect(tmp_path / "leaders.db", isolation_level=None, check_same_thread=False)
    ) as busy:
        busy.execute("BEGIN EXCLUSIVE")
        held = threading.Timer(0.4, busy.rollback)
        held.start()
        assert sink.write("s", 1, answers), "written once the other one had gone"
        held.join()
    assert not sink.write("s", 1, answers), "and not twice"
