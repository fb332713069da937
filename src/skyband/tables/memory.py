"""Tables in memory: one that is edited, and one that replays its past."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import TableError

_WRONG = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)
_UNITS = {"s": 1_000_000, "ms": 1000, "us": 1}


class Memory:
    """A table in this process. `put` adds rows, or replaces those with the same key.

    Cost: O(rows) a fetch, O(rows) a put.

    Examples
    --------
    >>> users = Memory({"user": [1, 2], "followers": [10, 20]}, key="user")
    >>> users.put({"user": [2], "followers": [25]})
    >>> users.fetch([2, 3], ["followers"]).to_pylist()
    [{'user': 2, 'followers': 25}]
    """

    local = True  # a fetch waits for no one

    def __init__(self, rows: Any, key: str) -> None:
        self.key = key
        self.rows = _table(rows)
        _has(self.rows, [key])

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return self.rows.column_names

    def put(self, rows: Any) -> None:
        """Add rows; those of a key that is there already replace it."""
        new = _table(rows)
        _has(new, [self.key])
        old = self.rows.filter(pc.invert(pc.is_in(self.rows[self.key], value_set=_flat(new[self.key]))))
        self.rows = pa.concat_tables([old, new.select(old.column_names).cast(old.schema)]).combine_chunks()

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The rows of those ids."""
        del timeout  # nothing to wait for
        _has(self.rows, columns)
        wanted = _keys(ids, self.rows.schema.field(self.key).type)
        return self.rows.filter(pc.is_in(self.rows[self.key], value_set=wanted)).select([self.key, *columns])


class History:
    """A remote table as it was at any moment, for replays: every row has the time from which it holds.

    The times count in `unit`. `at` sets the moment; a fetch then gives of each id the latest row strictly before it.

    Examples
    --------
    >>> past = History({"user": [7, 7], "t": [0, 60], "followers": [5, 9]}, key="user", time="t", unit="s")
    >>> past.at(60_000_000)
    >>> past.fetch([7], ["followers"]).to_pylist()
    [{'user': 7, 'followers': 5}]
    """

    local = True  # a fetch waits for no one

    def __init__(self, rows: Any, key: str, time: str, unit: str = "us") -> None:
        self.key = key
        if unit not in _UNITS:
            msg = f"unit={unit!r} is unknown: write one of {', '.join(map(repr, _UNITS))}"
            raise TableError(msg)
        self._per = _UNITS[unit]
        table = _table(rows)
        _has(table, [key, time])
        self._rows = table.sort_by([(key, "ascending"), (time, "ascending")])
        codes = self._rows[key].combine_chunks().dictionary_encode()
        codes = codes.chunk(0) if isinstance(codes, pa.ChunkedArray) else codes
        self._keys = codes.dictionary
        code = codes.indices.to_numpy()
        self._first = np.searchsorted(code, np.arange(len(self._keys) + 1))
        self._time = self._rows[time].cast(pa.int64()).to_numpy() * self._per
        self._moment = 1 << 62

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return self._rows.column_names

    def at(self, moment: int) -> None:
        """Answer as of `moment`, in microseconds."""
        self._moment = moment

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The rows of those ids, as they were just before the moment."""
        del timeout  # nothing to wait for
        _has(self._rows, columns)
        code = pc.index_in(_keys(ids, self._keys.type), value_set=self._keys)
        places = []
        for c in code.drop_null().to_pylist():
            low, high = self._first[c], self._first[c + 1]
            place = low + np.searchsorted(self._time[low:high], self._moment) - 1
            if place >= low:
                places.append(place)
        return self._rows.take(pa.array(places, pa.int64())).select([self.key, *columns])


def _table(rows: Any) -> pa.Table:
    try:
        return rows if isinstance(rows, pa.Table) else pa.table(rows)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        msg = f"rows={type(rows).__name__} is no table ({str(error).splitlines()[0]}): give columns of equal length"
        raise TableError(msg) from error


def _keys(ids: Sequence[object], kind: pa.DataType) -> pa.Array:
    """Ids in the type of the keys here: a stream may have numbers as text. What cannot be a key has no row."""
    try:
        return pa.array(ids).cast(kind)
    except _WRONG:
        fitting = [key for key in map(_keyed(kind), ids) if key is not None]
    if not fitting:
        msg = f"the keys here are {kind}, and {ids[0]!r} is not"
        raise TableError(msg)
    return pa.concat_arrays(fitting)


def _keyed(kind: pa.DataType) -> Callable[[object], pa.Array | None]:
    def keyed(id: object) -> pa.Array | None:
        try:
            return pa.array([id]).cast(kind)
        except _WRONG:
            return None

    return keyed


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)


def _has(rows: pa.Table, columns: Sequence[str]) -> None:
    for name in columns:
        if name not in rows.column_names:
            msg = f"the table has no column {name!r}: there are {', '.join(rows.column_names)}"
            raise TableError(msg)
