"""The groups of a table, and where their rows are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.dashboard.cells import texts

Group = tuple[str | None, ...]
"""The values of a group, as text."""


class Parts:
    """The rows of a table, group by group: found once for all boards that look at it.

    Examples
    --------
    >>> table = pa.table({"who": ["b", "a", "b"], "x": [1, 2, 3]})
    >>> mine, places = Parts(table, ("who",)).of(("b",))
    >>> mine["x"].to_pylist(), places.tolist()
    ([1, 3], [0, 2])
    """

    def __init__(self, table: pa.Table, per: tuple[str, ...]) -> None:
        self._table = table
        code = np.zeros(table.num_rows, np.int64)
        named = []
        for name in per:
            column = _encoded(table[name])
            place = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
            code = code * (len(column.dictionary) + 1) + place
            named.append((place, [*column.dictionary.to_pylist(), None]))
        sorted_already = bool((code[1:] >= code[:-1]).all())  # as a workload answers
        self._order = np.arange(len(code)) if sorted_already else np.argsort(code, kind="stable")
        ranked = code if sorted_already else code[self._order]
        starts = np.append(0, np.flatnonzero(ranked[1:] != ranked[:-1]) + 1)
        heads = self._order[starts]
        keys = zip(*([texts[i] for i in place[heads].tolist()] for place, texts in named), strict=True)
        bounds = zip(starts.tolist(), [*starts[1:].tolist(), len(code)], strict=True)
        self._bounds = dict(zip(keys, bounds, strict=True))

    def of(self, group: Group) -> tuple[pa.Table, np.ndarray]:
        """The rows of one group, and their places in the table."""
        start, stop = self._bounds.get(group, (0, 0))
        places = self._order[start:stop]
        if start < stop and places[-1] - places[0] == stop - start - 1:
            return self._table.slice(int(places[0]), stop - start), places  # side by side: no copy
        return self._table.take(places), places


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
        column = column.combine_chunks()
        return column if isinstance(column, pa.DictionaryArray) else pa.concat_arrays(column.chunks)
    return texts(column).combine_chunks().dictionary_encode()
