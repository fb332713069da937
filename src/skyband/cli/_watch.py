"""The demo's dashboard: several questions about the same trades, answered side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import tee
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.api import Stream
    from skyband.cli._board import Counts
    from skyband.cli._figures import Figures
    from skyband.dashboard import Dashboard, Hub
    from skyband.query import TopK

NAME = "largest trades"
"""The demo's own query."""


class _Served:
    """A hub with its dashboard, which tells those who look how the run has ended before it goes."""

    def __init__(self, hub: Hub, port: int) -> None:
        from skyband.dashboard import Dashboard

        self.hub = hub
        self.dashboard: Dashboard = Dashboard(hub, port=port).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, BrokenPipeError):
            self.hub.error(f"{type(error).__name__}: {error}")
        else:
            self.hub.finish()
        self.dashboard.stop()


class Watch(_Served):
    """Feeds a dashboard with the demo's query and a few others over the same trades."""

    def __init__(self, port: int) -> None:
        from skyband.dashboard import Hub

        super().__init__(Hub(), port)
        self._streams: dict[str, Stream] = {}

    def open(self, query: TopK, trades: Iterator[pa.Table], late: str, ahead: str) -> Iterator[pa.Table]:
        """Ask the other questions too; the trades for the demo's own."""
        from skyband.api import stream

        others = questions(query)
        mine, *copies = tee(trades, len(others) + 1)  # a copy lags by one window at most: all slide together
        self.hub.describe(NAME, query)
        for (name, other), copy in zip(others.items(), copies, strict=True):
            self.hub.describe(name, other)
            self._streams[name] = stream(other, copy, late=late, ahead=ahead)
        return mine

    def show(self, answers: pa.Table, counts: Counts) -> None:
        """Show the answers of a window, and those of the other questions."""
        self.hub.answers(NAME, answers)
        for name, others in self._streams.items():
            table = next(others, None)
            if table is not None and not counts.over:
                self.hub.answers(name, table)
        self.hub.progress(
            {
                "rows": counts.rows,
                "rows_per_second": counts.rate,
                "batch_seconds": counts.latency,
                "candidates": counts.candidates,
                "window_rows": counts.in_window,
                "late": counts.late,
                "ahead": counts.ahead,
                "windows": counts.boards,
            }
        )


class Boards(_Served):
    """Feeds a dashboard with the answers of a Spark stream."""

    def __init__(self, queries: Sequence[TopK], port: int, names: Sequence[str]) -> None:
        from skyband.dashboard import Hub

        hub = Hub()
        self.names = list(names)
        for name, query in zip(names, queries, strict=True):
            hub.describe(name, query)
        super().__init__(hub, port)

    def show(self, rows: list[dict[str, Any]], figures: Figures) -> None:
        """Show the answers of a batch, and how the stream is doing."""
        from skyband.cli._figures import as_table

        for name in self.names:
            mine = rows if len(self.names) == 1 else [row for row in rows if row.get("query") == name]
            if mine:
                self.hub.answers(name, as_table(mine))
        self.hub.progress(
            {
                "rows": figures.totals["rows"],
                "rows_per_second": figures.rate,
                "batch_seconds": figures.latency,
                "candidates": figures.candidates,
                "window_rows": figures.in_window,
                **figures.joined,
                "state_bytes": figures.state,
                "late": figures.totals["late"],
                "ahead": figures.totals["ahead"],
                "without_score": figures.totals["without_score"],
            }
        )


def questions(query: TopK) -> dict[str, TopK]:
    """What else one may ask of trades; all windows slide as those of `query` do.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=10, by="price * volume", window=sb.Sliding("5 min", "30 s"), time="ts", id="trade_id")
    >>> [(name, other.k, other.per) for name, other in questions(query).items()][:2]
    [('largest in a minute', 10, ()), ('largest in 15 minutes', 10, ())]
    """
    from datetime import timedelta

    from skyband.query import Sliding, TopK
    from skyband.windows import WindowAssigner

    slide = timedelta(microseconds=WindowAssigner.of(query.window).slide)

    def asked(k: int, by: str, size: str, per: tuple[str, ...] = ()) -> TopK:
        return TopK(k=k, by=by, window=Sliding(size, slide), time=query.time, id=query.id, per=per)

    return {
        "largest in a minute": asked(10, "price * volume", "1 minute"),
        "largest in 15 minutes": asked(10, "price * volume", "15 minutes"),
        "dearest shares": asked(10, "price", "5 minutes"),
        "most shares at once": asked(10, "volume", "5 minutes"),
        "largest per symbol": asked(5, "price * volume", "5 minutes", ("symbol",)),
    }
