"""Upper limits of the numbers that a user can set, checked when a query is built.

Within them every index and every moment fits into 64 bits, and what kernels allocate grows with the rows, not with the
numbers of the query.
"""

from __future__ import annotations

from numbers import Integral

from skyband.errors import QueryError

MAX_K = 1_000_000
"""Rows of an answer, and rows that a join keeps behind them."""

MAX_ROWS = 1_000_000_000
"""Rows of a counting window, keys of a replica, look-ups."""

MAX_LENGTH = 3_650_000 * 86_400_000_000
"""Microseconds of a length of time: 3,650,000 days, 10,000 years."""

MAX_JOIN_WINDOWS = 100_000
"""Windows that may hold one row of a join: each of them is evaluated by itself."""


def check_integer(field: str, value: object, low: int, high: int) -> int:
    """`value` as an int, or an error if it is no integer from `low` to `high`.

    Examples
    --------
    >>> check_integer("k", 0, 1, 1_000_000)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: k must be an integer from 1 to 1,000,000, got 0
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        msg = f"{field} must be an integer from {low:,} to {high:,}, got {value!r}"
        raise QueryError(msg)
    return int(value)
