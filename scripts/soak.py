"""Soak: a stream at half of its highest rate for an hour; memory, state and latency are sampled and must stay flat.

    python -m scripts.soak --minutes 60

Files arrive by the clock. Samples are taken every five seconds; at the end they are written to
lab/results/soak.jsonl, under a first line with the verdict, and docs/img/soak.svg is drawn. After the warm-up
the first and the last third are compared. Memory, that of the JVM, of the driver's Python and of the Python workers,
each and together, may grow by 5 % in the median. Rows and bytes of the state, what is alive in Java's heap, the time of
a batch and the rows that wait may not grow either.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from skyband_lab.bench.load import Case, queries
from skyband_lab.bench.spark import trades

ROOT = Path(__file__).resolve().parents[1]
SECOND = 5.0  # between two files
GROUPS = 100
WARM = 0.25  # of the run, at most two minutes
CLEANED = 1 / 12  # of the run: how often Java cleans its heap, so that one sees what is alive in it
FLAT = 0.05
MEMORY = ("java_mb", "python_mb", "workers_mb")
# of the rest: by which factor, and by how much besides, the median may be larger at the end
GROWTH = {
    "kept_rows": (1.1, 100.0),
    "checkpoint_kb": (1.5, 2_000.0),
    "state_kb": (1.5, 64_000.0),  # RocksDB writes its buffer of 64 MB out when it is full
    "latency_s": (1.25, 0.25),
    "behind_s": (1.0, 2 * SECOND),
    "heap_mb": (1.25, 50.0),
}
SETTINGS = {
    "spark.driver.memory": "1500m",
    # all of the heap from the start: what grows then is a leak, and no heap that fills before it is cleaned
    "spark.driver.extraJavaOptions": "-Xms1500m -XX:+AlwaysPreTouch",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "50",
    "spark.sql.streaming.minBatchesToRetain": "10",  # so that what is kept for a restart is soon as much as it ever is
    "spark.sql.streaming.stateStore.maintenanceInterval": "20s",
}


class Source(threading.Thread):
    """Writes one file every few seconds; event time goes with the clock."""

    def __init__(self, folder: Path, rate: float) -> None:
        super().__init__(daemon=True)
        self.folder, self.rows = folder, max(1, int(rate * SECOND))
        self.number, self.ended = 0, threading.Event()

    def run(self) -> None:
        """Until told to end."""
        table = trades(self.rows, GROUPS, rate=max(1, int(self.rows / SECOND)))
        began = time.monotonic()
        while not self.ended.is_set():
            shift = int(self.number * SECOND * 1e6)
            moved = table.set_column(0, "ts", _later(table["ts"], shift))
            pq.write_table(moved, self.folder / ".part")
            os.utime(self.folder / ".part", (1_700_000_000 + self.number,) * 2)
            (self.folder / ".part").rename(self.folder / f"{self.number:06d}.parquet")
            if self.number > 50:
                (self.folder / f"{self.number - 50:06d}.parquet").unlink(missing_ok=True)
            self.number += 1
            self.ended.wait(max(0.0, began + self.number * SECOND - time.monotonic()))


def _later(column: Any, micros: int) -> Any:
    import pyarrow as pa

    kind = column.type
    return pa.chunked_array([pa.array(column.cast(pa.int64()).to_numpy() + micros, pa.int64()).cast(kind)])


def memory() -> dict[str, float]:
    """Of the JVM, of this process, and of the Python workers, in megabytes."""
    me = psutil.Process()
    found = dict.fromkeys(MEMORY, 0.0)
    found["python_mb"] = me.memory_info().rss / 1e6
    for child in me.children(recursive=True):
        try:
            line = " ".join(child.cmdline())
            used = child.memory_full_info().uss / 1e6  # what workers share with their daemon counts once
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        found["java_mb" if "/bin/java" in line else "workers_mb"] += used
    return found


def peak(spark: Any, root: Path) -> float:
    """The highest rate, in rows a second, of files so large that a batch takes a third of the time between two."""
    from skyband_lab.bench.load import peak_on_spark
    from skyband_lab.bench.spark import write_files

    rows = 200_000
    while True:
        case, folder = Case("spark", GROUPS, 1, 5 * rows, rows), root / f"peak-{rows}"
        write_files(folder, trades(case.rows, GROUPS, rate=max(1_000, int(rows / SECOND))), rows)
        found, _ = peak_on_spark(spark, case, folder)
        shutil.rmtree(folder)
        print(f"files of {rows:,} rows: {found:,.0f} rows/s", flush=True)
        if rows / found >= SECOND / 3 or rows > 1_000_000:
            return found
        rows *= 2


def main() -> int:
    """Run, sample, compare, draw."""
    parser = argparse.ArgumentParser(prog="python -m scripts.soak")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, help="rows a second (default: half of what is found first)")
    parser.add_argument("--plot", default=str(ROOT / "docs" / "img" / "soak.svg"))
    parser.add_argument("--out", default=str(ROOT / "lab" / "results" / "soak.jsonl"))
    asked = parser.parse_args()
    from skyband.spark import top_k
    from skyband.spark.session import session

    spark = session("skyband soak", "local[2]", SETTINGS)
    root = Path(tempfile.mkdtemp(prefix="skyband-soak-"))
    (root / "in").mkdir()
    if asked.rate is None:
        asked.rate = peak(spark, root) / 2
    print(f"{asked.rate:,.0f} rows/s for {asked.minutes:g} minutes", flush=True)
    source = Source(root / "in", asked.rate)
    source.start()
    while not source.number:  # the first file tells the schema
        time.sleep(0.1)
    step = top_k(queries(Case("spark", GROUPS, 1, 0, 0))[0])
    df = spark.readStream.schema(spark.read.parquet(str(root / "in")).schema).parquet(str(root / "in"))
    started = df.withWatermark("ts", "10 seconds").transform(step).writeStream.format("noop")
    query = started.option("checkpointLocation", str(root / "checkpoint")).start()
    watch = Watch(spark, query, source, asked.rate, root / "checkpoint" / "state", asked.minutes * 60 * CLEANED)
    while time.monotonic() - watch.began < asked.minutes * 60 and query.isActive:
        time.sleep(5)
        watch.look()
    failure = query.exception()
    query.stop()
    source.ended.set()
    source.join(10)
    spark.stop()
    shutil.rmtree(root, ignore_errors=True)
    if failure is not None:
        print(failure, file=sys.stderr)
        return 1
    return told(watch.samples, asked.rate, Path(asked.out), Path(asked.plot))


class Watch:
    """Samples of a stream that runs."""

    def __init__(self, spark: Any, query: Any, source: Source, rate: float, state: Path, cleaned: float) -> None:
        self.spark, self.query, self.source, self.rate, self.state = spark, query, source, rate, state
        self.cleaned, self._heap = cleaned, (-cleaned, 0.0)  # when, and what was alive then
        self.began = time.monotonic()
        self.samples: list[dict[str, float]] = []
        self._taken: dict[int, int] = {}  # rows by batch
        self._before = 0  # rows of batches that are no longer told

    def look(self) -> None:
        """Take a sample, once there is a batch."""
        recent = self.query.recentProgress
        self._taken |= {p["batchId"]: p["numInputRows"] for p in recent}
        for batch in sorted(self._taken)[:-200]:
            self._before += self._taken.pop(batch)
        full = [p for p in recent if p["stateOperators"] and p["numInputRows"]]
        if not full:
            return
        last = full[-1]
        state = last["stateOperators"][0]
        behind = self.source.number * self.source.rows - self._before - sum(self._taken.values())
        found = {
            "seconds": time.monotonic() - self.began,
            **memory(),
            "heap_mb": self._alive(),
            "kept_rows": sum(row["candidates"] or 0 for row in _counts(last)),
            "checkpoint_kb": sum(_size(path) for path in self.state.rglob("*")) / 1e3,
            "state_kb": state["memoryUsedBytes"] / 1e3,
            "latency_s": last["durationMs"].get("triggerExecution", 0) / 1e3,
            "behind_s": behind / self.rate,
            "rows_per_s": last["processedRowsPerSecond"],
        }
        self.samples.append(
            {name: round(float(value), 3 if name.endswith("_s") else 1) for name, value in found.items()}
        )

    def _alive(self) -> float:
        """What is alive in Java's heap, in megabytes, as of the last time that it was asked to clean it."""
        now = time.monotonic() - self.began
        if now - self._heap[0] >= self.cleaned:
            jvm = self.spark._jvm.java.lang  # noqa: SLF001 - no other way to ask
            jvm.System.gc()
            runtime = jvm.Runtime.getRuntime()
            self._heap = now, (runtime.totalMemory() - runtime.freeMemory()) / 1e6
        return self._heap[1]


