"""The tables of docs/choosing.md, from the raw results in benchmarks/results.

Run this after new results were put there; a test says when it was forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "choosing.md"
Results = dict[tuple[str, str], dict[str, float]]

MIDDLE = "k=1000 win=1000000 slide=100000"
SLIDE = ("sweep", "mintopk", "pretopk", "recompute")
ARRIVAL = ("sweep", "strict", "relaxed", "sapf", "rapf", "probabilistic", "hybrid")


def results(suite: str) -> Results:
    """The lines of a suite, by case and engine."""
    text = (ROOT / "benchmarks" / "results" / f"{suite}.jsonl").read_text(encoding="utf-8")
    lines = map(json.loads, text.splitlines())
    return {(line["case"], line["engine"]): line for line in lines}


def speed(line: dict[str, float] | None) -> str:
    """Millions of rows a second, with two digits that mean something."""
    if line is None:
        return ""
    millions = line["rows_per_s"] / 1e6
    return f"{millions:.0f}" if millions >= 10 else f"{millions:.1f}"


def kept(line: dict[str, float] | None) -> str:
    """The most rows that were kept at once."""
    return "" if line is None else f"{line['candidates_peak']:,}"


def table(
    head: str, engines: Sequence[str], rows: Sequence[tuple[str, str]], found: Results, *, rows_kept: bool
) -> str:
    """One line a case, one column an engine."""
    write = kept if rows_kept else speed
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
    slide, arrival = results("slide"), results("arrival")
    streams = [(name, f"{MIDDLE} {name}") for name in ("lognormal", "trades", "walk", "increasing", "decreasing")]
    ks = [(f"k {k:,}", f"k={k} win=1000000 slide=100000 lognormal") for k in (10, 100, 1000, 10_000)]
    slides = [(f"slide {s:,}", f"k=1000 win=1000000 slide={s} lognormal") for s in (100, 1000, 10_000, 100_000)]
    each = [
        (f"{stream}, k {k}", f"k={k} n=40000 {stream}")
        for k, stream in [(1, "random"), (9, "random"), (81, "random")]
        + [(9, stream) for stream in ("sensorscope", "walk", "increasing", "decreasing")]
    ]
    two = ("sweep", "mintopk")
    return {
        "slide": table("stream", SLIDE, streams, slide, rows_kept=False),
        "slide-kept": table("stream", SLIDE, streams, slide, rows_kept=True),
        "settings": table("setting", two, ks + slides, slide, rows_kept=False),
        "arrival": table("stream", ARRIVAL, each, arrival, rows_kept=False),
        "arrival-kept": table("stream", ARRIVAL, each, arrival, rows_kept=True),
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
