"""Tables in PostgreSQL, SQLite and DuckDB, through SQLAlchemy; `opening` finds or makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from skyband.errors import SchemaError, TableError, nearest
from skyband.tables._need import shown
from skyband.tables._types import alchemy, arrow_type
from skyband.tables.protocol import SCORE, Changes
from skyband.tables.sqlfetch import ids_parameter

if TYPE_CHECKING:
    import sqlalchemy as sa

    from skyband.query.expression import Expression

_MANY = 5_000  # ids in one question


def told(error: Exception) -> TableError:
    """What the database said, as an error of ours."""
    if isinstance(error, alchemy().exc.TimeoutError):
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
        return isinstance(self.table.c[self.key].type, alchemy().Integer)

    @contextmanager
    def connected(self, timeout: float | None = None) -> Iterator[sa.Connection]:
        """A connection; what goes wrong on it is a TableError."""
        sqlalchemy = alchemy()
        try:
            with self.engine.connect() as connection:
                if timeout is not None and self.dialect == "postgresql":
                    limit = sqlalchemy.func.set_config("statement_timeout", str(int(timeout * 1000)), True)
                    connection.execute(sqlalchemy.select(limit))
                yield connection
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise told(error) from error

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The key and `columns` of the rows with these ids."""
        sqlalchemy = alchemy()
        names = list(dict.fromkeys([self.key, *columns]))
        wanted = [self._column(name) for name in names]
        found: list[Any] = []
        with self.connected(timeout) as connection:
            for low in range(0, len(ids), _MANY):
                some: Any = list(ids[low : low + _MANY])
                if isinstance(wanted[0].type, (sqlalchemy.Integer, sqlalchemy.String)):
                    some = ids_parameter(sqlalchemy, some, self.dialect)
                found += connection.execute(sqlalchemy.select(*wanted).where(wanted[0].in_(some))).all()
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
                {
                    name: pa.array(column, arrow_type(self.table.c[name].type if name in self.table.c else None))
                    for name, column in zip(names, columns, strict=True)
                }
            )
        except (pa.ArrowException, OverflowError) as error:
            msg = f"the table holds values that cannot be read: {str(error).splitlines()[0][:200]}"
            raise TableError(msg) from error

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
        sqlalchemy = alchemy()
        found = pa.table(dict(rows)).to_pylist()
        try:
            with self.engine.begin() as connection:
                keys = [row[self.key] for row in found]
                connection.execute(sqlalchemy.delete(self.table).where(self.table.c[self.key].in_(keys)))
                connection.execute(sqlalchemy.insert(self.table), found)
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise told(error) from error


class RankedSql:
    """A table in the order of a score."""

    def __init__(self, table: SqlTable, by: Expression, columns: tuple[str, ...], *, ascending: bool) -> None:
        from skyband.tables.expression import sql

        self.key, self._table, self._columns = table.key, table, columns
        self._score, self._ascending = sql(by, table.table.c, table.dialect), ascending

    def count(self) -> int:
        """How many rows the table has."""
        sqlalchemy = alchemy()
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
        sqlalchemy = alchemy()
        steps, rows = self._steps()
        score = -self._score.sql if self._ascending else self._score.sql
        wanted = [self._column(name) for name in (self.key, *self._columns)]
        scored = (
            sqlalchemy.select(wanted[0], score.label("skyband_score"), *wanted[1:]).select_from(rows).subquery("scored")
        )
        score, key = scored.c.skyband_score, scored.c[self.key]
        fine = [score.is_not(None)]
        if below is not None:
            edge = sqlalchemy.literal(float(below[0]), sqlalchemy.Double)
            if below[1] is None:
                fine.append(score < edge)
            else:  # the first says nothing new, but is a range that an index can give
                fine += [score <= edge, sqlalchemy.or_(score < edge, key < below[1])]
        best = sqlalchemy.select(*scored.c).where(*fine).add_cte(*steps)
        if self._table.whole:
            return best.order_by(score.desc(), key.desc()).limit(n)
        nth = sqlalchemy.select(score).where(*fine).order_by(score.desc()).limit(n).subquery("nth")
        lowest = sqlalchemy.select(sqlalchemy.func.min(nth.c.skyband_score)).scalar_subquery()
        return best.where(score >= lowest).order_by(score.desc())

    def _steps(self) -> tuple[list[Any], Any]:
        """SELECTs that compute parts of the score one after the other, and what the last of them gives."""
        sqlalchemy = alchemy()
        rows: Any = self._table.table
        names = dict.fromkeys([self.key, *self._columns, *sorted(self._score.columns)])
        columns = [self._column(name) for name in names]
        found: list[Any] = []
        for number, step in enumerate(self._score.steps):
            new = [part.label(name) for name, part in step.items()]
            # an OFFSET keeps the database from writing the parts into each other again, where they would multiply
            some = sqlalchemy.select(*columns, *new).select_from(rows).offset(sqlalchemy.literal_column("0"))
            some = some.limit(sqlalchemy.literal_column("-1")) if self._table.dialect == "sqlite" else some
            found.append(some.cte(f"skyband_step_{number}"))
            columns += [sqlalchemy.column(name, part.type) for name, part in step.items()]
            rows = sqlalchemy.table(f"skyband_step_{number}")
        return found, rows

    def _column(self, name: str) -> Any:
        """A column by its name alone: each SELECT reads from one table or step."""
        sqlalchemy = alchemy()
        return sqlalchemy.column(sqlalchemy.sql.quoted_name(name, quote=True), self._table.table.c[name].type)
