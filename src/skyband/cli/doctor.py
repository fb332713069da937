"""skyband doctor: what is wrong, and what to do about it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from skyband.cli._exit import ENVIRONMENT

if TYPE_CHECKING:
    from skyband.cli._doctor import Finding

HELP = """Look at this machine, a pipeline file and a checkpoint, and say what to do about each finding.

Java, Spark, libraries, memory, disk; with a file also its variables, its source and its checkpoint. Nothing is
started but `java -version`, nothing is contacted, and no variable's value is shown. The exit code is 5 if something
is wrong.

Examples:

  skyband doctor

  skyband doctor pipeline.yaml

  skyband doctor --checkpoint state/trades --json
"""

_MARKS = {"ok": ("ok", "green"), "care": ("care", "yellow"), "wrong": ("WRONG", "bold red")}


def doctor(
    *,
    file: Annotated[str | None, typer.Argument(help="A pipeline file to look at too.")] = None,
    checkpoint: Annotated[str | None, typer.Option(help="A checkpoint to look at too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of the findings.")] = False,
) -> None:
    """Print the findings."""
    from skyband.cli import _doctor

    findings = list(_doctor.machine())
    if file is not None:
        from skyband.lang import load

        findings += _doctor.pipeline(load(file))
    if checkpoint is not None:
        findings += _doctor.checkpoint(checkpoint)
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings]))
    else:
        _print(findings)
    if _doctor.worst(findings) == _doctor.WRONG:
        raise typer.Exit(ENVIRONMENT)


def _print(findings: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from skyband.cli._plain import console

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in findings:
        word, style = _MARKS[finding.state]
        said = Text(finding.found)
        if finding.do:
            said.append(f"\n→ {finding.do}", style="bold")
        table.add_row(Text(word, style=style), finding.what, said)
    console().print(table)
