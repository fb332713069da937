"""Stock trades: the largest of the last ten minutes, every minute.

Large trades announce where a market goes. The E-mini S&P 500 future of September 2013 where the file is at hand
(SKYBAND_DATA names its folder), else an hour of made-up trades with one nervous spell.

    python examples/stock_trades.py            # in process
    python examples/stock_trades.py --spark    # the same query on Spark, and the same answers
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb

QUERY = sb.TopK(
    k=10, by="price * volume", window=sb.Sliding("10 minutes", "1 minute"), time="ts", id="seq"
)  # `id` settles ties the same way everywhere


def trades(rows: int = 60_000, seed: int = 4) -> pa.Table:
    """Real trades, or made-up ones: from 10:30 to 10:36 the volumes are five times as large."""
    path = Path(os.environ.get("SKYBAND_DATA", ""), "es_futures_trades.parquet")
    if path.is_file():
        return pq.read_table(path)
    rng = np.random.default_rng(seed)
    second = np.sort(rng.uniform(0, 3600, rows))
    nervous = (second > 1800) & (second < 2160)
    return pa.table(
        {
            "seq": np.arange(rows),
            "ts": np.datetime64("2026-03-02T10:00", "ms") + (second * 1000).astype(int),
            "price": 1640 + np.cumsum(rng.normal(0, 0.02, rows)).round(2),
            "volume": (rng.pareto(2, rows) * 3 * np.where(nervous, 5, 1) + 1).astype(int),
        }
    )


def on_spark(table: pa.Table) -> pa.Table:
    """The answers that Spark gives."""
    from skyband.spark.session import session

    with tempfile.TemporaryDirectory() as folder, session("stock trades") as spark:
        pq.write_table(table, f"{folder}/trades.parquet")
        leaders = spark.read.parquet(folder).transform(sb.spark.top_k(QUERY))
        return leaders.orderBy("window_end", "rank").toArrow()


def main() -> None:
    """Print the list of the busiest ten minutes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spark", action="store_true", help="on Spark instead of in process")
    source = trades()
    answers = on_spark(source) if parser.parse_args().spark else sb.run(QUERY, source)

    frame = answers.to_pandas()
    worth = frame.groupby("window_end")["score"].sum()
    busiest = worth.idxmax()
    print(f"Stock trades: the ten largest of the busiest ten minutes, until {busiest:%H:%M}\n")
    print(f"{'rank':>4}  {'time':<10}{'price':>10}{'volume':>8}{'worth':>14}")
    for row in frame[frame["window_end"] == busiest].itertuples():
        print(f"{row.rank:>4}  {row.ts:%H:%M:%S}  {row.price:>10.2f}{row.volume:>8}{row.score:>14,.0f}")
    print(f"\n{source.num_rows:,} trades made {len(worth)} lists. The ten largest here are worth")
    print(f"{worth.max() / worth.median():.1f} times those of a usual list: something happened.")


if __name__ == "__main__":
    main()
