"""Rows in the order of time and id, with what engines see of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skyband.runtime.arrow import concat_rows, take_rows

if TYPE_CHECKING:
    import pyarrow as pa


class PreparedBatch(NamedTuple):
    """Rows in the order of time and id, with what engines see of them."""

    rows: pa.Table
    score: np.ndarray
    time: np.ndarray
    id: np.ndarray | None
    group: np.ndarray | None
    missing: np.ndarray | None = None  # which rows have no id; None: all have one

    def take(self, places: np.ndarray | slice) -> PreparedBatch:
        """Some of the rows."""
        if isinstance(places, slice):
            low, high, _ = places.indices(len(self.score))
            rows = self.rows.slice(low, high - low)
        else:
            rows = take_rows(self.rows, places)
        cut = [None if column is None else column[places] for column in self[1:]]
        return PreparedBatch(rows, *cut)  # type: ignore[arg-type]

    def in_order(self) -> bool:
        """Whether the rows come by time, and at equal times by id."""
        from skyband.kernels.columns import is_sorted, is_sorted_by_time_and_id

        ids = self.id_order()
        return bool(is_sorted(self.time)) if ids is None else bool(is_sorted_by_time_and_id(self.time, ids))

    def sorted(self) -> PreparedBatch:
        """The rows by time and id; those that agree in both as they came."""
        if self.in_order():
            return self
        ids = self.id_order()
        return self.take(np.lexsort((self.time,) if ids is None else (ids, self.time)))

    def id_order(self) -> np.ndarray | None:
        """Numbers that order the rows of this part as their ids do, a missing id before all others."""
        if self.id is None or self.missing is None:
            return self.id
        order = np.unique(self.id, return_inverse=True)[1] + 1
        return np.where(self.missing, 0, order)


def joined(parts: list[PreparedBatch]) -> PreparedBatch:
    """All parts as one, in the order given."""
    if len(parts) == 1:
        return parts[0]
    if any(part.missing is not None for part in parts):
        none = [np.zeros(len(part.time), np.bool_) if part.missing is None else part.missing for part in parts]
        parts = [part._replace(missing=mine) for part, mine in zip(parts, none, strict=True)]
    rows = concat_rows([p.rows for p in parts])
    columns = [
        None if column[0] is None else np.concatenate(column) for column in zip(*(p[1:] for p in parts), strict=True)
    ]
    return PreparedBatch(rows, *columns)  # type: ignore[arg-type]


def following(parts: list[PreparedBatch]) -> list[PreparedBatch]:
    """The same rows in parts that follow each other in time; only what overlaps is joined and sorted.

    Mostly that is next to nothing: the rows of one moment at the end of a batch and at the beginning of the next.
    """
    found = parts[:1]
    for part in parts[1:]:
        last = found.pop()
        low = int(np.searchsorted(last.time, part.time[0]))
        cut = int(np.searchsorted(part.time, last.time[-1], side="right"))
        if low == 0 and found and found[-1].time[-1] >= part.time[0]:
            return [joined(parts).sorted()]  # it goes back behind more than one
        if low:
            found.append(last.take(slice(0, low)))
        if cut:
            found.append(joined([last.take(slice(low, None)), part.take(slice(0, cut))]).sorted())
        if cut < len(part.time):
            found.append(part.take(slice(cut, None)))
    return found
