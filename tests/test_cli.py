"""The command `skyband`, as a user meets it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from inspect import signature

import pytest
from pyspark.errors import AnalysisException, PySparkRuntimeError
from pyspark.sql import Row
from rich.console import Console
from typer.testing import CliRunner

import skyband as sb
from skyband.cli import _pipeline, app, demo, run
from skyband.cli._monitor import ProgressMonitor, StreamMetrics
from skyband.lang import load

COLOUR = re.compile(r"\x1b\[(\d+;)*(3|4|9)\d[;m]")  # bold and dim are no colours
BY_ROWS = ["explain", "--by", "price * volume", "--rows", "1000/100"]


def skyband(*args):
    return CliRunner().invoke(app, list(args))


def process(*args, **env):
    """A fresh `skyband`, outside of any terminal."""
    clean = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE")}
    return subprocess.Popen(
        [sys.executable, "-c", "from skyband.cli import main; main()", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**clean, **env},
    )


def test_help_lists_the_commands():
    result = skyband("--help")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in ("demo", "bench", "explain", "--debug", "--version"))


@pytest.mark.parametrize("command", [["demo"], ["explain"], ["bench", "slide"], ["bench", "dashboard"]])
def test_every_command_shows_examples(command):
    result = skyband(*command, "--help")
    assert result.exit_code == 0
    assert f"skyband {' '.join(command)}" in result.stdout.split("Examples:")[1]


def test_version():
    assert skyband("--version").stdout == "skyband 0.1.0\n"


def test_the_command_loads_no_heavy_library():
    code = "import sys, skyband.cli; print([m for m in ('numba', 'pyspark', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_explain_says_what_the_library_says():
    query = sb.TopK(k=10, by="price * volume", window=sb.Counting(1000, 100))
    assert skyband(*BY_ROWS).stdout == f"{sb.explain(query)}\n"


def test_explain_json():
    result = skyband(
        "explain", "--k", "3", "--by", "price", "--window", "10 minutes/1 minute", "--time", "ts",
        "--per", "symbol", "--per", "venue", "--emit", "changes", "--engine", "mintopk", "--json",
    )  # fmt: skip
    said = json.loads(result.stdout)
    assert (said["engine"], said["why"]) == ("mintopk", "asked for")
    assert said["window"].startswith("the last 10 min, answered every 1 min")
    assert "per symbol, venue" in said["keeps"]
    assert said["emits"].startswith("changes")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--rows", "100/1000"], "slide must be at most size=100, got 1000"),
        (["--rows", "many"], "rows must be .* got 'many'"),
        (["--rows", "10", "--window", "1 hour"], "one window"),
        ([], "one window"),
        (["--window", "1 hour"], "time must name the column"),
        (["--rows", "10", "--engine", "sweeep"], "did you mean sweep"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(args, says):
    result = skyband("explain", "--by", "x", *args)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("skyband: ")
    assert re.search(says, result.stderr)
    assert result.stderr.count("\n") == 1


def test_debug_shows_the_traceback():
    result = skyband("--debug", "explain", "--by", "x")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "QueryError" in result.stderr


def test_an_unknown_engine_of_the_bench_is_named():
    result = skyband("bench", "slide", "--engine", "sweeep")
    assert result.exit_code == 2
    assert "did you mean sweep" in result.stderr


def test_demo_prints_boards_where_there_is_no_terminal():
    result = skyband("demo", "--in-process", "--seconds", "5", "--rows-per-second", "20000", "--seed", "3")
    out = result.stdout
    assert result.exit_code == 0, result.output
    assert "\x1b" not in out
    boards = out.split("skyband demo   the 10 largest trades")[1:]
    assert len(boards) >= 2
    for board in boards:
        ranks = re.findall(r"^ +(\d+)  (?:new|=|[▲▼]\d+) +[A-Z]{4} ", board, re.MULTILINE)
        assert [int(rank) for rank in ranks] == list(range(1, 11))
        assert all(word in board for word in ("window ", "entered ", "left ", "rows/s", "rows in the window", "late "))


def test_the_demo_runs_until_ctrl_c():
    with process("demo", "--in-process", "--rows-per-second", "2000") as running:
        assert running.stdout.readline().startswith("skyband demo")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert running.returncode == 0, err
    assert err == ""
    assert "windows from" in out
    assert signature(demo.demo).parameters["seconds"].default is None


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "command",
    [
        ["--version"],
        ["--help"],
        ["demo", "--help"],
        ["explain", "--by", "x", "--window", "5 min/1 min", "--time", "ts"],
        ["demo", "--in-process", "--rows-per-second", "2000"],
        ["demo", "--in-process", "--rows-per-second", "2000", "--json"],
        ["demo", "--in-process", "--rows-per-second", "2000", "--dashboard", "--port", "0"],
    ],
    ids=" ".join,
)
def test_a_reader_that_has_had_enough_is_no_error(command, unbuffered):
    """As `head` does: the other end of the pipe is closed before the first line is written."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "skyband", *command], stdout=write, stderr=subprocess.PIPE, text=True, timeout=120,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered}, check=False,
    )  # fmt: skip
    os.close(write)
    said = [line for line in done.stderr.splitlines() if "windows from" not in line]
    assert (done.returncode, said) == (0, [])


