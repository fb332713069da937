"""skyband run: a pipeline file on Spark, with a live table."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import threading

    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console, RenderableType

    from skyband.lang import Job

HELP = """Run a pipeline file: its source through its queries into its sink, on Spark.

While it runs, the newest answers and the figures of the stream are shown. Ctrl-C stops it; the next start goes on where
it ended. `skyband init` writes a file to begin with.

Examples:

  skyband run pipeline.yaml

  skyband run pipeline.yaml --dry-run

  skyband run pipeline.yaml --explain

  skyband run pipeline.yaml --dashboard
"""

_LOOK = 0.25  # seconds between two looks at the stream


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")],
    *,
    explain: Annotated[bool, typer.Option("--explain", help="Say how it would be done, and end.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, the source's columns too, and end.")
    ] = False,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Also show the boards in the browser.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the dashboard; 0 takes a free one.")] = 8765,
) -> None:
    """Run a pipeline file."""
    from rich.console import Console

    from skyband.lang import load

    job = load(file)
    if explain:
        _explain(job)
        return
    from skyband.cli import _job
    from skyband.cli._stop import wished

    console = Console()
    console.print(f"starting Spark for [bold]{job.name}[/] ...", highlight=False)
    spark = _job.opened(job)
    df = _job.answers(spark, job)
    if dry_run:
        console.print("the file is sound; the answers would have these columns:", *df.columns, sep="\n  ")
        return
    watch = _watched(job, console, port) if dashboard else None
    with wished() as stop:
        query = _job.started(job, df)
        try:
            _show(console, job, looks(query, stop), watch)
            failure = None if stop.is_set() else query.exception()
        finally:
            if stop.is_set():
                console.print("stopping ...", style="dim")
            query.stop()
            if watch is not None:
                watch.dashboard.stop()
    if failure is not None:
        raise RuntimeError(told(str(failure)))
    console.print(f"{job.name} has stopped; the next start goes on from here.", style="dim", highlight=False)


def _explain(job: Job) -> None:
    from skyband.api import explain

    for query in job.queries:
        print(explain(query))


def _watched(job: Job, console: Console, port: int) -> Any:
    from skyband.cli._watch import Boards

    watch = Boards(job.queries, port, [q.name or job.name for q in job.queries])
    console.print(f"dashboard: {watch.dashboard.url}", style="bold", highlight=False)
    return watch


def told(failure: str) -> str:
    r"""Of what Spark says, the line that says why.

    Examples
    --------
    >>> told("[STREAM_FAILED] ...\n  File x\nskyband.errors.SnapshotError: k was '3' and is '4'.\nSQLSTATE: XXKST")
    "k was '3' and is '4'."
    """
    lines = [line.strip() for line in failure.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("skyband.errors.")]
    return ours[-1].split(": ", 1)[1] if ours else (lines[0] if lines else "the stream has failed")


def looks(query: StreamingQuery, stop: threading.Event, till: float = math.inf) -> Iterator[Any]:
    """The progress of each batch, once, until the stream ends, somebody wishes so, or the time has come."""
    seen = -1
    while time.monotonic() < till and not stop.is_set():
        active = query.isActive
        for report in query.recentProgress:
            if report["batchId"] > seen:
                seen = report["batchId"]
                yield report
        if not active:
            return
        stop.wait(_LOOK)


def _show(console: Console, job: Job, reports: Iterator[Any], watch: Any) -> None:
    from rich.live import Live

    from skyband.cli._figures import Figures

    figures = Figures(job.queries)
    if not console.is_terminal:
        for report in reports:
            rows = figures.take(report)
            if watch is not None:
                watch.show(rows, figures)
            if rows:
                console.print(*_drawn(figures, job.name))
        console.print(figures.line(), highlight=False)
        return

    def screen() -> RenderableType:
        from rich.console import Group

        return Group(*_drawn(figures, job.name))

    with Live(screen(), console=console, refresh_per_second=4) as live:
        for report in reports:
            rows = figures.take(report)
            if watch is not None:
                watch.show(rows, figures)
            live.update(screen())


def _drawn(figures: Any, name: str) -> list[RenderableType]:
    from rich.text import Text

    return [Text(name, style="bold"), figures.table(), Text(figures.line(), style="dim")]
