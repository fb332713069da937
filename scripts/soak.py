"""Soak: a stream at half of its highest rate for an hour; memory, state and latency are sampled and must stay flat.

    python -m scripts.soak --minutes 60

Files arrive by the clock. Every five seconds a sample is written to benchmarks/results/soak.jsonl; at the end the
medians of the first and the last third after the warm-up are compared, and docs/img/soak.svg is drawn.
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

from skyband.bench.load import Case, queries
from skyband.bench.spark import trades

ROOT = Path(__file__).resolve().parents[1]
SECOND = 5.0  # between two files
GROUPS = 100
WARM = 0.25  # of the run, at most two minutes
FLAT = 0.05
MEMORY = ("java_mb", "python_mb", "workers_mb")


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


def main() -> int:
    """Run, sample, compare, draw."""
    parser = argparse.ArgumentParser(prog="python -m scripts.soak")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, help="rows a second (default: half of what is found first)")
    parser.add_argument("--out", default=str(ROOT / "benchmarks" / "results" / "soak.jsonl"))
    asked = parser.parse_args()
    from skyband.bench.load import peak_on_spark
    from skyband.bench.spark import write_files
    from skyband.spark import top_k
    from skyband.spark.session import session

    settings = {"spark.driver.memory": "1500m", "spark.sql.shuffle.partitions": "2"}
    spark = session("skyband soak", "local[2]", settings)
    root = Path(tempfile.mkdtemp(prefix="skyband-soak-"))
    (root / "in").mkdir()
    if asked.rate is None:
        case = Case("spark", GROUPS, 1, 400_000, 50_000)
        write_files(root / "peak", trades(case.rows, GROUPS, rate=1_000), case.batch)
        asked.rate = peak_on_spark(spark, case, root / "peak")[0] / 2
    print(f"{asked.rate:,.0f} rows/s for {asked.minutes:g} minutes", flush=True)
    source = Source(root / "in", asked.rate)
    source.start()
    time.sleep(1)
    step = top_k(queries(Case("spark", GROUPS, 1, 0, 0))[0])
    df = spark.readStream.schema(spark.read.parquet(str(root / "in")).schema).parquet(str(root / "in"))
    started = df.withWatermark("ts", "10 seconds").transform(step).writeStream.format("noop")
    query = started.option("checkpointLocation", str(root / "checkpoint")).start()
    samples: list[dict[str, float]] = []
    began = time.monotonic()
    while time.monotonic() - began < asked.minutes * 60 and query.isActive:
        time.sleep(5)
        sample = _sample(query, began)
        if sample is not None:
            samples.append(sample)
    failure = query.exception()
    query.stop()
    source.ended.set()
    source.join(10)
    spark.stop()
    shutil.rmtree(root, ignore_errors=True)
    if failure is not None:
        print(failure, file=sys.stderr)
        return 1
    return told(samples, asked.rate, Path(asked.out))


def _sample(query: Any, began: float) -> dict[str, float] | None:
    last = query.lastProgress
    if last is None or not last["stateOperators"]:
        return None
    state = last["stateOperators"][0]
    found = {
        "seconds": time.monotonic() - began,
        **memory(),
        "state_rows": state["numRowsTotal"],
        "state_kb": state["memoryUsedBytes"] / 1e3,
        "latency_s": last["durationMs"].get("triggerExecution", 0) / 1e3,
        "rows_per_s": last["processedRowsPerSecond"],
    }
    return {name: round(float(value), 1 if name != "latency_s" else 3) for name, value in found.items()}


def told(samples: list[dict[str, float]], rate: float, out: Path) -> int:
    """Compare thirds, write the samples, draw them. 0 if memory stayed flat."""
    if len(samples) < 12:
        print("too few samples to say anything", file=sys.stderr)
        return 1
    warm = min(120.0, samples[-1]["seconds"] * WARM)
    rest = [sample for sample in samples if sample["seconds"] >= warm]
    third = len(rest) // 3
    grown = {}
    for name in (*MEMORY, "state_kb", "latency_s"):
        first = statistics.median(sample[name] for sample in rest[:third])
        last = statistics.median(sample[name] for sample in rest[-third:])
        grown[name] = (last - first) / first if first else 0.0
        print(f"{name:12s} {first:10.1f} -> {last:10.1f}  {grown[name]:+.1%}")
    out.parent.mkdir(parents=True, exist_ok=True)
    head = {"rate": round(rate), "minutes": round(samples[-1]["seconds"] / 60, 1), "warm_seconds": round(warm)}
    change = {name: round(value, 4) for name, value in grown.items()}
    lines = [json.dumps({**head, "change": change}), *map(json.dumps, samples)]
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(samples, ROOT / "docs" / "img" / "soak.svg", f"{head['rate']:,} rows/s for {head['minutes']} minutes")
    total = [sum(s[name] for name in MEMORY) for s in rest]
    first, last = statistics.median(total[:third]), statistics.median(total[-third:])
    print(f"memory in all {first:.0f} -> {last:.0f} MB, {last / first - 1:+.1%}; flat is within {FLAT:.0%}")
    return 0 if last <= first * (1 + FLAT) else 1


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
    axes[1].plot(minutes, [sample["state_kb"] for sample in samples])
    axes[2].plot(minutes, [sample["latency_s"] for sample in samples])
    for axis, label in zip(axes, ("memory, MB", "state, KB", "a batch, s"), strict=True):
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
