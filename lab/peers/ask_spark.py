# /// script
# dependencies = ["pyspark==4.3.0", "numpy", "pyarrow", "pandas<3"]
# ///
"""Plain Structured Streaming, append mode, a file at a time; `max_by` with k is what Spark 4.2 and later has.

plain: groupBy(window()) and max_by. panes: max_by for each slide, its winners through window() once more.
"""

from pathlib import Path

from _spark import files, session, stopped, told
from _task import Cannot, Columns, Task, main
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own way


def answers(task: Task, folder: Path) -> Columns:
    if task.counts:
        raise Cannot("a stream has no windows over the last n rows; row_number() is refused there")
    rows = files(session(), folder).withWatermark("et", "0 seconds")
    keys = ["g"] if task.per else []
    order = F.struct("s", "ts", "id")
    win, slide = f"{task.win} seconds", f"{task.slide} seconds"
    if task.way == "panes":
        panes = rows.groupBy(F.window("et", slide).alias("p"), *keys).agg(F.max_by(order, order, task.k).alias("x"))
        winners = panes.select(F.window_time("p").alias("et"), *keys, F.explode("x").alias("x"))
        rows = winners.select("et", *keys, "x.*")
    windows = rows.groupBy(F.window("et", win, slide).alias("w"), *keys)
    lists: DataFrame = windows.agg(F.max_by("id", order, task.k).alias("x"))
    group = F.col("g") if task.per else F.lit(0).cast("long")
    flat = lists.select(F.col("w.end").cast("long").alias("e"), group.alias("g"), F.posexplode("x").alias("r", "id"))
    return told(flat.withColumn("r", F.col("r") + 1), folder)


main(answers)
stopped()
