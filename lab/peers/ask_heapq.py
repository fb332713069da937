# /// script
# dependencies = ["numpy", "pyarrow"]
# ///
"""By hand: a deque of the window's rows, and heapq.nlargest over all of them whenever the window slides."""

import heapq
from collections import defaultdict, deque
from pathlib import Path

import pyarrow.parquet as pq
from _task import Columns, Task, main, ranked


def answers(task: Task, folder: Path) -> Columns:
    held: dict[int, deque] = defaultdict(deque)
    found, end = [], 0
    for batch in pq.ParquetFile(folder / "stream.parquet").iter_batches(10_000):
        score = (batch["price"].to_numpy() * batch["volume"].to_numpy()).tolist()
        times, ids = batch["ts"].to_pylist(), batch["id"].to_pylist()
        groups = [int(name[3:]) for name in batch["symbol"].to_pylist()] if task.per else [0] * len(ids)
        for s, t, row, group in zip(score, times, ids, groups, strict=True):
            at = row if task.counts else t
            end = end or (at // task.slide + 1) * task.slide
            while at >= end:
                close(held, end, task, found)
                end += task.slide
            held[group].append((s, t, row, at))
    if task.counts and task.rows == end:
        close(held, end, task, found)
    return ranked(found)


def close(held: dict[int, deque], end: int, task: Task, found: list) -> None:
    """Let go what has left the window, then look through the rest."""
    for group, rows in list(held.items()):
        while rows and rows[0][3] < end - task.win:
            rows.popleft()
        if rows:
            found.append((end, group, [row[2] for row in heapq.nlargest(task.k, rows)]))
        else:
            del held[group]


main(answers)
