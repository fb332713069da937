"""skyband keeps the k best rows of a stream up to date, per sliding window and per group.

>>> import skyband as sb
>>> query = sb.TopK(k=2, by="price * volume", window=sb.Counting(3))
>>> answers = sb.run(query, {"price": [2.0, 5.0, 3.0], "volume": [10, 1, 4]})
>>> answers.select(["window_end", "rank", "score"]).to_pylist()[-2:]
[{'window_end': 3, 'rank': 1, 'score': 20.0}, {'window_end': 3, 'rank': 2, 'score': 12.0}]
"""

from typing import TYPE_CHECKING

from skyband.api import compare, explain, run, stream
from skyband.api.warm import warm
from skyband.engines import ENGINES
from skyband.errors import (
    ParseError,
    QueryError,
    SchemaError,
    SinkError,
    SkybandError,
    SnapshotError,
    SourceError,
    TableError,
)
from skyband.evaluate import evaluate
from skyband.lang import parse, to_rspql, to_sql, to_yaml
from skyband.query import (
    AllTime,
    Budget,
    Calls,
    Counting,
    Join,
    Refresh,
    Sliding,
    TopK,
    Tumbling,
    distance,
    weighted,
)
from skyband.workload.workload import Workload

__all__ = [
    "ENGINES",
    "AllTime",
    "Budget",
    "Calls",
    "Counting",
    "Join",
    "ParseError",
    "QueryError",
    "Refresh",
    "SchemaError",
    "SinkError",
    "SkybandError",
    "Sliding",
    "SnapshotError",
    "SourceError",
    "TableError",
    "TopK",
    "Tumbling",
    "View",
    "Workload",
    "compare",
    "distance",
    "evaluate",
    "explain",
    "parse",
    "run",
    "stream",
    "to_rspql",
    "to_sql",
    "to_yaml",
    "warm",
    "weighted",
]
__version__ = "0.1.0"

if TYPE_CHECKING:
    from skyband import spark as spark
    from skyband import tables as tables
    from skyband.view.view import View
else:

    def __getattr__(name: str) -> object:
        """`sb.spark`, `sb.tables` and `sb.View`, which load what they need only when they are used."""
        if name in ("spark", "tables"):
            from importlib import import_module

            return import_module(f"skyband.{name}")
        if name == "View":
            from skyband.view.view import View

            return View
        raise AttributeError(f"module 'skyband' has no attribute {name!r}")
