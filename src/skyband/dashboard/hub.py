"""The hub: takes answers and metrics of running queries, and keeps the recent ones for the dashboard."""

from __future__ import annotations

import math
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from skyband.dashboard.board import Board, QueryInfo
from skyband.dashboard.history import AnswerHistory, to_text
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
_METRIC_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Metric(NamedTuple):
    """A metric in Prometheus' terms."""

    kind: str  # "counter" or "gauge"
    name: str
    help: str


METRICS = {
    "rows": Metric("counter", "skyband_rows_total", "Rows read."),
    "rows_per_second": Metric("gauge", "skyband_rows_per_second", "Rows read per second, recently."),
    "batch_seconds": Metric("gauge", "skyband_batch_seconds", "Duration of the last batch."),
    "windows": Metric("counter", "skyband_windows_total", "Windows answered."),
    "answer_rows": Metric("counter", "skyband_answer_rows_total", "Rows of all answers."),
    "candidates": Metric("gauge", "skyband_candidates", "Rows kept because they may still enter an answer."),
    "window_rows": Metric("gauge", "skyband_window_rows", "Rows in the window."),
    "state_bytes": Metric("gauge", "skyband_state_bytes", "Bytes of state after the last batch."),
    "late": Metric("counter", "skyband_late_rows_total", "Rows dropped because their pane was closed."),
    "ahead": Metric("counter", "skyband_ahead_rows_total", "Rows dropped because their time was too far ahead."),
    "without_score": Metric("counter", "skyband_rows_without_score_total", "Rows whose score was NULL or NaN."),
    "without_time": Metric("counter", "skyband_rows_without_time_total", "Rows whose time was NULL."),
    "staleness_seconds": Metric("gauge", "skyband_staleness_seconds", "Age of the joined values in use."),
    "refreshes": Metric("counter", "skyband_refreshes_total", "Joined values fetched again."),
    "refills": Metric("counter", "skyband_refills_total", "Refills of a view from its table."),
}
"""By the name that `Hub.progress` takes. Others are shown on the page only."""


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
            raise DashboardError(f"history and memory must be positive, got history={history}, memory={memory}")
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
            raise DashboardError(f"answers must be a pyarrow.Table, got {type(table).__name__}")
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
        """Update metrics of the run, such as rows_per_second, late or candidates; see `METRICS`."""
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
        raise DashboardError(f"query must be a string of 1 to 200 characters, got {query!r}")
    return query


def _contains_all(group: Group, words: list[str]) -> bool:
    text = " ".join("null" if part is None else part for part in group).casefold()
    return all(word in text for word in words)


def check_metrics(values: Mapping[str, float | None]) -> dict[str, float]:
    """Return the finite numbers among `values`; raise `DashboardError` for other names and types.

    Examples
    --------
    >>> check_metrics({"rows": 3, "late": None})
    {'rows': 3}
    >>> check_metrics({"rows": "many"})
    Traceback (most recent call last):
        ...
    skyband.errors.DashboardError: rows must be a number, got 'many'
    """
    found: dict[str, float] = {}
    for name, value in values.items():
        if not isinstance(name, str) or not _METRIC_NAME.fullmatch(name):
            raise DashboardError(
                f"the name of a metric must have lower-case letters, digits and underscores, got {name!r}"
            )
        if value is None:
            continue
        number = value.item() if hasattr(value, "item") else value  # of NumPy
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise DashboardError(f"{name} must be a number, got {value!r}")
        if math.isfinite(number):
            found[name] = number
    return found
