"""What all peers share: the task as they are given it, and how they are timed. NumPy alone, so that any of them has it.

A peer is one function, `answers(task, folder)`, from a folder of rows to four columns of whole numbers: the window's
end, the symbol's number (0 without groups), the rank from 1 on, and the row's id. `main` calls it twice: once over a
few rows, so that a JVM has started and a compiler has run, and once with the clock on.

A folder holds the same rows three times, ordered by ts: stream.parquet, stream.csv (no header), and parts/*.parquet.
Columns: ts (whole seconds), id (0, 1, 2, ...), price, volume, symbol.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Task:
    """The k best rows by price * volume of each window; of equal scores the later, then the larger id."""

    win: int  # seconds, or rows if `counts`
    slide: int
    k: int
    per: bool  # for each symbol
    counts: bool
    way: str  # how to ask, where there is more than one way
    rows: int


class Cannot(Exception):  # noqa: N818 - a finding, not an error
    """The peer has no way to say this."""


def main(answers: Callable[[Task, Path], Columns], *, warm: bool = True) -> None:
    """Read task and folder from the command line, time `answers`, print one JSON line."""
    task, folder = Task(**json.loads(sys.argv[1])), Path(sys.argv[2])
    try:
        if warm:
            answers(task, folder / "warm")
        cpu, began = cpu_seconds(), time.perf_counter()
        end, group, rank, number = answers(task, folder)
        seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    except Cannot as why:
        print("\n" + json.dumps({"cannot": str(why)}), flush=True)
        return
    rows = np.stack([np.asarray(column, np.int64) for column in (end, group, rank, number)], axis=1)
    rows = rows[rows[:, 0] <= last(task, folder)]  # what a watermark lets out; a file's end may close more
    rows = np.ascontiguousarray(rows[np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))])
    digest = hashlib.sha256(rows.tobytes()).hexdigest()[:16]
    found = {"seconds": seconds, "cpu_seconds": max(cpu, 0.01), "answers": len(rows), "digest": digest}
    print("\n" + json.dumps(found), flush=True)


def last(task: Task, folder: Path) -> int:
    """The end of the last window that counts."""
    return task.rows if task.counts else int((folder / "last").read_text())


def cpu_seconds() -> float:
    """Seconds of CPU of this process and all that it has started: a JVM, workers."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:  # it has ended
                continue
            parents[int(entry.name)], used[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    total, todo = 0, [os.getpid()]
    while todo:
        mine = todo.pop()
        total += used.get(mine, 0)
        todo += [child for child, parent in parents.items() if parent == mine]
    return total / os.sysconf("SC_CLK_TCK")


def ranked(lists: list[tuple[int, int, list[int]]]) -> Columns:
    """Columns from (end, group, ids best first), list by list."""
    sizes = np.array([len(ids) for _, _, ids in lists], np.int64)
    ends, groups = (np.repeat(np.array([one[at] for one in lists], np.int64), sizes) for at in (0, 1))
    rank = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1
    ids = np.array([number for _, _, found in lists for number in found], np.int64)
    return ends, groups, rank, ids
