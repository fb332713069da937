# /// script
# dependencies = ["sortedcontainers==2.4.0", "numpy", "pyarrow"]
# ///
"""By hand: the window's rows in a SortedList of sortedcontainers; every row is added once and removed once."""

from collections import deque
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq
from _task import Columns, Task, main, ranked
from sortedcontainers import SortedList


def answers(task: Task, folder: Path) -> Columns:
    held: dict[int, tuple[deque, SortedList]] = {}
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
            if group not in held:
                held[group] = (deque(), SortedList())
            old, ranks = held[group]
            key = (-s, -t, -row)
            old.append((at, key))
            ranks.add(key)
    if task.counts and task.rows == end:
        close(held, end, task, found)
    return ranked(found)


def close(held: dict[int, tuple[deque, SortedList]], end: int, task: Task, found: list) -> None:
    """Take out what has left the window, then read off the first k."""
    for group, (old, ranks) in list(held.items()):
        while old and old[0][0] < end - task.win:
            ranks.remove(old.popleft()[1])
        if ranks:
            found.append((end, group, [-key[2] for key in islice(ranks, task.k)]))
        else:
            del held[group]


main(answers)
