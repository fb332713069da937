"""Batches of every Arrow type, through random queries: answers by the definition, or an error of ours."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from typing import Any

import pyarrow as pa
from scripts.fuzz.texts import told

import skyband as sb

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
TYPES: tuple[pa.DataType, ...] = (
    pa.null(), pa.bool_(), *_INTEGERS, pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(),
    pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3), pa.date32(), pa.date64(),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ms"),
    pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.timestamp("ms", "Asia/Kolkata"),
    pa.duration("s"), pa.duration("us"), pa.month_day_nano_interval(), pa.decimal32(5, 2), pa.decimal64(10, 3),
    pa.decimal128(20, 4), pa.decimal256(50, 10), pa.list_(pa.int32()), pa.large_list(pa.string()),
    pa.list_(pa.int8(), 2),
    pa.struct([("a", pa.int32()), ("b", pa.string())]), pa.map_(pa.string(), pa.int32()),
    pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.float64()), pa.list_view(pa.int32()),
    pa.run_end_encoded(pa.int32(), pa.float64()),
)  # fmt: skip


def value(rng: random.Random, kind: pa.DataType) -> Any:  # noqa: C901, PLR0911, PLR0912 - a case each type
    """Something of a type, or None."""
    t = pa.types
    if rng.random() < 0.15 or t.is_null(kind):
        return None
    if t.is_run_end_encoded(kind) or t.is_dictionary(kind):
        return value(rng, kind.value_type)
    if t.is_boolean(kind):
        return rng.random() < 0.5
    if t.is_integer(kind):
        wide = kind.bit_width - (0 if t.is_unsigned_integer(kind) else 1)
        low = 0 if t.is_unsigned_integer(kind) else -(1 << wide)
        return rng.choice([rng.randrange(4), low, (1 << wide) - 1, rng.randrange(100)])
    if t.is_floating(kind):
        return rng.choice([float(rng.randrange(4)), math.nan, math.inf, -math.inf, -0.0, 1.5])
    if t.is_decimal(kind):
        return decimal.Decimal(rng.randrange(-99, 999)).scaleb(-min(2, kind.scale))
    if t.is_fixed_size_binary(kind):
        return rng.randbytes(kind.byte_width)
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind):
        return rng.randbytes(rng.randrange(4))
    if t.is_date(kind):
        return dt.date(2024, 1, rng.randrange(1, 28))
    if t.is_time(kind):
        return dt.time(rng.randrange(24), rng.randrange(60), rng.randrange(60))
    if t.is_timestamp(kind):
        return dt.datetime(2024, 1, 1, 0, 0, rng.randrange(30), tzinfo=dt.UTC if kind.tz else None)
    if t.is_duration(kind):
        return dt.timedelta(seconds=rng.randrange(100))
    if t.is_interval(kind):
        return pa.MonthDayNano([rng.randrange(3), rng.randrange(3), 0])
    if t.is_fixed_size_list(kind):
        return [value(rng, kind.value_type) for _ in range(kind.list_size)]
    if t.is_map(kind):
        return [(f"k{n}", rng.randrange(9)) for n in range(rng.randrange(3))]
    if t.is_struct(kind):
        return {field.name: value(rng, field.type) for field in kind}
    if t.is_list(kind) or t.is_large_list(kind) or t.is_list_view(kind):
        return [value(rng, kind.value_type) for _ in range(rng.randrange(3))]
    return rng.choice(["", "a", "b", "ü", "1.5", "null", "\0"])


def column(rng: random.Random, kind: pa.DataType, rows: int) -> pa.Array:
    """So many values of a type."""
    found = [value(rng, kind) for _ in range(rows)]
    if pa.types.is_run_end_encoded(kind):
        return pa.compute.run_end_encode(pa.array(found, kind.value_type))
    if pa.types.is_dictionary(kind):
        return pa.array(found, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(found, kind)


Batch = tuple[pa.Table, dict[str, Any]]


def batch(rng: random.Random) -> Batch:
    """A table with a column of any type as score, as time, as group, as id and as payload; and a query of them."""
    rows = rng.randrange(0, 25)
    kinds = {name: rng.choice(TYPES) for name in ("score", "time", "group", "id", "more")}
    if rng.random() < 0.7:
        kinds["score"] = rng.choice([pa.float64(), *_INTEGERS, pa.float32(), pa.decimal128(20, 4), pa.bool_()])
    if rng.random() < 0.7:
        kinds["time"] = rng.choice(
            [pa.timestamp("us"), pa.timestamp("s"), pa.timestamp("ms", "Asia/Kolkata"), pa.int64()]
        )
    table = pa.table({"_" + name: column(rng, kind, rows) for name, kind in kinds.items()})
    table = table.append_column("n", pa.array(range(rows), pa.int64()))
    if rng.random() < 0.3 and rows:
        cut = rng.randrange(rows)
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    size = rng.randint(1, 12)
    counting = rng.random() < 0.4
    window: Any = (
        sb.Counting(size, rng.randint(1, size)) if counting else sb.Sliding(f"{size} s", f"{rng.randint(1, size)} s")
    )
    more: dict[str, Any] = {"k": rng.randint(1, 5), "by": "_score", "window": window, "ascending": rng.random() < 0.3}
    if not counting:
        more |= {"time": "_time", "unit": "s" if pa.types.is_integer(kinds["time"]) else None}
    more |= {"per": ["_group"]} if rng.random() < 0.4 else {}
    more |= {"id": rng.choice(["_id", "n"])} if rng.random() < 0.5 else {}
    return table, {name: given for name, given in more.items() if given is not None}


def check_batch(made: Batch) -> bool:
    """Answered by the definition, or refused."""
    table, more = made
    try:
        query = sb.TopK(**more)
        found = sb.run(query, table, progress=False)
    except sb.SkybandError as error:
        told(error)
        return False
    rows = found.to_pylist()
    source = {row["n"]: row for row in table.to_pylist()}
    for row in rows:  # what comes out is what went in
        mine = source[row["n"]]
        for name in set(row) & set(mine):
            assert _key(row[name]) == _key(mine[name]), f"{name}: {row[name]!r} in place of {mine[name]!r}"
    if "id" in more and more["id"] == "_id":
        return True  # ties go by a hash, which the contract tests cover
    assert _lists(rows, query) == _wanted(table, query), "other answers than by the definition"
    return True


def _key(value: Any) -> str:
    """A value to compare by: in groups, 0.0 and -0.0 are the same."""
    return repr(value + 0.0 if isinstance(value, float) else value)


def _lists(rows: list[dict[str, Any]], query: sb.TopK) -> list[Any]:
    found: dict[Any, list[int]] = {}
    for row in rows:
        end = row["window_end"]
        end = end if isinstance(end, int) else _seconds(end)
        found.setdefault((repr([_key(row[name]) for name in query.per]), end), []).append(row["n"])
    return sorted((key, numbers) for key, numbers in found.items())


def _seconds(moment: Any) -> int:
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime.combine(moment, dt.time())
    return int((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp())


def _wanted(table: pa.Table, query: sb.TopK) -> list[Any]:
    """By the definition, row by row."""
    groups: dict[str, list[tuple[float | None, int, int]]] = {}
    for number, row in enumerate(table.to_pylist()):
        score = None if row["_score"] is None or row["_score"] != row["_score"] else float(row["_score"])
        score = None if score is None else -score if query.ascending else score
        rows = groups.setdefault(repr([_key(row[name]) for name in query.per]), [])
        if query.window.counts:
            rows.append((score, len(rows), number))
        elif row["_time"] is not None:
            at = row["_time"] if isinstance(row["_time"], int) else _seconds(row["_time"])
            rows.append((score, at, number))
    found = []
    window = query.window
    for key, rows in groups.items():
        if isinstance(window, sb.Counting):
            ends = [(end, max(0, end - window.size), end) for end in range(window.slide, len(rows) + 1, window.slide)]
        else:
            assert isinstance(window, sb.Sliding)
            size_s, slide_s = (window.lengths[field] // 1_000_000 for field in ("size", "slide"))
            held = {
                e
                for _, at, _ in rows
                for e in range(at // slide_s * slide_s - size_s, at + size_s + slide_s + 1)
                if not (e - size_s) % slide_s
            }
            ends = [(e, e - size_s, e) for e in sorted(held)]
        for shown, low, high in ends:
            best = sorted((r for r in rows if r[0] is not None and low <= r[1] < high), reverse=True)[: query.k]
            if best:
                found.append(((key, shown), [number for _, _, number in best]))
    return sorted(found)
