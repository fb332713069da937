# /// script
# dependencies = ["polars==2.1.0", "numpy", "pyarrow"]
# ///
"""Polars, over the whole file at once.

plain: group_by_dynamic with top_k_by in every window. panes: the best of each slide first, then the same over those.
"""

from pathlib import Path

import polars as pl
from _task import Columns, Task, main

BY = ["s", "ts", "id"]


def answers(task: Task, folder: Path) -> Columns:
    group = pl.col("symbol").str.slice(3).cast(pl.Int64) if task.per else pl.lit(0, pl.Int64)
    at = pl.col("id" if task.counts else "ts")
    rows = pl.read_parquet(folder / "stream.parquet").select(
        "ts", "id", (pl.col("price") * pl.col("volume")).alias("s"), group.alias("g"), at.alias("at")
    )
    best = pl.struct(BY).top_k_by(BY, task.k).alias("x")
    if task.way == "panes":
        pane = pl.col("at") // task.slide * task.slide
        rows = rows.group_by("g", pane, maintain_order=True).agg(best).explode("x").unnest("x").sort("at")
    windows = rows.set_sorted("at").group_by_dynamic(
        "at",
        every=f"{task.slide}i",
        period=f"{task.win}i",
        offset=f"{task.slide - task.win}i",  # windows that begin before the first row
        closed="left",
        group_by="g" if task.per else None,
    )
    lists = windows.agg(best).with_columns(e=pl.col("at") + task.win)
    if not task.per:
        lists = lists.with_columns(g=pl.lit(0, pl.Int64))
    lists = lists.filter(pl.col("x").list.len() > 0).explode("x").unnest("x")
    order = lists.sort(["e", "g", *BY], descending=[False, False, True, True, True])
    order = order.with_columns(r=pl.int_range(1, pl.len() + 1).over("e", "g"))
    return tuple(order[name].to_numpy() for name in ("e", "g", "r", "id"))


main(answers)
