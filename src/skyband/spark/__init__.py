"""Operators on Structured Streaming: rows are combined before the shuffle, and one stateful step serves all operators.

`top_k(query)` returns a function from DataFrame to DataFrame, for `df.transform(...)`, and so does `view(table, k, by)`
for the changes of a table. `with_commands(rows, commands)` lets queries be added and removed, `register(spark)` adds
sources, and `upsert_sink(query, url)` is a sink.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skyband.errors import MissingLibraryError

if TYPE_CHECKING:
    from skyband.spark.commands import controlled, with_commands
    from skyband.spark.sink import latest, upsert_sink
    from skyband.spark.source import register
    from skyband.spark.table_view import view
    from skyband.spark.transform import top_k

__all__ = ["controlled", "latest", "register", "top_k", "upsert_sink", "view", "with_commands"]
_MODULES = {
    "controlled": "commands",
    "latest": "sink",
    "register": "source",
    "top_k": "transform",
    "upsert_sink": "sink",
    "view": "table_view",
    "with_commands": "commands",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: Spark's own processes import this package and need little of it."""
    if name not in _MODULES:
        raise AttributeError(f"module 'skyband.spark' has no attribute {name!r}")
    for library in ("pyspark", "pandas"):  # which some of it loads only when a stream runs
        try:
            import_module(library)
        except ModuleNotFoundError as error:
            raise MissingLibraryError.of(f"sb.spark.{name}", library) from error
    found = globals()[name] = getattr(import_module(f"skyband.spark.{_MODULES[name]}"), name)
    return found
