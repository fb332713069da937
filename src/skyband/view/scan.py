"""The best rows of a table whose database cannot rank them: its rows are read, and scored as changes are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.runtime.score import scores
from skyband.tables.protocol import SCORE

if TYPE_CHECKING:
    from skyband.query.expression import Expression
    from skyband.tables.protocol import ScannableTable


def scan(
    table: ScannableTable, by: Expression, n: int, below: tuple[float, object] | None, *, ascending: bool
) -> pa.Table:
    """Answer `table.top(n, below)` from all rows. Memory holds n rows and one batch."""
    best: pa.Table | None = None
    for rows, operands in table.read():
        score = scores(by, operands)
        found = rows.add_column(1, SCORE, pa.array(-score if ascending else score, pa.float64()))
        found = found if best is None else pa.concat_tables([best, found])
        best = found.take(_best(found, n, below, whole=table.whole_keys))
    assert best is not None
    return best


def _best(rows: pa.Table, n: int, below: tuple[float, object] | None, *, whole: bool) -> np.ndarray:
    """Places of the n best rows, best first; with keys that are no whole numbers, runs of equal scores whole."""
    score = rows.column(SCORE).to_numpy()
    key = rows.column(0).to_numpy() if whole else np.zeros(len(score), np.int64)
    fine = ~np.isnan(score)
    if below is not None:
        edge, last = below
        fine &= (score < edge) if last is None else (score < edge) | ((score == edge) & (key < np.int64(last)))  # type: ignore[arg-type]
    places = np.flatnonzero(fine)
    order = places[np.lexsort((key[places], score[places]))[::-1]]
    if whole or len(order) <= n:
        return order[:n]
    return order[score[order] >= score[order[n - 1]]]
