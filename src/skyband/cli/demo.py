"""skyband demo: a leaderboard that lives in the terminal."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyband.errors import MissingLibraryError

if TYPE_CHECKING:
    import threading

    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console

    from skyband.cli._board import Board, Counts
    from skyband.cli._watch import Boards, Watch
    from skyband.query import TopK

    Show = Callable[[Console, Iterator[Board], Counts], None]

HELP = """Watch the ten largest trades of the last 20 seconds change, on a local Spark stream.

Made-up trades happen now; Spark reads them as they come, and the board shows who entered and who left. It runs until
Ctrl-C, or for --seconds. With --in-process the trades run through sb.stream instead, without Spark and sixty
times faster than their own clock. Where the output is no terminal, every few windows are printed as plain tables; with
--json every window is one line.

Examples:

  skyband demo

  skyband demo --dashboard

  skyband demo --in-process --seconds 10 --rows-per-second 1000000

  skyband demo --in-process --seed 7 | head -40

  skyband demo --in-process --seconds 5 --json
"""

SIZE, SLIDE, LATE, AHEAD = "5 minutes", "30 seconds", "5 seconds", "10 minutes"
_SPEED = 60  # seconds of event time in a second
_TICK = 0.05  # seconds between two batches
_EVERY = 5  # windows from one printed table to the next
_LATELY = 40  # batches that the rows/s are taken over
_TITLE = "the 10 largest trades (price * volume) of the last {}, every {}"


def demo(
    *,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Stop after this long. Default: at Ctrl-C.")] = None,
    rows_per_second: Annotated[
        int | None, typer.Option(min=20, help="How many trades come in a second. Default: 20,000; in process 200,000.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other trades.")] = 0,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Also show the board in the browser; with --in-process, several.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the dashboard; 0 takes a free one.")] = 8765,
    in_process: Annotated[bool, typer.Option("--in-process", help="Without Spark.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every window.")] = False,
) -> None:
    """Show the boards until Ctrl-C, or until the time is up."""
    from rich.console import Console

    from skyband.cli._board import Counts
    from skyband.cli._plain import console as whole

    console = Console(stderr=True) if as_json else whole()
    counts = Counts(title=_TITLE.format(*((SIZE, SLIDE) if in_process else ("20 seconds", "second"))))
    shown = _json if as_json else _live_board if console.is_terminal else _plain
    limit = math.inf if seconds is None else seconds
    if not in_process:
        _on_spark(console, shown, counts, limit, (rows_per_second or 20_000, seed), port if dashboard else None)
    else:
        watch = _watch(console, port) if dashboard else None
        with watch or contextlib.nullcontext(), contextlib.suppress(KeyboardInterrupt):  # the usual way to leave
            shown(console, replay(counts, limit, rows_per_second or 200_000, seed, watch), counts)
    console.print(
        f"{counts.boards} windows from {counts.rows:,} rows in {counts.seconds:.0f} seconds. "
        "Next: skyband init, skyband explain --help, skyband run --help",
        style="dim",
    )


def _on_spark(
    console: Console, shown: Show, counts: Counts, seconds: float, tape: tuple[int, int], port: int | None
) -> None:
    """The same board, from a local Spark stream."""
    import tempfile
    from pathlib import Path

    from skyband.cli import _ahead, _job, _live
    from skyband.cli._stop import wished
    from skyband.cli.run import looks

    try:
        import pyspark  # noqa: F401 - before anything is said of Spark
    except ImportError as error:
        missing = MissingLibraryError.of("skyband demo", "pyspark")
        msg = f"{missing}, or see it without Spark: skyband demo --in-process"
        raise MissingLibraryError(msg) from error
    with contextlib.ExitStack() as after:
        folder = after.enter_context(tempfile.TemporaryDirectory(prefix="skyband-demo-", ignore_cleanup_errors=True))
        job = _live.pipeline(Path(folder))
        console.print("starting Spark ...", style="dim")
        kernels = _ahead.Ahead(job.queries[0])
        kernels.start()
        feed = _live.Feed(Path(folder), *tape)
        stop = after.enter_context(wished())  # the usual way to leave
        spark = _job.opened(job, _live.QUICK)
        after.callback(spark.stop)
        _job.warm(spark)
        watch = None
        if port is not None:
            from skyband.cli._watch import Boards

            watch = after.enter_context(Boards(job.queries, port, [job.name]))
            console.print(f"dashboard: {watch.dashboard.url}", style="bold", highlight=False)
        if kernels.late():
            console.print("compiling the kernels, this once ...", style="dim")
        while kernels.is_alive() and not stop.is_set():
            kernels.join(0.2)
        feed.start()
        after.callback(feed.over.set)
        running = _job.started(job, _job.answers(spark, job))
        after.callback(running.stop)
        reports = looks(running, stop, time.monotonic() + seconds)
        shown(console, _streamed(running, reports, job.queries, counts, watch), counts)


def _streamed(
    running: StreamingQuery,
    reports: Iterator[Any],
    queries: tuple[TopK, ...],
    counts: Counts,
    watch: Boards | None,
) -> Iterator[Board]:
    """Every new board of a stream, until the time is up."""
    from skyband.cli._board import boards
    from skyband.cli._figures import Figures, as_table
    from skyband.cli.run import failed

    figures = Figures(queries)
    board, began = None, time.monotonic()
    for report in reports:
        rows = figures.take(report)
        counts.rows, counts.rate, counts.latency = figures.totals["rows"], figures.rate, figures.latency
        counts.late, counts.ahead, counts.candidates = (
            figures.totals["late"],
            figures.totals["ahead"],
            figures.candidates,
        )
        counts.in_window = figures.in_window or 0
        counts.seconds = time.monotonic() - began
        if watch is not None:
            watch.show(rows, figures)
        if not rows:
            continue
        for new in boards(as_table(rows), board):
            counts.boards += 1
            yield new
            board = new
    failure = running.exception()
    if failure is not None:
        raise failed(str(failure))


def _watch(console: Console, port: int) -> Watch:
    from skyband.cli._watch import Watch

    watch = Watch(port)
    console.print(f"dashboard: {watch.dashboard.url}", style="bold", highlight=False)
    return watch


def asked() -> TopK:
    """What the demo asks in process."""
    from skyband.query import Sliding, TopK

    return TopK(k=10, by="price * volume", window=Sliding(SIZE, SLIDE), time="ts", id="trade_id")


def replay(
    counts: Counts, seconds: float, rows_per_second: int, seed: int, watch: Watch | None = None
) -> Iterator[Board]:
    """Send trades through `sb.stream` at their pace; every new board."""
    from skyband.api import stream
    from skyband.cli._board import boards
    from skyband.cli._stop import wished

    query = asked()
    sizes: deque[int] = deque()  # rows of the batches in a window
    # an event rather than KeyboardInterrupt, which crashes the process where Numba makes Python objects
    with wished() as stop:
        trades = _paced(counts, sizes, seconds, (rows_per_second, seed), stop)
        if watch is not None:
            trades = watch.open(query, trades, LATE, AHEAD)
        answers = stream(query, trades, late=LATE, ahead=AHEAD)
        board = None
        for table in answers:
            if counts.over:  # what the end of the trades would answer is of no interest
                return
            counts.late, counts.ahead = answers.stats.late, answers.stats.ahead
            counts.candidates, counts.in_window = answers.candidates, sum(sizes)
            if watch is not None:
                watch.show(table, counts)
            for new in boards(table, board):
                counts.boards += 1
                yield new
                board = new


def _paced(
    counts: Counts, sizes: deque[int], seconds: float, given: tuple[int, int], stop: threading.Event
) -> Iterator[pa.Table]:
    """The trades as they come, counted, until the time is up or somebody wishes so."""
    from skyband.cli._tape import tape
    from skyband.query.duration import parse_duration

    tick = round(_TICK * _SPEED * 1_000_000)
    window = parse_duration(SIZE, "size") // tick
    ends: deque[tuple[float, int]] = deque(maxlen=_LATELY)
    began, (rows_per_second, seed) = time.monotonic(), given
    for number, batch in enumerate(tape(max(1, round(rows_per_second * _TICK)), tick, seed), 1):
        handed_over = time.monotonic()
        yield batch
        counts.latency = time.monotonic() - handed_over
        sizes.append(batch.num_rows)
        if len(sizes) > window:
            sizes.popleft()
        counts.rows += batch.num_rows
        counts.seconds = time.monotonic() - began
        ends.append((counts.seconds, counts.rows))
        counts.rate = _rate(ends)
        rest = max(0.0, began + number * _TICK - time.monotonic())
        if counts.seconds >= seconds or number >= seconds / _TICK or stop.wait(rest):
            counts.over = True
            return


def _rate(ends: deque[tuple[float, int]]) -> float:
    """Rows a second, of the last batches."""
    (first, low), (last, high) = ends[0], ends[-1]
    return (high - low) / (last - first) if last > first else 0.0


def _live_board(console: Console, replayed: Iterator[Board], counts: Counts) -> None:
    """One board that changes in its place."""
    from rich.live import Live

    from skyband.cli._board import drawn

    with Live(drawn(None, counts, counts.title, console), console=console, refresh_per_second=10) as screen:
        for board in replayed:
            screen.update(drawn(board, counts, counts.title, console))


def _json(_console: Console, replayed: Iterator[Board], counts: Counts) -> None:
    """Every window as a line of JSON."""
    from dataclasses import asdict

    from skyband.cli._plain import as_json

    for board in replayed:
        print(as_json({**board.as_dict(), "counts": asdict(counts)}), flush=True)


def _plain(console: Console, replayed: Iterator[Board], counts: Counts) -> None:
    """Every few windows a table, one below the other; the first and the last in any case."""
    from skyband.cli._board import drawn

    last, printed = None, None
    for board in replayed:
        last = board
        if counts.boards % _EVERY == 1:
            console.print(drawn(board, counts, counts.title, console), "")
            printed = board
    if last is not printed:
        console.print(drawn(last, counts, counts.title, console), "")
