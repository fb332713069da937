"""Tables in PostgreSQL, SQLite and DuckDB, through SQLAlchemy; `opening` finds or makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from skyband.errors import SchemaError, TableError, nearest
from skyband.tables._need import shown
from skyband.tables._types import alchemy, arrow_type
from skyband.tables.protocol import SCORE, Changes, NotPushedDownError
from skyband.tables.sqlfetch import ids_parameter

if TYPE_CHECKING:
    import sqlalchemy as sa

    from skyband.query.expression import Expression

_MANY = 5_000  # ids in one question
_BATCH = 20_000  # rows that are scored at once


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
        wanted = [self.column(name) for name in names]
        found: list[Any] = []
        with self.connected(timeout) as connection:
            for low in range(0, len(ids), _MANY):
                some: Any = list(ids[low : low + _MANY])
                if isinstance(wanted[0].type, (sqlalchemy.Integer, sqlalchemy.String)):
                    some = ids_parameter(sqlalchemy, some, self.dialect)
                found += connection.execute(sqlalchemy.select(*wanted).where(wanted[0].in_(some))).all()
        return self.arrow(names, found)

    def column(self, name: str) -> Any:
        """A column by its name."""
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
            self.column(name)
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
        from skyband.tables.expression import UnsuitableError, sql

        self.key, self._table, self._columns = table.key, table, columns
        self._operands = by.columns or (table.key,)  # a batch of no columns would have no rows
        try:
            score = sql(by, table.table.c, table.dialect)
            self._score = -score if ascending else score
        except UnsuitableError as error:
            self._score, self._why = None, str(error)
            for name in by.columns:
                table.column(name)

    @property
    def whole_keys(self) -> bool:
        """Whether keys are whole numbers."""
        return self._table.whole

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
        """The n best rows after (score, key); with keys that are no whole numbers, runs of equal scores come whole.

        Raises `NotPushedDownError` where the database cannot compute the score of every row.
        """
        if self._score is None:
            raise NotPushedDownError(self._why, self)
        with self._table.connected(self._table.timeout) as connection:
            try:
                found = connection.execute(self.question(n, below)).all()
            except alchemy().exc.DataError as error:  # of any row: PostgreSQL does not compute what is out of range
                raise NotPushedDownError(str(told(error)), self) from error
        rows = self._table.arrow([self.key, *self._columns], [(row[0], *row[2:]) for row in found])
        return rows.add_column(1, SCORE, pa.array([row[1] for row in found], pa.float64()))

    def question(self, n: int, below: tuple[float, object] | None = None) -> sa.Select[Any]:
        """The SELECT that `top` asks."""
        sqlalchemy = alchemy()
        table = self._table.table
        scored = sqlalchemy.select(
            table.c[self.key], self._score.label("skyband_score"), *(table.c[name] for name in self._columns)
        ).subquery("scored")
        score, key = scored.c.skyband_score, scored.c[self.key]
        fine = [score.is_not(None)]
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

    def read(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield all rows in batches, at least one: what `top` shows of them but the score, and what it is made of."""
        sqlalchemy = alchemy()
        table, shown = self._table, [self.key, *self._columns]
        operands = [table.column(name) for name in self._operands]
        doubles = [
            sqlalchemy.cast(column, sqlalchemy.Double) if isinstance(column.type, sqlalchemy.Float) else column
            for column in operands
        ]  # a float of 32 bits is read with fewer digits than it has
        wanted = [*(table.column(name) for name in shown), *doubles]
        labelled = [column.label(f"skyband_{number}") for number, column in enumerate(wanted)]
        with table.connected(table.timeout) as connection:
            found = connection.execution_options(yield_per=_BATCH).execute(sqlalchemy.select(*labelled))
            some: Sequence[Any] = ()
            for some in found.partitions():
                yield self._batch(shown, some)
            if not some:
                yield self._batch(shown, ())

    def _batch(self, shown: list[str], rows: Sequence[Any]) -> tuple[pa.Table, pa.Table]:
        cut = len(shown)
        parts = [row[:cut] for row in rows], [row[cut:] for row in rows]
        return self._table.arrow(shown, parts[0]), self._table.arrow(self._operands, parts[1])