def _counts(report: Any) -> list[dict[str, Any]]:
    found = [row.asDict() for name, row in report["observedMetrics"].items() if name.startswith("skyband")]
    return [row for row in found if "candidates" in row]


def _size(path: Path) -> int:
    """Bytes of a file, if it is still there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def told(samples: list[dict[str, float]], rate: float, out: Path, plot: Path) -> int:
    """Compare thirds, write the samples, draw them. 0 if all stayed flat."""
    if len(samples) < 12:
        print("too few samples to say anything", file=sys.stderr)
        return 1
    warm = min(120.0, samples[-1]["seconds"] * WARM)
    rest = [sample for sample in samples if sample["seconds"] >= warm]
    third = len(rest) // 3
    for sample in samples:
        sample["memory_mb"] = round(sum(sample[name] for name in MEMORY), 1)
    change, wrong = {}, []
    for name in ("memory_mb", *MEMORY, *GROWTH):
        first, last = (statistics.median([s[name] for s in part]) for part in (rest[:third], rest[-third:]))
        change[name] = [first, last]
        factor, more = GROWTH.get(name, (1 + FLAT, 0.0))
        grown = last > first * factor + more
        wrong += [name] * grown
        share = f"{last / first - 1:+.1%}" if first > 0 else ""
        print(f"{name:12s} {first:10.2f} -> {last:10.2f}  {share}{'  GROWN' if grown else ''}")
    head = {
        "rate": round(rate),
        "minutes": round(samples[-1]["seconds"] / 60, 1),
        "warm_seconds": round(warm),
        "flat": not wrong,
        "first_and_last_third": change,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(map(json.dumps, [head, *samples])) + "\n", encoding="utf-8")
    plot.parent.mkdir(parents=True, exist_ok=True)
    draw(samples, plot, f"{head['rate']:,} rows/s for {head['minutes']} minutes")
    print(
        f"grown: {', '.join(wrong)}" if wrong else f"flat: memory within {FLAT:.0%}, state, time of a batch and backlog"
    )
    return 1 if wrong else 0


def draw(samples: list[dict[str, float]], path: Path, title: str) -> None:
    """Memory, state and latency, one below the other."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    minutes = [sample["seconds"] / 60 for sample in samples]
    figure, axes = plt.subplots(3, 1, figsize=(7, 6), sharex=True)
    for name, label in zip(MEMORY, ("JVM", "Python driver", "Python workers"), strict=True):
        axes[0].plot(minutes, [sample[name] for sample in samples], label=label)
    axes[0].legend(loc="upper left", fontsize=8)
    axes[1].plot(minutes, [sample["kept_rows"] for sample in samples])
    axes[2].plot(minutes, [sample["latency_s"] for sample in samples], label="a batch")
    axes[2].plot(minutes, [sample["behind_s"] for sample in samples], label="rows that wait")
    axes[2].legend(loc="upper left", fontsize=8)
    for axis, label in zip(axes, ("memory, MB", "rows in the state", "seconds"), strict=True):
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0].set_title(title, fontsize=10)
    axes[2].set_xlabel("minutes")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
