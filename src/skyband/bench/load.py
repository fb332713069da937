"""The highest rate that is held without falling behind; beyond it the source waits, and nothing is lost."""

from __future__ import annotations

import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.bench.spark import trades, write_files
from skyband.query import Sliding, TopK

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from skyband.api import Stream

RATE = 1_000  # rows of a second of event time
WAITING = 4  # batches that may wait between a source and a pipeline in process
_HELD = 0.9  # of the peak: the rate that must be held
_BEYOND = 2.0  # times the peak: more than can be held


class Case(NamedTuple):
    """So many groups, or so many queries, in one place."""

    where: str  # "process" or "spark"
    groups: int
    queries: int
    rows: int
    batch: int

    def __str__(self) -> str:
        return f"{self.where} groups={self.groups} queries={self.queries}"


@dataclass(frozen=True)
class Result:
    """What one case holds."""

    case: str
    rows: int
    peak_rows_per_s: float  # as fast as it takes them
    held_rows_per_s: float  # arriving by the clock, without falling behind
    lag_seconds: float  # how late the last batch was done at the held rate
    beyond: float  # times the peak that a source then offered
    taken: float  # the part of it that was taken while the source waited
    lost: int  # rows that were offered, taken, and never counted

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(self).items()}


def queries(case: Case) -> list[TopK]:
    """What is asked.

    Examples
    --------
    >>> [(q.k, q.per) for q in queries(Case("process", 100, 2, 1000, 100))]
    [(10, ('symbol',)), (13, ('symbol',))]
    """
    rng = np.random.default_rng(case.queries)
    per = ["symbol"] if case.groups > 1 else []
    found = []
    for number in range(case.queries):
        slide = 10 if number == 0 else int(rng.integers(5, 60))
        k, wide = (10, 6) if number == 0 else (int(rng.integers(1, 50)), int(rng.integers(1, 12)))
        window = Sliding(f"{slide * wide} seconds", f"{slide} seconds")
        found.append(TopK(k=k, by="price * volume", window=window, time="ts", id="id", per=per, name=f"q{number}"))
    return found


# ---------------------------------------------------------------- in process


