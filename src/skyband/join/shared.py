"""What queries share that join one remote table: its columns, one replica, one budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.errors import QueryError, SourceError

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.query import TopK
    from skyband.query.join import Join

_SAME = ("on", "types", "calls")
_SAME_REFRESH = ("budget", "deadline", "replica_size")
_ONE = ("table", "initial", "changes")


def shared_join(queries: Sequence[TopK]) -> Join:
    """The join that stands for those of all queries: the columns of all; an error where they do not agree.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.tables import Memory
    >>> users = Memory({"u": [1], "a": [2], "b": [3]}, key="u")
    >>> def query(name, budget=5):
    ...     join = sb.Join(users, on="u", columns=[name], refresh=sb.Refresh(budget=budget))
    ...     return sb.TopK(k=1, by=name, window=sb.Tumbling("1 s"), time="t", join=join)
    >>> shared_join([query("a"), query("b")]).columns
    ('a', 'b')
    >>> shared_join([query("a"), query("b", budget=6)])
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: queries that join one table share one budget, and here are two: give them the same
    """
    joins = [query.join for query in queries if query.join is not None]
    first = joins[0]
    for join in joins[1:]:
        differ = [f for f in _SAME if getattr(join, f) != getattr(first, f)]
        differ += [f for f in _SAME_REFRESH if getattr(join.refresh, f) != getattr(first.refresh, f)]
        differ += [f for f in _ONE if getattr(join, f) is not getattr(first, f)]
        if differ:
            msg = f"queries that join one table share one {differ[0]}, and here are two: give them the same"
            raise QueryError(msg)
    if len(joins) > 1 and first.changes is not None and any(query.window != queries[0].window for query in queries):
        msg = "changes= are applied pane by pane, and these queries have different panes: give them the same window"
        raise QueryError(msg)
    columns = tuple(dict.fromkeys(name for join in joins for name in join.columns))
    aggregates = {a.name: a for join in joins for a in join.aggregates}
    for join in joins:
        for a in join.aggregates:
            if aggregates[a.name] != a:
                msg = f"{a.name} means two things in queries that go out together: give each its own name"
                raise QueryError(msg)
    return replace(first, columns=columns, aggregates=tuple(aggregates.values()), each="key")  # each has its own


def in_turn(wishes: Sequence[np.ndarray]) -> np.ndarray:
    """Everyone's first wish, then everyone's second, each id once.

    Examples
    --------
    >>> in_turn([np.array([3, 1]), np.array([3, 2, 4])]).tolist()
    [3, 1, 2, 4]
    """
    if len(wishes) == 1:
        return wishes[0]
    ranks = zip_longest(*(wish.tolist() for wish in wishes))
    found = dict.fromkeys(id_ for rank in ranks for id_ in rank if id_ is not None)
    return np.array(list(found), np.int64)


def remote_types(join: Join) -> pa.Schema | None:
    """The types that the query names for the remote columns; None where it does not name all of them."""
    if not join.types:
        return None
    import pyarrow as pa

    known = {name: arrow_type(kind) for name, kind in join.types}
    if set(known) != set(join.columns):
        return None
    return pa.schema([pa.field(name, known[name]) for name in join.columns])


def arrow_type(name: str) -> pa.DataType:
    """A type by the name that `Join(columns={...})` gives it.

    Examples
    --------
    >>> arrow_type("long")
    DataType(int64)
    """
    import pyarrow as pa

    kinds = {
        "double": pa.float64(),
        "long": pa.int64(),
        "string": pa.string(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
        "date": pa.date32(),
    }
    return kinds[name]


def start_rows(initial: Any) -> pa.Table:
    """What the replica starts with, as one table.

    Examples
    --------
    >>> start_rows({"user": [1], "followers": [10]}).num_rows
    1
    """
    import pyarrow as pa

    from skyband.runtime.source import open_source

    try:
        source = open_source(initial)
        empty = [] if source.schema is None else [decoded(source.schema.empty_table())]
        found = [decoded(rows) for rows, _ in source.batches()]
        return pa.concat_tables([*empty, *found], promote_options="permissive")
    except (SourceError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        msg = f"initial cannot be read: {error}"
        raise SourceError(msg) from error


def decoded(rows: pa.Table) -> pa.Table:
    """Rows with texts in full, which files hand over as numbers of a dictionary."""
    import pyarrow as pa

    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in rows.schema.types]
    return rows.cast(pa.schema(list(zip(rows.column_names, kinds, strict=True))))
