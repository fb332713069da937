"""latest: the newest answer of each group in a table of a database, written exactly once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.errors import QueryError, SinkError
from skyband.flow.ids import mixed
from skyband.query import TopK
from skyband.tables._need import shown
from skyband.tables._patience import patience

if TYPE_CHECKING:
    import pyarrow as pa
    import sqlalchemy as sa
    from pyspark.sql import DataFrame

BATCHES = "skyband_batches"
"""The table that remembers which batch of which stream was written last."""

Row = dict[str, Any]
_AGAIN = (0.2, 1.0)  # seconds before each further try
_LONGEST = "60s"  # that a transaction waits for another, or for whoever began it
_SHIFTING = ("window_start", "window_end", "step", "_change_type", "rank", "final")  # what changes while a row stays
_KEY = "skyband_key"  # what a row is known by: a hash of its score and its own columns


def latest(
    query: TopK, url: str, table: str = "leaders", *, name: str | None = None
) -> Callable[[DataFrame, int], None]:
    """The newest answer of each group, in a table: for `writeStream.foreachBatch(...)`.

    A batch is written in one transaction together with its number, so that one that Spark repeats after a
    crash changes nothing.

    Parameters
    ----------
    query
        The query whose answers or changes arrive. With `emit="changes"` a group whose window has become empty leaves
        the table; with `"answers"` its last list stays. Of `early=True`, the last final list is kept, and open ones
        only where no window of a group has closed.
    url
        Where the database is, as SQLAlchemy writes it: "sqlite:///leaders.db", "postgresql+psycopg://...".
    table
        The table, made if it is not there.
    name
        Names the stream. Default: the id that its checkpoint holds. Spark Connect does not tell that id: name it there.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=3, by="price", window=sb.Tumbling("1 minute"), time="ts")
    >>> sink = sb.spark.latest(query, "sqlite:///leaders.db")  # then: df.writeStream.foreachBatch(sink)
    """
    if not isinstance(query, TopK) or query.emit == "arrivals":
        msg = 'latest keeps lists, so it takes a query with emit="answers" or "changes"'
        raise QueryError(msg)
    keeper = Latest(query, url, table)
    _ = keeper.engine  # a wrong address is told now, not by the first batch

    def write(df: DataFrame, batch: int) -> None:
        keeper.write(name or _stream_of(df), batch, df.toArrow())

    return write


class Latest:
    """The table of newest answers. Knows nothing of Spark."""

    def __init__(self, query: TopK, url: str, table: str = "leaders") -> None:
        self.query, self.url, self.name = query, url, table
        self._engine: Any = None
        self._table: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None, "_table": None}  # connections stay where they are

    @property
    def engine(self) -> sa.Engine:
        """The database, opened when first needed."""
        if self._engine is None:
            try:
                import sqlalchemy as sa
            except ImportError as error:
                msg = 'latest needs SQLAlchemy: pip install "skyband[sql]"'
                raise SinkError(msg) from error
            try:  # a batch every few seconds needs no pool
                self._engine = sa.create_engine(self.url, poolclass=sa.NullPool, connect_args=patience(self.url))
            except (sa.exc.ArgumentError, ImportError) as error:
                known = "write one that SQLAlchemy knows, such as sqlite:///leaders.db"
                msg = f"url={shown(str(self.url))!r} opens no database, {shown(str(error))}: {known}"
                raise SinkError(msg) from None
        return self._engine

    def write(self, stream: str, batch: int, answers: pa.Table) -> bool:
        """Bring the table up to date, unless this batch has been written. Whether it did."""
        engine = self.engine
        import sqlalchemy as sa

        try:
            return self._tried(engine, stream, batch, answers)
        except sa.exc.SQLAlchemyError as error:
            said = shown(str(error).splitlines()[0][:300])
            msg = (
                f"table={self.name!r} could not be written, and is as it was: {said}. A restart writes the batch again"
            )
            raise SinkError(msg) from error

    def _tried(self, engine: sa.Engine, stream: str, batch: int, answers: pa.Table) -> bool:
        """Write, and try again where the database was away: a batch that was written is not written twice."""
        import sqlalchemy as sa

        for rest in _AGAIN:
            try:
                return self._written(engine, stream, batch, answers)
            except sa.exc.OperationalError:
                time.sleep(rest)
        return self._written(engine, stream, batch, answers)

    def _written(self, engine: sa.Engine, stream: str, batch: int, answers: pa.Table) -> bool:
        import sqlalchemy as sa

        table, batches = self._tables(answers.schema)
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                # a driver that was killed may have left a transaction: neither it nor this one holds others up for ever
                for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
                    connection.execute(sa.select(sa.func.set_config(name, _LONGEST, True)))
            mine = batches.c.stream == stream
            last = connection.execute(sa.select(batches.c.batch).where(mine)).scalar()
            if last is not None and last >= batch:
                return False
            self._apply(connection, table, answers)
            connection.execute(sa.delete(batches).where(mine))
            connection.execute(sa.insert(batches), [{"stream": stream, "batch": batch}])
        return True

    def _apply(self, connection: sa.Connection, table: sa.Table, answers: pa.Table) -> None:
        shifting = {self.query.column(name) for name in _SHIFTING}
        keys = mixed(answers.drop_columns([name for name in answers.column_names if name in shifting])).view(np.int64)
        rows = [
            {_KEY: key, **{name: _stored(value) for name, value in row.items()}}
            for key, row in zip(keys.tolist(), answers.to_pylist(), strict=True)
        ]
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:
            groups.setdefault(tuple(row[c] for c in self.query.per), []).append(row)
        for key, mine in groups.items():
            self._write_group(connection, table, key, mine)

    def _write_group(self, connection: sa.Connection, table: sa.Table, key: tuple[Any, ...], rows: list[Row]) -> None:
        import sqlalchemy as sa

        here = sa.and_(
            sa.true(),
            *(table.c[c].is_not_distinct_from(value) for c, value in zip(self.query.per, key, strict=True)),
        )
        if self.query.emit == "changes":
            old = connection.execute(
                sa.select(table).where(here).order_by(table.c[self.query.column("rank")])
            ).mappings()
            rows = self._changed([dict(row) for row in old], rows)
        else:
            end, rank, final = map(self.query.column, ("window_end", "rank", "final"))
            newest = max((row.get(final, True), row[end]) for row in rows)[1]
            rows = sorted((row for row in rows if row[end] == newest), key=lambda row: row[rank])
        connection.execute(sa.delete(table).where(here))
        if rows:
            names = table.columns.keys()
            connection.execute(sa.insert(table), [{name: row[name] for name in names} for row in rows])

    def _changed(self, old: list[Row], changes: list[Row]) -> list[Row]:
        """The list after its changes, step by step."""
        kind, rank, start, end = map(self.query.column, ("_change_type", "rank", "window_start", "window_end"))
        keys = [row[_KEY] for row in old]
        content = {row[_KEY]: row for row in [*old, *changes]}
        for _, step in groupby(changes, key=lambda change: change[end]):
            entering = []
            for change in step:
                if change[kind] in ("delete", "update_preimage"):
                    keys.remove(change[_KEY])
                else:
                    entering.append((change[rank], change[_KEY]))
            for place, key in sorted(entering):
                keys.insert(place - 1, key)  # ranks are those of the new list: filled in order, each finds its place
        window = {name: changes[-1][name] for name in (start, end)}
        return [{**content[key], **window, rank: place} for place, key in enumerate(keys, 1)]

    def _tables(self, schema: pa.Schema) -> tuple[sa.Table, sa.Table]:
        if self._table is not None:
            return self._table
        import sqlalchemy as sa

        skip = {self.query.column("_change_type"), self.query.column("step")}
        known = sa.MetaData()
        columns = [sa.Column(f.name, _sql_type(f.type)) for f in schema if f.name not in skip]
        table = sa.Table(self.name, known, *columns, sa.Column(_KEY, sa.BigInteger))
        batches = sa.Table(
            BATCHES, known, sa.Column("stream", sa.String(200), primary_key=True), sa.Column("batch", sa.BigInteger)
        )
        known.create_all(self.engine, checkfirst=True)
        there = {column["name"] for column in sa.inspect(self.engine).get_columns(self.name)}
        missing = [c.name for c in table.columns if c.name not in there]
        if missing:
            msg = f"table={self.name!r} is there and has no column {', '.join(missing)}: name another table"
            raise SinkError(msg)
        self._table = (table, batches)
        return self._table


def _stream_of(df: DataFrame) -> str:
    """The id of the stream that this batch belongs to."""
    try:
        found = df.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except Exception as error:  # Connect has no context, and says so in its own way
        msg = 'this session does not tell which stream a batch belongs to: write latest(..., name="leaders")'
        raise SinkError(msg) from error
    if not found:
        msg = "latest was called outside a stream: use it in writeStream.foreachBatch(...)"
        raise SinkError(msg)
    return str(found)


def _sql_type(kind: pa.DataType) -> Any:
    """The column type for an Arrow type; texts of any length, and what is nested as text."""
    import sqlalchemy as sa

    from skyband.tables._types import column_type

    found = column_type(kind)
    return sa.Text() if isinstance(found, sa.String | sa.types.NullType) else found


def _stored(value: Any) -> Any:
    """A value as a database takes it: what has parts becomes JSON."""
    return json.dumps(value, default=str) if isinstance(value, list | dict | tuple) else value
