"""The measured tables in docs, from the raw results in lab/results.

Run this after new results were put there; a test says when it was forgotten.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from skyband_lab.bench import peers, plan, spark, view

ROOT = Path(__file__).resolve().parent.parent
PAGES = tuple(
    ROOT / "docs" / f"{name}.md" for name in ("choosing", "peers", "views", "leaderboards", "scale", "promises")
)
PICTURE = ROOT / "docs" / "img" / "peers.svg"
Results = dict[tuple[str, str], dict[str, float]]
Write = Callable[[dict[str, float] | None], str]

MIDDLE = "k=1000 win=1000000 slide=100000"
SLIDE = ("sweep", "mintopk", "pretopk", "recompute")
ARRIVAL = ("sweep", "strict", "relaxed", "sapf", "rapf", "probabilistic", "hybrid")
WITH_GRID = ("sasf, grid", "rapf, grid", "rapf2, grid", "probabilistic, grid (not exact)")
POINTS = ("ours", "ours, even grid", "ours, no grid", "cpm", "snn", *WITH_GRID, "rapf")
FIGURE_11 = ("ours", "cpm", "snn", "rapf, grid")


def results(suite: str) -> Results:
    """The lines of a suite, by case and engine."""
    text = (ROOT / "lab" / "results" / f"{suite}.jsonl").read_text(encoding="utf-8")
    lines = map(json.loads, text.splitlines())
    return {(line["case"], line.get("engine") or line["way"]): line for line in lines}


def speed(line: dict[str, float] | None) -> str:
    """Millions of rows a second, with two digits that mean something."""
    if line is None:
        return ""
    millions = line["rows_per_s"] / 1e6
    return f"{millions:.0f}" if millions >= 10 else f"{millions:.1f}"


def thousands(line: dict[str, float] | None) -> str:
    """Thousands of rows a second, with two digits that mean something."""
    return "" if line is None else f"{float(format(line['rows_per_s'] / 1e3, '.2g')):,g}"


def listed(line: dict[str, float] | None) -> str:
    """Objects on a query's list, and objects kept divided by the queries."""
    return "" if line is None else f"{line['references']:.0f}, {line['objects']:.0f}"


def kept(line: dict[str, float] | None) -> str:
    """The most rows that were kept at once."""
    return "" if line is None else f"{line['candidates_peak']:,}"


