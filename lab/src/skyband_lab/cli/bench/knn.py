"""skyband bench knn."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skyband_lab.cli.bench._shown import short

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skyband_lab.bench.knn import Line

HELP = """Measure many k-NN queries over one stream of points, at the settings of the top-k/w paper.

400 queries, windows of 40,000 rows, k 9, two dimensions, and around that; with and without the grid. CPU time of one
thread; the clock starts when the first window is full. Engines alone are run once a query, without a grid.

Examples:

  skyband bench knn --quick

  skyband bench knn --json > knn.jsonl

  skyband bench knn --way ours --way cpm --points real
"""


def knn(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases, and rows: half a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
    way: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this way; repeatable.")] = None,
    points: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only uniform, clustered, shuffled or real; repeatable.")
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows after the first window (default a million).")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the real readings (else SKYBAND_DATA).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of points and targets.")] = 0,
) -> None:
    """Run the k-NN suite and print what it found."""
    from skyband_lab.bench.knn import QUICK, ROWS, cases, run
    from skyband_lab.bench.points import READINGS
    from skyband_lab.bench.workloads import find

    todo = cases(quick=quick, ways=way or [], points=points or [])
    if not points and find(data, READINGS) is None:
        todo = [case for case in todo if case.points not in ("real", "shuffled")]
        print(f"skipped: real ({READINGS} not found; see --data)", file=sys.stderr)
    tell(run(todo, rows or (QUICK if quick else ROWS), seed=seed, data=data), as_json=as_json)


def tell(lines: Iterable[Line], *, as_json: bool) -> None:
    """Print what was found, line by line."""
    for line in lines:
        if as_json:
            print(json.dumps(line.as_dict()), flush=True)
        else:
            told = f"{short(line.rows_per_s):>8} rows/s {line.cpu_seconds:9.3f} s  met {line.met:8.2f}"
            kept = f"searches {line.searches:7}  list {line.references:7.1f}  objects {line.objects:7.1f}"
            print(f"{line.case:48} {line.way:28} {told}  {kept}", flush=True)
