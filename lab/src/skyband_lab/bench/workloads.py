"""Seeded streams of scores: the same seed gives the same stream on every machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from skyband.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

TRADES = "es_futures_trades.parquet"
"""The real stream: trades of the E-mini S&P 500 future."""

SENSORS = "sensorscope_stbernard.parquet"
"""Real measurements: what the stations of a sensor network sent."""

_TICK = 0.25  # the smallest step of that future's price


def lognormal(rows: int, seed: int = 0) -> np.ndarray:
    """Scores in random order with a heavy tail, as of trades: the usual case.

    Examples
    --------
    >>> bool((lognormal(100) == lognormal(100)).all()), bool((lognormal(100, seed=1) == lognormal(100)).any())
    (True, False)
    """
    return np.random.default_rng(seed).lognormal(0.0, 1.0, rows)


def increasing(rows: int, seed: int = 0) -> np.ndarray:
    """Every row beats all before it: each of them must be looked at closely, and few are kept.

    Examples
    --------
    >>> bool((np.diff(increasing(100)) > 0).all())
    True
    """
    return np.cumsum(np.random.default_rng(seed).uniform(0.5, 1.5, rows))


def decreasing(rows: int, seed: int = 0) -> np.ndarray:
    """No row is ever beaten by a later one: an engine keeps the k best of every pane, the most there can be.

    Examples
    --------
    >>> bool((np.diff(decreasing(100)) < 0).all())
    True
    """
    return increasing(rows, seed)[::-1].copy()


def walk(rows: int, seed: int = 0) -> np.ndarray:
    """A random walk: neighbours are alike, so the best come in long runs."""
    return np.cumsum(np.random.default_rng(seed).standard_normal(rows))


def trades(rows: int, seed: int = 0, data: Path | None = None) -> np.ndarray:
    """Price times volume of real trades.

    Beyond the end of the file come further rounds of it with small random differences in both columns, as in
    Yang et al., EDBT 2011, section 6. Raises `SourceError` where the file is not found.
    """
    import pyarrow.parquet as pq

    path = find(data)
    if path is None:
        raise SourceError(f"{TRADES} was found nowhere: name its folder by --data DIR or by SKYBAND_DATA")
    table = pq.read_table(path, columns=["price", "volume"])
    price, volume = (table[name].to_numpy().astype(np.float64) for name in ("price", "volume"))
    rng = np.random.default_rng(seed)
    rounds = [price * volume]
    for _ in range(1, -(-rows // len(price))):
        moved = price + _TICK * rng.integers(-4, 5, len(price))
        changed = np.maximum(volume + rng.integers(-1, 2, len(volume)), 1.0)
        rounds.append(moved * changed)
    return np.concatenate(rounds)[:rows]


def sensorscope(rows: int, seed: int = 0, data: Path | None = None) -> np.ndarray:
    """Ambient temperatures as the stations of the Sensorscope deployment at the Grand St. Bernard sent them.

    Beyond the end of the file come further rounds of it with small random differences. Raises `SourceError`
    where the file is not found.
    """
    import pyarrow.parquet as pq

    path = find(data, SENSORS)
    if path is None:
        raise SourceError(f"{SENSORS} was found nowhere: name its folder by --data DIR or by SKYBAND_DATA")
    read = pq.read_table(path, columns=["ambient_temp_c"])["ambient_temp_c"].to_numpy().astype(np.float64)
    read, rng = read[~np.isnan(read)], np.random.default_rng(seed)
    rounds = [read, *(read + rng.normal(0.0, 0.05, len(read)) for _ in range(1, -(-rows // len(read))))]
    return np.concatenate(rounds)[:rows]


def find(data: Path | None = None, name: str = TRADES) -> Path | None:
    """Find a file of real data in `data`, else in the folder that SKYBAND_DATA names; None if it is not there."""
    folder = data or os.environ.get("SKYBAND_DATA")
    return Path(folder, name) if folder and Path(folder, name).is_file() else None


STREAMS: Mapping[str, Callable[[int, int], np.ndarray]] = MappingProxyType(
    {
        "lognormal": lognormal,
        "increasing": increasing,
        "decreasing": decreasing,
        "walk": walk,
        "trades": trades,
    }
)
"""The streams of the suites, by name: functions from how many rows and a seed to scores."""


def trade_table(rows: int, seed: int = 0, symbols: int = 10_000, minutes: int = 30) -> pa.Table:
    """Made-up trades with all their columns: `rows` of them, spread evenly over `minutes`.

    Examples
    --------
    >>> trade_table(3).schema.names
    ['ts', 'symbol', 'price', 'volume', 'venue', 'trade_id']
    """
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    names = pa.array([f"S{n:05}" for n in range(symbols)])
    code = pa.array(rng.integers(0, symbols, rows, np.int32))
    return pa.table(
        {
            "ts": pa.array(np.arange(rows) * (minutes * 60_000_000) // max(rows, 1), pa.timestamp("us")),
            "symbol": pa.DictionaryArray.from_arrays(code, names),
            "price": rng.lognormal(4.0, 0.5, rows),
            "volume": rng.integers(1, 500, rows, np.int32),
            "venue": rng.integers(0, 16, rows, np.int8),
            "trade_id": np.arange(rows),
        }
    )
