"""The pipeline on a real standalone cluster: a master and two workers, one executor killed in the middle.

Everything is a process of its own on this machine, from the installed pyspark. The answers must be those of a run
that nobody disturbed.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyspark

if TYPE_CHECKING:
    import pyarrow as pa

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests" / "spark"
QUERY = "per group"
BATCHES = 12


def main() -> None:
    """Run twice, disturb the second, compare."""
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]
    from streams import write_batches  # type: ignore[import-not-found]
    from test_top_k import QUERIES, asked, closed, cut, plain, trades  # type: ignore[import-not-found]

    import skyband as sb
    from skyband.spark.session import find_java

    find_java()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    folder = Path(tempfile.mkdtemp(prefix="skyband-cluster-"))
    batches = cut(trades(3_000, seed=21, disorder=15, span=3_000), BATCHES, seed=4)
    write_batches(folder / "in", batches)
    query = asked(**QUERIES[QUERY])
    expected = closed(sb.run(query, iter(batches), late="30 seconds"), batches, 30, query)
    want = plain(expected)
    with cluster(folder) as master:
        for name, kills in (("undisturbed", 0), ("one executor killed", 1)):
            began = time.monotonic()
            killed = drive(folder, name.split()[0], master, kills)
            got = plain(answers(folder / name.split()[0] / "out", expected.schema))
            if got != want:
                sys.exit(
                    f"{name}: {len(got)} rows, {len(set(want) - set(got))} missing, {len(set(got) - set(want))} new"
                )
            took = time.monotonic() - began
            print(f"{name}: {len(got)} answer rows, all as expected; {killed} killed; {took:.0f} s", flush=True)
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers; yields the master's address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Path(pyspark.__file__).parent
    env = {**os.environ, "SPARK_HOME": str(home)}
    address = f"spark://127.0.0.1:{port}"
    common = ["--host", "127.0.0.1", "--webui-port", "0"]
    start = [str(home / "bin" / "spark-class")]
    commands = [[*start, "org.apache.spark.deploy.master.Master", "--port", str(port), *common]]
    for number in (1, 2):
        room = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker{number}")]
        commands.append([*start, "org.apache.spark.deploy.worker.Worker", *common, *room, address])
    running = []
    try:
        for number, command in enumerate(commands):
            log = (folder / f"process{number}.log").open("wb")
            running.append(subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True))
            time.sleep(3)
        yield address
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            process.wait(30)


def drive(folder: Path, name: str, master: str, kills: int) -> int:
    """Run the driver to its end, killing an executor in the middle. How many were killed."""
    room = folder / name
    room.mkdir()
    command = [
        sys.executable,
        str(TESTS / "driver.py"),
        str(folder / "in"),
        str(room / "out"),
        str(room / "checkpoint"),
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent), str(ROOT / "src")])}
    log = (room / "driver.log").open("wb")
    driver = subprocess.Popen([*command, QUERY, master], env=env, stdout=log, stderr=log)
    killed, rng = 0, random.Random(3)
    deadline = time.monotonic() + 600
    while driver.poll() is None:
        if time.monotonic() > deadline:
            driver.kill()
            sys.exit(f"{name}: not done after ten minutes; see {room / 'driver.log'}")
        done = len(list((room / "checkpoint" / "commits").glob("[0-9]*")))
        if killed < kills and done >= BATCHES // 3:
            time.sleep(rng.random())
            executors = [p for p in psutil.process_iter(["cmdline"]) if "CoarseGrainedExecutorBackend" in _line(p)]
            if executors:
                rng.choice(executors).kill()
                killed += 1
        time.sleep(0.1)
    if driver.returncode:
        tail = (room / "driver.log").read_text(errors="replace")[-3000:]
        sys.exit(f"{name}: the driver ended with {driver.returncode}\n{tail}")
    if killed < kills:
        sys.exit(f"{name}: the run was over before an executor could be killed")
    return killed


def _line(process: psutil.Process) -> str:
    return " ".join(process.info["cmdline"] or [])


def answers(folder: Path, schema: pa.Schema) -> pa.Table:
    """The rows that count: those in files that the sink has committed. Spark writes times without their zone."""
    import pyarrow.parquet as pq

    names = set()
    for log in sorted((folder / "_spark_metadata").iterdir()):
        if log.name.startswith("."):
            continue
        names |= {Path(json.loads(line)["path"]).name for line in log.read_text().splitlines()[1:]}
    return pq.read_table([folder / name for name in sorted(names)]).cast(schema)


if __name__ == "__main__":
    main()
