"""Query texts, pipeline files and score expressions."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
from scripts.fuzz import mutate

import skyband as sb
from skyband.lang import load
from skyband.query.expression import Expression, parse
from skyband.runtime.score import scores

SQL = [
    """SELECT symbol, price, rn FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, symbol ORDER BY price * volume DESC) AS rn
      FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTES))) WHERE rn <= 5""",
    """SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC, ts DESC, id DESC) AS rn
      FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' HOUR)) WHERE volume > 3 QUALIFY rn <= 1""",
    """WITH big AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY price ASC) AS r
      FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND))) SELECT * FROM big WHERE r < 4""",
]
RSPQL = [
    """PREFIX : <http://e.org/> REGISTER STREAM <best> AS
      SELECT ?user (F(?m, ?f) AS ?s) FROM NAMED WINDOW :w ON :mentions [RANGE PT9S STEP PT3S]
      WHERE { WINDOW :w { ?user :mentions ?m } SERVICE :followers { ?user :has ?f } } ORDER BY DESC(?s) LIMIT 3""",
    """SELECT ?u ?x FROM NAMED WINDOW <w> ON <s> [RANGE PT1M] WHERE { WINDOW <w> { ?u <p> ?x } }
      ORDER BY DESC(?x + 2) LIMIT 1""",
]
YAML = [
    """name: trades
source: {kind: json, path: "in/${DIR}", schema: "ts timestamp, symbol string, price double, volume int", idle: 30 s}
watermark: {column: ts, delay: "10 seconds"}
ahead_of_clock: 1 hour
query:
  k: 10
  by: price * volume
  window: {size: 10 minutes, slide: 1 minute}
  time: ts
  per: [symbol]
early: true
sink: {kind: latest, url: "sqlite:///${DB}", table: leaders}
checkpoint: state/trades
trigger: {every: 5 seconds}
spark: {master: "local[2]", settings: {spark.sql.shuffle.partitions: 2}}
""",
    """source: {kind: redis, url: "redis://h:6379", topic: t, schema: "ts timestamp, x double"}
watermark: 10 s
queries:
  a: {k: 1, by: x, window: 10 minutes/1 minute, time: ts}
  b: {k: 3, by: abs(x), window: 1 hour, time: ts, emit: changes}
sink: {kind: parquet, path: out}
""",
    "k: 3\nby: price\nwindow: 10 minutes/1 minute\ntime: ts\nper: symbol\nemit: changes\nranks: true\nid: n\n",
    "k: 3\nby: {distance: [x, y], to: [1, 2], weights: [1, 3]}\nwindow: 100 rows/10 rows\n",
]
EXPRESSIONS = [
    "x", "x + n * 2 - 1", "x / n", "x % n", "-x", "abs(x)", "sqrt(x)", "exp(x)", "ln(n)", "power(x, 2)", "least(x, n)",
    "greatest(x, n, 2)", "coalesce(x, n, 9)", "round(x, 1)", "CAST(x AS INT)", "CAST(word AS DOUBLE)",
    "CASE WHEN x > n THEN x WHEN yes THEN 1 ELSE n END", "IF(word = 'a', x, -n)", "yes + 1",
    "CASE WHEN NOT (x > 1 AND n < 4) OR x IS NULL THEN 1 ELSE 2 END", "hour(t) * 60 + minute(t)",
    "CASE WHEN n BETWEEN 1 AND 3 THEN x END", "CASE WHEN x IN (3, 7.25) THEN n END", "x * 1e300 * 1e300", "1 / 0",
]  # fmt: skip

ROWS = pa.table(
    {
        "x": pa.array([1.5, -2.0, 0.0, None, math.nan, 7.25, math.inf, -1e308]),
        "n": pa.array([2, 0, 5, 1, 3, None, 4, -4], pa.int64()),
        "yes": pa.array([True, False, None, True, True, False, True, False]),
        "word": pa.array(["a", "b", None, "1.5", " 7 ", "b", "a", ""]),
        "t": pa.array([i * 3_723_000_000 for i in range(8)], pa.timestamp("us")),
    }
)


def told(error: sb.SkybandError) -> None:
    """Every message says something."""
    assert len(str(error)) > 12, f"the message {error!r} names no cause"


def query_text(rng: random.Random) -> str:
    """SQL, RSP-QL, or the part of a file."""
    return mutate.text(rng, rng.choice([SQL, SQL, RSPQL, YAML[2:]]))


def check_query_text(text: str) -> bool:
    """It is a statement that can be written and read again, or an error of ours."""
    try:
        found = sb.parse(text, functions={"F(m, f)": "m + 2 * f"}) if "REGISTER" in text[:200] else sb.parse(text)
    except sb.SkybandError as error:
        told(error)
        return False
    try:
        again = sb.to_yaml(found)
    except sb.QueryError as error:  # a text can say more than a query
        told(error)
        return True
    assert sb.parse(again, language="yaml").query == found.query, f"{again!r} is another query"
    return True


