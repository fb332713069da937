"""skyband bench peers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skyband_lab.cli.bench._shown import short

if TYPE_CHECKING:
    from skyband_lab.bench.peers import Line

HELP = """Do one task with skyband and with what one would take instead.

Each peer runs in an environment of its own, made where it is missing (in .venv/peers, or where SKYBAND_PEERS says), and
its answers are compared by their digests. How each is asked stands in lab/peers. Rows a CPU second is the
figure to compare; start-up and a first small run are left out of it.

Examples:

  skyband bench peers --quick

  skyband bench peers --peer duckdb --peer skyband

  skyband bench peers --json > peers.jsonl
"""


def peers(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Two tasks over fewer rows: some minutes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every run as it ends.")] = False,
    peer: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this peer; repeatable.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw the growth with win/slide to this file.")] = None,
    kept: Annotated[bool, typer.Option("--kept", help="Show the run in lab/results; measure nothing.")] = False,
    patience: Annotated[float, typer.Option(help="Seconds after which a peer is ended.")] = 240.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the rows.")] = 7,
) -> None:
    """Run the peers and print what they did."""
    from skyband_lab.bench import peers as suite

    work = suite.todo(peer or [], quick=quick)
    found: list[Line] = []
    for line in suite.load() if kept else suite.run(work, patience=patience, seed=seed):
        found.append(line)
        if as_json:
            print(json.dumps(line.as_dict()), flush=True)
        elif not kept:
            did = f"{short(line.per_cpu_second)} rows/CPU-s" if line.per_cpu_second else line.cannot
            print(f"{len(found)}/{len(work)}  {line.task}  {line.peer} {line.way}: {did}", file=sys.stderr, flush=True)
    if not as_json:
        _print(found)
    if plot:
        suite.plot(found, plot)
    wrong = suite.disagreeing(found)
    for task, rows in wrong:
        print(f"the peers do not agree: {task}, {rows} rows", file=sys.stderr)
    if wrong:
        raise typer.Exit(1)


def _print(found: list[Line]) -> None:
    from rich.table import Table

    from skyband.cli._common import stdout_console

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("task", "peer", "way"):
        table.add_column(name, no_wrap=True)
    for name in ("rows", "rows/s", "rows/CPU-s", "CPU s", "MB", "answers"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("digest")
    before = ""
    for line in found:
        first = [line.task if line.task != before else "", line.peer, line.way, short(line.rows)]
        before = line.task
        if line.seconds is None or line.per_cpu_second is None:
            table.add_row(*first, "", "", "", str(line.peak_mb or ""), "", line.cannot)
            continue
        figures = (short(line.rows / line.seconds), short(line.per_cpu_second), f"{line.cpu_seconds:.2f}")
        table.add_row(*first, *figures, str(line.peak_mb), str(line.answers), line.digest)
    stdout_console().print(table)
