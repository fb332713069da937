"""One ranked list of a join: that of a query, or of one group of it. Boards of one join share the replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from skyband.errors import QueryError
from skyband.join.policies import named
from skyband.join.summed import Summed
from skyband.join.valued import Valued
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from skyband.join.pipeline import JoinPipeline
    from skyband.join.replica import Replica
    from skyband.query import TopK
    from skyband.query.expression import Expression
    from skyband.query.join import Choose, Join
    from skyband.runtime.batch import PreparedBatch
    from skyband.runtime.time_type import TimeType

LONG_AGO = -(1 << 62)
_NO_ROWS = np.empty(0, np.int64)


class Board:
    """Takes rows in the order of time, and knows which of its windows closes next."""

    def __init__(self, line: JoinPipeline, number: int, query: TopK, group: int = 0) -> None:
        assert query.join is not None
        self.line, self.number, self.query, self.group = line, number, query, group
        self.join: Join = query.join
        self.clock = WindowAssigner.of(query.window)
        self.policy: Choose = named(self.join.refresh.policy)
        self.unlimited = bool(getattr(self.policy, "unlimited", False))
        getattr(self.policy, "ready", int)()  # not at the first answer, whose deadline is running
        self.window: int | None = line.since(self.clock)  # the next to close
        self.reach = LONG_AGO  # the last window that holds a row
        self.arrived = np.empty(0, np.int64)  # when each key's newest row came
        self.held: Valued | Summed = (Summed if self.join.aggregates else Valued)(self)
        self.hand(None, _NO_ROWS)

    # ------------------------------------------------------------ rows in

    def hand(self, part: PreparedBatch | None, key: np.ndarray) -> None:
        """Rows that the windows to come may take, in the order of time, and the numbers of their keys."""
        self._part, self._key, self._at = part, key, 0
        self._time = _NO_ROWS if part is None else part.time

    def upcoming(self) -> int | None:
        """When the next window that holds a row ends; None if there is no such row yet."""
        if self.window is None or self.window > self.reach:  # no row in it: on to the next that has one
            if self._at == len(self._time):
                return None
            first = int(self.clock.first(self._time[self._at]))
            self.window = first if self.window is None else max(first, self.window)
        return self.clock.end(self.window)

    def take(self, before: int) -> None:
        """Take the rows before a moment, pane by pane, with the pushed changes of their pane before them."""
        stop = int(np.searchsorted(self._time, before))
        if self._part is None or stop <= self._at:
            return
        part, key = self._part.take(slice(self._at, stop)), self._key[self._at : stop]
        self._at = stop
        self.grow()
        pane = np.asarray(self.clock.pane(part.time))
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(pane)) + 1, [len(pane)]])
        self.arrived[key] = part.time  # rows come by time: the newest stays
        self.reach = max(self.reach, int(self.clock.last(part.time[-1])))
        places = self.held.places(pane, key)
        for low, high in zip(cuts, cuts[1:], strict=False):
            self.line.apply_pushed(min(int(self.clock.pane_end(part.time[low])), before))
            inside = places[np.searchsorted(places, low) : np.searchsorted(places, high)] - low
            self.held.take(part.take(slice(int(low), int(high))), key[low:high], inside)

    def close(self) -> None:
        """The window is answered: on to the next."""
        assert self.window is not None
        self.window += 1
        self.held.expire(self.window)

    def idle(self) -> bool:
        """Whether it keeps nothing, and no window of it is open."""
        return (self.window is None or self.window > self.reach) and not len(self.held)

    def needed(self) -> np.ndarray:
        """The keys of the windows still open."""
        if self.window is None:
            return _NO_ROWS
        return np.flatnonzero(self.arrived >= self.clock.start(self.window))

    # ------------------------------------------------------------ what to look up

    def unread(self, now: int) -> np.ndarray:
        """Keys to be read for the first time; what was found absent may have come to be, and is asked for again."""
        if self.join.refresh.policy == "never":
            return _NO_ROWS
        self.grow()
        # again after a window's length, or at once where no budget binds
        return self.held.unread(now if self.unlimited else now - self.clock.size)

    def wishes(self, room: int, now: int) -> np.ndarray:
        """Keys that its policy wants to read again, the most wanted first."""
        assert self.window is not None
        candidates = self.held.candidates(self.window, now)
        if not len(candidates.id) or (room <= 0 and not self.unlimited):
            return _NO_ROWS
        return self._ids(self.policy(candidates, self.replica, room, now), candidates.id)

    def _ids(self, chosen: object, known: np.ndarray) -> np.ndarray:
        """What a policy gave, each id once; an error that names the policy where that is none."""
        ids = np.asarray(chosen if isinstance(chosen, np.ndarray) else list(cast("Iterable[int]", chosen or [])))
        if ids.ndim == 1 and (not len(ids) or (ids.dtype.kind in "iu" and np.isin(ids, known).all())):
            return ids.astype(np.int64)[np.sort(np.unique(ids, return_index=True)[1])]
        name = getattr(self.join.refresh.policy, "__name__", str(self.join.refresh.policy))
        few = np.array2string(ids.ravel()[:3], separator=", ")
        msg = f"policy={name} gave {few}, which are no ids of the candidates: return some of candidates.id"
        raise QueryError(msg)

    # ------------------------------------------------------------ what lists ask for

    @property
    def schema(self) -> pa.Schema:
        """The stream's columns."""
        return self.line.schema

    @property
    def time(self) -> TimeType | None:
        """How the time column counts."""
        return self.line.time

    @property
    def replica(self) -> Replica:
        """What was read of the remote side."""
        return self.line.replica

    @property
    def keys(self) -> Any:
        """The keys by number."""
        return self.line.keys

    def grow(self) -> None:
        """Room for all keys known."""
        self.grow_to(len(self.line.keys))

    def grow_to(self, keys: int) -> None:
        """Room for so many keys."""
        more = keys - len(self.arrived)
        if more > 0:
            self.arrived = np.concatenate([self.arrived, np.full(more, LONG_AGO)])

    def seen(self, codes: np.ndarray) -> np.ndarray:
        """When each key's newest row came."""
        self.grow()
        return self.arrived[codes]

    def ties(self, codes: np.ndarray) -> np.ndarray:
        """Numbers that break ties between keys: the larger first."""
        return self.line.ties(codes)

    def key_values(self, codes: np.ndarray) -> pa.Array:
        """The keys themselves."""
        return self.line.key_values(codes)

    def scored(self, rows: pa.Table, places: np.ndarray, by: Expression | None = None) -> np.ndarray:
        """The scores of stream rows with the remote rows at these places; larger is better, NaN is none."""
        return self.line.scored(self.query, rows, places, by)

    def miss(self, count: int) -> None:
        """So many objects have a remote row and no score."""
        self.line.miss(count)
