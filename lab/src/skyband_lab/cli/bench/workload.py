"""skyband bench workload."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from skyband_lab.cli.bench._shown import print_table, shown

HELP = """Measure many queries over one stream, at the settings of the MTopS paper: 10, 100 and 1000 of them.

CPU time of one thread, from when the longest window is full. "alone" engines run once for every query and share
nothing; a quick run has twenty of them stand for a thousand.

Examples:

  skyband bench workload --quick

  skyband bench workload --engine sweep --engine "alone mintopk" --json > workload.jsonl
"""


def workload(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases and rows: about two minutes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
    engine: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this engine; repeatable.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="WHAT", help='Only what varies: k, slide, "win, slide", all, or trades; repeatable.'),
    ] = None,
    queries: Annotated[list[int] | None, typer.Option(min=1, help="Only so many queries; repeatable.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the real trades (else SKYBAND_DATA).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the queries and of the made-up stream.")] = 0,
) -> None:
    """Run the workload suite and print what it found."""
    from skyband_lab.bench.slide import checked
    from skyband_lab.bench.workload import FULL, KINDS, QUICK, cases, engines, run
    from skyband_lab.bench.workloads import TRADES, find

    kinds = checked(kind or [], [*(k.name for k in KINDS), "trades"], "kind")
    todo = cases(quick=quick, only=checked(engine or [], engines(), "engine"), kinds=kinds, sizes=queries or [])
    if not quick and find(data) is None:
        todo = [case for case in todo if case.stream != "trades"]
        print(f"skipped: trades ({TRADES} not found; see --data)", file=sys.stderr)
    found = []
    for result in shown(run(todo, QUICK if quick else FULL, seed=seed, data=data), len(todo)):
        found.append(result)
        if as_json:
            print(json.dumps(result.as_dict()), flush=True)
    if not as_json:
        print_table(found)
