"""What a join needs of the stream's columns, told before the first row comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from skyband.errors import SchemaError
from skyband.query.join import OWN
from skyband.query.topk import RESERVED
from skyband.runtime.score import scores

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.query.join import Join


def check_names(query: TopK, schema: pa.Schema) -> None:
    """Raise where the join's columns and the source's have the same name."""
    join: Join = query.join  # type: ignore[assignment]
    own = {query.column(name) for name in (*OWN, *RESERVED)}
    for name in (*join.columns, *join.aggregate_names):
        if name in schema.names:
            msg = f"the join brings a column {name!r}, which the source has too: rename one of them"
            raise SchemaError(msg)
        if name in own:
            msg = f"the join brings a column {name!r}, which is one of ours: rename it, or write prefix="
            raise SchemaError(msg)
    for name in schema.names:
        if name in {query.column(name) for name in OWN}:
            msg = f"the source has a column {name!r}, which a join adds to the answers: rename it, or write prefix="
            raise SchemaError(msg)


def check_types(query: TopK, schema: pa.Schema) -> None:
    """Raise where the key is no plain value, or a value over the window cannot be made of a column."""
    join: Join = query.join  # type: ignore[assignment]
    kind = schema.field(join.on).type
    if pa.types.is_nested(kind):
        msg = f"on names {join.on!r}, which is {kind}: join by a column of plain values"
        raise SchemaError(msg)
    for aggregate in join.aggregates:
        try:
            if aggregate.of is not None:
                scores(aggregate.of, schema.empty_table())
        except SchemaError as error:
            msg = str(error).replace("by ", f"{aggregate.name} ", 1)
            raise SchemaError(msg) from None
