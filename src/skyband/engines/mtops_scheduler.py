"""The analyzer and the scheduler of MTopS: the meta query of a workload, and what happens at each moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
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
