"""The base of mtoplist and mtopband: the meta query of a workload, what happens at each moment, and the views."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from skyband.engines.protocol import Answers, Objects, OneGroupEngine, Snapshot
from skyband.engines.validation import object_columns, require, typed_column, validate
from skyband.errors import QueryError, SnapshotError
from skyband.kernels.mtop import BLOCK, COUNT, FREE, HEAD, PEAK, ROW, STATE, TAIL, Nodes, Predicted
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from skyband.engines.family import FamilyMember, QueryFamily


class View(NamedTuple):
    """A predicted view: what is known of all windows that begin at one moment.

    `serves` are the numbers of the queries that have a window here, `k` is the largest of theirs (adaptive k), and
    `end` is when the last of these windows closes.
    """

    start: int
    k: int
    end: int
    serves: tuple[int, ...]


@dataclass(frozen=True)
class MetaQuery:
    """The meta query of a workload: its window is the longest, its slide and its k adapt.

    Examples
    --------
    Example 4.2 of the paper, in seconds: at 8 there are five views.

    >>> import skyband as sb
    >>> from skyband.workload.family import families
    >>> def query(size, slide, origin=0):
    ...     window = sb.Sliding(f"{size} us", f"{slide} us", origin=f"{origin} us")
    ...     return sb.TopK(k=2, by="x", window=window, time="t")
    >>> meta = analyze(families([query(8, 4), query(6, 3, 2), query(4, 2)])[0])
    >>> meta.window, [view.start for view in meta.views(8)], [meta.slide(t) for t in (8, 10, 11)]
    (8, [0, 2, 4, 5, 6], [2, 1, 1])

    References
    ----------
    Shastri et al., "MTopS: Scalable Processing of Continuous Top-K Multi-Query Workloads", CIKM 2011, section 4.
    Errata: example 4.1 announces six views and lists five; example 4.2 counts nine views of independent
    queries, which is so only if those that begin at that moment count (then the meta query has six).
    """

    members: tuple[FamilyMember, ...]

    @property
    def window(self) -> int:
        """The size of the longest window of the workload."""
        return max(member.clock.size for member in self.members)

    def slide(self, time: int) -> int:
        """Return how far it is from `time` to the next moment at which some query must answer."""
        return min(member.clock.end(member.clock.first(time)) for member in self.members) - time

    def views(self, time: int, *, beginning: bool = False, ending: bool = True) -> list[View]:
        """Return the views at `time`, oldest first: of the windows that began before it and end then or later.

        With `beginning`, those that begin right then too; without `ending`, those that end right then no more.
        """
        found: dict[int, list[tuple[int, int, int]]] = {}
        for member in self.members:
            clock = member.clock
            for number in range(
                clock.first(time - 1 if ending else time), clock.last(time if beginning else time - 1) + 1
            ):
                if member.low <= clock.start(number) < member.high:
                    found.setdefault(clock.start(number), []).append((member.k, clock.end(number), member.number))
        return [
            View(start, max(k for k, _, _ in held), max(e for _, e, _ in held), tuple(n for _, _, n in held))
            for start, held in sorted(found.items())
        ]

    def alone(self, time: int, *, beginning: bool = False, ending: bool = True) -> int:
        """Return how many views the queries would keep at `time` without sharing."""
        return sum(len(view.serves) for view in self.views(time, beginning=beginning, ending=ending))


def analyze(family: QueryFamily) -> MetaQuery:
    """Return the meta query of a family."""
    return MetaQuery(family.members)


class Moment(NamedTuple):
    """What happens at one moment: first the answers, by the order of the queries, then the openings."""

    time: int
    close: tuple[int, ...]  # places of members whose window ends here: answer them
    open: tuple[int, ...]  # places of members whose window begins here


class Scheduler:
    """Says moment by moment what the queries of a workload need. The paper names its task and gives no algorithm.

    Two heaps, of the next start and the next end of every query: O(log q) for a window that begins or ends.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.workload.family import families
    >>> def query(size, slide):
    ...     return sb.TopK(k=1, by="x", window=sb.Sliding(f"{size} us", f"{slide} us"), time="t")
    >>> plan = Scheduler(families([query(4, 2), query(6, 3)])[0].members, since=0)
    >>> plan.next(), plan.next().time
    (Moment(time=2, close=(0,), open=(0,)), 3)

    References
    ----------
    Shastri et al., CIKM 2011, sections 3 (RMQS) and 4.4.
    """

    def __init__(self, members: Sequence[FamilyMember], since: int) -> None:
        self.members = tuple(members)
        self.skip(since)

    def skip(self, since: int) -> None:
        """Continue with what happens after `since`."""
        self._starts = [(m.clock.start(m.clock.last(since) + 1), at) for at, m in enumerate(self.members)]
        self._ends = [(m.clock.end(m.clock.first(since)), at) for at, m in enumerate(self.members)]
        heapify(self._starts)
        heapify(self._ends)

    @property
    def upcoming(self) -> int:
        """When something happens next."""
        return min(self._starts[0][0], self._ends[0][0])

    def next(self) -> Moment:
        """Return what happens next; the next call returns what follows."""
        now = self.upcoming
        return Moment(now, tuple(self._due(self._ends, now)), tuple(self._due(self._starts, now)))

    def _due(self, heap: list[tuple[int, int]], now: int) -> list[int]:
        found = []
        while heap[0][0] == now:
            at = heap[0][1]
            found.append(at)
            heapreplace(heap, (now + self.members[at].clock.slide, at))
        return found


_MAX_MOMENTS = 1_000_000
_MAX_LISTS = 1 << 26
_COLUMNS = {**object_columns(), "numbers": typed_column("i8", 2), "spoke": typed_column("?", "queries")}


class ViewStore(ABC):
    """The nodes and predicted views that both structures keep; views are numbered from 0 on as they open."""

    def __init__(self) -> None:
        self.base = 0  # number of the first view that is kept
        self.open_views = 0
        self.state = np.zeros(STATE, np.int64)
        self.state[[FREE, HEAD, TAIL]] = -1
        self.nodes = Nodes(*(np.empty(0, t) for t in (float, "i8", "i8", "i8", "i4", "i4", "i4")))
        none = np.empty(0, np.int64)
        self.views = Predicted(none, none, np.empty(0), np.empty(0))

    def insert(self, rows: Objects) -> None:
        """Insert rows into all views that take them."""
        self.state[ROW] = 0
        while self.state[ROW] < len(rows.id):
            if self.state[FREE] < 0:
                self.grow_nodes()
            self.insert_while_free(rows)

    @abstractmethod
    def insert_while_free(self, rows: Objects) -> None:
        """Insert rows from `state[ROW]` on, while there are free nodes."""

    @abstractmethod
    def shrink(self, number: int, k: int) -> None:
        """Reduce a view to k rows; 0 closes it."""

    @abstractmethod
    def best(self, number: int, k: int, ids: np.ndarray, scores: np.ndarray) -> int:
        """Write the k best of view `number` to the columns; return how many there are."""

    @abstractmethod
    def view_opened(self, at: int, k: int) -> None:
        """Prepare what the structure itself keeps for a new view."""

    @abstractmethod
    def views_moved(self, gone: int, kept: int, capacity: int) -> None:
        """Move what the structure itself keeps for each view to the front."""

    def open(self, k: int) -> int:
        """Open a view for k rows behind all others; return its number."""
        if self.open_views == len(self.views.k):
            self._make_space()
        at = self.open_views
        self.views.k[at], self.views.held[at], self.views.bound[at] = k, 0, -np.inf
        self.views.least[at // BLOCK] = -np.inf
        self.open_views += 1
        self.view_opened(at, k)
        return self.base + at

    def _make_space(self) -> None:
        """Forget the closed views at the front; double the capacity if these are few."""
        wanted = self.views.k[: self.open_views] > 0
        gone = int(np.argmax(wanted)) if wanted.any() else self.open_views
        kept = self.open_views - gone
        capacity = max(2 * kept, BLOCK)
        capacity += -capacity % BLOCK
        k, count, bound = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64), np.full(capacity, np.inf)
        for new, old in ((k, self.views.k), (count, self.views.held), (bound, self.views.bound)):
            new[:kept] = old[gone : self.open_views]
        self.views = Predicted(k, count, bound, bound.reshape(-1, BLOCK).min(axis=1))
        self.views_moved(gone, kept, capacity)
        self.base += gone
        self.open_views = kept

    def extra_bytes(self) -> int:
        """Return what the structure itself keeps for its views."""
        return 4 * self.open_views

    def grow_nodes(self) -> None:
        """Double the nodes, the new ones chained as free."""
        old = len(self.nodes.next)
        new = max(2 * old, 64)
        self.nodes = Nodes(*(np.concatenate([c, np.empty(new - old, c.dtype)]) for c in self.nodes))
        self.nodes.next[old:] = np.arange(old + 1, new + 1)
        self.nodes.next[-1] = self.state[FREE]
        self.state[FREE] = old

    def used_nodes(self) -> np.ndarray:
        """Return the nodes in use, best first."""
        free, node = np.zeros(len(self.nodes.next), np.bool_), int(self.state[FREE])
        while node >= 0:
            free[node] = True
            node = int(self.nodes.next[node])
        used = np.flatnonzero(~free)
        return used[np.lexsort((-self.nodes.id[used], -self.nodes.score[used]))]


class Extractor:
    """Collects answers: at the end of a query's window, the first k rows of its view, best first.

    A view may serve several queries and hold more rows than this one asks for; in MTopList it also shares its list with
    all other views. The paper names the task and gives no algorithm.

    Cost: O(k) an answer in MTopBand, O(rows on the list above the k-th) in MTopList.

    References
    ----------
    Shastri et al., CIKM 2011, section 3 (QRE) and lemma 6.3. Erratum: section 6.2 takes the answer to be the first
    k of the list, which is so only if the window that closes is the oldest; with windows of different sizes it need
    not be, so rows that came before it began are skipped.
    """

    def __init__(self, store: ViewStore, most: int) -> None:
        self._store = store
        self._most = most
        self._ids, self._scores = np.empty(max(most, 1024), np.int64), np.empty(max(most, 1024))
        self.clear()

    def clear(self) -> None:
        """Begin a new collection."""
        self._lists: list[tuple[int, int, int]] = []
        self._first = [0]

    def extract(self, member: FamilyMember, number: int, start: int, end: int, *, owes_empty: bool) -> bool:
        """Answer `member` from view `number`; return whether there are rows. An empty list is added if it is owed."""
        at = self._first[-1]
        if at + self._most > len(self._ids):
            more = len(self._ids) + self._most
            self._ids = np.concatenate([self._ids, np.empty(more, np.int64)])
            self._scores = np.concatenate([self._scores, np.empty(more)])
        found = self._store.best(number, member.k, self._ids[at:], self._scores[at:])
        if found or owes_empty:
            self.add(member, start, end, found)
        return found > 0

    def add(self, member: FamilyMember, start: int, end: int, rows: int = 0) -> None:
        """Add a list of so many rows for a window of `member`."""
        clock = member.clock
        self._lists.append(((start - clock.origin) // clock.slide, end, member.number))
        self._first.append(self._first[-1] + rows)

    def answers(self) -> Answers:
        """Return all that was collected."""
        step, end, query = np.array(self._lists, np.int64).reshape(-1, 3).T.copy()
        first, rows = np.array(self._first, np.int64), slice(self._first[-1])
        group = np.zeros(len(step), np.int32)
        return Answers(step, end, group, first, self._ids[rows].copy(), self._scores[rows].copy(), query=query)


class MTopSEngine(OneGroupEngine):
    """Runs a family over a structure of views: rows come in, views open and close, answers are extracted."""

    store_class: ClassVar[type[ViewStore]]

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        self._members, self._is_single = family.members, family.is_single
        self._clocks = [member.clock for member in family.members]
        self._check_moments()
        self._store = self.store_class()
        self._extractor = Extractor(self._store, max((m.k for m in family.members), default=1))
        self._scheduler: Scheduler | None = None
        self._views: dict[int, tuple[int, dict[int, int]]] = {}  # by start: the view's number, and the k of each member
        self._spoke = np.zeros(family.numbers, np.bool_)  # whose last list had rows
        self._done = MIN_TIME
        self.peak = 0
        if resume is not None:
            self._restore(resume)

    def _check_moments(self) -> None:
        """Raise unless the views that may be open at once, and the moments at which they begin and end, are few."""
        longest = max((clock.size for clock in self._clocks), default=0)
        shortest = min((clock.slide for clock in self._clocks), default=1)
        if longest // shortest > _MAX_MOMENTS:
            raise QueryError(
                f"mtoplist and mtopband open a view for every window: the longest size must be at most "
                f"{_MAX_MOMENTS:,} times the shortest slide, got {longest // shortest:,} times: write engine='sweep'"
            )

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:  # noqa: ARG002
        """Take `arrivals`, then close every window that ends by `upto`."""
        goal, row, time = int(np.asarray(upto).item()), 0, arrivals.time
        self._extractor.clear()
        while (scheduler := self._schedule(int(time[row]) if row < len(time) else None)) is not None:
            now = scheduler.upcoming
            stop = int(np.searchsorted(time, now)) if now <= goal else len(time)
            if stop > row:
                self._store.insert(arrivals.take(slice(row, stop)))
            row = stop
            if now > goal:
                break
            self._run_moment(scheduler)
        self._done = max(self._done, goal)
        self.peak = int(self._store.state[PEAK])
        answers = self._extractor.answers()
        return answers._replace(query=None) if self._is_single else answers

    def _schedule(self, upcoming: int | None) -> Scheduler | None:
        """Return the scheduler; where nothing is kept and no empty window is owed, it skips to the next row."""
        if self._scheduler is None or not (self._store.state[COUNT] or self.owes_empty_list()):
            if upcoming is None:
                return None
            self._begin(max(upcoming, self._done))
        return self._scheduler

    def _begin(self, since: int) -> None:
        """Begin anew at `since`, with the views of all windows that hold it."""
        for start in list(self._views):
            self._close(start)
        self._scheduler = Scheduler(self._members, since)
        places: dict[int, list[int]] = {}
        for at, clock in enumerate(self._clocks):
            for number in range(clock.first(since), clock.last(since) + 1):
                places.setdefault(clock.start(number), []).append(at)
        for start, found in sorted(places.items()):
            self._open(start, found)

    def _open(self, start: int, places: Iterable[int]) -> None:
        """Open the view at `start`, for the members at these places."""
        members = self._members
        wanted = {at: members[at].k for at in places if members[at].low <= start < members[at].high}
        if wanted:
            self._views[start] = (self._store.open(max(wanted.values())), wanted)

    def _close(self, start: int) -> None:
        number, _ = self._views.pop(start)
        self._store.shrink(number, 0)

    def _run_moment(self, scheduler: Scheduler) -> None:
        """Do what is scheduled next: answers first, then new views."""
        moment = scheduler.next()
        for at in moment.close:
            member = self._members[at]
            start = moment.time - self._clocks[at].size
            number, wanted = self._views.get(start, (-1, {}))
            owes_empty = bool(self._spoke[member.number])
            if at not in wanted:
                if owes_empty and member.low <= start < member.high:
                    self._spoke[member.number] = False
                    self._extractor.add(member, start, moment.time)
                continue
            del wanted[at]
            self._spoke[member.number] = self._extractor.extract(
                member, number, start, moment.time, owes_empty=owes_empty
            )
            if not wanted:
                self._close(start)
            elif max(wanted.values()) < self._store.views.k[number - self._store.base]:
                self._store.shrink(number, max(wanted.values()))
        if moment.open:
            self._open(moment.time, moment.open)

    def owes_empty_list(self) -> bool:
        """Return whether the last list of any query had rows."""
        return bool(self._spoke.any())

    def candidates(self) -> Objects:
        """Return exactly the minimal set, best first."""
        used, nodes = self._store.used_nodes(), self._store.nodes
        return Objects(nodes.score[used], nodes.time[used], nodes.id[used])

    def snapshot(self) -> Snapshot:
        """Return the candidates and how far it has come: the views follow from them (theorem 5.1)."""
        numbers = np.array([self._done, self.peak], np.int64)
        return {**self.candidates().snapshot(), "numbers": numbers, "spoke": self._spoke.copy()}

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        saved = validate(resume, _COLUMNS, queries=len(self._spoke))
        done, peak = (int(n) for n in saved["numbers"])
        rows = Objects.restore(saved).take(np.argsort(saved["id"]))
        require((np.diff(rows.id) > 0) & (np.diff(rows.time) >= 0), "its rows are in no order of time and id")
        longest = max((clock.size for clock in self._clocks), default=0)
        require((done == MIN_TIME) | (rows.time >= done - 2 * longest), "a row lies far before what is done")
        if len(rows.id):
            self.advance(rows, done)  # closes what was closed before; the answers are dropped
            self._extractor.clear()
        self._spoke[:] = saved["spoke"]
        if self._scheduler is None and self.owes_empty_list():
            self._begin(done)
        self._done = done
        if self._store.state[COUNT] != len(rows.id):
            raise SnapshotError(
                f"{self._store.state[COUNT]} of {len(rows.id)} saved rows matter: the snapshot is of another query"
            )
        self.peak = self._store.state[PEAK] = peak

    def bytes(self) -> int:
        """Return the size of objects and views, without free capacity."""
        store, row = self._store, sum(part.itemsize for part in self._store.nodes)
        return int(store.state[COUNT]) * row + store.open_views * 24 + store.extra_bytes()


def check_lists(family: QueryFamily) -> None:
    """Raise unless there is memory for the k best rows of every view that may be open at once."""
    lists = sum(member.k * member.clock.ratio for member in family.members)
    if lists > _MAX_LISTS:
        raise QueryError(
            f"engine='mtopband' keeps k rows of every open window: these must be at most {_MAX_LISTS:,}, "
            f"got {lists:,}: write engine='sweep'"
        )
