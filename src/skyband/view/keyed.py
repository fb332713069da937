"""Keys within groups, numbered as they first appear: the cells of a leaderboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.flow.arrow import from_storage, take_rows
from skyband.flow.keys import Groups
from skyband.flow.schema import check_schema
from skyband.view.partial import Measure, tie_numbers

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.view.totals import Totals


class Keyed:
    """What leaderboards of windows and of all time share: a query, its measure, its groups, keys and cells."""

    def __init__(self, query: TopK, schema: pa.Schema) -> None:
        check_schema(query, schema)
        self.query, self.schema = query, schema
        self.measure = Measure.of(query, schema)
        self.groups = Groups(query.per) if query.per else None
        self.keys = Groups(query.of)
        self._slots = np.full((2, 16), -1, np.int64)
        self._cells = np.zeros(1, np.int64)
        self.key_of = np.empty(0, np.int32)  # of each cell

    def numbers(self, partials: pa.Table, totals: Totals) -> np.ndarray:
        """The number of each row's cell; new cells are made known to `totals`."""
        from skyband.kernels.totals import paired

        size = partials.num_rows
        group = np.zeros(size, np.int32) if self.groups is None else self.groups.codes(partials)
        key = self.keys.codes(partials)
        before = int(self._cells[0])
        if 2 * (before + size) > self._slots.shape[1]:
            self.rehash(before + size, totals)
        cell, fresh = paired(group, key, self._slots, self._cells)
        if len(fresh):
            new = take_rows(partials.select(list(self.query.of)), fresh)
            self.key_of = np.concatenate([self.key_of, key[fresh]])
            groups = 1 if self.groups is None else len(self.groups)
            totals.meet(group[fresh], tie_numbers(new, self.query.of), groups)
        return cell

    def rehash(self, cells: int, totals: Totals) -> None:
        """A larger table of cells."""
        from skyband.kernels.totals import paired

        self._slots = np.full((2, 1 << int(4 * cells).bit_length()), -1, np.int64)
        count = len(self.key_of)
        self._cells[0] = 0
        paired(totals.cells.group[:count], self.key_of, self._slots, self._cells)

    def values(self, groups: Groups | None, name: str, codes: np.ndarray) -> pa.Array:
        """The values of a column of groups or keys, by their numbers."""
        kind = self.schema.field(name).type
        table = None if groups is None else groups.table()
        if table is None or not len(codes):
            return pa.nulls(0, kind)
        return from_storage(take_rows(table.select([name]), codes).column(0), kind, name)
