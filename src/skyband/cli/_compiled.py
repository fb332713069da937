"""The kernels of ordinary queries, compiled ahead: what a first start would otherwise wait for.

`make env` runs this as a program; Numba keeps what it compiles beside the package, or where NUMBA_CACHE_DIR says.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.query import TopK

_BATCHES = 12  # enough for windows to close, for rows to come late, and for lists to be merged
_ROWS = 4_000


def in_process(queries: Sequence[TopK]) -> None:
    """Let each query answer a few made-up trades, as `sb.stream` does."""
    from skyband.api import stream

    for query in queries:
        for _ in stream(query, _trades(query), late="1 second", ahead="1 hour"):
            pass


def on_spark(query: TopK) -> None:
    """The same, as Spark's workers do: packed, kept, written and read between every two batches; without a JVM."""
    import pyarrow as pa

    from skyband.engines.plan import choose
    from skyband.flow.blob import dump, read, unwrite, write
    from skyband.spark.share import Single
    from skyband.windows.timeline import BEGINNING

    share = Single(query, choose(query, "auto").engine)
    state, watermark = b"", BEGINNING
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

    for batch in itertools.islice(tape(_ROWS, query.window.slide // 2, seed=1), _BATCHES):
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


def beside() -> None:
    """What the examples ask beside: after every row, changes, totals of keys, the nearest of points."""
    import pyarrow as pa

    from skyband.api import run
    from skyband.query import Counting, Sliding, TopK, distance
    from skyband.workload.family import FEW

    minute = Sliding("1 minute", "30 seconds")
    trades = pa.concat_tables(_trades(TopK(k=3, by="price", window=minute, time="ts"))).sort_by(
        "ts"
    )  # as a file has them
    near: Any = [
        TopK(k=3, by=distance(["price", "volume"], to=[x, x]), window=Counting(200), emit="changes", name=f"near {x}")
        for x in range(FEW + 1)  # so many share a grid
    ]
    for queries in (
        TopK(k=3, by="price", window=minute, time="ts", id="trade_id"),
        TopK(k=3, by="price", window=Sliding("1 minute", "row"), time="ts", emit="arrivals"),
        TopK(k=3, by="price", window=minute, time="ts", per="symbol", emit="changes"),
        TopK(k=3, of="symbol", by="sum(volume)", window=minute, time="ts"),
        near,
    ):
        run(queries, trades, progress=False)


def main() -> None:
    """Compile what the demo and most first queries need."""
    from pathlib import Path

    from skyband.api import run
    from skyband.cli._live import pipeline
    from skyband.cli._watch import questions
    from skyband.cli.demo import asked

    on_spark(pipeline(Path("demo")).queries[0])
    own = asked()
    others = questions(own)
    in_process([own, *others.values()])
    run([own, others["largest in a minute"]], next(_trades(own)), progress=False)  # a workload
    beside()


if __name__ == "__main__":
    if not os.environ.get("NUMBA_DISABLE_JIT"):
        main()
