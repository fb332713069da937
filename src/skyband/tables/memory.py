"""Tables in memory: one that is edited, one that replays its history, and one of NumPy columns for simulations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import TableError, nearest
from skyband.tables.protocol import SCORE, Changes

if TYPE_CHECKING:
    from skyband.query.expression import Expression

_CAST_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)
_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1}


class Memory:
    """A table in this process. `put` adds rows, or replaces those with the same key.

    Cost: O(rows) per fetch and per put.

    Examples
    --------
    >>> import skyband as sb
    >>> users = sb.tables.Memory({"user": [1, 2], "followers": [10, 20]}, key="user")
    >>> users.put({"user": [2], "followers": [25]})
    >>> users.fetch([2, 3], ["followers"]).to_pylist()
    [{'user': 2, 'followers': 25}]
    """

    local = True  # a fetch does not block

    def __init__(self, rows: Any, key: str) -> None:
        self.key = key
        self.rows = _as_table(rows, [key])

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self.rows.column_names

    def put(self, rows: Any) -> None:
        """Add rows, replacing those with the same key."""
        new = _as_table(rows, [self.key])
        replaced = pc.is_in(self.rows[self.key], value_set=new[self.key].combine_chunks())
        old = self.rows.filter(pc.invert(replaced))
        self.rows = pa.concat_tables([old, new.select(old.column_names).cast(old.schema)]).combine_chunks()

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """Return the rows with these ids."""
        del timeout
        _check_columns(self.rows, columns)
        wanted = _cast_keys(ids, self.rows.schema.field(self.key).type)
        return self.rows.filter(pc.is_in(self.rows[self.key], value_set=wanted)).select([self.key, *columns])


class History:
    """A table with all versions of its rows, for replays: each version has the time from which it is valid.

    Times are in `unit`. After `at(moment)`, a fetch returns for each id the latest version strictly before that moment.

    Examples
    --------
    >>> import skyband as sb
    >>> past = sb.tables.History({"user": [7, 7], "t": [0, 60], "followers": [5, 9]}, key="user", time="t", unit="s")
    >>> past.at(60_000_000)
    >>> past.fetch([7], ["followers"]).to_pylist()
    [{'user': 7, 'followers': 5}]
    """

    local = True  # a fetch does not block

    def __init__(self, rows: Any, key: str, time: str, unit: str = "us") -> None:
        self.key = key
        if unit not in _MICROSECONDS:
            raise TableError(f"unit must be one of {', '.join(map(repr, _MICROSECONDS))}, got {unit!r}")
        self._rows = _as_table(rows, [key, time]).sort_by([(key, "ascending"), (time, "ascending")])
        codes = self._rows[key].combine_chunks().dictionary_encode()
        codes = codes.chunk(0) if isinstance(codes, pa.ChunkedArray) else codes
        self._keys = codes.dictionary
        self._first = np.searchsorted(codes.indices.to_numpy(), np.arange(len(self._keys) + 1))
        self._time = self._rows[time].cast(pa.int64()).to_numpy() * _MICROSECONDS[unit]
        self._moment = 1 << 62

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._rows.column_names

    def at(self, moment: int) -> None:
        """Answer as of `moment`, in microseconds."""
        self._moment = moment

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """Return the versions of these ids just before the moment."""
        del timeout
        _check_columns(self._rows, columns)
        codes = pc.index_in(_cast_keys(ids, self._keys.type), value_set=self._keys)
        places = []
        for code in codes.drop_null().to_pylist():
            low, high = self._first[code], self._first[code + 1]
            place = low + np.searchsorted(self._time[low:high], self._moment) - 1
            if place >= low:
                places.append(place)
        return self._rows.take(pa.array(places, pa.int64())).select([self.key, *columns])


class ArrayTable:
    """Rows 0, 1, 2, ... with one number each, NaN where there is no row. `value` can be changed in place.

    Cost: `top` reads all rows once, as a database without an index does.

    Examples
    --------
    >>> import skyband as sb
    >>> table = sb.tables.ArrayTable(np.array([3.0, 9.0, 5.0]))
    >>> table.top(2).to_pydict()
    {'id': [1, 2], 'score': [9.0, 5.0]}
    >>> table.top(2, below=(9.0, 1)).to_pydict()
    {'id': [2, 0], 'score': [5.0, 3.0]}
    """

    key = "id"

    def __init__(self, value: np.ndarray) -> None:
        self.value = value
        self.seconds = 0.0
        """CPU time spent in `top`."""
        self._sign = 1.0

    def count(self) -> int:
        """Return the number of rows."""
        return len(self.value)

    def ranked(self, by: Expression, columns: Sequence[str], *, ascending: bool = False) -> ArrayTable:
        """Return the same numbers in order; `by` must be the column "value"."""
        if by.tree != ("column", "value") or columns:
            raise TableError(
                f'by must be "value", the only column besides "id", got by={str(by)!r} and columns={list(columns)}'
            )
        if not ascending:
            return self
        table = ArrayTable(self.value)
        table._sign = -1.0
        return table

    def top(self, n: int, below: tuple[float, object] | None = None) -> pa.Table:
        """Return the n best rows after (score, id)."""
        began = time.process_time()
        score = self.value if self._sign > 0 else -self.value
        places = np.flatnonzero(~np.isnan(score)) if below is None else self._ranked_after(score, below)
        if len(places) > n:
            worst = np.partition(score[places], len(places) - n)[len(places) - n]
            places = places[score[places] >= worst]
        places = places[np.lexsort((-places, -score[places]))][:n]
        self.seconds += time.process_time() - began
        return pa.table({"id": places, SCORE: score[places]})

    @staticmethod
    def _ranked_after(score: np.ndarray, below: tuple[float, object]) -> np.ndarray:
        places = np.flatnonzero(score <= below[0])
        return places[(score[places] < below[0]) | (places < np.int64(below[1]))]  # type: ignore[arg-type]

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """Return the numbers of these rows."""
        del timeout
        wanted = np.array([i for i in ids if 0 <= int(i) < len(self.value)], np.int64)  # type: ignore[call-overload]
        found = wanted[~np.isnan(self.value[wanted])]
        return pa.table({"id": found, **dict.fromkeys(columns, self.value[found])})

    def position(self) -> int:
        """Return -1: there is no change log."""
        return -1

    def since(self, version: int) -> Changes:
        """Raise TableError: there is no change log."""
        raise TableError(f"version={version} cannot be read, since the table has no change log: build the view again")


def _as_table(rows: Any, columns: Sequence[str]) -> pa.Table:
    try:
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise TableError(
            f"rows must be a table, such as columns of equal length by name; got {type(rows).__name__} "
            f"({str(error).splitlines()[0]})"
        ) from error
    _check_columns(table, columns)
    return table


def _check_columns(rows: pa.Table, columns: Sequence[str]) -> None:
    for name in columns:
        if name not in rows.column_names:
            raise TableError(f"the table has no column {name!r}: {nearest(name, rows.column_names)}")


def _cast_keys(ids: Sequence[object], key_type: pa.DataType) -> pa.Array:
    """Cast ids to the type of the keys, leaving out those that cannot be one: a stream may have numbers as text."""
    try:
        return pa.array(ids).cast(key_type)
    except _CAST_ERRORS:
        arrays = [array for array in (_cast_key(each, key_type) for each in ids) if array is not None]
    if not arrays:
        raise TableError(f"keys must be {key_type}, got {ids[0]!r}")
    return pa.concat_arrays(arrays)


def _cast_key(key: object, key_type: pa.DataType) -> pa.Array | None:
    try:
        return pa.array([key]).cast(key_type)
    except _CAST_ERRORS:
        return None
