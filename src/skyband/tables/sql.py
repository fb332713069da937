"""Tables in PostgreSQL, SQLite and DuckDB, through SQLAlchemy; Parquet files through DuckDB."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from skyband.errors import SchemaError, TableError, nearest
from skyband.tables._need import shown
from skyband.tables._patience import CONNECT, patience
from skyband.tables.protocol import SCORE, Changes

if TYPE_CHECKING:
    import sqlalchemy as sa

    from skyband.query.expression import Expression

_MANY = 5_000  # ids in one question


def _alchemy() -> Any:
    try:
        import sqlalchemy
    except ImportError as error:
        msg = 'tables in databases need SQLAlchemy: pip install "skyband[sql]"'
        raise ImportError(msg) from error
    return sqlalchemy


def open_table(
    where: str | Path | sa.Engine, name: str | None = None, *, key: str, rows: Any = None, schema: str | None = None
) -> SqlTable:
    """A table in a database, or a Parquet file.

    Parameters
    ----------
    where
        A database as SQLAlchemy names it ("postgresql+psycopg://...", "sqlite:///shop.db", "duckdb:///shop.db"), an
        engine, or the path of a Parquet file.
    name
        The table; not needed for a file.
    key
        The column that tells rows apart.
    rows
        Create the table and put these rows into it.
    schema
        The schema the table is in.

    Examples
    --------
    >>> stock = open_table("sqlite://", "stock", key="id", rows={"id": [1, 2, 3], "price": [5.0, 9.0, 7.0]})
    >>> stock.fetch([3, 8], ["price"]).to_pylist()
    [{'id': 3, 'price': 7.0}]
    """
    sqlalchemy = _alchemy()
    if not isinstance(where, str | Path | sqlalchemy.Engine):
        msg = f"where={where!r} is no database: write its address, such as sqlite:///shop.db, or a Parquet file's path"
        raise TableError(msg)
    for field, text in (("key", key), ("name", name), ("schema", schema)):
        if (text is not None or field == "key") and (not isinstance(text, str) or not text):
            msg = f"{field}={text!r} is no name: write a text that is not empty"
            raise SchemaError(msg)
    if isinstance(where, Path) or (isinstance(where, str) and "://" not in where):
        return _parquet(Path(where), key)
    if name is None:
        msg = "name=None leaves open which table is meant: name one"
        raise SchemaError(msg)
    engine = _engine(where) if isinstance(where, str) else where
    try:
        if rows is not None:
            _create(engine, name, key, rows, schema)
        return SqlTable(engine, _reflected(engine, name, schema), key)
    except sqlalchemy.exc.NoSuchTableError:
        msg = f"name={name!r} is no table there: {nearest(name, _names(engine, schema))}"
        engine.dispose()
        raise TableError(msg) from None
    except (sqlalchemy.exc.SQLAlchemyError, SchemaError) as error:
        engine.dispose()  # no connection is left open by an error
        raise error if isinstance(error, SchemaError) else _error(error) from error


def _engine(url: str) -> sa.Engine:
    sqlalchemy = _alchemy()
    try:
        if _in_memory(sqlalchemy.make_url(url)):
            # one connection for all threads, for another would be another database; each has it to itself
            alone = {"poolclass": sqlalchemy.pool.QueuePool, "pool_size": 1, "max_overflow": 0, "pool_timeout": CONNECT}
            return sqlalchemy.create_engine(
                url, **alone, connect_args={"check_same_thread": False} if url.startswith("sqlite") else {}
            )
        return sqlalchemy.create_engine(url, connect_args=patience(url))
    except sqlalchemy.exc.ArgumentError as error:
        msg = f"where={shown(url)!r} is no address of a database: write one such as sqlite:///shop.db"
        raise TableError(msg) from error
    except ImportError as error:
        msg = f"where={shown(url)!r} needs {error.name}, which is not installed: pip install it"
        raise TableError(msg) from error


def _in_memory(url: sa.URL) -> bool:
    return url.get_backend_name() in ("sqlite", "duckdb") and url.database in (None, "", ":memory:")


def _reflected(engine: sa.Engine, name: str, schema: str | None) -> sa.Table:
    sqlalchemy = _alchemy()
    if engine.dialect.name != "duckdb":
        with warnings.catch_warnings():  # of indexes, which are no matter here
            warnings.filterwarnings("ignore", "Skipped unsupported reflection", sqlalchemy.exc.SAWarning)
            table = sqlalchemy.Table(name, sqlalchemy.MetaData(), schema=schema, autoload_with=engine)
        for column in table.c:
            if isinstance(column.type, sqlalchemy.Uuid):  # as texts, which Arrow and streams know
                column.type = sqlalchemy.Uuid(as_uuid=False)
        return table
    # its catalogue lacks what SQLAlchemy asks of PostgreSQL's
    said = sqlalchemy.table("columns", *map(sqlalchemy.column, _CATALOGUE), schema="information_schema")
    mine = said.c.table_schema == (schema or sqlalchemy.func.current_schema())
    wanted = sqlalchemy.select(said.c.column_name, said.c.data_type).where(said.c.table_name == name, mine)
    with engine.connect() as connection:
        found = connection.execute(wanted.order_by(said.c.ordinal_position)).all()
    if not found:
        raise sqlalchemy.exc.NoSuchTableError(name)
    columns = [sqlalchemy.Column(column, _duckdb_type(kind)) for column, kind in found]
    return sqlalchemy.Table(name, sqlalchemy.MetaData(), *columns, schema=schema)


def _names(engine: sa.Engine, schema: str | None) -> list[str]:
    """The tables there are."""
    sqlalchemy = _alchemy()
    if engine.dialect.name != "duckdb":
        return list(sqlalchemy.inspect(engine).get_table_names(schema=schema))
    said = sqlalchemy.table("tables", sqlalchemy.column("table_name"), schema="information_schema")
    with engine.connect() as connection:
        return list(connection.execute(sqlalchemy.select(said.c.table_name)).scalars())


_CATALOGUE = ("table_schema", "table_name", "column_name", "data_type", "ordinal_position")


def _duckdb_type(name: str) -> Any:
    """The column type for one of DuckDB's."""
    sqlalchemy = _alchemy()
    word = name.split("(", maxsplit=1)[0]
    if word.endswith("INT") or word in ("INTEGER", "UINTEGER"):
        return sqlalchemy.BigInteger()
    if word in ("DOUBLE", "FLOAT"):
        return sqlalchemy.Double()
    if word.startswith("TIMESTAMP"):
        return sqlalchemy.DateTime(timezone=word == "TIMESTAMP WITH TIME ZONE")
    if word == "DECIMAL":
        return sqlalchemy.Numeric(*map(int, re.findall(r"\d+", name)))
    known = {
        "BOOLEAN": sqlalchemy.Boolean(),
        "DATE": sqlalchemy.Date(),
        "VARCHAR": sqlalchemy.String(),
        "ENUM": sqlalchemy.String(),
        "BLOB": sqlalchemy.LargeBinary(),
        "UUID": sqlalchemy.Uuid(as_uuid=False),
    }
    return known.get(word, sqlalchemy.types.NullType())


