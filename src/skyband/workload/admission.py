"""How a query is let into a family that runs, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.workload.family import NEVER, Member, kinship, place
from skyband.workload.spans import begins

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.workload.pipeline import FamilyPipeline, WorkloadPipeline


@dataclass(frozen=True)
class Admission:
    """What a query that came to a running stream is told.

    Its windows are exact, and answered, from the one that begins at `exact_from` on: rows that came before may be
    gone. None: all of them. With counting windows of many groups it is where the group furthest on stands.
    """

    name: str
    exact_from: Any = None


def joined(line: FamilyPipeline, member: Member, old: Sequence[Member] = ()) -> Admission:
    """Let a member in, exact from the first window on that begins after what has been seen."""
    line.check_change()
    clock, reach = member.clock, line.reach()
    others = [m for m in line.family.members if m.number != member.number]
    if isinstance(reach, np.ndarray):
        seen = int(reach.max(initial=0))
        if seen == 0:
            line.change([*others, member])
            return Admission(member.name)
        moment = line.family.moments
        followed = [m if m.until else replace(m, until=moment) for m in old]
        line.change([*others, *followed, replace(member, moment=moment)], come=True)
        start = -(-(seen + clock.size) // clock.slide) * clock.slide - clock.size
        return Admission(member.name, start)
    new = replace(member, low=max(member.low, int(reach)))
    # windows of the old k that begin before the first of the new one are still answered
    line.change([*others, *(replace(m, high=min(m.high, begins(new))) for m in old), new])
    return told(line, new)


def open_grid(line: FamilyPipeline) -> bool:
    """Whether queries about points may come to this family: it keeps every row of their window."""
    return line.family.points and line.alters


def narrowed(member: Member, wanted: Member) -> Member:
    """A member of no more rows and windows than are wanted now."""
    low, high = max(member.low, wanted.low), min(member.high, wanted.high)
    return replace(member, k=min(member.k, wanted.k), low=low, high=max(low, high))


def last(name: str, told: Sequence[Admission]) -> Admission:
    """What holds for all streams that run: usually there is one."""
    begun = [admission for admission in told if admission.exact_from is not None]
    return max(begun, key=lambda admission: admission.exact_from) if begun else Admission(name)


def told(line: FamilyPipeline, member: Member) -> Admission:
    """From which window on a member is answered."""
    start = begins(member)
    if start == NEVER or line.time is None:
        return Admission(member.name)
    tick = line.time.per  # after every row a start need not be a whole number of ticks
    start = -(-(start - member.clock.shift) // tick) * tick
    return Admission(member.name, line.time.column(np.array([start]))[0].as_py())


def blind(member: Member, pipeline: WorkloadPipeline) -> Member:
    """A member of a family that has seen no row yet."""
    newest = max((line.timeline.newest for line in pipeline.lines), default=NEVER)
    return member if newest == NEVER else replace(member, low=max(member.low, newest + 1))


def home(pipeline: WorkloadPipeline, query: TopK, number: int, *, free: bool = True) -> FamilyPipeline | None:
    """The family of a pipeline that a query belongs to: where it is, or could be. One with bounds shares no grid."""
    keys = [place(query), kinship(query, number)] if free else [kinship(query, number)]
    fitting = [line for key in keys for line in pipeline.lines if key is not None and line.key == key]
    there = [line for line in fitting if any(m.number == number for m in line.family.members)]
    return next(iter(there or fitting), None)
