"""What a table outside can be asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Table(Protocol):
    """Rows by key."""

    key: str
    """The name of the key column."""

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The rows of those ids: the key and the columns. Ids that have no row are left out.

        Raises `TableError`, whose `retry_after` has the seconds to wait where the service named them.
        """
