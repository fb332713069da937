"""Checks what a user sets on an engine; every message says what to write instead."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from skyband.errors import QueryError
from skyband.query.duration import format_duration, parse_duration
from skyband.query.limits import MAX_ROWS
from skyband.query.validation import check_integer
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from skyband.query import TopK

_BUFFER = 2000  # rows, the paper's default; 1/20 of its window


def whole(name: str, value: object, least: int) -> int:
    """A number of rows."""
    return check_integer(name, value, least, MAX_ROWS)


def coefficient(name: str, value: object) -> float:
    """A number of at least zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        msg = f"{name}={value!r} is no share of the candidates: write a number of at least 0, such as 0.2"
        raise QueryError(msg)
    return float(value)


def probability(name: str, value: object) -> float:
    """A number between zero and one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        msg = f"{name}={value!r} is no probability of error: write a number between 0 and 1, such as 0.001"
        raise QueryError(msg)
    return float(value)


def width(name: str, value: object) -> float:
    """A length above zero, in scores."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        msg = f"{name}={value!r} is no width of a cell: write a number above 0"
        raise QueryError(msg)
    return float(value)


def span(query: TopK, buffer: object) -> int:
    """How far back the buffer reaches: in rows, or in microseconds for windows by time.

    At most half the window (theorem 5.1): otherwise what made an object wait could leave before it does.
    """
    size = WindowAssigner.of(query.window).size
    most = (size + 1) // 2
    if query.window.counts:
        if buffer is None:
            return min(_BUFFER, most)
        rows = whole("buffer", buffer, 1)
        if rows > most:
            msg = (
                f"buffer={rows} is more than half of the {size} rows of the window, so answers could miss rows that "
                f"still wait in it: write at most {most}"
            )
            raise QueryError(msg)
        return rows
    if buffer is None:
        return max(size // 20, 1)
    if not isinstance(buffer, (str, timedelta)):
        such = format_duration(max(size // 20, 1))
        msg = f'buffer={buffer!r} is no length of time, as the size of the window is: write one such as "{such}"'
        raise QueryError(msg)
    length = parse_duration(buffer, "buffer")
    if not 0 < length <= most:
        msg = (
            f"buffer must be above zero and at most half the window's {format_duration(size)}, got {buffer!r}: "
            f'write at most "{format_duration(max(size // 2, 1))}"'
        )
        raise QueryError(msg)
    return length
