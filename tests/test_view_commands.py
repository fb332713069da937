"""skyband view plan and skyband bench view, as a user meets them."""

import json

import pytest
from typer.testing import CliRunner

from skyband.bench import view as suite
from skyband.cli import app


def skyband(*args):
    return CliRunner().invoke(app, list(args))


def test_a_plan_shows_the_best_kmax_and_says_why(tmp_path):
    done = skyband("view", "plan", "--rows", "1000000", "--k", "100", "--plot", str(tmp_path / "plan.svg"))
    assert done.exit_code == 0, done.output
    assert "<- least" in done.output
    assert "theorem 1" in done.output
    assert "<svg" in (tmp_path / "plan.svg").read_text(encoding="utf-8")
    found = json.loads(skyband("view", "plan", "--json").output)
    costs = {line["kmax"]: line["cost"] for line in found["lines"]}
    assert costs[found["best"]] == min(costs.values()) < costs[100] / 1000


def test_a_plan_says_where_no_small_view_serves():
    assert "held at 10,100" in skyband("view", "plan", "--p", "0.02").output
    assert "theorem 2" in skyband("view", "plan", "--q", "0.02").output
    assert "refill='soon' is no cost" in skyband("view", "plan", "--refill", "soon").output


def test_the_suite_measures_every_workload_and_database(monkeypatch, tmp_path):
    pytest.importorskip("sqlalchemy")
    monkeypatch.setattr(suite, "QUICK", suite.Scale(3_000, 30_000, 0.5))
    out = tmp_path / "view.jsonl"
    out.write_text('{"suite": "view", "case": "kept", "way": "from before"}\n', encoding="utf-8")
    done = skyband("bench", "view", "--quick", "--json", "--no-spark", "--out", str(out))
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()][1:] == found
    lines = [line for line in found if "kmax" in line]
    assert {line["case"] for line in found} == {*suite.WORKLOADS, "updates", "reads"}
    assert {"memory", "sqlite", "sqlite, index", "remote"} <= {line["base"] for line in lines}
    for case in suite.WORKLOADS:
        mine = [line for line in lines if line["case"] == case and line["base"] == "sqlite"]
        assert {line["kmax"] for line in mine} == {*map(str, suite.FIXED), *suite.POLICIES, "ask at every read"}
        assert min(line["against_best"] for line in mine if line["kmax"].isdigit()) == 1.0
    moving = {line["kmax"]: line for line in lines if line["case"] == "moving window" and line["base"] == "sqlite"}
    assert moving["100"]["refills"] > 10 * moving["500"]["refills"]
    assert moving["ask at every read"]["against_best"] > 100
