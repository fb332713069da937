"""skyband demo: a live list in the terminal."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyband.cli._common import stdout_console, stop_event, to_json
from skyband.errors import MissingLibraryError

if TYPE_CHECKING:
    import threading

    import pyarrow as pa
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from skyband.api import Stream
    from skyband.cli._monitor import StreamMetrics
    from skyband.dashboard import Hub
    from skyband.lang import Job
    from skyband.query import TopK

    Windows = Iterator[dict[str, Any]]

HELP = """Watch the ten largest trades of the last 20 seconds change, on a local Spark stream.

Trades are generated now; Spark reads them as they come, and the list shows which entered and left. It runs until
Ctrl-C, or for --seconds. With --in-process the trades run through sb.stream instead, without Spark and sixty times
faster than their own clock. Without a terminal, every fifth window is printed as a plain table; with --json every
window is one line.

Examples:

  skyband demo

  skyband demo --dashboard

  skyband demo --in-process --seconds 10 --rows-per-second 1000000

  skyband demo --in-process --seed 7 | head -40

  skyband demo --in-process --seconds 5 --json
"""

NAME = "largest trades"
SIZE, SLIDE, LATE, AHEAD = "5 minutes", "30 seconds", "5 seconds", "10 minutes"

_JVM_SETTINGS = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}  # starts fast
_TITLE = "the 10 largest trades (price * volume) of the last {}, every {}"
_SPEED = 60  # seconds of event time per second
_TICK = 0.05  # seconds between two batches
_PRINT_EVERY = 5  # windows from one printed table to the next
_RATE_BATCHES = 40  # batches over which rows/s is measured
_BAR_WIDTH = 24


def demo(
    *,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="Stop after this time. Default: at Ctrl-C.")] = None,
    rows_per_second: Annotated[
        int | None, typer.Option(min=20, help="Trades per second. Default: 20,000; in process 200,000.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated trades.")] = 0,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Also show the list in the browser; with --in-process, several lists.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the dashboard; 0 takes a free one.")] = 8765,
    in_process: Annotated[bool, typer.Option("--in-process", help="Run without Spark.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for every window.")] = False,
) -> None:
    """Show the list until Ctrl-C, or until the time is up."""
    from rich.console import Console

    from skyband.cli._monitor import DashboardServer, StreamMetrics

    console = Console(stderr=True) if as_json else stdout_console()
    metrics, title = StreamMetrics(), _TITLE.format(*((SIZE, SLIDE) if in_process else ("20 seconds", "second")))
    limit = math.inf if seconds is None else seconds
    if not in_process:
        _require_spark()
    with contextlib.ExitStack() as stack:
        hub = None
        if dashboard:
            from skyband.dashboard import Hub

            hub = stack.enter_context(DashboardServer(Hub(), port, console)).hub
        if in_process:
            stack.enter_context(contextlib.suppress(KeyboardInterrupt))  # the usual way to leave
            windows = replay(metrics, limit, rows_per_second or 200_000, seed, hub)
        else:
            windows = _stream_on_spark(stack, console, metrics, limit, (rows_per_second or 20_000, seed), hub)
        show = _show_json if as_json else _show_live if console.is_terminal else _show_plain
        show(console, windows, metrics, title)
    console.print(
        f"{metrics.boards} windows from {metrics.rows:,} rows in {metrics.seconds:.0f} seconds. "
        "Next: skyband init, skyband explain --help, skyband run --help",
        style="dim",
    )


def _require_spark() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        missing = MissingLibraryError.of("skyband demo", "pyspark")
        raise MissingLibraryError(f"{missing}, or see it without Spark: skyband demo --in-process") from error


class _WindowReader:
    """Yields each window of a query once, compared with the one before."""

    def __init__(self, query: TopK, metrics: StreamMetrics) -> None:
        from skyband.dashboard import Hub

        self._hub, self._metrics, self._last = Hub(), metrics, -1
        self._hub.describe(NAME, query)

    def read(self, answers: pa.Table) -> Windows:
        self._hub.answers(NAME, answers)
        board = self._hub.board((NAME,))
        for position, window in enumerate(board.windows if board else ()):
            if window.number > self._last:
                self._last = window.number
                self._metrics.boards += 1
                yield board.detail(self._hub.info(NAME), position, rows=None)  # type: ignore[union-attr]


# ---------------------------------------------------------------- on Spark


def _stream_on_spark(
    stack: contextlib.ExitStack,
    console: Console,
    metrics: StreamMetrics,
    seconds: float,
    trades: tuple[int, int],
    hub: Hub | None,
) -> Windows:
    """Yield every window of a local Spark stream; `stack` stops it."""
    import tempfile

    from skyband.cli import _pipeline
    from skyband.cli._trades import TradeFiles, pipeline
    from skyband.cli.warm import CompileThread

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="skyband-demo-", ignore_cleanup_errors=True))
    job = pipeline(folder)
    console.print("starting Spark ...", style="dim")
    compiling = CompileThread(job.queries[0])
    compiling.start()
    files = TradeFiles(Path(folder, "trades"), *trades)
    stop = stack.enter_context(stop_event())  # the usual way to leave
    spark = _pipeline.open_session(job, _JVM_SETTINGS)
    stack.callback(spark.stop)
    _pipeline.start_workers(spark)
    if compiling.is_slow():
        console.print("compiling the kernels, only this time ...", style="dim")
    while compiling.is_alive() and not stop.is_set():
        compiling.join(0.2)
    files.start()
    stack.callback(files.stopped.set)
    query = _pipeline.start_stream(job, _pipeline.run_queries(spark, job))
    stack.callback(query.stop)
    if hub is not None:
        hub.describe(NAME, job.queries[0])
    yield from _read_progress(job, _pipeline.follow_progress(query, stop, time.monotonic() + seconds), metrics, hub)
    failure = query.exception()
    if failure is not None:
        raise _pipeline.stream_error(str(failure))


def _read_progress(job: Job, reports: Iterator[Any], metrics: StreamMetrics, hub: Hub | None) -> Windows:
    from skyband.cli._monitor import ProgressMonitor, to_table
    from skyband.cli.run import feed_hub

    monitor, reader, began = ProgressMonitor(job.queries), _WindowReader(job.queries[0], metrics), time.monotonic()
    monitor.metrics = metrics
    for report in reports:
        rows = monitor.read(report)
        metrics.seconds = time.monotonic() - began
        feed_hub(hub, job, rows, monitor)
        if rows:
            yield from reader.read(to_table(rows))


# ---------------------------------------------------------------- in process


def demo_query() -> TopK:
    """Return the query of the demo in process."""
    return _trades_query(10, "price * volume", SIZE)


def _trades_query(k: int, by: str, size: str, per: tuple[str, ...] = ()) -> TopK:
    from skyband.query import Sliding, TopK

    return TopK(k=k, by=by, window=Sliding(size, SLIDE), time="ts", id="trade_id", per=per)


def _other_queries() -> dict[str, TopK]:
    """Return more queries for the dashboard; all slide together."""
    return {
        "largest in a minute": _trades_query(10, "price * volume", "1 minute"),
        "largest in 15 minutes": _trades_query(10, "price * volume", "15 minutes"),
        "highest prices": _trades_query(10, "price", "5 minutes"),
        "highest volumes": _trades_query(10, "volume", "5 minutes"),
        "largest per symbol": _trades_query(5, "price * volume", "5 minutes", ("symbol",)),
    }


def replay(metrics: StreamMetrics, seconds: float, rows_per_second: int, seed: int, hub: Hub | None = None) -> Windows:
    """Send trades through `sb.stream` at their pace; yield every window."""
    from skyband.api import stream

    query = demo_query()
    sizes: deque[int] = deque()  # rows of the batches in a window
    ended: list[bool] = []
    # an event rather than KeyboardInterrupt, which crashes the process where Numba makes Python objects
    with stop_event() as stop:
        trades = _paced_trades(metrics, sizes, ended, seconds, (rows_per_second, seed), stop)
        others: dict[str, Stream] = {}
        if hub is not None:
            hub.describe(NAME, query)
            trades, *copies = tee(trades, len(_other_queries()) + 1)  # a copy lags by at most one window
            for (name, other), copy in zip(_other_queries().items(), copies, strict=True):
                hub.describe(name, other)
                others[name] = stream(other, copy, late=LATE, ahead=AHEAD)
        answers = stream(query, trades, late=LATE, ahead=AHEAD)
        reader = _WindowReader(query, metrics)
        for table in answers:
            if ended:  # the answers at the end of the trades are of no interest
                return
            metrics.late, metrics.ahead = answers.stats.late_rows, answers.stats.ahead
            metrics.candidates, metrics.in_window = answers.candidates, sum(sizes)
            if hub is not None:
                hub.answers(NAME, table)
                for name, other_answers in others.items():
                    found = next(other_answers, None)
                    if found is not None and not ended:
                        hub.answers(name, found)
                hub.progress(metrics.progress())
            yield from reader.read(table)


def _paced_trades(
    metrics: StreamMetrics,
    sizes: deque[int],
    ended: list[bool],
    seconds: float,
    trades: tuple[int, int],
    stop: threading.Event,
) -> Iterator[pa.Table]:
    """Yield trades at their pace until the time is up or `stop` is set."""
    from skyband.cli._trades import generate_trades
    from skyband.query.duration import parse_duration

    tick = round(_TICK * _SPEED * 1_000_000)
    window = parse_duration(SIZE, "size") // tick
    recent: deque[tuple[float, int]] = deque(maxlen=_RATE_BATCHES)
    began, (rows_per_second, seed) = time.monotonic(), trades
    for number, batch in enumerate(generate_trades(max(1, round(rows_per_second * _TICK)), tick, seed), 1):
        start = time.monotonic()
        yield batch
        metrics.latency = time.monotonic() - start
        sizes.append(batch.num_rows)
        if len(sizes) > window:
            sizes.popleft()
        metrics.rows += batch.num_rows
        metrics.batches, metrics.seconds = number, time.monotonic() - began
        recent.append((metrics.seconds, metrics.rows))
        (first, low), (last, high) = recent[0], recent[-1]
        metrics.rate = (high - low) / (last - first) if last > first else 0.0
        rest = max(0.0, began + number * _TICK - time.monotonic())
        if metrics.seconds >= seconds or number >= seconds / _TICK or stop.wait(rest):
            ended.append(True)
            return


# ---------------------------------------------------------------- output

Show = Callable[["Console", "Windows", "StreamMetrics", str], None]


def _show_live(console: Console, windows: Windows, metrics: StreamMetrics, title: str) -> None:
    from rich.live import Live

    with Live(render(None, metrics, title, console), console=console, refresh_per_second=10) as screen:
        for window in windows:
            screen.update(render(window, metrics, title, console))


def _show_json(_console: Console, windows: Windows, metrics: StreamMetrics, _title: str) -> None:
    for window in windows:
        rows = [
            {"rank": row["rank"], "score": row["score"], **row["values"], "move": row["move"]} for row in _rows(window)
        ]
        left = [{"symbol": row["label"], "why": row["why"]} for row in window["left"]]
        edges = {"window_start": window["start"], "window_end": window["end"]}
        print(to_json({**edges, "rows": rows, "left": left, "counts": asdict(metrics)}), flush=True)


def _show_plain(console: Console, windows: Windows, metrics: StreamMetrics, title: str) -> None:
    """Print every fifth window as a table, and the first and the last."""
    window, printed = None, None
    for window in windows:
        if metrics.boards % _PRINT_EVERY == 1:
            console.print(render(window, metrics, title, console), "")
            printed = window
    if window is not printed:
        console.print(render(window, metrics, title, console), "")


def _rows(window: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a window with their values by column."""
    names = [column["name"] for column in window["columns"]]
    return [{**row, "values": dict(zip(names, row["cells"], strict=True))} for row in window["rows"]]


