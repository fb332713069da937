"""The gate says what moved, believes nothing before it has looked twice, and fails only for what is slower."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from skyband.cli import app
from skyband_lab.bench import gate
from skyband_lab.bench.gate import Case, Ratio, Verdict, load, measured, ratios, save

KEPT = Ratio("k=1", "sweep", "scan", 10.0, 1.0)


def told(rounds, kept=KEPT):
    """Verdicts over costs that come one after the other, the first of them only to get warm."""
    costs = iter([rounds[0], *rounds])
    done = []

    def next_costs():
        done.append(1)
        return {"scan": 1.0, "sweep": next(costs)}

    (verdicts,) = measured([Case("k=1", next_costs)], {kept.name: kept})
    return [verdict.word for verdict in verdicts], len(done) - 1


def test_what_stays_within_its_tolerance_is_as_before():
    assert told([13.0, 12.0]) == (["as before"], gate.ROUNDS)
    assert told([16.0, 18.0], KEPT._replace(apart=1.5)) == (["as before"], gate.ROUNDS)


def test_a_restless_machine_widens_the_tolerance_but_not_beyond_all_bounds():
    assert KEPT.tolerance == gate.LEAST
    assert KEPT._replace(apart=1.6).tolerance == pytest.approx(2.0)
    assert KEPT._replace(apart=50.0).tolerance == gate.MOST


def test_a_move_is_measured_again_and_may_be_taken_back():
    assert told([30.0, 30.0, 12.0]) == (["as before"], 3)
    assert told([30.0] * 5) == (["SLOWER"], gate.ROUNDS + gate.AGAIN)
    assert told([5.0] * 5) == (["faster"], gate.ROUNDS + gate.AGAIN)


def test_a_ratio_that_nobody_accepted_is_new():
    assert Verdict(KEPT, None).word == "new"
    assert ratios(Case("k=1", dict), [{"a": 2.0, "b": 3.0, "c": 4.0}])[1].name == ("k=1", "c", "a")


def test_the_accepted_ratios_are_those_that_are_measured():
    kept = load()
    assert {case for case, _, _ in kept} == {case.name for case in gate.cases()}
    assert all(ratio.value > 0 and ratio.apart >= 1 for ratio in kept.values())


def test_the_command_fails_for_what_is_slower_and_accepts_when_told(tmp_path, monkeypatch):
    path = tmp_path / "ratios.jsonl"
    monkeypatch.setattr(gate, "cases", lambda _: [Case("k=1", lambda: {"scan": 1.0, "sweep": 20.0})])
    command = ["bench", "gate", "--against", str(path)]
    assert "--accept" in CliRunner().invoke(app, command).stderr
    save([KEPT], path)
    slower = CliRunner().invoke(app, command)
    assert slower.exit_code == 1
    assert "SLOWER" in slower.stdout
    line = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert (line["value"], line["factor"], line["moved"]) == (20.0, 2.0, "SLOWER")
    assert CliRunner().invoke(app, [*command, "--accept"]).exit_code == 0
    assert load(path)[KEPT.name].value == 20.0
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0
    assert "as before" in again.stdout


def test_a_real_case_is_measured():
    """In a process of its own: what other tests have left behind costs time too."""
    code = (
        "import json; from skyband_lab.bench import gate; gate._ARRIVAL = gate.slide.Scale(60_000, 0.05); "
        "print(json.dumps(gate._arrivals(1, 'random', 0).costs()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    costs = json.loads(done.stdout)
    assert list(costs) == ["scan", "sweep", "strict"]
    assert 0 < costs["scan"] < costs["sweep"] < costs["strict"]
