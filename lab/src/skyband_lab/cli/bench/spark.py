"""skyband bench spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from skyband_lab.cli.bench._shown import short

HELP = """Measure a stream of files on local Spark: skyband beside what plain Spark offers.

"no top-k" only computes the score; "max_by" is window() with max_by(row, score, k); "two-level" does that for panes
first, then for windows of panes. What counts is CPU a row, of JVM and Python together. Of a case that is run several
times, in turn with its rivals, the table shows the run with the least CPU. The whole suite takes about 20 minutes.

Examples:

  skyband bench spark --quick

  skyband bench spark --out lab/results/spark.jsonl
"""


def spark(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rows: some minutes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write a JSON line for every run into this file.")] = None,
) -> None:
    """Run the Spark suite and print what it found."""
    from rich.table import Table

    from skyband.cli._common import stdout_console
    from skyband_lab.bench.spark import cases, run, settled

    found, todo = [], cases(quick=quick)
    if out is not None:
        out.write_text("")
    for result in run(todo):
        found.append(result)
        line = json.dumps(result.as_dict())
        if out is not None:
            with out.open("a") as file:
                file.write(line + "\n")
        if as_json:
            print(line, flush=True)
        else:
            said = f"{len(found)}/{len(todo)}  {result.case}  {result.way}: {result.micros_per_row:.2f} us a row"
            print(said, file=sys.stderr, flush=True)
    if as_json:
        return
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("case", "way"):
        table.add_column(name, no_wrap=True)
    for name in ("CPU us/row", "of ours", "rows/CPU s", "rows/s", "ms a batch", "state", "rows"):
        table.add_column(name, justify="right", no_wrap=True)
    shown = settled(found)
    ours = {r.case: r.micros_per_row for r in shown if r.way == "skyband"}
    for r in shown:
        part = f"{r.micros_per_row / ours[r.case]:.2f}" if r.case in ours else ""
        figures = (
            f"{r.micros_per_row:.2f}",
            part,
            short(r.rows / r.cpu_seconds),
            short(r.rows / r.seconds),
            f"{r.batch_ms:.0f}",
            short(r.state_bytes),
        )
        table.add_row(r.case, r.way, *figures, short(r.rows))
    stdout_console().print(table)
