"""The columns of a source: whether a query fits them, and event times as whole microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import SchemaError, SourceError, nearest
from skyband.query import RESERVED, Distance, Weighted
from skyband.query.duration import MICROSECONDS, format_duration
from skyband.query.expression import Expression
from skyband.query.window import Sliding
from skyband.runtime.arrow import check_storable, storage_type, to_storage
from skyband.windows import TIME_LIMIT, check_watermark

if TYPE_CHECKING:
    from skyband.query import TopK, Window


def check_schema(query: TopK, schema: pa.Schema) -> None:
    """Raise unless every column that the query names is there, and none is named like one of ours."""
    names = schema.names
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise SchemaError(f"the source has more than one column {', '.join(double)}: rename them")
    for field in schema:
        if _converts(field.type) or pa.types.is_nested(field.type):
            check_storable(field.name, field.type)
    wanted = [("time", query.time), ("id", query.id), *(("per", name) for name in query.per)]
    if isinstance(query.by, (Expression, Distance, Weighted)):
        brought = () if query.join is None else (*query.join.columns, *query.join.aggregate_names)
        wanted += [("by", name) for name in query.by.columns if name not in brought]
    if query.join is not None:
        wanted.append(("on", query.join.on))
        wanted += [(a.name, name) for a in query.join.aggregates if a.of is not None for name in a.of.columns]
    wanted += [("of", name) for name in query.of]
    for field, name in wanted:
        if name is not None and name not in names:
            who, there = "the source does not have", names
            if field == "by" and query.join is not None:
                who = "neither the source nor the join has"
                there = [*names, *query.join.columns, *query.join.aggregate_names]
            raise SchemaError(f"{field} names column {name!r}, which {who}: {nearest(name, there)}")
    shown = [*query.per, *query.of] if query.of else names  # a leaderboard shows no other columns
    taken = [name for name in shown if name in {query.column(own) for own in RESERVED}]
    if taken:
        raise SchemaError(
            f"the source has a column {taken[0]!r}, which is also the name of one of ours: rename it, "
            f'or write prefix="sb_" to rename ours'
        )


def _converts(kind: pa.DataType) -> bool:
    """Return whether columns of this type may have to be kept in another."""
    return bool(pa.types.is_dictionary(kind)) or storage_type(kind) != kind


def _stays(schema: pa.Schema) -> bool:
    """Return whether columns of these types are kept as they are."""
    try:
        return _known_to_stay(schema)
    except TypeError:  # extension types that are written in Python have no hash
        return not any(map(_converts, schema.types))


@lru_cache(maxsize=64)
def _known_to_stay(schema: pa.Schema) -> bool:
    return not any(map(_converts, schema.types))


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """`rows` with the columns of `schema`, in that order, in the types in which they are kept.

    Text may stay dictionary-encoded.
    """
    if rows.schema.equals(schema) and _stays(schema):
        return rows
    names = rows.schema.names
    missing = [name for name in schema.names if name not in names]
    extra = [name for name in names if name not in schema.names]
    double = [name for name in names if names.count(name) > 1] if len(names) > len(schema.names) else []
    if missing or extra or double:
        what = (
            f"lacks column {missing[0]!r}"
            if missing
            else f"has a new column {extra[0]!r}"
            if extra
            else f"has more than one column {double[0]!r}"
        )
        raise SchemaError(
            f"a batch {what}: all batches of a source need the columns of the first ({', '.join(schema.names)})"
        )
    columns = []
    for field in schema:
        column = rows.column(field.name)
        try:
            columns.append(to_storage(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"column {field.name!r} was {field.type} in the first batch and is {column.type} now: "
                f"give every batch the same types"
            ) from error
    return pa.table(columns, names=schema.names)


_DAY = MICROSECONDS["d"]
_MOST = (1 << 63) - 1

TICKS = {"s": (MICROSECONDS["s"], 1), "ms": (MICROSECONDS["ms"], 1), "us": (1, 1), "ns": (1, 1000)}
"""Of each unit, microseconds a tick and ticks a microsecond."""


@dataclass(frozen=True)
class TimeType:
    """How a time column counts: `per` microseconds a tick, or `parts` ticks a microsecond."""

    type: pa.DataType
    per: int = 1
    parts: int = 1
    name: str = ""  # of the column

    @classmethod
    def of(cls, query: TopK, kind: pa.DataType) -> TimeType:
        """Return the type of the query's time column, or an error that says what to write."""
        name = query.time
        if pa.types.is_timestamp(kind):
            per, parts = TICKS[kind.unit]
        elif pa.types.is_date32(kind):
            per, parts = _DAY, 1
        elif pa.types.is_date64(kind):
            per, parts = TICKS["ms"]
        elif pa.types.is_integer(kind):
            if query.unit is None:
                raise SchemaError(f'time={name!r} is {kind}: say what it counts, such as unit="s", "ms", "us" or "ns"')
            per, parts = TICKS[query.unit]
        else:
            raise SchemaError(
                f"time={name!r} is {kind} and no time: give a timestamp, a date, or an integer with unit="
            )
        found = cls(kind, per, parts, name or "")
        found.check_window(query.window)
        return found

    def check_window(self, window: Window) -> None:
        """Raise if windows begin or end between two times of the column."""
        # date64 counts milliseconds, of which only whole days are dates
        whole = _DAY if pa.types.is_date64(self.type) else self.per
        for field, length in window.lengths.items() if isinstance(window, Sliding) else ():
            if length % whole:
                raise SchemaError(
                    f"{field} must be a multiple of {format_duration(whole)}, the unit of time={self.name!r} "
                    f"({self.type}), got {format_duration(length)!r}: write a multiple, or use a finer time column"
                )

    def micros(self, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the column as microseconds, and where it is NULL (None: nowhere)."""
        missing = column.is_null().to_numpy() if column.null_count else None
        column = column.cast(pa.int32()) if pa.types.is_date32(self.type) else column
        try:
            ticks = column.cast(pa.int64())
        except pa.ArrowInvalid as error:  # of uint64
            raise self._too_far(pc.max(column).as_py()) from error
        ticks = ticks.fill_null(0) if missing is not None else ticks
        time = ticks.to_numpy()
        self._check_range(time)
        if self.parts > 1:
            if (time % self.parts).any():
                worst = int(time[np.flatnonzero(time % self.parts)[0]])
                raise SourceError(
                    f"time has {worst} ns in column {self.name!r}, finer than a microsecond: round it to microseconds "
                    f"in the source"
                )
            time = time // self.parts
        return (time if self.per == 1 else time * self.per), missing

    def _check_range(self, ticks: np.ndarray) -> None:
        """Refuse times whose windows would not fit into 64 bits of microseconds."""
        if not len(ticks):
            return
        low, high = int(ticks.min()), int(ticks.max())
        most = TIME_LIMIT // self.per
        if high > most or low < -most:
            raise self._too_far(max(low, high, key=abs))

    def _too_far(self, ticks: int) -> SourceError:
        msg = (
            f"time has {ticks} ({self.type}) in column {self.name!r}, too far away to be counted in microseconds: "
            f"correct it, or its unit="
        )
        return SourceError(msg)

    def watermark(self, ticks: int) -> int:
        """Return a watermark in the column's own ticks as microseconds."""
        return check_watermark(ticks * self.per // self.parts, ticks)

    def column(self, micros: np.ndarray) -> pa.Array:
        """Microseconds in the type they came in."""
        if self.parts > 1 and len(micros) and np.abs(micros).max() > _MOST // self.parts:
            raise self._unreachable()
        ticks = micros * self.parts if self.parts > 1 else micros // self.per if self.per > 1 else micros
        if pa.types.is_date32(self.type):
            return pa.array(ticks.astype(np.int32)).cast(self.type)
        if self.type == pa.int64():
            return pa.array(ticks)
        try:
            return pa.array(ticks, pa.int64()).cast(self.type)
        except pa.ArrowInvalid as error:
            raise self._unreachable() from error

    def _unreachable(self) -> SchemaError:
        msg = (
            f"a window of time={self.name!r} begins or ends where {self.type} cannot reach: give it a wider type, "
            f"such as timestamp[us]"
        )
        return SchemaError(msg)
