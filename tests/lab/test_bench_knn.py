"""The k-NN suite measures what it says, with and without the grid."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from skyband.cli import app
from skyband.errors import QueryError, SourceError
from skyband_lab.bench import knn, points
from skyband_lab.bench.knn import ALONE, WATCHED, WAYS, Case


@pytest.mark.parametrize("name", ["uniform", "clustered"])
def test_points_are_repeatable_and_within_the_cube(name):
    one, two = (points.POINTS[name](1_000, 3, 7) for _ in range(2))
    assert one.shape == (1_000, 3)
    assert (one == two).all()
    assert 0 <= one.min() < one.max() <= 1
    assert len(np.unique(one[:, 0])) == 1_000


def test_real_points_come_in_time_or_in_random_order(real_data):
    real, mixed = (points.POINTS[name](20_000, 2, 1, real_data) for name in ("real", "shuffled"))
    assert np.abs(np.diff(real[:, 0])).mean() < 0.5 * np.abs(np.diff(mixed[:, 0])).mean()
    assert (np.sort(real, axis=0) == np.sort(mixed, axis=0)).all()


def test_missing_readings_are_told(tmp_path):
    with pytest.raises(SourceError, match="SKYBAND_DATA"):
        points.real(10, 2, 0, tmp_path)


def test_every_exact_way_reports_the_same():
    stream = points.uniform(4_000, 2)
    found = [knn.measure(Case(way=way, queries=4, n=500, k=5), stream) for way in [*WAYS, *WATCHED, *ALONE]]
    exact = {line.reports for line in found if "not exact" not in line.way}
    assert len(exact) == 1
    assert exact.pop() > 100
    assert {line.rows for line in found} == {3_500}
    met = {line.way: line.met for line in found}
    assert met["ours"] < met["ours, no grid"] == 4


def test_the_suite_has_the_settings_of_the_paper():
    full, quick = knn.cases(quick=False), knn.cases(quick=True)
    assert Case("uniform", "ours", k=9, queries=400, n=40_000, d=2) in quick
    assert {case.k for case in full if case.points == "real"} == {1, 3, 9, 27, 81}
    assert len(set(quick)) == len(quick) < len(full)
    with pytest.raises(QueryError, match="way='ourz' is unknown: did you mean ours"):
        knn.cases(quick=True, ways=["ourz"])


def test_figure_11_varies_one_thing_after_the_other():
    full = knn.cases(quick=False)
    usual = Case(way="rapf, grid", d=4)
    values = {field: {getattr(case, field) for case in full if case.way == usual.way} for field in Case._fields}
    assert values["d"] == {2, 4, 6, 8, 10}
    assert values["slices"] >= {2, 10, 12, None}
    assert values["queries"] == {100, 200, 400, 800, 1600}
    assert values["buffer"] == {500, 1_000, 2_000, 4_000, 8_000, 16_000}
    assert values["gamma"] == {0.05, 0.1, 0.2, 0.5, 1.0, 2.0}
    assert values["n"] == {10_000, 20_000, 40_000, 80_000, 160_000}
    for case in full:
        if case.way == usual.way and case.d == 4 and case.points == "uniform":
            assert sum(a != b for a, b in zip(case, usual, strict=True)) <= 1
    assert {case.points for case in full if case.way == "rapf2, grid"} == set(points.POINTS)


def test_rapf2_has_half_the_window_as_its_buffer():
    stream = points.uniform(3_000, 2)
    small, half = (
        knn.measure(Case(way=way, queries=3, n=1_000, buffer=50), stream) for way in ("rapf, grid", "rapf2, grid")
    )
    assert small.reports == half.reports
    assert half.objects - small.objects > 100, "objects in the buffer count"


def test_lines_come_from_the_command(monkeypatch):
    some = [Case(queries=3, n=200, way=way) for way in ("ours", "sweep")]
    monkeypatch.setattr(knn, "cases", lambda **_: some)
    lines = CliRunner().invoke(app, ["bench", "knn", "--quick", "--json", "--rows", "500"]).stdout.splitlines()
    assert [json.loads(line)["way"] for line in lines] == ["ours", "sweep"]
    assert "uniform k=9 queries=3 n=200 d=2" in CliRunner().invoke(app, ["bench", "knn", "--rows", "500"]).stdout
    monkeypatch.setattr(knn, "QUICK", 500)
    told = CliRunner().invoke(app, ["bench", "arrival", "--part", "many", "--quick", "--json"]).stdout.splitlines()
    assert [json.loads(line)["way"] for line in told] == ["ours", "sweep"]
    assert CliRunner().invoke(app, ["bench", "arrival", "--part", "man"]).exit_code != 0
