"""The hub: where a runner puts its answers, and the dashboard finds them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from skyband.dashboard.about import About
from skyband.dashboard.board import Board, refresh
from skyband.dashboard.cells import texts
from skyband.dashboard.feed import Feed
from skyband.dashboard.figures import checked
from skyband.errors import DashboardError
from skyband.redaction import redact

if TYPE_CHECKING:
    from skyband.dashboard.parts import Group
    from skyband.query import TopK

Key = tuple[str | None, ...]
"""Names a board: the query, then the values of its group as text."""

_OPEN = 512  # boards that stay opened
_EVERY = 0.2  # seconds between two figures that are remembered
_LONGEST = 4_000  # characters of an error
_LEAST = 1 << 16  # bytes that every query may keep


class Found(NamedTuple):
    """Some of the boards that match a search."""

    total: int
    boards: list[Key]


class Hub:
    """Takes what queries answer, from any thread, and keeps the newest windows of each for those who look.

    Parameters
    ----------
    history
        How many windows of a query and group are kept.
    memory
        Bytes that all of them may take together; large answers are kept for fewer windows.

    Notes
    -----
    Cost: a few microseconds an answer, whatever is in it; boards are opened only while somebody looks at them.

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
            msg = f"history={history}, memory={memory}: write whole numbers above zero"
            raise DashboardError(msg)
        self.began = time.time()
        self.history, self.memory = history, memory
        self.state = "running"  # or "ended", "failed"
        self.trouble = ""  # the text of an error
        self.figures: dict[str, float] = {}
        self.recent: deque[tuple[float, dict[str, float]]] = deque(maxlen=300)
        self.version = 0  # of the figures and the state
        self._lock = threading.RLock()
        self._feeds: dict[str, Feed] = {}
        self._workload = Feed(history, shared=True)
        self._about: dict[str, About] = {}
        self._boards: OrderedDict[Key, Board] = OrderedDict()

    # ---------------------------------------------------------------- for the runner

    def describe(self, query: str, asked: TopK) -> None:
        """Say what a query asks: the page shows it, and knows a row again by its `id` column."""
        with self._lock:
            self._about[_name(query)] = About.of(query, asked)
            self._feeds.setdefault(query, Feed(self.history))

    def answers(self, query: str | None, table: pa.Table) -> None:
        """Take the answers of `query`; without a name, those of a workload, named by their column `query`."""
        if isinstance(table, pa.RecordBatch):
            table = pa.Table.from_batches([table])
        if not isinstance(table, pa.Table):
            msg = f"answers of type {type(table).__name__} cannot be shown: give a pyarrow.Table"
            raise DashboardError(msg)
        if not table.num_rows:
            return
        with self._lock:
            if query is None:
                self._workload.add(table, self.memory)
                assert self._workload.columns is not None
                for name in texts(pc.unique(table[self._workload.columns.per[0]])).to_pylist():
                    if self._feeds.get(name) is not self._workload:
                        self._feeds[_name(name)] = self._workload
                return
            feed = self._feeds.get(query)
            if feed is None:
                feed = self._feeds[_name(query)] = Feed(self.history)
            feed.add(table, max(_LEAST, self.memory // len(self._feeds)))

    def progress(self, figures: Mapping[str, float | None]) -> None:
        """Take figures of the run, such as rows_per_second, late or candidates; see `figures.FIGURES`."""
        fresh = checked(figures)
        now = time.time()
        with self._lock:
            self.figures = {**self.figures, **fresh}
            if not self.recent or now - self.recent[-1][0] >= _EVERY:
                self.recent.append((now, self.figures))
            self.version += 1

    def error(self, text: str | None) -> None:
        """Show that something went wrong, without what looks like a secret; None: it is over."""
        with self._lock:
            self.trouble = redact(str(text)[: 16 * _LONGEST])[:_LONGEST] if text else ""
            self.state = "failed" if text else "running"
            self.version += 1

    def finish(self) -> None:
        """Show that no more answers will come."""
        with self._lock:
            if self.state == "running":
                self.state = "ended"
            self.version += 1

    # ---------------------------------------------------------------- for the dashboard

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return len(self._feeds)

    def __contains__(self, query: object) -> bool:
        return query in self._feeds

    def per(self, query: str) -> list[str]:
        """The columns that make the groups of `query`."""
        feed = self._feeds[query]
        return list(feed.columns.per[feed.shared :]) if feed.columns is not None else []

    def about(self, query: str) -> About:
        """What is known of a query."""
        return self._about.get(query) or About(query)

    def fresh(self, query: str) -> int:
        """A number that changes with every answer of `query`."""
        feed = self._feeds.get(query)
        return 0 if feed is None else feed.rows

    def boards(self, search: str = "", offset: int = 0, limit: int = 100) -> Found:
        """The boards whose query or group holds every word of `search`, some of them."""
        words = search.casefold().split()
        found: list[Key] = []
        total = 0
        with self._lock:
            shared: dict[str | None, list[Group]] = {}
            for whole in self._workload.groups():
                shared.setdefault(whole[0], []).append(whole[1:])
            for name, feed in self._feeds.items():
                groups: Iterable[Group] = shared.get(name, []) if feed.shared else feed.groups()
                missing = [word for word in words if word not in name.casefold()]
                if missing:
                    groups = [group for group in groups if _holds(group, missing)]
                for group in groups:
                    if offset <= total < offset + limit:
                        found.append((name, *group))
                    total += 1
        return Found(total, found)

    def board(self, key: Key) -> Board | None:
        """A board with all that is new; None where there is no such query, or no answer for such a group."""
        return self.opened([key])[0]

    def opened(self, keys: Sequence[Key]) -> list[Board | None]:
        """Some boards with all that is new, read together; None for those that are not there."""
        with self._lock:
            boards = [self._board(key) for key in keys]
            refresh((board, self.about(str(key[0]))) for key, board in zip(keys, boards, strict=True) if board)
        return [board if board and board.windows else None for board in boards]

    def _board(self, key: Key) -> Board | None:
        feed = self._feeds.get(key[0] or "")
        if feed is None or feed.columns is None or len(feed.columns.per) - feed.shared != len(key) - 1:
            return None
        board = self._boards.pop(key, None)
        if board is None or board.feed is not feed:
            board = Board(feed, key if feed.shared else key[1:], self.history)
        self._boards[key] = board
        if len(self._boards) > _OPEN:
            self._boards.popitem(last=False)
        return board

    def status(self) -> dict[str, Any]:
        """The state of the run and its figures."""
        return {"state": self.state, "error": self.trouble, "queries": self.queries, "figures": self.figures}


def _name(query: object) -> str:
    if not isinstance(query, str) or not query or len(query) > 200:
        msg = f"query={query!r} is no name: write a text of 1 to 200 characters"
        raise DashboardError(msg)
    return query


def _holds(group: Group, words: list[str]) -> bool:
    text = " ".join("null" if part is None else part for part in group).casefold()
    return all(word in text for word in words)
