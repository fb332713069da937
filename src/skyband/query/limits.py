"""Upper limits of the numbers that a user can set, checked when a query is built.

Within them every index and every moment fits into 64 bits, and what kernels allocate grows with the rows, not with the
numbers of the query.
"""

MAX_K = 1_000_000
"""Rows of an answer, and rows that a join keeps behind them."""

MAX_ROWS = 1_000_000_000
"""Rows of a counting window, keys of a replica, look-ups."""

MAX_LENGTH = 3_650_000 * 86_400_000_000
"""Microseconds of a duration: 3,650,000 days, 10,000 years."""

MAX_JOIN_WINDOWS = 100_000
"""Windows that may hold one row of a join: each of them is evaluated by itself."""
