"""The rows of a view with their other columns: the core's numbers and the payload they point to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from skyband.engines.validation import among, checked, held, require
from skyband.errors import SchemaError, nearest
from skyband.runtime.ids import id_numbers
from skyband.runtime.row_store import RowStore
from skyband.runtime.saved import load_payload, table_of
from skyband.tables.protocol import SCORE
from skyband.view.core import Core

if TYPE_CHECKING:
    from skyband.query.expression import Expression
    from skyband.view.changes import Batch

_WHOLE, _SCORE = pa.int64(), pa.float64()
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
NOTHING = (np.inf, _HIGHEST)
"""The bound of a view that knows no row yet."""


@lru_cache(maxsize=16)
def _ranks(count: int) -> pa.Array:
    """1, 2, 3, ...: the same for every read."""
    return pa.array(np.arange(1, count + 1, dtype=np.int32))


class Kept:
    """What a view keeps. Knows no table and no policy."""

    def __init__(self, core: Core, key: str, columns: Sequence[str], types: pa.Schema | None = None) -> None:
        self.core, self.key = core, key
        self.columns = tuple(columns)
        self.types: dict[str, pa.DataType] = {}
        self._payload = RowStore()
        self._fits: pa.Schema | None = None  # columns that need no other types
        if types is not None:
            self._learn(types)

    @property
    def hashed(self) -> bool:
        """Whether keys are told apart by their hash, so that they must be kept themselves."""
        kind = self.types.get(self.key, pa.int64())
        return not pa.types.is_integer(kind) or pa.types.is_uint64(kind)

    @property
    def _names(self) -> list[str]:
        return [*([self.key] if self.hashed else []), *self.columns]

    def _learn(self, schema: pa.Schema) -> None:
        """The types of columns, as they first come."""
        if schema == self._fits:
            return
        for name in (self.key, *self.columns):
            if name not in self.types and name in schema.names:
                kind = schema.field(name).type
                kind = kind.value_type if pa.types.is_dictionary(kind) else kind
                if not pa.types.is_null(kind):  # nothing but NULL has come so far
                    self.types[name] = kind

    def take(self, batch: Batch, first: int, last: int, stop: int) -> int:
        """Take changes from place `first` to `last`, or until fewer than `stop` rows are left. Where it stopped."""
        if first == 0:
            self._learn(batch.rows.schema)
        ids, score, version = (None if c is None else c[:last] for c in (batch.ids, batch.score, batch.version))
        assert ids is not None
        assert score is not None
        return self.core.apply(ids, score, version, first=first, stop=stop, base=self._payload.next)

    def again(self, batch: Batch) -> None:
        """Take changes that were taken before: what is here already is set to what it is. They do not count."""
        counts = self.core.marks.copy()
        self.core.apply(batch.ids, batch.score, batch.version, again=True, base=self._payload.next)
        self.core.marks[2:7] = counts[2:7]
        self.keep(batch.rows)

    def settle(self, rows: pa.Table, wanted: int) -> None:
        """Add rows that the table gave; all that rank at or before the last of them is then known."""
        core = self.core
        self._learn(rows.schema)
        rows = self.typed(rows)
        ids = id_numbers(rows.column(self.key), self.key)
        score = rows.column(SCORE).to_numpy()
        if rows.num_rows < wanted:
            core.bound = None
        else:
            core.bound = (float(score[-1]), _LOWEST if self.hashed else int(ids[-1]))
        if core.size + len(ids) > core.kmax:
            core.resize(core.size + len(ids))  # a run of equal scores came whole
        counts = core.marks.copy()
        core.apply(ids, score, fresh=True, base=self._payload.next)
        self.keep(rows)
        core.recall()
        core.marks[2:7] = counts[2:7]  # a refill is no update
        core.take_least()

    def keep(self, rows: pa.Table) -> None:
        """Keep the other columns of rows that were just taken; now and then drop those that have left."""
        names = self._names
        if not names:
            return
        base = self._payload.next
        taken = self._rows()
        used = np.unique(taken[taken >= base])
        if len(used):
            slots = self._payload.add(rows.select(names).take(pa.array(used - base)))
            number = np.zeros(rows.num_rows, np.int64)
            number[used - base] = slots
            self.core.renumber(number, base)
        if len(self._payload) > 4 * len(taken) + 1024:
            self._payload.keep(self._rows())

    def _rows(self) -> np.ndarray:
        """The numbers of all rows that may be shown."""
        row = self.core.top(self.core.size)[2]
        told = self.core.told_rows()
        return np.concatenate([row, told]) if len(told) else row

    def whole(self, batch: Batch, by: Expression) -> Batch:
        """Changes with all columns: those that only delete rows need none but the key."""
        rows = batch.rows
        names = rows.column_names
        missing = [name for name in dict.fromkeys([*by.columns, *self.columns]) if name not in names]
        if not missing:
            return batch
        for name in missing:
            if batch.gone is None or not batch.gone.all():
                user = f"by={by.text!r} uses" if name in by.columns else "columns= names"
                there = nearest(name, names)
                msg = f"a batch of changes lacks the column {name!r}, which {user}: {there}"
                raise SchemaError(msg)
            rows = rows.append_column(name, pa.nulls(rows.num_rows, self.types.get(name, _SCORE)))
        return batch._replace(rows=rows)

    def typed(self, rows: pa.Table) -> pa.Table:
        """Rows in the types that came first: a stream and its table may differ in the width of a number."""
        schema = rows.schema
        if schema == self._fits:
            return rows
        self._learn(schema)
        as_they_are = rows
        for name in dict.fromkeys([self.key, *self._names]):
            wanted, at = self.types.get(name), rows.schema.get_field_index(name)
            kind = rows.schema.field(at).type
            whole_key = name == self.key and not self.hashed
            if wanted in (None, kind) or (whole_key and pa.types.is_integer(kind) and not pa.types.is_uint64(kind)):
                continue
            if pa.types.is_decimal(kind) and pa.types.is_decimal(wanted):
                wanted = self._widen(name, kind, wanted)
            wrong = f"column {name!r} is {wanted} in the table and {kind} in its changes: give them the same type"
            if whole_key and not pa.types.is_integer(kind):  # a text is no number, though some can be cast
                raise SchemaError(wrong)
            try:
                rows = rows.set_column(at, name, rows.column(at).cast(wanted))
            except pa.ArrowException as error:
                msg = f"{wrong} ({str(error).splitlines()[0][:200]})"
                raise SchemaError(msg) from error
        if rows is as_they_are and self.types.keys() >= {self.key, *self.columns}:
            self._fits = schema
        return rows

    def _widen(self, name: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
        """A decimal with room for both: of a column without a scale, digits come as they are."""
        scale = max(one.scale, other.scale)
        digits = scale + max(one.precision - one.scale, other.precision - other.scale)
        kind = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(min(digits, 76), scale)
        if kind != other:
            self.types[name] = kind
            self._fits = None
            self._payload.retype(name, kind)
        return kind

    def table(self, ids: np.ndarray, score: np.ndarray, row: np.ndarray) -> pa.Table:
        """Rows as they are shown; `score` as a user reads it."""
        columns: dict[str, Any] = {"rank": _ranks(len(ids)), SCORE: pa.array(score, _SCORE)}
        names = self._names
        kept = self._payload.take(row) if names and len(row) else None
        if not self.hashed:
            kind = self.types.get(self.key, _WHOLE)
            columns[self.key] = pa.array(ids, _WHOLE) if kind == _WHOLE else pa.array(ids).cast(kind)
        for name in names:
            columns[name] = pa.array([], self.types.get(name)) if kept is None else kept.column(name)
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))

    def below(self) -> tuple[tuple[float, object] | None, int]:
        """From where on rows are missing, as the table reads it; None: from the best on. And how many come again."""
        bound = self.core.bound
        if bound is None or bound == NOTHING:
            return None, 0
        if not self.hashed:
            return bound, 0
        # whole runs of equal scores, since hashes order them here and not there
        if bound[1] == _LOWEST:
            return (bound[0], None), 0
        again = int((self.core.top(self.core.size)[1] == bound[0]).sum())  # of the run that was cut
        above = float(np.nextafter(bound[0], np.inf))
        return (None if above == bound[0] else (above, None)), again

    def save(self) -> dict[str, np.ndarray | pa.Table]:
        """All of it, as named arrays and tables."""
        self._payload.keep(self._rows())
        upcoming, slots, rows = self._payload.saved()
        saved: dict[str, np.ndarray | pa.Table] = dict(self.core.snapshot())
        saved["slots"] = np.append(slots, upcoming)
        saved["types"] = pa.schema(list(self.types.items())).empty_table()
        if rows is not None and len(slots):
            saved["rows"] = rows
        return saved

    @classmethod
    def resume(cls, saved: Mapping[str, np.ndarray | pa.Table], key: str, columns: Sequence[str]) -> Kept:
        """Go on from what was saved."""
        core = Core.resume({name: value for name, value in saved.items() if isinstance(value, np.ndarray)})
        kept = cls(core, key, columns, cast("pa.Table", saved["types"]).schema)
        slots = checked(saved, {"slots": held("i8", "slots", low=0)})["slots"]
        require(len(slots) > 0, "slots has no number of the next row")
        rows = table_of(saved, "rows") if "rows" in saved else None
        numbered = slots[:-1] if kept._names else slots[:0]  # without other columns there are no rows to number
        load_payload(kept._payload, int(slots[-1]), numbered, rows if kept._names else None)
        if kept._names:
            among(kept._rows(), slots[:-1], "the view")
            require(rows is None or set(kept._names) <= set(rows.column_names), "its rows lack a column")
        return kept