def table(
    head: str, engines: Sequence[str], rows: Sequence[tuple[str, str]], found: Results, write: Write = speed
) -> str:
    """One line a case, one column an engine."""
    lines = [
        f"| {head} | " + " | ".join(f"`{engine}`" for engine in engines) + " |",
        "| --- |" + " ---: |" * len(engines),
    ]
    for name, case in rows:
        cells = (write(found.get((case, engine))) for engine in engines)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tables() -> dict[str, str]:
    """All tables of the page, by the name of their place."""
    slide, arrival, knn = results("slide"), results("arrival"), results("knn")
    streams = [(name, f"{MIDDLE} {name}") for name in ("lognormal", "trades", "walk", "increasing", "decreasing")]
    ks = [(f"k {k:,}", f"k={k} win=1000000 slide=100000 lognormal") for k in (10, 100, 1000, 10_000)]
    slides = [(f"slide {s:,}", f"k=1000 win=1000000 slide={s} lognormal") for s in (100, 1000, 10_000, 100_000)]
    each = [
        (f"{stream}, k {k}", f"k={k} n=40000 {stream}")
        for k, stream in [(1, "random"), (9, "random"), (81, "random")]
        + [(9, stream) for stream in ("sensorscope", "walk", "increasing", "decreasing")]
    ]
    two = ("sweep", "mintopk")
    usual = "queries=400 n=40000"
    points = [(f"{name}, k 9", f"{name} k=9 {usual} d=2") for name in ("uniform", "clustered", "shuffled", "real")]
    points.insert(1, ("uniform, k 81", f"uniform k=81 {usual} d=2"))
    one_by_one = [
        ("2 slices, d 6", f"{usual} d=6 slices=2"),
        ("5 slices", f"{usual} d=4 slices=5"),
        ("1,600 queries", "queries=1600 n=40000 d=4"),
        ("n 10,000", "queries=400 n=10000 d=4"),
        ("b 8,000", f"{usual} d=4 b=8000"),
        ("gamma 1", f"{usual} d=4 gamma=1.0"),
    ]
    around = [(name, f"uniform k=9 {case}") for name, case in one_by_one]
    return {
        "slide": table("stream", SLIDE, streams, slide),
        "slide-kept": table("stream", SLIDE, streams, slide, kept),
        "settings": table("setting", two, ks + slides, slide),
        "arrival": table("stream", ARRIVAL, each, arrival),
        "arrival-kept": table("stream", ARRIVAL, each, arrival, kept),
        "points": table("points", POINTS, points, knn, thousands),
        "points-kept": table("points", POINTS, points, knn, listed),
        "points-varied": table("d 4 but for", FIGURE_11, around, knn, thousands),
        "plan-regret": regret_table(),
        "plan-behind": behind_table(),
        "peers-growth": growth_table(),
        "load": load_table(),
        "soak": soak_table(),
        "torture": torture_table(),
        "peers": peers_table(),
        "view-kmax": kmax_table(),
        "view-policies": policies_table(),
        "view-speed": speed_table(),
        "boards": boards_table(),
        "spark": spark_table(),
    }


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> str:
    """A table whose first columns are texts and the others numbers."""
    rule = ["---"] * texts + ["---:"] * (len(head) - texts)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def regret_table() -> str:
    """Where each engine does worst, and how often it is the fastest."""
    lines = plan.load()
    judged = plan.judged(lines)
    found = sorted(plan.regrets(lines).items(), key=lambda item: (item[0][0] != "slide", item[1]))
    rows = []
    for (kind, engine), worst in found:
        mine = [row for row in judged if (row.setting.slide > 0) == (kind == "slide")]
        fastest = sum(row.best == engine for row in mine)
        rows.append((kind, f"`{engine}`", f"{worst:.3g}", f"{fastest} of {len(mine)}"))
    return markdown(("windows", "engine", "at worst so many times slower", "fastest in"), rows, 2)


def behind_table() -> str:
    """The settings at which the chosen engine is not the fastest."""
    rows = sorted((row for row in plan.judged(plan.load()) if row.behind > 1), key=lambda row: -row.behind)
    cells = [(str(row.setting), f"`{row.best}`", f"{row.cost:.3g}", f"{row.behind:.2f}") for row in rows]
    return markdown(("setting", "fastest", "ns a row", "`sweep` times slower"), cells, 2)


def _largest() -> dict[tuple[str, str], peers.Line]:
    """By peer and task, the line with the most rows."""
    found: dict[tuple[str, str], peers.Line] = {}
    order = [(peer.name, peer.way) for peer in peers.PEERS]
    for line in sorted(peers.load(), key=lambda line: order.index((line.peer, line.way))):
        key = (_called(line), line.task)
        if key not in found or (line.cpu_seconds and line.rows >= found[key].rows):
            found[key] = line
    return found


def _called(line: peers.Line) -> str:
    names = {"skyband_spark": "skyband on Spark", "sortedlist": "SortedList", "flink": "PyFlink", "spark": "Spark"}
    names |= {"duckdb": "DuckDB", "polars": "Polars", "bytewax": "Bytewax", "pathway": "Pathway"}
    return names.get(line.peer, line.peer) + ("" if line.way == "plain" else ", panes")


def _thousands(line: peers.Line | None) -> str:
    if line is None:
        return ""
    if line.per_cpu_second is None:
        return "no" if line.cannot and not line.cannot.startswith(("not done", "failed")) else "not done"
    speed = line.per_cpu_second / 1e3
    return f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}"


