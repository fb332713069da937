"""From when to when a query of a workload is active."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.errors import QueryError
from skyband.query.duration import parse_instant
from skyband.workload.family import AFTER, NEVER, Member, member_of

if TYPE_CHECKING:
    from datetime import datetime

    from skyband.query import TopK

    Moment = str | datetime | int | None


@dataclass(frozen=True)
class Admission:
    """What a query that came to a running stream is told.

    Its windows are exact, and answered, from the one that starts at `exact_from` on: rows that came before may be
    gone. None: all of them. With counting windows of many groups it is where the group furthest on stands.
    """

    name: str
    exact_from: Any = None


def latest_admission(name: str, admissions: Sequence[Admission]) -> Admission:
    """Return what holds for all streams that run: usually there is one."""
    later = [admission for admission in admissions if admission.exact_from is not None]
    return max(later, key=lambda admission: admission.exact_from, default=Admission(name))


def begins(member: Member) -> int:
    """Where the first window of a member begins."""
    clock = member.clock
    if member.low == NEVER or not clock.slide:
        return member.low
    return clock.origin + -(-(member.low - clock.origin) // clock.slide) * clock.slide


def bounds(query: TopK, active: tuple[Moment, Moment] | None) -> tuple[int, int]:
    """From when to when a query is active, in microseconds or positions.

    Examples
    --------
    >>> import skyband as sb
    >>> bounds(sb.TopK(k=1, by="x", window=sb.Tumbling("1 s"), time="t"), ("1970-01-01T00:00:01", None))[0]
    1000000
    """
    if active is None:
        return NEVER, AFTER
    try:
        begin, end = active
    except (TypeError, ValueError):
        msg = f"active={active!r} is no span: write (from, to), each a moment or None"
        raise QueryError(msg) from None
    low = NEVER if begin is None else _moment(query, begin)
    high = AFTER if end is None else _moment(query, end)
    if low >= high:
        msg = f"active={active!r} ends before it begins: write (from, to)"
        raise QueryError(msg)
    if query.window.counts and low <= 0:  # the first windows begin there, though they lack rows
        low = NEVER
    member = limited(member_of(query, 0, "", points=False), (low, high))
    if begins(member) >= member.high:
        msg = f"active={active!r} holds no whole window of {query.window!r}: leave more room between from and to"
        raise QueryError(msg)
    return low, high


def _moment(query: TopK, value: Any) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if query.window.counts:
            return int(value)
        from skyband.runtime.schema import TICKS

        per, parts = TICKS[query.unit or "us"]
        return int(value) * per // parts
    if query.window.counts:
        msg = f"active={value!r} is no position, and {query.window!r} counts rows: write whole numbers"
        raise QueryError(msg)
    try:
        return parse_instant(value, "active")
    except QueryError:
        msg = f'active={value!r} is no moment: write one such as "2024-01-01T06:00:00", a datetime or a whole number'
        raise QueryError(msg) from None


def limited(member: Member, span: tuple[int, int]) -> Member:
    """The member with those windows only that lie in a span: they begin at `from` or later and end by `to`."""
    low, high = span
    clock = member.clock
    return replace(
        member,
        low=low if low == NEVER else low + clock.shift,
        high=high if high == AFTER else high + clock.shift - clock.size + 1,
    )
