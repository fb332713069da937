"""Changes of a table's rows, as batches of columns; and the difference of two lists of a view."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import SchemaError
from skyband.runtime.emit import change_names
from skyband.runtime.ids import id_numbers
from skyband.runtime.source import as_table
from skyband.tables.protocol import CHANGE, SCORE, VERSION

_KINDS = ("insert", "update", "update_postimage", "delete", "update_preimage")
_NONE = np.empty(0, np.int64)


class ChangeBatch(NamedTuple):
    """Changes of rows in their order: the rows as they are now, or as deleted."""

    rows: pa.Table
    deleted: np.ndarray | None  # None: no row is
    version: np.ndarray = _NONE  # empty: changes have none
    score: np.ndarray = np.empty(0)  # larger is better; NaN: the row is deleted, or has no score
    ids: np.ndarray = _NONE  # keys as numbers

    @property
    def size(self) -> int:
        """The number of changes."""
        return self.rows.num_rows

    def slice(self, first: int) -> ChangeBatch:
        """The changes from position `first` on."""
        columns: Any = (None if column is None else column[first:] for column in self[1:])
        return ChangeBatch(self.rows.slice(first), *columns)


def read_changes(changes: Any, key: str) -> ChangeBatch:
    """Read a batch of changes; `update_preimage` rows are left out.

    Examples
    --------
    >>> batch = read_changes({"id": [1, 2], "x": [5, None], "_change_type": ["insert", "delete"]}, "id")
    >>> batch.deleted.tolist(), batch.size
    ([False, True], 2)
    """
    rows = changes if isinstance(changes, pa.Table) else as_table(changes)
    names = rows.column_names
    if key not in names:
        raise SchemaError(f"a batch of changes must have the key column {key!r}, got the columns {', '.join(names)}")
    if rows.column(key).null_count:
        raise SchemaError(f"the key {key!r} of a change must not be NULL: fill it in, or leave the row out")
    deleted = None
    if CHANGE in names:
        kind = rows.column(CHANGE).cast(pa.string())
        known = pc.is_in(kind, value_set=pa.array(_KINDS))
        if not pc.all(known, min_count=0).as_py():
            wrong = kind.filter(pc.invert(known))[0].as_py()
            raise SchemaError(f"{CHANGE} must be one of {', '.join(_KINDS)}, got {wrong!r}")
        current = pc.not_equal(kind, "update_preimage")
        if not pc.all(current, min_count=0).as_py():
            rows, kind = rows.filter(current), kind.filter(current)
        deleted = pc.equal(kind, "delete").to_numpy()
    return ChangeBatch(rows, deleted, _versions(rows.column(VERSION)) if VERSION in names else _NONE)


def _versions(column: pa.ChunkedArray) -> np.ndarray:
    try:
        versions = column.cast(pa.int64())
    except pa.ArrowException as error:
        raise SchemaError(
            f"{VERSION} must be integers or times that grow with every change, got {column.type}"
        ) from error
    if versions.null_count:
        raise SchemaError(f"{VERSION} must not be NULL: it orders the changes of a row")
    return versions.to_numpy()


def key_numbers(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """Keys as numbers: integers as they are, others by their hash.

    Integers in one chunk are not copied: a copy would cost more than comparing them with the view.

    Examples
    --------
    >>> key_numbers(pa.chunked_array([[7, 3]]), "id").tolist()
    [7, 3]
    """
    if column.type == pa.int64() and column.num_chunks == 1 and not column.null_count:
        return column.chunk(0).to_numpy()
    return id_numbers(column, name)


def diff_lists(before: pa.Table | None, now: pa.Table, key: str, *, ranks: bool = False) -> pa.Table:
    """The changes from one list to the next: deletes, then rows with another score, then inserts.

    With `ranks` also rows that only moved. O(k) where little moves.

    Examples
    --------
    >>> before = pa.table({"rank": [1, 2], "score": [9.0, 7.0], "id": [4, 5]})
    >>> now = pa.table({"rank": [1, 2], "score": [9.0, 8.0], "id": [4, 6]})
    >>> diff_lists(before, now, "id").select(["_change_type", "rank", "score", "id"]).to_pylist()
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
