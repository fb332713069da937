"""The rows themselves, kept as long as an engine may still name them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skyband.engines.validation import require
from skyband.runtime.arrow import concat_rows, take_rows
from skyband.runtime.batch import is_ascending

_MAX_ROWS = 1 << 60  # of a stream
_SPREAD = 100  # from so many places a slot on, sorting is cheaper than marking
_SMALL = 256  # chunks of at most so many rows are merged ...
_FAN = 16  # ... whenever there are so many of them, and again when so many merged ones are there
_FEW = 64  # so many rows are looked up one by one, ...
_COPIED = 1 << 13  # ... in chunks of together so many rows
_LARGE = 1 << 10  # values of a dictionary that may be kept with a small batch


class _Chunk(NamedTuple):
    """Rows that lie together."""

    base: int  # the slot of the first
    rows: pa.RecordBatch
    slots: np.ndarray | None = None  # the slot of each, rising; None: one after the other from `base` on

    def places(self, slots: np.ndarray) -> np.ndarray:
        """Return where the rows of these slots are."""
        return slots - self.base if self.slots is None else np.searchsorted(self.slots, slots)


class RowStore:
    """Rows by slot number. New rows come in order; what is no longer named is dropped now and then.

    Cost: O(1) for a new row, however small its batch: small batches are merged into chunks of a few hundred to
    a few thousand rows. O(rows taken + chunks they lie in) to take some.

    Examples
    --------
    >>> kept = RowStore()
    >>> kept.add(pa.table({"x": ["a", "b", "c"]}))
    array([0, 1, 2])
    >>> kept.keep(np.array([2]))
    >>> kept.take(np.array([2, 2]))["x"].to_pylist()
    ['c', 'c']
    """

    def __init__(self) -> None:
        self.next = 0
        self._chunks: list[_Chunk] = []
        self._bases: list[int] = []  # of the chunks
        self._schema: pa.Schema | None = None  # of the last rows that came
        self._encoded = False  # whether it has dictionaries
        self._small = 0  # how many small chunks have come one after the other
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def chunks(self) -> int:
        """In how many pieces the rows lie."""
        return len(self._chunks)

    def add(self, rows: pa.Table) -> np.ndarray:
        """Take new rows; their slots."""
        size = rows.num_rows
        slots = np.arange(self.next, self.next + size)
        if self._schema is None or not self._schema.equals(rows.schema):
            self._schema = rows.schema
            self._encoded = any(map(pa.types.is_dictionary, rows.schema.types))
        batches = rows.to_batches() if size and rows.num_columns else []
        small = size <= _SMALL
        if small and len(batches) > 1:
            batches = _merged(batches)
        if small and self._encoded:
            batches = list(map(_decoded, batches))
        base = self.next
        for batch in batches:
            self._append(_Chunk(base, batch))
            base += batch.num_rows
        self.next, self._size = self.next + size, self._size + size
        self._merge_small(small and len(batches) == 1)
        return slots

    def _append(self, chunk: _Chunk) -> None:
        if chunk.rows.num_rows:
            self._chunks.append(chunk)
            self._bases.append(chunk.base)

    def _merge_small(self, small: bool) -> None:
        """Merge the last chunks if there are many small ones: so each row is copied twice, however small they are."""
        self._small = self._small + 1 if small else 0
        if self._small and self._small % _FAN == 0:
            for _ in range(1 + (self._small % _FAN**2 == 0)):
                last = self._chunks[-_FAN:]
                merged = _merged([chunk.rows for chunk in last])
                if len(merged) > 1:  # more text than fits into one array
                    return
                self._chunks[-_FAN:], self._bases[-_FAN:] = [_Chunk(last[0].base, merged[0])], [last[0].base]

    def keep(self, slots: np.ndarray) -> None:
        """Drop all rows but these (which may repeat)."""
        chosen = distinct(slots)
        self._put(chosen, _merged(self._taken(chosen)))

    def _put(self, slots: np.ndarray, batches: list[pa.RecordBatch]) -> None:
        """Have these rows and no others."""
        self._chunks, self._bases, self._small, self._size = [], [], 0, len(slots)
        low = 0
        for batch in batches:
            part = slots[low : low + batch.num_rows]
            low += batch.num_rows
            if len(part):
                self._append(_Chunk(int(part[0]), batch, part))

    def retype(self, name: str, kind: pa.DataType) -> None:
        """Another type for a column."""
        for number, chunk in enumerate(self._chunks):
            at = chunk.rows.schema.get_field_index(name)
            if at >= 0:
                rows = chunk.rows.set_column(at, name, chunk.rows.column(at).cast(kind))
                self._chunks[number] = chunk._replace(rows=rows)
                self._schema, self._encoded = rows.schema, True

    def snapshot(self) -> tuple[int, np.ndarray, pa.Table | None]:
        """Return the next row id, and the rows that `keep` left with their row ids."""
        slots = [chunk.slots for chunk in self._chunks if chunk.slots is not None]
        assert len(slots) == len(self._chunks), "keep first"
        rows = None if self._schema is None else self._table([chunk.rows for chunk in self._chunks])
        return self.next, np.concatenate([np.empty(0, np.int64), *slots]), rows

    def restore(self, upcoming: int, slots: np.ndarray, rows: pa.Table | None) -> None:
        """Go on from a snapshot."""
        require(len(slots) == (0 if rows is None else rows.num_rows), "row ids has other rows than there are")
        require(np.diff(slots) > 0, "row ids is not ascending")
        require((slots < upcoming) & (0 <= upcoming < _MAX_ROWS), "row ids has a row that never came")
        self.next = upcoming
        self._schema, self._encoded = None if rows is None else rows.schema, True
        self._put(slots, [] if rows is None else _merged(rows.to_batches()))

    def take(self, slots: np.ndarray, columns: Sequence[str] | None = None) -> pa.Table | None:
        """Return the rows of these slots, in this order; None where no row was ever added. `columns`: None for all."""
        if self._schema is None:
            return None
        if len(slots) <= _FEW:
            found = self._take_few(slots, columns)
            if found:
                return pa.Table.from_batches(found)
        chosen = distinct(slots)
        rows = self._table(_merged(self._taken(chosen, columns)), columns)
        in_place = len(chosen) == len(slots) and bool((np.diff(slots) > 0).all())
        return rows if in_place else take_rows(rows, places(chosen, slots))

    def _table(self, batches: list[pa.RecordBatch], columns: Sequence[str] | None = None) -> pa.Table:
        assert self._schema is not None
        if batches:
            return pa.Table.from_batches(batches)
        empty = self._schema.empty_table()
        return empty if columns is None else empty.select(columns)

    def _take_few(self, slots: np.ndarray, columns: Sequence[str] | None) -> list[pa.RecordBatch]:
        """A few rows, by one look into all chunks they lie in; nothing if these are too large to be put together."""
        if not self._chunks or not len(slots):
            return []
        wanted = slots.tolist()
        first, last = bisect_right(self._bases, min(wanted)) - 1, bisect_right(self._bases, max(wanted)) - 1
        if first == last:
            chunk = self._chunks[first]
            return _take(_select(chunk.rows, columns), chunk.places(slots))
        which = [bisect_right(self._bases, slot) - 1 for slot in wanted]
        touched = sorted(set(which))
        chunks = [self._chunks[at] for at in touched]
        if sum(chunk.rows.num_rows for chunk in chunks) > _COPIED:
            return []
        merged = _merged([_select(chunk.rows, columns) for chunk in chunks])
        if len(merged) > 1:
            return []
        place = np.empty(len(slots), np.int64)
        begin = 0
        for at, chunk in zip(touched, chunks, strict=True):
            mine = [number for number, its in enumerate(which) if its == at]
            place[mine] = begin + chunk.places(slots[mine])
            begin += chunk.rows.num_rows
        return _take(merged[0], place)

    def _taken(self, slots: np.ndarray, columns: Sequence[str] | None = None) -> list[pa.RecordBatch]:
        """Return the rows of these rising slots, chunk by chunk."""
        which = np.searchsorted(np.array(self._bases, np.int64), slots, side="right") - 1
        cuts = np.flatnonzero(np.diff(which)) + 1
        parts: list[pa.RecordBatch] = []
        small: list[tuple[_Chunk, np.ndarray]] = []  # put together before rows are taken from them: that is quicker
        for mine in np.split(slots, cuts) if len(slots) and self._chunks else []:
            chunk = self._chunks[bisect_right(self._bases, int(mine[0])) - 1]
            chunk = chunk._replace(rows=_select(chunk.rows, columns))
            if chunk.rows.num_rows <= _SMALL:
                small.append((chunk, mine))
                continue
            parts += _taken_together(small)
            small = []
            whole = len(mine) == chunk.rows.num_rows and chunk.slots is not None  # others may be parts of large tables
            parts += [chunk.rows] if whole else _take(chunk.rows, chunk.places(mine))
        return parts + _taken_together(small)


def _taken_together(small: list[tuple[_Chunk, np.ndarray]]) -> list[pa.RecordBatch]:
    """Return the rows of these slots of small chunks."""
    parts: list[pa.RecordBatch] = []
    for low in range(0, len(small), _COPIED // _SMALL):
        some = small[low : low + _COPIED // _SMALL]
        merged = _merged([chunk.rows for chunk, _ in some])
        if len(merged) > 1:  # more text than fits into one array
            parts += [part for chunk, mine in some for part in _take(chunk.rows, chunk.places(mine))]
            continue
        begins = np.cumsum([0, *(chunk.rows.num_rows for chunk, _ in some)]).tolist()
        place = [begin + chunk.places(mine) for begin, (chunk, mine) in zip(begins, some, strict=False)]
        parts += _take(merged[0], np.concatenate(place))
    return parts


def _decoded(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows without dictionaries that are far larger than the rows: they would be merged and kept with them."""
    for number, column in enumerate(rows.columns):
        if isinstance(column, pa.DictionaryArray) and not column.type.ordered:
            name = rows.schema.names[number]
            if len(column.dictionary) > _LARGE + 4 * len(column):
                rows = rows.set_column(number, name, column.dictionary_decode())
    return rows


