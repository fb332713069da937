"""Whole numbers in a text."""

from __future__ import annotations

from skyband.errors import QueryError

_DIGITS = 400
"""More than any number here has; Python itself reads 4,300 at most."""


def whole(digits: str) -> int:
    """Read a whole number.

    Examples
    --------
    >>> whole("1_000"), whole("-3")
    (1000, -3)
    >>> whole("1" * 5000)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: must have at most 400 digits, got 5,000: write a smaller number
    """
    if len(digits) > _DIGITS:
        msg = f"must have at most {_DIGITS} digits, got {len(digits):,}: write a smaller number"
        raise QueryError(msg)
    return int(digits)