def _parquet(path: Path, key: str) -> SqlTable:
    """A file as a table of DuckDB's."""
    import pyarrow.parquet as pq

    sqlalchemy = _alchemy()
    if not path.exists():
        msg = f"where={str(path)!r} does not exist: check the path"
        raise TableError(msg)
    try:
        names = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        msg = f"where={str(path)!r} is no Parquet file ({str(error).splitlines()[0][:100]}): write the path of one"
        raise TableError(msg) from error
    columns = [sqlalchemy.column(f.name, _type(f.type)) for f in names]
    source = sqlalchemy.func.read_parquet(str(path)).table_valued(*columns, name="rows")
    return SqlTable(_engine("duckdb:///:memory:"), source, key)


def _create(engine: sa.Engine, name: str, key: str, rows: Any, schema: str | None) -> None:
    sqlalchemy = _alchemy()
    try:
        found = rows if isinstance(rows, pa.Table) else pa.table(rows)
    except (pa.ArrowException, TypeError, ValueError) as error:
        msg = (
            f"rows= is no table ({str(error).splitlines()[0][:100]}): give columns by name, a DataFrame or Arrow table"
        )
        raise SchemaError(msg) from error
    columns = [sqlalchemy.Column(f.name, _type(f.type), primary_key=f.name == key) for f in found.schema]
    for column in columns:
        column.autoincrement = False
    table = sqlalchemy.Table(name, sqlalchemy.MetaData(), *columns, schema=schema)
    with engine.begin() as connection:
        table.create(connection)
        for batch in found.to_batches(10_000):
            connection.execute(sqlalchemy.insert(table), batch.to_pylist())


