"""skyband bench spark."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from skyband.cli.bench._shown import short

if TYPE_CHECKING:
    pass

HELP = """Measure a stream of files on local Spark: skyband beside what plain Spark offers.

"no top-k" only computes the score; "max_by" is window() with max_by(row, score, k); "two-level" does that for panes
first, then for windows of panes. What counts is CPU a row, of JVM and Python together.

Examples:

  skyband bench spark --quick

  skyband bench spark --json > spark.jsonl
"""


def spark(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rows: some minutes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
) -> None:
    """Run the Spark suite and print what it found."""
    from rich.table import Table

    from skyband.bench.spark import cases, run
    from skyband.cli._plain import console

    found = []
    for result in run(cases(quick=quick)):
        found.append(result)
        if as_json:
            print(json.dumps(result.as_dict()), flush=True)
        else:
            print(f"{result.case}  {result.way}: {result.micros_per_row:.2f} us a row", file=sys.stderr, flush=True)
    if as_json:
        return
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("case", "way"):
        table.add_column(name, no_wrap=True)
    for name in ("CPU us/row", "of ours", "rows/s", "ms a batch", "state", "rows"):
        table.add_column(name, justify="right", no_wrap=True)
    ours = {r.case: r.micros_per_row for r in found if r.way == "skyband"}
    for r in found:
        part = f"{r.micros_per_row / ours[r.case]:.2f}" if r.case in ours else ""
        figures = (
            f"{r.micros_per_row:.2f}",
            part,
            short(r.rows / r.seconds),
            f"{r.batch_ms:.0f}",
            short(r.state_bytes),
        )
        table.add_row(r.case, r.way, *figures, short(r.rows))
    console().print(table)
