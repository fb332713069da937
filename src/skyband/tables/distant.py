"""A table that is opened when it is first asked: what travels to another process is its address alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from skyband.errors import TableError
from skyband.tables.opening import open_table

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.query.expression import Expression
    from skyband.tables.protocol import Changes, Ranked
    from skyband.tables.sql import SqlTable


@dataclass(frozen=True)
class Distant:
    """Where a table is. In each process it is opened once, at the first question.

    Examples
    --------
    >>> table = Distant("sqlite:///no/such/folder.db", "stock", "id")
    >>> table.position()
    Traceback (most recent call last):
        ...
    skyband.errors.TableError: the database said: ...
    """

    url: str = field(repr=False)  # it may hold a password
    name: str
    key: str
    schema: str | None = None
    timeout: float | None = None  # seconds that a question may take

    @classmethod
    def of(cls, table: SqlTable, timeout: float | None = None) -> Distant:
        """The address of a table that is open here."""
        url = table.engine.url
        name = getattr(table.table, "name", None)
        memory = url.database in (None, "", ":memory:") and table.dialect != "postgresql"
        if memory or not isinstance(name, str) or not hasattr(table.table, "schema"):
            msg = "a table in the memory of this process cannot be asked from another: put it into a file or a server"
            raise TableError(msg)
        return cls(url.render_as_string(hide_password=False), name, table.key, table.table.schema, timeout)

    def opened(self) -> SqlTable:
        """The table."""
        return _opened(self)

    def ranked(self, by: Expression, columns: Sequence[str], *, ascending: bool = False) -> Ranked:
        """The table in the order of a score."""
        return _Ranked(self, by, tuple(columns), ascending)

    def position(self) -> int:
        """The version its change log has come to."""
        return self.opened().position()

    def since(self, version: int) -> Changes:
        """What its change log has after `version`."""
        return self.opened().since(version)


@dataclass(frozen=True)
class _Ranked:
    table: Distant
    by: Expression
    columns: tuple[str, ...]
    ascending: bool

    @property
    def key(self) -> str:
        return self.table.key

    def _there(self) -> Ranked:
        return self.table.opened().ranked(self.by, self.columns, ascending=self.ascending)

    def top(self, n: int, below: tuple[float, object] | None = None) -> pa.Table:
        return self._there().top(n, below)

    def count(self) -> int:
        return self._there().count()


@lru_cache(maxsize=16)
def _opened(where: Distant) -> SqlTable:
    table = open_table(where.url, where.name, key=where.key, schema=where.schema)
    table.timeout = where.timeout
    return table