def _type(kind: pa.DataType) -> Any:
    """The column type for an Arrow type."""
    sqlalchemy = _alchemy()
    if pa.types.is_boolean(kind):
        return sqlalchemy.Boolean()
    if pa.types.is_integer(kind):
        return sqlalchemy.BigInteger()
    if pa.types.is_floating(kind):
        return sqlalchemy.Double()
    if pa.types.is_decimal(kind):
        return sqlalchemy.Numeric(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return sqlalchemy.DateTime(timezone=kind.tz is not None)
    if pa.types.is_date(kind):
        return sqlalchemy.Date()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return sqlalchemy.LargeBinary()
    return sqlalchemy.types.NullType() if pa.types.is_nested(kind) else sqlalchemy.String()


def _error(error: Exception) -> TableError:
    if isinstance(error, _alchemy().exc.TimeoutError):
        return TableError(
            "the connections to the database are all in use: close one, or use a database that is no memory"
        )
    first = shown(str(error).splitlines()[0][:300])
    return TableError(f"the database said: {first}")


class SqlTable:
    """A table in a database; made by `sb.tables.open_table`.

    Every question is one SELECT with bound values. Questions of several threads go over connections of their own.
    """

    def __init__(self, engine: sa.Engine, table: Any, key: str) -> None:
        self.engine, self.table, self.key = engine, table, key
        self.timeout: float | None = None
        """Seconds that a question for the best rows may take, where the database lets us say so (PostgreSQL)."""
        if key not in table.c:
            msg = f"key={key!r} is no column of the table: {nearest(key, table.c.keys())}"
            raise SchemaError(msg)

    def close(self) -> None:
        """Close the connections that are open and idle. The table can still be used: they come again."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dialect(self) -> str:
        """postgresql, sqlite or duckdb."""
        return self.engine.dialect.name

    @property
    def whole(self) -> bool:
        """Whether keys are whole numbers, which order alike here and there."""
        return isinstance(self.table.c[self.key].type, _alchemy().Integer)

    @contextmanager
    def connected(self, timeout: float | None = None) -> Iterator[sa.Connection]:
        """A connection; what goes wrong on it is a TableError."""
        sqlalchemy = _alchemy()
        try:
            with self.engine.connect() as connection:
                if timeout is not None and self.dialect == "postgresql":
                    limit = sqlalchemy.func.set_config("statement_timeout", str(int(timeout * 1000)), True)
                    connection.execute(sqlalchemy.select(limit))
                yield connection
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise _error(error) from error

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The key and `columns` of the rows with these ids."""
        sqlalchemy = _alchemy()
        names = list(dict.fromkeys([self.key, *columns]))
        wanted = [self._column(name) for name in names]
        found: list[Any] = []
        with self.connected(timeout) as connection:
            for low in range(0, len(ids), _MANY):
                some = sqlalchemy.select(*wanted).where(wanted[0].in_(list(ids[low : low + _MANY])))
                found += connection.execute(some).all()
        return self.arrow(names, found)

    def _column(self, name: str) -> Any:
        if name not in self.table.c:
            msg = f"the table has no column {name!r}: {nearest(name, self.table.c.keys())}"
            raise SchemaError(msg)
        return self.table.c[name]

    def arrow(self, names: Sequence[str], found: Sequence[Any]) -> pa.Table:
        """Rows of the database as an Arrow table, typed by the table's columns."""
        columns: list[Any] = list(zip(*found, strict=True)) if found else [() for _ in names]
        try:
            return pa.table(
                {name: pa.array(column, self._arrow_type(name)) for name, column in zip(names, columns, strict=True)}
            )
        except (pa.ArrowException, OverflowError) as error:
            msg = f"the table holds values that cannot be read: {str(error).splitlines()[0][:200]}"
            raise TableError(msg) from error

    def _arrow_type(self, name: str) -> pa.DataType | None:
        sqlalchemy = _alchemy()
        kind = self.table.c[name].type if name in self.table.c else None
        for known, told in (
            (sqlalchemy.Boolean, pa.bool_()),
            (sqlalchemy.Integer, pa.int64()),
            (sqlalchemy.Float, pa.float64()),
            (sqlalchemy.String | sqlalchemy.Uuid, pa.string()),
            (sqlalchemy.LargeBinary, pa.binary()),
            (sqlalchemy.Date, pa.date32()),
        ):
            if isinstance(kind, known):
                return told
        if isinstance(kind, sqlalchemy.DateTime):
            return pa.timestamp("us", "UTC" if kind.timezone else None)
        if isinstance(kind, sqlalchemy.Numeric) and kind.precision is not None and kind.precision <= 38:
            return pa.decimal128(kind.precision, kind.scale or 0)
        return None

    def ranked(self, by: Expression, columns: Sequence[str], *, ascending: bool = False) -> RankedSql:
        """The table in the order of a score."""
        for name in columns:
            self._column(name)
        return RankedSql(self, by, tuple(columns), ascending=ascending)

    def position(self) -> int:
        """The version its change log has come to; -1 without one."""
        from skyband.tables.changelog import position

        return position(self)

    def since(self, version: int) -> Changes:
        """What its change log has after `version`."""
        from skyband.tables.changelog import since

        return since(self, version)

    def put(self, rows: Mapping[str, Sequence[object]]) -> None:
        """Insert rows, or replace those with the same key, in one transaction. A convenience for scripts."""
        sqlalchemy = _alchemy()
        found = pa.table(dict(rows)).to_pylist()
        try:
            with self.engine.begin() as connection:
                keys = [row[self.key] for row in found]
                connection.execute(sqlalchemy.delete(self.table).where(self.table.c[self.key].in_(keys)))
                connection.execute(sqlalchemy.insert(self.table), found)
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise _error(error) from error


class RankedSql:
    """A table in the order of a score."""

    def __init__(self, table: SqlTable, by: Expression, columns: tuple[str, ...], *, ascending: bool) -> None:
        from skyband.tables.expression import sql

        self.key, self._table, self._columns = table.key, table, columns
        score = sql(by, table.table.c, table.dialect)
        self._score = -score if ascending else score

    def count(self) -> int:
        """How many rows the table has."""
        sqlalchemy = _alchemy()
        with self._table.connected() as connection:
            return int(
                connection.execute(
                    sqlalchemy.select(sqlalchemy.func.count()).select_from(self._table.table)
                ).scalar_one()
            )

    def top(self, n: int, below: tuple[float, object] | None = None) -> pa.Table:
        """The n best rows after (score, key); with keys that are no whole numbers, runs of equal scores come whole."""
        with self._table.connected(self._table.timeout) as connection:
            found = connection.execute(self.question(n, below)).all()
        rows = self._table.arrow([self.key, *self._columns], [(row[0], *row[2:]) for row in found])
        return rows.add_column(1, SCORE, pa.array([row[1] for row in found], pa.float64()))

    def question(self, n: int, below: tuple[float, object] | None = None) -> sa.Select[Any]:
        """The SELECT that `top` asks."""
        sqlalchemy = _alchemy()
        table = self._table.table
        scored = sqlalchemy.select(
            table.c[self.key], self._score.label("skyband_score"), *(table.c[name] for name in self._columns)
        ).subquery("scored")
        score, key = scored.c.skyband_score, scored.c[self.key]
        fine = [score.is_not(None)]
        if self._table.dialect != "sqlite":
            fine.append(score != sqlalchemy.cast(sqlalchemy.literal("NaN"), sqlalchemy.Double))
        if below is not None:
            edge = sqlalchemy.literal(float(below[0]), sqlalchemy.Double)
            if below[1] is None:
                fine.append(score < edge)
            else:  # the first says nothing new, but is a range that an index can give
                fine += [score <= edge, sqlalchemy.or_(score < edge, key < below[1])]
        best = sqlalchemy.select(*scored.c).where(*fine)
        if self._table.whole:
            return best.order_by(score.desc(), key.desc()).limit(n)
        nth = sqlalchemy.select(score).where(*fine).order_by(score.desc()).limit(n).subquery("nth")
        lowest = sqlalchemy.select(sqlalchemy.func.min(nth.c.skyband_score)).scalar_subquery()
        return best.where(score >= lowest).order_by(score.desc())
