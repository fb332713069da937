"""Durations and points in time as users write them, as timedeltas and whole microseconds."""

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
_WORDS = {unit: names.split()[-2] for unit, names in _NAMES.items()}
_UNITS = {name: unit for unit, names in _NAMES.items() for name in names.split()}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_DIGITS = 100  # a number with more digits is out of range or finer than a microsecond
_EXAMPLE = 'a number and a unit (us, ms, seconds, minutes, hours, days, weeks) such as "10 minutes"'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def parse_duration(value: object, field: str, least: int | None = None) -> int:
    """Read a duration, a text such as "10 minutes" or a timedelta, as microseconds of at least `least`.

    Examples
    --------
    >>> parse_duration("1 hour 30 minutes", "size"), parse_duration("250ms", "slide")
    (5400000000, 250000)
    >>> parse_duration("-1 s", "late", least=0)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: late must be a duration of at least 0 s, got '-1 s': write a number and a unit ...
    """
    if isinstance(value, timedelta):
        micros = value // MICROSECOND
    elif isinstance(value, str):
        micros = _read(value, field)
    else:
        raise _error(field, value, "a duration")
    if abs(micros) > MAX_LENGTH:
        raise QueryError(f"{field} must be at most {MAX_LENGTH // MICROSECONDS['d']:,} days, got {value!r:.200}")
    if least is not None and micros < least:
        raise _error(field, value, "a duration above zero" if least else "a duration of at least 0 s")
    return micros


def _read(value: str, field: str) -> int:
    text = value.strip()
    sign = -1 if text.startswith("-") else 1
    text = text.removeprefix("-")
    total, at = Fraction(0), 0
    while at < len(text):
        part = _PART.match(text, at)
        unit = _UNITS.get(part.group(2).lower()) if part else None
        if part is None or unit is None:
            if re.search(r"month|year|quarter", text, re.IGNORECASE):
                raise _error(field, value, "a duration", "days: months and years have no fixed length")
            raise _error(field, value, "a duration")
        number = part.group(1)
        total += Fraction(number) * MICROSECONDS[unit] if len(number) <= _DIGITS else 2 * MAX_LENGTH
        at = part.end()
    if not text or total.denominator != 1:
        raise _error(field, value, "a whole number of microseconds" if text else "a duration")
    return sign * int(total)


def _error(field: str, value: object, what: str, write: str = _EXAMPLE) -> QueryError:
    return QueryError(f"{field} must be {what}, got {value!r:.200}: write {write}")


def parse_instant(value: object, field: str) -> int:
    """Read a datetime or date (naive means UTC), ISO text, or an offset as microseconds since the epoch.

    Examples
    --------
    >>> parse_instant("1970-01-01T00:00:02", "origin"), parse_instant("2 seconds", "origin")
    (2000000, 2000000)
    """
    if isinstance(value, str) and re.match(r"\s*\d{4}-\d\d", value):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise QueryError(
                f'{field} must be a date or time, got {value!r}: write one such as "2024-01-01T06:00:00"'
            ) from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // MICROSECOND
    return parse_duration(value, field)


def format_duration(length: timedelta | int) -> str:
    """Write a timedelta, or a number of microseconds, in its largest whole unit.

    Examples
    --------
    >>> format_duration(timedelta(minutes=10)), format_duration(1)
    ('10 min', '1 us')
    """
    micros = length // MICROSECOND if isinstance(length, timedelta) else length
    unit = next((u for u, n in reversed(MICROSECONDS.items()) if micros % n == 0), "us")
    return f"{micros // MICROSECONDS[unit]} {unit}"


def spell_duration(length: timedelta | int) -> str:
    """Write a duration in words that Spark and SQL read as well.

    Examples
    --------
    >>> spell_duration(600_000_000), spell_duration(1), spell_duration(0)
    ('10 minutes', '1 microsecond', '0 seconds')
    """
    number, unit = format_duration(length).split() if length else ("0", "s")
    return f"{number} {_WORDS[unit]}" + ("" if number == "1" else "s")
