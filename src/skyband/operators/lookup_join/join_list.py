"""One ranked list of a join: that of a query, or of one group of it. The lists of a join share the replica."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from skyband.engines.validation import MAX_WINDOWS_AHEAD, require, typed_column, validate
from skyband.errors import QueryError
from skyband.operators.lookup_join.policies import resolve_policy
from skyband.windows import MIN_TIME, WindowAssigner

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.operators.lookup_join.policies import Candidates
    from skyband.operators.lookup_join.remote_rows import RemoteRows
    from skyband.query import TopK
    from skyband.runtime.protocols import Context

NO_WINDOW = -(1 << 62)
"""Before all windows."""

_NO_KEYS = np.empty(0, np.int64)
_COLUMNS = {
    "windows": typed_column("i8", 2),
    "latest": typed_column("i8", 1),
    "newest_time": typed_column("i8", "keys"),
}


class Arrivals(NamedTuple):
    """Rows of a list in the order of time."""

    time: np.ndarray
    id: np.ndarray
    key: np.ndarray
    chosen: np.ndarray  # places of the rows that are objects: mostly the newest row of each key in each pane
    rows: pa.Table | None = None  # what scores need of the chosen rows
    values: Sequence[np.ndarray] = ()  # of all rows: what is aggregated

    def slice(self, low: int, high: int) -> Arrivals:
        """Return the rows from `low` to `high`."""
        first, last = np.searchsorted(self.chosen, [low, high])
        rows = None if self.rows is None else self.rows.slice(first, last - first)
        time, ids, key = (column[low:high] for column in self[:3])
        values = [value[low:high] for value in self.values]
        return Arrivals(time, ids, key, self.chosen[first:last] - low, rows, values)

    def choose(self, which: np.ndarray) -> Arrivals:
        """Return the same rows with fewer chosen ones: those that `which` marks."""
        places = np.flatnonzero(which)
        rows = None if self.rows is None else self.rows.take(places)
        return self._replace(chosen=self.chosen[places], rows=rows)


_NO_ARRIVALS = Arrivals(_NO_KEYS, _NO_KEYS, _NO_KEYS, _NO_KEYS)


class ListAnswer(NamedTuple):
    """The k best of a window."""

    id: np.ndarray
    key: np.ndarray
    score: np.ndarray
    place: np.ndarray  # of the remote row in the replica
    status: np.ndarray
    values: Sequence[np.ndarray] = ()  # aggregates over the window
    incomplete: bool = False  # whether it is short, and a forgotten object may belong in it


class JoinList(ABC):
    """Takes rows in the order of time, and knows which of its windows closes next."""

    peak: int
    """The most objects ever kept at once."""
    shares_replica: bool = False
    """Whether there may be other lists: of other groups, or of other queries."""

    def __init__(
        self, place: int, query: TopK, remote: RemoteRows, context: Context, window: int | None = None
    ) -> None:
        assert query.join is not None
        self.place, self.query, self.join = place, query, query.join
        self.remote, self.context = remote, context
        self._columns = score_columns(query, context.schema)
        self.assigner = WindowAssigner.of(query.window)
        self.policy = resolve_policy(self.join.refresh.policy)
        self.unlimited = bool(getattr(self.policy, "unlimited", False))
        self.window = window  # the next to close; None: the first that holds a row
        self.last_window = NO_WINDOW  # the last that holds a row
        self.latest = MIN_TIME  # the time of the newest row
        self.newest_time = np.empty(0, np.int64)  # by key: the time of its newest row
        self._arrivals, self._taken = _NO_ARRIVALS, 0

    # ------------------------------------------------------------ rows in

    def offer(self, arrivals: Arrivals | None) -> None:
        """Set the rows that the next windows may take."""
        self._arrivals, self._taken = _NO_ARRIVALS if arrivals is None else arrivals, 0

    def next_end(self, reached: int) -> int | None:
        """Return when the next window that holds a row ends; None if no row has come for it.

        Windows that end by `reached` have closed.
        """
        if self.window is None or self.window > self.last_window:  # it holds no row: go on to the next that does
            if self._taken == len(self._arrivals.time):
                return None
            first = max(self.assigner.first(int(self._arrivals.time[self._taken])), self.assigner.first(reached))
            self.window = first if self.window is None else max(first, self.window)
        return self.assigner.end(self.window)

    def take(self, before: int) -> Iterator[tuple[int, Arrivals]]:
        """Yield the offered rows before a moment, pane by pane, with the end of each pane; `add` takes them."""
        stop = int(np.searchsorted(self._arrivals.time, before))
        if stop <= self._taken:
            return
        arrivals = self._arrivals.slice(self._taken, stop)
        self._taken = stop
        arrivals = self._observe(arrivals)
        time = arrivals.time
        pane = np.asarray(self.assigner.pane(time))
        cuts = [0, *(np.flatnonzero(np.diff(pane)) + 1).tolist(), len(pane)]
        for low, high in zip(cuts, cuts[1:], strict=False):
            yield min(int(self.assigner.pane_end(int(time[low]))), before), arrivals.slice(low, high)

    def _observe(self, arrivals: Arrivals) -> Arrivals:
        """Note the times of rows; return the rows, of closed panes only those that may be in an open window."""
        self.make_room()
        time, key = arrivals.time, arrivals.key
        self.last_window = max(self.last_window, int(self.assigner.last(int(time[-1]))))
        if time[0] >= self.latest:
            self.newest_time[key] = time  # in the order of time: the newest stays
            self.latest = int(time[-1])
            return arrivals
        arrivals = self._without_replaced(arrivals)
        np.maximum.at(self.newest_time, key, time)
        self.latest = max(self.latest, int(time[-1]))
        return arrivals

    def _without_replaced(self, arrivals: Arrivals) -> Arrivals:
        """Return rows without objects that a newer row of their key, taken before, has replaced."""
        return arrivals

    @abstractmethod
    def add(self, arrivals: Arrivals) -> None:
        """Take the rows of a pane."""

    def close_window(self) -> None:
        """Go on to the next window."""
        assert self.window is not None
        self.window += 1
        self.expire(self.window)

    @abstractmethod
    def expire(self, oldest: int) -> None:
        """Forget what belongs to windows before `oldest` only."""

    # ------------------------------------------------------------ what to look up

    def unread_keys(self, now: int) -> np.ndarray:
        """Return keys to be read for the first time, the newest first.

        A key that was absent is read again after the length of a window, or at once if the budget does not apply.
        """
        if self.join.refresh.policy == "never":
            return _NO_KEYS
        self.make_room()
        keys = self._unread(now if self.unlimited else now - self.assigner.size)
        return keys[np.lexsort((~self.remote.ties(keys), -self.newest_time[keys]))] if len(keys) else keys

    @abstractmethod
    def _unread(self, before: int) -> np.ndarray:
        """Return the keys without a remote row that were never read, or not since `before`."""

    def refresh_keys(self, room: int, now: int) -> np.ndarray:
        """Return the keys that the policy wants to read again, the most wanted first."""
        candidates = self.candidates()
        if not len(candidates.id) or (room <= 0 and not self.unlimited):
            return _NO_KEYS
        return self._check_ids(self.policy(candidates, self.remote.replica, room, now), candidates.id)

    def _check_ids(self, chosen: object, known: np.ndarray) -> np.ndarray:
        """Return what a policy has chosen, each id once; raise if that is not among the candidates."""
        ids = np.asarray(chosen if isinstance(chosen, np.ndarray) else list(cast("Iterable[int]", chosen or [])))
        if ids.ndim == 1 and (not len(ids) or (ids.dtype.kind in "iu" and np.isin(ids, known).all())):
            return ids.astype(np.int64)[np.sort(np.unique(ids, return_index=True)[1])]
        policy = self.join.refresh.policy
        name = getattr(policy, "__name__", str(policy))
        few = np.array2string(ids.ravel()[:3], separator=", ")
        raise QueryError(f"policy={name} must return ids of the candidates, got {few}: return some of candidates.id")

    @abstractmethod
    def candidates(self) -> Candidates:
        """Return what the policy may choose from, for the window that closes next."""

    @abstractmethod
    def waits_for(self, keys: np.ndarray) -> np.ndarray:
        """Return which keys have rows that wait for a score."""

    @abstractmethod
    def update(self, keys: np.ndarray) -> None:
        """Compute the scores of objects whose remote rows have changed."""

    @abstractmethod
    def answer(self) -> ListAnswer:
        """Return the k best of the window that closes next."""

    # ------------------------------------------------------------ what is kept

    @abstractmethod
    def __len__(self) -> int:
        """Return how many objects are kept."""

    @abstractmethod
    def live_ids(self) -> np.ndarray:
        """Return the ids of rows that are still needed."""

    @abstractmethod
    def kept_keys(self) -> np.ndarray:
        """Return the keys of what is kept."""

    def open_keys(self) -> np.ndarray:
        """Return the keys of the windows still open."""
        if self.window is None:
            return _NO_KEYS
        return np.flatnonzero(self.newest_time >= self.assigner.start(self.window))

    def is_idle(self) -> bool:
        """Return whether nothing is kept, and no window is open."""
        return (self.window is None or self.window > self.last_window) and not len(self)

    def make_room(self) -> None:
        """Have room for all keys."""
        more = len(self.remote.keys) - len(self.newest_time)
        if more > 0:
            self.newest_time = np.concatenate([self.newest_time, np.full(more, MIN_TIME)])

    def keep_keys(self, codes: np.ndarray, number: np.ndarray) -> None:
        """Forget all keys but these; `number` has the new number of each. Their order stays."""
        del number
        self.newest_time = self.newest_time[codes]

    def snapshot(self) -> dict[str, Any]:
        """Return all that is needed to go on elsewhere."""
        window = NO_WINDOW if self.window is None else self.window
        return {
            "windows": np.array([window, self.last_window], np.int64),
            "latest": np.array([self.latest], np.int64),
            "newest_time": self.newest_time,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        found = validate(saved, _COLUMNS)
        window, self.last_window = (int(x) for x in found["windows"])
        self.window = None if window == NO_WINDOW else window
        near = NO_WINDOW in (self.last_window, window) or self.last_window - window < MAX_WINDOWS_AHEAD
        require(near, "a window lies far away")
        self.latest, self.newest_time = int(found["latest"][0]), found["newest_time"]
        require(len(self.newest_time) <= len(self.remote.keys), "there are rows of keys that never came")


def score_columns(query: TopK, schema: pa.Schema) -> list[str] | None:
    """Return the stream columns that scores need, and the key; None: all, since a function may use any."""
    assert query.join is not None
    used = getattr(query.by, "columns", None)
    if used is None:
        return None
    return list(dict.fromkeys([query.join.on, *(name for name in used if name in schema.names)]))
