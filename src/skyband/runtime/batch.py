"""Rows ready for an operator, as columns of numbers; the rows themselves are in the row store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class PreparedBatch(NamedTuple):
    """Rows with their time, score, tie order and group.

    Of rows with equal score and time the one with the larger `tie` ranks first, one without a tie last.
    """

    row_id: np.ndarray  # int64: where the row is in the row store
    time: np.ndarray  # int64: microseconds, or the position within the group
    score: np.ndarray  # float64, NaN where there is none; (rows, axes) for points; zeros where it is not known yet
    tie: np.ndarray | None = None  # int64; None: the later row ranks first
    missing: np.ndarray | None = None  # which rows have no tie; None: all have one
    group: np.ndarray | None = None  # int32; None: there is one group

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.row_id)

    def take(self, places: np.ndarray | slice) -> PreparedBatch:
        """Return the rows at these places."""
        return PreparedBatch(*(None if column is None else column[places] for column in self))  # type: ignore[arg-type]

    def tie_order(self) -> np.ndarray | None:
        """Return numbers that order the rows of this batch by their tie, those without one first."""
        if self.tie is None or self.missing is None:
            return self.tie
        return np.where(self.missing, 0, np.unique(self.tie, return_inverse=True)[1] + 1)

    def is_sorted(self) -> bool:
        """Return whether the rows are in the order of time and tie."""
        from skyband.kernels.columns import is_sorted, is_sorted_by_time_and_id

        tie = self.tie_order()
        return bool(is_sorted(self.time)) if tie is None else bool(is_sorted_by_time_and_id(self.time, tie))

    def sorted(self) -> PreparedBatch:
        """Return the rows in the order of time and tie; rows that agree in both keep their order."""
        if self.is_sorted():
            return self
        tie = self.tie_order()
        return self.take(np.lexsort((self.time,) if tie is None else (tie, self.time)))


def concat_batches(batches: Sequence[PreparedBatch]) -> PreparedBatch:
    """Return the rows of all batches, in the order given."""
    if len(batches) == 1:
        return batches[0]
    if any(batch.missing is not None for batch in batches):
        batches = [
            batch if batch.missing is not None else batch._replace(missing=np.zeros(batch.size, np.bool_))
            for batch in batches
        ]
    columns = zip(*batches, strict=True)
    return PreparedBatch(*(None if column[0] is None else np.concatenate(column) for column in columns))  # type: ignore[arg-type]
