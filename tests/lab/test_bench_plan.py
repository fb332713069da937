"""The choice of an engine follows from the table of settings that is kept."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from skyband.cli import app
from skyband.engines import ENGINES
from skyband.engines.registry import choose
from skyband_lab.bench import plan
from skyband_lab.bench.plan import ENOUGH, Line, Setting, judged, load, measure, regrets
from skyband_lab.bench.workloads import lognormal


@pytest.fixture(scope="module")
def kept():
    return load()


def test_the_kept_table_has_at_least_sixty_settings_and_every_exact_engine_at_each(kept):
    found = {line.setting for line in kept}
    assert len(found) >= 60
    assert found <= set(plan.settings())
    for setting in found:
        assert sorted(line.engine for line in kept if line.setting == setting) == sorted(setting.engines)
    assert {setting.stream for setting in found} == set(plan.ORDERS)
    assert {setting.slide == 0 for setting in found} == {True, False}
    assert len({(setting.k, setting.win, setting.slide) for setting in found}) >= 15


def test_the_chosen_engine_is_the_one_with_the_least_regret(kept):
    """It is chosen before the first row is seen, so what counts is where it does worst."""
    worst = regrets(kept)
    for kind in ("slide", "each row"):
        engines = {engine: times for (its, engine), times in worst.items() if its == kind}
        query = next(line.setting.query for line in kept if (line.slide > 0) == (kind == "slide"))
        assert choose(query).engine == min(engines, key=engines.get)


def test_the_chosen_engine_is_never_far_from_the_best(kept):
    assert {row.setting: row.behind for row in judged(kept) if row.behind > ENOUGH} == {}


def test_a_setting_asks_what_it_says():
    slides, each = Setting(3, 100, 10, "walk"), Setting(3, 100, 0, "walk")
    assert str(slides) == "k=3 win=100 every 10 walk"
    assert str(each) == "k=3 win=100 each row walk"
    assert "mintopk" in slides.engines
    assert {"sweep", "strict"} <= set(each.engines)
    assert all(ENGINES[name].traits.exact for name in slides.engines + each.engines)


def line(engine, seconds, stream="walk", filled=True):
    return Line(1, 10, 1, stream, engine, 1_000_000, seconds, 1, filled)


def test_rows_are_judged_by_the_best_that_had_a_full_window():
    lines = [line("sweep", 2.0), line("mintopk", 1.0), line("recompute", 0.1, filled=False)]
    (row,) = judged(lines)
    assert (row.best, row.chosen, row.behind) == ("mintopk", "sweep", 2.0)
    lines += [line("sweep", 1.0, "increasing"), line("mintopk", 5.0, "increasing")]
    assert regrets(lines)["slide", "mintopk"] == 5.0
    assert regrets(lines)["slide", "sweep"] == 2.0


def costs(monkeypatch, **seconds):
    """Let each engine run, and replace the time that it took: 1 s, or what is given."""
    real = plan._pass

    def measured(setting, engine, score, number):
        return replace(real(setting, engine, score, number), rows=1_000, seconds=seconds.get(engine, 1.0), filled=True)

    monkeypatch.setattr(plan, "_pass", measured)


def test_slow_engines_are_measured_once_and_fast_ones_again(monkeypatch):
    costs(monkeypatch, recompute=plan._CLOSE + 0.1, mintopk=plan._CLOSE - 0.1)
    lines = {one.engine: one for one in measure(Setting(5, 2_000, 10, "lognormal"), lognormal(20_000))}
    assert lines["sweep"].passes == lines["mintopk"].passes == plan._PASSES
    assert lines["recompute"].passes == 1


@pytest.mark.parametrize(("seconds", "near"), [(1.0 + ENOUGH, 0), (1.0, 1)])
def test_lines_and_table_come_from_the_command(monkeypatch, seconds, near):
    costs(monkeypatch, **{choose(Setting(2, 100, 10, "walk").query).engine: seconds})
    monkeypatch.setattr(plan, "settings", lambda **_: [Setting(2, 100, 10, "walk")])
    monkeypatch.setattr(plan, "rows_for", lambda _: 3_000)
    result = CliRunner().invoke(app, ["bench", "plan", "--json"])
    assert result.exit_code == 0, result.output
    lines = [json.loads(text) for text in result.stdout.splitlines()]
    assert {one["engine"] for one in lines} == set(Setting(2, 100, 10, "walk").engines)
    assert {one["ns_per_row"] for one in lines} == {1e6, seconds * 1e6}
    table = CliRunner().invoke(app, ["bench", "plan"]).stdout
    assert "k=2 win=100 every 10 walk" in table
    assert f"in {near} of 1 settings" in table