def growth_table() -> str:
    """Thousands of rows a CPU second, task by task."""
    found = _largest()
    tasks = [task.name for task in peers.TASKS]
    rows = [
        (name, *(_thousands(found.get((name, task))) for task in tasks)) for name in dict.fromkeys(n for n, _ in found)
    ]
    return markdown(("", *tasks), rows)


def peers_table() -> str:
    """What each took for the first task."""
    task = peers.OVERLAPS[0].name
    rows = []
    for (name, its), line in _largest().items():
        if its != task:
            continue
        version = ", ".join(f"{package} {number}" for package, number in line.versions.items() if package != "skyband")
        if line.seconds is None or line.cpu_seconds is None:
            rows.append((name, version, f"{line.rows:,}", "", "", f"{line.peak_mb or ''}", line.cannot or ""))
            continue
        figures = (f"{line.rows / line.seconds / 1e3:,.0f}", f"{line.cpu_seconds:.2f}", f"{line.peak_mb:,}")
        rows.append((name, version, f"{line.rows:,}", *figures, f"`{line.digest}`"))
    return markdown(
        ("peer", "version", "rows", "thousand rows a second", "CPU s", "MB", "digest of the answers"), rows, 2
    )


def view_lines(field: str) -> list[dict[str, Any]]:
    """The lines of the view suite that have such a field."""
    text = (ROOT / "lab" / "results" / "view.jsonl").read_text(encoding="utf-8")
    return [line for line in map(json.loads, text.splitlines()) if field in line]


