"""Pipelines without Spark in a process that is killed: one query, a join and a view, saved after every batch.

Answers, state and the number of the batch are written in one transaction, as `docs/promises.md` tells a user to do. The
join looks up values in a service that is frozen, and may be away: values that change are outside the promise.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from scripts.torture.compare import difference, promised
from scripts.torture.pipelines import ARROW, SECOND, Rows, Stream, drawn, frozen_join, remote
from scripts.torture.world import ROOT, Postgres

import skyband as sb
from skyband.tables import log_changes, open_table
from skyband.tables.sql_schema import connect_args

if TYPE_CHECKING:
    from skyband.runtime.pipeline import Pipeline

LATE = 10 * SECOND
LINES = ("single", "join")
STOCK = 200


class Line:
    """A pipeline that can be saved as bytes."""

    def __init__(self, name: str, seed: str, service: str = "") -> None:
        rng = random.Random(f"{seed} inside {name}")
        self.name, self.service = name, service
        more: dict[str, Any] = {"k": rng.randint(1, 5), "time": "ts", "id": "id"}
        more["window"] = sb.Sliding(f"{rng.choice([15, 20, 30])} seconds", f"{rng.choice([5, 10])} seconds")
        if name == "join":
            self.query = sb.TopK(by="price + weight", join=frozen_join(rng, seed), **more)
            self.query = remote(self.query, service) if service else self.query
        else:
            more["emit"] = rng.choice(["answers", "changes", "arrivals"])
            self.query = sb.TopK(by="price", per=rng.choice([[], ["symbol"]]), **more)
        self.line = self._new()

    def _new(self) -> Pipeline:
        from skyband.operators.plan import plan
        from skyband.runtime.pipeline import Pipeline

        if self.name == "join":
            return Pipeline([plan(self.query)], ARROW, late=LATE, live=bool(self.service))
        return Pipeline([plan(self.query, "sweep")], ARROW, late=LATE)

    def push(self, rows: pa.Table) -> list[str]:
        """What a batch brings about, as texts."""
        results = pa.concat_tables([self.line.empty(), *self.line.push(rows)])
        return [repr(sorted(row.items())) for row in promised(results).to_pylist()]

    def save(self) -> bytes:
        """All that is needed to go on."""
        from skyband.runtime.snapshot import dump

        return dump(self.line.snapshot(), {"query": {}})

    def load(self, blob: bytes) -> None:
        """Go on."""
        from skyband.runtime.snapshot import read

        self.line = self._new()
        self.line.restore(read(blob)[1])


class Inside:
    """The process, seen from outside: fed, killed, compared."""

    def __init__(self, seed: str, folder: Path, postgres: Postgres, service: str) -> None:
        import sqlalchemy as sa

        folder.mkdir()
        self.seed, self.folder, self.postgres, self.service = seed, folder, postgres, service
        self.rng = random.Random(f"{seed} inside")
        stream = Stream("inside", "single", drawn(seed, 1)[0].queries, "files", "parquet", 0, 20)
        self.rows, self.number = Rows(stream, seed), 0
        self.undisturbed = {name: Line(name, seed) for name in LINES}
        self.want: dict[str, list[str]] = {name: [] for name in LINES}
        self.engine = sa.create_engine(postgres.url, poolclass=sa.NullPool, connect_args=connect_args(postgres.url))
        rows = {"id": list(range(STOCK)), "value": [float(self.rng.randint(0, 50)) for _ in range(STOCK)]}
        with open_table(postgres.url, "stock", key="id", rows=rows) as stock:
            log_changes(stock)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, or start again from what was saved."""
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        command = [sys.executable, "-m", "scripts.torture.inside"]
        command += [self.seed, str(self.folder), self.postgres.url, self.service]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)

    def kill(self) -> None:
        """At once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def feed(self) -> None:
        """A batch for the pipelines, some changes for the view's table."""
        import sqlalchemy as sa

        rows = self.rows.step()
        self.number += 1
        pq.write_table(rows, self.folder / ".part")
        (self.folder / ".part").rename(self.folder / f"{self.number:06d}.parquet")
        for name, line in self.undisturbed.items():
            self.want[name] += line.push(rows)
        with self.engine.begin() as connection:
            for _ in range(self.rng.randint(1, 30)):
                key, value = self.rng.randrange(STOCK), float(self.rng.randint(0, 50))
                if self.rng.random() < 0.2:
                    connection.execute(sa.text("DELETE FROM stock WHERE id = :id"), {"id": key})
                else:
                    put = "INSERT INTO stock VALUES (:id, :v) ON CONFLICT (id) DO UPDATE SET value = :v"
                    connection.execute(sa.text(put), {"id": key, "v": value})

    def wrong(self) -> str:
        """How its answers differ from the undisturbed ones; nothing if they do not."""
        assert self.process is not None
        if self.process.poll() is not None:
            return f"the process with join and view ended by itself: {(self.folder / 'log').read_text()[-1500:]}"
        if not (self.folder / "out.db").exists():
            return "the process with join and view has not begun"
        try:
            with contextlib.closing(sqlite3.connect(self.folder / "out.db")) as store:
                asked = "SELECT row FROM answers WHERE line = ?"
                got = {name: [row for (row,) in store.execute(asked, (name,))] for name in LINES}
                view = [tuple(r) for r in store.execute("SELECT id, score FROM top ORDER BY rank")]
        except sqlite3.Error as error:
            return f"out.db: {error}"
        for name in LINES:
            wrong = difference(Counter(self.want[name]), Counter(got[name]))  # the order of groups means nothing
            if wrong:
                return f"{name} in process: {wrong}"
        return "" if view == self._truth() else f"view: {view} in place of {self._truth()}"

    def _truth(self) -> list[tuple[int, float]]:
        import sqlalchemy as sa

        try:
            with self.engine.connect() as connection:
                asked = sa.text("SELECT id, value FROM stock ORDER BY value DESC, id DESC LIMIT 8")
                return [(int(i), float(v)) for i, v in connection.execute(asked)]
        except sa.exc.SQLAlchemyError:
            return []


