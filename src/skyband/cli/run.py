"""skyband run: a pipeline file on Spark, with a live table."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyband.cli._plain import as_json as json_line
from skyband.cli._plain import lines, text

if TYPE_CHECKING:
    import threading

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console, RenderableType

    from skyband.lang import Job

HELP = """Run a pipeline file: its source through its queries into its sink, on Spark.

While it runs, the newest answers and the figures of the stream are shown; where the output is no terminal, the answers
of every batch as lines that a log can hold (its newest 200 rows, all columns). Ctrl-C stops it; the next start goes on
where it ended. `skyband init` writes a file to begin with.

Examples:

  skyband run pipeline.yaml

  skyband run pipeline.yaml --dry-run

  skyband run pipeline.yaml --explain

  skyband run pipeline.yaml --dashboard

  skyband run pipeline.yaml --json >> leaders.jsonl
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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON line for every batch: its answers and the figures so far.")
    ] = False,
) -> None:
    """Run a pipeline file."""
    from rich.console import Console

    from skyband.lang import load

    job = load(file)
    if explain:
        _explain(job, as_json=as_json)
        return
    from skyband.cli import _job
    from skyband.cli._plain import console as whole
    from skyband.cli._stop import wished

    console = Console(stderr=True) if as_json else whole()  # of what is not an answer
    watch = _watched(job, console, port) if dashboard and not dry_run else None
    console.print(f"starting Spark for {text(job.name)} ...", highlight=False, markup=False)
    with contextlib.ExitStack() as after:
        if watch is not None:
            after.enter_context(watch)
        stop = after.enter_context(wished())
        spark = _job.opened(job)
        if not dry_run:
            _job.warm(spark)
        df = _job.answers(spark, job)
        if stop.is_set():
            raise KeyboardInterrupt
        if dry_run:
            _columns(df, as_json=as_json)
            return
        query = _job.started(job, df)
        try:
            _show(console, job, looks(query, stop), watch, as_json=as_json)
            failure = None if stop.is_set() else query.exception()
        finally:
            if stop.is_set():
                console.print("stopping ...", style="dim")
            query.stop()
        if failure is not None:
            raise failed(str(failure))
    said = f"{text(job.name)} has stopped; the next start goes on from here."
    console.print(said, style="dim", highlight=False, markup=False)


def _explain(job: Job, *, as_json: bool) -> None:
    from skyband.cli.explain import told as explained

    explained(list(job.queries), as_json=as_json)


def _columns(df: DataFrame, *, as_json: bool) -> None:
    """What the answers would have."""
    if as_json:
        print(json_line({"sound": True, "columns": dict(df.dtypes)}))
        return
    print("the file is sound; the answers would have these columns:", *map(text, df.columns), sep="\n  ")


def _watched(job: Job, console: Console, port: int) -> Any:
    from skyband.cli._watch import Boards

    watch = Boards(job.queries, port, [q.name or job.name for q in job.queries])
    console.print(f"dashboard: {watch.dashboard.url}", style="bold", highlight=False)
    return watch


def failed(failure: str) -> Exception:
    r"""Of what Spark says, the error of ours that says why; else its first line.

    Examples
    --------
    >>> failed("[STREAM_FAILED] ...\n  File x\nskyband.errors.SnapshotError: k was '3' and is '4'.\nSQLSTATE: XXKST")
    SnapshotError("k was '3' and is '4'.")
    """
    from skyband import errors

    lines = [line.strip() for line in failure.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("skyband.errors.")]
    if not ours:
        return RuntimeError(lines[0] if lines else "the stream has failed")
    name, _, said = ours[-1].removeprefix("skyband.errors.").partition(": ")
    kind = getattr(errors, name, errors.SourceError)
    error: Exception = kind(said)
    return error


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


def _show(console: Console, job: Job, reports: Iterator[Any], watch: Any, *, as_json: bool) -> None:
    from rich.live import Live

    from skyband.cli._figures import Figures

    figures = Figures(job.queries)
    if as_json or not console.is_terminal:
        for report in reports:
            rows = figures.take(report)
            if watch is not None:
                watch.show(rows, figures)
            if as_json:
                line = {"name": job.name, "batch": report["batchId"], "answers": rows, **figures.as_dict()}
                print(json_line(line), flush=True)
            elif rows:
                print(text(job.name), *lines(rows), figures.line(), sep="\n", flush=True)
        if not as_json:
            print(figures.line(), flush=True)
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

    head = Text.assemble((text(name), "bold"), "  ", (figures.window(), "dim"))
    return [head, figures.table(), Text(figures.line(), style="dim")]
