"""Best-selling products: who leads the shop, day by day, with returns taken off.

A leaderboard ranks keys, not rows: products by what was sold of them in the last seven days, every day. What comes
back has a negative quantity and counts like any other row. All invoices of a British shop from December 2010 on
where the file is at hand (SKYBAND_DATA names its folder), else six made-up weeks.

    python examples/best_sellers.py
"""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb

PRODUCTS = ["mug", "tea tin", "jam jar", "candle", "paper chain", "doormat", "clock", "lunch bag", "cake stand"]


def sales(rows: int = 40_000, seed: int = 12) -> pa.Table:
    """Real invoice lines, or made-up ones: candles sell better every week, and on day 20 all mugs come back."""
    path = Path(os.environ.get("SKYBAND_DATA", ""), "online_retail.parquet")
    if path.is_file():
        lines = pq.read_table(path, columns=["ts", "description", "quantity"])
        named = lines.filter(lines["description"].is_valid())  # others are corrections of the stock
        return named.rename_columns({"description": "product"})
    rng = np.random.default_rng(seed)
    day = np.sort(rng.uniform(0, 42, rows))
    product = rng.choice(PRODUCTS, rows, p=np.arange(9, 0, -1) / 45)
    quantity = rng.poisson(4, rows) + ((product == "candle") * day / 5).astype(int)
    recall = (product == "mug") & (day >= 20) & (day < 21)
    return pa.table(
        {
            "ts": np.datetime64("2026-01-05", "s") + (day * 86_400).astype(int),
            "product": product,
            "quantity": np.where(recall, -7 * quantity, quantity),
        }
    )


def main() -> None:
    """Print the leaders once a week, and who led longest."""
    week = sb.Sliding("7 days", "1 day")
    answers = sb.run(sb.TopK(k=3, of="product", by="sum(quantity)", window=week, time="ts"), sales()).to_pylist()
    leaders: dict[dt.datetime, list[tuple[str, float]]] = {}
    for row in answers:
        leaders.setdefault(row["window_end"], []).append((row["product"], row["score"]))

    print("Best sellers of seven days\n")
    for number, (end, best) in enumerate(leaders.items()):
        if number % 7 == 6 and number < 42:
            cells = (f"{product[:24].lower()} {sold:,.0f}" for product, sold in best)
            print(f"{end:%d %b}  " + "".join(f"{cell:<34}" for cell in cells).rstrip())
    days = [best[0][0] for best in leaders.values()]
    changes = sum(before != after for before, after in zip(days, days[1:], strict=False))
    longest = max(sorted(set(days)), key=days.count)
    print(f"\nChanges of the lead in {len(days)} days: {changes}.")
    print(f"Longest in the lead: {longest.lower()}, {days.count(longest)} days. Order more of it in time.")


if __name__ == "__main__":
    main()
