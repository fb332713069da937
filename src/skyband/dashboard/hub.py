"""The hub: takes answers and metrics of running queries, and keeps the recent ones for the dashboard."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from skyband.dashboard.board import Board
from skyband.dashboard.history import AnswerHistory, to_text
from skyband.dashboard.metrics import check_metrics
from skyband.errors import DashboardError
from skyband.redaction import redact

if TYPE_CHECKING:
    from skyband.dashboard.history import Group
    from skyband.query import TopK

Key = tuple[str | None, ...]
"""Names a board: the query, then the values of its group as text."""

_MAX_BOARDS = 512  # boards whose windows are kept ready
_METRICS_SECONDS = 0.2  # between two entries of the recent metrics
_MAX_ERROR = 4_000  # characters
_MIN_BYTES = 1 << 16  # memory of every query


@dataclass(frozen=True)
class QueryInfo:
    """What the page shows of a query; all but the name may be unknown."""

    name: str
    k: int | None = None
    by: str = ""
    window: str = ""
    time: str | None = None
    id: str | None = None
    ascending: bool = False

    @classmethod
    def from_query(cls, name: str, query: TopK) -> QueryInfo:
        """Describe a query.

        Examples
        --------
        >>> import skyband as sb
        >>> info = QueryInfo.from_query("big", sb.TopK(k=3, by="price * volume", window=sb.Counting(100, 10)))
        >>> info.k, info.by, info.window
        (3, 'price * volume', 'last 100 rows, every 10')
        """
        by = query.by if isinstance(query.by, str) else getattr(query.by, "text", getattr(query.by, "__name__", ""))
        return cls(name, query.k, str(by), _describe_window(query), query.time, query.id, query.ascending)


def _describe_window(query: TopK) -> str:
    from skyband.query import AllTime, Counting
    from skyband.query.duration import format_duration

    window = query.window
    if isinstance(window, AllTime):
        return "all time"
    if isinstance(window, Counting):
        return f"last {window.size:,} rows" + (f", every {window.slide:,}" if window.slide > 1 else "")
    slide = window.slide if isinstance(window.slide, str) else format_duration(window.slide)
    return f"last {format_duration(window.size)}, every {slide}"


class BoardPage(NamedTuple):
    """A page of the boards that match a search."""

    total: int
    boards: list[Key]


class Hub:
    """Takes the answers of queries from any thread, and keeps the recent windows of each for the dashboard.

    Parameters
    ----------
    history
        Windows per query and group that are kept.
    memory
        Bytes of all of them together; of large answers fewer windows are kept.

    Notes
    -----
    Cost: a few microseconds per answer, whatever its size; answers are read only while a client shows their board.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.dashboard import Hub
    >>> hub = Hub()
    >>> query = sb.TopK(k=2, by="x", window=sb.Counting(2, 2))
    >>> hub.describe("pairs", query)
    >>> hub.answers("pairs", sb.run(query, {"x": [3, 9, 4, 1], "who": list("abcd")}))
    >>> board = hub.board(("pairs",))
    >>> board.past()
    [(0, 2, 3.0), (2, 4, 1.0)]
    """

    def __init__(self, *, history: int = 120, memory: int = 256 << 20) -> None:
        if history < 1 or memory < 1:
            msg = f"history and memory must be positive, got history={history}, memory={memory}"
            raise DashboardError(msg)
        self.instance = time.time()  # tells a page that the run has been restarted
        self.history, self.memory = history, memory
        self.state = "running"  # or "ended", "failed"
        self.error_text = ""
        self.metrics: dict[str, float] = {}
        self.recent: deque[tuple[float, dict[str, float]]] = deque(maxlen=300)
        self.version = 0  # of the metrics and the state
        self._lock = threading.RLock()
        self._histories: dict[str, AnswerHistory] = {}
        self._workload = AnswerHistory(history, shared=True)
        self._info: dict[str, QueryInfo] = {}
        self._boards: OrderedDict[Key, Board] = OrderedDict()

    # ---------------------------------------------------------------- for the runner

    def describe(self, query: str, definition: TopK) -> None:
        """Describe a query: the page shows it, and identifies rows by its `id` column."""
        with self._lock:
            self._info[_check_name(query)] = QueryInfo.from_query(query, definition)
            self._histories.setdefault(query, AnswerHistory(self.history))

    def answers(self, query: str | None, table: pa.Table) -> None:
        """Add answers of `query`; None: of a workload, whose column `query` has the names."""
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if not isinstance(table, pa.Table):
            msg = f"answers must be a pyarrow.Table, got {type(table).__name__}"
            raise DashboardError(msg)
        if not table.num_rows:
            return
        with self._lock:
            if query is None:
                self._workload.add(table, self.memory)
                assert self._workload.columns is not None
                for name in to_text(pc.unique(table[self._workload.columns.per[0]])).to_pylist():
                    if self._histories.get(name) is not self._workload:
                        self._histories[_check_name(name)] = self._workload
                return
            history = self._histories.get(query)
            if history is None:
                history = self._histories[_check_name(query)] = AnswerHistory(self.history)
            history.add(table, max(_MIN_BYTES, self.memory // len(self._histories)))

    def progress(self, metrics: Mapping[str, float | None]) -> None:
        """Update metrics of the run, such as rows_per_second, late or candidates; see `metrics.METRICS`."""
        new = check_metrics(metrics)
        now = time.time()
        with self._lock:
            self.metrics = {**self.metrics, **new}
            if not self.recent or now - self.recent[-1][0] >= _METRICS_SECONDS:
                self.recent.append((now, self.metrics))
            self.version += 1

    def error(self, text: str | None) -> None:
        """Show an error, without what looks like a secret; None: the error is over."""
        with self._lock:
            self.error_text = redact(str(text)[: 16 * _MAX_ERROR])[:_MAX_ERROR] if text else ""
            self.state = "failed" if text else "running"
            self.version += 1

    def finish(self) -> None:
        """Show that the run has ended."""
        with self._lock:
            if self.state == "running":
                self.state = "ended"
            self.version += 1

    # ---------------------------------------------------------------- for the dashboard

    @property
    def queries(self) -> int:
        """Number of queries."""
        return len(self._histories)

    def __contains__(self, query: object) -> bool:
        return query in self._histories

    def per(self, query: str) -> list[str]:
        """Return the group columns of `query`."""
        history = self._histories[query]
        return list(history.columns.per[history.shared :]) if history.columns is not None else []

    def info(self, query: str) -> QueryInfo:
        """Return what is known of a query."""
        return self._info.get(query) or QueryInfo(query)

    def answer_version(self, query: str) -> int:
        """Return a number that changes with every answer of `query`."""
        history = self._histories.get(query)
        return 0 if history is None else history.rows

    def boards(self, search: str = "", offset: int = 0, limit: int = 100) -> BoardPage:
        """Return a page of the boards whose query and group contain every word of `search`."""
        words = search.casefold().split()
        found: list[Key] = []
        total = 0
        with self._lock:
            shared: dict[str | None, list[Group]] = {}
            for whole in self._workload.groups():
                shared.setdefault(whole[0], []).append(whole[1:])
            for name, history in self._histories.items():
                groups: Iterable[Group] = shared.get(name, []) if history.shared else history.groups()
                missing = [word for word in words if word not in name.casefold()]
                if missing:
                    groups = [group for group in groups if _contains_all(group, missing)]
                for group in groups:
                    if offset <= total < offset + limit:
                        found.append((name, *group))
                    total += 1
        return BoardPage(total, found)

    def board(self, key: Key) -> Board | None:
        """Return a board with its newest windows; None if there is no such query, or no answer for the group."""
        return self.open_boards([key])[0]

    def open_boards(self, keys: Sequence[Key]) -> list[Board | None]:
        """Return boards with their newest windows; None for those that do not exist."""
        with self._lock:
            boards = [self._find_board(key) for key in keys]
            for board in boards:
                if board is not None:
                    board.refresh()
        return [board if board and board.windows else None for board in boards]

    def _find_board(self, key: Key) -> Board | None:
        history = self._histories.get(key[0] or "")
        if history is None or history.columns is None or len(history.columns.per) - history.shared != len(key) - 1:
            return None
        board = self._boards.pop(key, None)
        if board is None or board.history is not history:
            board = Board(history, key if history.shared else key[1:], self.history)
        self._boards[key] = board
        if len(self._boards) > _MAX_BOARDS:
            self._boards.popitem(last=False)
        return board

    def status(self) -> dict[str, Any]:
        """Return the state of the run and its metrics."""
        return {"state": self.state, "error": self.error_text, "queries": self.queries, "figures": self.metrics}


def _check_name(query: object) -> str:
    if not isinstance(query, str) or not query or len(query) > 200:
        msg = f"query must be a string of 1 to 200 characters, got {query!r}"
        raise DashboardError(msg)
    return query


def _contains_all(group: Group, words: list[str]) -> bool:
    text = " ".join("null" if part is None else part for part in group).casefold()
    return all(word in text for word in words)
