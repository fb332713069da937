"""What a running stream tells: its newest answers, and how it is doing."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from skyband.cli._job import AHEAD, BOARD
from skyband.cli._plain import number, text
from skyband.query import Counting, Sliding

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from skyband.query import TopK

_WIDE = 12  # columns of a table that fit on most screens
_LONG = 20  # rows
_LOOKUPS = {"wanted": "wanted", "made": "made", "failed": "failed", "overdue": "late"}


class Figures:
    """Adds up the progress reports of a stream."""

    def __init__(self, queries: Sequence[TopK]) -> None:
        self.query = queries[0]
        self.newest: list[dict[str, Any]] = []
        self.totals = dict.fromkeys(("rows", "late", "without_score", "without_time", "ahead"), 0)
        self.rate = self.latency = 0.0
        self.candidates = self.state = self.batches = 0
        self.joined: dict[str, float] = {}  # of joins and views: what they fetched, and how old it is
        self.lookups: dict[str, int] = {}  # of joins: what became of them
        self._lately: deque[tuple[datetime, int]] = deque()  # newest time and rows of the batches in a window

    def take(self, report: Any) -> list[dict[str, Any]]:
        """Read one report; the answers that came with it, best first within each list."""
        metrics = report["observedMetrics"]
        self.batches += 1
        self.rate = float(report["processedRowsPerSecond"] or 0.0)
        self.latency = report["durationMs"].get("triggerExecution", 0) / 1000
        state = 0
        for name, row in metrics.items():
            if name == BOARD or not name.startswith("skyband"):
                continue
            values = row.asDict()
            for key in self.totals:
                self.totals[key] += values.get(key) or 0
            for key, shown in (("made", "refreshes"), ("refills", "refills")):
                if values.get(key) is not None:
                    self.joined[shown] = self.joined.get(shown, 0) + values[key]
            for key, shown in _LOOKUPS.items():
                if values.get(key) is not None:
                    self.lookups[shown] = self.lookups.get(shown, 0) + values[key]
            self.candidates = values.get("candidates") or self.candidates if name != AHEAD else self.candidates
            state += values.get("state_bytes") or 0
        self.state = state or self.state  # a batch in which nothing happened tells nothing
        board = metrics.get(BOARD)
        rows = [_plain(row) for row in (board["rows"] or [])] if board is not None else []
        if rows:
            end, rank = self.query.column("window_end"), self.query.column("rank")
            rows.sort(key=lambda row: (row[end], row[rank]))
            last = max(row[end] for row in rows)
            self.newest = [row for row in rows if row[end] == last]
            ages = [row.get(self.query.column("staleness")) for row in self.newest]
            known = [age for age in ages if isinstance(age, float)]
            if known:
                self.joined["staleness_seconds"] = max(known)
        self._remember(report)
        return rows

    def _remember(self, report: Any) -> None:
        newest = (report["eventTime"] or {}).get("max")
        window = self.query.window
        if not newest or not report["numInputRows"] or not isinstance(window, Sliding):
            return
        self._lately.append((datetime.fromisoformat(newest), report["numInputRows"]))
        last = max(at for at, _ in self._lately)
        while self._lately[0][0] <= last - window.size:
            self._lately.popleft()

    @property
    def in_window(self) -> int | None:
        """About how many rows the window holds: those of the batches that end in it. None if nobody knows."""
        if isinstance(self.query.window, Counting):
            return min(self.query.window.size, self.totals["rows"])
        return sum(count for _, count in self._lately) or None

    def line(self) -> str:
        """All figures in one line."""
        lost = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in self.totals.items() if name != "rows")
        return (
            f"{self.totals['rows']:,} rows ({lost}); {self.rate:,.0f} rows/s, {self.latency:.2f} s a batch, "
            f"{self.candidates:,} candidates, {self.state / 1e6:.1f} MB of state, {self.batches} batches"
            + ("; look-ups: " if self.lookups else "")
            + ", ".join(f"{count:,} {name}" for name, count in self.lookups.items())
        )

    def as_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return {
            **self.totals,
            "rows_per_second": round(self.rate, 1),
            "batch_seconds": self.latency,
            "candidates": self.candidates,
            "window_rows": self.in_window,
            **self.joined,
            **({"lookups": self.lookups} if self.lookups else {}),
            "state_bytes": self.state,
            "batches": self.batches,
        }

    def table(self) -> Table:
        """The newest window that has closed."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
        if not self.newest:
            table.add_column("waiting for the first window to close ...")
            return table
        first, once = self.newest[0], self._window()
        names = [name for name in first if name not in once][:_WIDE]
        for name in names:
            table.add_column(Text(text(name)), justify="right" if number(first[name]) else "left", no_wrap=True)
        day = next(reversed(once.values()), None)
        for row in self.newest[:_LONG]:
            table.add_row(*(Text(_text(row[name], day)) for name in names))
        return table

    def window(self) -> str:
        """The newest window in words, where it is one for all rows; the table then leaves it out."""
        edges = [text(value) for value in self._window().values()]
        return f"window {' to '.join(edges)}" if edges else ""

    def _window(self) -> dict[str, Any]:
        edges = [self.query.column(name) for name in ("window_start", "window_end")]
        found = [{name: row[name] for name in edges} for row in self.newest]
        return found[0] if found and all(each == found[0] for each in found) else {}


def as_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of answers as a table, the older windows first, each list best first."""
    import pyarrow as pa

    return pa.Table.from_pylist(rows)


def _plain(row: Any) -> dict[str, Any]:
    """A row of answers by name; reports that have been through JSON hold times as text."""
    found = row if isinstance(row, dict) else row.asDict(recursive=True)
    return {name: _moment(value) if isinstance(value, str) else value for name, value in found.items()}


def _moment(said: str) -> Any:
    """A text, or the time that it is.

    Examples
    --------
    >>> _moment("ATLAS"), _moment("2026-01-01T00:00:02.000Z").second
    ('ATLAS', 2)
    """
    try:
        return datetime.fromisoformat(said) if said[:4].isdigit() and said[4:5] == "-" else said
    except ValueError:
        return said


def _text(value: Any, day: Any = None) -> str:
    """A value as a screen has room for it; of a moment of `day`, the time.

    Examples
    --------
    >>> _text(54175.0), _text(1234.5678), _text(0.00125)
    ('54,175', '1,234.57', '0.00125')
    >>> noon = datetime(2024, 1, 2, 12)
    >>> _text(noon), _text(noon, noon)
    ('2024-01-02 12:00:00', '12:00:00')
    """
    if isinstance(value, datetime) and isinstance(day, datetime) and value.date() == day.date():
        return str(value.time())
    if not isinstance(value, float):
        return text(value)
    if abs(value) >= 1e15:
        return f"{value:.6g}"
    return f"{value:,.0f}" if value.is_integer() else f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"
