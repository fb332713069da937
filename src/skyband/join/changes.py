"""Changes of the remote side that are pushed: a second stream, in the order of time."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.errors import SchemaError, SourceError
from skyband.join.shared import decoded
from skyband.runtime.source import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skyband.query import TopK
    from skyband.query.join import Join
    from skyband.runtime.time_type import TimeType


class _Pushed(Enum):  # a member stays the same object when it is pickled
    PUSHED = "pushed"


PUSHED = _Pushed.PUSHED
"""In place of a source: changes come by `add` alone, as they do on Spark."""


class Changes:
    """Pushed changes, read as far as the windows have come.

    Of several changes of one key before the same moment the last counts. Changes come before arrivals.
    """

    def __init__(self, query: TopK, join: Join, time: TimeType | None) -> None:
        self._names = [join.on, *join.columns]
        self._key = join.on
        self._time, self._kind = query.time, time
        given = join.changes
        self._source = None if given is None or given is PUSHED else _opened(given)
        self._waiting: list[tuple[np.ndarray, pa.Table]] = []
        self._newest = -(1 << 62)

    def add(self, rows: pa.Table) -> None:
        """Take changes that were pushed."""
        lacks = [n for n in self._names if n not in rows.column_names]
        if self._time is None or self._kind is None or self._time not in rows.column_names or lacks:
            msg = f"changes need the columns {', '.join(self._names)} and the time {self._time!r}"
            raise SchemaError(msg)
        try:
            time, missing = self._kind.micros(rows[self._time].cast(self._kind.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            why = str(error).splitlines()[0]
            msg = f"changes have another time {self._time!r} than the stream, where it is {self._kind.type}: {why}"
            raise SchemaError(msg) from error
        if missing is not None:
            rows, time = rows.filter(pa.array(~missing)), time[~missing]
        if len(time):
            self._newest = max(self._newest, int(time.max()))
            self._waiting.append((time, decoded(rows.select(self._names))))

    def until(self, before: int) -> tuple[pa.Table, np.ndarray] | None:
        """What changed before this moment, each key once, and when."""
        while self._source is not None and self._newest < before:
            batch = next(self._source, None)
            if batch is None:
                self._source = None
            else:
                self.add(batch[0])
        if not self._waiting:
            return None
        time = np.concatenate([t for t, _ in self._waiting])
        ready = time < before
        if not ready.any():
            return None
        rows = _together([r for _, r in self._waiting])
        self._waiting = [(time[~ready], rows.filter(pa.array(~ready)))] if not ready.all() else []
        order = np.flatnonzero(ready)[np.argsort(time[ready], kind="stable")]
        keys = rows[self._key].take(pa.array(order)).to_pylist()
        last = sorted({key: i for i, key in enumerate(keys)}.values())
        chosen = order[last]
        return rows.take(pa.array(chosen)), time[chosen]

    def saved(self) -> tuple[np.ndarray, pa.Table] | None:
        """What waits for its time."""
        if not self._waiting:
            return None
        return np.concatenate([t for t, _ in self._waiting]), _together([r for _, r in self._waiting])

    def load(self, time: np.ndarray, rows: pa.Table) -> None:
        """Go on with what waited."""
        self._waiting = [(time, rows)]
        self._newest = max(self._newest, int(time.max()))


def _opened(given: object) -> Iterator[tuple[pa.Table, object]]:
    try:
        return open_source(given).batches()
    except SourceError as error:
        msg = f"changes cannot be read: {error}"
        raise SourceError(msg) from error


def _together(batches: list[pa.Table]) -> pa.Table:
    try:
        return pa.concat_tables(batches, promote_options="permissive").combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        why = str(error).splitlines()[-1]
        msg = f"changes have a column of two types: {why}. Give every batch the same"
        raise SchemaError(msg) from error
