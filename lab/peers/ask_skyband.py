# /// script
# dependencies = ["skyband"]
# ///
"""skyband in process: one query, `sb.run` over the Parquet file."""

from pathlib import Path

import numpy as np
from _task import Columns, Task, main

import skyband as sb


def answers(task: Task, folder: Path) -> Columns:
    window = sb.Sliding(f"{task.win} seconds", f"{task.slide} seconds")
    if task.counts:
        window = sb.Counting(task.win, task.slide)
    query = sb.TopK(
        k=task.k,
        by="price * volume",
        window=window,
        time=None if task.counts else "ts",
        unit=None if task.counts else "s",
        id="id",
        per=["symbol"] if task.per else (),
    )
    best = sb.run(query, folder / "stream.parquet", progress=False)
    names = best["symbol"].to_pylist() if task.per else []
    group = np.array([int(name[3:]) for name in names]) if task.per else np.zeros(best.num_rows, np.int64)
    end, rank, number = (best[name].to_numpy() for name in ("window_end", "rank", "id"))
    return end, group, rank, number


main(answers)
