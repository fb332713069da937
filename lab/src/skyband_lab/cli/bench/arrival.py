"""skyband bench arrival."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skyband_lab.cli.bench._shown import print_table, shown
from skyband_lab.cli.bench.knn import knn as many

if TYPE_CHECKING:
    from skyband_lab.bench.result import Result

HELP = """Measure every engine after every row, at the settings of the top-k/w paper.

First one query: the last 40,000 rows, each row told once when it first is among the k best. Then 400 queries about the
nearest points: over uniform, clustered, real and shuffled points, with and without the query grid, and with one thing
varied after the other (figure 11). Seconds are those of one core, after the first window is full. "refs", "list" and
"objects" are what is kept (figure 12).

Examples:

  skyband bench arrival --quick

  skyband bench arrival --quick --json > arrival.jsonl

  skyband bench arrival --part one --engine sweep --engine probabilistic --stream walk --k 81
"""


def arrival(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases and rows: under a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
    part: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only one (query) or many; repeatable.")
    ] = None,
    engine: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this engine; repeatable.")] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only random, walk, increasing, decreasing or sensorscope; repeatable."),
    ] = None,
    k: Annotated[list[int] | None, typer.Option(min=1, help="Only this k; repeatable.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the real measurements (else SKYBAND_DATA).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up streams.")] = 0,
) -> None:
    """Run the arrival suite and print what it found."""
    from skyband_lab.bench.arrival import FULL, QUICK, cases, run, verdicts
    from skyband_lab.bench.slide import checked
    from skyband_lab.bench.workloads import SENSORS, find

    some = bool(engine or stream or k)  # these choose among the cases of one query
    parts = checked(part or [], ("one", "many"), "part") or (["one"] if some else ["one", "many"])
    if "one" not in parts:
        many(quick=quick, as_json=as_json, data=data, seed=seed)
        return
    todo = cases(quick=quick, engines=engine or [], streams=stream or [], ks=k or [])
    if not stream and find(data, SENSORS) is None:
        todo = [case for case in todo if case.stream != "sensorscope"]
        print(f"skipped: sensorscope ({SENSORS} not found; see --data)", file=sys.stderr)
    found: list[Result] = []
    for result in shown(run(todo, QUICK if quick else FULL, seed=seed, data=data), len(todo)):
        found.append(result)
        if as_json:
            print(json.dumps(result.as_dict()), flush=True)
    if not as_json:
        print_table(found, {"references": "refs", "objects": "objects"})
        for verdict in verdicts(found):
            print(verdict)
    if "many" in parts:
        many(quick=quick, as_json=as_json, data=data, seed=seed)
