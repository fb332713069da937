"""What can go wrong: each fault strikes, and gives back how it is mended."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from scripts.torture.round import Round

Mend = Callable[[], None]


@dataclass(frozen=True)
class Fault:
    """A way to break things."""

    name: str
    weight: int
    strike: Callable[[Round, random.Random], Mend | None]
    kills_driver: bool = False
    twist: str = ""  # what it does to the rows on their way in
    needs: str = ""  # "disk", "clock", "cluster"


def missing(round_: Round) -> dict[str, str]:
    """What this machine lacks, and why."""
    found = {}
    if not (round_.checkpoint.real and round_.sink.real):
        found["disk"] = "no right to mount a small file system"
    if not round_.clock.real:
        found["clock"] = "no C compiler for the library that turns the clock"
    if not round_.master.startswith("local-cluster"):
        found["cluster"] = "this round has no executors of its own"
    return found


def _driver(round_: Round, _: random.Random) -> Mend | None:
    round_.driver.kill()
    return None


def _between(round_: Round, _: random.Random) -> Mend | None:
    """In the moment after a file sink has committed a batch, before Spark has."""
    logs = [round_.folder / "sink" / s.name / "_spark_metadata" for s in round_.streams if s.sink == "parquet"]
    before, until = {f for log in logs for f in log.glob("[0-9]*")}, time.monotonic() + 5
    workers = round_.driver.workers()  # looking for them takes longer than that moment
    while time.monotonic() < until:
        if {f for log in logs for f in log.glob("[0-9]*")} - before:
            round_.driver.kill(workers)
            return None
    raise MissedError


class MissedError(Exception):
    """There was nothing to hit: this is no fault, and does not count as one."""


def _one(found: list[psutil.Process], rng: random.Random) -> None:
    if not found:
        raise MissedError
    try:
        rng.choice(found).kill()
    except psutil.NoSuchProcess:
        raise MissedError from None


def _java(round_: Round, rng: random.Random) -> Mend:
    _one(round_.driver.jvms(), rng)
    return round_.driver.kill  # what is left of it: Python without its Java


def _executor(round_: Round, rng: random.Random) -> Mend | None:
    _one(round_.driver.executors(), rng)
    return None


def _worker(round_: Round, rng: random.Random) -> Mend | None:
    found = round_.driver.workers()
    pids = {p.pid for p in found}
    forked = []
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.ppid() in pids:
                forked.append(process)
    _one(forked or found, rng)
    return None


def _daemon(round_: Round, rng: random.Random) -> Mend | None:
    found = round_.driver.workers()
    pids = {p.pid for p in found}
    leaders = []
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.ppid() not in pids:
                leaders.append(process)
    _one(leaders, rng)
    return None


def _workers(round_: Round, _: random.Random) -> Mend | None:
    found = round_.driver.workers()
    if not found:
        raise MissedError
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return None


def _frozen(round_: Round, _: random.Random) -> Mend:
    assert round_.driver.process is not None
    group = round_.driver.process.pid

    def tell(what: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, what)

    tell(signal.SIGSTOP)
    return lambda: tell(signal.SIGCONT)


def _clock(round_: Round, rng: random.Random) -> Mend | None:
    seconds = rng.choice([-86_400, -3_600, -30, 30, 3_600, 86_400, 0])
    round_.clock.turn(seconds)  # and so it stays, until the next jump
    return None


def _checkpoint(round_: Round, _: random.Random) -> Mend:
    round_.checkpoint.fill()
    return round_.checkpoint.free


def _sink(round_: Round, _: random.Random) -> Mend:
    round_.sink.fill()
    return round_.sink.free


def _redis(round_: Round, _: random.Random) -> Mend:
    round_.redis.kill()
    return round_.redis.start


def _hanging_redis(round_: Round, _: random.Random) -> Mend:
    return _hanging(round_.redis.process)


def _service(round_: Round, _: random.Random) -> Mend:
    round_.service.kill()
    return round_.service.start


def _hanging_service(round_: Round, _: random.Random) -> Mend:
    return _hanging(round_.service.process)


def _hanging(process: subprocess.Popen[bytes] | None) -> Mend:
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    return lambda: process.send_signal(signal.SIGCONT)


def _database(round_: Round, _: random.Random) -> Mend:
    round_.postgres.kill()
    return round_.postgres.start


def _inside(round_: Round, _: random.Random) -> Mend:
    round_.inside.kill()
    return round_.inside.start


def _nothing(_round: Round, _: random.Random) -> Mend | None:
    return None


FAULTS = (
    Fault("driver killed", 8, _driver, kills_driver=True),
    Fault("driver's Java killed", 4, _java, kills_driver=True),
    Fault("driver killed as a sink commits", 4, _between, kills_driver=True),
    Fault("executor killed", 12, _executor, needs="cluster"),
    Fault("Python worker killed", 12, _worker),
    Fault("Python daemon killed", 6, _daemon),
    Fault("all Python workers killed", 4, _workers),
    Fault("driver frozen", 4, _frozen),
    Fault("clock jumps", 7, _clock, needs="clock"),
    Fault("checkpoint's disk full", 7, _checkpoint, needs="disk"),
    Fault("sink's disk full", 7, _sink, needs="disk"),
    Fault("Redis killed", 6, _redis),
    Fault("Redis hangs", 4, _hanging_redis),
    Fault("database killed", 6, _database),
    Fault("remote service killed", 5, _service),
    Fault("remote service hangs", 4, _hanging_service),
    Fault("rows sent twice", 4, _nothing, twist="twice"),
    Fault("files written again", 4, _nothing, twist="rewritten"),
    Fault("files and entries reordered", 4, _nothing, twist="reordered"),
    Fault("process with join and view killed", 8, _inside),
)
