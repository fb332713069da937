"""Every peer says what it needs; answers are compared; what is kept agrees."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skyband.cli import app
from skyband.errors import QueryError
from skyband_lab.bench import peers
from skyband_lab.bench.peers import ASKS, OVERLAPS, TASKS, Line, Peer, Task, disagreeing, load, measured, needs, written

HERE = Path(sys.executable)
FEW = Task("few", 60, 20, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return written(tmp_path_factory.mktemp("peers"), 20_000, 7)


def test_every_peer_has_a_script_that_declares_what_it_needs():
    names = {peer.name for peer in peers.PEERS}
    assert {path.stem for path in ASKS.glob("ask_*.py")} == {f"ask_{name}" for name in names}
    assert all(needs(name) for name in names)
    assert names >= {"flink", "spark", "duckdb", "polars", "bytewax", "pathway", "heapq", "sortedlist", "skyband"}


def test_every_size_is_also_done_by_skyband():
    for quick in (True, False):
        work = peers.todo(quick=quick)
        ours = {(task, rows) for task, peer, rows in work if peer.name == "skyband"}
        assert ours == {(task, rows) for task, _, rows in work}
        assert len(work) == len(set(work))
    with pytest.raises(QueryError, match="peer='duckdbb' is unknown"):
        peers.todo(["duckdbb"], quick=True)


@pytest.mark.parametrize(
    "task",
    [FEW, FEW._replace(name="groups", per=True), Task("counts", 1_000, 100, 5, counts=True)],
    ids=lambda task: task.name,
)
def test_peers_that_are_installed_here_agree(task, folder):
    asked = [("skyband", "plain"), ("heapq", "plain")]
    asked += [(name, way) for name in ("duckdb", "polars") for way in ("plain", "panes")]
    lines = [measured(Line(task.name, name, way, 20_000), task, HERE, folder, 120.0) for name, way in asked]
    assert all(line.cannot is None for line in lines), lines
    assert not disagreeing(lines)
    assert lines[0].answers > 100
    assert all(line.seconds > 0 and line.cpu_seconds > 0 and line.peak_mb > 20 for line in lines)


def test_different_answers_are_noticed():
    one = Line("few", "skyband", "plain", 10, 1.0, 1.0, 1, 5, "a")
    assert not disagreeing([one, replace(one, peer="heapq"), replace(one, peer="duckdb", rows=20, digest="b")])
    assert disagreeing([one, replace(one, peer="heapq", digest="b")]) == [("few", 10)]


def test_what_cannot_be_done_is_told(folder):
    quiet = measured(Line("few", "nobody", "plain", 20_000), FEW, HERE, folder, 60.0)
    assert quiet.cannot.startswith("failed: ")
    slow = measured(Line("few", "heapq", "plain", 20_000), FEW, HERE, folder, 0.05)
    assert slow.cannot == "not done after 0 s"


def test_a_peer_that_cannot_be_installed_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("SKYBAND_PEERS", str(tmp_path))
    monkeypatch.setattr(peers, "needs", lambda _: ["./no-such-package-anywhere"])
    peers.environment.cache_clear()
    (line,) = peers.run([(FEW, Peer("sortedlist"), 1_000)])
    assert line.cannot.startswith("not installed: ")
    assert not list(tmp_path.rglob(".ready"))
    peers.environment.cache_clear()


def test_lines_and_plot_come_from_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "rows_for", lambda *_, **__: 2_000)
    monkeypatch.setattr(peers, "environment", lambda _: HERE)
    picture = tmp_path / "peers.svg"
    args = ["bench", "peers", "--quick", "--peer", "skyband", "--json", "--plot", str(picture)]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    lines = [json.loads(text) for text in result.stdout.splitlines()]
    assert {line["peer"] for line in lines} == {"skyband", "heapq"}
    assert len({line["digest"] for line in lines if line["task"] == OVERLAPS[0].name}) == 1
    assert "<svg" in picture.read_text()


def test_the_kept_run_agrees():
    lines = load()
    assert {line.task for line in lines} <= {task.name for task in TASKS}
    assert {task.name for task in OVERLAPS} <= {line.task for line in lines}
    assert len({line.peer for line in lines if line.digest}) >= 7
    assert not disagreeing(lines)
    assert all(line.digest or line.cannot for line in lines)
