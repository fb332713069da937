"""A table in memory: NumPy columns that can be changed in place. For simulations, benchmarks and tests."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.errors import TableError
from skyband.tables.protocol import SCORE, Changes

if TYPE_CHECKING:
    from skyband.query.expression import Expression


class Columns:
    """Rows 0, 1, 2, ... with one number each, NaN where there is no row.

    Examples
    --------
    >>> table = Columns(np.array([3.0, 9.0, 5.0]))
    >>> table.top(2).to_pydict()
    {'id': [1, 2], 'score': [9.0, 5.0]}
    >>> table.top(2, below=(9.0, 1)).to_pydict()
    {'id': [2, 0], 'score': [5.0, 3.0]}

    Cost: `top` reads all rows once, as a database without an index does.
    """

    key = "id"

    def __init__(self, value: np.ndarray) -> None:
        self.value = value
        self.seconds = 0.0
        """CPU time spent on questions so far."""
        self._sign = 1.0

    def count(self) -> int:
        """How many rows there are."""
        return len(self.value)

    def ranked(self, by: Expression, columns: Sequence[str], *, ascending: bool = False) -> Columns:
        """The same numbers; `by` must be the column "value"."""
        if by.tree != ("column", "value") or columns:
            msg = f'by={str(by)!r} cannot be computed here: a table in memory has the columns "id" and "value"'
            raise TableError(msg)
        if not ascending:
            return self
        same = Columns(self.value)
        same._sign = -1.0
        return same

    def top(self, n: int, below: tuple[float, object] | None = None) -> pa.Table:
        """The n best rows after (score, id)."""
        began = time.process_time()
        score = self.value if self._sign > 0 else -self.value
        places = np.flatnonzero(~np.isnan(score)) if below is None else self._after(score, below)
        if len(places) > n:
            worst = np.partition(score[places], len(places) - n)[len(places) - n]
            places = places[score[places] >= worst]
        places = places[np.lexsort((-places, -score[places]))][:n]
        self.seconds += time.process_time() - began
        return pa.table({"id": places, SCORE: score[places]})

    @staticmethod
    def _after(score: np.ndarray, below: tuple[float, object]) -> np.ndarray:
        places = np.flatnonzero(score <= below[0])
        return places[(score[places] < below[0]) | (places < np.int64(below[1]))]  # type: ignore[arg-type]

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:  # noqa: ARG002 - Table
        """The numbers of these rows."""
        wanted = np.array([i for i in ids if 0 <= int(i) < len(self.value)], np.int64)  # type: ignore[call-overload]
        there = wanted[~np.isnan(self.value[wanted])]
        return pa.table({"id": there, **dict.fromkeys(columns, self.value[there])})

    def position(self) -> int:
        """No change is remembered."""
        return -1

    def since(self, version: int) -> Changes:
        """No change is remembered."""
        msg = f"version={version} is unknown: a table in memory keeps no changes; build the view again"
        raise TableError(msg)
