"""A sink that keeps the newest list of each group in a table of a database, written exactly once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.errors import MissingLibraryError, QueryError, SinkError
from skyband.query import AllTime, TopK
from skyband.redaction import redact_urls
from skyband.runtime.ids import row_hash
from skyband.tables.sql_schema import connect_args, to_sql_type

try:
    import sqlalchemy as sa
except ImportError as error:
    raise MissingLibraryError.of("sb.spark.upsert_sink", "sqlalchemy") from error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCHES = "skyband_batches"
"""The table with the last written batch of each stream and table."""

Row = dict[str, Any]
_RETRY_SECONDS = (0.2, 1.0)
_LOCK_SECONDS = "60s"  # how long a transaction waits for another one, and may be idle
_PER_LIST = ("window_start", "window_end", "step", "_change_type", "rank", "final")  # change while a row stays
_KEY = "skyband_key"  # identifies a row: a hash of its score and its own columns
_DOUBLE_DIGITS = 15  # of a decimal, as which SQLite stores it and DuckDB's driver takes it


def upsert_sink(
    query: TopK, url: str, table: str = "leaders", *, name: str | None = None
) -> Callable[[DataFrame, int], None]:
    """Keep the newest list of each group in a table: for `writeStream.foreachBatch(...)`.

    A batch is written in one transaction together with its number, so a batch that Spark repeats after a crash changes
    nothing. `sb.spark.latest` is another name of this function.

    Parameters
    ----------
    query
        The query whose answers or changes arrive. With `emit="changes"`, a group whose window has become empty leaves
        the table; with `"answers"` its last list stays. With `early=True`, lists of open windows are kept only for
        groups of which no window has closed.
    url
        The database in SQLAlchemy's notation: "sqlite:///leaders.db", "postgresql+psycopg://...".
    table
        The table; created if it does not exist.
    name
        Name of the stream. Default: the id in its checkpoint, which Spark Connect does not reveal: give a name there.
        A stream of the same name with a new checkpoint starts over; with `emit="changes"` the table is emptied first.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=3, by="price", window=sb.Tumbling("1 minute"), time="ts")
    >>> sink = sb.spark.upsert_sink(query, "sqlite:///leaders.db")  # then: df.writeStream.foreachBatch(sink)
    """
    if not isinstance(query, TopK) or query.emit == "arrivals":
        raise QueryError('upsert_sink stores lists: query must be a TopK with emit="answers" or "changes"')
    target = UpsertTable(query, url, table)
    _ = target.engine  # a wrong address fails here, not in the first batch

    def write(df: DataFrame, batch: int) -> None:
        checkpoint = _checkpoint_id(df)
        if checkpoint is None and name is None:
            raise SinkError(
                'Spark Connect hides the id of a stream, so it needs a name: write upsert_sink(..., name="leaders")'
            )
        # without the id of the checkpoint, batch 0 may be a repeated one: it starts from empty lists, so writing it
        # again changes nothing
        restart = checkpoint is None and batch == 0
        target.write(name or str(checkpoint), batch, df.toArrow(), checkpoint, restart=restart)

    return write


latest = upsert_sink


class UpsertTable:
    """A table with the newest lists. Independent of Spark."""

    def __init__(self, query: TopK, url: str, table: str = "leaders") -> None:
        self.query, self.url, self.name = query, url, table
        self._engine: sa.Engine | None = None
        self._tables: tuple[sa.Table, sa.Table] | None = None
        self._rank, self._change, self._start = map(query.column, ("rank", "_change_type", "window_start"))
        self._end = query.column("step" if isinstance(query.window, AllTime) else "window_end")  # grows with each list

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_engine": None, "_tables": None}

    @property
    def engine(self) -> sa.Engine:
        """The database, opened at its first use."""
        if self._engine is None:
            try:  # a batch every few seconds needs no pool
                self._engine = sa.create_engine(self.url, poolclass=sa.NullPool, connect_args=connect_args(self.url))
            except (sa.exc.ArgumentError, ImportError) as error:
                known = "must be an address that SQLAlchemy knows, such as sqlite:///leaders.db"
                raise SinkError(f"url={redact_urls(str(self.url))!r} {known} ({redact_urls(str(error))})") from None
        return self._engine

    def write(
        self, stream: str, batch: int, answers: pa.Table, checkpoint: str | None = None, *, restart: bool = False
    ) -> bool:
        """Update the table unless this batch of this checkpoint has been written; return whether it did.

        Each checkpoint numbers its batches from 0. With `restart` the batch is the first of a new one.
        """
        for pause in (*_RETRY_SECONDS, None):  # a batch that was written is not written twice
            try:
                return self._write_once(Batch(stream, batch, checkpoint, restart), answers)
            except sa.exc.SQLAlchemyError as error:
                if pause is None or not isinstance(error, sa.exc.OperationalError):
                    reason = redact_urls(str(error).splitlines()[0][:300])
                    raise SinkError(
                        f"table={self.name!r} was not changed: {reason}. A restart of the stream repeats the batch"
                    ) from error
                time.sleep(pause)
        raise AssertionError

    def _write_once(self, batch: Batch, answers: pa.Table) -> bool:
        table, batches = self._open_tables(answers.schema)
        with self.engine.begin() as connection:
            if self.engine.dialect.name == "postgresql":
                # a driver that was killed may have left a transaction open: it must not block others without limit
                for setting in ("lock_timeout", "idle_in_transaction_session_timeout"):
                    connection.execute(sa.select(sa.func.set_config(setting, _LOCK_SECONDS, True)))
            stream, last = self._last_batch(connection, batches, batch.stream)
            restarts = last is None or batch.restarts_after(last)
            if last is not None and not restarts and last["batch"] >= batch.number:
                return False
            if restarts and self.query.emit == "changes":
                self._clear(connection, table, batch, known=last is not None)
            self._apply(connection, table, answers)
            connection.execute(sa.delete(batches).where(batches.c.stream == stream))
            row = {"stream": stream, "batch": batch.number, "checkpoint_id": batch.checkpoint, "table_name": self.name}
            connection.execute(sa.insert(batches), [row])
        return True

    def _last_batch(self, connection: sa.Connection, batches: sa.Table, stream: str) -> tuple[str, Row | None]:
        """Return the key of a stream and its last batch. A stream that writes several tables has a key for each."""
        for key in (stream, f"{stream} into {self.name}"):
            found = connection.execute(sa.select(batches).where(batches.c.stream == key)).mappings().first()
            if found is None or found["table_name"] in (None, self.name):
                return key, None if found is None else dict(found)
        raise SinkError(f"name={stream!r} must belong to one table: give each sink its own name")

    def _clear(self, connection: sa.Connection, table: sa.Table, batch: Batch, *, known: bool) -> None:
        """Delete the lists of an earlier checkpoint: changes start from empty lists at batch 0."""
        if batch.number:
            raise SinkError(
                f"table={self.name!r} must have the changes of a checkpoint from batch 0 on, got batch {batch.number}: "
                f'start with a new checkpoint, or use emit="answers"'
            )
        if not known and connection.execute(sa.select(sa.func.count()).select_from(table)).scalar():
            raise SinkError(
                f"table={self.name!r} must be empty when a stream of changes begins, and has rows of another stream or "
                f"checkpoint: empty it, or use another table"
            )
        connection.execute(sa.delete(table))

    def _apply(self, connection: sa.Connection, table: sa.Table, answers: pa.Table) -> None:
        per_list = {self.query.column(name) for name in _PER_LIST}
        own = answers.drop_columns([name for name in answers.column_names if name in per_list])
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for key, values in zip(row_hash(own).view(np.int64).tolist(), answers.to_pylist(), strict=True):
            row = {_KEY: key, **{name: _to_scalar(value) for name, value in values.items()}}
            for name in self.query.per:
                if isinstance(table.c[name].type, sa.Text) and row[name] is not None:  # also for long decimals
                    row[name] = str(row[name])
            group = (row[name] for name in self.query.per)
            # all NaN are one group
            groups.setdefault(tuple("NaN" if v != v else (v,) for v in group), []).append(row)  # noqa: PLR0124
        for rows in groups.values():
            self._replace_list(connection, table, rows)

    def _replace_list(self, connection: sa.Connection, table: sa.Table, rows: list[Row]) -> None:
        here = sa.and_(sa.true(), *(table.c[name].is_not_distinct_from(rows[0][name]) for name in self.query.per))
        if self.query.emit == "changes":
            old = connection.execute(sa.select(table).where(here).order_by(table.c[self._rank])).mappings()
            rows = self._apply_changes([dict(row) for row in old], rows)
        else:
            final = self.query.column("final")
            newest = max((row.get(final, True), row[self._end]) for row in rows)[1]
            rows = sorted((row for row in rows if row[self._end] == newest), key=lambda row: row[self._rank])
        connection.execute(sa.delete(table).where(here))
        if rows:
            names = table.columns.keys()
            connection.execute(sa.insert(table), [{name: row[name] for name in names} for row in rows])

    def _apply_changes(self, old: list[Row], changes: list[Row]) -> list[Row]:
        """Return the list after its changes, step by step."""
        keys = [row[_KEY] for row in old]
        content = {row[_KEY]: row for row in [*old, *changes]}
        for _, step in groupby(changes, key=lambda change: change[self._end]):
            entering = []
            for change in step:
                if change[self._change] in ("delete", "update_preimage"):
                    keys.remove(change[_KEY])
                else:
                    entering.append((change[self._rank], change[_KEY]))
            for rank, key in sorted(entering):
                keys.insert(rank - 1, key)  # ranks are those of the new list: inserted in order, each is right
        window = {name: changes[-1][name] for name in (self._start, self._end) if name in changes[-1]}
        return [{**content[key], **window, self._rank: rank} for rank, key in enumerate(keys, 1)]

    def _open_tables(self, schema: pa.Schema) -> tuple[sa.Table, sa.Table]:
        if self._tables is not None:
            return self._tables
        omitted = {self._change, self.query.column("step")}
        metadata, dialect = sa.MetaData(), self.engine.dialect.name
        columns = [
            sa.Column(f.name, _group_type(f.type, dialect) if f.name in self.query.per else _column_type(f.type))
            for f in schema
            if f.name not in omitted
        ]
        table = sa.Table(self.name, metadata, *columns, sa.Column(_KEY, sa.BigInteger))
        batches = sa.Table(
            BATCHES,
            metadata,
            sa.Column("stream", sa.String(200), primary_key=True),
            sa.Column("batch", sa.BigInteger),
            sa.Column("checkpoint_id", sa.String(200)),
            sa.Column("table_name", sa.String(200)),
        )
        metadata.create_all(self.engine, checkfirst=True)
        for column in self._missing_columns(batches):  # which versions before 0.2 did not have
            with self.engine.begin() as connection:
                kind = column.type.compile(self.engine.dialect)
                connection.execute(sa.text(f"ALTER TABLE {BATCHES} ADD COLUMN {column.name} {kind}"))
        missing = [column.name for column in self._missing_columns(table)]
        if missing:
            raise SinkError(f"table={self.name!r} exists and has no column {', '.join(missing)}: use another table")
        self._tables = (table, batches)
        return self._tables

    def _missing_columns(self, table: sa.Table) -> list[sa.Column[Any]]:
        none = sa.select(sa.text("*")).select_from(table).where(sa.false())
        with self.engine.connect() as connection:
            existing = set(connection.execute(none).keys())
        return [column for column in table.columns if column.name not in existing]


class Batch(NamedTuple):
    """A micro-batch of a stream; `checkpoint` is None where its id is not known."""

    stream: str
    number: int
    checkpoint: str | None
    restart: bool

    def restarts_after(self, last: Row) -> bool:
        """Return whether it belongs to another checkpoint than the last batch that was written."""
        if self.checkpoint is not None and last["checkpoint_id"] is not None:
            return bool(self.checkpoint != last["checkpoint_id"])
        return self.restart or self.number == 0 < last["batch"]


def _checkpoint_id(df: DataFrame) -> str | None:
    """Return the id in the checkpoint of the stream that this batch belongs to; None on Connect."""
    try:
        found = df.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    except Exception:  # noqa: BLE001 - Connect has no context, and raises an error of its own
        return None
    if not found:
        raise SinkError("upsert_sink must be called by a stream: use it in writeStream.foreachBatch(...)")
    return str(found)


def _group_type(kind: pa.DataType, dialect: str) -> Any:
    """Return a column type that keeps all values of a group column distinct."""
    if pa.types.is_floating(kind) and dialect == "sqlite":
        return _SqliteDouble()
    if pa.types.is_decimal(kind) and kind.precision > _DOUBLE_DIGITS and dialect in ("sqlite", "duckdb"):
        return sa.Text()
    return _column_type(kind)


class _SqliteDouble(sa.types.UserDefinedType[float]):
    """A double whose NaN is stored as text: SQLite would store NULL."""

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


def _column_type(kind: pa.DataType) -> Any:
    """Return the column type for an Arrow type; strings of any length, and nested values as text."""
    found = to_sql_type(kind)
    return sa.Text() if isinstance(found, sa.String | sa.types.NullType) else found


def _to_scalar(value: Any) -> Any:
    """Encode nested values as JSON."""
    return json.dumps(value, default=str) if isinstance(value, list | dict | tuple) else value
