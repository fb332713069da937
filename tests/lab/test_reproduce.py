"""The papers' experiments: all there, resumable, decided by rules, and their pages are what the raw results say."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skyband.cli import app
from skyband.errors import QueryError, SourceError
from skyband_lab.reproduce import chosen, papers
from skyband_lab.reproduce.grid import FULL, QUICK, figure
from skyband_lab.reproduce.kinds import KINDS
from skyband_lab.reproduce.pages import made
from skyband_lab.reproduce.plots import picture
from skyband_lab.reproduce.rules import RULES
from skyband_lab.reproduce.runs import execute, find_records, read_records, results_path, rows_of, run_all, store_record
from skyband_lab.reproduce.verdicts import verdict_on

ROOT = Path(__file__).resolve().parents[2]
RAW, PAGES = ROOT / "lab" / "results" / "reproduce", ROOT / "docs" / "evidence"
FIGURES = {
    "mintopk": [f"figure-{n}" for n in range(7, 14)],
    "mtops": [f"figure-{n}" for n in range(8, 16)],
    "topkw": [*(f"figure-{n}" for n in range(8, 14)), "table-v"],
    "views": ["table-1", *(f"figure-{n}" for n in (1, 2, 3, 4, 5, 6, 8))],
    "acquatop": ["table-3", *(f"figure-{n}" for n in range(9, 16)), "table-6", "table-7"],
}
EVERY = [figure(paper, name) for paper, names in FIGURES.items() for name in names]
every_figure = pytest.mark.parametrize("one", EVERY, ids=lambda one: f"{one.paper} {one.name}")


def test_every_figure_is_there():
    assert {paper.name: list(paper.figures) for paper in papers().values()} == FIGURES
    assert chosen("all") == EVERY


@every_figure
def test_a_grid_is_complete(one):
    assert one.title
    assert one.shows
    assert one.ours
    for mode in (QUICK, FULL):
        runs = one.runs(mode)
        assert runs
        assert len({(results_path(RAW, run), run.name) for run in runs}) == len(runs), "two runs share a record"
        assert all(run.kind in KINDS for run in runs)
        assert all(len(run.name) < 120 for run in runs)
    assert one.claims
    for claim in one.claims:
        assert claim["rule"] in RULES
        assert claim["says"]
        assert claim["cite"]
        assert len(claim["want"]) == 2
        assert set(claim.get("because", {})) <= {"confirmed", "different", "refuted", "above", "below"}


@every_figure
def test_every_claim_is_decided_by_the_raw_files_of_the_quick_grid(one):
    mode, rows = rows_of(RAW, one)
    assert mode in (QUICK, FULL), "its runs are not complete: make reproduce"
    for claim in one.claims:
        assert verdict_on(one, claim, rows).verdict in ("confirmed", "refuted", "different")


def test_the_pages_are_what_the_raw_files_say():
    wanted = made(RAW)
    there = {str(path.relative_to(PAGES)) for path in PAGES.rglob("*") if path.is_file()}
    assert there == set(wanted)
    for name, text in wanted.items():
        assert (PAGES / name).read_text(encoding="utf-8") == text, f"{name} is out of date: make reproduce"


def test_without_runs_there_is_no_picture(tmp_path):
    assert picture(figure("mintopk", "figure-7"), tmp_path) is None


def test_raw_results_are_small_and_name_no_machine():
    lines = [line for path in RAW.rglob("*.jsonl") for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 300
    for line in lines:
        assert len(line) < 20_000
        assert "/" not in json.loads(line)["version"]
        assert str(ROOT) not in line


def test_there_is_one_file_of_results_per_figure():
    for path in RAW.rglob("*"):
        if path.is_file():
            paper, name = path.relative_to(RAW).with_suffix("").parts
            assert name in FIGURES[paper]
            assert path.suffix == ".jsonl"
            records = read_records(path)
            assert len(records) == len(path.read_text(encoding="utf-8").splitlines()), "two lines for one run"
            assert {(record["paper"], record["figure"]) for record in records.values()} == {(paper, name)}


# ------------------------------------------------------------------ resuming

KILLED = """
import sys
from pathlib import Path
from skyband_lab.reproduce import chosen
from skyband_lab.reproduce.kinds import KINDS
from skyband_lab.reproduce.runs import run_all
real = KINDS["limit"]
runs = []

