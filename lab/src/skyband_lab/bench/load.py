"""The highest rate that is held without falling behind; beyond it the source waits, and nothing is lost."""

from __future__ import annotations

import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.query import Sliding, TopK
from skyband_lab.bench.spark import trades, write_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from skyband.api import Stream

RATE = 1_000  # rows of a second of event time
WAITING = 4  # batches that may wait between a source and a pipeline in process
_SHARES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)  # of the peak: rates to be tried, the highest first
_BEYOND = 2.0  # times the peak: more than can be held
_NOISE = 0.05  # seconds of lag that say nothing
_WARM = 2  # files that a stream has taken before the clock starts


class Case(NamedTuple):
    """So many groups, or so many queries, in one place."""

    where: str  # "process" or "spark"
    groups: int
    queries: int
    rows: int
    batch: int

    def __str__(self) -> str:
        return f"{self.where} groups={self.groups} queries={self.queries}"


class Paced(NamedTuple):
    """What became of batches that came by the clock."""

    lag: float  # seconds from when the last should have been done, when the next would have come, to when it was
    taken: float  # rows a second
    lost: int  # rows that were offered and never counted


@dataclass(frozen=True)
class Result:
    """What one case holds."""

    case: str
    rows: int
    peak_rows_per_s: float  # as fast as it takes them, when all are there
    held_rows_per_s: float  # the highest rate tried at which batches came by the clock and none was a batch late; or 0
    lag_seconds: float  # how late the last batch was done at that rate
    offered_rows_per_s: float  # twice the peak
    taken_rows_per_s: float  # what was taken of that
    waited_seconds: float  # how late the last batch was done then, since the source, or the files, had to wait
    lost: int  # rows that were offered and never counted, at any rate

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
    """Measure the peak, find the rate that is held by the clock, then offer twice the peak."""
    table = trades(case.rows, case.groups, rate=RATE)
    batches = [table.slice(low, case.batch) for low in range(0, case.rows, case.batch)]
    _taken(case, iter(batches[: max(2, len(batches) // 8)]))  # compiled
    best, lost = float("inf"), 0
    for _ in range(2):
        began = time.perf_counter()
        seen, ended = _taken(case, iter(batches))
        lost += case.rows - seen
        best = min(best, ended - began)
    return searched(case, case.rows / best, lost, lambda rate: paced(case, batches, rate))


def searched(case: Case, peak: float, lost: int, at: Callable[[float], Paced]) -> Result:
    """The highest of some rates below the peak that is held, and what happens beyond; `at` offers rows at a rate."""
    held, lag = 0.0, 0.0
    for share in _SHARES:
        tried = at(share * peak)
        lost += tried.lost
        if tried.lag <= max(case.batch / (share * peak), _NOISE):
            held, lag = share * peak, tried.lag
            break
    beyond = at(_BEYOND * peak)
    return Result(
        str(case), case.rows, peak, held, lag, _BEYOND * peak, beyond.taken, beyond.lag, lost + beyond.lost
    )  # fmt: skip


def _taken(case: Case, batches: Iterator[pa.Table]) -> tuple[int, float]:
    """Rows that a stream counts of these batches, and when it had done with the last and asked for another.

    What it does then, to answer all windows that are still open, is no part of a stream that goes on.
    """
    ended = 0.0

    def given() -> Iterator[pa.Table]:
        nonlocal ended
        yield from batches
        ended = time.perf_counter()

    running = _stream(case, given())
    for _ in running:
        pass
    return int(running.stats.rows), ended


def _stream(case: Case, batches: Iterator[pa.Table]) -> Stream:
    from skyband.api import stream

    asked = queries(case)
    return stream(asked[0] if len(asked) == 1 else asked, batches)


def paced(case: Case, batches: list[pa.Table], rate: float) -> Paced:
    """Offer batches by the clock through a short queue.

    Examples
    --------
    >>> case = Case("process", 1, 1, 4000, 1000)
    >>> table = trades(4000, 1, rate=RATE)
    >>> found = paced(case, [table.slice(at, 1000) for at in range(0, 4000, 1000)], 20_000.0)
    >>> found.lost, found.taken <= 20_000 * 1.4
    (0, True)
    """
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
    seen, ended = _taken(case, iter(waiting.get, None))
    took = ended - began
    source.join()
    offered = sum(batch.num_rows for batch in batches)
    return Paced(max(0.0, took - float(due[-1])), offered / took, offered - seen)


# ---------------------------------------------------------------- on Spark


def on_spark(spark: SparkSession, case: Case, folder: Path) -> Result:
    """Measure the peak, find the rate that is held by the clock, then offer twice the peak."""
    tries = [peak_on_spark(spark, case, folder) for _ in range(2)]  # in the first one Java is still cold
    peak, lost = max(rate for rate, _ in tries), sum(lost for _, lost in tries)
    return searched(case, peak, lost, lambda rate: arriving(spark, case, folder, rate))


def peak_on_spark(spark: SparkSession, case: Case, folder: Path) -> tuple[float, int]:
    """Rows a second while all files are there from the start, and rows lost. A batch takes one file."""
    with _streamed(spark, case, folder, folder) as begin:
        query = begin.trigger(availableNow=True).start()
        query.awaitTermination()
    full = [p for p in query.recentProgress if p["numInputRows"]]
    steady = full[_WARM:] or full
    seconds = sum(p["durationMs"]["triggerExecution"] for p in steady) / 1000
    return sum(p["numInputRows"] for p in steady) / seconds, _lost(case, query)


def arriving(spark: SparkSession, case: Case, folder: Path, rate: float) -> Paced:
    """Files come by the clock to a stream that runs, after the first few; what it cannot take yet waits on disk."""
    files = sorted(folder.glob("*.parquet"))
    with tempfile.TemporaryDirectory(prefix="skyband-load-") as coming, _streamed(
        spark, case, folder, Path(coming)
    ) as begin:  # fmt: skip
        for file in files[:_WARM]:
            os.link(file, Path(coming, file.name))
        query = begin.start()
        try:
            query.processAllAvailable()
            began, period = time.perf_counter(), case.batch / rate
            for number, file in enumerate(files[_WARM:]):
                time.sleep(max(0.0, began + number * period - time.perf_counter()))
                os.link(file, Path(coming, file.name))
            query.processAllAvailable()
            took = time.perf_counter() - began
        finally:
            query.stop()
        rest = case.rows - _WARM * case.batch
        return Paced(max(0.0, took - (len(files) - _WARM) * period), rest / took, _lost(case, query))


@contextmanager
def _streamed(spark: SparkSession, case: Case, like: Path, folder: Path) -> Iterator[DataStreamWriter]:
    """The queries over the files of a folder, one a batch, about to start."""
    from skyband.spark import top_k

    asked = queries(case)
    df = spark.readStream.schema(spark.read.parquet(str(like)).schema).option("maxFilesPerTrigger", 1)
    step = top_k(asked[0] if len(asked) == 1 else asked)
    rows = df.parquet(str(folder)).withWatermark("ts", "10 seconds").transform(step)
    with tempfile.TemporaryDirectory(prefix="skyband-load-", ignore_cleanup_errors=True) as checkpoint:
        yield rows.writeStream.format("noop").option("checkpointLocation", checkpoint)


def _lost(case: Case, query: StreamingQuery) -> int:
    """Rows of the files that were not counted; each family of queries counts every row."""
    counted = sum(_counted(p) for p in query.recentProgress)
    return case.rows * max(1, round(counted / case.rows)) - counted


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
