"""What has changed in a view's list since it was last told: who entered, who left, who moved."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.runtime.emit import change_names
from skyband.runtime.ids import id_numbers
from skyband.tables.protocol import CHANGE, SCORE


def changed(before: pa.Table | None, now: pa.Table, key: str, *, ranks: bool = False) -> pa.Table:
    """The changes that lead from one list to the next: deletes first, then rows with another score, then inserts.

    With `ranks` also rows that only moved. O(k) where little moves.

    Examples
    --------
    >>> before = pa.table({"rank": [1, 2], "score": [9.0, 7.0], "id": [4, 5]})
    >>> now = pa.table({"rank": [1, 2], "score": [9.0, 8.0], "id": [4, 6]})
    >>> changed(before, now, "id").select(["_change_type", "rank", "score", "id"]).to_pylist()
    [{'_change_type': 'delete', 'rank': 2, 'score': 7.0, 'id': 5},
     {'_change_type': 'insert', 'rank': 2, 'score': 8.0, 'id': 6}]
    """
    from skyband.kernels.diff import diff

    old = now.slice(0, 0) if before is None else before
    both = pa.concat_tables([old, now], promote_options="permissive")
    last = np.array([[0], [old.num_rows]], np.int64)
    first = np.array([old.num_rows, both.num_rows], np.int64)
    ids, score = id_numbers(both.column(key), key), both.column(SCORE).to_numpy()
    _, kind, place, _ = diff(ids, score, first, np.zeros(1, np.int32), last, ranks)
    return both.take(pa.array(place)).add_column(0, CHANGE, change_names(kind))