def in_process(case: Case) -> Result:
    """Measure the peak, hold nine tenths of it by the clock, then offer twice as much."""
    table = trades(case.rows, case.groups, rate=RATE)
    batches = [table.slice(low, case.batch) for low in range(0, case.rows, case.batch)]
    _taken(case, iter(batches[: max(2, len(batches) // 8)]))  # compiled
    best = float("inf")
    for _ in range(2):
        began = time.perf_counter()
        seen = _taken(case, iter(batches))
        best = min(best, time.perf_counter() - began)
        assert seen == case.rows
    peak = case.rows / best
    lag, _, lost = paced(case, batches, peak * _HELD)
    _, taken, more = paced(case, batches, peak * _BEYOND)
    return Result(str(case), case.rows, peak, peak * _HELD, lag, _BEYOND, taken, lost + more)


def _taken(case: Case, batches: Iterator[pa.Table]) -> int:
    """Rows that a stream counts of these batches."""
    running = _stream(case, batches)
    for _ in running:
        pass
    return int(running.stats.rows)


def _stream(case: Case, batches: Iterator[pa.Table]) -> Stream:
    from skyband.api import stream

    asked = queries(case)
    return stream(asked[0] if len(asked) == 1 else asked, batches)


def paced(case: Case, batches: list[pa.Table], rate: float) -> tuple[float, float, int]:
    """Offer batches by the clock through a short queue: how late the last was done, the part of `rate` that was taken,
    and the rows that were lost.

    Examples
    --------
    >>> case = Case("process", 1, 1, 4000, 1000)
    >>> table = trades(4000, 1, rate=RATE)
    >>> lag, taken, lost = paced(case, [table.slice(at, 1000) for at in range(0, 4000, 1000)], 20_000.0)
    >>> lost, taken <= 1.01
    (0, True)
    """  # noqa: D205 - the three figures are the summary
    waiting: queue.Queue[pa.Table | None] = queue.Queue(WAITING)
    began = time.perf_counter()
    due = np.cumsum([0, *(batch.num_rows for batch in batches)]) / rate

    def offer() -> None:
        for batch, at in zip(batches, due[:-1], strict=True):
            time.sleep(max(0.0, began + at - time.perf_counter()))
            waiting.put(batch)  # waits where nobody takes: this is the backpressure
        waiting.put(None)

    source = threading.Thread(target=offer, daemon=True)
    source.start()
    seen = _taken(case, iter(waiting.get, None))
    took = time.perf_counter() - began
    source.join()
    offered = sum(batch.num_rows for batch in batches)
    return max(0.0, took - float(due[-1])), min(1.0, float(due[-1]) / took), offered - seen


# ---------------------------------------------------------------- on Spark


def on_spark(spark: SparkSession, case: Case, folder: Path) -> Result:
    """Files that are all there already, more than can be taken at once: a batch takes one, the others wait on disk."""
    from skyband.spark import top_k

    asked = queries(case)
    df = spark.readStream.schema(spark.read.parquet(str(folder)).schema).option("maxFilesPerTrigger", 1)
    step = top_k(asked[0] if len(asked) == 1 else asked)
    rows = df.parquet(str(folder)).withWatermark("ts", "10 seconds").transform(step)
    checkpoint = tempfile.mkdtemp(prefix="skyband-load-")
    query = rows.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)
    full = [p for p in query.recentProgress if p["numInputRows"]]
    steady = full[2:] or full
    seconds = sum(p["durationMs"]["triggerExecution"] for p in steady) / 1000
    peak = sum(p["numInputRows"] for p in steady) / seconds
    counted = sum(_counted(p) for p in query.recentProgress)
    families = max(1, counted // case.rows)  # each family of queries counts every row
    waited = len(full) * max(p["durationMs"]["triggerExecution"] for p in steady) / 1000
    return Result(
        str(case),
        case.rows,
        peak,
        peak * _HELD,
        waited / len(full),
        _BEYOND,
        1 / _BEYOND,
        case.rows * families - counted,
    )


def _counted(report: Any) -> int:
    found = [row.asDict() for name, row in report["observedMetrics"].items() if name.startswith("skyband")]
    return sum(row["rows"] or 0 for row in found if "rows" in row)


# ---------------------------------------------------------------- the suite


def cases(*, quick: bool, spark: bool = True) -> list[Case]:
    """What the suite measures: 1, 100 and 10,000 groups; 1, 100 and 1000 queries."""
    found = []
    shapes = [(1, 1), (100, 1), (10_000, 1), (1, 100), (1, 1_000)]
    for groups, many in shapes:
        rows = (2_000_000 if many == 1 else 500_000 if many == 100 else 200_000) // (10 if quick else 1)
        found.append(Case("process", groups, many, rows, rows // 20))
    for groups, many in shapes if spark else []:
        rows = (4_000_000 if many == 1 else 1_000_000) // (10 if quick else 1)
        found.append(Case("spark", groups, many, rows, rows // 8))
    return found


def run(todo: list[Case]) -> Iterator[Result]:
    """Measure one case after the other."""
    for case in todo:
        if case.where == "process":
            yield in_process(case)
    rest = [case for case in todo if case.where == "spark"]
    if not rest:
        return
    from skyband.spark.session import session

    spark = session("skyband load", "local[2]", {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "2"})
    root = Path(tempfile.mkdtemp(prefix="skyband-load-"))
    try:
        for case in rest:
            folder = root / f"{case.groups}-{case.rows}"
            if not folder.exists():
                write_files(folder, trades(case.rows, case.groups, rate=RATE), case.batch)
            yield on_spark(spark, case, folder)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)