def _bases(lines: Sequence[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(line["base"] for line in lines))


def kmax_table() -> str:
    """Nanoseconds of an update in the moving window, by kmax and base."""
    lines = [line for line in view_lines("kmax") if line["case"] == "moving window"]
    found = {(line["kmax"], line["base"]): line["cost_ns"] for line in lines}
    bases = _bases(lines)
    ways = [kmax for kmax in dict.fromkeys(line["kmax"] for line in lines) if kmax not in view.POLICIES[1:]]
    rows = [(kmax, *(_nanoseconds(found[kmax, base]) for base in bases)) for kmax in ways]
    asked = next(line for line in lines if line["kmax"] == "100")
    every = {line["base"]: line["refill_ms"] for line in lines}
    refill = ("a refill, ms", *(f"{every[base]:.2g}" if every[base] < 100 else f"{every[base]:.0f}" for base in bases))
    return markdown((f"kmax, N {asked['rows']:,}", *bases), [*rows, refill])


def _nanoseconds(cost: float) -> str:
    return f"{cost:.1f}" if cost < 100 else f"{float(f'{cost:.3g}'):,.0f}"


def policies_table() -> str:
    """Cost of each policy, relative to the best fixed kmax; in brackets the worst round."""
    lines = view_lines("kmax")
    found = {(line["case"], line["kmax"], line["base"]): line for line in lines}
    bases = _bases(lines)
    rows = []
    for case, kmax in itertools.product(dict.fromkeys(line["case"] for line in lines), view.POLICIES):
        cells = (found[case, kmax, base] for base in bases)
        rows.append((case, kmax, *(f"{one['against_best']:.2f} ({max(one['each_round']):.2f})" for one in cells)))
    return markdown(("workload", "`kmax=`", *bases), rows, 2)


def speed_table() -> str:
    """Updates that can be ignored, and reads."""
    rows = [
        (f"{line['case']}: {line['way']}", f"{line['each_ns'] / 1e3:.2g}", f"{line['per_s']:,.0f}")
        for line in view_lines("each_ns")
    ]
    return markdown(("", "microseconds each", "a second"), rows)


def boards_table() -> str:
    """Leaderboards on Spark."""
    rows = [
        (
            line["case"].removeprefix("leaderboard, "),
            line["way"],
            f"{line['rows_per_s'] / 1e3:,.0f}",
            f"{line['micros_per_row']:.1f}",
            f"{line['state_bytes'] / 1e6:.1f}",
        )
        for line in view_lines("micros_per_row")
    ]
    return markdown(("", "way", "thousand rows a second", "CPU microseconds a row", "state, MB"), rows, 2)


def spark_table() -> str:
    """One query on Spark, beside plain Spark."""
    text = (ROOT / "lab" / "results" / "spark.jsonl").read_text(encoding="utf-8")
    found = spark.settled([spark.Result.from_dict(json.loads(line)) for line in text.splitlines()])
    ours = {line.case: line.micros_per_row for line in found if line.way == "skyband"}
    rows = [
        (
            line.case,
            line.way,
            f"{float(format(line.micros_per_row, '.3g')):,g}",
            f"{float(format(line.micros_per_row / ours[line.case], '.3g')):,g}" if line.case in ours else "",
            f"{line.rows / line.seconds / 1e3:,.0f}",
            f"{line.batch_ms:,.0f}",
            f"{line.state_bytes / 1e6:,.1f}",
        )
        for line in found
    ]
    head = ("", "way", "CPU microseconds a row", "of ours", "thousand rows a second", "ms a batch", "state, MB")
    return markdown(head, rows, 2)


def load_table() -> str:
    """The rates that are held."""
    text = (ROOT / "lab" / "results" / "load.jsonl").read_text(encoding="utf-8")
    rows = []
    for line in map(json.loads, text.splitlines()):
        where, groups, many = re.fullmatch(r"(\w+) groups=(\d+) queries=(\d+)", line["case"]).groups()  # type: ignore[union-attr]
        rates = (line[f"{name}_rows_per_s"] / 1e3 for name in ("peak", "held", "offered", "taken"))
        shown = (f"{float(format(rate, '.3g')):,g}" for rate in rates)
        name = {"process": "in process", "spark": "Spark"}[where]
        rows.append((f"{name}, {int(groups):,} groups, {int(many):,} queries", *shown, str(line["lost"])))
    return markdown(("thousand rows a second", "peak", "held", "offered", "taken of it", "rows lost"), rows)


SOAKED = {
    "memory_mb": "memory, MB",
    "java_mb": "of it the JVM",
    "python_mb": "of it the driver's Python",
    "workers_mb": "of it the Python workers",
    "heap_mb": "alive in Java's heap, MB",
    "kept_rows": "rows in the state",
    "checkpoint_kb": "the state on disk, KB",
    "state_kb": "RocksDB's memory, KB",
    "latency_s": "seconds of a batch",
    "behind_s": "seconds of rows that wait",
}


def soak_table() -> str:
    """What was in the first third of the soak, and in the last."""
    text = (ROOT / "lab" / "results" / "soak.jsonl").read_text(encoding="utf-8")
    head = json.loads(text.splitlines()[0])
    rows = [
        (
            name,
            *(
                f"{value:,.2f}" if key.endswith("_s") else f"{value:,.0f}"
                for value in head["first_and_last_third"][key]
            ),
        )
        for key, name in SOAKED.items()
    ]
    title = f"{head['rate']:,} rows a second for {head['minutes']:.0f} minutes"
    return markdown((title, "first third", "last third"), rows)


def torture_table() -> str:
    """How often each fault struck in the run that was kept."""
    text = (ROOT / "lab" / "results" / "torture.jsonl").read_text(encoding="utf-8")
    run = json.loads(text.splitlines()[-1])
    title = f"{run['faults']} faults of seed {run['seed']}, {run['driver_kills']} of them kills of a driver"
    rows = sorted(run["each"].items(), key=lambda one: (-one[1], one[0]))
    told = "nothing lost, nothing twice, nothing different" if not run["wrong"] else f"{run['wrong']} rounds went wrong"
    return markdown((title, "times"), [*((name, str(times)) for name, times in rows), ("**after all of them**", told)])


def filled(page: str) -> str:
    """A page with its tables as the results have them."""
    made = tables()

    def put(found: re.Match[str]) -> str:
        return f"<!-- measured: {found[1]} -->\n{made[found[1]]}\n<!-- end -->"

    return re.sub(r"<!-- measured: ([\w-]+) -->\n.*?<!-- end -->", put, page, flags=re.DOTALL)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    peers.plot(peers.load(), PICTURE)
