"""The executor of MTopS: the meta query runs moment by moment over a structure of predicted views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.mtops_extractor import Extractor
from skyband.engines.mtops_scheduler import Scheduler
from skyband.engines.protocol import Objects, OneGroupEngine, Snapshot
from skyband.engines.validation import column, object_columns, require, validate
from skyband.errors import QueryError, SnapshotError
from skyband.kernels.mtop import BLOCK, COUNT, FREE, HEAD, PEAK, ROW, STATE, TAIL, Nodes, Predicted
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skyband.engines.family import QueryFamily
    from skyband.engines.protocol import Answers


_MOMENTS = 1_000_000
_LISTS = 1 << 26
_HOLDS = {**object_columns(), "numbers": column("i8", 2), "spoke": column("?", "queries")}


class Views(ABC):
    """The nodes and views that both structures keep; views are numbered from 0 on as they open."""

    def __init__(self) -> None:
        self.base = 0  # number of the first view that is kept
        self.open_views = 0
        self.state = np.zeros(STATE, np.int64)
        self.state[[FREE, HEAD, TAIL]] = -1
        self.nodes = Nodes(*(np.empty(0, t) for t in (float, "i8", "i8", "i8", "i4", "i4", "i4")))
        none = np.empty(0, np.int64)
        self.views = Predicted(none, none, np.empty(0), np.empty(0))

    def insert(self, rows: Objects) -> None:
        """Give rows to all views that take them."""
        self.state[ROW] = 0
        while self.state[ROW] < len(rows.id):
            if self.state[FREE] < 0:
                self.more_nodes()
            self.put(rows)

    @abstractmethod
    def put(self, rows: Objects) -> None:
        """Insert rows from `state[ROW]` on, while there are free nodes."""

    @abstractmethod
    def shrink(self, number: int, k: int) -> None:
        """Let a view want k rows only; with 0 it is closed."""

    @abstractmethod
    def best(self, number: int, k: int, ids: np.ndarray, scores: np.ndarray) -> int:
        """Put the k best of view `number` into the columns; how many there are."""

    def open(self, k: int) -> int:
        """A new view at the end, for k rows; its number. Closed ones at the front are forgotten now and then."""
        if self.open_views == len(self.views.k):
            self.make_room()
        at = self.open_views
        self.views.k[at], self.views.held[at], self.views.bound[at] = k, 0, -np.inf
        self.views.least[at // BLOCK] = -np.inf
        self.open_views += 1
        self.begun(at, k)
        return self.base + at

    @abstractmethod
    def begun(self, at: int, k: int) -> None:
        """What the structure itself needs for a new view."""

    def make_room(self) -> None:
        """Forget the closed views at the front; twice the room if these are few."""
        gone = int(np.argmax(self.views.k[: self.open_views] > 0)) if self.open_views else 0
        if self.open_views and not self.views.k[: self.open_views].any():
            gone = self.open_views
        kept = self.open_views - gone
        room = max(2 * kept, BLOCK)
        room += -room % BLOCK
        k, count, bound = np.zeros(room, np.int64), np.zeros(room, np.int64), np.full(room, np.inf)
        for new, old in ((k, self.views.k), (count, self.views.held), (bound, self.views.bound)):
            new[:kept] = old[gone : self.open_views]
        self.views = Predicted(k, count, bound, bound.reshape(-1, BLOCK).min(axis=1))
        self.moved(gone, kept, room)
        self.base += gone
        self.open_views = kept

    def extra(self) -> int:
        """Bytes that the structure itself keeps for its views."""
        return 4 * self.open_views

    @abstractmethod
    def moved(self, gone: int, kept: int, room: int) -> None:
        """What the structure itself keeps for each view, moved to the front."""

    def more_nodes(self) -> None:
        """Twice the nodes, the new ones chained as free."""
        old = len(self.nodes.next)
        new = max(2 * old, 64)
        self.nodes = Nodes(*(np.concatenate([c, np.empty(new - old, c.dtype)]) for c in self.nodes))
        self.nodes.next[old:] = np.arange(old + 1, new + 1)
        self.nodes.next[-1] = self.state[FREE]
        self.state[FREE] = old

    def held(self) -> np.ndarray:
        """The nodes in use, best first."""
        free, node = np.zeros(len(self.nodes.next), np.bool_), int(self.state[FREE])
        while node >= 0:
            free[node] = True
            node = int(self.nodes.next[node])
        used = np.flatnonzero(~free)
        return used[np.lexsort((-self.nodes.id[used], -self.nodes.score[used]))]


def _check_moments(family: QueryFamily) -> None:
    """Raise unless the views that may be open at once, and the moments at which they begin and end, are few enough."""
    longest = max((member.clock.size for member in family.members), default=0)
    shortest = min((member.clock.slide for member in family.members), default=1)
    if longest // shortest > _MOMENTS:
        msg = (
            f"mtoplist and mtopband open a view for every window: the longest size must be at most {_MOMENTS:,} times "
            f"the shortest slide, got {longest // shortest:,} times: write engine='sweep'"
        )
        raise QueryError(msg)


def check_lists(family: QueryFamily) -> None:
    """Raise unless there is memory for the k best rows of every view that may be open at once."""
    lists = sum(member.k * member.clock.ratio for member in family.members)
    if lists > _LISTS:
        msg = (
            f"engine='mtopband' keeps k rows of every open window: these must be at most {_LISTS:,}, got {lists:,}: "
            f"write engine='sweep'"
        )
        raise QueryError(msg)


class Meta(OneGroupEngine):
    """Runs a family of one group over a structure: rows come in, views open and close, answers are extracted."""

    structure: type[Views]

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        self._members, self._is_single = family.members, family.is_single
        _check_moments(family)
        self._clocks = [member.clock for member in family.members]
        self._held = self.structure()
        self._extractor = Extractor(self._held, max((m.k for m in family.members), default=1))
        self._plan: Scheduler | None = None
        self._tenants: dict[int, tuple[int, dict[int, int]]] = {}  # by start: the view's number, and who wants how many
        self._spoke = np.zeros(family.numbers, np.bool_)
        self._done = MIN_TIME
        self.peak = 0
        if resume is not None:
            self._restore(resume)

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:  # noqa: ARG002
        """Take `arrivals`, then close every window that ends by `upto`."""
        goal, row, time = int(np.asarray(upto).item()), 0, arrivals.time
        self._extractor.clear()
        while True:
            plan = self._awake(int(time[row]) if row < len(time) else None)
            if plan is None:
                break
            now = plan.upcoming
            stop = int(np.searchsorted(time, now)) if now <= goal else len(time)
            if stop > row:
                self._held.insert(Objects(*(column[row:stop] for column in arrivals[:3])))
            row = stop
            if now > goal:
                break
            self._moment(plan)
        self._done = max(self._done, goal)
        self.peak = int(self._held.state[PEAK])
        answers = self._extractor.answers()
        return answers._replace(query=None) if self._is_single else answers

    def _awake(self, upcoming: int | None) -> Scheduler | None:
        """The plan; where nothing is kept and none has an empty window to tell, it goes on at the next row."""
        if self._plan is None or (not self._held.state[COUNT] and not self._spoke.any()):
            if upcoming is None:
                return None
            self._begin(max(upcoming, self._done))
        return self._plan

    def _begin(self, since: int) -> None:
        """Begin anew at `since`, with the views of all windows that hold it."""
        for start in list(self._tenants):
            self._close(start)
        self._plan = Scheduler(self._members, since)
        places: dict[int, list[int]] = {}
        for at, clock in enumerate(self._clocks):
            for number in range(clock.first(since), clock.last(since) + 1):
                places.setdefault(clock.start(number), []).append(at)
        for start, found in sorted(places.items()):
            self._open(start, found)

    def _open(self, start: int, places: Iterable[int]) -> None:
        """Open the view at `start`, for the members at these places."""
        members = self._members
        wants = {at: members[at].k for at in places if members[at].low <= start < members[at].high}
        if wants:
            self._tenants[start] = (self._held.open(max(wants.values())), wants)

    def _close(self, start: int) -> None:
        number, _ = self._tenants.pop(start)
        self._held.shrink(number, 0)

    def _moment(self, plan: Scheduler) -> None:
        """What the scheduler says is next: answers first, then new views."""
        moment = plan.next()
        for at in moment.close:
            member = self._members[at]
            start = moment.time - self._clocks[at].size
            number, wants = self._tenants.get(start, (-1, {}))
            if at not in wants:
                if self._spoke[member.number] and member.low <= start < member.high:
                    self._spoke[member.number] = False
                    self._extractor.say_nothing(member, start, moment.time)
                continue
            del wants[at]
            told = self._spoke[member.number]
            self._spoke[member.number] = self._extractor.extract(member, number, start, moment.time, told=bool(told))
            if not wants:
                self._close(start)
            elif max(wants.values()) < self._held.views.k[number - self._held.base]:
                self._held.shrink(number, max(wants.values()))
        if moment.open:
            self._open(moment.time, moment.open)

    def candidates(self) -> Objects:
        """Exactly the minimal set, best first."""
        held, nodes = self._held.held(), self._held.nodes
        return Objects(nodes.score[held], nodes.time[held], nodes.id[held])

    def snapshot(self) -> Snapshot:
        """The objects kept and how far it has come: the views follow from them (theorem 5.1)."""
        kept = self.candidates()
        numbers = np.array([self._done, self.peak], np.int64)
        return {"score": kept.score, "time": kept.time, "id": kept.id, "numbers": numbers, "spoke": self._spoke.copy()}

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        saved = validate(resume, _HOLDS, queries=len(self._spoke))
        done, peak = (int(n) for n in saved["numbers"])
        order = np.argsort(saved["id"])
        rows = Objects(saved["score"], saved["time"], saved["id"]).take(order)
        require((np.diff(rows.id) > 0) & (np.diff(rows.time) >= 0), "its rows are in no order of time and id")
        longest = max((clock.size for clock in self._clocks), default=0)
        require((done == MIN_TIME) | (rows.time >= done - 2 * longest), "a row lies far before what is done")
        if len(order):
            self.advance(rows, done)  # closes again what was closed, without a word
            self._extractor.clear()
        self._spoke[:] = saved["spoke"]
        if self._plan is None and self._spoke.any():
            self._begin(done)
        self._done = done
        if self._held.state[COUNT] != len(order):
            msg = f"{self._held.state[COUNT]} of {len(order)} saved rows matter: the snapshot is of another query"
            raise SnapshotError(msg)
        self.peak = self._held.state[PEAK] = peak

    def bytes(self) -> int:
        """What the objects and the views take, without room that is free."""
        held, row = self._held, sum(column.itemsize for column in self._held.nodes)
        return int(held.state[COUNT]) * row + held.open_views * 24 + held.extra()

    def owes_empty_list(self) -> bool:
        """Return whether the last list of any query had rows."""
        return bool(self._spoke.any())