def render(window: dict[str, Any] | None, metrics: StreamMetrics, title: str, console: Console) -> RenderableType:
    """Return what is on the screen: the list, what entered and left, and the metrics."""
    from rich.console import Group
    from rich.text import Text

    ascii_only = console.options.ascii_only
    head = Text.assemble(("skyband demo", "bold"), f"   {title}")
    if window is None:
        return Group(head, Text("waiting for the first window to close ..."))
    start, end = (datetime.fromisoformat(window[name]) for name in ("start", "end"))
    edges = Text(f"window  {start:%H:%M:%S} to {end:%H:%M:%S}", style="bold cyan")
    entered = _join([row["label"] for row in window["rows"] if row["move"] is None])
    left = _join([f"{row['label']} ({row['why']})" for row in window["left"]])
    changes = Text.assemble(("entered ", "green"), entered, "\n", ("left    ", "red"), left, "\n")
    table = _render_rows(_rows(window), end, ascii_only=ascii_only)
    return Group(head, edges, "", table, "", changes, _render_metrics(metrics))


def _render_rows(rows: list[dict[str, Any]], end: datetime, *, ascii_only: bool) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("rank", justify="right")
    table.add_column("move", min_width=4)
    table.add_column("symbol")
    for name in ("price", "volume", "score"):
        table.add_column(name, justify="right")
    table.add_column("", min_width=_BAR_WIDTH, no_wrap=True)
    table.add_column("age", justify="right")
    for row in rows:
        values = row["values"]
        age = int((end - datetime.fromisoformat(values["ts"])).total_seconds())
        table.add_row(
            str(row["rank"]),
            _render_move(row["move"], ascii_only=ascii_only),
            Text(values["symbol"], style="bold green" if row["move"] is None else "bold"),
            f"{values['price']:,.2f}",
            f"{values['volume']:,}",
            f"{row['score']:,.0f}",
            Text(_bar(row["score"] / rows[0]["score"], ascii_only=ascii_only), style="cyan"),
            f"{age // 60}:{age % 60:02}",
        )
    return table


