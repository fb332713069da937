"""States as bytes, with damages: they must be refused. `forged` has those under a true seal."""

from __future__ import annotations

import random
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from scripts.fuzz import mutate
from scripts.fuzz.texts import told

import skyband as sb
from skyband.operators.plan import plan, plan_operators
from skyband.runtime.snapshot import dump, read
from skyband.spark.bucket import Bucket
from skyband.spark.pack import packer
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from skyband.runtime.protocols import OperatorSpec

SCHEMA = pa.schema({"ts": pa.timestamp("us", "UTC"), "id": pa.int64(), "x": pa.float64(), "g": pa.string()})
_WINDOW = sb.Sliding("10 seconds", "5 seconds")


def _rows(low: int, rows: int = 40) -> pa.Table:
    rng = np.random.default_rng(low)
    return pa.table(
        {
            "ts": pa.array((low + np.sort(rng.integers(0, 12, rows))) * 1_000_000, pa.timestamp("us", "UTC")),
            "id": np.arange(rows),
            "x": np.round(rng.random(rows) * 5, 1),
            "g": [f"g{n}" for n in rng.integers(0, 3, rows)],
        },
        schema=SCHEMA,
    )


@cache
def specs() -> list[OperatorSpec]:
    """A query alone, with changes, by count, many, and a leaderboard."""

    def query(**more: Any) -> sb.TopK:
        return sb.TopK(**{"k": 2, "by": "x", "window": _WINDOW, "time": "ts", "id": "id", "per": ["g"], **more})

    found = [
        query(),
        query(emit="changes", ranks=True),
        query(window=sb.Counting(7, 3)),
        query(window=sb.Sliding("10 seconds", "row")),
        sb.TopK(k=2, of="g", by="sum(x)", window=_WINDOW, time="ts"),
        sb.TopK(k=2, of="g", by="sum(x)"),
    ]
    many = [query(k=1), query(k=3, window=sb.Sliding("20 seconds", "5 seconds"))]
    return [*map(plan, found), *plan_operators(many)[1]]


def packed(spec: OperatorSpec, rows: pa.Table) -> dict[str, list[Any]]:
    """Rows as they come to a bucket."""
    found: dict[str, list[Any]] = {"input": [], "counts": [], "blob": []}
    for part in packer([spec], [[0]])(iter(rows.to_batches())):
        for name, column in found.items():
            column.extend(part.to_pydict()[name])
    return found


@cache
def seeds() -> list[tuple[bytes, Any]]:
    """A true state of each, as bytes and as named columns; and what each says of the next batch."""
    found = []
    for spec in specs():
        bucket = Bucket(spec, SCHEMA)
        bucket.advance(packed(spec, _rows(0)), MIN_TIME)
        saved = bucket.snapshot()
        found.append((dump(saved, {"engine": spec.engine, "query": {}}), saved))
    return found


Damaged = tuple[int, bytes]


def damaged(rng: random.Random) -> Damaged:
    """The bytes of a state, damaged."""
    number = rng.randrange(len(seeds()))
    return number, mutate.blob(rng, seeds()[number][0])


def check_damaged(made: Damaged) -> bool:
    """Refused, unless nothing was changed."""
    number, blob = made
    try:
        _, saved = read(blob)
    except sb.SnapshotError as error:
        told(error)
        return False
    _same(saved, read(seeds()[number][0])[1])
    return True


def _same(got: Any, want: Any) -> None:
    assert list(got) == list(want), "a damaged state was taken"
    for name, value in want.items():
        other = got[name]
        equal = value.equals(other) if isinstance(value, pa.Table) else np.array_equal(value, other, equal_nan=False)
        assert equal or repr(value) == repr(other), f"a damaged state was taken: {name}"
