"""Leaderboards on Spark: skyband against what plain Spark can do, in one session.

Plain Spark needs two stateful steps: the totals of every key and window, then the best of every window. With panes it
needs three, and is cheaper where windows overlap much.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.query import Sliding, TopK
from skyband_lab.bench.spark import SLIDE, Case, Result, Ways, measure, trades, write_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SLIDE = f"{SLIDE} seconds"


def ours(case: Case) -> Callable[[DataFrame], DataFrame]:
    """Skyband."""
    from skyband.spark import top_k

    window = Sliding(f"{case.ratio * SLIDE} seconds", _SLIDE)
    return top_k(TopK(k=case.k, of="symbol", by="sum(volume)", window=window, time="ts"))


def two_step(case: Case) -> Callable[[DataFrame], DataFrame]:
    """Totals of each key and window, then the best of each window."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    def step(df: DataFrame) -> DataFrame:
        window = F.window("ts", f"{case.ratio * SLIDE} seconds", _SLIDE).alias("w")
        totals = df.groupBy(window, "symbol").agg(F.sum("volume").alias("total"))
        return _best(totals, case.k)

    return step


def with_panes(case: Case) -> Callable[[DataFrame], DataFrame]:
    """Totals of each key and pane, then of each key and window of panes, then the best of each window."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    def step(df: DataFrame) -> DataFrame:
        panes = df.groupBy(F.window("ts", _SLIDE).alias("p"), "symbol").agg(F.sum("volume").alias("part"))
        rows = panes.select(F.window_time("p").alias("at"), "symbol", "part")
        window = F.window("at", f"{case.ratio * SLIDE} seconds", _SLIDE).alias("w")
        return _best(rows.groupBy(window, "symbol").agg(F.sum("part").alias("total")), case.k)

    return step


def _best(totals: DataFrame, k: int) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    def order() -> Column:
        return F.struct("total", "symbol")

    again = F.window(F.window_time("w"), _SLIDE).alias("again")  # one of the ends of windows each
    best = totals.groupBy(again).agg(F.max_by(order(), order(), k).alias("best"))
    return best.select("again", F.posexplode("best"))


WAYS: Ways = {"skyband": ours, "two-step": two_step, "two-step with panes": with_panes}


def cases(*, quick: bool) -> list[Case]:
    """What is measured: the best 10 of 1,000 keys by their sum, in large batches: each costs a second in any case."""
    if quick:
        return [Case(way, 10, 10, 1_000, 600_000, 150_000) for way in ("skyband", "two-step")]
    overlaps = {10: WAYS, 60: ("skyband", "two-step with panes")}
    return [Case(way, ratio, 10, 1_000, 1_500_000, 300_000) for ratio, ways in overlaps.items() for way in ways]


def run(todo: list[Case], *, seed: int = 7, say: Callable[[str], None] = lambda _: None) -> Iterator[Result]:
    """Measure one case after the other in one warm session."""
    from dataclasses import replace

    from skyband.spark.session import session

    say("Spark starts")
    spark = session("skyband bench", "local[2]", {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"})
    root = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    warm = [case._replace(rows=30_000, batch=10_000) for case in {case.way: case for case in todo}.values()]
    try:
        for case in [*warm, *todo]:
            folder = root / f"{case.rows}-{case.batch}"
            if not folder.exists():
                write_files(folder, trades(case.rows, case.groups, seed), case.batch)
            say(f"leaderboard, win/slide {case.ratio}, {case.rows:,} rows: {case.way}")
            result = measure(spark, case, folder, WAYS)
            if case in todo:
                yield replace(result, suite="view", case=f"leaderboard, win/slide={case.ratio}, {case.groups:,} keys")
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
