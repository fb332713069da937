"""skyband bench: the suites, as a table or as JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
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


DASHBOARD = """Measure the dashboard in a real browser, with many queries behind it that answer five times a second.

The server should take less than 5 % of one core, and no task of the page more than 50 ms of processor time. Frames
are also given by the clock, which other programs on the machine disturb.

Examples:

  skyband bench dashboard

  skyband bench dashboard --queries 100 --seconds 5 --json
"""


@app.command("dashboard", help=DASHBOARD)
def dashboard(
    *,
    queries: Annotated[int, typer.Option(min=1, help="How many queries are behind it.")] = 1000,
    seconds: Annotated[float, typer.Option(min=1.0, help="How long each view is watched.")] = 10.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every view.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up answers.")] = 0,
) -> None:
    """Run the dashboard suite and print what it found."""
    from skyband.bench.dashboard import measure_all

    for load in measure_all(queries=queries, seconds=seconds, seed=seed):
        if as_json:
            print(json.dumps(load.as_dict()), flush=True)
        else:
            print(
                f"{load.view:6} {load.fed:9} {load.boards:3} boards at {load.updates:.1f} updates/s  "
                f"server {load.server:.1%} + hub {load.feeding:.1%} of a core  "
                f"longest task {load.longest_task:.1f} ms, frame {load.longest_frame:.0f} ms "
                f"({load.frames_over} over 50 ms)  {'good' if load.good else 'NOT GOOD'}",
                flush=True,
            )


KNN = """Measure many k-NN queries over one stream of points, at the settings of the top-k/w paper.

400 queries, windows of 40,000 rows, k 9, two dimensions, and around that; with and without the grid. CPU time of one
thread; the clock starts when the first window is full. Engines alone are run once a query, without a grid.

Examples:

  skyband bench knn --quick

  skyband bench knn --json > knn.jsonl

  skyband bench knn --way ours --way cpm --points real
"""


@app.command("knn", help=KNN)
def knn(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases, a tenth of the rows: about a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
    way: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this way; repeatable.")] = None,
    points: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only uniform, clustered, shuffled or real; repeatable.")
    ] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows after the first window (default a million).")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the real readings (else SKYBAND_DATA or ../shared/data).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of points and targets.")] = 0,
) -> None:
    """Run the k-NN suite and print what it found."""
    from skyband.bench.knn import cases, run
    from skyband.bench.points import READINGS, find

    todo = cases(quick=quick, ways=way or [], points=points or [])
    if not points and find(data) is None:
        todo = [case for case in todo if case.points not in ("real", "shuffled")]
        print(f"skipped: real ({READINGS} not found; see --data)", file=sys.stderr)
    for line in run(todo, rows or (100_000 if quick else 1_000_000), seed=seed, data=data):
        if as_json:
            print(json.dumps(line.as_dict()), flush=True)
        else:
            told = f"{short(line.rows_per_s):>8} rows/s {line.cpu_seconds:9.3f} s  met {line.met:8.2f}"
            kept = f"searches {line.searches:7}  list {line.references:7.1f}"
            print(f"{line.case:48} {line.way:28} {told}  {kept}", flush=True)


ARRIVAL = """Measure every engine after every row, at the settings of the top-k/w paper.

One query: the last 40,000 rows, each row told once when it first is among the k best. Seconds are those of one
core, after the first window is full. "refs" and "objects" are what is kept on average (figure 12 of the paper).

Examples:

  skyband bench arrival --quick

  skyband bench arrival --quick --json > arrival.jsonl

  skyband bench arrival --engine sweep --engine probabilistic --stream walk --k 81