def four_runs(settings, data):
    if len(runs) == 4:
        print("four runs are stored", flush=True)
        sys.stdin.read()
    runs.append(settings)
    return real(settings, data)

KINDS["limit"] = four_runs
for _ in run_all(chosen("topkw", "table v"), "quick", Path(sys.argv[1])):
    pass
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    path, pipe = tmp_path / "topkw" / "table-v.jsonl", subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdin=pipe, stdout=pipe) as running:
        assert running.stdout.readline() == b"four runs are stored\n"
        running.send_signal(signal.SIGKILL)
    kept = read_records(path)
    assert len(kept) == 4
    seen = []
    list(run_all(chosen("topkw", "table v"), QUICK, tmp_path, watch=lambda todo, there: seen.append((todo, there))))
    assert [(len(todo), len(there)) for todo, there in seen] == [(36 - len(kept), len(kept))]
    records = read_records(path)
    assert len(records) == path.read_text().count("\n") == 36
    assert {key: records[key] for key in kept} == kept


def test_a_line_cut_short_is_written_again(tmp_path):
    path = tmp_path / "figure-7.jsonl"
    first, second = ({"mode": QUICK, "run": name, "settings": {}} for name in ("k=1", "k=2"))
    store_record(path, first)
    path.write_text(path.read_text() + json.dumps(second)[:9])  # killed while it was writing
    assert list(read_records(path).values()) == [first]
    store_record(path, second)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [first, second]


@pytest.mark.parametrize("line", ["<<<<<<< HEAD", "3", '{"mode": "quick"}'])
def test_a_damaged_line_is_an_error_that_names_it(tmp_path, line):
    path = tmp_path / "figure-7.jsonl"
    path.write_text(f'{{"mode": "quick", "run": "k=1", "settings": {{}}}}\n{line}\n')
    with pytest.raises(SourceError, match=r"figure-7.jsonl, line 2"):
        read_records(path)


def test_what_is_there_is_not_done_again_unless_asked(tmp_path, monkeypatch):
    done = []
    monkeypatch.setitem(KINDS, "limit", lambda settings, _: done.append(settings) or {"limit": 1})
    table = chosen("topkw", "v")
    list(run_all(table, QUICK, tmp_path))
    list(run_all(table, QUICK, tmp_path))
    assert len(done) == 36
    list(run_all(table, QUICK, tmp_path, again=True))
    assert len(done) == 72
    run = table[0].runs(QUICK)[5]
    path = results_path(tmp_path, run)
    record = read_records(path)[QUICK, run.name]
    store_record(path, {**record, "settings": {**record["settings"], "sigma": 0.5}})  # of another grid
    assert find_records(tmp_path, [run]) == [None]
    list(run_all(table, QUICK, tmp_path))
    assert len(done) == 73
    assert find_records(tmp_path, [run])[0]["figures"] == {"limit": 1}
    names = [json.loads(line)["run"] for line in path.read_text().splitlines()]
    assert names == [run.name for run in table[0].runs(QUICK)], "runs are replaced where they stand"


# ------------------------------------------------------------------ rules

A_CLAIM = {"says": "x", "cite": "y", "value": "us", "along": "k"}
ROWS = [
    {"k": k, "engine": engine, "us": us, "seed": seed}
    for seed, more in ((1, 0.0), (2, 2.0), (3, 100.0))
    for k, engine, us in [(1, "a", 1.0 + more), (2, "a", 4.0 + more), (1, "b", 10.0), (2, "b", 2.0)]
]


