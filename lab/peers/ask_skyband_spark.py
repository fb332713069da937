# /// script
# dependencies = ["skyband[spark]"]
# ///
"""skyband on Structured Streaming: the same stream of files through `sb.spark.top_k`."""

from pathlib import Path

from _spark import files, session, stopped, told
from _task import Columns, Task, main
from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

import skyband as sb


def answers(task: Task, folder: Path) -> Columns:
    window = sb.Sliding(f"{task.win} seconds", f"{task.slide} seconds")
    if task.counts:
        window = sb.Counting(task.win, task.slide)
    query = sb.TopK(
        k=task.k, by="s", window=window, time=None if task.counts else "et", id="id", per=["g"] if task.per else ()
    )
    rows = files(session(), folder).select("id", "s", "et", *(["g"] if task.per else []))
    if not task.counts:
        rows = rows.withWatermark("et", "0 seconds")
    best = rows.transform(sb.spark.top_k(query))
    group = F.col("g") if task.per else F.lit(0).cast("long")
    flat = best.select(F.col("window_end").cast("long").alias("e"), group.alias("g"), F.col("rank").alias("r"), "id")
    return told(flat, folder)


main(answers)
stopped()
