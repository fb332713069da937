"""Forged states: true ones of every engine, workload, join, view and leaderboard, with columns that are not theirs.

They must be refused, or taken without harm: answers of a forged state are nobody's promise, but kernels index without
looking, so that a wrong number could read or write anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from scripts.fuzz.state import SCHEMA, packed, specs
from scripts.fuzz.texts import told

import skyband as sb
from skyband.engines import ENGINES, Objects, QueryFamily, build
from skyband.engines.registry import DEFAULT_ENGINE
from skyband.operators.plan import plan_operators
from skyband.spark.bucket import Bucket
from skyband.tables import Memory, log_changes, open_table
from skyband.windows import MIN_TIME
from skyband.workload.family import families

if TYPE_CHECKING:
    from skyband.query.join import Policy
    from skyband.runtime.protocols import OperatorSpec

_ROWS, _SPAN = 60, 40
_VALUES = (-1, 0, 1, 2, 7, 63, 64, 1000, 1 << 20, 1 << 31, 1 << 61, -(1 << 61), 1 << 62, -(1 << 62), (1 << 63) - 1,
           -(1 << 63))  # fmt: skip
_REALS = (0.0, -1.0, 0.5, 1e300, -1e300, np.inf, -np.inf, np.nan)
_TYPES = ("i8", "i4", "i1", "u8", "f8", "f4", "?", "U3")


class Seed(NamedTuple):
    """A true state, and what goes on from one."""

    name: str
    saved: dict[str, Any]
    go_on: Callable[[dict[str, Any]], None]


def _objects(first: int, groups: int, d: int = 0) -> Objects:
    """Rows from row number `first` on, two at a moment."""
    rng = np.random.default_rng(first)
    number = np.arange(first, first + _ROWS)
    score = np.round(rng.random((_ROWS, d) if d else _ROWS) * 9)
    return Objects(score, number // 2, number, rng.integers(0, groups, _ROWS, np.int32) if groups else None)


def _fed(engine: Any, calls: range, query: sb.TopK, d: int = 0) -> None:
    """Give an engine batches of rows; for counting windows by position."""
    groups = 2 if query.per else 0
    for call in calls:
        rows = _objects(call * _ROWS, groups, d)
        upto: Any = int(rows.time[-1])
        if query.window.counts:
            group = np.zeros(_ROWS, np.int32) if rows.group is None else rows.group
            seen = np.zeros(max(groups, 1), np.int64)
            position = np.empty(_ROWS, np.int64)
            for before in range(call):
                old = _objects(before * _ROWS, groups, d)
                seen += np.bincount(np.zeros(_ROWS, int) if old.group is None else old.group, minlength=len(seen))
            for g in range(len(seen)):
                mine = np.flatnonzero(group == g)
                position[mine] = seen[g] + np.arange(len(mine))
                seen[g] += len(mine)
            rows, upto = rows._replace(time=position), seen
        engine.advance(rows, upto)
        engine.candidates()


def _engine_seed(name: str, query: sb.TopK, made: Callable[..., Any], d: int = 0) -> Seed:
    engine = made(None)
    _fed(engine, range(2), query, d)

    def go_on(saved: dict[str, Any]) -> None:
        engine = made(saved)
        _fed(engine, range(2, 4), query, d)
        engine.snapshot()

    return Seed(name, engine.snapshot(), go_on)


def _query(window: Any, **more: Any) -> sb.TopK:
    return sb.TopK(**{"k": 3, "by": "x", "window": window, "time": "t", "unit": "us", **more})


def _engines() -> list[Seed]:
    """Every engine, with a window that it serves, by time and by count, with groups and without."""
    found = []
    for name, entry in ENGINES.items():
        kinds = entry.traits.windows
        windows: list[Any] = [sb.Sliding("16 us", "4 us"), sb.Counting(20, 6)] if "slide" in kinds else []
        if kinds & {"row", "every row"}:
            windows += [sb.Sliding("16 us", "row"), sb.Counting(20)]
        for window in windows:
            for more in ({}, {"per": "g"}, {"emit": "arrivals"}):
                query = _query(window, **more)
                label = f"{name}, {window}, {more}"
                options = {"buffer": 8 if window.counts else "8 us"} if name == "hybrid" else {}
                found.append(
                    _engine_seed(
                        label, query, lambda resume, q=query, n=name, o=options: build(n, QueryFamily.of(q), resume, o)
                    )
                )
    return found


def _workloads() -> list[Seed]:
    """Every engine for many queries, of scores and of points."""
    found = []
    for name in (*(name for name, entry in ENGINES.items() if entry.traits.shared), "mintopk"):
        for more in ({}, {"per": "g"}):
            queries = [_query(sb.Sliding(f"{size} us", "4 us"), k=k, **more) for size, k in ((8, 2), (16, 4), (24, 1))]
            family = families(queries)[0]
            found.append(
                _engine_seed(f"workload {name}, {more}", queries[0], lambda r, f=family, n=name: build(n, f, r))
            )
    for name in (name for name, entry in ENGINES.items() if entry.traits.points):
        for window in (sb.Counting(20), sb.Sliding("16 us", "row")):
            queries = [
                _query(window, k=2, by=sb.distance(["x", "y"], to=[at, 9 - at]), emit="arrivals") for at in range(5)
            ]
            family = families(queries, few=0)[0]
            made = _engine_seed(f"points {name}, {window}", queries[0], lambda r, f=family, n=name: build(n, f, r), d=2)
            found.append(made)
    return found


def _rows(low: int, rows: int = 40) -> pa.Table:
    rng = np.random.default_rng(low)
    return pa.table(
        {
            "ts": pa.array((low + np.sort(rng.integers(0, 12, rows))) * 1_000_000, pa.timestamp("us", "UTC")),
            "id": np.arange(rows) + low * rows,
            "x": np.round(rng.random(rows) * 5, 1),
            "g": [f"g{n}" for n in rng.integers(0, 3, rows)],
        },
        schema=SCHEMA,
    )


def _joins() -> list[OperatorSpec]:
    remote = Memory({"g": ["g0", "g1", "g2"], "y": [1.0, 2.0, 3.0]}, key="g")
    window = sb.Sliding("10 seconds", "5 seconds")

    def query(by: str = "x + y", policy: Policy = "likely", **more: Any) -> sb.TopK:
        refresh = sb.Refresh(policy=policy, budget=2, deadline="1 second")
        join = sb.Join(remote, on="g", columns={"y": "double"}, refresh=refresh, **more)
        return sb.TopK(k=2, by=by, window=window, time="ts", id="id", join=join)

    queries = [query(), query(by="n + y", n="count(*)", policy="top"), replace(query(each="row"), per=("g",))]
    return [spec for query in queries for spec in plan_operators(query)[1]]


def _buckets() -> list[Seed]:
    """What Spark stores for each bucket: single queries, many, joins, leaderboards."""
    asked = [
        sb.TopK(k=k, by="x", window=sb.Sliding(size, "5 seconds"), time="ts", id="id")
        for k, size in ((3, "10 seconds"), (1, "20 seconds"))
    ]
    shared = [name for name, entry in ENGINES.items() if entry.traits.shared and name != DEFAULT_ENGINE]
    more = [spec for name in shared for spec in plan_operators(asked, name)[1]]
    found = []
    for number, spec in enumerate([*specs(), *more, *_joins()]):
        bucket = Bucket(spec, SCHEMA)
        bucket.advance(packed(spec, _rows(0)), MIN_TIME)
        bucket.advance(packed(spec, _rows(8)), 9_000_000)

        def go_on(saved: dict[str, Any], spec: OperatorSpec = spec) -> None:
            bucket = Bucket(spec, SCHEMA)
            bucket.restore(dict(saved))
            for low in (16, 24):
                bucket.advance(packed(spec, _rows(low)), (low + 4) * 1_000_000)
            bucket.snapshot()
            bucket.finish(60_000_000)

        found.append(Seed(f"bucket {number}, {type(spec).__name__}", dict(bucket.snapshot()), go_on))
    return found


def _views() -> list[Seed]:
    """A view over a table, of whole numbers and of texts."""
    found = []
    for name, key in (("numbers", list(range(40))), ("texts", [f"k{n}" for n in range(40)])):
        rng = np.random.default_rng(1)
        rows = {"id": key, "x": np.round(rng.random(40) * 9, 1), "more": [f"m{n}" for n in range(40)]}
        table = open_table("sqlite://", f"stock_{name}", key="id", rows=rows)
        log_changes(table)
        view = sb.View(table, 4, "x", columns=["more"], kmax=12)
        table.put({"id": key[:5], "x": [9.5, 0.0, 3.0, 0.0, 1.0], "more": ["a"] * 5})
        view.catch_up()

        def go_on(saved: dict[str, Any], table: Any = table, key: list[Any] = key) -> None:
            view = sb.View.restore(table, saved)
            view.apply({"id": key[:2], "x": [99.0, None], "more": ["b", "c"]})
            view.read()
            view.save()

        found.append(Seed(f"view of {name}", dict(view.save()), go_on))
    return found


@cache
def seeds() -> list[Seed]:
    """All of them; each goes on from itself."""
    found = [*_engines(), *_workloads(), *_buckets(), *_views()]
    for seed in found:
        seed.go_on(dict(seed.saved))
    return found


Forged = tuple[int, dict[str, Any]]


def forged(rng: random.Random, number: int | None = None) -> Forged:
    """A true state, that of seed `number` or of any, in which a column or two are others."""
    number = rng.randrange(len(seeds())) if number is None else number
    saved = dict(seeds()[number].saved)
    for _ in range(rng.choice([1, 1, 1, 2])):
        name = rng.choice(sorted(saved) or [""])
        value = saved.get(name)
        kind = rng.randrange(8)
        if kind == 0 or value is None:
            saved.pop(name, None)
        elif kind == 1:
            saved[name] = saved[rng.choice(sorted(saved))]
        elif isinstance(value, pa.Table):
            saved[name] = value.slice(0, rng.randrange(value.num_rows + 1))
        else:
            saved[name] = _changed(rng, kind, value)
    return number, saved


def _changed(rng: random.Random, kind: int, value: np.ndarray) -> np.ndarray:
    """A column with other values, of another length, type or shape."""
    flat = value.reshape(-1).copy()
    if kind == 2 and value.dtype.kind != "U":
        with np.errstate(all="ignore"):
            return value.astype(rng.choice(_TYPES))
    if kind == 3:
        return np.resize(flat, rng.choice([0, 1, max(len(flat) - 1, 0), len(flat) + 1, 2 * len(flat)]))
    if kind == 4 and len(flat):
        flat = flat[rng.sample(range(len(flat)), len(flat))]
        return flat.reshape(value.shape)
    for _ in range(rng.choice([1, 1, 2, 5])):
        if not len(flat):
            break
        at = rng.randrange(len(flat))
        if flat.dtype.kind == "f":
            flat[at] = rng.choice([rng.choice(_REALS), flat[at] + rng.choice([-1, 1, 100.0])])
        elif flat.dtype.kind in "bU":
            flat[at] = not flat[at]
        else:
            limits = np.iinfo(flat.dtype)
            new = rng.choice([rng.choice(_VALUES), int(flat[at]) + rng.choice([-1, 1, 2, -7, 100])])
            flat[at] = min(max(new, int(limits.min)), int(limits.max))
    return flat.reshape(value.shape) if kind != 5 else flat


def check_forged(made: Forged) -> bool:
    """Refused when it is loaded, or taken; anything else that goes wrong is wrong."""
    number, saved = made
    try:
        seeds()[number].go_on(saved)
    except sb.SnapshotError as error:
        told(error)
        return False
    return True
