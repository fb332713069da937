"""Bad input: damaged texts, files, scores, batches, states and requests.

    python -m scripts.fuzz --inputs 1000000 --seconds 1200 --seed 1

Only errors of ours may come out, each naming its cause; whatever is accepted must be right. Inputs run in child
processes, so that a crash or a hang is found too. Input number n of a target depends on the seed and n alone:
`--target texts --only 4711` runs one again and shows it.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import mmap
import os
import random
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.fuzz import batches, forged, http, state, texts

LIMIT = 30
"""Seconds that one input may take."""


@dataclass(frozen=True)
class Target:
    """What is fuzzed: how an input is made, and whether it is accepted; anything wrong raises."""

    make: Callable[[random.Random], Any]
    check: Callable[[Any], bool]
    share: int  # of all inputs
    block: int = 2_000  # inputs of one child process


TARGETS = {
    "texts": Target(texts.query_text, texts.check_query_text, 15),
    "files": Target(texts.pipeline_file, texts.check_pipeline_file, 15),
    "expressions": Target(texts.expression, texts.check_expression, 40),
    "batches": Target(batches.batch, batches.check_batch, 2),
    "state": Target(state.damaged, state.check_damaged, 18),
    "forged": Target(forged.forged, forged.check_forged, 5),
    "http": Target(http.request, http.check_request, 5),
}


class _TooLongError(Exception):
    """An input took longer than it may."""


def main() -> int:
    """Run, print a table, return 0 if nothing was found."""
    asked = _arguments()
    if asked.only is not None:
        return _again(asked)
    names = [asked.target] if asked.target else list(TARGETS)
    whole = sum(TARGETS[name].share for name in names)
    began, found, told = time.monotonic(), 0, []
    for name in names:
        target = TARGETS[name]
        inputs = max(1, asked.inputs * target.share // whole)
        count = _fuzz(name, inputs, asked, asked.seconds * target.share / whole)
        found += count["wrong"]
        told.append({"target": name, **count})
        print(
            "{target:12s} {inputs:8d} inputs, {accepted:7d} accepted, {wrong} wrong, {seconds:.0f} s".format(
                **told[-1]
            ),
            flush=True,
        )
    total = sum(row["inputs"] for row in told)
    print(f"{total} inputs in {time.monotonic() - began:.0f} s, {found} wrong")
    if asked.out:
        with Path(asked.out).open("a") as file:
            file.write(json.dumps({"seed": asked.seed, "inputs": total, "wrong": found, "targets": told}) + "\n")
    return 1 if found else 0


def _fuzz(name: str, inputs: int, asked: argparse.Namespace, seconds: float) -> dict[str, Any]:
    """Blocks of inputs, each in a child; what a child leaves behind tells how far it came."""
    began, done, accepted, wrong = time.monotonic(), 0, 0, 0
    TARGETS[name].make(random.Random(0))  # what children share is loaded once ...
    until = time.monotonic() + seconds  # ... and compiled, which is no part of the time for inputs
    note = mmap.mmap(-1, 16)
    while done < inputs and time.monotonic() < until and wrong < asked.most:
        end = min(inputs, done + TARGETS[name].block)
        note[:16] = struct.pack("qq", done, 0)
        child = os.fork()
        if not child:
            _child(name, asked.seed, range(done, end), note, until)
        _, status = os.waitpid(child, 0)
        at, good = struct.unpack("qq", note[:16])
        accepted += good
        if status:
            wrong += 1
            how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
            print(
                f"WRONG: input {at} of {name} ended with {how}: --seed {asked.seed} --target {name} --only {at}",
                flush=True,
            )
            at += 1
        stopped = at < end and not status
        done = at
        if stopped:
            break
    return {"inputs": done, "accepted": accepted, "wrong": wrong, "seconds": round(time.monotonic() - began, 1)}


def _child(name: str, seed: str, numbers: range, note: mmap.mmap, until: float) -> None:
    """Run a block and leave, without what Python does at an exit."""
    signal.signal(signal.SIGALRM, _alarm)
    good, status = 0, 0
    try:
        for number in numbers:
            note[:16] = struct.pack("qq", number, good)
            if time.monotonic() > until:
                os._exit(0)
            good += _one(name, seed, number)
        note[:16] = struct.pack("qq", numbers.stop, good)
    except BaseException:  # noqa: BLE001 - whatever it is, it is what we are looking for
        traceback.print_exc()
        sys.stderr.flush()
        status = 1
    os._exit(status)


def _one(name: str, seed: str, number: int, *, show: bool = False) -> bool:
    target = TARGETS[name]
    made = target.make(random.Random(f"{seed} {name} {number}"))
    if show:
        print(made)
    signal.alarm(LIMIT)
    faulthandler.dump_traceback_later(2 * LIMIT, exit=True)  # for a hang below Python
    try:
        return target.check(made)
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()


def _alarm(*_: object) -> None:
    raise _TooLongError


def _again(asked: argparse.Namespace) -> int:
    signal.signal(signal.SIGALRM, _alarm)
    print("accepted" if _one(asked.target, asked.seed, asked.only, show=True) else "refused")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.fuzz", description="Damaged input of every kind.")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--target", choices=list(TARGETS))
    parser.add_argument("--only", type=int, help="the number of an input to run again")
    parser.add_argument("--most", type=int, default=5, help="wrong inputs of a target after which it ends")
    parser.add_argument("--out", help="a file to which a line with the counts is added")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
