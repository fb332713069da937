"""Generated trades for the demo: in bursts, with symbols that trend for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.lang import Job

SYMBOLS = (  # noqa: SIM905 - forty quoted names are no better to read
    "ALDR BRCH CEDR DOGW ELMX FIRS GINK HAZL IVYY JUNI KAPK LRCH MAPL NUTM OAKS PINE QNCE ROWN SPRC TEAK "
    "UPAS VINE WLNT XYLO YEWW ZELK ASPN BEEC CYPR EBNY FERN HOLY LIND MYRT OLIV PLUM SEQA TULP WILO YUCA"
).split()
FIRST_TIME = int(datetime(2024, 1, 2, 9, 30, tzinfo=UTC).timestamp()) * 1_000_000
"""Lower bound of the times, in microseconds."""

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
"""The demo on Spark, as `skyband run` would take it."""

_SECOND = 1_000_000
_TREND_START = 0.05  # probability that a symbol begins to trend within a minute
_TREND_DECAY = 0.35  # part of a trend that is left after a minute
_LOG_VALUE = 8.5  # logarithm of the value of a typical trade
_LATE_SHARE, _AHEAD_SHARE = 2e-3, 5e-6  # rows that come late; rows whose clock is an hour fast
_FILE_SECONDS = 0.5  # of trades in a file


def generate_trades(rows: int, tick: int, seed: int) -> Iterator[pa.Table]:
    """Yield trades without end, about `rows` for every `tick` microseconds of event time.

    The same arguments give the same trades. A few come late, and very few have a time far ahead.

    Examples
    --------
    >>> first = next(generate_trades(100, 1_000_000, seed=1))
    >>> first.schema.names, first.equals(next(generate_trades(100, 1_000_000, seed=1)))
    (['ts', 'symbol', 'price', 'volume', 'trade_id'], True)
    """
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    names = pa.array(SYMBOLS)
    price = rng.lognormal(4.5, 0.6, len(SYMBOLS))
    trend = np.zeros(len(SYMBOLS))
    minutes = tick / (60 * _SECOND)
    now, number = FIRST_TIME, 0
    while True:
        trend *= _TREND_DECAY**minutes
        starts = rng.random(len(SYMBOLS)) < _TREND_START * minutes
        trend[starts] += rng.uniform(1.0, 4.0, starts.sum())
        price *= np.exp(rng.normal(0.02 * trend * minutes, 0.01 * np.sqrt(minutes)))
        weight = 1.0 + 3.0 * trend
        size = int(rng.poisson(rows * rng.lognormal(-0.08, 0.4)))  # bursts; the mean stays
        code = np.searchsorted(np.cumsum(weight / weight.sum())[:-1], rng.random(size)).astype(np.int32)
        log_volume = _LOG_VALUE - np.log(price[code]) + 0.15 * trend[code]  # expensive shares trade in smaller lots
        volume = np.ceil(rng.lognormal(log_volume, 1.1)).astype(np.int64)
        ts = now + np.sort(rng.integers(0, tick, size))
        late = rng.random(size) < _LATE_SHARE
        ts[late] -= rng.exponential(4 * _SECOND, late.sum()).astype(np.int64)
        ts[rng.random(size) < _AHEAD_SHARE] += 3_600 * _SECOND
        yield pa.table(
            {
                "ts": pa.array(np.maximum(ts, FIRST_TIME), pa.timestamp("us")),
                "symbol": pa.DictionaryArray.from_arrays(pa.array(code), names),
                "price": np.round(price[code], 2),
                "volume": volume,
                "trade_id": number + np.arange(size),
            }
        )
        now += tick
        number += size


class TradeFiles(threading.Thread):
    """Writes trades with the current time into files of a folder, until it is stopped."""

    def __init__(self, folder: Path, rows_per_second: int, seed: int) -> None:
        super().__init__(name="trades", daemon=True)
        self.folder = folder
        self.rows_per_second, self.seed = rows_per_second, seed
        self.stopped = threading.Event()
        self.folder.mkdir()
        self.write(0, next(self._batches()))  # Spark needs the folder and the schema

    def _batches(self) -> Iterator[pa.Table]:
        import pyarrow as pa

        shift = time.time_ns() // 1_000 - FIRST_TIME
        rows = max(1, round(self.rows_per_second * _FILE_SECONDS))
        for batch in generate_trades(rows, round(_FILE_SECONDS * _SECOND), self.seed):
            at = batch["ts"].cast(pa.int64()).to_numpy() + np.int64(shift)
            yield batch.set_column(0, "ts", pa.array(at, pa.timestamp("us", "UTC")))

    def write(self, number: int, batch: pa.Table) -> None:
        """Write a file that appears only when it is complete."""
        import pyarrow.parquet as pq

        hidden = self.folder / f".{number:06}.parquet"
        pq.write_table(batch, hidden)
        hidden.rename(self.folder / f"{number:06}.parquet")

    def run(self) -> None:
        """Keep pace with the clock."""
        began = time.monotonic()
        for number, batch in enumerate(self._batches(), 1):
            if self.stopped.wait(max(0.0, began + number * _FILE_SECONDS - time.monotonic())):
                return
            self.write(number, batch)


def pipeline(folder: str | Path) -> Job:
    """Return the demo as a pipeline file."""
    from skyband.lang import load

    return load(PIPELINE.format(folder=folder))
