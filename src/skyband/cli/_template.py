"""A pipeline file to start from, with a word on every line."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Answers:
    """What is asked before a file is written; the defaults are those of a demo that runs anywhere."""

    name: str = "leaders"
    kind: str = "rate"
    path: str = ""
    schema: str = ""
    url: str = ""
    topic: str = ""
    time: str = "timestamp"
    by: str = "value % 1000"
    k: int = 10
    window: str = "1 minute/10 seconds"
    per: str = ""
    late: str = "10 seconds"
    sink: str = "console"
    output: str = ""


def completed(answers: Answers) -> Answers:
    """The answers, with what the files at the path can tell: their schema, and a time column."""
    if answers.schema or answers.kind not in ("parquet", "json", "csv") or not answers.path:
        return answers
    from skyband.errors import SkybandError
    from skyband.runtime.source import open_source

    try:
        schema = open_source(answers.path).schema
    except SkybandError:
        return answers  # nothing is there yet
    if schema is None:
        return answers
    times = [field.name for field in schema if str(field.type).startswith(("timestamp", "date"))]
    time = answers.time if answers.time in schema.names or not times else times[0]
    return replace(answers, schema=ddl(schema), time=time)


def ddl(schema: pa.Schema) -> str:
    """Columns and types as Spark writes them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> ddl(pa.schema({"ts": pa.timestamp("us", "UTC"), "n": pa.int64(), "a b": pa.list_(pa.string())}))
    'ts timestamp, n bigint, `a b` array<string>'
    """
    from skyband.query.trees import quote_name

    return ", ".join(f"{quote_name(field.name)} {_type(field.type)}" for field in schema)


_TYPES = {
    "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "uint8": "smallint",
    "uint16": "int", "uint32": "bigint", "uint64": "decimal(20,0)", "float": "float", "double": "double",
    "halffloat": "float", "string": "string", "large_string": "string", "string_view": "string", "binary": "binary",
    "large_binary": "binary", "date32[day]": "date", "date64[ms]": "date",
}  # fmt: skip


def _type(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_dictionary(kind):
        return _type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_type(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{_type(kind.key_type)}, {_type(kind.item_type)}>"
    return _TYPES.get(str(kind), "string")


def template(answers: Answers) -> str:
    """The text of the file.

    Examples
    --------
    >>> from skyband.lang import load
    >>> load(template(Answers())).queries[0].k
    10
    """
    size, _, slide = (word.strip() for word in answers.window.partition("/"))
    every = f"{{size: {size}, slide: {slide or size}}}"
    per = f"[{', '.join(map(_text, _names(answers.per)))}]"
    return f"""\
# A pipeline for `skyband run`. Check it with `skyband parse`, and this machine with `skyband doctor`.
# ${{NAME}} is filled from the environment when the pipeline starts; nothing prints it.
name: {_text(answers.name)}

# Where rows come from: parquet, json, csv (a folder that grows), kafka, redis, mqtt, or rate (made-up rows).
{_source(answers)}

# How late a row may come and still count. A window is answered once the watermark has passed its end.
watermark: {{column: {_text(answers.time)}, delay: {answers.late}}}
# A row whose time is further ahead of the clock than this is dropped and counted.
ahead_of_clock: 1 hour

query:
{_noted(f"  k: {answers.k}", "how many rows an answer has at most")}
{_noted(f"  by: {_text(answers.by)}", "what makes a row good; larger is better")}
{_noted(f"  window: {every}", "or {rows: 1000, every: 100}")}
  time: {_text(answers.time)}
{_noted(f"  per: {per}" if answers.per else "  # per: [symbol]", "one answer for each")}
{_noted("  # id: trade_id", "breaks ties for good")}
{_noted("  # emit: changes", "only who entered and who left")}
# Several queries: queries: [{{name: ..., k: ...}}, ...]. Other languages: sql: | ..., or rspql: | ...

# true: also report, at every trigger, the windows that are still open.
early: false

# Where answers go: console, parquet, json, csv, kafka, memory, or latest (a table with the newest list).
{_sink(answers)}

# Where the state is kept, so that a restart goes on where it stopped. One folder for one pipeline.
checkpoint: state/{re.sub(r"[^A-Za-z0-9_-]+", "-", answers.name)}
{_noted("trigger: {every: 5 seconds}", "or {available_now: true}: all there is, then stop")}

spark:
  master: local[2]
  settings: {{spark.sql.shuffle.partitions: 2}}
"""


def _source(answers: Answers) -> str:
    lines = ["source:", f"  kind: {answers.kind}"]
    if answers.kind == "rate":
        lines.append("  options: {rowsPerSecond: 1000}")
    if answers.path:
        lines.append(f"  path: {_text(answers.path)}")
    lines += [f"  {name}: {_text(getattr(answers, name))}" for name in ("url", "topic") if getattr(answers, name)]
    if answers.schema:
        lines.append(f"  schema: {_text(answers.schema)}")
    elif answers.kind != "rate":
        lines.append('  # schema: "ts timestamp, symbol string, price double"')
    if answers.kind in ("redis", "mqtt"):
        lines.append(_noted("  idle: 30 seconds", "a silent stream: after this long, time goes on by itself"))
    return "\n".join(lines)


def _sink(answers: Answers) -> str:
    lines = ["sink:", f"  kind: {answers.sink}"]
    if answers.sink in ("parquet", "json", "csv"):
        lines.append(f"  path: {_text(answers.output or 'answers/')}")
    if answers.sink == "latest":
        lines.append(f"  url: {_text(answers.output or 'sqlite:///leaders.db')}")
        lines.append(f"  table: {re.sub(r'[^A-Za-z0-9_]+', '_', answers.name)}")
    if answers.sink == "kafka":
        lines.append(f"  url: {_text(answers.output or 'localhost:9092')}")
        lines.append(f"  topic: {_text(answers.name)}")
    return "\n".join(lines)


def _noted(line: str, note: str) -> str:
    """A line and a word on it."""
    return f"{line:<28} # {note}"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _text(value: str) -> str:
    """A value as it stands in the file, in quotes where it needs them."""
    import yaml

    return yaml.safe_dump(value, width=10_000, default_flow_style=True).removesuffix("\n...\n").strip()
