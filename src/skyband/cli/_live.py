"""The demo's stream on Spark: made-up trades that happen now, as files that keep coming."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.lang import Job

PIPELINE = """\
name: largest trades
source:
  kind: parquet
  path: {folder}/trades
  schema: "ts timestamp, symbol string, price double, volume long, trade_id long"
watermark: {{column: ts, delay: 1 second}}
ahead_of_clock: 1 minute
query:
  k: 10
  by: price * volume
  window: {{size: 20 seconds, slide: 1 second}}
  time: ts
  id: trade_id
checkpoint: {folder}/checkpoint
trigger: {{every: 500 milliseconds}}
"""
"""What `skyband run` would be given."""

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Settings for a stream of two minutes: a JVM that starts fast rather than one that runs fast for days."""

_TICK = 0.5  # seconds of trades in a file


def pipeline(folder: Path) -> Job:
    """The demo as a pipeline file."""
    from skyband.lang import load

    return load(PIPELINE.format(folder=folder))


class Feed(threading.Thread):
    """Writes trades into a folder as they happen, until it is stopped."""

    def __init__(self, folder: Path, rows_per_second: int, seed: int) -> None:
        super().__init__(name="trades", daemon=True)
        self.folder = folder / "trades"
        self.rows_per_second, self.seed = rows_per_second, seed
        self.over = threading.Event()
        self.folder.mkdir()
        self.write(0, next(self._batches()))  # Spark wants to see the folder

    def _batches(self) -> Iterator[pa.Table]:
        """The tape, with its clock set to now."""
        import numpy as np
        import pyarrow as pa

        from skyband.cli._tape import OPENING, tape

        shift = time.time_ns() // 1_000 - OPENING
        for batch in tape(max(1, round(self.rows_per_second * _TICK)), round(_TICK * 1_000_000), self.seed):
            at = batch["ts"].cast(pa.int64()).to_numpy() + np.int64(shift)
            yield batch.set_column(0, "ts", pa.array(at, pa.timestamp("us", "UTC")))

    def write(self, number: int, batch: pa.Table) -> None:
        """One file, there only once it is whole."""
        import pyarrow.parquet as pq

        hidden = self.folder / f".{number:06}.parquet"
        pq.write_table(batch, hidden)
        hidden.rename(self.folder / f"{number:06}.parquet")

    def run(self) -> None:
        """Keep pace with the clock."""
        began = time.monotonic()
        for number, batch in enumerate(self._batches(), 1):
            if self.over.wait(max(0.0, began + number * _TICK - time.monotonic())):
                return
            self.write(number, batch)
