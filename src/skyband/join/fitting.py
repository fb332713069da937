"""Which of the rows that a service gave can be used: one bad value spoils its own key, and no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from skyband.errors import SchemaError, SkybandError
from skyband.query.expression import Expression
from skyband.query.points import Distance, Weighted
from skyband.runtime.score import scores

if TYPE_CHECKING:
    from skyband.join.pipeline import JoinPipeline

_WRONG = (SkybandError, KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


class Fit(NamedTuple):
    """What can be used of an answer."""

    rows: pa.Table | None  # the remote columns, and the key as the stream has it
    bad: frozenset[object] = frozenset()  # keys with a row that cannot be used
    unclear: bool = False  # whether there were rows of which no one can tell whose they are
    error: str = ""


def fitting(line: JoinPipeline, rows: pa.Table) -> Fit:
    """The rows in the types that the replica has; where some have others, the rest of them."""
    try:
        return Fit(_fitted(line, rows))
    except _WRONG as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
    good, bad, unclear = [], set(), line.join.table.key not in rows.column_names
    for place in range(rows.num_rows):
        row = rows.slice(place, 1)
        try:
            key = row[line.join.table.key].cast(line.key_type)[0].as_py()
        except _WRONG:
            unclear = True
            continue
        try:
            good.append(_fitted(line, row))
        except _WRONG:
            bad.add(key)
    found = pa.concat_tables(good) if good else None
    if found is not None and bad:
        found = found.filter(pa.array([key not in bad for key in found[line.join.on].to_pylist()]))
    return Fit(found, frozenset(bad), unclear, why)


def _fitted(line: JoinPipeline, rows: pa.Table) -> pa.Table:
    chosen = rows.select([line.join.table.key, *line.join.columns])
    key = chosen[0].cast(line.key_type)
    _check(line, chosen.schema)
    return line.replica.conform(chosen).append_column(line.join.on, key)


def _check(line: JoinPipeline, schema: pa.Schema) -> None:
    """Raise where a score cannot take a column whose type is seen for the first time."""
    known = line.replica.schema
    kinds = [schema.field(name).type for name in line.join.columns]
    if known is not None:  # what is known stays as it is, but for columns of which only NULLs were seen
        kinds = [new if pa.types.is_null(old) else old for old, new in zip(known.types, kinds, strict=True)]
    if tuple(kinds) in line.usable:
        return
    names = [*line.schema.names, *line.join.aggregate_names, *line.join.columns]
    types = [*line.schema.types, *(pa.float64() for _ in line.join.aggregates), *kinds]
    empty = pa.schema(list(zip(names, types, strict=True))).empty_table()
    for query in line.queries:
        if isinstance(query.by, (Expression, Distance, Weighted)):
            try:
                scores(query.by, empty)
            except SchemaError:
                raise
            except pa.ArrowException as error:
                raise SchemaError(str(error)) from error
    line.usable.add(tuple(kinds))
