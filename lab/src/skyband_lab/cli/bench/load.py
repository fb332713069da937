"""skyband bench load."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from skyband_lab.cli.bench._shown import short

HELP = """Find the highest rate that is held without falling behind, in process and on local Spark.

The peak is how fast rows are taken that are all there. Then batches come by the clock, in process through a short
queue, on Spark as files: held is the highest rate, from the peak down, at which the last batch was done before the
next would have come. At twice the peak the source, or the files on disk, have to wait, and no row may be lost.

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

    from skyband.cli._common import stdout_console
    from skyband_lab.bench.load import cases, run

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("case", no_wrap=True)
    for name in ("peak rows/s", "held rows/s", "lag s", "offered rows/s", "taken rows/s", "waited s", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    for r in run(cases(quick=quick, spark=not no_spark)):
        if as_json:
            print(json.dumps(r.as_dict()), flush=True)
        held = short(r.peak_rows_per_s), short(r.held_rows_per_s), f"{r.lag_seconds:.2f}"
        beyond = short(r.offered_rows_per_s), short(r.taken_rows_per_s), f"{r.waited_seconds:.2f}"
        table.add_row(r.case, *held, *beyond, str(r.lost))
    if not as_json:
        stdout_console().print(table)