# ---------------------------------------------------------------- inside the process


def main() -> None:
    """Run until killed."""
    from skyband.runtime.snapshot import dump, read

    seed, folder, url, service = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    store = sqlite3.connect(folder / "out.db", isolation_level=None)
    store.execute("PRAGMA journal_mode=WAL")
    store.execute("PRAGMA synchronous=FULL")
    store.execute("CREATE TABLE IF NOT EXISTS state (line TEXT PRIMARY KEY, number INTEGER, blob BLOB)")
    store.execute("CREATE TABLE IF NOT EXISTS answers (at INTEGER PRIMARY KEY, line TEXT, row TEXT)")
    store.execute("CREATE TABLE IF NOT EXISTS top (rank INTEGER PRIMARY KEY, id INTEGER, score REAL)")
    known = {line: (number, blob) for line, number, blob in store.execute("SELECT line, number, blob FROM state")}
    lines = {name: Line(name, seed, service) for name in LINES}
    done = dict.fromkeys(LINES, 0)
    for name in LINES:
        if name in known:
            done[name] = known[name][0]
            lines[name].load(known[name][1])
    view: Any = None
    while True:
        for name, line in lines.items():
            path = folder / f"{done[name] + 1:06d}.parquet"
            if path.exists():
                said = line.push(pq.read_table(path, schema=ARROW))
                done[name] += 1
                with _transaction(store):
                    store.executemany("INSERT INTO answers (line, row) VALUES (?, ?)", [(name, row) for row in said])
                    store.execute("REPLACE INTO state VALUES (?, ?, ?)", (name, done[name], line.save()))
        try:
            if view is None:
                table = open_table(url, "stock", key="id")
                view = (
                    sb.View.restore(table, read(known["view"][1])[1], kmax=16)
                    if "view" in known
                    else sb.View(table, 8, "value", kmax=16)
                )
            view.catch_up()
            if not view.complete:
                view.refill()
            top = view.read()
            if view.complete:
                with _transaction(store):
                    store.execute("DELETE FROM top")
                    rows = zip(*(top[c].to_pylist() for c in ("rank", "id", "score")), strict=True)
                    store.executemany("INSERT INTO top VALUES (?, ?, ?)", rows)
                    store.execute("REPLACE INTO state VALUES ('view', 0, ?)", (dump(view.save(), {}),))
        except sb.TableError as error:  # the database is away: the view stays as it was
            sys.stderr.write(f"{error}\n")
        time.sleep(0.05)


@contextlib.contextmanager
def _transaction(store: sqlite3.Connection) -> Any:
    store.execute("BEGIN IMMEDIATE")
    yield
    store.execute("COMMIT")


if __name__ == "__main__":
    main()
