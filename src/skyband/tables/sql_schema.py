"""Databases through SQLAlchemy: engines with time limits, column types, reflection and creation of tables."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.errors import MissingLibraryError, TableError
from skyband.redaction import redact_urls

if TYPE_CHECKING:
    import sqlalchemy as sa

CONNECT_SECONDS = 10
"""Time limit of opening a connection."""

SILENT_SECONDS = 30
"""Time after which a connection whose other end sends nothing, not even keep-alives, counts as lost."""

_IN_MEMORY = re.compile(r"(sqlite|duckdb)(\+\w+)?://(/(:memory:)?)?(\?.*)?")
_CATALOGUE = ("table_schema", "table_name", "column_name", "data_type", "ordinal_position")


def sqlalchemy() -> Any:
    """Return SQLAlchemy, or raise an error that names the extra to install."""
    try:
        import sqlalchemy as module
    except ImportError as error:
        raise MissingLibraryError.of("a table in a database", "sqlalchemy") from error
    return module


# ---------------------------------------------------------------- engines


def connect_args(url: Any) -> dict[str, Any]:
    """Return the `connect_args` of `sqlalchemy.create_engine` that bound how long a server may keep us waiting.

    libpq and the MySQL drivers have no limit by default, neither for a server that accepts a connection and never
    answers, nor for one that has disappeared. A limit in the URL has precedence.

    Examples
    --------
    >>> connect_args("postgresql+psycopg://db.example/shop")["connect_timeout"]
    10
    >>> "connect_timeout" in connect_args("postgresql://db.example/shop?connect_timeout=60")
    False
    """
    kind, _, rest = str(url).partition(":")
    dialect, _, driver = kind.partition("+")
    given = {part.partition("=")[0] for part in rest.partition("?")[2].split("&")}
    limits: dict[str, Any] = {}
    if dialect == "postgresql" and driver in ("", "psycopg", "psycopg2"):
        limits = {
            "connect_timeout": CONNECT_SECONDS,
            "keepalives_idle": SILENT_SECONDS // 3,
            "keepalives_interval": SILENT_SECONDS // 6,
            "keepalives_count": 4,
            "tcp_user_timeout": SILENT_SECONDS * 1000,
        }
    elif dialect in ("mysql", "mariadb") and driver in ("", "pymysql", "mysqldb"):
        limits = {"connect_timeout": CONNECT_SECONDS}
    return {name: value for name, value in limits.items() if name not in given}


def create_engine(url: str) -> sa.Engine:
    """Create the engine of a database, or raise `TableError` for an address that SQLAlchemy cannot use."""
    alchemy = sqlalchemy()
    try:
        if is_in_memory(url):
            # one connection for all threads, since another would be another database; a thread has it exclusively
            pool = {"poolclass": alchemy.pool.QueuePool, "pool_size": 1, "max_overflow": 0}
            shared = {"check_same_thread": False} if url.startswith("sqlite") else {}
            return alchemy.create_engine(url, **pool, pool_timeout=CONNECT_SECONDS, connect_args=shared)
        return alchemy.create_engine(url, connect_args=connect_args(url))
    except alchemy.exc.ArgumentError as error:
        reason = redact_urls(str(error).splitlines()[0])
        raise TableError(
            f"the address of a database must be one of SQLAlchemy's, such as sqlite:///shop.db ({reason})"
        ) from error
    except ImportError as error:
        raise TableError(str(MissingLibraryError.of(redact_urls(url), error.name))) from error


def is_in_memory(url: str) -> bool:
    """Whether a database lives in the memory of the process that opens it.

    Examples
    --------
    >>> is_in_memory("sqlite://"), is_in_memory("duckdb:///:memory:"), is_in_memory("sqlite:///shop.db")
    (True, True, False)
    """
    return _IN_MEMORY.fullmatch(url) is not None


# ---------------------------------------------------------------- column types


def to_sql_type(arrow_type: pa.DataType) -> Any:
    """Return the SQLAlchemy type for an Arrow type."""
    alchemy, types = sqlalchemy(), pa.types
    if types.is_decimal(arrow_type):
        return alchemy.Numeric(arrow_type.precision, arrow_type.scale)
    if types.is_timestamp(arrow_type):
        return alchemy.DateTime(timezone=arrow_type.tz is not None)
    for matches, sql_type in (
        (types.is_boolean, alchemy.Boolean),
        (types.is_integer, alchemy.BigInteger),
        (types.is_floating, alchemy.Double),
        (types.is_date, alchemy.Date),
        (types.is_binary, alchemy.LargeBinary),
        (types.is_large_binary, alchemy.LargeBinary),
        (types.is_nested, alchemy.types.NullType),
    ):
        if matches(arrow_type):
            return sql_type()
    return alchemy.String()


def to_arrow_type(sql_type: Any) -> pa.DataType | None:
    """Return the Arrow type for a SQLAlchemy type; None where it follows from the values."""
    alchemy = sqlalchemy()
    for known, arrow_type in (
        (alchemy.Boolean, pa.bool_()),
        (alchemy.Integer, pa.int64()),
        (alchemy.Float, pa.float64()),
        (alchemy.String | alchemy.Uuid, pa.string()),
        (alchemy.LargeBinary, pa.binary()),
        (alchemy.Date, pa.date32()),
    ):
        if isinstance(sql_type, known):
            return arrow_type
    if isinstance(sql_type, alchemy.DateTime):
        return pa.timestamp("us", "UTC" if sql_type.timezone else None)
    if isinstance(sql_type, alchemy.Numeric) and sql_type.precision is not None and sql_type.precision <= 38:
        return pa.decimal128(sql_type.precision, sql_type.scale or 0)
    return None


def _from_duckdb_type(name: str) -> Any:
    alchemy = sqlalchemy()
    word = name.split("(", maxsplit=1)[0]
    if word.endswith("INT") or word in ("INTEGER", "UINTEGER"):
        return alchemy.BigInteger()
    if word.startswith("TIMESTAMP"):
        return alchemy.DateTime(timezone=word == "TIMESTAMP WITH TIME ZONE")
    if word == "DECIMAL":
        return alchemy.Numeric(*map(int, re.findall(r"\d+", name)))
    known = {
        "DOUBLE": alchemy.Double(),
        "FLOAT": alchemy.Double(),
        "BOOLEAN": alchemy.Boolean(),
        "DATE": alchemy.Date(),
        "VARCHAR": alchemy.String(),
        "ENUM": alchemy.String(),
        "BLOB": alchemy.LargeBinary(),
        "UUID": alchemy.Uuid(as_uuid=False),
    }
    return known.get(word, alchemy.types.NullType())


# ---------------------------------------------------------------- tables


def reflect_table(engine: sa.Engine, name: str, schema: str | None) -> sa.Table:
    """Read the columns of a table from the database; raise SQLAlchemy's NoSuchTableError if there is none."""
    alchemy = sqlalchemy()
    if engine.dialect.name != "duckdb":
        with warnings.catch_warnings():  # about indexes, which are not used
            warnings.filterwarnings("ignore", "Skipped unsupported reflection", alchemy.exc.SAWarning)
            table = alchemy.Table(name, alchemy.MetaData(), schema=schema, autoload_with=engine)
        for column in table.c:
            if isinstance(column.type, alchemy.Uuid):  # as strings, as Arrow and streams have them
                column.type = alchemy.Uuid(as_uuid=False)
        return table
    # DuckDB's catalogue lacks what SQLAlchemy reads from PostgreSQL's
    catalogue = alchemy.table("columns", *map(alchemy.column, _CATALOGUE), schema="information_schema")
    here = catalogue.c.table_schema == (schema or alchemy.func.current_schema())
    query = alchemy.select(catalogue.c.column_name, catalogue.c.data_type).where(catalogue.c.table_name == name, here)
    with engine.connect() as connection:
        found = connection.execute(query.order_by(catalogue.c.ordinal_position)).all()
    if not found:
        raise alchemy.exc.NoSuchTableError(name)
    columns = [alchemy.Column(column, _from_duckdb_type(kind)) for column, kind in found]
    return alchemy.Table(name, alchemy.MetaData(), *columns, schema=schema)


def table_names(engine: sa.Engine, schema: str | None) -> list[str]:
    """List the tables of a database."""
    alchemy = sqlalchemy()
    if engine.dialect.name != "duckdb":
        return list(alchemy.inspect(engine).get_table_names(schema=schema))
    catalogue = alchemy.table("tables", alchemy.column("table_name"), schema="information_schema")
    with engine.connect() as connection:
        return list(connection.execute(alchemy.select(catalogue.c.table_name)).scalars())


def create_table(engine: sa.Engine, name: str, key: str, rows: pa.Table, schema: str | None) -> None:
    """Create a table in the database and insert `rows`."""
    alchemy = sqlalchemy()
    columns = [alchemy.Column(f.name, to_sql_type(f.type), primary_key=f.name == key) for f in rows.schema]
    for column in columns:
        column.autoincrement = False
    table = alchemy.Table(name, alchemy.MetaData(), *columns, schema=schema)
    with engine.begin() as connection:
        table.create(connection)
        for batch in rows.to_batches(10_000):
            connection.execute(alchemy.insert(table), batch.to_pylist())
