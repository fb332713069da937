"""Keys within groups, numbered as they first appear: the cells of a leaderboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.engines.groups import GroupedRows, grown_capacity
from skyband.runtime.arrow import from_storage
from skyband.runtime.groups import Groups
from skyband.runtime.schema import check_schema
from skyband.view.partial import Measure, tie_numbers

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.view.totals import Totals


class _Lists(NamedTuple):
    """Lists of groups."""

    cell: np.ndarray
    score: np.ndarray
    first: np.ndarray


class LastLists:
    """The last list of each group, to tell what has changed.

    Cost: O(rows of the lists), whatever the number of groups.
    """

    def __init__(self) -> None:
        self._lists = GroupedRows(_Lists(np.empty(0, np.int64), np.empty(0), np.zeros((2, 0), np.int64)))
        self._groups = 0  # there may be room for more

    @classmethod
    def load(cls, cell: np.ndarray, score: np.ndarray, last: np.ndarray) -> LastLists:
        """Go on with what was saved."""
        lists = cls()
        lists._lists, lists._groups = GroupedRows(_Lists(cell, score, last)), last.shape[1]
        return lists

    def moves(
        self, cell: np.ndarray, score: np.ndarray, first: np.ndarray, group: np.ndarray, groups: int, ranks: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of each change its list, kind, rank, cell and score; see `kernels.diff`."""
        from skyband.kernels.diff import diff

        if groups > self._lists.capacity:
            self._lists.enlarge(grown_capacity(groups, self._lists.capacity))
        self._groups = max(self._groups, groups)
        begin = self._lists.append(cell, score)
        cells, scores = self._lists.columns()
        which, kind, place, rank = diff(cells, scores, first + begin, group, self._lists.first, ranks)
        return which, kind, rank, cells[place], scores[place]

    def any(self) -> bool:
        """Whether a list has rows."""
        return bool((self._lists.first[1] > self._lists.first[0]).any())

    def cells(self) -> np.ndarray:
        """The cells on the lists."""
        cells: np.ndarray = self._lists.all_rows().cell
        return cells

    def keep(self, groups: np.ndarray, renumbered: np.ndarray) -> None:
        """Forget all groups but these; cells have other numbers."""
        known = groups[groups < self._groups]
        self._lists.keep_groups(known)
        lists = self._lists.all_rows()
        self._lists.replace(lists._replace(cell=renumbered[lists.cell] if len(lists.cell) else lists.cell))
        self._groups = len(known)

    def saved(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Cells, scores, and where each list begins and ends."""
        cell, score, last = self._lists.all_rows()
        return cell, score, last[:, : self._groups].copy()


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
        self._key_of = np.empty(0, np.int32)  # of each cell; there is room for more

    @property
    def key_of(self) -> np.ndarray:
        """The key of each cell."""
        return self._key_of[: int(self._cells[0])]

    @key_of.setter
    def key_of(self, keys: np.ndarray) -> None:
        self._key_of = keys
        self._cells[0] = len(keys)

    def codes(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of each row's group and key."""
        group = np.zeros(rows.num_rows, np.int32) if self.groups is None else self.groups.codes(rows)
        return group, self.keys.codes(rows)

    def numbers(self, group: np.ndarray, key: np.ndarray, groups: int, totals: Totals) -> np.ndarray:
        """The number of the cell of each pair of group and key; new cells are made known to `totals`."""
        from skyband.kernels.totals import paired

        before = int(self._cells[0])
        if 2 * (before + len(key)) > self._slots.shape[1]:
            self.rehash(before + len(key), totals)
        cell, fresh = paired(group, key, self._slots, self._cells)
        if len(fresh):
            after = before + len(fresh)
            if after > len(self._key_of):
                more = grown_capacity(after, len(self._key_of)) - len(self._key_of)
                self._key_of = np.concatenate([self._key_of, np.empty(more, np.int32)])
            self._key_of[before:after] = key[fresh]
            new = pa.Table.from_arrays(self.keys.values(key[fresh]), names=self.keys.per)
            totals.meet(group[fresh], tie_numbers(new, self.query.of), groups)
        return cell

    def rehash(self, cells: int, totals: Totals) -> None:
        """A larger table of cells."""
        from skyband.kernels.totals import paired

        self._slots = np.full((2, 1 << int(4 * cells).bit_length()), -1, np.int64)
        known = self.key_of
        self._cells[0] = 0
        paired(totals.cells.group[: len(known)], known, self._slots, self._cells)

    def values(self, groups: Groups | None, name: str, codes: np.ndarray) -> pa.Array:
        """The values of a column of groups or keys, by their numbers."""
        kind = self.schema.field(name).type
        if groups is None or not len(codes):
            return pa.nulls(0, kind)
        return from_storage(groups.values(codes)[groups.per.index(name)], kind, name)
