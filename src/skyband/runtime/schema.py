"""Whether a query fits the columns of its source."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.errors import SchemaError, nearest
from skyband.query import RESERVED, Distance, Weighted
from skyband.query.expression import Expression
from skyband.runtime.arrow import check_storable, storage_type, to_storage

if TYPE_CHECKING:
    from skyband.query import TopK


def check_schema(query: TopK, schema: pa.Schema) -> None:
    """Raise unless every column that the query names is there, and none is named like one of ours."""
    names = schema.names
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        msg = f"the source has more than one column {', '.join(double)}: rename them"
        raise SchemaError(msg)
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
            msg = f"{field} names column {name!r}, which {who}: {nearest(name, there)}"
            raise SchemaError(msg)
    shown = [*query.per, *query.of] if query.of else names  # a leaderboard shows no other columns
    taken = [name for name in shown if name in {query.column(own) for own in RESERVED}]
    if taken:
        msg = (
            f"the source has a column {taken[0]!r}, which is also the name of one of ours: rename it, "
            f'or write prefix="sb_" to rename ours'
        )
        raise SchemaError(msg)


def _converts(kind: pa.DataType) -> bool:
    """Whether columns of this type may have to be kept in another."""
    return bool(pa.types.is_dictionary(kind)) or storage_type(kind) != kind


def _stays(schema: pa.Schema) -> bool:
    """Whether columns of these types are kept as they are."""
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
        msg = f"a batch {what}: all batches of a source need the columns of the first ({', '.join(schema.names)})"
        raise SchemaError(msg)
    columns = []
    for field in schema:
        column = rows.column(field.name)
        try:
            columns.append(to_storage(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            msg = (
                f"column {field.name!r} was {field.type} in the first batch and is {column.type} now: "
                f"give every batch the same types"
            )
            raise SchemaError(msg) from error
    return pa.table(columns, names=schema.names)
