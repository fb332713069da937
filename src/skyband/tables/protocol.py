"""Protocols of tables: rows by key, best rows in the order of a score, and changes since a version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from skyband.errors import TableError

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.query.expression import Expression

SCORE, CHANGE, VERSION = "score", "_change_type", "_version"
"""Columns that tables and change logs add."""


class Table(Protocol):
    """A table that returns rows by key."""

    key: str
    """Name of the key column."""

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """Return the key and `columns` of the rows with these ids, leaving out ids without a row.

        Raises `TableError`; its `retry_after` holds the seconds to wait if the service gave them.
        """


class Changes(NamedTuple):
    """Changed rows of a table in their current state, with `_change_type` and `_version`, in order of versions."""

    rows: pa.Table
    upto: int  # the changes up to and including this version are complete


class BaseTable(Protocol):
    """A table that a view can be built on."""

    @property
    def key(self) -> str:
        """Name of the key column."""

    def ranked(self, by: Expression, columns: Sequence[str], *, ascending: bool = False) -> RankedTable:
        """Return the table in the order of a score."""

    def position(self) -> int:
        """Return the current version: later changes have higher ones. -1 without a change log."""

    def since(self, version: int) -> Changes:
        """Return the changes after `version`. Raises `TableError` where the log does not reach back to it."""


class RankedTable(Protocol):
    """A table in the order of a score."""

    @property
    def key(self) -> str:
        """Name of the key column."""

    def top(self, n: int, below: tuple[float, object] | None = None) -> pa.Table:
        """Return key, score and columns of the `n` best rows ranked after `below` (score, key), best first.

        Of equal scores the larger key is better. Scores are negated if smaller ones are better. Raises `TableError`.
        """

    def count(self) -> int:
        """Return the approximate number of rows."""


class ScannableTable(Protocol):
    """A ranked table whose rows can be read in full."""

    @property
    def whole_keys(self) -> bool:
        """Whether keys are integers, which every database orders alike."""

    def read(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield all rows in batches, at least one: key and columns, and the operands of the score."""


class NotPushedDownError(TableError):
    """Raised where a database cannot compute a score as it is defined. The caller reads `table` and computes it."""

    def __init__(self, message: str, table: ScannableTable) -> None:
        super().__init__(message)
        self.table = table
