"""The demo's stream: made-up trades in bursts, with symbols that trend for a while."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

SYMBOLS = (  # noqa: SIM905 - forty quoted names are no better to read
    "ALDR BRCH CEDR DOGW ELMX FIRS GINK HAZL IVYY JUNI KAPK LRCH MAPL NUTM OAKS PINE QNCE ROWN SPRC TEAK "
    "UPAS VINE WLNT XYLO YEWW ZELK ASPN BEEC CYPR EBNY FERN HOLY LIND MYRT OLIV PLUM SEQA TULP WILO YUCA"
).split()
OPENING = int(datetime(2024, 1, 2, 9, 30, tzinfo=UTC).timestamp()) * 1_000_000
"""When the first trade can be, in microseconds."""

_SECOND = 1_000_000
_IGNITES = 0.05  # how likely a symbol begins to trend within a minute
_COOLS = 0.35  # what a minute leaves of a trend
_LOT = 8.5  # what a usual trade is worth, as a logarithm
_DELAYED, _BROKEN = 2e-3, 5e-6  # rows that come late; rows whose clock is an hour fast


def tape(rows: int, tick: int, seed: int) -> Iterator[pa.Table]:
    """Trades without end, about `rows` for every `tick` microseconds of event time.

    The same arguments give the same trades. A few come late, and very few have a time far ahead.

    Examples
    --------
    >>> first = next(tape(100, 1_000_000, seed=1))
    >>> first.schema.names, first.equals(next(tape(100, 1_000_000, seed=1)))
    (['ts', 'symbol', 'price', 'volume', 'trade_id'], True)
    """
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    names = pa.array(SYMBOLS)
    price = rng.lognormal(4.5, 0.6, len(SYMBOLS))
    heat = np.zeros(len(SYMBOLS))
    minute = tick / (60 * _SECOND)
    now, number = OPENING, 0
    while True:
        heat *= _COOLS**minute
        lit = rng.random(len(SYMBOLS)) < _IGNITES * minute
        heat[lit] += rng.uniform(1.0, 4.0, lit.sum())
        price *= np.exp(rng.normal(0.02 * heat * minute, 0.01 * np.sqrt(minute)))
        busy = 1.0 + 3.0 * heat
        size = int(rng.poisson(rows * rng.lognormal(-0.08, 0.4)))  # bursts; the mean stays
        code = np.searchsorted(np.cumsum(busy / busy.sum())[:-1], rng.random(size)).astype(np.int32)
        usual = _LOT - np.log(price[code]) + 0.15 * heat[code]  # dear shares change hands in smaller lots
        volume = np.ceil(rng.lognormal(usual, 1.1)).astype(np.int64)
        ts = now + np.sort(rng.integers(0, tick, size))
        delayed = rng.random(size) < _DELAYED
        ts[delayed] -= rng.exponential(4 * _SECOND, delayed.sum()).astype(np.int64)
        ts[rng.random(size) < _BROKEN] += 3_600 * _SECOND
        yield pa.table(
            {
                "ts": pa.array(np.maximum(ts, OPENING), pa.timestamp("us")),
                "symbol": pa.DictionaryArray.from_arrays(pa.array(code), names),
                "price": np.round(price[code], 2),
                "volume": volume,
                "trade_id": number + np.arange(size),
            }
        )
        now += tick
        number += size
