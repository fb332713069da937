"""The state of a running stream, as the terminal, the JSON output and the dashboard show it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from skyband.cli._common import is_number, to_text
from skyband.cli._pipeline import AHEAD, NEWEST_ROWS
from skyband.query import Counting, Sliding

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table

    from skyband.dashboard import Hub
    from skyband.query import TopK

_MAX_COLUMNS, _MAX_ROWS = 12, 20  # of a table on the screen
_TOTALS = ("rows", "late", "without_score", "without_time", "ahead")
_LOOKUPS = {"wanted": "wanted", "made": "made", "failed": "failed", "overdue": "late"}


@dataclass
class StreamMetrics:
    """Metrics of a stream so far."""

    rows: int = 0
    late: int = 0
    without_score: int = 0
    without_time: int = 0
    ahead: int = 0
    rate: float = 0.0  # rows per second, recently
    latency: float = 0.0  # seconds of the last batch
    candidates: int = 0
    in_window: int | None = None  # rows in the window, approximately
    state_bytes: int = 0
    batches: int = 0
    boards: int = 0  # windows answered
    seconds: float = 0.0
    refreshes: dict[str, float] = field(default_factory=dict)  # of joins and views: fetches, and the age of values
    lookups: dict[str, int] = field(default_factory=dict)  # of joins: their outcomes

    def progress(self) -> dict[str, Any]:
        """Return the metrics by the names that the dashboard has tiles for."""
        return {
            **{name: getattr(self, name) for name in _TOTALS},
            "rows_per_second": round(self.rate, 1),
            "batch_seconds": self.latency,
            "candidates": self.candidates,
            "window_rows": self.in_window,
            **self.refreshes,
            "state_bytes": self.state_bytes or None,
            "windows": self.boards or None,
        }

    def line(self) -> str:
        """Return all metrics in one line."""
        dropped = ", ".join(f"{getattr(self, name):,} {name.replace('_', ' ')}" for name in _TOTALS[1:])
        return (
            f"{self.rows:,} rows ({dropped}); {self.rate:,.0f} rows/s, {self.latency:.2f} s per batch, "
            f"{self.candidates:,} candidates, {self.state_bytes / 1e6:.1f} MB of state, {self.batches} batches"
            + ("; look-ups: " if self.lookups else "")
            + ", ".join(f"{count:,} {name}" for name, count in self.lookups.items())
        )


class ProgressMonitor:
    """Reads Spark's progress reports: the metrics, and the newest list."""

    def __init__(self, queries: Sequence[TopK]) -> None:
        self.query = queries[0]
        self.metrics = StreamMetrics()
        self.newest: list[dict[str, Any]] = []
        self._recent: deque[tuple[datetime, int]] = deque()  # newest time and rows of the batches in a window

    def read(self, report: Any) -> list[dict[str, Any]]:
        """Read one report; return the answers in it, older windows first, each list best first."""
        observed, metrics = report["observedMetrics"], self.metrics
        metrics.batches += 1
        metrics.rate = float(report["processedRowsPerSecond"] or 0.0)
        metrics.latency = report["durationMs"].get("triggerExecution", 0) / 1000
        state = 0
        for name, row in observed.items():
            if name.startswith("skyband") and name != NEWEST_ROWS:
                values = {key: value for key, value in row.asDict().items() if value is not None}
                self._add(values)
                state += values.get("state_bytes", 0)
                if name != AHEAD:
                    metrics.candidates = values.get("candidates") or metrics.candidates
        metrics.state_bytes = state or metrics.state_bytes  # a batch without rows reports none
        found = observed.get(NEWEST_ROWS)
        rows = [_to_dict(row) for row in (found["rows"] or [])] if found is not None else []
        if rows:
            self._keep_newest(rows)
        self._count_window(report)
        return rows

    def _add(self, values: dict[str, Any]) -> None:
        metrics = self.metrics
        for name in _TOTALS:
            setattr(metrics, name, getattr(metrics, name) + values.get(name, 0))
        for name, shown in {"made": "refreshes", "refills": "refills"}.items():
            if name in values:
                metrics.refreshes[shown] = metrics.refreshes.get(shown, 0) + values[name]
        for name, shown in _LOOKUPS.items():
            if name in values:
                metrics.lookups[shown] = metrics.lookups.get(shown, 0) + values[name]

    def _keep_newest(self, rows: list[dict[str, Any]]) -> None:
        end, rank = self.query.column("window_end"), self.query.column("rank")
        rows.sort(key=lambda row: (row[end], row[rank]))
        self.newest = [row for row in rows if row[end] == rows[-1][end]]
        ages = [row.get(self.query.column("staleness")) for row in self.newest]
        known = [age for age in ages if isinstance(age, float)]
        if known:
            self.metrics.refreshes["staleness_seconds"] = max(known)

    def _count_window(self, report: Any) -> None:
        """Estimate the rows in the window: those of the batches that end in it."""
        window = self.query.window
        if isinstance(window, Counting):
            self.metrics.in_window = min(window.size, self.metrics.rows)
        newest = (report["eventTime"] or {}).get("max")
        if not newest or not report["numInputRows"] or not isinstance(window, Sliding):
            return
        self._recent.append((datetime.fromisoformat(newest), report["numInputRows"]))
        last = max(at for at, _ in self._recent)
        while self._recent[0][0] <= last - window.size:
            self._recent.popleft()
        self.metrics.in_window = sum(count for _, count in self._recent)

    def as_dict(self) -> dict[str, Any]:
        """Return all metrics by name, for JSON."""
        metrics = self.metrics
        found = {name: value for name, value in metrics.progress().items() if name != "windows"}
        if metrics.lookups:
            found["lookups"] = metrics.lookups
        return {**found, "state_bytes": metrics.state_bytes, "batches": metrics.batches}

    def table(self) -> Table:
        """Return the newest list as a table."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
        if not self.newest:
            table.add_column("waiting for the first window to close ...")
            return table
        first, window = self.newest[0], self._window()
        names = [name for name in first if name not in window][:_MAX_COLUMNS]
        for name in names:
            table.add_column(Text(to_text(name)), justify="right" if is_number(first[name]) else "left", no_wrap=True)
        day = next(reversed(window.values()), None)
        for row in self.newest[:_MAX_ROWS]:
            table.add_row(*(Text(_to_short_text(row[name], day)) for name in names))
        return table

    def window(self) -> str:
        """Return the newest window as text, if it is the same for all rows; the table then omits it."""
        edges = [to_text(value) for value in self._window().values()]
        return f"window {' to '.join(edges)}" if edges else ""

    def _window(self) -> dict[str, Any]:
        edges = [self.query.column(name) for name in ("window_start", "window_end")]
        found = [{name: row[name] for name in edges} for row in self.newest]
        return found[0] if found and all(each == found[0] for each in found) else {}


class DashboardServer:
    """Serves a hub while a stream runs, and shows how the run has ended."""

    def __init__(self, hub: Hub, port: int, console: Console) -> None:
        from skyband.dashboard import Dashboard

        self.hub = hub
        self._dashboard = Dashboard(hub, port=port).start()
        console.print(f"dashboard: {self._dashboard.url}", style="bold", highlight=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, BrokenPipeError):
            self.hub.error(f"{type(error).__name__}: {error}")
        else:
            self.hub.finish()
        self._dashboard.stop()


def to_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Convert rows of answers to a table."""
    import pyarrow as pa

    return pa.Table.from_pylist(rows)


