"""What is known of a join before the first row comes: what its queries share, and whether it fits the stream."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.errors import QueryError, SchemaError, SourceError
from skyband.operators.lookup_join.changes import PUSHED, decode
from skyband.query.join import OWN
from skyband.query.topk import RESERVED
from skyband.runtime.groups import Groups
from skyband.runtime.schema import check_schema
from skyband.runtime.score import scores
from skyband.runtime.source import open_source

if TYPE_CHECKING:
    from skyband.query import Join, TopK
    from skyband.runtime.batch import PreparedBatch
    from skyband.runtime.row_store import RowStore

_EQUAL = ("on", "types", "calls")
_EQUAL_REFRESH = ("budget", "deadline", "replica_size")
_IDENTICAL = ("table", "initial", "changes")


def join_of(query: TopK) -> Join:
    """Return the join of a query, which has one."""
    assert query.join is not None
    return query.join


def shared_join(queries: Sequence[TopK]) -> Join:
    """Return the join that stands for those of all queries, with the columns of all; raise if they do not agree.

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
    skyband.errors.QueryError: budget must be the same in all queries that join one table, which share it
    """
    joins = [join_of(query) for query in queries]
    first = joins[0]
    for join in joins[1:]:
        differ = [f for f in _EQUAL if getattr(join, f) != getattr(first, f)]
        differ += [f for f in _EQUAL_REFRESH if getattr(join.refresh, f) != getattr(first.refresh, f)]
        differ += [f for f in _IDENTICAL if getattr(join, f) is not getattr(first, f)]
        if differ:
            raise QueryError(f"{differ[0]} must be the same in all queries that join one table, which share it")
    if len(queries) > 1:
        _check_windows(queries, pushed=first.changes is not None)
    columns = tuple(dict.fromkeys(name for join in joins for name in join.columns))
    aggregates = {a.name: a for join in joins for a in join.aggregates}
    for join in joins:
        for a in join.aggregates:
            if aggregates[a.name] != a:
                raise QueryError(
                    f"aggregates of queries that run together must be equal or have different names, got two {a.name}"
                )
    return replace(first, columns=columns, aggregates=tuple(aggregates.values()), each="key")  # lists use their own


def _check_windows(queries: Sequence[TopK], *, pushed: bool) -> None:
    first = queries[0].window
    for query in queries:
        if query.window.counts:
            raise QueryError(
                f"window must be in time if several queries share a join, got {query.window!r}: write sb.Sliding"
            )
        if pushed and query.window != first:
            raise QueryError(
                f"window must be the same in all queries that share changes=, got {first!r} and {query.window!r}"
            )


def check_columns(query: TopK, schema: pa.Schema) -> None:
    """Raise unless the join fits the columns of the source."""
    check_schema(query, schema)
    join = join_of(query)
    own = {query.column(name) for name in (*OWN, *RESERVED)}
    for name in (*join.columns, *join.aggregate_names):
        if name in schema.names:
            raise SchemaError(
                f"the join and the source must have different columns, got {name!r} in both: rename one of them"
            )
        if name in own:
            raise SchemaError(
                f"the join must not have a column named like one of ours, got {name!r}: rename it, or write prefix="
            )
    for name in schema.names:
        if name in {query.column(name) for name in OWN}:
            raise SchemaError(
                f"the source must not have a column named like one of ours, got {name!r}: rename it, or write prefix="
            )
    kind = schema.field(join.on).type
    if pa.types.is_nested(kind):
        raise SchemaError(f"on must name a column of plain values, got {join.on!r} of type {kind}")
    for aggregate in join.aggregates:
        try:
            if aggregate.of is not None:
                scores(aggregate.of, schema.empty_table())
        except SchemaError as error:
            raise SchemaError(str(error).replace("by ", f"{aggregate.name} ", 1)) from None


def read_initial(initial: Any) -> pa.Table:
    """Return the rows that the replica starts with as one table.

    Examples
    --------
    >>> read_initial({"user": [1], "followers": [10]}).num_rows
    1
    """
    try:
        source = open_source(initial)
        empty = [] if source.schema is None else [decode(source.schema.empty_table())]
        found = [decode(rows) for rows, _ in source.batches()]
        return pa.concat_tables([*empty, *found], promote_options="permissive")
    except (SourceError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SourceError(f"initial cannot be read: {error}") from error


# ---------------------------------------------------------------- on Spark


def distributed_queries(queries: Sequence[TopK]) -> list[TopK]:
    """Return the queries as they travel to executors: with all types, the initial rows, and changes as an input."""
    shared_join(queries)
    initial: dict[int, pa.Table] = {}  # queries that share the initial rows still do
    found = []
    for query in queries:
        join = join_of(query)
        if join.changes is not None and not hasattr(join.changes, "mapInArrow"):
            raise QueryError(
                f"changes must be a DataFrame with a watermark on Spark, got {type(join.changes).__name__}"
            )
        join = replace(join, changes=None if join.changes is None else PUSHED)
        try:
            pickle.dumps(join)
        except Exception as error:
            name = type(join.table).__name__
            raise QueryError(
                f"table must be able to travel to Spark's executors, got {name} ({error}): write one that holds an "
                f"address, such as skyband.tables.Http"
            ) from error
        found.append(replace(query, join=_typed(join, initial)))
    return found


def _typed(join: Join, initial: dict[int, pa.Table]) -> Join:
    """Return the join with a type for every remote column: as given, as the initial rows have it, or double."""
    rows = initial.get(id(join.initial))
    if rows is None and join.initial is not None:  # a file is read here, not by every executor
        rows = initial[id(join.initial)] = read_initial(join.initial)
    known: dict[str, Any] = {} if rows is None else {f.name: _type_name(f.type) for f in rows.schema}
    known |= dict(join.types)
    types = tuple((name, known.get(name, "double")) for name in join.columns)
    return replace(join, types=types, initial=rows)


def _type_name(kind: pa.DataType) -> str:
    tests: dict[str, Callable[[pa.DataType], bool]] = {
        "long": pa.types.is_integer,
        "string": lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
        "boolean": pa.types.is_boolean,
        "timestamp": pa.types.is_timestamp,
        "date": pa.types.is_date,
    }
    return next((name for name, test in tests.items() if test(kind)), "double")


class NewestRows:
    """Selects the rows that must travel: of each pane, group and key the newest, unless every row counts."""

    def __init__(self, queries: Sequence[TopK]) -> None:
        joins = [join_of(query) for query in queries]
        self._all = any(join.each == "row" or join.aggregates for join in joins)
        names = dict.fromkeys(name for query in queries for name in (*query.per, join_of(query).on))
        self._keys = Groups(list(names))

    def __call__(self, batch: PreparedBatch, code: np.ndarray, codes: int, rows: RowStore) -> np.ndarray:
        """Return which rows of a batch travel; `code` is that of their pane."""
        del codes
        keep = np.ones(batch.size, np.bool_)
        if self._all or not batch.size:
            return keep
        table, tie = rows.take(batch.row_id, self._keys.per), batch.tie_order()
        assert table is not None
        assert tie is not None
        key = self._keys.codes(table)
        order = np.lexsort((tie, batch.time, key, code))
        last = np.append((np.diff(code[order]) != 0) | (np.diff(key[order]) != 0), [True])
        lasts = np.flatnonzero(last)
        newest = order[lasts[np.searchsorted(lasts, np.arange(len(order)))]]
        # rows that agree in time and tie are told apart by their values, after the shuffle
        keep[order] = (batch.time[order] == batch.time[newest]) & (tie[order] == tie[newest])
        return keep


def state_fingerprint(join: Join) -> str:
    """Return the fields of a join that its state depends on, as checkpoints have stored them from the first version on.

    Budget, policy, deadline and address may change at a restart.
    """
    kept = {name: getattr(join.refresh, name) for name in ("spare", "reserve", "unlisted")}
    aggregates = tuple(replace(a, function="avg") if a.function == "mean" else a for a in join.aggregates)
    return str({"on": join.on, "types": join.types, "each": join.each, **kept, "aggregates": aggregates})
