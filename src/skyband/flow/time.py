"""Event times as whole microseconds, and back to the type they came in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import SchemaError, SourceError
from skyband.query.duration import MICROSECONDS, spoken

if TYPE_CHECKING:
    from skyband.query import TopK

_DAY = MICROSECONDS["d"]
_FAR = 1 << 61
"""Microseconds, some 73,000 years: a time beyond would leave no room for its windows."""

TICKS = {"s": (MICROSECONDS["s"], 1), "ms": (MICROSECONDS["ms"], 1), "us": (1, 1), "ns": (1, 1000)}
"""Of each unit, microseconds a tick and ticks a microsecond."""


@dataclass(frozen=True)
class TimeType:
    """How a time column counts: `per` microseconds a tick, or `parts` ticks a microsecond."""

    type: pa.DataType
    per: int = 1
    parts: int = 1

    @classmethod
    def of(cls, query: TopK, kind: pa.DataType) -> TimeType:
        """The type of the query's time column, or an error that says what to write."""
        name = query.time
        if pa.types.is_timestamp(kind):
            per, parts = TICKS[kind.unit]
        elif pa.types.is_date32(kind):
            per, parts = _DAY, 1
        elif pa.types.is_date64(kind):
            per, parts = TICKS["ms"]
        elif pa.types.is_integer(kind):
            if query.unit is None:
                msg = f'time={name!r} is {kind}: say what it counts, such as unit="s", "ms", "us" or "ns"'
                raise SchemaError(msg)
            per, parts = TICKS[query.unit]
        else:
            msg = f"time={name!r} is {kind} and no time: give a timestamp, a date, or an integer with unit="
            raise SchemaError(msg)
        window = query.window
        whole = _DAY if pa.types.is_date64(kind) else per  # milliseconds, of which only whole days are dates
        if not window.counts:
            for field in ("size", "slide", "origin"):
                length = getattr(window, field)
                if length % whole:
                    msg = (
                        f"{field}={spoken(length)!r} is no whole number of {spoken(whole)}, in which time={name!r} "
                        f"({kind}) counts, so no window could be named: use a multiple, or a finer time column"
                    )
                    raise SchemaError(msg)
        return cls(kind, per, parts)

    def micros(self, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray | None]:
        """The column as microseconds, and where it is NULL (None: nowhere)."""
        missing = column.is_null().to_numpy() if column.null_count else None
        column = column.cast(pa.int32()) if pa.types.is_date32(self.type) else column
        try:
            ticks = column.cast(pa.int64())
        except pa.ArrowInvalid as error:  # of uint64
            msg = f"time has {pc.max(column)} ({self.type}), too far away to be counted in microseconds: correct it"
            raise SourceError(msg) from error
        ticks = ticks.fill_null(0) if missing is not None else ticks
        time = ticks.to_numpy()
        if not (pa.types.is_timestamp(self.type) and self.type.unit == "us"):  # Spark's own has no need of it
            self._check_range(time)
        if self.parts > 1:
            if (time % self.parts).any():
                worst = int(time[np.flatnonzero(time % self.parts)[0]])
                msg = f"time has {worst} ns, finer than a microsecond: round it to microseconds in the source"
                raise SourceError(msg)
            time = time // self.parts
        return (time if self.per == 1 else time * self.per), missing

    def _check_range(self, ticks: np.ndarray) -> None:
        """Times that cannot be counted in microseconds would come out as other times."""
        most = _FAR // self.per
        if len(ticks) and (int(ticks.max()) > most or int(ticks.min()) < -most):
            worst = max(int(ticks.min()), int(ticks.max()), key=abs)
            msg = (
                f"time has {worst} ({self.type}), too far away to be counted in microseconds: correct it, or its unit="
            )
            raise SourceError(msg)

    def column(self, micros: np.ndarray) -> pa.Array:
        """Microseconds in the type they came in."""
        ticks = micros * self.parts if self.parts > 1 else micros // self.per if self.per > 1 else micros
        if pa.types.is_date32(self.type):
            return pa.array(ticks.astype(np.int32)).cast(self.type)
        try:
            return pa.array(ticks, pa.int64()).cast(self.type)
        except pa.ArrowInvalid as error:
            msg = f"a window begins or ends where {self.type} cannot reach: give time a wider type, such as int64"
            raise SchemaError(msg) from error
