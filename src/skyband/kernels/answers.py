"""The buffer that kernels write ranked lists to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class AnswerBuffer(NamedTuple):
    """Ranked lists one after the other: the rows of list `a` are first[a] to first[a + 1]. All columns are int64.

    Every kernel writes `step`, `first`, `id` and `score`; a column that it does not write has no rows. There is one
    class for all kernels because Numba confuses two named tuples that have the same name and fields.
    """

    step: np.ndarray
    end: np.ndarray
    group: np.ndarray
    query: np.ndarray
    first: np.ndarray
    id: np.ndarray
    score: np.ndarray  # float64
    rank: np.ndarray

    @classmethod
    def allocate(cls, lists: int, rows: int, *optional: str) -> AnswerBuffer:
        """Make room for lists and rows, with the optional columns (end, group, query, rank) that are named."""
        end, group, query = (np.empty(lists if name in optional else 0, np.int64) for name in cls._fields[1:4])
        id, rank = np.empty(rows, np.int64), np.empty(rows if "rank" in optional else 0, np.int64)
        step, first = np.empty(lists, np.int64), np.zeros(lists + 1, np.int64)
        return cls(step, end, group, query, first, id, np.empty(rows), rank)

    def written(self, lists: int, rows: int) -> AnswerBuffer:
        """Return the part that was written, copied where it is small: a view would keep the whole buffer alive."""
        sizes = (lists, lists, lists, lists, lists + 1, rows, rows, rows)
        found = AnswerBuffer(*(column[:size] for column, size in zip(self, sizes, strict=True)))
        return AnswerBuffer(*(column.copy() for column in found)) if 4 * rows < len(self.id) else found


def concatenate(buffers: list[AnswerBuffer]) -> AnswerBuffer:
    """Put the lists of several buffers, at least one, behind each other."""
    if len(buffers) == 1:
        return buffers[0]
    sizes = np.concatenate([np.diff(buffer.first) for buffer in buffers])
    columns = (np.concatenate(parts) for parts in zip(*buffers, strict=True))
    return AnswerBuffer(*columns)._replace(first=np.concatenate([[0], np.cumsum(sizes)]))
