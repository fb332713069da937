"""Deprecated names of `sb.tables.SqlTable`."""

from __future__ import annotations

import warnings
from typing import Any

from skyband.tables.sql import SqlTable


class SqlFetch(SqlTable):
    """Deprecated: use `sb.tables.SqlTable`."""

    def __init__(self, url: Any, table: str, key: str, *, schema: str | None = None) -> None:
        warnings.warn("SqlFetch is now sb.tables.SqlTable", DeprecationWarning, stacklevel=2)
        super().__init__(url, table, key, schema=schema)


class Distant(SqlTable):
    """Deprecated: use `sb.tables.SqlTable`."""

    def __init__(self, url: str, name: str, key: str, schema: str | None = None, timeout: float | None = None) -> None:
        warnings.warn("sb.tables.Distant is now sb.tables.SqlTable", DeprecationWarning, stacklevel=2)
        super().__init__(url, name, key, schema=schema, timeout=timeout)
