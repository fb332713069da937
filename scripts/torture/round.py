"""One round: its world, what is fed into it, and whether the answers are right."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from scripts.torture.compare import Answers, Listed, Parquet, difference, wanted
from scripts.torture.inside import Inside
from scripts.torture.pipelines import Rows, Stream, drawn
from scripts.torture.world import Disk, Driver, Postgres, Redis, Service, WallClock, scratch

MTIME = 1_700_000_000
PATIENCE = 300.0
"""Seconds after which answers that are not there count as lost."""
STILL = 15.0
"""Seconds without a new batch after which a stream that wants answers has forgotten its watermark."""


class WrongError(Exception):
    """Answers that differ from those of the undisturbed run."""


class Round:
    """Streams under one driver, with everything they need."""

    def __init__(self, seed: str, streams: int, master: str) -> None:
        self.seed, self.master = seed, master
        self.streams = drawn(seed, streams)
        self.folder = scratch()
        self.rng = random.Random(f"{seed} feed")
        self.rows = {s.name: Rows(s, seed) for s in self.streams}
        self.expected = 0  # rows of answers that must be there
        self.nudged: list[str] = []  # streams whose last answers came with the next rows only
        self.files = {s.name: 0 for s in self.streams}
        self.clock = WallClock(self.folder)
        self.checkpoint, self.sink = Disk(self.folder / "checkpoint"), Disk(self.folder / "sink")
        self.redis = Redis(self.folder / "redis")
        self.postgres = Postgres(self.folder / "pg")
        self.service = Service(seed)
        for name in ("in", "local"):
            (self.folder / name).mkdir()
        for stream in self.streams:
            (self.folder / "in" / stream.name).mkdir()
        room = {name: str(self.folder / name) for name in ("in", "local", "checkpoint", "sink")}
        room |= {"redis": self.redis.url, "database": self.postgres.url, "service": self.service.url}
        told = str(self.folder / "told.json")
        self.driver = Driver([seed, str(streams), master, told, json.dumps(room)], self.folder, self.clock)
        self.sinks: dict[str, Parquet | Listed] = {
            s.name: Listed(self.postgres.url, s.name) if s.sink == "latest" else Parquet(self.folder / "sink" / s.name)
            for s in self.streams
        }
        self.inside = Inside(seed, self.folder / "inside", self.postgres, self.service.url)
        self.inside.start()
        self.driver.start()

    # ------------------------------------------------------------ rows in

    def feed(self, names: Iterable[str], twist: str = "") -> None:
        """The next rows of some streams: as they are, reordered, or some of them twice."""
        for stream in self.streams:
            if stream.name in names:
                self._feed(stream, "" if stream.ordered else twist)

    def _feed(self, stream: Stream, twist: str) -> None:
        rows = self.rows[stream.name]
        table = rows.step()
        cut = sorted(self.rng.randrange(table.num_rows + 1) for _ in range(0 if stream.ordered else 2))
        parts = [table.slice(a, b - a) for a, b in zip([0, *cut], [*cut, table.num_rows], strict=True)]
        parts = [part for part in parts if part.num_rows]
        if twist == "reordered":
            self.rng.shuffle(parts)
        if twist == "twice":
            parts.append(self.rng.choice(parts))
            rows.again(parts[-1])
        for part in parts:
            if stream.source == "redis":
                self.redis.add(stream.name, part.to_pylist())
            else:
                self._file(stream, part)
        if twist == "rewritten" and stream.source == "files":
            self._file(stream, parts[-1], again=True)

    def _file(self, stream: Stream, part: pa.Table, *, again: bool = False) -> None:
        folder = self.folder / "in" / stream.name
        self.files[stream.name] += not again
        number = self.files[stream.name]
        pq.write_table(part, folder / ".part")
        os.utime(folder / ".part", (MTIME + number + (0.5 if again else 0),) * 2)
        (folder / ".part").rename(folder / f"{number:06d}.parquet")

    # ------------------------------------------------------------ answers out

    def settle(self, patience: float = PATIENCE) -> float:
        """Wait until every answer is there, and nothing else. How long it took; an error if it never is."""
        began = time.monotonic()
        want = self._wanted()
        self.nudged, still = [], {s.name: (began, -1) for s in self.streams}
        while True:
            if self.driver.ensure():
                still = dict.fromkeys(still, (time.monotonic(), -1))
            wrong = {name: self._wrong(name, want[name]) for name in want}
            wrong = {name: text for name, text in wrong.items() if text}
            inside = self.inside.wrong()
            if not wrong and not inside:
                return time.monotonic() - began
            if time.monotonic() - began > patience:
                self.driver.explain()
                shown = [f"{s}: {wrong[s.name]}" for s in self.streams if s.name in wrong] + [inside] * bool(inside)
                raise WrongError("\n".join([*shown, *(f"  {e}" for e in self.driver.say()["errors"][-3:])]))
            for name in wrong:
                batch, now = self._committed(name), time.monotonic()
                if batch != still[name][1]:
                    still[name] = now, batch
                elif batch >= 0 and now - still[name][0] > STILL and name not in self.nudged:
                    self.nudged.append(name)
                    self.feed([name])
                    want = self._wanted()
            time.sleep(0.1)

    def _wanted(self) -> dict[str, Answers]:
        want = {s.name: wanted(s, self.rows[s.name]) for s in self.streams}
        self.expected = sum(map(Counter.total, want.values()))
        return want

    def _committed(self, name: str) -> int:
        """The last batch, if Spark has committed it and is up with nothing begun; else -1.

        A batch that its sink had committed and Spark had not is skipped after a restart, and so are its event times;
        one that Spark had committed gets no batch without data after it. Either way windows close with the next rows.
        """
        room = self.folder / "checkpoint" / name
        last = [max((int(f.name) for f in (room / log).glob("[0-9]*")), default=-1) for log in ("offsets", "commits")]
        up = name in self.driver.say()["starts"]
        return last[1] if up and last[0] == last[1] else -1

    def _wrong(self, name: str, want: Answers) -> str:
        try:
            got = self.sinks[name].answers()
        except Exception as error:  # noqa: BLE001 - a database that is just coming back
            return f"cannot be read: {error}"
        wrong = difference(want, got)
        if isinstance(self.sinks[name], Parquet) and got - want:  # what is in a file stays there
            raise WrongError(f"{name}: {wrong}")
        return wrong

    # ------------------------------------------------------------ the end

    def close(self, *, keep: bool = False) -> Path:
        """Stop everything; `keep` leaves the folder to look at."""
        self.driver.kill()
        self.inside.kill()
        self.redis.kill()
        self.service.kill()
        self.postgres.stop()
        if keep:
            for disk in (self.checkpoint, self.sink):
                if disk.real:
                    disk.free()
                    shutil.copytree(disk.folder, self.folder / f"{disk.folder.name} kept", dirs_exist_ok=True)
        for disk in (self.checkpoint, self.sink):
            disk.close()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.folder
