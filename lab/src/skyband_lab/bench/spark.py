"""The Spark suite: a stream of files through skyband and through plain Spark, in one session."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.query import Sliding, TopK

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SLIDE = 60
WARM = 2  # batches before the clock runs: workers start and load their kernels in the first
_COLUMNS = ["ts", "id", "price", "volume", "symbol", "venue"]


class Case(NamedTuple):
    """One way of doing one task over one folder of files."""

    way: str
    ratio: int  # win / slide
    k: int
    groups: int  # 1: no groups
    rows: int
    batch: int

    def __str__(self) -> str:
        shape = f"win/slide={self.ratio} k={self.k} groups={self.groups}"
        return shape if self.batch in (400_000, 1_000_000) else f"{shape} batches of {self.batch}"


@dataclass(frozen=True)
class Result:
    """What one way cost."""

    suite: str
    case: str
    way: str
    rows: int
    seconds: float
    cpu_seconds: float  # JVM and Python workers
    batch_ms: float  # median of a batch
    state_bytes: int  # the most that the state store held
    answers: int  # rows that went out

    @property
    def micros_per_row(self) -> float:
        """CPU microseconds a row."""
        return self.cpu_seconds / self.rows * 1e6

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> Result:
        """Read what `as_dict` has written."""
        return cls(**{field.name: line[field.name] for field in fields(cls)})

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {
            **asdict(self),
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
            "micros_per_row": round(self.micros_per_row, 3),
            "rows_per_s": round(self.rows / self.seconds),
            "rows_per_cpu_s": round(self.rows / self.cpu_seconds),
        }


def trades(rows: int, groups: int, seed: int = 7, rate: int = 100) -> pa.Table:
    """Seeded trades, `rate` of them a second of event time.

    Examples
    --------
    >>> trades(3, 2).schema.names
    ['ts', 'id', 'price', 'volume', 'symbol', 'venue']
    """
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, max(rows // rate, 1) * 1_000_000, rows)) + 1_700_000_040_000_000
    names = np.array([f"SYM{i:05d}" for i in range(groups)])
    columns = [
        pa.array(at, pa.timestamp("us", "UTC")),
        pa.array(np.arange(rows)),
        pa.array(np.round(np.exp(rng.normal(3.5, 1.0, rows)), 2)),
        pa.array((np.maximum(1, np.round(np.exp(rng.normal(1.0, 1.2, rows)))) * 100).astype(np.int32)),
        pa.array(names[rng.integers(0, groups, rows)]),
        pa.array(rng.integers(0, 16, rows, np.int32)),
    ]
    return pa.table(dict(zip(_COLUMNS, columns, strict=True)))


def write_files(folder: Path, table: pa.Table, batch: int) -> None:
    """One file a batch, in order."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for number, low in enumerate(range(0, table.num_rows, batch)):
        path = folder / f"{number:05d}.parquet"
        pq.write_table(table.slice(low, batch), path)
        os.utime(path, (1_700_000_000 + number,) * 2)


# ---------------------------------------------------------------- the ways


def ours(case: Case) -> Callable[[DataFrame], DataFrame]:
    """Skyband."""
    from skyband.spark import top_k

    window = Sliding(f"{case.ratio * SLIDE} seconds", f"{SLIDE} seconds")
    per = ["symbol"] if case.groups > 1 else ()
    return top_k(TopK(k=case.k, by="price * volume", window=window, time="ts", id="id", per=per))


def nothing(case: Case) -> Callable[[DataFrame], DataFrame]:  # noqa: ARG001 - one signature for all ways
    """(a): the stream as it is, with the score."""

    def step(df: DataFrame) -> DataFrame:
        return df.selectExpr("*", "price * volume AS score")

    return step


def aggregated(case: Case) -> Callable[[DataFrame], DataFrame]:
    """(b): max_by over window()."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    def step(df: DataFrame) -> DataFrame:
        keys = ["symbol"] if case.groups > 1 else []
        window = F.window("ts", f"{case.ratio * SLIDE} seconds", f"{SLIDE} seconds").alias("w")
        best = F.max_by(F.struct(*_COLUMNS), _order(F), case.k).alias("best")
        return df.groupBy(window, *keys).agg(best).select("w", *keys, F.posexplode("best"))

    return step


def two_level(case: Case) -> Callable[[DataFrame], DataFrame]:
    """(c): max_by per pane, then over the windows of panes."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    def step(df: DataFrame) -> DataFrame:
        keys = ["symbol"] if case.groups > 1 else []
        pane = F.window("ts", f"{SLIDE} seconds").alias("p")
        best = F.max_by(F.struct(*_COLUMNS), _order(F), case.k).alias("best")
        panes = df.groupBy(pane, *keys).agg(best)
        rows = panes.select(F.window_time("p").alias("at"), *keys, F.explode("best").alias("row"))
        window = F.window("at", f"{case.ratio * SLIDE} seconds", f"{SLIDE} seconds").alias("w")
        order = F.struct((F.col("row.price") * F.col("row.volume")).alias("s"), "row.ts", "row.id")
        return (
            rows.groupBy(window, *keys)
            .agg(F.max_by("row", order, case.k).alias("best"))
            .select("w", *keys, F.posexplode("best"))
        )

    return step


def _order(F: Any) -> Any:  # noqa: N803 - Spark's own way
    return F.struct((F.col("price") * F.col("volume")).alias("s"), "ts", "id")


