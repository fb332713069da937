"""skyband bench gate."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from skyband_lab.bench.gate import Verdict

HELP = """Say what has become slower or faster, by ratios and not by speeds.

A part of each quick suite is measured in seconds of one core: engines beside a scan of the same rows, and beside
each other. These ratios are compared with the accepted ones; each may move as far as the machine was restless when
it was accepted. What seems to have moved is measured again. Exit code 1: something is slower.

Examples:

  skyband bench gate

  skyband bench gate --accept
"""


def gate(
    *,
    accept: Annotated[bool, typer.Option("--accept", help="Keep what was measured as what is compared with.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every ratio.")] = False,
    against: Annotated[Path | None, typer.Option(help="The accepted ratios (else lab/results/ratios.jsonl).")] = None,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Only cases whose name holds this text.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up streams.")] = 0,
) -> None:
    """Measure the ratios and compare them."""
    from skyband_lab.bench.gate import KEPT, cases, load, measured, save

    path = against or KEPT
    kept = {} if accept else load(path)
    if not kept and not accept:
        print(f"no accepted ratios in {path}: write them with --accept", file=sys.stderr)
    todo = [case for case in cases(seed) if only in case.name]
    found: list[Verdict] = []
    for verdicts in measured(todo, kept):
        found += verdicts
        if as_json:
            for verdict in verdicts:
                line = {**verdict.now._asdict(), "factor": float(f"{verdict.factor:.3g}"), "moved": verdict.word}
                print(json.dumps(line), flush=True)
        elif sys.stderr.isatty():
            print(f"{len(found)} ratios", end="\r", file=sys.stderr, flush=True)
    if not as_json:
        _print(found)
    if accept:
        old = load(path) if only else {}
        save({**old, **{verdict.now.name: verdict.now for verdict in found}}.values(), path)
        print(f"accepted: {path}", file=sys.stderr)
    slower = sum(verdict.word == "SLOWER" for verdict in found)
    if slower:
        print(f"{slower} of {len(found)} ratios are worse than accepted", file=sys.stderr)
        raise typer.Exit(1)


def _print(found: list[Verdict]) -> None:
    from rich.table import Table

    from skyband.cli._common import stdout_console

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("case", "what", "beside"):
        table.add_column(name, no_wrap=True)
    for name in ("accepted", "now", "factor", "allowed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    colors = {"SLOWER": "bold red", "faster": "green", "new": "cyan"}
    before = ""
    for verdict in found:
        now, kept = verdict.now, verdict.kept
        word = f"[{colors[verdict.word]}]{verdict.word}[/]" if verdict.word in colors else verdict.word
        table.add_row(
            now.case if now.case != before else "",
            now.way,
            now.beside,
            f"{kept.value:.3g}" if kept else "",
            f"{now.value:.3g}",
            f"{verdict.factor:.2f}" if kept else "",
            f"{kept.tolerance:.2f}" if kept else "",
            word,
        )
        before = now.case
    stdout_console().print(table)
