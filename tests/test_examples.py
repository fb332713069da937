"""Every example runs, prints what its page shows, and says what a plain computation says too."""

import doctest
import importlib.util
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parent.parent
NAMES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def example(monkeypatch, tmp_path, capsys):
    """Runs an example in this process; gives what it prints, and its names."""

    def run(name, data=tmp_path):
        monkeypatch.setenv("SKYBAND_DATA", str(data))
        monkeypatch.setattr(sys, "argv", [f"examples/{name}.py"])
        names = runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out, names

    return run


def test_there_are_ten_and_the_page_has_them_all():
    shown = script("docs_examples").shown((ROOT / "docs" / "examples.md").read_text(encoding="utf-8"))
    assert len(NAMES) == 10
    assert sorted(shown) == NAMES
    assert all(shown.values())


@pytest.mark.parametrize("name", NAMES)
def test_it_prints_what_the_page_shows(name, example):
    shown = script("docs_examples").shown((ROOT / "docs" / "examples.md").read_text(encoding="utf-8"))
    assert example(name)[0] == shown[name], "docs/examples.md is out of date: run scripts/docs_examples.py"


def test_it_runs_as_printed():
    command = [sys.executable, "examples/hotel_bids.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "who holds a room" in done.stdout


def test_the_rooms_go_to_the_best_bids_that_stand(example):
    said, names = example("hotel_bids")
    bids = pd.DataFrame(names["bids"]())
    standing = bids[(bids.ts >= "2026-07-01T19:30") & (bids.ts < "2026-07-01T20:00")]
    for hotel, some in standing.groupby("hotel"):
        best = some.sort_values(["euro", "ts"]).tail(3)
        line = next(line for line in said.splitlines() if line.startswith(hotel))
        assert all(f"{bid.guest} {bid.euro:.0f}" in line for bid in best.itertuples())


def test_the_largest_trades_are_those_of_the_frame(example):
    said, names = example("stock_trades")
    trades = names["trades"]().to_pandas()
    worth = (trades.price * trades.volume).where(trades.ts >= "2026-03-02T10:29").where(trades.ts < "2026-03-02T10:39")
    assert "until 10:39" in said
    assert re.findall(r"^ +\d+ .* ([\d,]+)$", said, re.MULTILINE) == [f"{w:,.0f}" for w in worth.nlargest(10)]


def test_the_talkers_are_those_of_the_sums(example):
    said, names = example("ddos_talkers")
    flows = pd.DataFrame(names["flows"]())
    minute = flows[(flows.second >= 300) & (flows.second < 360) & ~flows.source.isin(names["KNOWN"])]
    best = minute.groupby("source")["size"].sum().nlargest(5)
    attack = said[said.index("into the attack") :]
    assert re.findall(r"^ +\d +(\S+)", attack, re.MULTILINE) == list(best.index)


def test_a_serviced_machine_leaves_the_list(example):
    said, _ = example("vibration")
    first = {int(line.split()[0]): int(line.split()[1]) for line in said.splitlines() if re.match(r" +\d", line)}
    assert [first[minute] for minute in (1, 2, 3)] == [17] * 3
    assert [first[minute] for minute in (4, 5)] == [41] * 2
    assert not {17, 41} & {first[minute] for minute in (6, 7, 8)}


def test_the_nearest_boats_are_nearest(example):
    said, names = example("moving_targets")
    rng = np.random.default_rng(8)
    last = names["reports"](rng).to_pandas().tail(names["BOATS"])
    ship = rng.uniform(5, 95, (names["SHIPS"], 2))[0]
    miles = pd.Series(np.hypot(last.x - ship[0], last.y - ship[1]).to_numpy(), index=last.boat).nsmallest(3)
    line = next(line for line in said.splitlines() if line.startswith("ship 0"))
    assert re.findall(r"(boat \d+): ([\d.]+)", line) == [(boat, f"{far:.1f}") for boat, far in miles.items()]


def test_the_best_sellers_are_those_of_the_sums(example):
    said, names = example("best_sellers")
    sales = names["sales"]().to_pandas()
    week = sales[(sales.ts >= "2026-01-19") & (sales.ts < "2026-01-26")]
    best = week.groupby("product")["quantity"].sum().nlargest(3)
    line = next(line for line in said.splitlines() if line.startswith("26 Jan"))
    assert re.split(r"\s{2,}", line)[1:] == [f"{product} {sold:,}" for product, sold in best.items()]


def test_the_real_trades(example, real_data):
    trades = pq.read_table(real_data / "es_futures_trades.parquet").to_pandas()
    said, _ = example("stock_trades", real_data)
    largest = f"{(trades.price * trades.volume).max():,.0f}"
    assert "500,000 trades" in said
    assert said.count(largest) == 1  # the largest of all is in the busiest ten minutes


def test_the_real_evening(example, real_data):
    said, _ = example("social_influencers", real_data)
    rows = [line.split() for line in said.splitlines() if re.match(r" +\d+ +\d ", line)]
    assert len(rows) == 9
    counts = pq.read_table(real_data / "acquatop" / "followers.parquet").to_pandas().groupby("user_id").follower_count
    for _, _, user, _, followers, *_ in rows:
        assert int(followers.replace(",", "")) in set(counts.get_group(int(user)))


def test_the_real_shop(example, real_data):
    sales = pq.read_table(real_data / "online_retail.parquet").to_pandas()
    said, _ = example("best_sellers", real_data)
    week = sales[(sales.ts >= "2010-12-01") & (sales.ts < "2010-12-08") & sales.description.notna()]
    best = week.groupby("description")["quantity"].sum().nlargest(3)
    line = next(line for line in said.splitlines() if line.startswith("08 Dec"))
    assert re.split(r"\s{2,}", line)[1:] == [f"{name[:24].lower()} {sold:,}" for name, sold in best.items()]
    assert "Longest in the lead: " in said


def test_the_measured_tables_are_those_of_the_results():
    made = script("docs_measured")
    for path in made.PAGES:
        page = path.read_text(encoding="utf-8")
        assert page.count("<!-- measured: ") == page.count("<!-- end -->") >= 1
        assert made.filled(page) == page, f"docs/{path.name} is out of date: run scripts/docs_measured.py"


def test_the_commands_of_the_tutorial_print_what_it_says(tmp_path, monkeypatch):
    """All but those that start Spark."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    names = {}
    for code in re.findall(r"^```pycon\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        for step in doctest.DocTestParser().get_examples(code):
            exec(compile(step.source, "tutorial", "single"), names)  # noqa: S102 - our own page
    added = re.search(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE).group(1)
    ran = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        for command, said in re.findall(r"^\$ skyband (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
            if command.startswith("run"):
                continue
            asked = [sys.executable, "-c", "from skyband.cli import main; main()", *shlex.split(command)]
            done = subprocess.run(
                asked, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"}
            )
            assert done.returncode == 0, done.stderr
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            assert doctest.OutputChecker().check_output(said, done.stdout, flags), done.stdout
            if command.startswith("init"):
                file = Path("pipeline.yaml")
                file.write_text(file.read_text().replace("  path: trades/\n", f"  path: trades/\n{added}"))
            if command.startswith("parse"):
                assert "maxFilesPerTrigger: 1" in done.stdout
            ran.append(command.split()[0])
    assert ran == ["init", "parse", "explain"]
