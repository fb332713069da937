"""The rows of a view: an index of their ids and scores, and a store of their other columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from skyband.engines.validation import check_known, require, typed_column, validate
from skyband.errors import SchemaError, nearest
from skyband.kernels._jit import tier
from skyband.runtime.ids import id_numbers
from skyband.runtime.row_store import RowStore
from skyband.runtime.snapshot import table_of
from skyband.tables.protocol import SCORE, VERSION
from skyband.view.changes import key_numbers
from skyband.view.index import MIN_ID, ViewIndex

if TYPE_CHECKING:
    from skyband.view.changes import ChangeBatch
    from skyband.view.spec import ViewSpec

_INTEGER, _DOUBLE = pa.int64(), pa.float64()
NOTHING_KNOWN = (np.inf, (1 << 63) - 1)
"""The bound of a view before its first refill."""


@lru_cache(maxsize=16)
def _ranks(count: int) -> pa.Array:
    return pa.array(np.arange(1, count + 1, dtype=np.int32))


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return len(one) == len(other) and bool((one == other).all())


class ViewRows:
    """The rows of a view and what changes and refills do to them. Queries no table, and chooses no kmax.

    Not thread-safe. All scores inside are such that larger is better.

    Parameters
    ----------
    spec
        The view.
    types
        Types of the key and the columns, where they are known before the first rows come.
    index
        Rows to start with. By default nothing is known of the table.
    """

    def __init__(self, spec: ViewSpec, types: pa.Schema | None = None, index: ViewIndex | None = None) -> None:
        if index is None:
            index = ViewIndex(spec.k, versions=not spec.ordered)
            index.bound = NOTHING_KNOWN
        index.min_rows = spec.min_rows
        self.spec, self.index = spec, index
        self.types: dict[str, pa.DataType] = {}
        self._store = RowStore()
        self._fitting: pa.Schema | None = None  # of rows that need no cast
        self._list: tuple[pa.Table, np.ndarray, np.ndarray, np.ndarray] | None = None  # and what it was made from
        self._list_generation = -1
        self._was_read = self._was_ranked = False  # since the last changes
        if types is not None:
            self._learn_types(types)

    @property
    def known(self) -> bool:
        """Whether there has been a first refill."""
        return self.index.bound != NOTHING_KNOWN

    @property
    def complete(self) -> bool:
        """Whether the k best rows of the table are known."""
        return self.index.size >= self.spec.k or self.index.bound is None

    @property
    def hashed_keys(self) -> bool:
        """Whether the index identifies rows by a hash of their key, so that the key is a stored column."""
        kind = self.types.get(self.spec.key, _INTEGER)
        return not pa.types.is_integer(kind) or pa.types.is_uint64(kind)

    @property
    def _stored_columns(self) -> list[str]:
        return [*([self.spec.key] if self.hashed_keys else []), *self.spec.columns]

    # ------------------------------------------------------------ reading

    def top(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Keys as numbers and scores of the k best rows, best first."""
        self._was_ranked = True
        ids, score, _ = self.index.top(k)
        return ids, -score if self.spec.ascending else score

    def read(self) -> pa.Table:
        """The k best rows: rank, score, key and columns. The same table as before if they have not changed."""
        self._was_read = True
        if self._list is not None and self._list_generation == self.index.generation:
            return self._list[0]
        self._list_generation = self.index.generation
        parts = ids, score, row = self.index.top(self.spec.k)
        if self._list is None or not all(map(_same, self._list[1:], parts)):
            self._list = self._make_list(ids, -score if self.spec.ascending else score, row), *parts
        return self._list[0]

    def _make_list(self, ids: np.ndarray, score: np.ndarray, row: np.ndarray) -> pa.Table:
        columns = {"rank": _ranks(len(ids)), SCORE: pa.array(score, _DOUBLE)}
        if not self.hashed_keys:
            kind, keys = self.types.get(self.spec.key, _INTEGER), pa.array(ids, _INTEGER)
            columns[self.spec.key] = keys if kind == _INTEGER else keys.cast(kind)
        names = self._stored_columns
        stored = self._store.take(row) if names and len(row) else None
        for name in names:
            columns[name] = pa.array([], self.types.get(name)) if stored is None else stored.column(name)
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))

    def rank_ahead(self) -> None:
        """Do now what the next read would have to: whoever read before the last changes will read again."""
        if self._was_read:
            self.read()
        elif self._was_ranked:
            self.index.order()
        self._was_read = self._was_ranked = False

    # ------------------------------------------------------------ changing

    def with_all_columns(self, batch: ChangeBatch) -> ChangeBatch:
        """Add columns that are missing; only batches that delete all their rows may lack any but the key."""
        rows, by = batch.rows, self.spec.by
        names = rows.column_names
        for name in dict.fromkeys([*by.columns, *self.spec.columns]):
            if name in names:
                continue
            if batch.deleted is None or not batch.deleted.all():
                user = f"by={by.text!r} uses" if name in by.columns else "columns= names"
                raise SchemaError(
                    f"a batch of changes must have the column {name!r}, which {user}: {nearest(name, names)}"
                )
            rows = rows.append_column(name, pa.nulls(rows.num_rows, self.types.get(name, _DOUBLE)))
        return batch if rows is batch.rows else batch._replace(rows=rows)

    def prepare(self, batch: ChangeBatch) -> ChangeBatch:
        """Cast a batch with scores to the types of the view, and read its keys."""
        if not self.spec.ordered and not len(batch.version):
            raise SchemaError(f"a batch of changes must have the column {VERSION!r}, since ordered=False")
        tier.saw(batch.size)
        rows = self._cast(batch.rows)
        return batch._replace(rows=rows, ids=key_numbers(rows.column(self.spec.key), self.spec.key))

    def apply(self, batch: ChangeBatch, first: int, last: int, stop: int) -> int:
        """Apply changes from position `first` to `last`, or until fewer than `stop` rows are left; return where.

        Call `store_columns` before the next batch.
        """
        columns = (column[:last] for column in (batch.ids, batch.score, batch.version))
        return self.index.apply(*columns, first=first, stop=stop, base=self._store.next)

    def reapply(self, batches: Sequence[ChangeBatch]) -> None:
        """Apply changes again that came while a refill was in flight: the rows it brought may be older."""
        if not batches:
            return
        index, kmax = self.index, self.index.kmax
        lowest = -np.inf if index.bound is None else index.bound[0]
        entering = np.unique(np.concatenate([batch.ids[batch.score >= lowest] for batch in batches]))
        index.resize(max(kmax, index.size + len(entering)))  # rows that only pass through must not displace others
        for batch in batches:
            index.reapply(batch.ids, batch.score, batch.version, base=self._store.next)
            self.store_columns(batch.rows)
        index.resize(kmax)

    def add_fetched(self, rows: pa.Table, requested: int) -> None:
        """Add rows that a refill fetched. Fewer than requested means that the table has no more."""
        index = self.index
        rows = self._cast(rows)
        ids, score = id_numbers(rows.column(self.spec.key), self.spec.key), rows.column(SCORE).to_numpy()
        if rows.num_rows < requested:
            index.bound = None
        else:
            index.bound = (float(score[-1]), MIN_ID if self.hashed_keys else int(ids[-1]))
        if index.size + len(ids) > index.kmax:
            index.resize(index.size + len(ids))  # a run of equal scores came whole
        index.add_fetched(ids, score, base=self._store.next)
        self.store_columns(rows)
        index.add_remembered()

    def store_columns(self, rows: pa.Table) -> None:
        """Store the other columns of rows just applied; now and then drop those of rows that have left."""
        names = self._stored_columns
        if not names:
            return
        base = self._store.next
        live = self.index.row_numbers()
        new = np.unique(live[live >= base])
        if len(new):
            slots = self._store.add(rows.select(names).take(pa.array(new - base)))
            number = np.zeros(rows.num_rows, np.int64)
            number[new - base] = slots
            self.index.renumber(number, base)
        if len(self._store) > 4 * len(live) + 1024:
            self._store.keep(self.index.row_numbers())

    def reset(self) -> None:
        """Drop all rows: nothing is known of the table until the next refill."""
        self.index.clear()
        self.index.bound = NOTHING_KNOWN

    def refill_start(self) -> tuple[tuple[float, object] | None, int]:
        """The rank (score, key) below which rows are missing, None for the top, and how many known rows lie below."""
        bound = self.index.bound
        if bound is None or not self.known:
            return None, 0
        if not self.hashed_keys:
            return bound, 0
        # the table orders rows of equal score by key, the index by hash: so it is asked for whole runs of them
        if bound[1] == MIN_ID:
            return (bound[0], None), 0
        in_run = int((self.index.top(self.index.size)[1] == bound[0]).sum())
        above = float(np.nextafter(bound[0], np.inf))
        return (None if above == bound[0] else (above, None)), in_run

    # ------------------------------------------------------------ types

    def _learn_types(self, schema: pa.Schema) -> None:
        """Take the types of columns from the first rows that have them."""
        for name in (self.spec.key, *self.spec.columns):
            if name not in self.types and name in schema.names:
                kind = schema.field(name).type
                kind = kind.value_type if pa.types.is_dictionary(kind) else kind
                if not pa.types.is_null(kind):  # all values so far are NULL
                    self.types[name] = kind

    def _cast(self, rows: pa.Table) -> pa.Table:
        """Cast rows to the types of the view: changes and table may differ in the width of a number."""
        schema = rows.schema
        if schema == self._fitting:
            return rows
        self._learn_types(schema)
        given = rows
        for name in dict.fromkeys([self.spec.key, *self._stored_columns]):
            wanted, at = self.types.get(name), schema.get_field_index(name)
            kind = schema.field(at).type
            integer_key = name == self.spec.key and not self.hashed_keys
            fits = integer_key and wanted == _INTEGER and pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
            if fits or wanted in (None, kind):
                continue
            if pa.types.is_decimal(kind) and pa.types.is_decimal(wanted):
                wanted = self._widen_decimal(name, kind, wanted)
            msg = f"column {name!r} must have one type, got {wanted} in the table and {kind} in its changes"
            if integer_key and not pa.types.is_integer(kind):  # though some texts can be cast
                raise SchemaError(msg)
            try:
                rows = rows.set_column(at, name, rows.column(at).cast(wanted))
            except pa.ArrowException as error:
                raise SchemaError(f"{msg} ({str(error).splitlines()[0][:200]})") from error
        if rows is given and self.types.keys() >= {self.spec.key, *self.spec.columns}:
            self._fitting = schema
        return rows

    def _widen_decimal(self, name: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
        """A decimal type with room for both: in a column without a scale each batch has its own."""
        scale = max(one.scale, other.scale)
        digits = scale + max(one.precision - one.scale, other.precision - other.scale)
        kind = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(min(digits, 76), scale)
        if kind != other:
            self.types[name] = kind
            self._fitting = None
            self._store.retype(name, kind)
        return kind

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> dict[str, np.ndarray | pa.Table]:
        """All state as named arrays and tables."""
        self._store.keep(self.index.row_numbers())
        next_slot, slots, rows = self._store.snapshot()
        snapshot: dict[str, np.ndarray | pa.Table] = dict(self.index.snapshot())
        snapshot["slots"] = np.append(slots, next_slot)
        snapshot["types"] = pa.schema(list(self.types.items())).empty_table()
        if rows is not None and len(slots):
            snapshot["rows"] = rows
        return snapshot

    @classmethod
    def restore(cls, spec: ViewSpec, snapshot: Mapping[str, np.ndarray | pa.Table]) -> ViewRows:
        """Continue from a snapshot, after checking it."""
        arrays = {name: value for name, value in snapshot.items() if isinstance(value, np.ndarray)}
        view = cls(spec, cast("pa.Table", snapshot["types"]).schema, ViewIndex.restore(arrays))
        slots = validate(snapshot, {"slots": typed_column("i8", "slots", low=0)})["slots"]
        require(len(slots) > 0, "slots lacks the number of the next row")
        rows = table_of(snapshot, "rows") if "rows" in snapshot else None
        names = view._stored_columns
        view._store.restore(int(slots[-1]), slots[:-1] if names else slots[:0], rows if names else None)
        if names:
            check_known(view.index.row_numbers(), slots[:-1], "the view")
            require(rows is None or set(names) <= set(rows.column_names), "its rows lack a column")
        return view
