"""The rows themselves, kept as long as an engine may still name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.flow.arrow import concat_rows, take_rows

if TYPE_CHECKING:
    import pyarrow as pa

_SPREAD = 100  # from so many places a slot on, sorting is cheaper than marking


class Payload:
    """Rows by slot number. New rows come in order; what is no longer named is dropped now and then.

    Examples
    --------
    >>> import pyarrow as pa
    >>> kept = Payload()
    >>> kept.add(pa.table({"x": ["a", "b", "c"]}))
    array([0, 1, 2])
    >>> kept.keep(np.array([2]))
    >>> kept.take(np.array([2, 2]))["x"].to_pylist()
    ['c', 'c']
    """

    def __init__(self) -> None:
        self.next = 0
        self._slots = np.empty(0, np.int64)  # of the rows that were chosen to stay
        self._rows: pa.Table | None = None
        self._fresh: list[tuple[int, pa.Table]] = []  # whole batches, each from a slot on

    def __len__(self) -> int:
        return len(self._slots) + sum(t.num_rows for _, t in self._fresh)

    def add(self, rows: pa.Table) -> np.ndarray:
        """Take new rows; their slots."""
        slots = np.arange(self.next, self.next + rows.num_rows)
        if rows.num_rows:
            self._fresh.append((self.next, rows))
            self.next += rows.num_rows
        return slots

    def keep(self, slots: np.ndarray) -> None:
        """Drop all rows but these (which may repeat)."""
        chosen = distinct(slots)
        self._rows = self._gather(chosen)
        self._slots = chosen
        self._fresh = []

    def retype(self, name: str, kind: pa.DataType) -> None:
        """Another type for a column."""

        def cast(rows: pa.Table) -> pa.Table:
            at = rows.schema.get_field_index(name)
            return rows if at < 0 else rows.set_column(at, name, rows.column(at).cast(kind))

        self._rows = None if self._rows is None else cast(self._rows)
        self._fresh = [(base, cast(rows)) for base, rows in self._fresh]

    def saved(self) -> tuple[int, np.ndarray, pa.Table | None]:
        """The next slot, and the rows that `keep` left with their slots."""
        assert not self._fresh, "keep first"
        return self.next, self._slots, self._rows

    def load(self, upcoming: int, slots: np.ndarray, rows: pa.Table | None) -> None:
        """Go on with saved rows."""
        self.next, self._slots, self._rows, self._fresh = upcoming, slots, rows, []

    def take(self, slots: np.ndarray) -> pa.Table | None:
        """The rows of these slots, in this order; None where no row was ever added."""
        chosen = distinct(slots)
        rows = self._gather(chosen)
        in_place = len(chosen) == len(slots) and bool((np.diff(slots) > 0).all())
        return rows if rows is None or in_place else take_rows(rows, places(chosen, slots))

    def _gather(self, slots: np.ndarray) -> pa.Table | None:
        """The rows of these rising slots, from wherever they lie."""
        parts = []
        first = self._fresh[0][0] if self._fresh else self.next
        cut = int(np.searchsorted(slots, first))
        if self._rows is not None:
            parts.append(take_rows(self._rows, np.searchsorted(self._slots, slots[:cut])))
        for base, rows in self._fresh:
            high = cut + int(np.searchsorted(slots[cut:], base + rows.num_rows))
            parts.append(take_rows(rows, slots[cut:high] - base))
            cut = high
        return concat_rows(parts) if parts else None


def distinct(slots: np.ndarray) -> np.ndarray:
    """The different slots, rising. By marking where they lie close together, else by sorting."""
    if not len(slots):
        return slots
    low, high = int(slots.min()), int(slots.max())
    if high - low > _SPREAD * len(slots):
        return np.unique(slots)
    mark = np.zeros(high - low + 1, np.bool_)
    mark[slots - low] = True
    return np.flatnonzero(mark) + low


def places(chosen: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Where each of `slots` stands in the rising `chosen`."""
    low, high = int(chosen[0]), int(chosen[-1])
    if high - low > _SPREAD * len(slots):
        return np.searchsorted(chosen, slots)
    place = np.empty(high - low + 1, np.int64)
    place[chosen - low] = np.arange(len(chosen))
    return place[slots - low]
