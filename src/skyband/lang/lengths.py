"""Lengths of time in words that Spark, SQL and we read alike."""

from __future__ import annotations

from skyband.query.duration import spoken

_WORDS = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "min": "minute",
    "h": "hour",
    "d": "day",
    "w": "week",
}


def number_and_unit(microseconds: int) -> tuple[int, str]:
    """A length in its largest whole unit, in full.

    Examples
    --------
    >>> number_and_unit(600_000_000)
    (10, 'minute')
    """
    number, unit = spoken(microseconds).split()
    return (int(number), _WORDS[unit]) if microseconds else (0, "second")


def in_words(microseconds: int) -> str:
    """The same as a text.

    Examples
    --------
    >>> in_words(600_000_000), in_words(1), in_words(0)
    ('10 minutes', '1 microsecond', '0 seconds')
    """
    number, unit = number_and_unit(microseconds)
    return f"{number} {unit}" + ("" if number == 1 else "s")
