"""THE WORLD OUTSIDE: tables that are asked for rows by id, for their best rows, and for what has changed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from skyband.tables.protocol import Base, Changes, Ranked, Table

__all__ = [
    "Base",
    "Changes",
    "Columns",
    "Distant",
    "Ranked",
    "SqlTable",
    "Table",
    "follow",
    "forget",
    "log_changes",
    "open_table",
]

_LAZY = {
    "Columns": "skyband.tables.columns",
    "Distant": "skyband.tables.distant",
    "SqlTable": "skyband.tables.sql",
    "open_table": "skyband.tables.opening",
    "follow": "skyband.tables.changelog",
    "forget": "skyband.tables.changelog",
    "log_changes": "skyband.tables.changelog",
}


if TYPE_CHECKING:
    from skyband.tables.changelog import follow, forget, log_changes
    from skyband.tables.columns import Columns
    from skyband.tables.distant import Distant
    from skyband.tables.opening import open_table
    from skyband.tables.sql import SqlTable
else:

    def __getattr__(name: str) -> object:
        """What needs an optional library loads when it is used."""
        if name in _LAZY:
            return getattr(import_module(_LAZY[name]), name)
        msg = f"module 'skyband.tables' has no attribute {name!r}"
        raise AttributeError(msg)
