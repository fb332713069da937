"""The analyzer of MTopS: one meta query that stands for a whole workload."""

from __future__ import annotations

from dataclasses import dataclass
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
        """The longest window of the workload."""
        return max(member.clock.size for member in self.members)

    def slide(self, time: int) -> int:
        """How far it is from `time` to the next moment at which some query must answer."""
        return min(member.clock.end(member.clock.first(time)) for member in self.members) - time

    def views(self, time: int, *, beginning: bool = False, ending: bool = True) -> list[View]:
        """The views at `time`, oldest first: of the windows that began before it and end then or later.

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
        """How many views the queries would keep at `time` without sharing."""
        return sum(len(view.serves) for view in self.views(time, beginning=beginning, ending=ending))


def analyze(family: QueryFamily) -> MetaQuery:
    """The meta query of a family."""
    return MetaQuery(family.members)
