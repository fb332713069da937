"""skyband warm: compile the kernels ahead."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.query import TopK

HELP = """Compile the kernels of ordinary queries now, so that no long stream has to wait for it.

Kernels run as plain Python until a run has seen 50,000 rows, then compiled. The first compilation after an installation
takes about 20 seconds; run this command where nobody waits, such as when an image is built. Later processes reuse the
compiled code: `skyband doctor` says where it is stored.

Examples:

  skyband warm
"""

_BATCHES, _ROWS = 12, 4_000  # enough for windows to close, for rows to be late, and for lists to be merged


def warm() -> None:
    """Compile, and print how long it took."""
    from skyband.api.warm import warm as compile_in_process

    start = time.perf_counter()
    compile_in_process()
    if find_spec("pyspark") is not None:
        from skyband.cli._trades import pipeline

        compile_for_spark(pipeline("demo").queries[0])
    print(f"kernels are compiled ({time.perf_counter() - start:.0f} s)")


def compile_for_spark(query: TopK) -> None:
    """Compile what Spark's workers run (combine, restore, advance and store between two batches), without a JVM."""
    import pyarrow as pa

    from skyband.kernels._jit import tier
    from skyband.operators.plan import plan
    from skyband.runtime.snapshot import dump, read, unwrite, write
    from skyband.spark.bucket import Bucket
    from skyband.spark.pack import packer
    from skyband.windows import MIN_TIME

    tier.compile()
    spec = plan(query)
    state, watermark = b"", MIN_TIME
    for batch in _trades(query):
        bucket = Bucket(spec, batch.schema)
        if state:
            bucket.restore(read(state)[1])
        packed: dict[str, list[Any]] = {"input": [], "counts": [], "blob": []}
        for part in (batch.slice(0, _ROWS // 2), batch.slice(_ROWS // 2)):
            for found in packer([spec], [[0]])(iter(unwrite(write(part)).to_batches())):
                for name, column in packed.items():
                    column.extend(found.to_pydict()[name])
        bucket.advance(packed, watermark)
        state = dump(bucket.snapshot(), {})
        watermark = int(batch["ts"].cast(pa.int64()).to_numpy().max()) - 1_000_000


def _trades(query: TopK) -> Iterator[pa.Table]:
    """Yield batches of half a slide each."""
    import pyarrow as pa

    from skyband.cli._trades import generate_trades
    from skyband.windows import WindowAssigner

    tick = WindowAssigner.of(query.window).slide // 2
    for batch in itertools.islice(generate_trades(_ROWS, tick, seed=1), _BATCHES):
        yield batch.set_column(0, "ts", batch["ts"].cast(pa.timestamp("us", "UTC"))).set_column(
            1, "symbol", batch["symbol"].cast(pa.string())
        )


class CompileThread(threading.Thread):
    """Compiles for a query on Spark while the JVM starts, so that workers find the kernels compiled."""

    def __init__(self, query: TopK) -> None:
        super().__init__(name="kernels", daemon=True)
        self.query = query

    def is_slow(self) -> bool:
        """Whether it takes longer than loading compiled code."""
        self.join(2.0)
        return self.is_alive()

    def run(self) -> None:
        """Compile; the stream itself reports errors."""
        with contextlib.suppress(Exception):
            compile_for_spark(self.query)
