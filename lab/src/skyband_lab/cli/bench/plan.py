"""skyband bench plan."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from skyband_lab.bench.plan import Line

HELP = """Measure every exact engine at many settings, and how far the chosen one is from the best of each.

Settings are k, window, slide (also after every row) and the order of the rows. An engine is chosen by the query alone,
before the first row is seen. Seconds are those of one core.

Examples:

  skyband bench plan --quick

  skyband bench plan --json > plan.jsonl

  skyband bench plan --kept
"""


def plan(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A few settings of each kind: a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every engine and setting.")] = False,
    kept: Annotated[bool, typer.Option("--kept", help="Show the run in lab/results; measure nothing.")] = False,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Only settings whose name holds this text.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up streams.")] = 0,
) -> None:
    """Run the plan suite and print what it found."""
    from skyband_lab.bench.plan import load, run, settings

    todo = [setting for setting in settings(quick=quick) if only in str(setting)]
    found: list[Line] = []
    for line in (one for one in load() if one.setting in todo) if kept else run(todo, seed=seed):
        found.append(line)
        if as_json:
            print(json.dumps(line.as_dict()), flush=True)
        elif sys.stderr.isatty() and not kept:
            done = len({one.setting for one in found})
            print(f"{done} of {len(todo)} settings ", end="\r", file=sys.stderr, flush=True)
    if not as_json and found:
        _print(found)


def _print(found: list[Line]) -> None:
    from rich.table import Table

    from skyband.cli._common import stdout_console
    from skyband_lab.bench.plan import ENOUGH, judged, regrets

    console = stdout_console()
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("setting", "best"):
        table.add_column(name, no_wrap=True)
    table.add_column("ns a row", justify="right")
    table.add_column("chosen")
    table.add_column("times slower", justify="right")
    rows = judged(found)
    for row in rows:
        behind = f"{row.behind:.2f}" if row.behind <= ENOUGH else f"[bold red]{row.behind:.2f}[/]"
        table.add_row(str(row.setting), row.best, f"{row.cost:.3g}", row.chosen, behind)
    console.print(table)
    console.print("\nmost times slower than the best, over all settings:")
    for (kind, engine), worst in sorted(regrets(found).items(), key=lambda item: (item[0][0], item[1])):
        console.print(f"  {kind:9} {engine:10} {worst:.3g}")
    far = sum(row.behind > ENOUGH for row in rows)
    console.print(f"\nthe chosen engine is within {ENOUGH} times the best in {len(rows) - far} of {len(rows)} settings")
