"""skyband run: a pipeline file on Spark, with a live table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyband.cli._common import stdout_console, stop_event, to_json, to_lines, to_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from rich.console import Console, RenderableType

    from skyband.cli._monitor import ProgressMonitor
    from skyband.dashboard import Hub
    from skyband.lang import Job

HELP = """Run a pipeline file on Spark: from its source through its queries into its sink.

While it runs, the newest answers and the metrics of the stream are shown. Without a terminal, the answers of every
batch are printed as lines (the newest 200 rows, all columns). Ctrl-C stops it; the next start continues from there.
`skyband init` writes a file to start with.

Examples:

  skyband run pipeline.yaml

  skyband run pipeline.yaml --dry-run

  skyband run pipeline.yaml --explain

  skyband run pipeline.yaml --dashboard

  skyband run pipeline.yaml --json >> leaders.jsonl
"""


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")],
    *,
    explain: Annotated[bool, typer.Option("--explain", help="Explain how it would run, and exit.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, including the source's columns, and exit.")
    ] = False,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Also show the lists in the browser.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the dashboard; 0 takes a free one.")] = 8765,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON line for every batch: its answers and the metrics so far.")
    ] = False,
) -> None:
    """Run a pipeline file."""
    from rich.console import Console

    from skyband.lang import load

    job = load(file)
    if explain:
        from skyband.cli.explain import print_explanations

        print_explanations(job.queries, as_json=as_json)
        return
    from skyband.cli import _pipeline

    console = Console(stderr=True) if as_json else stdout_console()  # for all but the answers
    with contextlib.ExitStack() as stack:
        hub = stack.enter_context(_serve(job, port, console)) if dashboard and not dry_run else None
        console.print(f"starting Spark for {to_text(job.name)} ...", highlight=False, markup=False)
        stop = stack.enter_context(stop_event())
        spark = _pipeline.open_session(job)
        if not dry_run:
            _pipeline.start_workers(spark)
        df = _pipeline.run_queries(spark, job)
        if stop.is_set():
            raise KeyboardInterrupt
        if dry_run:
            _print_columns(df, as_json=as_json)
            return
        query = _pipeline.start_stream(job, df)
        try:
            _show(console, job, _pipeline.follow_progress(query, stop), hub, as_json=as_json)
            failure = None if stop.is_set() else query.exception()
        finally:
            if stop.is_set():
                console.print("stopping ...", style="dim")
            query.stop()
        if failure is not None:
            raise _pipeline.stream_error(str(failure))
    message = f"{to_text(job.name)} has stopped; the next start continues from here."
    console.print(message, style="dim", highlight=False, markup=False)


@contextlib.contextmanager
def _serve(job: Job, port: int, console: Console) -> Iterator[Hub]:
    from skyband.cli._monitor import DashboardServer
    from skyband.dashboard import Hub

    hub = Hub()
    for query in job.queries:
        hub.describe(query.name or job.name, query)
    with DashboardServer(hub, port, console):
        yield hub


def _print_columns(df: DataFrame, *, as_json: bool) -> None:
    if as_json:
        print(to_json({"sound": True, "columns": dict(df.dtypes)}))
        return
    print("the file is valid; the answers have these columns:", *map(to_text, df.columns), sep="\n  ")


def _show(console: Console, job: Job, reports: Iterator[Any], hub: Hub | None, *, as_json: bool) -> None:
    from rich.console import Group
    from rich.live import Live

    from skyband.cli._monitor import ProgressMonitor

    monitor = ProgressMonitor(job.queries)
    if not as_json and console.is_terminal:
        with Live(Group(*_render(monitor, job.name)), console=console, refresh_per_second=4) as live:
            for report in reports:
                feed_hub(hub, job, monitor.read(report), monitor)
                live.update(Group(*_render(monitor, job.name)))
        return
    for report in reports:
        rows = monitor.read(report)
        feed_hub(hub, job, rows, monitor)
        if as_json:
            line = {"name": job.name, "batch": report["batchId"], "answers": rows, **monitor.as_dict()}
            print(to_json(line), flush=True)
        elif rows:
            print(to_text(job.name), *to_lines(rows), monitor.metrics.line(), sep="\n", flush=True)
    if not as_json:
        print(monitor.metrics.line(), flush=True)


def _render(monitor: ProgressMonitor, name: str) -> list[RenderableType]:
    from rich.text import Text

    head = Text.assemble((to_text(name), "bold"), "  ", (monitor.window(), "dim"))
    return [head, monitor.table(), Text(monitor.metrics.line(), style="dim")]


def feed_hub(hub: Hub | None, job: Job, rows: list[dict[str, Any]], monitor: ProgressMonitor) -> None:
    """Send the answers of a batch and the metrics to the dashboard."""
    from skyband.cli._monitor import to_table

    if hub is None:
        return
    for query in job.queries:
        name = query.name or job.name
        found = rows if len(job.queries) == 1 else [row for row in rows if row.get("query") == name]
        if found:
            hub.answers(name, to_table(found))
    hub.progress(monitor.metrics.progress())
