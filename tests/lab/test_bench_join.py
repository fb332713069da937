"""skyband bench join and skyband compare-policies."""

import json

import pytest
from typer.testing import CliRunner

import skyband as sb
from skyband.cli import app
from skyband_lab.bench.acquatop import SPAN, load
from skyband_lab.bench.join import Case, cases, deadline, left, measure, speed
from skyband_lab.bench.join_page import stands, verdicts
from skyband_lab.bench.replay import Replay


@pytest.fixture
def folder(real_data):
    return real_data / "acquatop"


def test_compare_policies_prints_a_json_line_a_policy(tmp_path, folder):
    picture = tmp_path / "errors.svg"
    command = ["compare-policies", "--data", str(folder), "--set", "ch80", "--k", "5", "--spare", "10", "--budget", "7"]
    chosen = ["--policy", "never", "--policy", "top", "--plot", str(picture)]
    found = CliRunner().invoke(app, [*command, *chosen, "--json"])
    assert found.exit_code == 0, found.output
    lines = [json.loads(line) for line in found.output.splitlines()]
    assert [(line["policy"], line["lookups"]) for line in lines] == [("never", 0), ("top", 1050)]
    assert lines[1]["ndcg"] > lines[0]["ndcg"] > 90
    assert "<svg" in picture.read_text()


def test_compare_policies_names_what_is_missing(tmp_path, monkeypatch):
    found = CliRunner().invoke(app, ["compare-policies", "--data", str(tmp_path)])
    assert found.exit_code == 3, "the data is at fault"
    assert "mentions.parquet is not in" in found.stderr
    monkeypatch.setenv("SKYBAND_DATA", str(tmp_path))
    found = CliRunner().invoke(app, ["compare-policies"])
    assert found.exit_code == 3
    assert "--data" in found.stderr
    assert "SKYBAND_DATA" in found.stderr


def test_the_grid_of_the_paper(folder):
    lines = list(measure(Case(2, "ch05", 1, 5, 10, 3), folder, ["never", "border"]))
    assert [line["policy"] for line in lines] == ["never", "border"]
    assert lines[0]["ndcg"] < lines[1]["ndcg"]
    todo = cases()
    assert {c.experiment for c in todo} == {1, 2, 3, 4, 5}
    assert {c.budget for c in todo if c.experiment == 1} == {1, 3, 5, 7, 10, 15, 20, 25, 30}
    assert {c.name for c in todo} == {"ch05", "ch10", "ch20", "ch40", "ch80"}


def test_a_replay_is_what_the_engine_says(folder):
    evening = load(folder, "ch40", 2)
    policies = ["never", "top", "border", "at-lru", "wsj-rnd", "wsj-wbm", "likely"]
    replay = Replay(evening)
    for budget, ways in ((3, policies), (12, ["likely"])):  # with 2 k and more it leans on the list
        for line in sb.compare(evening.query(5, 10, budget), evening.mentions, ways, **SPAN).to_pylist():
            found = replay.run(line["policy"], 5, 10, budget)
            assert found.ndcg == pytest.approx(line["ndcg"], abs=1e-9), line["policy"]
            assert found.precision == pytest.approx(line["precision"], abs=1e-9), line["policy"]
            assert found.lookups == line["lookups"], line["policy"]


def test_costs_and_the_slow_service_are_measured():
    found = {line["case"]: line for line in speed(20_000)}
    assert found["a value an arrival"]["rows_per_s"] > 0
    assert found["pushed changes"]["us_per_change"] >= 0
    line = deadline(2)
    assert line["windows"] >= 2
    assert line["lookups"] >= 50
    assert line["failed"] == 0


def made(case, **values):
    """Lines as the suite writes them: (nDCG, precision) by policy."""
    return [
        {"suite": "join", **case._asdict(), "ch": 20, "policy": p.replace("_", "-"), "ndcg": n, "precision": q}
        for p, (n, q) in values.items()
    ]


def test_what_was_measured_is_not_measured_again_and_judged_on_a_page(tmp_path):
    case = Case(1, "ch20", 1, 5, 10, 7)
    weak = dict.fromkeys(("never", "at_lru", "at_wbm", "wsj_rnd", "wsj_lru", "wsj_wbm"), (90.0, 91.0))
    lines = made(case, **weak, top=(140.0, 130.0), border=(120.0, 129.0), likely=(141.0, 128.0), all=(149.0, 149.0))
    assert left([case], lines) == []
    assert left([case], lines[:-2]) == [(case, ["all", "likely"])]
    first, second, *rest = verdicts(lines)
    assert (first.word, first.held, first.cells) == ("confirmed", 1, 1)
    assert first.margins[0] == pytest.approx(100 * 20 / 120)
    assert second.word == "refuted", "here AT-TSM has the better precision"
    assert {v.word for v in rest} == {"not measured"}
    assert [(s.budget, s.ndcg, s.precision) for s in stands(lines)] == [(7, 1.0, -1.0)]
    for seed, ahead in ((1, (142.0, 131.0)), (2, (139.5, 130.0))):
        longer = Case(3, "ch20", seed, 15, 10, 7)
        lines += made(longer, top=(140.0, 130.0), border=(120.0, 129.0), likely=ahead)
    out = tmp_path / "join.jsonl"
    costs = {"suite": "join", "case": "pushed changes", "us_per_change": 2.5}
    out.write_text("".join(json.dumps(line) + "\n" for line in [*lines, costs]))
    command = ["bench", "join", "--out", str(out), "--minutes", "0", "--page", str(tmp_path / "page.md")]
    assert CliRunner().invoke(app, [*command, "--plots", str(tmp_path)]).exit_code == 0
    page = (tmp_path / "page.md").read_text()
    assert "| Hp.1 accuracy | AT-BSM is best for every B | refuted | 0 of 1 | -0.77 to -0.77 % |" in page
    assert "| ch20 | 1 | 7 | +1.00 | -1.0 |" in page
    assert "| 15, 10, 7 | 2 | 1 | 1 | +0.75 | +1.50 | -0.50 | +1.00 |" in page
    assert "- pushed changes: us per change 2.5" in page
    assert (tmp_path / "figure-12.svg").stat().st_size > 1000
    assert len(out.read_text().splitlines()) == len(lines) + 1
