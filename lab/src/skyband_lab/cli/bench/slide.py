"""skyband bench slide."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skyband_lab.cli.bench._shown import print_table, shown

if TYPE_CHECKING:
    from skyband_lab.bench.result import Result

HELP = """Measure every engine over windows that slide, at the settings of the MinTopk paper.

One thread; the clock starts when the first window is full. The limit of all of them is a scan: reading every
score once and comparing it with a constant. "of scan" is the part of it that was reached.

Examples:

  skyband bench slide --quick

  skyband bench slide --quick --json > slide.jsonl

  skyband bench slide --engine sweep --engine mintopk --stream walk
"""


def slide(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases and rows: less than a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
    engine: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this engine (or sb.run); repeatable.")
    ] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only lognormal, increasing, decreasing, walk or trades; repeatable."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the real trades (else SKYBAND_DATA).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up streams.")] = 0,
) -> None:
    """Run the slide suite and print what it found."""
    from skyband_lab.bench import door
    from skyband_lab.bench.slide import FULL, QUICK, able, cases, checked, run
    from skyband_lab.bench.workloads import TRADES, find

    engines = checked(engine or [], [*able(), door.NAME], "engine")
    named = [name for name in engines if name != door.NAME]
    todo = [] if engines and not named else cases(quick=quick, engines=named, streams=stream or [])
    if not stream and find(data) is None:
        todo = [case for case in todo if case.stream != "trades"]
        print(f"skipped: trades ({TRADES} not found; see --data)", file=sys.stderr)
    whole = not stream and (not engines or door.NAME in engines)

    def results() -> Iterator[Result]:
        yield from run(todo, QUICK if quick else FULL, seed=seed, data=data)
        if whole:
            yield from door.measure_all(quick=quick, seed=seed)

    found = []
    for result in shown(results(), len(todo) + whole * len(door.CASES)):
        found.append(result)
        if as_json:
            print(json.dumps(result.as_dict()), flush=True)
    if not as_json:
        print_table(found)
