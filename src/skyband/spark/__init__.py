"""THE SAME STAGES on Structured Streaming: prune before the shuffle, one stateful operator, answers out.

`top_k(query)` is a function from DataFrame to DataFrame, for `df.transform(...)`, and so is `view(table, k, by)` for
the changes of a table; `controlled(rows, control)` lets queries come and go; `register(spark)` brings sources of our
own, `latest(query, url)` a sink.
"""

from __future__ import annotations

from skyband.spark.control import controlled
from skyband.spark.pipeline import top_k
from skyband.spark.sink import latest
from skyband.spark.source import register
from skyband.spark.view import view

__all__ = ["controlled", "latest", "register", "top_k", "view"]
