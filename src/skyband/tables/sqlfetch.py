"""Rows by key from a database, through SQLAlchemy."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skyband.errors import TableError
from skyband.tables._filled import filled
from skyband.tables._need import need, shown
from skyband.tables._patience import patience
from skyband.tables.http import table_of

if TYPE_CHECKING:
    import pyarrow as pa


class SqlFetch:
    """A table or view of a database: SELECT ... WHERE key IN (...), the keys bound, never written into the text.

    Parameters
    ----------
    url
        What SQLAlchemy takes: "sqlite:///users.db", "postgresql+psycopg://me:${PASSWORD}@host/db" (`${NAME}` is
        filled from the environment where the call is made), or an engine, which cannot travel to Spark's executors.
    table
        Its name.
    key
        The key column.
    schema
        Where the table is, if not in the default schema.

    Examples
    --------
    >>> from sqlalchemy import create_engine, text
    >>> engine = create_engine("sqlite://")
    >>> with engine.begin() as connection:
    ...     _ = connection.execute(text("CREATE TABLE users (id INTEGER, followers INTEGER)"))
    ...     _ = connection.execute(text("INSERT INTO users VALUES (1, 10), (2, 20)"))
    >>> SqlFetch(engine, "users", key="id").fetch([2, 3], ["followers"]).to_pylist()
    [{'id': 2, 'followers': 20}]
    """

    def __init__(self, url: Any, table: str, key: str, *, schema: str | None = None) -> None:
        self.key = key
        self._url, self._name, self._schema = url, table, schema
        self._engine: Any = None

    @property
    def local(self) -> bool:
        """Whether it must be asked in this thread: of SQLite in memory every thread has its own, which is empty."""
        url: Any = getattr(self._url, "url", None)
        return url is not None and url.drivername.startswith("sqlite") and url.database in (None, "", ":memory:")

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The rows of those ids."""
        sa = need("sqlalchemy")
        names = [self.key, *columns]
        table = sa.table(self._name, *(sa.column(n) for n in names), schema=self._schema)
        try:
            if self._engine is None:
                self._engine = self._opened(sa)
            with self._engine.connect() as connection:
                if timeout is not None and connection.dialect.name == "postgresql":
                    wait = sa.select(sa.func.set_config("statement_timeout", str(max(int(timeout * 1000), 1)), True))
                    connection.execute(wait)
                wanted = table.c[self.key].in_(ids_parameter(sa, ids, connection.dialect.name))
                query = sa.select(*(table.c[n] for n in names)).where(wanted)
                rows = [dict(row) for row in connection.execute(query).mappings()]
        except (sa.exc.SQLAlchemyError, OSError) as error:
            msg = shown(f"table {self._name!r} failed: {str(error).splitlines()[0]}")
            raise TableError(msg) from error
        return table_of(rows, names)

    def _opened(self, sa: Any) -> Any:
        if not isinstance(self._url, str):
            return self._url
        engine = sa.create_engine(filled(self._url), connect_args=patience(self._url))
        weakref.finalize(self, engine.dispose)
        return engine

    def __getstate__(self) -> dict[str, Any]:
        """What travels: where to ask, and no connection."""
        if not isinstance(self._url, str):
            msg = f"table {self._name!r} has an open engine, which cannot travel: give the address as a text"
            raise TableError(msg)
        return {**self.__dict__, "_engine": None}


def ids_parameter(sa: Any, ids: Sequence[object], dialect: str) -> Any:
    """The ids as a parameter, without those that no row can have: a database refuses the whole statement for one.

    SQLAlchemy takes the type of all from the first, so that PostgreSQL would get the others as 32-bit integers.
    """
    wanted, kind = list(ids), None
    if any(isinstance(i, int) and not isinstance(i, bool) for i in ids):
        short = [i for i in ids if not isinstance(i, int) or -(1 << 63) <= i < 1 << 63]
        wanted = short if dialect == "sqlite" else wanted  # its integers have 64 bits
        kind = sa.BigInteger() if len(wanted) == len(short) else sa.Numeric()
    elif dialect == "postgresql":  # its texts hold no NUL
        wanted = [i for i in ids if not (isinstance(i, str) and "\0" in i)]
    return sa.bindparam("ids", wanted, type_=kind, expanding=True)
