"""Answers in steps of bounded size: how far an engine may go until it has given so many rows.

Two rows can be in a thousand million windows, and a batch can close as many lists. So windows are closed in steps, each
with at most `ANSWERS` rows of answers by an upper bound (or one window, if that alone may have more).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from skyband.errors import QueryError

ANSWERS = 1 << 20
"""Rows of answers in one step."""

MAX_ANSWERS = 50_000_000
"""Rows of answers in one table."""


class Shapes(NamedTuple):
    """What bounds the answers of queries: a value for each, as floats, which do not overflow."""

    k: np.ndarray
    size: np.ndarray
    slide: np.ndarray

    @classmethod
    def of(cls, queries: Iterable[tuple[int, int, int]]) -> Shapes:
        """The k, size and slide of queries."""
        return cls(*np.array(list(queries), np.float64).reshape(-1, 3).T)

    def by_time(self, length: int, groups: int, rows: int) -> float:
        """The most rows of answers of time windows that close in a stretch of `length`.

        There are so many groups, and rows that may be in any of these windows, each in at most size / slide of them.

        Examples
        --------
        >>> Shapes.of([(3, 10, 5)]).by_time(100, 1, 4), Shapes.of([(1, 9, 9)]).by_time(90, 2, 100)
        (8.0, 22.0)
        """
        windows = length // self.slide + 1
        whole = windows * np.minimum(self.k * groups, rows)
        return float(np.minimum(whole, rows * np.minimum(windows, np.ceil(self.size / self.slide))).sum())

    def longest(self, time: np.ndarray, start: int, length: int, groups: int, kept: int) -> int:
        """The longest stretch from `start` on whose time windows give at most `ANSWERS` rows, at least one slide.

        `time` has the times of the rows to come, `kept` is how many are kept of those before.
        """
        found = int(self.slide.min())
        while found < length:
            further = min(2 * found, length)
            if self.by_time(further, groups, kept + int(time.searchsorted(start + further))) > ANSWERS:
                break
            found = further
        return found


class Stepwise(Protocol):
    """What gives answers batch by batch."""

    def push(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take a batch, give all its answers."""

    def finish(self) -> pa.Table:
        """Give the last answers."""


class InOneStep:
    """For pipelines whose answers to one batch are few."""

    def push_in_steps(self: Stepwise, rows: pa.Table, watermark: int | None = None) -> Iterator[pa.Table]:
        """Take a batch, give its answers."""
        yield self.push(rows, watermark)

    def finish_in_steps(self: Stepwise) -> Iterator[pa.Table]:
        """Give the last answers."""
        yield self.finish()


def in_one_table(steps: Iterable[pa.Table], promote: str = "none") -> pa.Table | None:
    """All answers as one table, or an error if they are too many for one; None if there is no step."""
    tables: list[pa.Table] = []
    rows = 0
    for table in steps:
        tables.append(table)
        rows += table.num_rows
        if rows > MAX_ANSWERS:
            msg = (
                f"answers must have at most {MAX_ANSWERS:,} rows in one table, got {rows:,} so far: write a longer "
                f'slide, a smaller k or emit="changes", or read them in steps with sb.stream'
            )
            raise QueryError(msg)
    return pa.concat_tables(tables, promote_options=promote) if tables else None
