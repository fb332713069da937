"""Changes of the remote side that are pushed: a second stream, in the order of time."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.engines.validation import typed_column, validate
from skyband.errors import SchemaError, SourceError
from skyband.runtime.snapshot import table_of
from skyband.runtime.source import open_source
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skyband.query import Join
    from skyband.runtime.schema import TimeType


class _Pushed(Enum):  # a member stays the same object when it is pickled
    PUSHED = "pushed"


PUSHED = _Pushed.PUSHED
"""In place of a source: changes come as an input of the operator, as they do on Spark."""


class PushedChanges:
    """Pushed changes, read as far as the windows have come.

    Of several changes of one key before the same moment the last counts. Changes are applied before arrivals.
    """

    def __init__(self, join: Join, time: str | None, kind: TimeType | None) -> None:
        self._names = [join.on, *join.columns]
        self._key, self._time, self._kind = join.on, time, kind
        self._source = None if join.changes is None or join.changes is PUSHED else _open(join.changes)
        self._buffered: list[tuple[np.ndarray, pa.Table]] = []
        self._newest = MIN_TIME

    def add(self, rows: pa.Table) -> None:
        """Take changes in any order."""
        missing = [n for n in self._names if n not in rows.column_names]
        if self._time is None or self._kind is None or self._time not in rows.column_names or missing:
            wanted = f"the columns {', '.join(self._names)} and the time {self._time!r}"
            raise SchemaError(f"changes must have {wanted}, got {', '.join(rows.column_names)}")
        try:
            time, without = self._kind.micros(rows[self._time].cast(self._kind.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            why = str(error).splitlines()[0]
            raise SchemaError(
                f"the time {self._time!r} of changes must fit that of the stream, which is {self._kind.type}: {why}"
            ) from error
        if without is not None:
            rows, time = rows.filter(pa.array(~without)), time[~without]
        if len(time):
            self._newest = max(self._newest, int(time.max()))
            self._buffered.append((time, decode(rows.select(self._names))))

    def release(self, before: int) -> tuple[pa.Table, np.ndarray] | None:
        """Take out the changes before a moment, each key once, and their times; None if there are none."""
        while self._source is not None and self._newest < before:
            batch = next(self._source, None)
            if batch is None:
                self._source = None
            else:
                self.add(batch[0])
        if not self._buffered:
            return None
        time = np.concatenate([time for time, _ in self._buffered])
        ready = time < before
        if not ready.any():
            return None
        rows = self._whole()
        self._buffered = [(time[~ready], rows.filter(pa.array(~ready)))] if not ready.all() else []
        order = np.flatnonzero(ready)[np.argsort(time[ready], kind="stable")]
        keys = rows[self._key].take(pa.array(order)).to_pylist()
        last = sorted({key: i for i, key in enumerate(keys)}.values())
        chosen = order[last]
        return rows.take(pa.array(chosen)), time[chosen]

    def _whole(self) -> pa.Table:
        try:
            return pa.concat_tables([rows for _, rows in self._buffered], promote_options="permissive").combine_chunks()
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            why = str(error).splitlines()[-1]
            raise SchemaError(f"changes must have the same types in every batch: {why}") from error

    def is_idle(self) -> bool:
        """Return whether no change waits for its time."""
        return not self._buffered

    def snapshot(self) -> dict[str, Any]:
        """Return the changes that wait for their time."""
        if not self._buffered:
            return {}
        return {"changes": self._whole(), "changes/time": np.concatenate([time for time, _ in self._buffered])}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        if "changes" in saved:
            rows = table_of(saved, "changes")
            time = validate(saved, {"changes/time": typed_column("i8", "rows")}, rows=rows.num_rows)["changes/time"]
            self._buffered = [(time, rows)]
            self._newest = max(self._newest, int(time.max()))


def decode(rows: pa.Table) -> pa.Table:
    """Return rows without dictionaries, which files have for texts."""
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in rows.schema.types]
    return rows.cast(pa.schema(list(zip(rows.column_names, kinds, strict=True))))


def _open(changes: object) -> Iterator[tuple[pa.Table, object]]:
    try:
        return open_source(changes).batches()
    except SourceError as error:
        raise SourceError(f"changes cannot be read: {error}") from error
