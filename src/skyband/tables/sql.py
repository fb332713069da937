"""Tables in PostgreSQL, SQLite and DuckDB, and Parquet files, through SQLAlchemy.

Every read is one SELECT with bound values. `sql_score` writes the score, `changelog` sets up the log of changes.
"""

from __future__ import annotations

import hashlib
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from skyband.errors import SchemaError, TableError, nearest, not_utf8
from skyband.redaction import redact_urls
from skyband.tables.protocol import CHANGE, SCORE, VERSION, Changes, NotPushedDownError
from skyband.tables.remote import fill_env, require, rows_to_table
from skyband.tables.sql_schema import (
    create_engine,
    create_table,
    is_in_memory,
    reflect_table,
    sqlalchemy,
    table_names,
    to_arrow_type,
    to_sql_type,
)

if TYPE_CHECKING:
    import sqlalchemy as sa

    from skyband.query.expression import Expression

_FETCH_IDS = 5_000  # ids in one statement
_SCAN_ROWS = 20_000  # rows that are scored at once
_MAX_NAME = 63 - len("_changes_truncate")  # PostgreSQL cuts names after 63 bytes


def open_table(
    where: str | Path | sa.Engine, name: str | None = None, *, key: str, rows: Any = None, schema: str | None = None
) -> SqlTable:
    """Open a table of a database, or a Parquet file.

    Parameters
    ----------
    where
        A database in SQLAlchemy's notation ("postgresql+psycopg://...", "sqlite:///shop.db", "duckdb:///shop.db";
        `${NAME}` is replaced from the environment), an engine, or the path of a Parquet file.
    name
        The table; not needed for a file.
    key
        The key column.
    rows
        Create the table and insert these rows.
    schema
        The schema of the table.

    Examples
    --------
    >>> import skyband as sb
    >>> stock = sb.tables.open_table("sqlite://", "stock", key="id", rows={"id": [1, 2, 3], "price": [5.0, 9.0, 7.0]})
    >>> stock.fetch([3, 8], ["price"]).to_pylist()
    [{'id': 3, 'price': 7.0}]
    """
    alchemy = sqlalchemy()
    if not isinstance(where, str | Path | alchemy.Engine):
        raise TableError(
            f"where must be an address such as sqlite:///shop.db, an engine or a path of a Parquet file, got {where!r}"
        )
    for field, text in (("key", key), ("name", name), ("schema", schema)):
        if (text is not None or field == "key") and (not isinstance(text, str) or not text):
            raise SchemaError(f"{field} must be a non-empty string, got {text!r}")
    if isinstance(where, Path) or (isinstance(where, str) and "://" not in where):
        return _open_parquet(Path(where), key)
    if name is None:
        raise SchemaError('name must be given for a database: write name="stock"')
    table = SqlTable(where, name, key, schema=schema)
    try:
        if rows is not None:
            create_table(table.engine, name, key, _as_table(rows), schema)
        _ = table.table
    except alchemy.exc.SQLAlchemyError as error:
        table.close()
        raise _table_error(error) from error
    except (TableError, SchemaError):
        table.close()
        raise
    return table


def _as_table(rows: Any) -> pa.Table:
    try:
        return rows if isinstance(rows, pa.Table) else pa.table(rows)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0][:100]
        raise SchemaError(
            f"rows must be columns by name, a DataFrame or an Arrow table, got {type(rows).__name__} ({reason})"
        ) from error


def _open_parquet(path: Path, key: str) -> SqlTable:
    """Open a file as a table of DuckDB's."""
    import pyarrow.parquet as pq

    alchemy = sqlalchemy()
    if not path.exists():
        raise TableError(f"where={str(path)!r} does not exist: check the path")
    if not_utf8(path):
        raise TableError(f"where={str(path)!r} must have a name in UTF-8, which DuckDB needs: rename the file")
    try:
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0][:100]
        raise TableError(
            f"where must be a Parquet file or the address of a database, got {str(path)!r} ({reason})"
        ) from error
    columns = [alchemy.column(field.name, to_sql_type(field.type)) for field in schema]
    table = SqlTable(create_engine("duckdb:///:memory:"), str(path), key)
    table.table = alchemy.func.read_parquet(str(path)).table_valued(*columns, name="rows")
    _check_key(table.table, key)
    return table


