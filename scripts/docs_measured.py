"""The tables of docs/choosing.md, from the raw results in benchmarks/results.

Run this after new results were put there; a test says when it was forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "choosing.md"
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
    text = (ROOT / "benchmarks" / "results" / f"{suite}.jsonl").read_text(encoding="utf-8")
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
    }


def filled(page: str) -> str:
    """The page with its tables as the results have them."""
    for name, made in tables().items():
        place = re.compile(f"(<!-- measured: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        page, count = place.subn(lambda found, made=made: found[1] + made + "\n" + found[2], page)  # type: ignore[misc]
        assert count == 1, f"{PAGE.name} has {count} places for the table {name!r}"
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
