"""skyband bench: the suites, as a table or as JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from skyband.bench.result import Result

app = typer.Typer(help="Measure the engines on this machine.", no_args_is_help=True)

HELP = """Measure every engine over windows that slide, at the settings of the MinTopk paper.

One thread; the clock starts when the first window is full. The limit of all of them is a scan: reading every
score once and comparing it with a constant. "of scan" is the part of it that was reached.

Examples:

  skyband bench slide --quick

  skyband bench slide --quick --json > slide.jsonl

  skyband bench slide --engine sweep --engine mintopk --stream walk
"""


@app.callback()
def _bench() -> None:
    """Keep `slide` a command of its own while it is the only suite."""


@app.command("slide", help=HELP)
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
    data: Annotated[
        Path | None, typer.Option(help="Folder of the real trades (else SKYBAND_DATA or ../shared/data).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up streams.")] = 0,
) -> None:
    """Run the slide suite and print what it found."""
    from skyband.bench import door
    from skyband.bench.slide import FULL, QUICK, able, cases, checked, run
    from skyband.bench.workloads import TRADES, find

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
    for result in _shown(results(), len(todo) + whole * len(door.CASES)):
        found.append(result)
        if as_json:
            print(json.dumps(result.as_dict()), flush=True)
    if not as_json:
        _print_table(found)


VIEW = """Measure what an update of a top-k view costs, against kmax, for three workloads and several databases.

k is 100. The cost of an update is its CPU time and its part of the refills, which are priced as measured on each
database; "against best" compares it with the fixed kmax that would have been best in hindsight.

Examples:

  skyband bench view --quick

  skyband bench view --quick --json > view.jsonl
"""


@app.command("view", help=VIEW)
def view(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A table of 100,000 rows instead of a million.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up updates.")] = 0,
) -> None:
    """Run the view suite and print what it found."""
    from skyband.bench.view import run

    before = ""
    for cost in run(quick=quick, seed=seed):
        if as_json:
            print(json.dumps(cost.as_dict()), flush=True)
            continue
        title = f"{cost.case}, {cost.base} (a refill costs {cost.refill_ms:.3g} ms)"
        if title != before:
            print(f"\n{title}\n{'kmax':>18}  {'updates':>8}  {'refills':>8}  {'cost per update':>15}  against best")
            before = title
        print(
            f"{cost.kmax:>18}  {short(cost.updates):>8}  {cost.refills:>8,}  {cost.cost_ns:>12,.1f} ns  "
            f"{cost.against_best:>12,.2f}",
            flush=True,
        )


def _shown(results: Iterator[Result], total: int) -> Iterator[Result]:
    """Pass results through, with a bar and the time left where there is a terminal to see them."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield from results
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("getting ready", total=total)
        for result in results:
            last = f"{result.engine} {short(result.rows_per_s)} rows/s  {result.case}"
            bar.update(task, advance=1, description=last)
            yield result


def _print_table(results: list[Result]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=130)  # a pipe has no width to fit into
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("case", no_wrap=True)
    table.add_column("engine", no_wrap=True)
    for name in ("rows/s", "of scan", "candidates", "bytes", "rows out", "rows", "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    best = {r.case: max(o.rows_per_s for o in results if o.case == r.case) for r in results}
    before = ""
    for r in results:
        fastest = "bold green" if r.rows_per_s == best[r.case] else ""
        row: list[Any] = [
            r.case if r.case != before else "",
            r.engine,
            f"[{fastest}]{short(r.rows_per_s)}[/]" if fastest else short(r.rows_per_s),
            f"{r.scan_ratio:.2%}",
            f"{r.candidates_peak:,}",
            short(r.candidate_bytes),
            short(r.output_rows),
            short(r.rows) + ("" if r.filled else "*"),
            f"{r.seconds:.3f}",
        ]
        table.add_row(*row)
        before = r.case
    console.print(table)
    if not all(r.filled for r in results):
        console.print("* from a window that was not full yet (sb.run: from the first row of the file)")


def short(number: float) -> str:
    """A count in at most three digits and a letter.

    Examples
    --------
    >>> short(950), short(83_210_000), short(1_040_000_000)
    ('950', '83.2 M', '1.04 G')
    """
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " K")):
        if number >= 0.9995 * size:  # 999,999 is 1 M, not 1000 K
            return f"{number / size:.3g}{letter}"
    return f"{number:.3g}"
