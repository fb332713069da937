"""How fast a view takes changes that can be ignored, and how long a read takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.tables import ArrayTable
from skyband.view.view import View

_READS = 2_000


@dataclass(frozen=True)
class Speed:
    """One line: something done many times over."""

    suite: str
    case: str
    way: str
    rows: int  # of the table
    times: int
    each_ns: float  # CPU of one

    def as_dict(self) -> dict[str, Any]:
        """The fields by name, and how many there are in a second."""
        return {
            **asdict(self),
            "each_ns": float(f"{self.each_ns:.4g}"),
            "per_s": float(f"{1e9 / self.each_ns:.4g}"),
        }


def run(rows: int, k: int, *, seed: int = 0) -> Iterator[Speed]:
    """Measure both on one view of a table in memory."""
    rng = np.random.default_rng(seed)
    table = ArrayTable(rng.normal(size=rows))
    view = View(table, k, "value")
    ids = rng.integers(0, rows, 1_000_000)
    ids = ids[~np.isin(ids, table.top(view.kmax)["id"].to_numpy())]
    low = pa.table({"id": ids, "value": rng.normal(size=len(ids)) - 10})
    view.apply(low)
    spent = [_seconds(lambda: view.apply(low)) for _ in range(7)]
    assert view.stats.ignorable == view.stats.updates
    yield Speed("view", "updates", "ignorable, in batches of a million", rows, len(ids), 1e9 * min(spent) / len(ids))
    yield Speed("view", "reads", "top, nothing changed", rows, _READS, _read(view.top, None))
    yield Speed("view", "reads", "read, nothing changed", rows, _READS, _read(view.read, None))
    best = int(view.top()[0][k // 2])

    def change(turn: int) -> None:
        view.apply({"id": [best], "value": [6.0 + turn]})

    yield Speed("view", "reads", "top after a change of the list", rows, _READS, _read(view.top, change))
    yield Speed("view", "reads", "read after a change of the list", rows, _READS, _read(view.read, change))


def _read(read: Callable[[], object], change: Callable[[int], None] | None) -> float:
    """Nanoseconds of a read, the median of many."""
    spent = []
    for turn in range(_READS):
        if change is not None:
            change(turn)
        spent.append(_seconds(read))
    return 1e9 * float(np.median(spent))


def _seconds(do: Callable[[], object]) -> float:
    began = time.thread_time()
    do()
    return time.thread_time() - began
