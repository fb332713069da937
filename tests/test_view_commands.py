"""skyband view plan, as a user meets it."""

import json

import pytest
from typer.testing import CliRunner

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
    assert "limited to 10,100" in skyband("view", "plan", "--p", "0.02").output
    assert "theorem 2" in skyband("view", "plan", "--q", "0.02").output
    assert "refill must be a number" in skyband("view", "plan", "--refill", "soon").output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--p", "0.7", "--q", "0.6"], "got p=0.7 and q=0.6"),
        (["--k", "5000", "--rows", "1000"], "k=5000 and rows=1000"),
        (["--plot", "plan.xyz"], "got 'plan.xyz'"),
        (["--update", "0us"], "got '0us'"),
    ],
)
def test_a_wrong_plan_is_told(args, words):
    done = skyband("view", "plan", *args)
    assert done.exit_code != 0
    assert words in done.output


def test_a_plan_without_bad_updates_never_refills():
    lines = skyband("view", "plan", "--p", "0", "--q", "0").output.splitlines()
    assert lines[1].split() == ["100", "0.01%", "never", "1", "us", "<-", "least"]