def pipeline_file(rng: random.Random) -> str:
    """A whole file; a line break keeps it from being taken for a path."""
    return mutate.text(rng, YAML[:2]) + "\n"


def check_pipeline_file(text: str) -> bool:
    """It is a job that says what it is, or an error of ours."""
    try:
        job = load(text)
    except sb.SkybandError as error:
        told(error)
        return False
    assert hash(job) == hash(load(text))
    return bool(job.queries)


def expression(rng: random.Random) -> str:
    """A score."""
    return mutate.text(rng, EXPRESSIONS)


def check_expression(text: str) -> bool:
    """Its scores are those of plain Python, or it is refused."""
    try:
        tree = parse(text)
        if not set(tree.columns) <= set(ROWS.column_names):  # what `check_schema` refuses
            return False
        got = scores(tree, ROWS)
    except sb.SkybandError as error:
        told(error)
        return False
    want = [_plain(tree, row) for row in ROWS.to_pylist()]
    assert np.allclose(got, want, rtol=1e-12, atol=0, equal_nan=True), f"{got.tolist()} in place of {want}"
    return True


# ---------------------------------------------------------------- scores once more, by the definition


def _plain(by: Expression, row: dict[str, Any]) -> float:
    value = _value(by.tree, row)
    return math.nan if value is None else float(value)


def _value(tree: Any, row: dict[str, Any]) -> Any:  # noqa: C901, PLR0911, PLR0912 - a case each
    """A tree's value for one row; None is NULL."""
    name, *parts = tree
    if name in ("column", "raw", "flag"):
        value = row[parts[0]]
        if isinstance(value, float) and math.isnan(value):
            return None
        return float(value) if name == "column" and value is not None else value
    if name in ("number", "text", "yes"):
        return parts[0]
    if name == "null":
        return None
    if name == "part":
        return None if row[parts[1][1]] is None else _part(parts[0], row[parts[1][1]])
    if name == "case":
        *branches, default = parts
        for when, then in zip(branches[::2], branches[1::2], strict=True):
            if _value(when, row):
                return _value(then, row)
        return _value(default, row)
    if name == "round":
        return _rounded(_value(parts[0], row), parts[1])
    signs = [part for part in parts if isinstance(part, str)]  # of a sum or a product
    values = [_value(part, row) for part in parts if not isinstance(part, str)]
    if name == "in":
        values = [None if values[0] is None or value is None else values[0] == value for value in values[1:]]
        name = "or"
    if name in ("and", "or"):
        if (name == "or") in values:
            return name == "or"
        return None if None in values else name == "and"
    known = [value for value in values if value is not None]
    if name == "isnull":
        return values[0] is None
    if name == "coalesce":
        return known[0] if known else None
    if name in ("least", "greatest"):
        return (min if name == "least" else max)(known) if known else None
    if len(known) < len(values):
        return None
    return _finite(signs or [name], values)


def _finite(names: list[str], values: list[Any]) -> Any:
    """What comes of numbers; a result of arithmetic that is not finite is NULL."""
    try:
        value = _OPERATIONS[names[0]](*values[:2])
        for name, other in zip(names[1:], values[2:], strict=True):
            value = _OPERATIONS[name](value, other)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    if isinstance(value, complex):
        return None
    if names[0] in ("neg", "abs", "whole", "real"):  # they compute nothing: an infinity goes through
        return value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _rounded(value: float | None, digits: int) -> float | None:
    if value is None or math.isinf(value):
        return None
    scale = float(f"1e{abs(digits)}")
    if digits >= 0 and abs(value) >= 2.0**52 / scale:  # no such digits in so large a number
        return value
    scaled = value * scale if digits >= 0 else value / scale
    whole = float(math.trunc(scaled))
    whole += math.copysign(1.0, scaled) if abs(scaled - whole) >= 0.5 else 0.0
    got = whole / scale if digits >= 0 else whole * scale
    return None if math.isinf(got) else got


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        import re

        return float(value) if re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", value) else None
    return float(value)


def _whole(value: Any) -> float | None:
    found = _number(value)
    return found if found is None or math.isinf(found) else float(math.trunc(found))


def _part(name: str, at: Any) -> float:
    special = {"week": lambda: at.isocalendar()[1], "quarter": lambda: (at.month + 2) // 3}
    return float(special[name]() if name in special else getattr(at, name))


_OPERATIONS: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": math.fmod,
    "neg": lambda a: -a,
    "abs": abs,
    "exp": math.exp,
    "ln": math.log,
    "sqrt": math.sqrt,
    "power": math.pow,
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "not": lambda a: not a,
    "whole": _whole,
    "real": _number,
}
