"""Nothing from outside is run, no secret is shown, no expression leaves its grammar, no token leaves its host."""

import ast
import json
import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import skyband as sb
from skyband.cli import app
from skyband.dashboard import Dashboard, Hub
from skyband.errors import DashboardError
from skyband.lang import load
from skyband.query.expression import parse

SOURCE = Path(sb.__file__).parent
PASSWORD = "hunter2-and-more"  # noqa: S105 - marked, so that it is found wherever it turns up

# ---------------------------------------------------------------- no code from outside

_CODE = {"eval", "exec", "compile", "__import__", "execfile", "breakpoint"}
_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "code", "codeop"}
_CALLS = {"os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "yaml.full_load", "np.load", "pd.read_pickle"}
_STARTS = {"subprocess", "multiprocessing", "pty"}
ALLOWED = {
    ("operators/lookup_join/planning.py", "pickle"): "checks that a table can travel to Spark's workers; never loads",
    ("spark/session.py", "subprocess"): "asks the Python of Spark's workers whether it has skyband; no shell",
    ("cli/doctor.py", "subprocess"): "asks the Java that it has found for its version; a list of words, no shell",
}


def _called(node):
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _found(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _called(node.func)
            if name in _CODE | _CALLS or name.endswith((".read_pickle", ".to_pickle")):
                yield name
            for word in node.keywords:
                if word.arg == "shell" or (word.arg == "allow_pickle" and getattr(word.value, "value", True)):
                    yield word.arg
        elif isinstance(node, ast.Import):
            yield from {a.name.split(".")[0] for a in node.names} & (_MODULES | _STARTS)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from {node.module.split(".")[0]} & (_MODULES | _STARTS)


def test_nothing_is_evaluated_unpickled_or_started():
    """What travels is Arrow and JSON; queries are trees that we made; Spark alone pickles our own functions."""
    found = {(str(path.relative_to(SOURCE)), name) for path in SOURCE.rglob("*.py") for name in _found(path)}
    assert found <= set(ALLOWED), "write it without, or say in ALLOWED why it is safe"
    assert set(ALLOWED) <= found, "what is no longer there needs no leave"


def test_the_walk_sees_what_it_looks_for(tmp_path):
    text = "import pickle, os\nfrom marshal import loads\neval('1')\nos.system('x')\nf(shell=True)\nnp.load(x)\n"
    (tmp_path / "bad.py").write_text(text, encoding="utf-8")
    assert set(_found(tmp_path / "bad.py")) == {"pickle", "marshal", "eval", "os.system", "shell", "np.load"}


# ---------------------------------------------------------------- expressions

ESCAPES = [
    "read_csv('/etc/passwd')", "read_text('/etc/passwd')", "getenv('HOME')", "pg_read_file('/etc/passwd')",
    "reflect('java.lang.System', 'exit', 1)", "java_method('java.lang.Runtime', 'getRuntime')", "load_extension('x')",
    "x; DROP TABLE stock", "(SELECT max(x) FROM stock)", "x IN (SELECT 1)", "EXISTS (SELECT 1)", "my_udf(x)",
    "pg_sleep(10)", "x.y.z", "stock.x", "x::regclass", "CAST(x AS STRING)", "transform(x, y -> y)", "@x", ":x", "$1",
    "{{ x }}", "input_file_name()", "current_user()", "version()", "x -> y", "x[0]", "*", "http_get('http://e.org')",
    "ATTACH 'x'", "COPY stock TO 'x'", "PRAGMA x", "sum(x) OVER ()", "try_reflect('a', 'b')", "system('id')",
]  # fmt: skip


@pytest.mark.parametrize("text", ESCAPES)
def test_a_score_reaches_no_file_network_or_function(text):
    """One grammar for all: what it refuses never reaches DuckDB, Polars, a database or Spark."""
    with pytest.raises(sb.QueryError):
        parse(text)
    with pytest.raises(sb.QueryError):
        sb.TopK(k=1, by=text, window=sb.Counting(1))


@pytest.mark.parametrize("url", ["sqlite://", "duckdb:///:memory:"])
@pytest.mark.parametrize("text", ESCAPES[:12])
def test_nor_through_a_view(url, text):
    pytest.importorskip("sqlalchemy")
    stock = sb.tables.open_table(url, "stock", key="id", rows={"id": [1, 2], "x": [5.0, 9.0]})
    with pytest.raises(sb.QueryError):
        sb.View(stock, 1, text)
    stock.close()


@pytest.mark.parametrize("url", ["sqlite://", "duckdb:///:memory:"])
def test_names_are_names_whatever_is_in_them(url):
    pytest.importorskip("sqlalchemy")
    name = 'x"; DROP TABLE stock; --'
    stock = sb.tables.open_table(url, "stock", key="id", rows={"id": [1, 2], name: [5.0, 9.0]})
    quoted = "`" + name + "`"
    view = sb.View(stock, 1, quoted)
    assert view.read()["score"].to_pylist() == [9.0]
    assert stock.fetch([2, "1; DROP TABLE stock"][:1], [name]).num_rows == 1, "the table is still there"
    assert sb.run(sb.TopK(k=1, by=quoted, window=sb.Counting(2)), {name: [1, 3]})["score"].to_pylist() == [1.0, 3.0]
    stock.close()


# ---------------------------------------------------------------- secrets

FILE = """\
name: trades
source: {kind: redis, url: "redis://:${PW}@127.0.0.1:1/0", topic: trades, schema: "ts timestamp, x double"}
watermark: 10 seconds
query: {k: 1, by: x, window: 1 minute, time: ts}
sink: {kind: latest, url: "postgresql+psycopg://app:${PW}@127.0.0.1:1/shop", table: leaders}
"""


def _closed_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _said(call):
    """The message of an error and of all that caused it in our own words, and its traceback's first line."""
    with pytest.raises(sb.SkybandError) as caught:
        call()
    return f"{caught.value} {caught.value!r}"


def test_a_password_is_in_no_error_of_a_table():
    pytest.importorskip("sqlalchemy")
    from skyband.tables import Http, Redis, Sparql, SqlTable

    at = f"app:{PASSWORD}@127.0.0.1:{_closed_port()}"
    calls = [
        lambda: sb.tables.open_table(f"postgresql+psycopg://{at}/shop?connect_timeout=2", "stock", key="id"),
        lambda: sb.tables.open_table(f"postgresql+psycopg://{at.replace('@', '@[')}", "stock", key="id"),
        lambda: SqlTable(f"postgresql+psycopg://{at}/shop", "stock", key="id").fetch([1], ["x"]),
        lambda: Redis(f"redis://{at}/0", key="id").fetch([1], ["x"]),
        lambda: Http(f"http://{at}/users?token={PASSWORD}", key="id").fetch([1], ["x"]),
        lambda: Sparql(f"http://{at}/sparql", "id", {"x": "http://e.org/x"}, subject="http://e.org/{}").fetch(
            [1], ["x"]
        ),
    ]
    for call in calls:
        assert PASSWORD not in _said(call)


def test_a_password_is_in_no_error_of_a_sink_or_a_source():
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("pyspark")
    from pyspark.sql.types import DoubleType, StructField, StructType, TimestampType

    from skyband.spark.sink import UpsertTable
    from skyband.spark.source.redis import RedisReader

    query = sb.TopK(k=1, by="x", window=sb.Tumbling("1 minute"), time="ts")
    answers = pa.table({"window_end": [1], "rank": [1], "score": [1.0]})
    at = f"app:{PASSWORD}@127.0.0.1:{_closed_port()}"
    assert PASSWORD not in _said(lambda: UpsertTable(query, f"postgresql+psycopg://{at}/shop").write("s", 0, answers))
    schema = StructType([StructField("ts", TimestampType()), StructField("x", DoubleType())])
    reader = RedisReader({"url": f"redis://{at}", "stream": "s", "idle": "1 s", "time": "ts"}, schema)
    with pytest.raises(Exception, match=r"127\.0\.0\.1|refused|connect") as caught:
        reader.latestOffset(reader.initialOffset())
    assert PASSWORD not in f"{caught.value}"


def test_a_password_is_in_nothing_that_a_command_says(tmp_path, monkeypatch, caplog):
    """explain, doctor, parse, and a file with a mistake beside the secret."""
    monkeypatch.setenv("PW", PASSWORD)
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "pipeline.yaml"
    path.write_text(FILE, encoding="utf-8")
    said = [repr(load(path)), str(load(path))]
    for command in (["run", str(path), "--explain"], ["explain", str(path)], ["doctor", "--pipeline", str(path)]):
        result = CliRunner().invoke(app, command)
        said += [result.output, repr(result.exception)]
    path.write_text(FILE.replace("table: leaders", "tabel: leaders"), encoding="utf-8")
    result = CliRunner().invoke(app, ["run", str(path), "--explain"])
    assert result.exit_code != 0
    said += [result.output, repr(result.exception), caplog.text]
    assert PASSWORD not in "\n".join(said)


@pytest.mark.spark
def test_a_password_is_in_nothing_that_a_dry_run_says(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PW", PASSWORD)
    path = tmp_path / "pipeline.yaml"
    path.write_text(FILE, encoding="utf-8")
    result = CliRunner().invoke(app, ["run", str(path), "--dry-run"])
    assert "the file is valid" in result.output, result.output
    seen = capfd.readouterr()
    assert PASSWORD not in result.output + repr(result.exception) + seen.out + seen.err


def test_a_token_is_not_shown_by_the_dashboard():
    board = Dashboard(Hub(), port=0, token=PASSWORD)
    assert PASSWORD not in f"{board} {board!r} {board.url}"
    with pytest.raises(DashboardError, match="needs token= and tls="):
        Dashboard(Hub(), host="0.0.0.0", token=PASSWORD)  # noqa: S104 - refused without TLS
    with pytest.raises(DashboardError, match="needs token= and tls="):
        Dashboard(Hub(), host="0.0.0.0", tls=("a.pem", "b.pem"))  # noqa: S104 - refused without a token


def test_headers_go_to_no_other_service():
    """A service whose next page is on another host does not get our token sent there."""
    pytest.importorskip("httpx")
    from skyband.tables import Http

    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.server.server_port, self.headers.get("X-Token")))
            page = {"items": [{"id": 1, "x": 2}], "next": f"http://127.0.0.1:{other.server_port}/more"}
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(page).encode())

        def log_message(self, *_):
            pass

    first, other = HTTPServer(("127.0.0.1", 0), Handler), HTTPServer(("127.0.0.1", 0), Handler)
    for server in (first, other):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    users = Http(f"http://127.0.0.1:{first.server_port}/users", key="id", headers={"X-Token": PASSWORD})
    with pytest.raises(sb.TableError, match="next page must be on") as caught:
        users.fetch([1], ["x"])
    assert asked == [(first.server_port, PASSWORD)]
    assert caught.value.rows.to_pylist() == [{"id": 1, "x": 2}], "what had come is not lost"
    for server in (first, other):
        server.shutdown()
        server.server_close()
