"""Kernels compiled ahead, as Spark's workers need them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.query import TopK

_BATCHES = 12  # enough for windows to close, for rows to come late, and for lists to be merged
_ROWS = 4_000


def on_spark(query: TopK) -> None:
    """The same, as Spark's workers do: packed, kept, written and read between every two batches; without a JVM."""
    import pyarrow as pa

    from skyband.engines.plan import choose
    from skyband.kernels._jit import tier
    from skyband.runtime.snapshot import dump, read, unwrite, write
    from skyband.spark.share import Single
    from skyband.windows.watermark import MIN_TIME

    tier.compile()
    share = Single(query, choose(query, "auto").engine)
    state, watermark = b"", MIN_TIME
    for batch in _trades(query):
        bucket = share.bucket(batch.schema, share.engine, early=False)
        if state:
            bucket.load(read(state)[1])
        packed: dict[str, list[Any]] = {"counts": [], "blob": []}
        for part in (batch.slice(0, _ROWS // 2), batch.slice(_ROWS // 2)):
            packer = share.packer([0])
            packer.add(unwrite(write(part)))
            for found in packer.packed():
                for name, column in packed.items():
                    column.extend(found.to_pydict()[name])
        bucket.take(packed, watermark)
        state = dump(bucket.save(), {})
        watermark = int(batch["ts"].cast(pa.int64()).to_numpy().max()) - 1_000_000


def _trades(query: TopK) -> Iterator[pa.Table]:
    """Some batches, of half a slide each."""
    import itertools

    import pyarrow as pa

    from skyband.cli._tape import tape
    from skyband.windows import WindowAssigner

    for batch in itertools.islice(tape(_ROWS, WindowAssigner.of(query.window).slide // 2, seed=1), _BATCHES):
        yield batch.set_column(0, "ts", batch["ts"].cast(pa.timestamp("us", "UTC"))).set_column(
            1, "symbol", batch["symbol"].cast(pa.string())
        )


class Ahead(threading.Thread):
    """Compiles for a query on Spark while the JVM starts; workers then find everything ready."""

    def __init__(self, query: TopK) -> None:
        super().__init__(name="kernels", daemon=True)
        self.query = query

    def late(self) -> bool:
        """Whether it takes longer than loading what was compiled before."""
        self.join(2.0)
        return self.is_alive()

    def run(self) -> None:
        """Do it; what goes wrong here will be told where it matters."""
        import contextlib

        with contextlib.suppress(Exception):
            on_spark(self.query)


def compile_all() -> None:
    """Compile what the demo and most first queries need, on Spark where it is installed."""
    from importlib.util import find_spec

    from skyband.api.warm import warm

    warm()
    if find_spec("pyspark") is not None:
        from skyband.cli._live import pipeline

        on_spark(pipeline(Path("demo")).queries[0])