def test_a_broken_pipe_elsewhere_is_an_error():
    code = (
        "import sys; from skyband import cli\n"
        "@cli.app.command('lost')\ndef lost(): raise BrokenPipeError(32, 'Broken pipe')\n"
        "sys.argv = ['skyband', 'lost']; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "Broken pipe" in done.stderr


def fetched(url):
    with urllib.request.urlopen(url, timeout=20) as said:  # noqa: S310 - our own server
        return json.load(said)


def test_the_demo_feeds_a_dashboard():
    with process("demo", "--in-process", "--dashboard", "--port", "0", "--rows-per-second", "2000") as running:
        url = running.stdout.readline().split()[-1]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
        running.stdout.readline()  # a board: windows are being answered
        boards, until = {}, time.monotonic() + 60
        while boards.get("total") != 45 and time.monotonic() < until:
            time.sleep(0.2)
            boards = fetched(f"{url}/api/boards?limit=1000")
        board = fetched(f"{url}/api/boards/largest%20trades")
        figures = fetched(f"{url}/api/progress")["figures"]
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
    assert boards["total"] == 45  # five questions, and one for each of forty symbols
    assert [row["rank"] for row in board["rows"]] == list(range(1, 11))
    assert figures["rows_per_second"] > 0
    assert figures["candidates"] < figures["window_rows"]
    assert running.returncode == 0, err
    assert err == ""


def test_no_color_is_respected():
    noon = "2024-01-02T12:00:00"
    row = {"rank": 1, "move": None, "score": 6.0, "label": "OAKS", "cells": [noon, "OAKS", 2.0, 3]}
    columns = [{"name": name} for name in ("ts", "symbol", "price", "volume")]
    window = {"start": noon, "end": noon, "columns": columns, "rows": [row], "left": []}
    for env, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        console = Console(force_terminal=True, color_system="truecolor", _environ=env, width=100)
        with console.capture() as captured:
            console.print(demo.render(window, StreamMetrics(), "title", console))
        assert "OAKS" in captured.get()
        assert bool(COLOUR.search(captured.get())) == coloured


def test_demo_json_is_a_line_for_every_window():
    result = skyband("demo", "--in-process", "--seconds", "5", "--rows-per-second", "20000", "--json")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(lines) >= 2
    for line in lines:
        assert [row["rank"] for row in line["rows"]] == list(range(1, 11))
        assert all(row["score"] == pytest.approx(row["price"] * row["volume"]) for row in line["rows"])
        assert line["counts"]["candidates"] <= line["counts"]["in_window"]
    before = {row["trade_id"] for row in lines[-2]["rows"]}
    assert [row["move"] is None for row in lines[-1]["rows"]] == [
        row["trade_id"] not in before for row in lines[-1]["rows"]
    ]
    assert "windows from" in result.stderr


PIPELINE = """
name: hot [/bold] rooms
source: {kind: json, path: rooms/}
watermark: 10 seconds
query: {k: 2, by: heat, window: 10 minutes/1 minute, time: ts}
"""
HOSTILE = "[/red] two\nlines \x1b[2Jand a name that no terminal of eighty columns could hold beside all the others"


def report(number, rows):
    """What Spark tells of a batch."""
    noon = datetime(2024, 1, 2, 12, number, tzinfo=UTC)
    answers = [
        {"window_start": noon, "window_end": noon, "rank": i + 1, "score": score, "ts": noon, "room": room}
        for i, (room, score) in enumerate(rows)
    ]
    counts = Row(
        rows=100,
        without_score=1,
        without_time=0,
        late=2,
        candidates=3,
        wanted=8,
        made=7,
        failed=1,
        overdue=2,
        state_bytes=500 if rows else None,
    )
    return {
        "batchId": number, "numInputRows": 100, "inputRowsPerSecond": 10.0, "processedRowsPerSecond": 20.0,
        "durationMs": {"triggerExecution": 250}, "stateOperators": [{"memoryUsedBytes": 1000}],
        "eventTime": {"max": f"2024-01-02T12:{number:02}:30.000Z"},
        "observedMetrics": {"skyband": counts, "skyband board": {"rows": answers}},
    }  # fmt: skip


@pytest.fixture
def reports():
    return [report(0, []), report(1, [(HOSTILE, 30.5), ("attic", float("inf"))]), report(12, [("cellar", 0.00125)])]


def test_a_log_holds_the_answers_whole(reports, capsys):
    run._show(Console(width=80), load(PIPELINE), iter(reports), None, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "hot [/bold] rooms"
    assert lines[1].split() == ["window_start", "window_end", "rank", "score", "ts", "room"]
    assert lines[2].endswith(HOSTILE.replace("\n", r"\n").replace("\x1b", r"\x1b"))
    assert lines[3].split()[4:6] == ["2", "inf"]
    assert "0.00125" in lines[7]
    assert lines[-1].startswith("300 rows (6 late, 3 without score")
    assert lines[-1].endswith("look-ups: 24 wanted, 21 made, 3 failed, 6 late")
    assert len(lines) == 10


def test_run_json_is_a_line_for_every_batch(reports, capsys):
    run._show(Console(width=80), load(PIPELINE), iter(reports), None, as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(line["answers"]) for line in lines] == [0, 2, 1]
    assert [row["score"] for row in lines[1]["answers"]] == [30.5, None]
    assert lines[1]["answers"][0]["room"] == HOSTILE
    assert lines[1]["answers"][0]["window_end"].startswith("2024-01-02T12:01:00")
    assert [line["rows"] for line in lines] == [100, 200, 300]
    assert [line["window_rows"] for line in lines] == [100, 200, 100]  # the first two had left it by then
    assert [line["state_bytes"] for line in lines] == [0, 500, 500], "of our state, not of RocksDB"
    assert lines[-1]["refreshes"] == 21
    assert lines[-1]["lookups"] == {"wanted": 24, "made": 21, "failed": 3, "late": 6}


def test_row_text_is_no_markup_on_a_terminal(reports):
    monitor = ProgressMonitor(load(PIPELINE).queries)
    monitor.read(reports[1])
    console = Console(force_terminal=True, width=300)
    with console.capture() as captured:
        console.print(*run._render(monitor, "hot [/bold] rooms"))
    assert "[/red] two\\nlines \\x1b[2J" in captured.get()
    assert "hot [/bold] rooms" in captured.get()


def test_a_window_is_said_once_so_that_a_small_terminal_has_room(reports):
    monitor = ProgressMonitor(load(PIPELINE).queries)
    monitor.read(reports[2])
    console = Console(force_terminal=True, width=60, color_system=None)
    with console.capture() as captured:
        console.print(*run._render(monitor, "rooms")[:2], sep="\n")
    lines = [line.strip() for line in captured.get().splitlines()]
    assert lines[0] == "rooms  window 2024-01-02 12:12:00 to 2024-01-02 12:12:00"
    assert [line.split() for line in lines[1:]] == [
        ["rank", "score", "ts", "room"],
        ["1", "0.00125", "12:12:00", "cellar"],
    ]


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (FileNotFoundError(2, "No such file or directory", "a/b.yaml"), 3, "skyband: a/b.yaml: No such file"),
        (sb.SnapshotError("k was '3'"), 4, "skyband: k was '3'"),
        (AnalysisException("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03\n'Plan"), 3, "not exist: x.\n"),
        (PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java exited."), 5, "Java exited. (see skyband doctor)"),
        (KeyError("x"), 1, "skyband --debug ... shows where"),
    ],
)
def test_every_error_has_its_code(error, code, says, monkeypatch):
    def raising(*_, **__):
        raise error

    monkeypatch.setattr("skyband.cli.parse.parse_text", raising)
    result = skyband("parse", "x")
    assert result.exit_code == code
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_failed_stream_says_why():
    said = "[STREAM_FAILED] Query [id = 1]\n  File x\nskyband.errors.SnapshotError: k was '3' and is '4'.\nSQLSTATE: X"
    assert isinstance(_pipeline.stream_error(said), sb.SnapshotError)
    assert str(_pipeline.stream_error("[STREAM_FAILED] something\nelse")) == "[STREAM_FAILED] something"
