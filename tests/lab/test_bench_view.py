"""skyband bench view, as a user meets it, and the results that are kept."""

import json

import pytest
from typer.testing import CliRunner

from skyband.cli import app
from skyband_lab.bench import view as suite
from skyband_lab.bench.prices import Price
from skyband_lab.checkout import RESULTS


def skyband(*args):
    return CliRunner().invoke(app, list(args))


def test_a_file_that_cannot_keep_results_is_told_before_measuring(tmp_path):
    (tmp_path / "other.txt").write_text("{other", encoding="utf-8")
    for path, words in [("none/a.jsonl", "cannot be written"), ("other.txt", "holds something else than results")]:
        done = skyband("bench", "view", "--quick", "--no-spark", "--out", str(tmp_path / path))
        assert done.exit_code != 0
        assert words in done.output
        assert "a refill" not in done.output
    assert "nothing to measure" in skyband("bench", "view", "--no-views", "--no-spark").output


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


def test_the_adaptive_view_is_near_the_best_fixed_one():
    """Live, on a small table, with room for a busy machine; refills and what they cost are no matter of luck."""
    price = Price(0.02)
    for case in suite.WORKLOADS:
        ways = {kmax: (kmax, price) for kmax in (100, 150, 200, 300, 500, "adaptive")}
        ran = suite.contest(case, list(ways.values()), suite.Scale(20_000, 2_000_000, 4.0), 1)
        cost = {kmax: one.cost(price) for kmax, one in zip(ways, ran, strict=True)}
        assert cost["adaptive"] < 1.6 * min(cost.values()), case
        if case == "moving window":
            assert cost["adaptive"] < cost[100] / 100


def kept():
    text = (RESULTS / "view.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


BASES = ("memory", "sqlite", "sqlite, index", "postgresql", "postgresql, index", "remote")


def kept_costs():
    return {(line["case"], line["base"], line["kmax"]): line for line in kept() if "kmax" in line}


def test_the_kept_adaptive_views_are_within_a_tenth_of_the_best_fixed_ones():
    costs = kept_costs()
    for case in suite.WORKLOADS:
        for base in BASES:
            assert costs[case, base, "adaptive"]["against_best"] <= 1.1, (case, base)


def test_the_kept_results_reach_the_goals():
    """N 1 M, k 100: a hundred times cheaper than without spare rows."""
    lines, costs = kept(), kept_costs()
    assert {line["rows"] for line in costs.values()} == {1_000_000}
    for base in BASES:
        mine = costs["moving window", base, "adaptive"]["cost_ns"]
        assert costs["moving window", base, "100"]["cost_ns"] >= 100 * mine
        assert costs["moving window", base, "ask at every read"]["cost_ns"] >= 100 * mine
    swift = {(line["case"], line["way"]): line["each_ns"] for line in lines if "each_ns" in line}
    assert swift["updates", "ignorable, in batches of a million"] < 1e9 / 5e6
    assert swift["reads", "top after a change of the list"] < 20_000
    boards = [line for line in lines if "micros_per_row" in line]
    assert {line["way"] for line in boards} == {"skyband", "two-step", "two-step with panes"}
    assert all(
        line["answers"] == other["answers"] for line in boards for other in boards if line["case"] == other["case"]
    )
