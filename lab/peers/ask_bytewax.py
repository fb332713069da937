# /// script
# dependencies = ["bytewax==0.21.1", "numpy", "pyarrow"]
# ///
"""Bytewax, one worker: fold_window with a heap of k.

plain: over sliding windows, so that every row enters the heap of each of its windows.
panes: over tumbling windows of one slide first, and their winners into the sliding ones.
The clock stands still, or a slow machine would make rows late.
"""

import heapq
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
import pyarrow.parquet as pq
from _task import Cannot, Columns, Task, main, ranked
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing
from bytewax.testing import TestingSink, TestingSource, run_main

EPOCH, NOW = datetime(1970, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)


def answers(task: Task, folder: Path) -> Columns:
    if task.counts:
        raise Cannot("no windows over the last n rows, only over time")
    flow, out = Dataflow("best"), []
    rows = op.input("rows", flow, TestingSource(fed(task, folder), batch_size=1_000))
    slide, win = timedelta(seconds=task.slide), timedelta(seconds=task.win)
    if task.way == "panes":
        panes = windowing.TumblingWindower(length=slide, align_to=EPOCH)
        winners = windowing.fold_window("panes", rows, clock(), panes, list, folded(task.k), merged(task.k)).down
        lists = op.map_value("winners", winners, lambda found: sorted(found[1], key=lambda row: row[1]))
        rows = op.flat_map_value("each", lists, lambda found: found)
    windows = windowing.SlidingWindower(length=win, offset=slide, align_to=EPOCH)
    best = windowing.fold_window("windows", rows, clock(), windows, list, folded(task.k), merged(task.k))
    op.output("out", best.down, TestingSink(out))
    run_main(flow)
    return ranked(
        [
            (number * task.slide + task.win, int(key), [row[2] for row in sorted(heap, reverse=True)])
            for key, (number, heap) in out
        ]
    )


def fed(task: Task, folder: Path) -> Iterator[tuple[str, tuple[float, int, int]]]:
    for batch in pq.ParquetFile(folder / "stream.parquet").iter_batches(10_000):
        score = (batch["price"].to_numpy() * batch["volume"].to_numpy()).tolist()
        keys = [str(int(name[3:])) for name in batch["symbol"].to_pylist()] if task.per else ["0"] * len(score)
        yield from zip(keys, zip(score, batch["ts"].to_pylist(), batch["id"].to_pylist(), strict=True), strict=True)


def clock() -> Any:
    return windowing.EventClock(
        ts_getter=lambda row: EPOCH + timedelta(seconds=row[1]),
        wait_for_system_duration=timedelta(0),
        now_getter=lambda: NOW,
    )


def folded(k: int) -> Callable[[list, tuple], list]:
    def put(heap: list, row: tuple) -> list:
        if len(heap) < k:
            heapq.heappush(heap, row)
        elif row > heap[0]:
            heapq.heapreplace(heap, row)
        return heap

    return put


def merged(k: int) -> Callable[[list, list], list]:
    return lambda one, other: heapq.nlargest(k, one + other)[::-1]


main(answers)
