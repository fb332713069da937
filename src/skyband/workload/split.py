"""Sub-workloads: a family that is too heavy for one task, over several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.query.validation import check_integer

if TYPE_CHECKING:
    from skyband.workload.family import Family, Member


MOST = 1024
"""Tasks, or buckets, of one stream."""


def check_parts(field: str, parts: object) -> None:
    """Raise unless this is a number of parts.

    Examples
    --------
    >>> check_parts("tasks", 0)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: tasks must be an integer from 1 to 1,024, got 0
    """
    check_integer(field, parts, 1, MOST)


def split(family: Family, tasks: int) -> list[Family]:
    """A family in so many parts of about the same weight, for as many tasks.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.workload.family import families
    >>> one = families([sb.TopK(k=k, by="x", window=sb.Counting(100, 10)) for k in (1, 5, 6, 2)])[0]
    >>> [[m.k for m in part.members] for part in split(one, 2)]
    [[1, 6], [5, 2]]
    """
    parts: list[list[Member]] = [[] for _ in range(min(tasks, len(family.members)))]
    weight = [0.0] * len(parts)
    for member in sorted(family.members, key=_weight, reverse=True):
        lightest = weight.index(min(weight))
        parts[lightest].append(member)
        weight[lightest] += _weight(member)
    return [family.with_members(part) for part in parts] if len(parts) > 1 else [family]


def _weight(member: Member) -> float:
    """Rows of answers for each unit of time."""
    return member.k / max(member.clock.slide, 1)
