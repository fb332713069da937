"""THE SAME STAGES on Structured Streaming: prune before the shuffle, one stateful operator, answers out.

`top_k(query)` is a function from DataFrame to DataFrame, for `df.transform(...)`; `controlled(rows, control)`
lets queries come and go; `register(spark)` brings sources of
our own, `latest(query, url)` a sink.
"""

from __future__ import annotations

from skyband.spark.control import controlled
from skyband.spark.pipeline import top_k
from skyband.spark.sink import latest
from skyband.spark.source import register

__all__ = ["controlled", "latest", "register", "top_k"]
