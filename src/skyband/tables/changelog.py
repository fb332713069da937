"""Change logs: triggers that note the keys of changed rows, and a reader that misses none of them.

The log holds keys only; their rows are read as they are now, so the order of notes does not matter and reading one
twice does no harm. In PostgreSQL numbers of a sequence are not in the order of commits. So a note carries its
transaction's number, and the log is read up to the lowest transaction that is still open (`pg_snapshot_xmin`): what
lies below can grow no more. NOTIFY only wakes the reader.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.errors import TableError
from skyband.tables.protocol import CHANGE, VERSION, Changes

if TYPE_CHECKING:
    import sqlalchemy as sa

    from skyband.tables.sql import SqlTable

_LONGEST = 63 - len("_changes_truncate")
_POSTGRES = (
    """CREATE TABLE IF NOT EXISTS {log} (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
       version bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint), key {kind})""",
    "CREATE INDEX IF NOT EXISTS {index} ON {log} (version)",
    """CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $skyband$ BEGIN
       IF TG_OP <> 'INSERT' THEN INSERT INTO {log} (key) VALUES (OLD.{key}); END IF;
       IF TG_OP <> 'DELETE' AND (TG_OP = 'INSERT' OR NEW.{key} IS DISTINCT FROM OLD.{key}) THEN
       INSERT INTO {log} (key) VALUES (NEW.{key}); END IF;
       PERFORM pg_notify({channel}, ''); RETURN NULL; END $skyband$""",
    "DROP TRIGGER IF EXISTS {trigger} ON {table}",
    """CREATE TRIGGER {trigger} AFTER INSERT OR UPDATE OR DELETE ON {table}
       FOR EACH ROW EXECUTE FUNCTION {function}()""",
    """CREATE OR REPLACE FUNCTION {emptied}() RETURNS trigger LANGUAGE plpgsql AS $skyband$ BEGIN
       INSERT INTO {log} (key) VALUES (NULL);
       PERFORM pg_notify({channel}, ''); RETURN NULL; END $skyband$""",
    "DROP TRIGGER IF EXISTS {truncate} ON {table}",
    "CREATE TRIGGER {truncate} AFTER TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {emptied}()",
)
_SQLITE = (
    "CREATE TABLE IF NOT EXISTS {log} (version INTEGER PRIMARY KEY AUTOINCREMENT, key {kind})",
    *(
        f"""CREATE TRIGGER IF NOT EXISTS {{{event}}} AFTER {event.upper()} ON {{table}} BEGIN {{{event}_notes}} END"""
        for event in ("insert", "update", "delete")
    ),
)


def log_changes(table: SqlTable) -> None:
    """Let the database note what changes in `table`, by triggers, in a table beside it. Needs the right to create them.

    Examples
    --------
    >>> from skyband.tables import open_table
    >>> stock = open_table("sqlite://", "stock", key="id", rows={"id": [1, 2], "price": [5.0, 9.0]})
    >>> log_changes(stock)
    >>> stock.put({"id": [2], "price": [4.0]})
    >>> stock.since(0).rows.select(["id", "price", "_change_type"]).to_pylist()
    [{'id': 2, 'price': 4.0, '_change_type': 'update'}]
    """
    import sqlalchemy

    table = _logged(table)
    if table.dialect not in ("postgresql", "sqlite"):
        msg = f"{table.dialect} has no triggers: hand the changes to view.apply yourself"
        raise TableError(msg)
    quote = table.engine.dialect.identifier_preparer.quote
    name = table.table.name
    prefix = f"{quote(table.table.schema)}." if table.table.schema else ""
    key, log, short = quote(table.key), prefix + quote(log_name(name)), _short(name)
    note = "INSERT INTO {} (key) VALUES ({}.{});"
    words = {
        "log": log,
        "key": key,
        "table": prefix + quote(name),
        "kind": table.table.c[table.key].type.compile(table.engine.dialect),
        "index": quote(f"{short}_changes_version"),
        "function": prefix + quote(f"{short}_changes_note"),
        "trigger": quote(f"{short}_changes_trigger"),
        "emptied": prefix + quote(f"{short}_changes_empty"),
        "truncate": quote(f"{short}_changes_truncate"),
        "channel": "'" + channel(table).replace("'", "''").replace("%", "%%") + "'",
        **{event: quote(f"{short}_changes_{event}") for event in ("insert", "update", "delete")},
        "insert_notes": note.format(log, "NEW", key),
        "update_notes": note.format(log, "OLD", key) + note.format(log, "NEW", key),
        "delete_notes": note.format(log, "OLD", key),
    }
    statements = _POSTGRES if table.dialect == "postgresql" else _SQLITE
    try:
        with table.engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement.format(**words))
    except sqlalchemy.exc.SQLAlchemyError as error:
        msg = f"the change log could not be made: {str(error).splitlines()[0][:300]}"
        raise TableError(msg) from error


def log_name(name: str) -> str:
    """The table that holds the log of another."""
    return f"{_short(name)}_changes"


def _short(name: str) -> str:
    """A name that leaves room for an ending: PostgreSQL cuts names after 63 bytes."""
    if len(name.encode()) <= _LONGEST:
        return name
    return name.encode()[:32].decode(errors="ignore") + hashlib.sha256(name.encode()).hexdigest()[:12]


def _logged(table: Any) -> SqlTable:
    from skyband.tables.sql import SqlTable

    if not isinstance(table, SqlTable):
        msg = f"table={str(table)[:60]!r} is no table of a database: write what sb.tables.open_table(...) gives"
        raise TableError(msg)
    return table


def channel(table: SqlTable) -> str:
    """What PostgreSQL notifies when `table` has changed."""
    return f"skyband_{_short(table.table.name)}"


def _log(table: SqlTable) -> sa.Table:
    import sqlalchemy

    columns = [sqlalchemy.column("version"), sqlalchemy.column("key", table.table.c[table.key].type)]
    return sqlalchemy.table(log_name(table.table.name), *columns, schema=table.table.schema)  # type: ignore[return-value]


def _has_log(table: SqlTable) -> bool:
    import sqlalchemy

    name = getattr(table.table, "name", None)
    if table.dialect == "duckdb" or name is None:
        return False
    with table.connected() as connection:
        return bool(sqlalchemy.inspect(connection).has_table(log_name(name), schema=table.table.schema))


def _edge(table: SqlTable, connection: sa.Connection) -> int:
    """The version up to which the log can grow no more."""
    import sqlalchemy

    if table.dialect == "postgresql":
        xmin = sqlalchemy.func.pg_snapshot_xmin(sqlalchemy.func.pg_current_snapshot())
        return int(connection.execute(sqlalchemy.select(sqlalchemy.cast(xmin, sqlalchemy.Text))).scalar_one()) - 1
    last = sqlalchemy.select(sqlalchemy.func.max(_log(table).c.version))
    return int(connection.execute(last).scalar_one() or 0)


def position(table: SqlTable) -> int:
    """The version that the log has come to; -1 if there is none."""
    if not _has_log(table):
        return -1
    with table.connected() as connection:
        return _edge(table, connection)


def since(table: SqlTable, version: int) -> Changes:
    """The rows noted after `version`, as they are now."""
    import sqlalchemy

    has_log = _has_log(table)
    if version < 0 and has_log:
        msg = f"version={version} is from before the table had a change log: build the view again"
        raise TableError(msg)
    if not has_log:
        msg = f"version={version} is unknown, for the table keeps no change log: see sb.tables.log_changes"
        raise TableError(msg)
    log, rows = _log(table), table.table
    with table.connected() as connection:
        upto = _edge(table, connection)
        lost = sqlalchemy.select(sqlalchemy.func.max(log.c.version)).where(log.c.key.is_(None), log.c.version <= upto)
        floor = connection.execute(lost).scalar_one()
        if floor is not None and int(floor) > version:
            msg = f"version={version} is before the log begins, at {floor}: build the view again"
            raise TableError(msg)
        noted = (
            sqlalchemy.select(log.c.key.label("skyband_key"))
            .where(log.c.version > version, log.c.version <= upto, log.c.key.is_not(None))
            .distinct()
            .subquery("noted")
        )
        both = noted.outerjoin(rows, rows.c[table.key] == noted.c.skyband_key)
        found = connection.execute(sqlalchemy.select(noted.c.skyband_key, *rows.c).select_from(both)).all()
    names = [column.name for column in rows.c]
    at = names.index(table.key) + 1
    gone = [row[at] is None for row in found]
    values = [tuple(row[0] if i == at else x for i, x in enumerate(row))[1:] for row in found]
    changes = table.arrow(names, values)
    kind = pa.array(["delete" if g else "update" for g in gone], pa.string())
    changes = changes.append_column(CHANGE, kind).append_column(VERSION, pa.array(np.full(len(gone), upto)))
    return Changes(changes, upto)


def forget(table: SqlTable, version: int) -> None:
    """Drop the log up to `version`; a view that has not come so far must be built again."""
    import sqlalchemy

    log = _log(_logged(table))
    if not _has_log(table):
        msg = "the table keeps no change log: see sb.tables.log_changes"
        raise TableError(msg)
    with table.connected() as connection, connection.begin():
        connection.execute(sqlalchemy.delete(log).where(log.c.version <= version))
        connection.execute(sqlalchemy.insert(log).values(version=version, key=None))


def follow(
    table: SqlTable, since: int | None = None, *, every: float = 1.0, stop: threading.Event | None = None
) -> Followed:
    """Batches of changes of a table as they come, for `view.follow(...)`, until `stop` is set.

    Reads the change log that `log_changes` set up: in PostgreSQL as soon as it is told of a change (LISTEN), and at the
    latest `every` so many seconds.

    Examples
    --------
    >>> from skyband.tables import open_table
    >>> stock = open_table("sqlite://", "stock", key="id", rows={"id": [1, 2], "price": [5.0, 9.0]})
    >>> log_changes(stock)
    >>> changes = follow(stock, since=0)
    >>> stock.put({"id": [2], "price": [4.0]})
    >>> next(changes)["price"].to_pylist()
    [4.0]
    """
    if isinstance(every, bool) or not isinstance(every, int | float) or not 0 < every < threading.TIMEOUT_MAX:
        msg = f"every={every!r} is no time to wait: write a number of seconds above 0"
        raise TableError(msg)
    return Followed(_logged(table), table.position() if since is None else since, every, stop or threading.Event())


class Followed(Iterator[pa.Table]):
    """The changes of a table, without end; made by `follow`."""

    def __init__(self, table: SqlTable, version: int, every: float, stop: threading.Event) -> None:
        self.table = table
        """Whose changes these are."""
        self._found = _followed(table, version, every, stop)

    def __next__(self) -> pa.Table:
        return next(self._found)

    def close(self) -> None:
        """Listen no more."""
        self._found.close()


def _followed(table: SqlTable, version: int, every: float, stop: threading.Event) -> Generator[pa.Table]:
    with _ear(table) as wait:
        while not stop.is_set():
            changes = table.since(version)
            version = changes.upto
            if changes.rows.num_rows:
                yield changes.rows
            else:
                wait(every)


class _ear:  # noqa: N801 - used as a function
    """Waits for a notification, or only for time to pass."""

    def __init__(self, table: SqlTable) -> None:
        self._table = table
        self._raw: Any = None

    def __enter__(self) -> Any:
        if self._table.dialect != "postgresql":
            return time.sleep
        name = channel(self._table).replace('"', '""')
        with _told():
            self._raw = self._table.engine.raw_connection()
            self._raw.driver_connection.autocommit = True
            self._raw.driver_connection.execute(f'LISTEN "{name}"')
        return self._wait

    def _wait(self, seconds: float) -> None:
        with _told():
            for _ in self._raw.driver_connection.notifies(timeout=seconds, stop_after=1):
                pass

    def __exit__(self, *_: object) -> None:
        if self._raw is None:
            return
        try:
            with _told():
                self._raw.driver_connection.execute("UNLISTEN *")
                self._raw.driver_connection.autocommit = False
                self._raw.close()
        except TableError:  # the database is gone, and with it the connection
            self._raw.invalidate()


@contextmanager
def _told() -> Iterator[None]:
    """What the driver itself says when the database is gone, as a TableError."""
    import psycopg
    import sqlalchemy

    try:
        yield
    except (psycopg.Error, sqlalchemy.exc.SQLAlchemyError) as error:
        msg = f"the database said: {str(error).splitlines()[0][:300]}"
        raise TableError(msg) from error