@pytest.mark.parametrize(
    ("rule", "verdict", "measured"),
    [  # a has 3 and 6 (the median over seeds), b 10 and 2
        ({"rule": "value", "where": {"engine": "a"}, "want": [3, 6]}, "confirmed", "3 at k 1, 6 at k 2"),
        ({"rule": "value", "where": {"engine": "a"}, "want": [5, None]}, "different", "as claimed in 1 of 2"),
        ({"rule": "value", "where": {"engine": "a"}, "want": [7, None]}, "refuted", "as claimed in 0 of 2"),
        ({"rule": "value", "where": {"engine": "a"}, "want": [7, None], "loose": [1, 9]}, "different", "0 of 2"),
        ({"rule": "value", "where": {"engine": "c"}, "want": [7, None]}, "not run", "no run"),
        ({"rule": "ratio", "of": {"engine": "a"}, "to": {"engine": "b"}, "want": [None, 1]}, "different", "0.3 at k 1"),
        (
            {"rule": "ratio", "of": {"engine": "a"}, "to": {"engine": "b"}, "take": "max", "want": [3, 3]},
            "confirmed",
            "3",
        ),
        ({"rule": "growth", "where": {"engine": "a"}, "between": [1, 2], "want": [2, 2]}, "confirmed", "2"),
        ({"rule": "trend", "where": {"engine": "b"}, "want": [1, None]}, "refuted", "0.2"),
        ({"rule": "spread", "where": {"engine": "b"}, "want": [None, 5]}, "confirmed", "5"),
        ({"rule": "jumps", "where": {"engine": "a"}, "want": [1, 1]}, "confirmed", "1"),
        ({"rule": "lowest", "where": {"engine": "b"}, "want": [2, 2]}, "confirmed", "2"),
        (
            {"rule": "best", "by": "engine", "who": "a", "among": ["a", "b"], "better": "low", "want": [0, None]},
            "different",
            "2.33 at k 1, -0.667 at k 2",
        ),
        ({"rule": "order", "by": "engine", "groups": [["a"], ["b"]], "want": [None, 1]}, "different", "0.3 at k 1"),
        (
            {"rule": "printed", "where": {"engine": "a"}, "printed": [{"k": 1, "n": 3}], "want": [0, 0]},
            "confirmed",
            "0",
        ),
    ],
)
def test_a_rule_decides(rule, verdict, measured):
    said = verdict_on(EVERY[0], {**A_CLAIM, **rule}, ROWS)
    assert said.verdict == verdict
    assert measured in said.measured
    assert said.rule


def test_a_reason_fits_the_verdict():
    claim = {**A_CLAIM, "rule": "value", "where": {"engine": "a"}, "loose": [0, 99]}
    reasons = {"confirmed": "as told", "above": "more", "below": "less", "different": "other"}
    for want, reason in (([3, 6], "as told"), ([0, 1], "more"), ([7, 9], "less"), ([5, 9], "other")):
        assert verdict_on(EVERY[0], {**claim, "want": want, "because": reasons}, ROWS).because == reason


# ------------------------------------------------------------------ one tiny run of each kind

SLIDE = {"k": 5, "win": 2_000, "slide": 200, "stream": "lognormal", "rows": 6_000, "budget": 0.1}
SHARED = {
    "any": "all", "queries": 3, "stream": "lognormal", "engine": "mtoplist", "scale": 1000, "rows": 4_000,
    "budget": 0.2, "sample": 2,
}  # fmt: skip
TABLE = {"rows": 2_000, "base": "sqlite", "index": True, "ks": [10], "kmaxs": [20, 200]}
PACED = {"k": 5, "win": 20, "slide": 10, "rate": 400, "windows": 3}
NEAR = {"points": "uniform", "k": 3, "queries": 4, "n": 300, "d": 2, "rows": 300}
POLICIES = {
    "set": "ch20",
    "seed": 1,
    "k": 5,
    "spare": 10,
    "budget": 7,
    "policies": ["never", "all"],
    "windows": 10,
}


