"""The groups of a table, and where their rows are."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import pyarrow as pa

from skyband.dashboard.cells import texts

Group = tuple[str | None, ...]
"""The values of a group, as text."""


class Parts:
    """The rows of a table, group by group: found once for all boards that look at it.

    Cost: O(rows) once, or O(rows * log rows) where groups are not side by side; then O(log rows) a group.

    Examples
    --------
    >>> parts = Parts(pa.table({"who": ["b", "a", "b"], "x": [1, 2, 3]}), ("who",))
    >>> parts.of(("b",)).tolist(), parts.of(("c",)).tolist(), parts.groups()
    ([0, 2], [], [('b',), ('a',)])
    """

    def __init__(self, table: pa.Table, per: tuple[str, ...]) -> None:
        self.table = table
        self._lookups: list[dict[str | None, int]] = []  # a column's texts and their codes; NULL has the last
        self._code = np.zeros(1, np.int64)
        for name in per:
            place, lookup = _encoded(table[name])
            self._lookups.append(lookup)
            self._code = self._code * len(lookup) + place

    def of(self, group: Group) -> np.ndarray:
        """Where the rows of one group are."""
        code = 0
        for text, lookup in zip(group, self._lookups, strict=True):
            if text not in lookup:
                return np.zeros(0, np.int64)
            code = code * len(lookup) + lookup[text]
        order, ranked = self._sorted
        start, stop = ranked.searchsorted((code, code + 1)).tolist()
        return np.arange(start, stop) if order is None else order[start:stop]

    def groups(self) -> list[Group]:
        """The groups that have rows, in the order of their first ones."""
        room = math.prod(map(len, self._lookups))
        if room <= 4 * len(self._code):  # few groups: counted, not sorted
            first = np.full(room, len(self._code))
            first[self._code[::-1]] = np.arange(len(self._code) - 1, -1, -1)
            heads = np.sort(first[first < len(self._code)])
        else:
            heads = np.sort(np.unique(self._code, return_index=True)[1])
        code, columns = self._code[heads], []
        for lookup in reversed(self._lookups):
            named = list(lookup)
            code, place = np.divmod(code, len(named))
            columns.append([named[i] for i in place.tolist()])
        return list(zip(*reversed(columns), strict=True))

    @cached_property
    def _sorted(self) -> tuple[np.ndarray | None, np.ndarray]:
        """The rows group by group, None if they are already, as a workload answers; and the codes in that order."""
        if bool((self._code[1:] >= self._code[:-1]).all()):
            return None, self._code
        order = np.argsort(self._code, kind="stable")
        return order, self._code[order]


def _encoded(column: pa.ChunkedArray) -> tuple[np.ndarray, dict[str | None, int]]:
    if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
        whole = column.combine_chunks()
        found = whole if isinstance(whole, pa.DictionaryArray) else pa.concat_arrays(whole.chunks)
        if found.dictionary.null_count or len(lookup := _numbered(found)) <= len(found.dictionary):
            found = texts(column).combine_chunks().dictionary_encode()  # a dictionary may hold a text twice
            lookup = _numbered(found)
    else:
        found = texts(column).combine_chunks().dictionary_encode()
        lookup = _numbered(found)
    return found.indices.fill_null(len(lookup) - 1).to_numpy(zero_copy_only=False), lookup


def _numbered(column: pa.DictionaryArray) -> dict[str | None, int]:
    named = [*column.dictionary.to_pylist(), None]
    return dict(zip(named, range(len(named)), strict=True))
