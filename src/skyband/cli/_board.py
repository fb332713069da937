"""A leaderboard as the demo shows it: who is where, who moved, who came, who went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pyarrow as pa

WIDTH = 24  # of the longest bar


@dataclass(frozen=True)
class Board:
    """The answer of one window, beside the one before it."""

    start: datetime
    end: datetime
    rows: tuple[dict[str, Any], ...]  # best first
    moves: tuple[int | None, ...]  # ranks won (lost: below zero) by each row; None: it was not on the board
    left: tuple[tuple[str, str], ...]  # symbol and reason of what was on the board before

    def as_dict(self) -> dict[str, Any]:
        """The window, its rows with their moves (none: it is new), and what has left."""
        own = ("window_start", "window_end")
        return {
            "window_start": self.start,
            "window_end": self.end,
            "rows": [
                {**{name: value for name, value in row.items() if name not in own}, "move": move}
                for row, move in zip(self.rows, self.moves, strict=True)
            ],
            "left": [{"symbol": symbol, "why": why} for symbol, why in self.left],
        }


@dataclass
class Counts:
    """What the demo knows besides the answers."""

    rows: int = 0
    seconds: float = 0.0
    boards: int = 0
    late: int = 0
    ahead: int = 0
    candidates: int = 0
    in_window: int = 0
    rate: float = 0.0  # rows a second, lately
    latency: float = 0.0  # seconds that the last batch took
    over: bool = False  # the time is up
    title: str = ""


def boards(answers: pa.Table, before: Board | None) -> Iterator[Board]:
    """The answers of one batch, window by window, each beside the one before.

    Examples
    --------
    >>> import skyband as sb
    >>> trades = {"ts": [0, 60, 61], "symbol": ["A", "B", "C"], "x": [1, 9, 5], "trade_id": [0, 1, 2]}
    >>> import pyarrow as pa
    >>> table = pa.table(trades).set_column(0, "ts", pa.array([0, 60, 61], pa.timestamp("s")))
    >>> query = sb.TopK(k=2, by="x", window=sb.Sliding("2 minutes", "1 minute"), time="ts")
    >>> [(board.moves, board.left) for board in boards(sb.run(query, table), None)]
    [((None,), ()), ((None, None), (('A', 'beaten'),)), ((0, 0), ())]
    """
    listed: dict[datetime, list[dict[str, Any]]] = {}
    for row in answers.to_pylist():
        listed.setdefault(row["window_end"], []).append(row)
    for end, rows in listed.items():
        start = rows[0]["window_start"]
        places = {row["trade_id"]: row["rank"] for row in before.rows} if before else {}
        moves = tuple(places[r["trade_id"]] - r["rank"] if r["trade_id"] in places else None for r in rows)
        still = {row["trade_id"] for row in rows}
        left = tuple(
            (row["symbol"], "expired" if row["ts"] < start else "beaten")
            for row in (before.rows if before else ())
            if row["trade_id"] not in still
        )
        before = Board(start, end, tuple(rows), moves, left)
        yield before


def drawn(board: Board | None, counts: Counts, query: str, console: Console) -> RenderableType:
    """All that is on the screen at one moment."""
    ascii_only = console.options.ascii_only
    head = Text.assemble(("skyband demo", "bold"), f"   {query}")
    if board is None:
        return Group(head, Text("waiting for the first window to close ..."))
    window = Text(f"window  {board.start:%H:%M:%S} to {board.end:%H:%M:%S}", style="bold cyan")
    return Group(head, window, "", _table(board, ascii_only=ascii_only), "", _news(board), _figures(counts))


def _table(board: Board, *, ascii_only: bool) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("rank", justify="right")
    table.add_column("move", justify="left", min_width=4)
    table.add_column("symbol")
    for name in ("price", "volume", "score"):
        table.add_column(name, justify="right")
    table.add_column("", min_width=WIDTH, no_wrap=True)
    table.add_column("age", justify="right")
    top = board.rows[0]["score"] if board.rows else 1.0
    for row, move in zip(board.rows, board.moves, strict=True):
        table.add_row(
            str(row["rank"]),
            _arrow(move, ascii_only=ascii_only),
            Text(row["symbol"], style="bold green" if move is None else "bold"),
            f"{row['price']:,.2f}",
            f"{row['volume']:,}",
            f"{row['score']:,.0f}",
            Text(_bar(row["score"] / top, ascii_only=ascii_only), style="cyan"),
            _age(board.end - row["ts"]),
        )
    return table


def _arrow(move: int | None, *, ascii_only: bool) -> Text:
    up, down = ("+", "-") if ascii_only else ("▲", "▼")
    if move is None:
        return Text("new", style="bold green")
    if move == 0:
        return Text("=", style="dim")
    return Text(f"{up}{move}", style="green") if move > 0 else Text(f"{down}{-move}", style="red")


def _bar(part: float, *, ascii_only: bool) -> str:
    """A bar as long as `part` of the whole.

    Examples
    --------
    >>> _bar(0.5, ascii_only=True)
    '############'
    """
    if ascii_only:
        return "#" * max(1, round(part * WIDTH))
    eighths = max(1, round(part * WIDTH * 8))
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _age(age: timedelta) -> str:
    seconds = int(age.total_seconds())
    return f"{seconds // 60}:{seconds % 60:02}"


def _news(board: Board) -> Text:
    came = [row["symbol"] for row, move in zip(board.rows, board.moves, strict=True) if move is None]
    gone = [f"{symbol} ({why})" for symbol, why in board.left]
    text = Text.assemble(("entered ", "green"), _listed(came))
    text.append("\n")
    text.append("left    ", "red")
    text.append(_listed(gone))
    text.append("\n")
    return text


def _listed(names: list[str]) -> str:
    """Names once each, with how often.

    Examples
    --------
    >>> _listed(["A", "B", "A"])
    'A x2, B'
    """
    return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in Counter(names).items()) or "nobody"


def _figures(counts: Counts) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("rows", f"{counts.rows:,}", f"{counts.rate:,.0f} rows/s")
    share = f"1 row in {counts.in_window // max(counts.candidates, 1):,}"
    table.add_row("kept", f"{counts.candidates:,}", f"of {counts.in_window:,} rows in the window: {share}")
    table.add_row("late", f"{counts.late:,}", f"dropped; {counts.ahead:,} more with a clock far ahead")
    return table
