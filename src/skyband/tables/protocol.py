"""What a table can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from skyband.errors import TableError

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.query.expression import Expression
    from skyband.tables.sql import RankedSql

SCORE, CHANGE, VERSION = "score", "_change_type", "_version"
"""Names of the columns that tables and change logs add."""


class NotPushedDownError(TableError):
    """Raised where a database cannot compute a score as it is defined. The caller reads `table` and computes it."""

    def __init__(self, message: str, table: RankedSql) -> None:
        super().__init__(message)
        self.table = table


class Changes(NamedTuple):
    """What has changed in a table: rows as they are now, with `_change_type` and `_version`, by version."""

    rows: pa.Table
    upto: int  # all changes up to this version are in, and those before it


class Table(Protocol):
    """Rows by key."""

    key: str
    """The name of the key column."""

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The rows of those ids: the key and the columns. Ids that have no row are left out.

        Raises `TableError`, whose `retry_after` has the seconds to wait where the service named them.
        """


class Base(Protocol):
    """A table that a view can stand on."""

    @property
    def key(self) -> str:
        """The name of the key column."""

    def ranked(self, by: Expression, columns: Sequence[str], *, ascending: bool = False) -> Ranked:
        """The same table, to be asked for its best rows."""

    def position(self) -> int:
        """The version it has come to: what changes from now on comes after it. -1 where no changes are kept."""

    def since(self, version: int) -> Changes:
        """What has changed after `version`. Raises `TableError` where the table does not know."""


class Ranked(Protocol):
    """A table in the order of a score."""

    @property
    def key(self) -> str:
        """The name of the key column."""

    def top(self, n: int, below: tuple[float, object] | None = None) -> pa.Table:
        """The `n` best rows after (score, key), or the best of all: their key, score and columns, best first.

        Of equal scores the larger key is better. A score is turned where smaller ones are better. Raises TableError.
        """

    def count(self) -> int:
        """How many rows there are, about."""
