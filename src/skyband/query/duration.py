"""Lengths of time as users write them, as whole microseconds."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

from skyband.errors import QueryError
from skyband.query.limits import MAX_LENGTH

MICROSECONDS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_NAMES = {
    "us": "us usec microsecond microseconds",
    "ms": "ms msec millisecond milliseconds",
    "s": "s sec secs second seconds",
    "min": "m min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
    "w": "w week weeks",
}
_UNITS = {name: unit for unit, names in _NAMES.items() for name in names.split()}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_DIGITS = 100  # of a number; one with more is too long or too fine
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def duration(value: object, field: str) -> int:
    """Microseconds in `value`, a text such as "10 minutes" or a timedelta.

    Examples
    --------
    >>> duration("1 hour 30 minutes", "size"), duration("250ms", "slide")
    (5400000000, 250000)
    """
    if isinstance(value, timedelta):
        return _within(value // timedelta(microseconds=1), value, field)
    if not isinstance(value, str):
        msg = f'{field}={value!r} is not a length of time: write a text such as "10 minutes", or a timedelta'
        raise QueryError(msg)
    total, at = Fraction(0), 0
    text = value.strip()
    sign = -1 if text.startswith("-") else 1
    text = text.removeprefix("-")
    while at < len(text):
        part = _PART.match(text, at)
        unit = _UNITS.get(part.group(2).lower()) if part else None
        if part is None or unit is None:
            why = ""
            if re.search(r"month|year|quarter", text, re.IGNORECASE):
                why = " (months and years have no fixed length: count in days)"
            msg = (
                f"{field}={value!r} is not a length of time{why}: write a number and a unit "
                f'(us, ms, seconds, minutes, hours, days, weeks), such as "10 minutes"'
            )
            raise QueryError(msg)
        number = part.group(1)
        total += Fraction(number) * MICROSECONDS[unit] if len(number) <= _DIGITS else 2 * MAX_LENGTH
        at = part.end()
    if not text or total.denominator != 1:
        why = "is finer than a microsecond" if text else "is empty"
        msg = f'{field}={value!r} {why}: write a text such as "10 minutes"'
        raise QueryError(msg)
    return _within(sign * int(total), value, field)


def _within(microseconds: int, value: object, field: str) -> int:
    if abs(microseconds) > MAX_LENGTH:
        shown = f"{value!r:.200}"
        msg = f"{field} must be at most {MAX_LENGTH // MICROSECONDS['d']:,} days, got {shown}"
        raise QueryError(msg)
    return microseconds


def instant(value: object, field: str) -> int:
    """Microseconds since the epoch at `value`: a datetime or date (naive means UTC), ISO text, or an offset.

    Examples
    --------
    >>> instant("1970-01-01T00:00:02", "origin"), instant("2 seconds", "origin")
    (2000000, 2000000)
    """
    if isinstance(value, str) and re.match(r"\s*\d{4}-\d\d", value):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            msg = f'{field}={value!r} is not a moment: write one such as "2024-01-01T06:00:00"'
            raise QueryError(msg) from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    return duration(value, field)


def spoken(microseconds: int) -> str:
    """A length of time in its largest whole unit.

    Examples
    --------
    >>> spoken(600_000_000), spoken(1)
    ('10 min', '1 us')
    """
    unit = next((u for u, n in reversed(MICROSECONDS.items()) if microseconds % n == 0), "us")
    return f"{microseconds // MICROSECONDS[unit]} {unit}"