"""


@app.command("arrival", help=ARRIVAL)
def arrival(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer cases and rows: about a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
    engine: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this engine; repeatable.")] = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only random, walk, increasing, decreasing or sensorscope; repeatable."),
    ] = None,
    k: Annotated[list[int] | None, typer.Option(min=1, help="Only this k; repeatable.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the real measurements (else SKYBAND_DATA or ../shared/data).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up streams.")] = 0,
) -> None:
    """Run the arrival suite and print what it found."""
    from skyband.bench.arrival import FULL, QUICK, cases, run, verdicts
    from skyband.bench.workloads import SENSORS, find

    todo = cases(quick=quick, engines=engine or [], streams=stream or [], ks=k or [])
    if not stream and find(data, SENSORS) is None:
        todo = [case for case in todo if case.stream != "sensorscope"]
        print(f"skipped: sensorscope ({SENSORS} not found; see --data)", file=sys.stderr)
    found: list[Result] = []
    for result in _shown(run(todo, QUICK if quick else FULL, seed=seed, data=data), len(todo)):
        found.append(result)
        if as_json:
            print(json.dumps(result.as_dict()), flush=True)
    if not as_json:
        _print_table(found, {"references": "refs", "objects": "objects"})
        for verdict in verdicts(found):
            print(verdict)


JOIN = """Compare the refresh policies of joins over the grid of the AcquaTop paper, and time them.

Examples:

  skyband bench join --quick

  skyband bench join --experiment 1 --plots pictures --json > join.jsonl
"""


@app.command("join", help=JOIN)
def join(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A few cases of each experiment.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every policy and case.")] = False,
    experiment: Annotated[list[int] | None, typer.Option(help="Only this experiment, 1 to 4; repeatable.")] = None,
    data: Annotated[Path, typer.Option(help="Folder of the AcquaTop data.")] = Path("../shared/data/acquatop"),
    plots: Annotated[Path | None, typer.Option(help="Folder for the pictures of figures 12 to 15.")] = None,
) -> None:
    """Run the join suite and print what it found."""
    from skyband.bench import join as suite

    lines: list[dict[str, Any]] = []

    def told(line: dict[str, Any]) -> None:
        lines.append(line)
        if as_json:
            print(json.dumps(line), flush=True)
        else:
            print("  ".join(f"{name}={value}" for name, value in line.items() if name != "suite"), flush=True)

    for line in suite.speed(200_000 if quick else 2_000_000):
        told(line)
    told(suite.deadline(3 if quick else 10))
    todo = suite.cases(quick=quick, experiments=tuple(experiment or (1, 2, 3, 4)))
    if not data.is_dir():
        print(f"skipped: the paper's grid ({data.name} not found; see --data)", file=sys.stderr)
        todo = []
    for case in todo:
        for line in suite.measure(case, data):
            told(line)
    if plots is not None and todo:
        from skyband.bench.plots import curves

        plots.mkdir(parents=True, exist_ok=True)
        for number, over in suite.OVER.items():
            for budget in (7, 15) if number > 2 else (None,):
                chosen = [
                    line
                    for line in lines
                    if line.get("experiment") == number
                    and line["seed"] is not None
                    and budget in (None, line["budget"])
                ]
                if chosen:
                    suffix = "" if budget is None else f"-budget-{budget}"
                    curves(chosen, over, plots / f"figure-{11 + number}{suffix}.svg")


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


def _print_table(results: list[Result], more: Mapping[str, str] = MappingProxyType({})) -> None:
    """One line a result; `more` names further fields of it and their columns."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=130)  # a pipe has no width to fit into
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("case", no_wrap=True)
    table.add_column("engine", no_wrap=True)
    for name in ("rows/s", "of scan", "candidates", "bytes", "rows out", "rows", "seconds", *more.values()):
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
            *(short(getattr(r, field)) for field in more),
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


SPARK_HELP = """Measure a stream of files on local Spark: skyband beside what plain Spark offers.

"no top-k" only computes the score; "max_by" is window() with max_by(row, score, k); "two-level" does that for panes
first, then for windows of panes. What counts is CPU a row, of JVM and Python together.

Examples:

  skyband bench spark --quick

  skyband bench spark --json > spark.jsonl
"""


@app.command("spark", help=SPARK_HELP)
def spark(
    *,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rows: some minutes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every case as it ends.")] = False,
) -> None:
    """Run the Spark suite and print what it found."""
    from rich.console import Console
    from rich.table import Table

    from skyband.bench.spark import cases, run

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
    Console(width=None if sys.stdout.isatty() else 130).print(table)