Ways = dict[str, "Callable[[Case], Callable[[DataFrame], DataFrame]]"]
WAYS: Ways = {
    "skyband": ours,
    "no top-k": nothing,
    "max_by": aggregated,
    "two-level": two_level,
}


# ---------------------------------------------------------------- measuring


def measure(spark: SparkSession, case: Case, folder: Path, ways: Ways | None = None) -> Result:
    """Read all files of `folder`, a file a batch, through one way into nowhere. The first batches do not count."""
    way = (WAYS if ways is None else ways)[case.way]
    df = spark.readStream.schema(spark.read.parquet(str(folder)).schema).option("maxFilesPerTrigger", 1)
    stream = df.parquet(str(folder)).withWatermark("ts", "10 seconds").transform(way(case))
    scratch = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    query = (
        stream.writeStream.format("noop")
        .option("checkpointLocation", str(scratch))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )
    while query.isActive and len(_reports(query)) < WARM:
        time.sleep(0.1)
    done = len(_reports(query))
    began, before = time.perf_counter(), cpu_seconds()
    query.awaitTermination()
    seconds, used = time.perf_counter() - began, cpu_seconds() - before
    reports = _reports(query)[done:]
    states = [sum(s["customMetrics"].get("rocksdbSstFileSize", 0) for s in p["stateOperators"]) for p in reports]
    memory = [sum(s["memoryUsedBytes"] for s in p["stateOperators"]) for p in reports]
    times = sorted(p["durationMs"]["triggerExecution"] for p in reports)
    out = sum(max(p["sink"]["numOutputRows"], 0) for p in query.recentProgress)
    shutil.rmtree(scratch, ignore_errors=True)
    return Result(
        suite="spark",
        case=str(case),
        way=case.way,
        rows=sum(p["numInputRows"] for p in reports),
        seconds=seconds,
        cpu_seconds=used,
        batch_ms=float(times[len(times) // 2]),
        state_bytes=max([*states, 0]) or max([*memory, 0]),
        answers=out,
    )


def _reports(query: Any) -> list[Any]:
    """Of the batches that are done and had rows, what Spark says of them."""
    return [p for p in query.recentProgress if p["numInputRows"]]


def cpu_seconds() -> float:
    """Seconds of CPU of this process and all it has started, with those of its children that have ended."""
    import psutil

    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def cases(*, quick: bool) -> list[Case]:
    """What the suite measures.

    What is compared closely comes three times, in turn, since neighbours and Java's compiler disturb any one run. What
    is slow has fewer rows.
    """
    big, small = (2_800_000, 280_000) if quick else (7_000_000, 700_000)
    batch = big // 7
    ours = [Case("skyband", ratio, 10, 1, big, batch) for ratio in (10, 60, 360, 600)]
    close = [*ours, *(Case(way, 10, 10, 1, big, batch) for way in ("no top-k", "two-level"))]
    todo = close * 3
    todo += [Case("two-level", ratio, 10, 1, big, batch) for ratio in (60, 360, 600)]
    todo += [Case(way, 10, 100, 1, big, batch) for way in ("skyband", "two-level")]
    todo += [Case(way, 10, 10, 500, big, batch) for way in ("skyband", "two-level")]
    todo += [Case(way, 10, 10, 1, 20_000, 1_000) for way in ("skyband", "max_by")] * 3
    todo.append(Case("max_by", 10, 10, 1, 4 * batch, batch))
    todo.append(Case("max_by", 360, 10, 1, small // 4, small // 28))
    todo += [Case(way, 60, 3, 10_000, small, small // 7) for way in ("skyband", "max_by")]  # for its state
    todo += [Case(way, 60, 3, 10_000, batch, batch // 4) for way in ("skyband", "two-level")]
    return todo


def settled(found: list[Result]) -> list[Result]:
    """Case by case, of the runs of one way the one with the least CPU a row: what disturbs a run only adds to it.

    Its time of a batch is the middle one of all runs: that does not go with the CPU.
    """
    cases: dict[str, dict[str, list[Result]]] = {}
    for result in found:
        cases.setdefault(result.case, {}).setdefault(result.way, []).append(result)
    return [
        replace(min(runs, key=lambda run: run.micros_per_row), batch_ms=median(run.batch_ms for run in runs))
        for ways in cases.values()
        for runs in ways.values()
    ]


def run(todo: list[Case], *, seed: int = 7) -> Iterator[Result]:
    """Measure one case after the other in one warm session."""
    from skyband.spark.session import session

    spark = session("skyband bench", "local[2]", {"spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "2"})
    folders: dict[tuple[int, int, int], Path] = {}
    root = Path(tempfile.mkdtemp(prefix="skyband-bench-"))
    try:
        for at, case in enumerate([*(warm := _warm(todo)), *todo]):
            key = (case.rows, case.groups, case.batch)
            if key not in folders:
                folders[key] = root / "-".join(map(str, key))
                write_files(folders[key], trades(case.rows, case.groups, seed), case.batch)
            result = measure(spark, case, folders[key])
            if at >= len(warm):
                yield result
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


def _warm(todo: list[Case]) -> list[Case]:
    """Every way on rows that do not count: the first runs of anything pay for the JVM's compiler, and long."""
    ways = list(dict.fromkeys(case.way for case in todo))
    long = [Case(way, 10, 10, 1, todo[0].rows, todo[0].batch) for way in ways if way != "max_by"]
    return [Case(way, 10, 10, 1, 400_000, 100_000) for way in ways] * 2 + long * 3
