"""skyband bench join."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    pass

HELP = """Compare the refresh policies of joins over the grid of the AcquaTop paper, and time them.

Examples:

  skyband bench join --quick

  skyband bench join --experiment 1 --plots pictures --json > join.jsonl
"""


def join(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A few cases of each experiment.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every policy and case.")] = False,
    experiment: Annotated[list[int] | None, typer.Option(help="Only this experiment, 1 to 4; repeatable.")] = None,
    data: Annotated[Path, typer.Option(help="Folder of the AcquaTop data.")] = Path("../shared/data/acquatop"),
    plots: Annotated[Path | None, typer.Option(help="Folder for the pictures of figures 12 to 15.")] = None,
) -> None:
    """Run the join suite and print what it found."""
    from skyband.bench import join as suite

    lines: list[dict[str, Any]] = []

    def told(line: dict[str, Any]) -> None:
        lines.append(line)
        if as_json:
            print(json.dumps(line), flush=True)
        else:
            print("  ".join(f"{name}={value}" for name, value in line.items() if name != "suite"), flush=True)

    for line in suite.speed(200_000 if quick else 2_000_000):
        told(line)
    told(suite.deadline(3 if quick else 10))
    todo = suite.cases(quick=quick, experiments=tuple(experiment or (1, 2, 3, 4)))
    if not data.is_dir():
        print(f"skipped: the paper's grid ({data.name} not found; see --data)", file=sys.stderr)
        todo = []
    for case in todo:
        for line in suite.measure(case, data):
            told(line)
    if plots is not None and todo:
        from skyband.bench.plots import curves

        plots.mkdir(parents=True, exist_ok=True)
        for number, over in suite.OVER.items():
            for budget in (7, 15) if number > 2 else (None,):
                chosen = [
                    line
                    for line in lines
                    if line.get("experiment") == number
                    and line["seed"] is not None
                    and budget in (None, line["budget"])
                ]
                if chosen:
                    suffix = "" if budget is None else f"-budget-{budget}"
                    curves(chosen, over, plots / f"figure-{11 + number}{suffix}.svg")
