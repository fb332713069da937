"""The remote side as lists see it: keys by number, the replica, and scores of rows joined with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.engines.validation import require, section
from skyband.errors import SchemaError
from skyband.operators.lookup_join.replica import NOT_READ, Replica
from skyband.query.expression import Expression
from skyband.runtime.groups import Groups
from skyband.runtime.ids import id_numbers
from skyband.runtime.score import scores
from skyband.runtime.snapshot import table_of

if TYPE_CHECKING:
    from skyband.query import Join, TopK
    from skyband.query.join import ColumnType

ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    "double": pa.float64(),
    "long": pa.int64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
}
"""The types that `Join(columns={...})` calls by these names."""


def _remote_types(join: Join) -> pa.Schema | None:
    """Return the types that the query names for the remote columns; None unless it names all of them."""
    known = {name: ARROW_TYPES[kind] for name, kind in join.types}
    if set(known) != set(join.columns):
        return None
    return pa.schema([pa.field(name, known[name]) for name in join.columns])


class RemoteRows:
    """The replica of a join, and the keys that were seen in the stream or on the remote side, numbered.

    Parameters
    ----------
    join
        What is joined, for all queries.
    schema
        The columns of the stream.
    unit
        Of age: one slide.
    """

    def __init__(self, join: Join, schema: pa.Schema, unit: int) -> None:
        self.on, self.columns = join.on, join.columns
        kind = schema.field(join.on).type
        self.key_type = kind.value_type if pa.types.is_dictionary(kind) else kind
        self.keys = Groups([join.on])
        self.replica = Replica(join.columns, unit, _remote_types(join))
        self._ties = np.empty(0, np.int64)  # of the keys, until there is a new one

    def codes(self, rows: pa.Table) -> np.ndarray:
        """Return the numbers of the keys of stream rows."""
        codes = self.keys.codes(rows).astype(np.int64)
        self.replica.make_room(len(self.keys))
        return codes

    def remote_codes(self, keys: pa.ChunkedArray, source: str = "the table") -> np.ndarray:
        """Return the numbers of keys from elsewhere, cast to the type that they have in the stream."""
        try:
            keys = keys.cast(self.key_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            why = str(error).splitlines()[0]
            raise SchemaError(
                f"the keys of {source} must fit {self.on!r}, which is {self.key_type} in the stream: {why}"
            ) from error
        return self.codes(pa.table({self.on: keys}))

    def key_values(self, codes: np.ndarray) -> pa.Array:
        """Return the keys with these numbers."""
        return self.keys.values(codes)[0].combine_chunks()

    def ties(self, codes: np.ndarray) -> np.ndarray:
        """Return numbers that break ties between keys: the larger ranks first."""
        if len(self._ties) < len(self.keys):
            table = self.keys.table()
            assert table is not None
            self._ties = id_numbers(table.column(0), self.on)
        return self._ties[codes]

    # ------------------------------------------------------------ scores

    def score(self, query: TopK, rows: pa.Table, places: np.ndarray, by: Expression | None = None) -> np.ndarray:
        """Return the scores of stream rows with the remote rows at these places; larger is better, NaN is none.

        `by` is used in place of the score of the query.
        """
        remote = self.replica.take(places)
        for name in self.columns:
            rows = rows.append_column(name, pa.nulls(len(places), pa.float64()) if remote is None else remote[name])
        score = scores(query.by if by is None else by, rows)
        return -score if query.ascending else score

    def rescore(self, query: TopK, rows: pa.Table, key: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the scores of rows with each of several remote values: (rows, worlds)."""
        worlds = next(iter(values.values())).shape[1] if values else 1
        which = np.repeat(np.arange(len(key)), worlds)
        by = query.by
        used = [n for n in by.columns if n in rows.column_names] if isinstance(by, Expression) else rows.column_names
        many = dict(zip(used, rows.select(used).take(pa.array(which)).columns, strict=True))
        remote = self.replica.take(self.replica.first[key])
        for name in self.columns:
            if name in values:
                many[name] = pa.array(values[name].ravel())
            else:
                many[name] = pa.nulls(len(which)) if remote is None else remote[name].take(pa.array(which))
        score = scores(by, pa.table(many)).reshape(len(key), worlds)
        return -score if query.ascending else score

    # ------------------------------------------------------------ what is kept

    def keep(self, needed: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Forget keys that were not read and are not `needed`, an array with a flag for each key.

        Return the numbers of those that stay, and the new number of each; None if all stay.
        """
        stay = needed | (self.replica.time > NOT_READ)
        if stay.all():
            return None
        codes = np.flatnonzero(stay)
        self.keys.keep(codes)
        self.replica.keep(codes)
        self._ties = np.empty(0, np.int64)
        return codes, np.cumsum(stay) - 1

    def snapshot(self) -> dict[str, Any]:
        """Return the keys and the replica."""
        saved: dict[str, Any] = {f"replica/{name}": column for name, column in self.replica.snapshot().items()}
        table = self.keys.table()
        return saved if table is None else {**saved, "keys": table}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        if "keys" in saved:
            self.keys.load(table_of(saved, "keys"))
        self.replica.restore(section(saved, "replica/"))
        require(len(self.replica.time) == len(self.keys), "the replica has other keys than there are")
