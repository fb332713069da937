"""skyband reproduce."""

from __future__ import annotations

import json
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skyband_lab.reproduce.grid import Figure, Run

_LATE = 20  # runs by which the time left is guessed
HELP = """Run the experiments of the papers again: mintopk, mtops, topkw, views, acquatop, or all.

Each run appends a line to the results of its figure. A run whose line is there is skipped, so an interrupted command
continues where it stopped. Then every claim of the paper gets a verdict, computed from the results.

Examples:

  skyband reproduce mintopk 7 --quick

  skyband reproduce topkw "Table V"

  skyband reproduce all --quick --pages docs/evidence
"""

app = typer.Typer(add_completion=False)


@app.command("reproduce", help=HELP)
def reproduce(
    paper: Annotated[str, typer.Argument(help="A paper by its short name, or all.", show_default=False)],
    figure: Annotated[str | None, typer.Argument(help='A figure such as 7, or "table v".', show_default=False)] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Small grids: all papers in some minutes.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Repeat runs whose results are there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every run and verdict.")] = False,
    results: Annotated[
        Path | None, typer.Option(help="Folder of the results, a file per figure.", show_default=False)
    ] = None,
    pages: Annotated[
        Path | None, typer.Option(help="Write the pages of all papers here, from all results.", show_default=False)
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the real data (else SKYBAND_DATA).")] = None,
    run: Annotated[bool, typer.Option("--run/--no-run", help="With --no-run only what is there is judged.")] = True,
) -> None:
    """Do the runs that are missing, then tell the verdicts."""
    from skyband_lab.reproduce import chosen
    from skyband_lab.reproduce.grid import FULL, QUICK
    from skyband_lab.reproduce.runs import FOLDER

    folder = results or FOLDER
    figures = chosen(paper, figure)
    lacks: dict[str, Exception] = {}
    if run:
        for record in _done(figures, QUICK if quick else FULL, folder, lacks, again=again, data=data):
            if as_json:
                print(json.dumps(record), flush=True)
    _tell(figures, folder, as_json=as_json)
    if pages is not None:
        from skyband_lab.reproduce.pages import written

        changed = written(folder, pages)
        print(f"{len(changed)} pages and pictures written to {pages}", file=sys.stderr)
    for lack in lacks.values():  # the first of them; the others were told above
        raise lack


def _done(
    figures: list[Figure], mode: str, folder: Path, lacks: dict[str, Exception], *, again: bool, data: Path | None
) -> Iterator[dict[str, Any]]:
    """The records of the runs as they end, with the time left told on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from skyband_lab.reproduce.runs import run_all

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    left: list[Run] = []

    def watch(todo: list[Run], there: list[Run]) -> None:
        left.extend(todo)
        if there:
            console.print(f"{len(there)} of {len(there) + len(todo)} runs are there already", highlight=False)

    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("getting ready", total=None)
        late: deque[float] = deque(maxlen=_LATE)
        runs = run_all(figures, mode, folder, again=again, data=data, watch=watch, lacks=lacks)
        for count, (run, record) in enumerate(runs, 1):
            late.append(record["seconds"])
            bar.update(task, total=len(left), completed=count, description=str(run))
            if not console.is_terminal:
                more = sum(late) / len(late) * (len(left) - count)
                print(f"{count}/{len(left)} {run}: {record['seconds']:.1f} s, {more:.0f} s left", file=sys.stderr)
            yield record
    for said in lacks:
        console.print(f"left out: {said}", highlight=False)


def _tell(figures: list[Figure], folder: Path, *, as_json: bool) -> None:
    from skyband.cli._common import stdout_console
    from skyband_lab.reproduce.verdicts import CONFIRMED, REFUTED, verdicts

    console = stdout_console()
    for one in figures:
        said = verdicts(one, folder)
        if as_json:
            for verdict in said:
                print(json.dumps(verdict._asdict()))
            continue
        console.print(f"[bold]{one.paper}, {one.label}: {one.title}[/]", highlight=False)
        for verdict in said:
            colour = {CONFIRMED: "green", REFUTED: "red"}.get(verdict.verdict, "yellow")
            why = f" ({verdict.because})" if verdict.because else ""
            console.print(
                f"  [{colour}]{verdict.verdict:9}[/] {verdict.says}: {verdict.measured}{why}",
                highlight=False,
                soft_wrap=True,
            )