def _render_move(move: int | None, *, ascii_only: bool) -> Text:
    from rich.text import Text

    up, down = ("+", "-") if ascii_only else ("▲", "▼")
    if move is None:
        return Text("new", style="bold green")
    if move == 0:
        return Text("=", style="dim")
    return Text(f"{up}{move}", style="green") if move > 0 else Text(f"{down}{-move}", style="red")


def _bar(part: float, *, ascii_only: bool) -> str:
    """Return a bar of `part` of the full width.

    Examples
    --------
    >>> _bar(0.5, ascii_only=True)
    '############'
    """
    if ascii_only:
        return "#" * max(1, round(part * _BAR_WIDTH))
    eighths = max(1, round(part * _BAR_WIDTH * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _join(names: list[str]) -> str:
    """Join names, each once with its count.

    Examples
    --------
    >>> _join(["A", "B", "A"])
    'A x2, B'
    """
    return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in Counter(names).items()) or "none"


def _render_metrics(metrics: StreamMetrics) -> Table:
    from rich.table import Table

    in_window = metrics.in_window or 0
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("rows", f"{metrics.rows:,}", f"{metrics.rate:,.0f} rows/s")
    share = f"1 row in {in_window // max(metrics.candidates, 1):,}"
    table.add_row("candidates", f"{metrics.candidates:,}", f"of {in_window:,} rows in the window: {share}")
    table.add_row("late", f"{metrics.late:,}", f"dropped; {metrics.ahead:,} more with a time far ahead")
    return table
