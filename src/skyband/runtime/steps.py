"""Results in steps of bounded size: how far an operator may advance until it has answered with so many rows.

Two rows can be in a thousand million windows, and a batch can close as many lists. So windows are closed in steps, each
with at most `STEP_ROWS` rows by an upper bound (or one window, if that alone may have more).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skyband.errors import QueryError

STEP_ROWS = 1 << 20
"""Result rows of one step."""

MAX_RESULT_ROWS = 50_000_000
"""Result rows in one table."""


class AnswerBound(NamedTuple):
    """What bounds the answers of queries: a value for each, as floats, which do not overflow."""

    k: np.ndarray
    size: np.ndarray
    slide: np.ndarray

    @classmethod
    def of(cls, queries: Iterable[tuple[int, int, int]]) -> AnswerBound:
        """Return the bound of queries, given their k, size and slide."""
        return cls(*np.array(list(queries), np.float64).reshape(-1, 3).T)

    def most_rows(self, length: int, groups: int, rows: int) -> float:
        """Return the most rows that answers of time windows can have that close in a stretch of `length`.

        There are so many groups, and rows that may be in any of these windows, each in at most size / slide of them.

        Examples
        --------
        >>> AnswerBound.of([(3, 10, 5)]).most_rows(100, 1, 4), AnswerBound.of([(1, 9, 9)]).most_rows(90, 2, 100)
        (8.0, 22.0)
        """
        windows = length // self.slide + 1
        whole = windows * np.minimum(self.k * groups, rows)
        return float(np.minimum(whole, rows * np.minimum(windows, np.ceil(self.size / self.slide))).sum())

    def fits(self, length: int, groups: int, rows: int) -> bool:
        """Return whether the answers fit into one step."""
        return self.most_rows(length, groups, rows) <= STEP_ROWS

    def longest(self, time: np.ndarray, start: int, length: int, groups: int, candidates: int) -> int:
        """Return the longest stretch from `start` on whose answers fit into one step, at least one slide.

        `time` has the times of the rows to come.
        """
        found = int(self.slide.min())
        while found < length:
            further = min(2 * found, length)
            if not self.fits(further, groups, candidates + int(time.searchsorted(start + further))):
                break
            found = further
        return found


def concat_results(tables: Iterable[pa.Table], promote: str = "none") -> pa.Table | None:
    """Return all results as one table, None if there is none; raise if they are too many for one."""
    found: list[pa.Table] = []
    rows = 0
    for table in tables:
        found.append(table)
        rows += table.num_rows
        if rows > MAX_RESULT_ROWS:
            msg = (
                f"answers must have at most {MAX_RESULT_ROWS:,} rows in one table, got {rows:,} so far: write a longer "
                f'slide, a smaller k or emit="changes", or read them in steps with sb.stream'
            )
            raise QueryError(msg)
    return pa.concat_tables(found, promote_options=promote) if found else None
