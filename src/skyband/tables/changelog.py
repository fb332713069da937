"""Change logs of tables in a database: triggers that record the keys of changed rows, and a reader that misses none.

The log holds keys only; rows are read in their current state, so neither the order of the entries nor reading one twice
matters. In PostgreSQL, numbers of a sequence are not in the order of commits. So an entry carries the id of its
transaction, and the log is read up to the lowest transaction that is still open (`pg_snapshot_xmin`): no entry can be
added below it. NOTIFY only wakes the reader.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import TableError
from skyband.redaction import redact_urls
from skyband.tables.sql import SqlTable, short_name

if TYPE_CHECKING:
    from skyband.tables.protocol import Changes

_POSTGRES = (
    """CREATE TABLE IF NOT EXISTS {log} (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
       version bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint), key {key_type})""",
    "CREATE INDEX IF NOT EXISTS {index} ON {log} (version)",
    """CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $skyband$ BEGIN
       IF TG_OP <> 'INSERT' THEN INSERT INTO {log} (key) VALUES (OLD.{key}); END IF;
       IF TG_OP <> 'DELETE' AND (TG_OP = 'INSERT' OR NEW.{key} IS DISTINCT FROM OLD.{key}) THEN
       INSERT INTO {log} (key) VALUES (NEW.{key}); END IF;
       PERFORM pg_notify({channel}, ''); RETURN NULL; END $skyband$""",
    "DROP TRIGGER IF EXISTS {trigger} ON {table}",
    """CREATE TRIGGER {trigger} AFTER INSERT OR UPDATE OR DELETE ON {table}
       FOR EACH ROW EXECUTE FUNCTION {function}()""",
    """CREATE OR REPLACE FUNCTION {truncate_function}() RETURNS trigger LANGUAGE plpgsql AS $skyband$ BEGIN
       INSERT INTO {log} (key) VALUES (NULL);
       PERFORM pg_notify({channel}, ''); RETURN NULL; END $skyband$""",
    "DROP TRIGGER IF EXISTS {truncate} ON {table}",
    "CREATE TRIGGER {truncate} AFTER TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {truncate_function}()",
)
_SQLITE = (
    "CREATE TABLE IF NOT EXISTS {log} (version INTEGER PRIMARY KEY AUTOINCREMENT, key {key_type})",
    *(
        f"""CREATE TRIGGER IF NOT EXISTS {{{event}}} AFTER {event.upper()} ON {{table}} BEGIN {{{event}_entry}} END"""
        for event in ("insert", "update", "delete")
    ),
)


def log_changes(table: SqlTable) -> None:
    """Set up a change log for `table`: triggers that write into a table beside it. Needs the right to create them.

    Examples
    --------
    >>> import skyband as sb
    >>> stock = sb.tables.open_table("sqlite://", "stock", key="id", rows={"id": [1, 2], "price": [5.0, 9.0]})
    >>> sb.tables.log_changes(stock)
    >>> stock.put({"id": [2], "price": [4.0]})
    >>> stock.since(0).rows.select(["id", "price", "_change_type"]).to_pylist()
    [{'id': 2, 'price': 4.0, '_change_type': 'update'}]
    """
    table = _check_table(table)
    if table.dialect not in ("postgresql", "sqlite"):
        raise TableError(
            f"a change log needs PostgreSQL or SQLite; {table.dialect} has no triggers: pass changes to view.apply"
        )
    statements = _POSTGRES if table.dialect == "postgresql" else _SQLITE
    names = _statement_names(table)
    with table.connect() as connection, connection.begin():
        for statement in statements:
            connection.exec_driver_sql(statement.format(**names))


def _statement_names(table: SqlTable) -> dict[str, str]:
    quote = table.engine.dialect.identifier_preparer.quote
    prefix = f"{quote(table.schema)}." if table.schema else ""
    key, log, short = quote(table.key), prefix + quote(table.log_name), short_name(table.name)
    entry = "INSERT INTO {} (key) VALUES ({}.{});"
    return {
        "log": log,
        "key": key,
        "table": prefix + quote(table.name),
        "key_type": table.table.c[table.key].type.compile(table.engine.dialect),
        "index": quote(f"{short}_changes_version"),
        "function": prefix + quote(f"{short}_changes_note"),
        "trigger": quote(f"{short}_changes_trigger"),
        "truncate_function": prefix + quote(f"{short}_changes_empty"),
        "truncate": quote(f"{short}_changes_truncate"),
        "channel": "'" + _channel(table).replace("'", "''").replace("%", "%%") + "'",
        **{event: quote(f"{short}_changes_{event}") for event in ("insert", "update", "delete")},
        "insert_entry": entry.format(log, "NEW", key),
        "update_entry": entry.format(log, "OLD", key) + entry.format(log, "NEW", key),
        "delete_entry": entry.format(log, "OLD", key),
    }


def _channel(table: SqlTable) -> str:
    return f"skyband_{short_name(table.name)}"


def _check_table(table: Any) -> SqlTable:
    if not isinstance(table, SqlTable):
        raise TableError(f"table must be what sb.tables.open_table(...) returns, got {str(table)[:60]!r}")
    return table


def forget(table: SqlTable, version: int) -> None:
    """Drop the change log up to `version`. A view at an older version must be built again."""
    import sqlalchemy

    if not _check_table(table).has_log():
        raise TableError("the table has no change log: see sb.tables.log_changes")
    log = table.log
    with table.connect() as connection, connection.begin():
        connection.execute(sqlalchemy.delete(log).where(log.c.version <= version))
        connection.execute(sqlalchemy.insert(log).values(version=version, key=None))


def follow(
    table: SqlTable, since: int | None = None, *, every: float = 1.0, stop: threading.Event | None = None
) -> ChangeFeed:
    """Return an iterator over batches of changes of a table, for `view.follow(...)`, until `stop` is set.

    Reads the change log that `log_changes` set up: in PostgreSQL when a change is notified (LISTEN), and at least
    `every` so many seconds.

    Examples
    --------
    >>> import skyband as sb
    >>> stock = sb.tables.open_table("sqlite://", "stock", key="id", rows={"id": [1, 2], "price": [5.0, 9.0]})
    >>> sb.tables.log_changes(stock)
    >>> changes = sb.tables.follow(stock, since=0)
    >>> stock.put({"id": [2], "price": [4.0]})
    >>> next(changes)["price"].to_pylist()
    [4.0]
    """
    if isinstance(every, bool) or not isinstance(every, int | float) or not 0 < every < threading.TIMEOUT_MAX:
        raise TableError(f"every must be a number of seconds above 0, got {every!r}")
    version = _check_table(table).position() if since is None else since
    return ChangeFeed(_check_table(table), version, every, stop or threading.Event())


class ChangeFeed(Iterator[pa.Table]):
    """The changes of a table as they come; returned by `follow`."""

    def __init__(self, table: SqlTable, version: int, every: float, stop: threading.Event) -> None:
        self.table = table
        """The table that is followed."""
        self._batches = self._read(version, every, stop)

    def __next__(self) -> pa.Table:
        return next(self._batches)

    def close(self) -> None:
        """Stop listening."""
        self._batches.close()

    def _read(self, version: int, every: float, stop: threading.Event) -> Generator[pa.Table]:
        with _notifications(self.table) as wait:
            while not stop.is_set():
                changes: Changes = self.table.since(version)
                version = changes.upto
                if changes.rows.num_rows:
                    yield changes.rows
                else:
                    wait(every)


@contextmanager
def _notifications(table: SqlTable) -> Iterator[Any]:
    """Yield a function that waits for a change, at most so many seconds; without notifications it only sleeps."""
    if table.dialect != "postgresql":
        yield time.sleep
        return
    channel = _channel(table).replace('"', '""')
    with _driver_errors():
        connection = table.engine.raw_connection()
    driver: Any = connection.driver_connection

    def wait(seconds: float) -> None:
        with _driver_errors():
            for _ in driver.notifies(timeout=seconds, stop_after=1):
                pass

    try:
        with _driver_errors():
            driver.autocommit = True
            driver.execute(f'LISTEN "{channel}"')
        yield wait
    finally:
        try:
            with _driver_errors():
                driver.execute("UNLISTEN *")
                driver.autocommit = False
                connection.close()
        except TableError:  # the database is gone, and the connection with it
            connection.invalidate()


@contextmanager
def _driver_errors() -> Iterator[None]:
    """Raise the driver's own errors as TableError."""
    import psycopg
    import sqlalchemy

    try:
        yield
    except (psycopg.Error, sqlalchemy.exc.SQLAlchemyError) as error:
        raise TableError(f"the database answered: {redact_urls(str(error).splitlines()[0][:300])}") from error
