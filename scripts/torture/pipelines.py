"""Random pipelines, and the rows that go into them. The same seed gives the same, in every process."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

import numpy as np
import pyarrow as pa
from scripts.torture.service import frozen

import skyband as sb
from skyband.tables import Http, Memory

SECOND = 1_000_000
BEGIN = 1_700_000_000
LATE = 30
"""Seconds that Spark's watermark lags. All disorder below stays within it: no cut into batches makes a row late."""

SPAN, DISORDER = 20, 8
SCHEMA = "ts timestamp, id long, price double, quantity long, symbol string"
ARROW = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "id": pa.int64(),
        "price": pa.float64(),
        "quantity": pa.int64(),
        "symbol": pa.string(),
    }
)


@dataclass(frozen=True)
class Stream:
    """One stream: what is asked, where its rows come from, where its answers go."""

    name: str
    kind: str
    queries: tuple[sb.TopK, ...]
    source: str  # "files" or "redis"
    sink: str  # "parquet" or "latest"
    files: int  # that a batch may hold; 0 = all
    groups: int

    @property
    def query(self) -> sb.TopK:
        """The query, or the first of them."""
        return self.queries[0]

    @property
    def asked(self) -> sb.TopK | list[sb.TopK]:
        """What is handed to skyband."""
        return list(self.queries) if self.kind == "workload" else self.query

    @property
    def ordered(self) -> bool:
        """Whether the order of arrival matters, so that nobody may change it."""
        return bool(self.query.window.counts)

    def __str__(self) -> str:
        q = self.query
        many = f"{len(self.queries)} queries" if len(self.queries) > 1 else f"k={q.k} by {q.by}"
        return f"{self.name}: {self.kind}, {many}, {q.window}, emit={q.emit}, {self.source} -> {self.sink}"


def _window(rng: random.Random) -> sb.Sliding:
    slide = rng.choice([5, 10, 15])
    return sb.Sliding(f"{slide * rng.randint(1, 4) + rng.choice([0, 0, 5])} seconds", f"{slide} seconds")


def _query(rng: random.Random, **more: object) -> sb.TopK:
    usual = {"k": rng.randint(1, 4), "by": "price * 2", "window": _window(rng), "time": "ts", "id": "id"}
    return sb.TopK(**{**usual, **more})  # type: ignore[arg-type]


def _single(rng: random.Random) -> tuple[sb.TopK, ...]:
    emit = rng.choice(["answers", "answers", "changes", "arrivals"])
    per = rng.choice([[], ["symbol"]])
    return (_query(rng, emit=emit, per=per, ranks=emit == "changes" and rng.random() < 0.5),)


def _listed(rng: random.Random) -> tuple[sb.TopK, ...]:
    emit = rng.choice(["answers", "changes"])
    return (_query(rng, emit=emit, per=["symbol"], ranks=emit == "changes"),)


def _each_row(rng: random.Random) -> tuple[sb.TopK, ...]:
    return (_query(rng, window=sb.Sliding(f"{rng.randint(5, 20)} seconds", "row"), per=["symbol"]),)


def _counting(rng: random.Random) -> tuple[sb.TopK, ...]:
    size = rng.randint(5, 40)
    return (_query(rng, window=sb.Counting(size, rng.randint(1, size)), per=["symbol"]),)


def _workload(rng: random.Random) -> tuple[sb.TopK, ...]:
    return tuple(_query(rng, name=f"w{n}", per=rng.choice([[], ["symbol"]])) for n in range(rng.randint(2, 6)))


def _leaderboard(rng: random.Random) -> tuple[sb.TopK, ...]:
    by = rng.choice(["sum(quantity)", "sum(price)", "count(*)", "max(price)"])
    return (sb.TopK(k=rng.randint(1, 3), of="symbol", by=by, window=_window(rng), time="ts"),)


def frozen_join(rng: random.Random, seed: str) -> sb.Join:
    """With values that are all known from the start and stay as they are; the policy asks for them all the same."""
    known = frozen(seed)
    policies: list[Literal["top", "border", "all", "likely"]] = ["top", "border", "all", "likely"]
    refresh = sb.Refresh(rng.choice(policies), budget=rng.randint(2, 30), spare=rng.randint(0, 6))
    return sb.Join(Memory(known, "symbol"), "symbol", {"weight": "double"}, initial=pa.table(known), refresh=refresh)


