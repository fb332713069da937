"""Batches of changes, as columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import SchemaError
from skyband.runtime.ids import id_numbers
from skyband.runtime.source import as_table
from skyband.tables.protocol import CHANGE, VERSION

_KINDS = ("insert", "update", "update_postimage", "delete", "update_preimage")
_NONE = np.empty(0, np.int64)


class Batch(NamedTuple):
    """Changes of rows: as they are now, or gone."""

    rows: pa.Table
    gone: np.ndarray | None
    version: np.ndarray | None
    ids: np.ndarray = _NONE
    score: np.ndarray = np.empty(0)

    @property
    def size(self) -> int:
        """How many changes."""
        return self.rows.num_rows

    def after(self, place: int) -> Batch:
        """The changes from `place` on."""
        cut = [None if c is None else c[place:] for c in (self.gone, self.version, self.ids, self.score)]
        return Batch(self.rows.slice(place), *cut)  # type: ignore[arg-type]


def batch_of(changes: Any, key: str) -> Batch:
    """Changes as a batch; `update_preimage` rows say nothing and are left out.

    Examples
    --------
    >>> batch = batch_of({"id": [1, 2], "x": [5, None], "_change_type": ["insert", "delete"]}, "id")
    >>> batch.gone.tolist(), batch.size
    ([False, True], 2)
    """
    rows = changes if isinstance(changes, pa.Table) else as_table(changes)
    names = rows.column_names
    if key not in names:
        msg = f"a batch of changes lacks the key column {key!r}: there are {', '.join(names)}"
        raise SchemaError(msg)
    if rows.column(key).null_count:
        msg = f"a batch of changes has a row whose key {key!r} is NULL: fill it in, or leave the row out"
        raise SchemaError(msg)
    gone = None
    if CHANGE in names:
        kind = rows.column(CHANGE).cast(pa.string())
        known = pc.is_in(kind, value_set=pa.array(_KINDS))
        if not pc.all(known, min_count=0).as_py():
            wrong = kind.filter(pc.invert(known))[0].as_py()
            msg = f"{CHANGE} is {wrong!r}: write one of {', '.join(_KINDS)}"
            raise SchemaError(msg)
        before = pc.equal(kind, "update_preimage")
        if pc.any(before, min_count=0).as_py():
            rows, kind = rows.filter(pc.invert(before)), kind.filter(pc.invert(before))
        gone = pc.equal(kind, "delete").to_numpy()
    version = None
    if VERSION in names:
        version = _versions(rows.column(VERSION))
    return Batch(rows, gone, version)


def _versions(column: pa.ChunkedArray) -> np.ndarray:
    try:
        found = column.cast(pa.int64())
    except pa.ArrowException as error:
        msg = f"{VERSION} is {column.type}, and must grow with every change: write whole numbers or times"
        raise SchemaError(msg) from error
    if found.null_count:
        msg = f"{VERSION} is NULL in a change, so its place in the order is unknown: fill it in"
        raise SchemaError(msg)
    return found.to_numpy()


def keys_of(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """Keys as numbers; whole numbers in one piece are not copied, which would cost more than to look at them.

    Examples
    --------
    >>> keys_of(pa.chunked_array([[7, 3]]), "id").tolist()
    [7, 3]
    """
    if column.type == pa.int64() and column.num_chunks == 1 and not column.null_count:
        return column.chunk(0).to_numpy()
    return id_numbers(column, name)
