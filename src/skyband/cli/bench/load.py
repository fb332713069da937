"""skyband bench load."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from skyband.cli.bench._shown import short

HELP = """Find the highest rate that is held without falling behind, in process and on local Spark.

In process, batches arrive by the clock through a short queue: at nine tenths of the peak the last one must be done in
time; at twice the peak the source has to wait, and no row may be lost. On Spark all files are there from the start, a
batch takes one of them, and the others wait on disk.

Examples:

  skyband bench load --quick

  skyband bench load --json > load.jsonl
"""


def load(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the rows.")] = False,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="In process only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
) -> None:
    """Run the load suite and print what it found."""
    from rich.table import Table

    from skyband.bench.load import cases, run
    from skyband.cli._plain import console

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("case", no_wrap=True)
    for name in ("peak rows/s", "held rows/s", "lag s", "offered", "taken of it", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    for r in run(cases(quick=quick, spark=not no_spark)):
        if as_json:
            print(json.dumps(r.as_dict()), flush=True)
        figures = (short(r.peak_rows_per_s), short(r.held_rows_per_s), f"{r.lag_seconds:.2f}", f"{r.beyond:.0f}x peak")
        table.add_row(r.case, *figures, f"{r.taken:.0%}", str(r.lost))
    if not as_json:
        console().print(table)
