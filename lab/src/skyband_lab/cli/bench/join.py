"""skyband bench join."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

HELP = """Compare the refresh policies of joins over the grid of the AcquaTop paper, and time them.

With --out, what is in that file already is not measured again: run it as often as you like, a few minutes at a time.

Examples:

  skyband bench join --quick

  skyband bench join --experiment 1 --plots pictures --json > join.jsonl

  skyband bench join --out join.jsonl --minutes 10 --page joins-measured.md
"""


def join(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A few cases of each experiment.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every policy and case.")] = False,
    experiment: Annotated[
        list[int] | None, typer.Option(help="Only this experiment, 1 to 4, or 5: ours on every set; repeatable.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the AcquaTop data (else acquatop in SKYBAND_DATA).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File of JSON lines to go on with.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Begin no case after so long.")] = None,
    plots: Annotated[Path | None, typer.Option(help="Folder for the pictures of figures 12 to 15.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write what is known as a page.")] = None,
) -> None:
    """Run the join suite and print what it found."""
    from skyband.errors import SourceError
    from skyband_lab.bench import join as suite
    from skyband_lab.bench.acquatop import find_folder

    began = time.monotonic()
    lines = _known(out)

    def told(line: dict[str, Any]) -> None:
        lines.append(line)
        if out is not None:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        if as_json:
            print(json.dumps(line), flush=True)
        else:
            print("  ".join(f"{name}={value}" for name, value in line.items() if name != "suite"), flush=True)

    def late() -> bool:
        return minutes is not None and time.monotonic() - began >= 60 * minutes

    if not late() and not any("experiment" not in line for line in lines):
        for line in suite.speed(200_000 if quick else 2_000_000):
            told(line)
        told(suite.deadline(3 if quick else 10))
    todo = suite.left(suite.cases(quick=quick, experiments=tuple(experiment or (1, 2, 3, 4, 5))), lines)
    try:
        folder = find_folder(data)
    except SourceError as error:
        print(f"skipped: the paper's grid ({error})", file=sys.stderr)
        todo, folder = [], Path()
    for number, (case, policies) in enumerate(todo):
        if late():
            print(f"{len(todo) - number} cases are left: run it again to go on", file=sys.stderr)
            break
        for line in suite.measure(case, folder, policies):
            told(line)
    if plots is not None:
        _draw(lines, plots)
    if page is not None:
        from skyband_lab.bench.join_page import page as written

        pictures = None if plots is None else os.path.relpath(plots, page.parent).replace(os.sep, "/")
        page.write_text(written(lines, pictures), encoding="utf-8")


def _known(out: Path | None) -> list[dict[str, Any]]:
    """The lines of earlier runs."""
    if out is None or not out.is_file():
        return []
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines() if line.strip()]


def _draw(lines: list[dict[str, Any]], plots: Path) -> None:
    from skyband_lab.bench.join import OVER
    from skyband_lab.bench.plots import curves

    plots.mkdir(parents=True, exist_ok=True)
    for number, over in OVER.items():
        for budget in (7, 15) if number > 2 else (None,):
            chosen = [
                line
                for line in lines
                if line.get("experiment") == number and line["seed"] is not None and budget in (None, line["budget"])
            ]
            if chosen:
                suffix = "" if budget is None else f"-budget-{budget}"
                curves(chosen, over, plots / f"figure-{11 + number}{suffix}.svg")
