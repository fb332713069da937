"""The load suite: what is held is held, and beyond it the source waits."""

import json

import pytest
from typer.testing import CliRunner

from skyband.cli import app
from skyband_lab.bench import load
from skyband_lab.bench.spark import trades


def test_beyond_the_peak_the_source_waits_and_nothing_is_lost():
    case = load.Case("process", 10, 2, 40_000, 1_000)
    table = trades(case.rows, case.groups, rate=load.RATE)
    batches = [table.slice(low, case.batch) for low in range(0, case.rows, case.batch)]
    load.paced(case, batches[:4], 1e9)  # compiled
    beyond = load.paced(case, batches, 1e9)  # a thousand million rows a second: nobody takes so many
    assert beyond.lost == 0
    assert beyond.taken < 0.5e9
    assert beyond.lag > 0
    below = load.paced(case, batches[:6], 4_000.0)
    assert (below.lost, below.taken > 2_000) == (0, True)
    assert below.lag < 1


@pytest.mark.parametrize(("lags", "held", "lag"), [([0.2, 0.5, 0.05], 90.0, 0.05), ([0.1], 100.0, 0.1), ([9.0], 0, 0)])
def test_the_highest_rate_is_held_at_which_no_batch_is_late(lags, held, lag):
    case = load.Case("process", 1, 1, 100, 10)  # ten batches, at 100 rows a second one every 0.1 s
    asked = []

    def at(rate):
        asked.append(rate)
        return (
            load.Paced(3.0, 110.0, 2) if rate == 200 else load.Paced([*lags, *lags[-1:] * 9][len(asked) - 1], rate, 1)
        )

    found = load.searched(case, 100.0, 0, at)
    assert (found.held_rows_per_s, found.lag_seconds) == (held, lag)
    assert (found.offered_rows_per_s, found.taken_rows_per_s, found.waited_seconds) == (200.0, 110.0, 3.0)
    assert asked[-1] == 200
    assert found.lost == len(asked) + 1


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
    assert found["peak_rows_per_s"] >= found["held_rows_per_s"]
    assert found["offered_rows_per_s"] == pytest.approx(2 * found["peak_rows_per_s"], rel=1e-3)
    shown = CliRunner().invoke(app, ["bench", "load", "--no-spark"]).stdout
    assert "groups=1 queries=1" in shown
