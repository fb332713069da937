"""Lengths of time in words that Spark, SQL and we read alike."""

from __future__ import annotations

from datetime import timedelta

from skyband.query.duration import format_duration

_WORDS = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "min": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
}


def number_and_unit(length: timedelta | int) -> tuple[int, str]:
    """A length in its largest whole unit, in full.

    Examples
    --------
    >>> number_and_unit(600_000_000)
    (10, 'minute')
    """
    number, unit = format_duration(length).split()
    return (int(number), _WORDS[unit]) if length else (0, "second")


def in_words(length: timedelta | int) -> str:
    """The same as a text.

    Examples
    --------
    >>> in_words(600_000_000), in_words(1), in_words(0)
    ('10 minutes', '1 microsecond', '0 seconds')
    """
    number, unit = number_and_unit(length)
    return f"{number} {unit}" + ("" if number == 1 else "s")