class SqlTable:
    """A table or view of a database, opened at its first use. `sb.tables.open_table` also checks that it exists.

    A pickled table holds its address, not its connections: each process opens it once.

    Parameters
    ----------
    where
        The database in SQLAlchemy's notation: "sqlite:///users.db", "postgresql+psycopg://me:${PASSWORD}@host/db".
        `${NAME}` is replaced from the environment of the process that connects. Or an engine, which cannot be pickled.
    name
        The table.
    key
        The key column.
    schema
        The schema of the table. Default: that of the connection.
    timeout
        Time limit of a read of the best rows in seconds (PostgreSQL only).

    Examples
    --------
    >>> import skyband as sb
    >>> from sqlalchemy import create_engine, text
    >>> engine = create_engine("sqlite://")
    >>> with engine.begin() as connection:
    ...     _ = connection.execute(text("CREATE TABLE users (id INTEGER, followers INTEGER)"))
    ...     _ = connection.execute(text("INSERT INTO users VALUES (1, 10), (2, 20)"))
    >>> sb.tables.SqlTable(engine, "users", key="id").fetch([2, 3], ["followers"]).to_pylist()
    [{'id': 2, 'followers': 20}]
    """

    def __init__(
        self,
        where: str | sa.Engine,
        name: str,
        key: str,
        *,
        schema: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.name, self.key, self.schema, self.timeout = name, key, schema, timeout
        self._where = where

    def __repr__(self) -> str:
        return f"SqlTable({self.name!r}, key={self.key!r})"  # the address may hold a password

    def __reduce__(self) -> Any:
        if not isinstance(self._where, str):
            raise TableError(
                f"table {self.name!r} has an open engine, which cannot be sent to another process: give its address"
            )
        return _open_once, (_check_address(self._where), self.name, self.key, self.schema, self.timeout)

    def by_address(self, timeout: float | None = None) -> SqlTable:
        """Return the same table, not opened yet, so that it can be sent to other processes."""
        address = self._where
        if not isinstance(address, str):
            address = address.url.render_as_string(hide_password=False).replace("$", "$$")
        return SqlTable(
            _check_address(address), self.name, self.key, schema=self.schema, timeout=self.timeout or timeout
        )

    @cached_property
    def engine(self) -> sa.Engine:
        """The database."""
        if not isinstance(self._where, str):
            return self._where
        require("sqlalchemy")
        engine = create_engine(fill_env(self._where))
        weakref.finalize(self, engine.dispose)
        return engine

    @cached_property
    def table(self) -> Any:
        """The table with the types of its columns, read from the database."""
        alchemy = sqlalchemy()
        try:
            table = reflect_table(self.engine, self.name, self.schema)
        except alchemy.exc.NoSuchTableError:
            known = nearest(self.name, table_names(self.engine, self.schema))
            raise TableError(f"name={self.name!r} is not a table of the database: {known}") from None
        except alchemy.exc.SQLAlchemyError as error:
            raise _table_error(error) from error
        _check_key(table, self.key)
        return table

    @property
    def is_open(self) -> bool:
        """Whether the columns have been read from the database."""
        return "table" in self.__dict__

    @property
    def local(self) -> bool:
        """Whether reads must stay in this thread: with SQLite in memory each thread has its own, empty database."""
        return not isinstance(self._where, str) and self.dialect == "sqlite" and is_in_memory(str(self._where.url))

    @property
    def dialect(self) -> str:
        """postgresql, sqlite or duckdb."""
        return self.engine.dialect.name

    @property
    def whole_keys(self) -> bool:
        """Whether keys are integers, which every database orders alike."""
        return isinstance(self.table.c[self.key].type, sqlalchemy().Integer)

    def close(self) -> None:
        """Close the idle connections. The table can still be used: it opens new ones."""
        if "engine" in self.__dict__:
            self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def connect(self, timeout: float | None = None) -> Iterator[sa.Connection]:
        """Open a connection whose errors are `TableError`s."""
        alchemy = require("sqlalchemy")
        try:
            with self.engine.connect() as connection:
                if timeout is not None and self.dialect == "postgresql":
                    limit = str(max(int(timeout * 1000), 1))  # 0 would be no limit
                    connection.execute(alchemy.select(alchemy.func.set_config("statement_timeout", limit, True)))
                yield connection
        except TableError:
            raise
        except (alchemy.exc.SQLAlchemyError, OSError) as error:
            raise _table_error(error) from error

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """Return the key and `columns` of the rows with these ids; types follow from the values until it is open."""
        alchemy = require("sqlalchemy")
        names = list(dict.fromkeys([self.key, *columns]))
        if self.is_open:
            selected = [self.column(name) for name in names]
        else:
            selected = list(alchemy.table(self.name, *map(alchemy.column, names), schema=self.schema).c)
        bind = not self.is_open or isinstance(selected[0].type, (alchemy.Integer, alchemy.String))
        rows: list[Any] = []
        with self.connect(timeout) as connection:
            for low in range(0, len(ids), _FETCH_IDS):
                some: Any = list(ids[low : low + _FETCH_IDS])
                if bind:
                    some = _bind_ids(some, self.dialect)
                rows += connection.execute(alchemy.select(*selected).where(selected[0].in_(some))).all()
        if self.is_open:
            return self.to_arrow(names, rows)
        return rows_to_table([dict(zip(names, row, strict=True)) for row in rows], names)

    def column(self, name: str) -> Any:
        """Return a column of the table."""
        if name not in self.table.c:
            raise SchemaError(f"the table has no column {name!r}: {nearest(name, self.table.c.keys())}")
        return self.table.c[name]

    def to_arrow(self, names: Sequence[str], rows: Sequence[Any]) -> pa.Table:
        """Convert rows of the database to an Arrow table, typed by the table's columns."""
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [() for _ in names]
        try:
            return pa.table(
                {
                    name: pa.array(column, to_arrow_type(self.table.c[name].type if name in self.table.c else None))
                    for name, column in zip(names, columns, strict=True)
                }
            )
        except (pa.ArrowException, OverflowError) as error:
            raise TableError(
                f"the table holds values that cannot be read: {str(error).splitlines()[0][:200]}"
            ) from error

    def ranked(self, by: Expression, columns: Sequence[str], *, ascending: bool = False) -> RankedSqlTable:
        """Return the table in the order of a score. Columns are checked now if it is open, else at the first read."""
        ranked = RankedSqlTable(self, by, tuple(columns), ascending=ascending)
        if self.is_open:
            _ = ranked.pushdown
        return ranked

    def put(self, rows: Mapping[str, Sequence[object]]) -> None:
        """Insert rows, or replace those with the same key, in one transaction. A convenience for scripts."""
        alchemy = sqlalchemy()
        new = pa.table(dict(rows)).to_pylist()
        with self.connect() as connection, connection.begin():
            keys = [row[self.key] for row in new]
            connection.execute(alchemy.delete(self.table).where(self.table.c[self.key].in_(keys)))
            connection.execute(alchemy.insert(self.table), new)

    # ------------------------------------------------------------ change log

    @property
    def log_name(self) -> str:
        """Name of the table with the change log."""
        return f"{short_name(self.name)}_changes"

    @property
    def log(self) -> Any:
        """The table with the change log; a NULL key marks a version before which changes are missing."""
        alchemy = sqlalchemy()
        columns = [alchemy.column("version"), alchemy.column("key", self.table.c[self.key].type)]
        return alchemy.table(self.log_name, *columns, schema=self.schema)

    def has_log(self) -> bool:
        """Whether `sb.tables.log_changes` has set up a change log."""
        if self.dialect == "duckdb":
            return False
        with self.connect() as connection:
            return bool(sqlalchemy().inspect(connection).has_table(self.log_name, schema=self.schema))

    def position(self) -> int:
        """Return the version up to which the change log is complete; -1 without a change log."""
        if not self.has_log():
            return -1
        with self.connect() as connection:
            return self._complete_version(connection)

    def _complete_version(self, connection: sa.Connection) -> int:
        """Return the version up to which no entry can be added to the log."""
        alchemy = sqlalchemy()
        if self.dialect == "postgresql":
            xmin = alchemy.func.pg_snapshot_xmin(alchemy.func.pg_current_snapshot())
            return int(connection.execute(alchemy.select(alchemy.cast(xmin, alchemy.Text))).scalar_one()) - 1
        return int(connection.execute(alchemy.select(alchemy.func.max(self.log.c.version))).scalar_one() or 0)

    def since(self, version: int) -> Changes:
        """Return the rows in the change log after `version`, in their current state."""
        alchemy = sqlalchemy()
        if not self.has_log():
            raise TableError(
                f"version={version} cannot be read, since the table has no change log: see sb.tables.log_changes"
            )
        if version < 0:
            raise TableError(f"version={version} is from before the table had a change log: build the view again")
        log, rows = self.log, self.table
        with self.connect() as connection:
            upto = self._complete_version(connection)
            gap = alchemy.select(alchemy.func.max(log.c.version)).where(log.c.key.is_(None), log.c.version <= upto)
            first = connection.execute(gap).scalar_one()
            if first is not None and int(first) > version:
                raise TableError(
                    f"version={version} is before the start of the change log, {first}: build the view again"
                )
            changed = (
                alchemy.select(log.c.key.label("skyband_key"))
                .where(log.c.version > version, log.c.version <= upto, log.c.key.is_not(None))
                .distinct()
                .subquery("changed")
            )
            joined = changed.outerjoin(rows, rows.c[self.key] == changed.c.skyband_key)
            found = connection.execute(alchemy.select(changed.c.skyband_key, *rows.c).select_from(joined)).all()
        names = [column.name for column in rows.c]
        at = names.index(self.key) + 1
        values = [tuple(row[0] if i == at else x for i, x in enumerate(row))[1:] for row in found]
        kinds = pa.array(["delete" if row[at] is None else "update" for row in found], pa.string())
        changes = self.to_arrow(names, values).append_column(CHANGE, kinds)
        return Changes(changes.append_column(VERSION, pa.array(np.full(len(found), upto))), upto)


class RankedSqlTable:
    """A table of a database in the order of a score."""

    def __init__(self, table: SqlTable, by: Expression, columns: tuple[str, ...], *, ascending: bool) -> None:
        self.key, self._table, self._by, self._columns, self._ascending = table.key, table, by, columns, ascending
        self._operands = by.columns or (table.key,)  # a batch without columns would have no rows

    @property
    def whole_keys(self) -> bool:
        """Whether keys are integers, which every database orders alike."""
        return self._table.whole_keys

    @cached_property
    def pushdown(self) -> tuple[Any, str]:
        """The score as SQL; or None, and why the database cannot compute it."""
        from skyband.tables.sql_score import UnsuitableError, write_score

        table = self._table
        for name in self._columns:
            table.column(name)
        try:
            score = write_score(self._by, table.table.c, table.dialect)
        except UnsuitableError as error:
            for name in self._by.columns:
                table.column(name)
            return None, str(error)
        return -score if self._ascending else score, ""

    def count(self) -> int:
        """Return the number of rows."""
        alchemy = sqlalchemy()
        query = alchemy.select(alchemy.func.count()).select_from(self._table.table)
        with self._table.connect() as connection:
            return int(connection.execute(query).scalar_one())

    def top(self, n: int, below: tuple[float, object] | None = None) -> pa.Table:
        """Return the n best rows after (score, key); unless keys are integers, all rows with the lowest score.

        Raises `NotPushedDownError` where the database cannot compute the score of every row.
        """
        if self.pushdown[0] is None:
            raise NotPushedDownError(self.pushdown[1], self)
        with self._table.connect(self._table.timeout) as connection:
            try:
                found = connection.execute(self.query(n, below)).all()
            except sqlalchemy().exc.DataError as error:  # of any row: PostgreSQL raises where a result is out of range
                raise NotPushedDownError(str(_table_error(error)), self) from error
        rows = self._table.to_arrow([self.key, *self._columns], [(row[0], *row[2:]) for row in found])
        return rows.add_column(1, SCORE, pa.array([row[1] for row in found], pa.float64()))

    def query(self, n: int, below: tuple[float, object] | None = None) -> sa.Select[Any]:
        """Return the SELECT of `top`."""
        alchemy = sqlalchemy()
        table = self._table.table
        scored = alchemy.select(
            table.c[self.key], self.pushdown[0].label("skyband_score"), *(table.c[name] for name in self._columns)
        ).subquery("scored")
        score, key = scored.c.skyband_score, scored.c[self.key]
        conditions = [score.is_not(None)]
        if below is not None:
            bound = alchemy.literal(float(below[0]), alchemy.Double)
            if below[1] is None:
                conditions.append(score < bound)
            else:  # the first is implied, but is a range that an index can serve
                conditions += [score <= bound, alchemy.or_(score < bound, key < below[1])]
        best = alchemy.select(*scored.c).where(*conditions)
        if self.whole_keys:
            return best.order_by(score.desc(), key.desc()).limit(n)
        nth = alchemy.select(score).where(*conditions).order_by(score.desc()).limit(n).subquery("nth")
        lowest = alchemy.select(alchemy.func.min(nth.c.skyband_score)).scalar_subquery()
        return best.where(score >= lowest).order_by(score.desc())

    def read(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield all rows in batches, at least one: key and columns, and the operands of the score."""
        alchemy = sqlalchemy()
        table, names = self._table, [self.key, *self._columns]
        operands = [
            alchemy.cast(column, alchemy.Double) if isinstance(column.type, alchemy.Float) else column
            for column in map(table.column, self._operands)
        ]  # a 32-bit float is read with fewer digits than it has
        selected = [*map(table.column, names), *operands]
        labelled = [column.label(f"skyband_{number}") for number, column in enumerate(selected)]
        with table.connect(table.timeout) as connection:
            found = connection.execution_options(yield_per=_SCAN_ROWS).execute(alchemy.select(*labelled))
            rows: Sequence[Any] = ()
            for rows in found.partitions():
                yield self._split(names, rows)
            if not rows:
                yield self._split(names, ())

    def _split(self, names: list[str], rows: Sequence[Any]) -> tuple[pa.Table, pa.Table]:
        cut, to_arrow = len(names), self._table.to_arrow
        return to_arrow(names, [row[:cut] for row in rows]), to_arrow(self._operands, [row[cut:] for row in rows])


def _check_key(table: Any, key: str) -> None:
    if key not in table.c:
        raise SchemaError(f"key={key!r} is not a column of the table: {nearest(key, table.c.keys())}")


def short_name(name: str) -> str:
    """Shorten a name so that an ending can be appended within the length that PostgreSQL allows."""
    if len(name.encode()) <= _MAX_NAME:
        return name
    return name.encode()[:32].decode(errors="ignore") + hashlib.sha256(name.encode()).hexdigest()[:12]


def _check_address(address: str) -> str:
    if is_in_memory(address):
        raise TableError(
            "a table in the memory of this process cannot be read by others: put it into a file or a server"
        )
    return address


@lru_cache(maxsize=16)
def _open_once(where: str, name: str, key: str, schema: str | None, timeout: float | None) -> SqlTable:
    """Return the table that all pickled copies share in this process."""
    return SqlTable(where, name, key, schema=schema, timeout=timeout)


def _table_error(error: Exception) -> TableError:
    if isinstance(error, sqlalchemy().exc.TimeoutError):
        return TableError("no connection to the database is free: close one, or use a database in a file or a server")
    return TableError(f"the database answered: {redact_urls(str(error).splitlines()[0][:300])}")


def _bind_ids(ids: list[object], dialect: str) -> Any:
    """Bind ids as a parameter, without those that no row can have: one of them would fail the whole statement.

    SQLAlchemy takes the type of all from the first, so that PostgreSQL would get the others as 32-bit integers.
    """
    alchemy, bind_type = sqlalchemy(), None
    if any(isinstance(i, int) and not isinstance(i, bool) for i in ids):
        short = [i for i in ids if not isinstance(i, int) or -(1 << 63) <= i < 1 << 63]
        ids = short if dialect == "sqlite" else ids  # its integers have 64 bits
        bind_type = alchemy.BigInteger() if len(ids) == len(short) else alchemy.Numeric()
    elif dialect == "postgresql":  # its strings hold no NUL
        ids = [i for i in ids if not (isinstance(i, str) and "\0" in i)]
    return alchemy.bindparam("ids", ids, type_=bind_type, expanding=True)


# ---------------------------------------------------------------- names of version 0.1


class SqlFetch(SqlTable):
    """Deprecated: use `sb.tables.SqlTable`."""

    def __init__(self, url: Any, table: str, key: str, *, schema: str | None = None) -> None:
        warnings.warn("SqlFetch is now sb.tables.SqlTable", DeprecationWarning, stacklevel=2)
        super().__init__(url, table, key, schema=schema)


class Distant(SqlTable):
    """Deprecated: use `sb.tables.SqlTable`."""

    def __init__(self, url: str, name: str, key: str, schema: str | None = None, timeout: float | None = None) -> None:
        warnings.warn("sb.tables.Distant is now sb.tables.SqlTable", DeprecationWarning, stacklevel=2)
        super().__init__(url, name, key, schema=schema, timeout=timeout)
