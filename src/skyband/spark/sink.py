"""latest: the newest answer of each group in a table of a database, written exactly once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.errors import QueryError, SinkError
from skyband.query import AllTime, TopK
from skyband.redaction import redact_urls
from skyband.runtime.ids import row_hash
from skyband.tables.sql_schema import connect_args, to_sql_type

if TYPE_CHECKING:
    import pyarrow as pa
    import sqlalchemy as sa
    from pyspark.sql import DataFrame

BATCHES = "skyband_batches"
"""The table that remembers which batch of which stream was written last, and into which table."""

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
        A stream of the same name with a new checkpoint starts over; with `emit="changes"` the table is emptied first.

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
        checkpoint = _checkpoint_of(df)
        if checkpoint is None and name is None:
            msg = 'this session does not tell which stream a batch belongs to: write latest(..., name="leaders")'
            raise SinkError(msg)
        # without the id of the checkpoint, batch 0 may be a repeated one: written again it changes nothing, since
        # it starts from empty lists
        anew = checkpoint is None and batch == 0
        keeper.write(name or str(checkpoint), batch, df.toArrow(), checkpoint, anew=anew)

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
                self._engine = sa.create_engine(self.url, poolclass=sa.NullPool, connect_args=connect_args(self.url))
            except (sa.exc.ArgumentError, ImportError) as error:
                known = "write one that SQLAlchemy knows, such as sqlite:///leaders.db"
                msg = f"url={redact_urls(str(self.url))!r} opens no database, {redact_urls(str(error))}: {known}"
                raise SinkError(msg) from None
        return self._engine

    def write(
        self, stream: str, batch: int, answers: pa.Table, checkpoint: str | None = None, *, anew: bool = False
    ) -> bool:
        """Update the table unless this batch of this checkpoint has been written; return whether it did.

        Batches are numbered from 0 on by each checkpoint. With `anew` the batch is the first of one.
        """
        engine = self.engine
        import sqlalchemy as sa

        try:
            return self._tried(engine, Batch(stream, batch, checkpoint, anew), answers)
        except sa.exc.SQLAlchemyError as error:
            said = redact_urls(str(error).splitlines()[0][:300])
            msg = (
                f"table={self.name!r} could not be written, and is as it was: {said}. A restart writes the batch again"
            )
            raise SinkError(msg) from error

    def _tried(self, engine: sa.Engine, batch: Batch, answers: pa.Table) -> bool:
        """Write, and try again where the database was away: a batch that was written is not written twice."""
        import sqlalchemy as sa

        for rest in _AGAIN:
            try:
                return self._written(engine, batch, answers)
            except sa.exc.OperationalError:
                time.sleep(rest)
        return self._written(engine, batch, answers)

    def _written(self, engine: sa.Engine, batch: Batch, answers: pa.Table) -> bool:
        import sqlalchemy as sa

        table, batches = self._tables(answers.schema)
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                # a driver that was killed may have left a transaction: neither it nor this one holds others up for ever
                for name in ("lock_timeout", "idle_in_transaction_session_timeout"):
                    connection.execute(sa.select(sa.func.set_config(name, _LONGEST, True)))
            stream, last = self._last(connection, batches, batch.stream)
            anew = last is None or batch.begins_anew(last)
            if last is not None and not anew and last["batch"] >= batch.number:
                return False
            if anew and self.query.emit == "changes":
                self._empty(connection, table, batch, known=last is not None)
            self._apply(connection, table, answers)
            connection.execute(sa.delete(batches).where(batches.c.stream == stream))
            line = {"stream": stream, "batch": batch.number, "checkpoint_id": batch.checkpoint, "table_name": self.name}
            connection.execute(sa.insert(batches), [line])
        return True

    def _last(self, connection: sa.Connection, batches: sa.Table, stream: str) -> tuple[str, Row | None]:
        """The key of a stream and its last batch. A stream that writes into further tables has a key for each."""
        import sqlalchemy as sa

        for key in (stream, f"{stream} into {self.name}"):
            found = connection.execute(sa.select(batches).where(batches.c.stream == key)).mappings().first()
            if found is None or found["table_name"] in (None, self.name):
                return key, None if found is None else dict(found)
        msg = f"name={stream!r} is used for several tables: give each sink a name of its own"
        raise SinkError(msg)

    def _empty(self, connection: sa.Connection, table: sa.Table, batch: Batch, *, known: bool) -> None:
        """Remove the lists of a checkpoint before: changes build on empty ones, from batch 0 on."""
        import sqlalchemy as sa

        if batch.number:
            msg = (
                f"table={self.name!r} must have the changes of a checkpoint from batch 0 on, got batch {batch.number}: "
                f'start with a new checkpoint, or write emit="answers"'
            )
            raise SinkError(msg)
        if not known and connection.execute(sa.select(sa.func.count()).select_from(table)).scalar():
            msg = (
                f"table={self.name!r} must be empty when a stream of changes begins, and has rows of another stream or "
                f"checkpoint: empty it, or name another table"
            )
            raise SinkError(msg)
        connection.execute(sa.delete(table))

    def _apply(self, connection: sa.Connection, table: sa.Table, answers: pa.Table) -> None:
        import sqlalchemy as sa

        shifting = {self.query.column(name) for name in _SHIFTING}
        keys = row_hash(answers.drop_columns([name for name in answers.column_names if name in shifting])).view(
            np.int64
        )
        rows = [
            {_KEY: key, **{name: _stored(value) for name, value in row.items()}}
            for key, row in zip(keys.tolist(), answers.to_pylist(), strict=True)
        ]
        for name in self.query.per:
            if isinstance(table.c[name].type, sa.Text):  # also a number that its own type would round
                for row in rows:
                    row[name] = None if row[name] is None else str(row[name])
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in rows:  # every NaN is one value
            values = (row[name] for name in self.query.per)
            groups.setdefault(tuple("NaN" if v != v else (v,) for v in values), []).append(row)  # noqa: PLR0124
        for mine in groups.values():
            self._write_group(connection, table, tuple(mine[0][name] for name in self.query.per), mine)

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
            end, rank, final = self._moment, *map(self.query.column, ("rank", "final"))
            newest = max((row.get(final, True), row[end]) for row in rows)[1]
            rows = sorted((row for row in rows if row[end] == newest), key=lambda row: row[rank])
        connection.execute(sa.delete(table).where(here))
        if rows:
            names = table.columns.keys()
            connection.execute(sa.insert(table), [{name: row[name] for name in names} for row in rows])

    @property
    def _moment(self) -> str:
        """The column that grows from list to list."""
        return self.query.column("step" if isinstance(self.query.window, AllTime) else "window_end")

    def _changed(self, old: list[Row], changes: list[Row]) -> list[Row]:
        """The list after its changes, step by step."""
        kind, rank, start = map(self.query.column, ("_change_type", "rank", "window_start"))
        end = self._moment
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
        window = {name: changes[-1][name] for name in (start, end) if name in changes[-1]}
        return [{**content[key], **window, rank: place} for place, key in enumerate(keys, 1)]

    def _tables(self, schema: pa.Schema) -> tuple[sa.Table, sa.Table]:
        if self._table is not None:
            return self._table
        import sqlalchemy as sa

        skip = {self.query.column("_change_type"), self.query.column("step")}
        known, dialect = sa.MetaData(), self.engine.dialect.name
        columns = [
            sa.Column(f.name, _group_type(f.type, dialect) if f.name in self.query.per else _sql_type(f.type))
            for f in schema
            if f.name not in skip
        ]
        table = sa.Table(self.name, known, *columns, sa.Column(_KEY, sa.BigInteger))
        batches = sa.Table(
            BATCHES,
            known,
            sa.Column("stream", sa.String(200), primary_key=True),
            sa.Column("batch", sa.BigInteger),
            sa.Column("checkpoint_id", sa.String(200)),
            sa.Column("table_name", sa.String(200)),
        )
        known.create_all(self.engine, checkfirst=True)
        self._add_columns(batches)
        missing = self._missing(table)
        if missing:
            msg = f"table={self.name!r} is there and has no column {', '.join(missing)}: name another table"
            raise SinkError(msg)
        self._table = (table, batches)
        return self._table

    def _missing(self, table: sa.Table) -> list[str]:
        """The columns that a table in the database lacks."""
        import sqlalchemy as sa

        none = sa.select(sa.text("*")).select_from(table).where(sa.false())
        with self.engine.connect() as connection:
            there = set(connection.execute(none).keys())
        return [column.name for column in table.columns if column.name not in there]

    def _add_columns(self, batches: sa.Table) -> None:
        """Add the columns that versions before 0.2 did not have."""
        import sqlalchemy as sa

        for name in self._missing(batches):
            with self.engine.begin() as connection:
                kind = batches.c[name].type.compile(self.engine.dialect)
                connection.execute(sa.text(f"ALTER TABLE {BATCHES} ADD COLUMN {name} {kind}"))


class Batch(NamedTuple):
    """A micro-batch: of which stream, which one, and of which checkpoint where that is known."""

    stream: str
    number: int
    checkpoint: str | None
    anew: bool

    def begins_anew(self, last: Row) -> bool:
        """Whether it belongs to another checkpoint than the last one that was written."""
        if self.checkpoint is not None and last["checkpoint_id"] is not None:
            return bool(self.checkpoint != last["checkpoint_id"])
        return self.anew or self.number == 0 < last["batch"]


def _checkpoint_of(df: DataFrame) -> str | None:
    """The id in the checkpoint of the stream that this batch belongs to; None on Connect, which does not tell it."""
    try:
        found = df.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except Exception:  # noqa: BLE001 - Connect has no context, and says so in its own way
        return None
    if not found:
        msg = "latest was called outside a stream: use it in writeStream.foreachBatch(...)"
        raise SinkError(msg)
    return str(found)


def _group_type(kind: pa.DataType, dialect: str) -> Any:
    """The type of a column that names a group: one that keeps values apart."""
    import pyarrow as pa
    import sqlalchemy as sa

    if pa.types.is_floating(kind) and dialect == "sqlite":
        return _sqlite_double()
    digits = 15  # that a double keeps, as which SQLite stores decimals, and DuckDB's driver takes them
    if pa.types.is_decimal(kind) and kind.precision > digits and dialect in ("sqlite", "duckdb"):
        return sa.Text()
    return _sql_type(kind)


@cache
def _sqlite_double() -> Any:
    """SQLite stores NaN as NULL; as text it stays what it is."""
    import sqlalchemy as sa

    class SqliteDouble(sa.types.UserDefinedType[float]):
        cache_ok = True

        def get_col_spec(self, **options: Any) -> str:
            del options
            return "DOUBLE"

        def bind_processor(self, dialect: Any) -> Any:
            del dialect
            return lambda value: "NaN" if value != value else value  # noqa: PLR0124

        def result_processor(self, dialect: Any, coltype: Any) -> Any:
            del dialect, coltype
            return lambda value: float(value) if isinstance(value, str) else value

    return SqliteDouble()


def _sql_type(kind: pa.DataType) -> Any:
    """The column type for an Arrow type; texts of any length, and what is nested as text."""
    import sqlalchemy as sa

    found = to_sql_type(kind)
    return sa.Text() if isinstance(found, sa.String | sa.types.NullType) else found


def _stored(value: Any) -> Any:
    """A value as a database takes it: what has parts becomes JSON."""
    return json.dumps(value, default=str) if isinstance(value, list | dict | tuple) else value
