"""Crash suite: random pipelines under random faults; the answers must be those of an undisturbed run.

    python -m scripts.torture --faults 300 --minutes 45 --seed 1

A run is a chain of rounds. A round has its own pipelines, servers and driver, and a plan of faults that its seed
decides before the first of them strikes: `--seed 1 --first 3 --rounds 1` is round 3 of seed 1 alone.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from scripts.torture.faults import FAULTS, Fault, MissedError, missing
from scripts.torture.round import Round, WrongError

KILLS = 0.2
"""Which part of the faults may kill the driver at most."""


@dataclass(frozen=True)
class Step:
    """One fault: when, on which streams' rows, for how long."""

    fault: Fault
    fed: tuple[str, ...]
    moment: float
    hold: float

    def __str__(self) -> str:
        fed = ", ".join(self.fed)
        return f"{self.fault.name}, {self.moment:.1f} s after rows for {fed}, for {self.hold:.1f} s"


def plan(seed: str, faults: int, names: list[str], lacking: dict[str, str]) -> list[Step]:
    """All faults of a round, from its seed."""
    rng = random.Random(f"{seed} plan")
    able = [f for f in FAULTS if not f.needs or f.needs not in lacking]
    steps: list[Step] = []
    for _ in range(faults):
        kills = sum(s.fault.kills_driver for s in steps)
        may = [f for f in able if not f.kills_driver or kills < KILLS * faults]
        fault = rng.choices(may, [f.weight for f in may])[0]
        fed = tuple(sorted(rng.sample(names, rng.randint(1, len(names)))))
        steps.append(Step(fault, fed, rng.uniform(0, 1.2), rng.uniform(0.3, 2.0)))
    return steps


def masters(seed: str, number: int) -> str:
    """Where a round runs: one in four on executors of their own, the others with and without second tries."""
    rng = random.Random(f"{seed} master")
    return "local-cluster[2,1,900]" if number % 4 == 3 else rng.choice(["local[2]", "local[2,3]"])


def main() -> int:
    """Run, print, return 0 if nothing was lost, twice or different."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a round is cleared away
    began, until = time.monotonic(), time.monotonic() + asked.minutes * 60
    log = Log(until)
    done, slow = log.done, log.slow
    number, wrong = asked.first, 0
    while sum(done.values()) < asked.faults and time.monotonic() < until and number < asked.first + asked.rounds:
        seed = f"{asked.seed}.{number}"
        each = min(asked.each, asked.faults - sum(done.values()))
        wrong += not _round(seed, number, each, asked, log)
        number += 1
        if wrong and not asked.go_on:
            break
    _table(done, slow)
    minutes = (time.monotonic() - began) / 60
    kills = sum(done[f.name] for f in FAULTS if f.kills_driver)
    verdict = f"{wrong} rounds went wrong" if wrong else "nothing lost, nothing twice, nothing different"
    rounds = number - asked.first
    print(f"{done.total()} faults ({kills} kills of a driver), {rounds} rounds, {minutes:.1f} minutes: {verdict}")
    if asked.out:
        told = {"seed": asked.seed, "faults": sum(done.values()), "driver_kills": kills, "wrong": wrong}
        with Path(asked.out).open("a") as file:
            file.write(json.dumps({**told, "minutes": round(minutes, 1), "each": dict(done)}) + "\n")
    return 1 if wrong else 0


@dataclass
class Log:
    """What was done so far, and how long each took."""

    until: float
    done: Counter[str] = field(default_factory=Counter)
    slow: dict[str, list[float]] = field(default_factory=dict)


def _round(seed: str, number: int, faults: int, asked: argparse.Namespace, log: Log) -> bool:
    """One round. Whether all went well."""
    master = masters(seed, number)
    world = Round(seed, asked.streams, master)
    fine = False
    try:
        lacking = missing(world)
        steps = plan(seed, faults, [s.name for s in world.streams], lacking)
        print(f"\nround {seed} on {master}: {len(steps)} faults planned", flush=True)
        for stream in world.streams:
            print(f"  {stream}")
        for what, why in lacking.items():
            if what != "cluster":
                print(f"  left out: {what} ({why})")
        if asked.plan:
            print("\n".join(f"  {n:3d} {step}" for n, step in enumerate(steps, 1)))
        for _ in range(3):  # so that windows close
            world.feed(world.rows)
        print(f"  up and right after {world.settle(400):.1f} s: {world.expected} rows of answers", flush=True)
        if not log.done:  # a slow start must not leave a short run without faults
            log.until = max(log.until, time.monotonic() + asked.minutes * 30)
        for at, step in enumerate(steps, 1):
            if time.monotonic() > log.until:
                break
            before = world.expected
            try:
                took = _strike(world, step, random.Random(f"{seed} {at}"))
            except MissedError:
                print(f"  {at:3d} {step}: there was nothing to hit", flush=True)
                continue
            log.done[step.fault.name] += 1
            log.slow.setdefault(step.fault.name, []).append(took)
            more = f", with the next rows of {', '.join(world.nudged)}" if world.nudged else ""
            grown = f"{world.expected - before:+d} rows"
            print(f"  {at:3d} {step}: right again after {took:.1f} s{more}, {grown}", flush=True)
        time.sleep(1)  # what came twice would come now
        world.settle()
        fine = True
    except WrongError as error:
        print(f"WRONG in round {seed} (--seed {asked.seed} --first {number} --rounds 1):\n{error}", flush=True)
    finally:
        folder = world.close(keep=not fine)
        if not fine:
            print(f"everything is kept in {folder}", flush=True)
    return fine


def _strike(world: Round, step: Step, rng: random.Random) -> float:
    world.feed(step.fed, step.fault.twist)
    world.inside.feed()
    time.sleep(step.moment)
    mend = step.fault.strike(world, rng)
    if mend is not None:
        time.sleep(step.hold)
        mend()
    return world.settle()


def _table(done: Counter[str], slow: dict[str, list[float]]) -> None:
    print(f"\n{'fault':36s} {'times':>5s} {'right again after':>18s}")
    for fault in FAULTS:
        took = slow.get(fault.name)
        shown = f"{sum(took) / len(took):.1f} s, most {max(took):.1f} s" if took else "-"
        print(f"{fault.name:36s} {done[fault.name]:5d} {shown:>18s}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.torture", description="Break things; compare the answers.")
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", default=None)
    parser.add_argument("--first", type=int, default=0, help="the first round")
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--each", type=int, default=30, help="faults of a round")
    parser.add_argument("--streams", type=int, default=2, help="of a round, 1 to 6")
    parser.add_argument("--plan", action="store_true", help="print the plan of each round before it begins")
    parser.add_argument("--go-on", action="store_true", help="go on after a round that went wrong")
    parser.add_argument("--out", help="a file to which a line with the counts is added")
    found = parser.parse_args()
    if found.seed is None:
        found.seed = str(random.SystemRandom().randrange(1_000_000))
    print(f"seed {found.seed}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