def _to_dict(row: Any) -> dict[str, Any]:
    """Return a row of answers by name; a report that has been through JSON has times as text."""
    found = row if isinstance(row, dict) else row.asDict(recursive=True)
    return {name: _parse_time(value) if isinstance(value, str) else value for name, value in found.items()}


def _parse_time(text: str) -> Any:
    """Return the time that a text is, else the text.

    Examples
    --------
    >>> _parse_time("ATLAS"), _parse_time("2026-01-01T00:00:02.000Z").second
    ('ATLAS', 2)
    """
    try:
        return datetime.fromisoformat(text) if text[:4].isdigit() and text[4:5] == "-" else text
    except ValueError:
        return text


def _to_short_text(value: Any, day: Any = None) -> str:
    """Format a value for a narrow column; a time of `day` without its date.

    Examples
    --------
    >>> _to_short_text(54175.0), _to_short_text(1234.5678), _to_short_text(0.00125)
    ('54,175', '1,234.57', '0.00125')
    >>> noon = datetime(2024, 1, 2, 12)
    >>> _to_short_text(noon), _to_short_text(noon, noon)
    ('2024-01-02 12:00:00', '12:00:00')
    """
    if isinstance(value, datetime) and isinstance(day, datetime) and value.date() == day.date():
        return str(value.time())
    if not isinstance(value, float):
        return to_text(value)
    if abs(value) >= 1e15:
        return f"{value:.6g}"
    return f"{value:,.0f}" if value.is_integer() else f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"
