# /// script
# dependencies = ["apache-flink==2.3.0", "setuptools"]
# ///
"""PyFlink: SQL that runs in the JVM alone, over a CSV file (the wheel has no Parquet).

plain: Window Top-N, ROW_NUMBER over the windows of HOP, as the manual has it.
panes: the same over TUMBLE of one slide first, and its winners through HOP.
"""

import csv
import shutil
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from _task import Cannot, Columns, Task, main
from pyflink.table import EnvironmentSettings, TableEnvironment

SETTINGS = {
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    "taskmanager.memory.process.size": "4g",
    "taskmanager.numberOfTaskSlots": "2",
}


def answers(task: Task, folder: Path) -> Columns:
    if task.counts:
        raise Cannot("Window Top-N knows windows over time only; ROW_NUMBER over a frame of ROWS is refused")
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in SETTINGS.items():
        tables.get_config().set(name, value)
    tables.execute_sql(
        "CREATE TABLE trades (ts BIGINT, id BIGINT, price DOUBLE, volume INT, symbol STRING, "
        "et AS TO_TIMESTAMP_LTZ(ts * 1000, 3), WATERMARK FOR et AS et) WITH "
        f"('connector' = 'filesystem', 'path' = 'file://{folder / 'stream.csv'}', 'format' = 'csv')"
    )
    tables.execute_sql("CREATE VIEW scored AS SELECT ts, id, symbol, et, price * volume AS score FROM trades")
    source, at = "scored", "et"
    if task.way == "panes":
        tumble = f"TUMBLE(TABLE scored, DESCRIPTOR(et), {seconds(task.slide)})"
        tables.execute_sql(f"CREATE VIEW winners AS SELECT ts, id, symbol, score, wt FROM ({best(task, tumble)})")
        source, at = "winners", "wt"
    hop = f"HOP(TABLE {source}, DESCRIPTOR({at}), {seconds(task.slide)}, {seconds(task.win)})"
    out = folder / f"flink-{task.way}"
    shutil.rmtree(out, ignore_errors=True)  # what another task has left
    tables.execute_sql(
        "CREATE TABLE told (e TIMESTAMP(3), symbol STRING, r BIGINT, id BIGINT) WITH "
        f"('connector' = 'filesystem', 'path' = 'file://{out}', 'format' = 'csv')"
    )
    tables.execute_sql(f"INSERT INTO told SELECT window_end, symbol, rn, id FROM ({best(task, hop)})").wait()
    return read(out, task)


def seconds(count: int) -> str:
    return f"INTERVAL '{count}' SECOND(5)"


def best(task: Task, windows: str) -> str:
    """The k best rows of each window, numbered."""
    keys = "window_start, window_end" + (", symbol" if task.per else "")
    number = f"ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY score DESC, ts DESC, id DESC) AS rn"
    columns = "ts, id, symbol, score, window_end, window_time AS wt"
    return f"SELECT * FROM (SELECT {columns}, {number} FROM TABLE({windows})) WHERE rn <= {task.k}"


def read(out: Path, task: Task) -> Columns:
    """What the job has written."""
    told = []
    for path in sorted(out.rglob("*")):
        if path.is_file():
            with path.open() as lines:
                told += list(csv.reader(lines))
    end = [int(datetime.fromisoformat(line[0]).replace(tzinfo=UTC).timestamp()) for line in told]
    group = [int(line[1][3:]) if task.per else 0 for line in told]
    return np.array(end), np.array(group), np.array([int(x[2]) for x in told]), np.array([int(x[3]) for x in told])


main(answers)