def _merged(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the same rows in one batch, or in few where they do not fit into one."""
    if len(batches) < 2:
        return batches
    schema = batches[0].schema
    if all(batch.schema.equals(schema) for batch in batches):
        with suppress(pa.ArrowInvalid):  # more text than fits into one array
            return [pa.concat_batches(batches)]
    return list(concat_rows([pa.Table.from_batches([batch]) for batch in batches]).to_batches())


def _select(rows: pa.RecordBatch, columns: Sequence[str] | None) -> pa.RecordBatch:
    return rows if columns is None else rows.select(columns)


def _take(rows: pa.RecordBatch, places: np.ndarray) -> list[pa.RecordBatch]:
    """Return the rows at these places, in one batch, or in few where they do not fit into one."""
    try:
        return [rows.take(pa.array(places))]
    except pa.ArrowInvalid:  # more text than fits into one array
        return list(take_rows(pa.Table.from_batches([rows]), places).to_batches())


def distinct(slots: np.ndarray) -> np.ndarray:
    """Return the different slots, rising. By marking where they lie close together, else by sorting."""
    if not len(slots):
        return slots
    low, high = int(slots.min()), int(slots.max())
    if high - low > _SPREAD * len(slots):
        return np.unique(slots)
    mark = np.zeros(high - low + 1, np.bool_)
    mark[slots - low] = True
    return np.flatnonzero(mark) + low


def places(chosen: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Return where each of `slots` stands in the rising `chosen`."""
    low, high = int(chosen[0]), int(chosen[-1])
    if high - low > _SPREAD * len(slots):
        return np.searchsorted(chosen, slots)
    place = np.empty(high - low + 1, np.int64)
    place[chosen - low] = np.arange(len(chosen))
    return place[slots - low]


class RowSequence:
    """Numbers rows in the order in which an engine takes them, which need not be the order in which they came.

    Engines tell rows of equal score and time apart by these numbers, which rise. As long as the rows themselves come in
    order, a row's number is its row id, and nothing is stored.

    Examples
    --------
    >>> sequence = RowSequence()
    >>> sequence.add(np.array([0, 1])).tolist(), sequence.add(np.array([3, 2])).tolist()
    ([0, 1], [2, 3])
    >>> sequence.row_ids(np.array([1, 2])).tolist()
    [1, 3]
    """

    def __init__(self) -> None:
        self.next = 0
        self._numbers = [np.empty(0, np.int64)]  # of rows whose number is not their row id, ascending
        self._row_ids = [np.empty(0, np.int64)]
        self._mapped = False

    def add(self, row_id: np.ndarray) -> np.ndarray:
        """Number rows, given in order."""
        if not self._mapped and (not len(row_id) or (row_id[0] >= self.next and is_ascending(row_id))):
            self.next = int(row_id[-1]) + 1 if len(row_id) else self.next
            return row_id
        self._mapped = True
        number = np.arange(self.next, self.next + len(row_id))
        self.next += len(row_id)
        self._numbers.append(number)
        self._row_ids.append(row_id)
        return number

    def mapping(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of rows whose number is not their row id, and these."""
        if len(self._numbers) > 1:
            self._numbers, self._row_ids = [np.concatenate(self._numbers)], [np.concatenate(self._row_ids)]
        return self._numbers[0], self._row_ids[0]

    def row_ids(self, number: np.ndarray) -> np.ndarray:
        """Return the row ids of numbered rows."""
        known, row_id = self.mapping()
        if not len(known):
            return number
        place = np.minimum(np.searchsorted(known, number), len(known) - 1)
        return np.where(known[place] == number, row_id[place], number)

    def keep(self, number: np.ndarray) -> None:
        """Forget all rows but these."""
        known, row_id = self.mapping()
        there = np.isin(known, number)
        self._numbers, self._row_ids = [known[there]], [row_id[there]]

    def restore(self, upcoming: int, number: np.ndarray, row_id: np.ndarray) -> None:
        """Go on from a snapshot: the next number, and the `mapping`."""
        self.next, self._numbers, self._row_ids, self._mapped = upcoming, [number], [row_id], len(number) > 0
