"""Take the pictures of the dashboard for the documentation: real answers in a real browser.

`python scripts/docs_dashboard.py` writes docs/img/dashboard-*.png. It needs Chromium and Playwright.
"""

from __future__ import annotations

import io
import json
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

import skyband as sb
from skyband.bench.dashboard import chromium
from skyband.cli._tape import tape
from skyband.cli._watch import NAME, questions
from skyband.dashboard import Dashboard, Hub

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HERE = Path(__file__).resolve().parent.parent / "docs" / "img"
WINDOW = sb.Sliding("5 minutes", "30 seconds")


def answered() -> tuple[dict[str, sb.TopK], dict[str, pa.Table]]:
    """Half an hour of the demo's trades, and what is asked of them."""
    mine = sb.TopK(k=10, by="price * volume", window=WINDOW, time="ts", id="trade_id")
    asked = {NAME: mine, **questions(mine)}
    trades = pa.concat_tables(islice(tape(3_000, 3_000_000, 5), 600))
    return asked, {name: sb.run(query, trades, ahead="10 minutes", progress=False) for name, query in asked.items()}


def fed(hub: Hub, tables: dict[str, pa.Table], ends: list[object], rows: int) -> None:
    """Tell the hub of some windows, one after the other, and how the run is."""
    rng = np.random.default_rng(4)
    walk = np.exp(0.04 * rng.normal(size=(5, len(ends))).cumsum(axis=1))
    for number, end in enumerate(ends):
        for name, table in tables.items():
            hub.answers(name, table.filter(pc.equal(table["window_end"], end)))
        rate, latency, kept, stale, state = walk[:, number]
        hub.progress(
            {
                "rows": rows * (number + 1),
                "rows_per_second": 203_000 * rate,
                "batch_seconds": 0.0114 * latency,
                "candidates": round(29 * kept),
                "window_rows": round(998_000 * rate),
                "state_bytes": round(5_200 * state),
                "late": 12 * (number + 1),
                "staleness_seconds": round(1.3 * stale, 2),
                "refreshes": 40 * (number + 1),
                "refills": 3 + number // 20,
            }
        )
        time.sleep(0.21)


def pictures(browser: Browser, url: str) -> dict[str, bytes]:
    """What is to be seen: all boards, one board, a phone; dark and light."""
    one = f"{url}/#/board/{quote(json.dumps([NAME]))}"
    taken = {}
    for name, address, width, height, scheme in (
        ("wall", url, 1280, 800, "light"),
        ("board", one, 1280, 800, "light"),
        ("dark", one, 1280, 800, "dark"),
        ("phone", one, 360, 740, "dark"),
    ):
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(address)
        page.wait_for_selector("tbody tr:visible")
        time.sleep(1.5)
        taken[name] = page.screenshot()
        page.close()
    return taken


def main() -> None:
    """Write the pictures."""
    asked, tables = answered()
    ends = sorted(pc.unique(tables[NAME]["window_end"]).to_pylist())[10:-10]
    hub = Hub()
    for name, query in asked.items():
        hub.describe(name, query)
    with Dashboard(hub, port=0) as dashboard, chromium() as browser:
        fed(hub, tables, ends, 30_000)
        for name, taken in pictures(browser, dashboard.url).items():
            small = (
                Image.open(io.BytesIO(taken))
                .convert("RGB")
                .quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            )
            path = HERE / f"dashboard-{name}.png"
            small.save(path, optimize=True)
            print(f"{path.name}: {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
