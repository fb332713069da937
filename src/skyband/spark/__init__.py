"""THE SAME STAGES on Structured Streaming: prune before the shuffle, one stateful operator, answers out.

`top_k(query)` is a function from DataFrame to DataFrame, for `df.transform(...)`.
"""

from __future__ import annotations

from skyband.spark.pipeline import top_k

__all__ = ["top_k"]
