"""Tables that are read by key, for their best rows, and for their changes.

Every class loads with its first use; an optional library is needed only when a table is read, and an error names the
extra to install.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING

_MODULES = {
    "ArrayTable": "memory",
    "BaseTable": "protocol",
    "Changes": "protocol",
    "Distant": "sql",
    "History": "memory",
    "Http": "http",
    "Memory": "memory",
    "RankedTable": "protocol",
    "Redis": "redis",
    "Sparql": "sparql",
    "SqlFetch": "sql",
    "SqlTable": "sql",
    "Table": "protocol",
    "follow": "changelog",
    "forget": "changelog",
    "log_changes": "changelog",
    "open_table": "sql",
}
_RENAMED = {
    "Base": "BaseTable",
    "Columns": "ArrayTable",
    "Ranked": "RankedTable",
}

__all__ = [  # noqa: RUF022 - by kind
    "ArrayTable",
    "History",
    "Http",
    "Memory",
    "Redis",
    "Sparql",
    "SqlTable",
    "open_table",
    "follow",
    "forget",
    "log_changes",
    "BaseTable",
    "Changes",
    "RankedTable",
    "Table",
]

if TYPE_CHECKING:
    from skyband.tables.changelog import follow, forget, log_changes
    from skyband.tables.http import Http
    from skyband.tables.memory import ArrayTable, History, Memory
    from skyband.tables.protocol import BaseTable, Changes, RankedTable, Table
    from skyband.tables.redis import Redis
    from skyband.tables.sparql import Sparql
    from skyband.tables.sql import SqlTable, open_table
else:

    def __getattr__(name: str) -> object:
        if name in _RENAMED:
            new = _RENAMED[name]
            warnings.warn(f"sb.tables.{name} is now sb.tables.{new}", DeprecationWarning, stacklevel=2)
            name = new
        if name in _MODULES:
            return getattr(import_module(f"skyband.tables.{_MODULES[name]}"), name)
        raise AttributeError(f"module 'skyband.tables' has no attribute {name!r}")
