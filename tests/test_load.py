"""The load suite: what is held is held, and beyond it the source waits."""

import json

from typer.testing import CliRunner

from skyband.bench import load
from skyband.bench.spark import trades
from skyband.cli import app


def test_beyond_the_peak_the_source_waits_and_nothing_is_lost():
    case = load.Case("process", 10, 2, 40_000, 1_000)
    table = trades(case.rows, case.groups, rate=load.RATE)
    batches = [table.slice(low, case.batch) for low in range(0, case.rows, case.batch)]
    load.paced(case, batches[:4], 1e9)  # compiled
    _, taken, lost = load.paced(case, batches, 1e9)  # a thousand million rows a second: nobody takes so many
    assert lost == 0
    assert taken < 0.5
    lag, taken, lost = load.paced(case, batches[:6], 4_000.0)
    assert (lost, taken > 0.5) == (0, True)
    assert lag < 1


def test_the_suite_has_every_case_and_says_what_it_found(monkeypatch):
    todo = load.cases(quick=True)
    assert {(c.where, c.groups, c.queries) for c in todo} == {
        (where, *shape)
        for where in ("process", "spark")
        for shape in ((1, 1), (100, 1), (10_000, 1), (1, 100), (1, 1_000))
    }
    monkeypatch.setattr(load, "cases", lambda **_: [load.Case("process", 1, 1, 2_000, 200)])
    (line,) = CliRunner().invoke(app, ["bench", "load", "--quick", "--json"]).stdout.splitlines()
    found = json.loads(line)
    assert found["lost"] == 0
    assert found["peak_rows_per_s"] > found["held_rows_per_s"] > 0
    shown = CliRunner().invoke(app, ["bench", "load", "--no-spark"]).stdout
    assert "groups=1 queries=1" in shown