@pytest.mark.parametrize(
    ("kind", "settings", "holds"),
    [
        ("slide", {**SLIDE, "engine": "mintopk"}, lambda f: 0 < f["us"] < 1000 and 10 < f["kept"] < 22),
        ("slide", {**SLIDE, "engine": "sma", "stream": "targets"}, lambda f: f["peak"] == 2_000 and f["searched"] <= 1),
        ("workload", SHARED, lambda f: f["us"] > 0 and f["bytes"] > 0),
        ("nearest", {**NEAR, "way": "rapf2, grid"}, lambda f: f["us"] > 0 and f["measured"] == 4),
        ("nearest", {**NEAR, "way": "rapf", "gamma": 0.5}, lambda f: f["references"] >= 3),
        ("errors", {**NEAR, "rows": 3_000, "sigma": 0.001}, lambda f: f["told"] > f["missed"] and f["bound"] > 0),
        ("space", {**NEAR, "engine": "strict"}, lambda f: f["references"] > f["objects"] > 0),
        ("space", {**NEAR, "engine": "cpm"}, lambda f: f["objects"] == 75),
        ("limit", {"n": 1000, "k": 1, "sigma": 0.001}, lambda f: f["limit"] == 18),
        ("rank", {"l": 5, "n": 30, "rank": 5}, lambda f: f["rising"] == 0),
        ("rank", {"l": 5, "n": 30, "step": 10, "upto": 29}, lambda f: f["apart"] < 0.01 < f["highest"]),
        ("updates", {"rows": 200, "sales": "zipf", "size": 20, "steps": 5}, lambda f: 0 < f["bad"] < f["ignorable"]),
        ("refill", TABLE, lambda f: f["ms"] > 0),
        ("stored", {"size": 50, "base": "sqlite", "pairs": 20}, lambda f: f["us"] > 1),
        ("held", {"size": 100, "pairs": 1_000}, lambda f: f["size_after"] == 100 and f["ns"] > 1),
        ("upkeep", {"rows": 1_000, "kmax": 150, "base": "sqlite", "updates": 3_000, "budget": 1.0},
         lambda f: f["remote_database"] > f["same_database"] > 0),
        ("adaptive", {"k": 10, "rows": 10_000, "p": 0.3, "q": 0.4, "looks": 300}, lambda f: f["median"] < 251),
        ("bounds", {"N": 100, "n": 30}, lambda f: f["survived"] > f["survival"] > 0.95),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_tiny_run_of_each_kind(kind, settings, holds):
    assert holds(KINDS[kind](settings, None))


@pytest.mark.parametrize(
    ("kind", "settings", "holds"),
    [
        ("response", {**PACED, "engine": "mintopk"}, lambda f: f["ms_min"] <= f["ms_mean"] <= f["ms_max"]),
        ("response", {**PACED, "engine": "sma"}, lambda f: f["windows"] >= 3 and f["ms_mean"] > 0),
        ("changes", {"set": "ch20", "seed": 1}, lambda f: f["users"] == 400 and 15 < f["average"] < 25),
        ("mentions", {}, lambda f: (f["least"], f["middle"], f["most"]) == (26, 38, 59)),
        ("policies", POLICIES, lambda f: f["lines"][0]["ndcg"] < f["lines"][1]["ndcg"] <= 1),
        ("tracked", POLICIES, lambda f: f["lines"][0]["ndcg"] < f["lines"][1]["ndcg"] <= 1
         and len(f["lines"][0]["ndcg_error"]) == 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_tiny_run_on_real_data(kind, settings, holds, real_data):
    assert holds(KINDS[kind](settings, real_data))


def test_policies_are_the_same_with_and_without_the_engine(real_data):
    quickly, tracked = (KINDS[kind](POLICIES, real_data)["lines"] for kind in ("policies", "tracked"))
    for fast, slow in zip(quickly, tracked, strict=True):
        assert fast == pytest.approx({name: slow[name] for name in fast}, abs=1e-9)


def test_every_kind_is_tried_here():
    text = Path(__file__).read_text(encoding="utf-8")
    assert all(f'("{kind}", ' in text for kind in KINDS)


def test_missing_data_is_told_and_the_rest_is_run(tmp_path):
    with pytest.raises(SourceError, match="acquatop"):
        KINDS["mentions"]({}, tmp_path)
    args = ["reproduce", "acquatop", "9", "--quick", "--data", str(tmp_path), "--results", str(tmp_path)]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 3
    assert "left out: acquatop/mentions.parquet was found nowhere" in done.output
    assert "not run" in done.output


# ------------------------------------------------------------------ the command


def test_the_command_runs_judges_and_goes_on(tmp_path):
    args = ["reproduce", "topkw", "Table V", "--quick", "--json", "--results", str(tmp_path)]
    done = CliRunner().invoke(app, args)
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 36 + 2
    assert [line["verdict"] for line in lines[36:]] == ["confirmed", "refuted"]
    assert set(lines[0]) == {"paper", "figure", "mode", "run", "settings", "figures", "seconds", "version"}
    again = CliRunner().invoke(app, [*args[:4], "--no-run", "--results", str(tmp_path)])
    assert "confirmed all 36 limits" in again.stdout
    record = execute(tmp_path, chosen("topkw", "v")[0].runs(QUICK)[0])
    assert record["figures"]["limit"] == 18


def test_errors_name_what_there_is():
    with pytest.raises(QueryError, match="mintopk, mtops, topkw, views, acquatop, all"):
        chosen("tupelo")
    with pytest.raises(QueryError, match="Figure 7, Figure 8"):
        chosen("mintopk", "6")
    done = CliRunner().invoke(app, ["reproduce", "mintopc"])
    assert done.exit_code == 2
    assert "did you mean mintopk" in done.output
