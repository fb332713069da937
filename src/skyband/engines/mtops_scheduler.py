"""The scheduler of MTopS: which views to open and close, and which queries to answer, at the next moment."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from skyband.engines.family import FamilyMember

AFTER = 1 << 62


class Moment(NamedTuple):
    """What happens at one moment: first the answers, by the order of the queries, then the openings."""

    time: int
    close: tuple[int, ...]  # places of members whose window ends here: answer them
    open: tuple[int, ...]  # places of members whose window begins here


class Scheduler:
    """Tells moment by moment what the queries of a workload need. The paper names its task and gives no algorithm.

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
        """Go on at what happens after `since`."""
        self._starts = [(m.clock.start(m.clock.last(since) + 1), at) for at, m in enumerate(self.members)]
        self._ends = [(m.clock.end(m.clock.first(since)), at) for at, m in enumerate(self.members)]
        heapify(self._starts)
        heapify(self._ends)

    @property
    def upcoming(self) -> int:
        """When something happens next."""
        return min(self._starts[0][0], self._ends[0][0])

    def next(self) -> Moment:
        """What happens next; later calls tell what follows."""
        now = self.upcoming
        return Moment(now, tuple(self._due(self._ends, now)), tuple(self._due(self._starts, now)))

    def _due(self, heap: list[tuple[int, int]], now: int) -> list[int]:
        found = []
        while heap[0][0] == now:
            at = heap[0][1]
            found.append(at)
            heapreplace(heap, (now + self.members[at].clock.slide, at))
        return found
