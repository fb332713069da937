"""How a table in a database, or a Parquet file, is found or made."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import MissingLibraryError, SchemaError, TableError, nearest, not_utf8
from skyband.tables._need import shown
from skyband.tables._patience import CONNECT, patience
from skyband.tables._types import alchemy, column_type, duckdb_type
from skyband.tables.sql import SqlTable, told

if TYPE_CHECKING:
    import sqlalchemy as sa

_CATALOGUE = ("table_schema", "table_name", "column_name", "data_type", "ordinal_position")


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
    sqlalchemy = alchemy()
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
        raise error if isinstance(error, SchemaError) else told(error) from error


def _engine(url: str) -> sa.Engine:
    sqlalchemy = alchemy()
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
        raise TableError(str(MissingLibraryError.of(f"where={shown(url)!r}", error.name))) from error


def _in_memory(url: sa.URL) -> bool:
    return url.get_backend_name() in ("sqlite", "duckdb") and url.database in (None, "", ":memory:")


def _reflected(engine: sa.Engine, name: str, schema: str | None) -> sa.Table:
    sqlalchemy = alchemy()
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
    columns = [sqlalchemy.Column(column, duckdb_type(kind)) for column, kind in found]
    return sqlalchemy.Table(name, sqlalchemy.MetaData(), *columns, schema=schema)


def _names(engine: sa.Engine, schema: str | None) -> list[str]:
    """The tables there are."""
    sqlalchemy = alchemy()
    if engine.dialect.name != "duckdb":
        return list(sqlalchemy.inspect(engine).get_table_names(schema=schema))
    said = sqlalchemy.table("tables", sqlalchemy.column("table_name"), schema="information_schema")
    with engine.connect() as connection:
        return list(connection.execute(sqlalchemy.select(said.c.table_name)).scalars())


def _parquet(path: Path, key: str) -> SqlTable:
    """A file as a table of DuckDB's."""
    import pyarrow.parquet as pq

    sqlalchemy = alchemy()
    if not path.exists():
        msg = f"where={str(path)!r} does not exist: check the path"
        raise TableError(msg)
    if not_utf8(path):
        msg = f"where={str(path)!r} must have a name in UTF-8, which DuckDB needs: rename the file"
        raise TableError(msg)
    try:
        names = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        msg = f"where={str(path)!r} is no Parquet file ({str(error).splitlines()[0][:100]}): write the path of one"
        raise TableError(msg) from error
    columns = [sqlalchemy.column(f.name, column_type(f.type)) for f in names]
    source = sqlalchemy.func.read_parquet(str(path)).table_valued(*columns, name="rows")
    return SqlTable(_engine("duckdb:///:memory:"), source, key)


def _create(engine: sa.Engine, name: str, key: str, rows: Any, schema: str | None) -> None:
    sqlalchemy = alchemy()
    try:
        found = rows if isinstance(rows, pa.Table) else pa.table(rows)
    except (pa.ArrowException, TypeError, ValueError) as error:
        msg = (
            f"rows= is no table ({str(error).splitlines()[0][:100]}): give columns by name, a DataFrame or Arrow table"
        )
        raise SchemaError(msg) from error
    columns = [sqlalchemy.Column(f.name, column_type(f.type), primary_key=f.name == key) for f in found.schema]
    for column in columns:
        column.autoincrement = False
    table = sqlalchemy.Table(name, sqlalchemy.MetaData(), *columns, schema=schema)
    with engine.begin() as connection:
        table.create(connection)
        for batch in found.to_batches(10_000):
            connection.execute(sqlalchemy.insert(table), batch.to_pylist())