def remote(query: sb.TopK, url: str) -> sb.TopK:
    """A query that joins, with the service in place of the memory."""
    assert query.join is not None
    refresh = replace(query.join.refresh, deadline=timedelta(milliseconds=300))
    return replace(query, join=replace(query.join, table=Http(url, key="symbol"), refresh=refresh))


def _joined(rng: random.Random, seed: str) -> tuple[sb.TopK, ...]:
    return (_query(rng, by="price + weight", per=rng.choice([[], ["symbol"]]), join=frozen_join(rng, seed)),)


KINDS: dict[str, Callable[[random.Random], tuple[sb.TopK, ...]]] = {
    "single": _single,
    "latest": _listed,
    "workload": _workload,
    "leaderboard": _leaderboard,
    "each row": _each_row,
    "counting": _counting,
}
"""What runs on Spark; and joins, which have a service besides."""


_TURNS = (("latest", "join", "leaderboard"), ("workload", "single", "each row", "counting"))
"""Kinds that a stream of a round may be: the first, the second, and so on in turn."""


def drawn(seed: str, streams: int = 2) -> list[Stream]:
    """The streams of one round: each of another kind, the second from Redis."""
    rng = random.Random(f"{seed} pipelines")
    found: list[Stream] = []
    for number in range(streams):
        kind = rng.choice([kind for kind in _TURNS[number % 2] if kind not in [one.kind for one in found]])
        source = "redis" if number == 1 else rng.choice(["files", "files", "redis"]) if number > 1 else "files"
        sink = "latest" if kind == "latest" else "parquet"
        files, groups = rng.choice([0, 1, 1, 2]), rng.choice([1, 3, 20])
        queries = _joined(rng, seed) if kind == "join" else KINDS[kind](rng)
        found.append(Stream(f"s{number}", kind, queries, source, sink, files, groups))
    return found


class Rows:
    """The rows of one stream, step by step: ties, gaps, NULL scores, disorder within the lateness."""

    def __init__(self, stream: Stream, seed: str) -> None:
        self.stream = stream
        self.rng = np.random.default_rng(abs(hash_of(f"{seed} {stream.name} rows")))
        self.now, self.id = BEGIN, 0
        self.all: list[pa.Table] = []

    def step(self) -> pa.Table:
        """What comes next; time goes on by a lateness and more, so that windows close."""
        rng, n = self.rng, int(self.rng.integers(10, 80))
        self.now += int(rng.integers(5, 40))
        at = np.sort(self.now + rng.integers(0, SPAN - DISORDER, n))
        self.now = int(at[-1])
        if not self.stream.ordered:
            at = at - rng.integers(0, DISORDER, n)
        ids = np.arange(self.id, self.id + n) if self.stream.ordered else self.id + rng.permutation(n)
        self.id += n
        rows = pa.table(
            {
                "ts": pa.array(at * SECOND, pa.timestamp("us", "UTC")),
                "id": pa.array(ids, pa.int64()),
                "price": pa.array(np.round(rng.random(n) * 5, 1), mask=rng.random(n) < 0.1),
                "quantity": pa.array(rng.integers(0, 9, n), pa.int64()),
                "symbol": pa.array([f"S{g}" for g in rng.integers(0, self.stream.groups, n)]),
            },
            schema=ARROW,
        )
        self.all.append(rows)
        return rows

    def again(self, rows: pa.Table) -> None:
        """Rows that a producer sent once more: they count twice, as they do in process."""
        self.all.append(rows)

    @property
    def table(self) -> pa.Table:
        """All of them, as they went in."""
        return pa.concat_tables(self.all)

    @property
    def watermark(self) -> int:
        """Where Spark's watermark ends up once it has seen all of them, in microseconds."""
        return int(self.table["ts"].cast(pa.int64()).to_numpy().max()) - LATE * SECOND


def hash_of(text: str) -> int:
    """A number from a text, the same in every process."""
    import zlib

    return zlib.crc32(text.encode())
