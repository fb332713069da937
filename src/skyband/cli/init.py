"""skyband init: write a commented pipeline file, from a few questions or flags."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from skyband.errors import QueryError, SkybandError
from skyband.lang.config import SinkKind, SourceKind

if TYPE_CHECKING:
    import pyarrow as pa

HELP = """Write a pipeline file with a comment on every line.

On a terminal it asks a few questions, unless flags or --yes are given. The columns are read from the files of an
existing folder. The file is checked before it is written.

Examples:

  skyband init

  skyband init trades.yaml --source parquet --path trades/ --time ts --by "price * volume" --per symbol

  skyband init --yes && skyband parse pipeline.yaml
"""

_FILES = ("parquet", "json", "csv")


@dataclass(frozen=True)
class PipelineOptions:
    """What a pipeline file is made from; the defaults run anywhere."""

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


def init(
    *,
    file: Annotated[Path, typer.Argument(help="The file to write; - prints it.")] = Path("pipeline.yaml"),
    name: Annotated[str | None, typer.Option(help="Name of the pipeline.")] = None,
    source: Annotated[SourceKind | None, typer.Option(help="Kind of the source.")] = None,
    path: Annotated[str | None, typer.Option(help="Folder of the files.")] = None,
    url: Annotated[str | None, typer.Option(help="Address of Kafka, Redis or MQTT.")] = None,
    topic: Annotated[str | None, typer.Option(help="Topic or stream there.")] = None,
    schema: Annotated[str | None, typer.Option(help='Columns and types: "ts timestamp, price double".')] = None,
    time: Annotated[str | None, typer.Option(help="Event-time column.")] = None,
    by: Annotated[str | None, typer.Option(help='Score of a row, such as "price * volume".')] = None,
    k: Annotated[int | None, typer.Option(help="Rows per answer.")] = None,
    window: Annotated[str | None, typer.Option(help='Size and slide: "10 minutes/1 minute".')] = None,
    per: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Group column; repeatable.")] = None,
    late: Annotated[str | None, typer.Option(help="Allowed lateness of rows.")] = None,
    sink: Annotated[SinkKind | None, typer.Option(help="Kind of the sink.")] = None,
    output: Annotated[str | None, typer.Option(help="Folder or address of the sink.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Use defaults for what is not given.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as one JSON object.")] = False,
) -> None:
    """Collect the options, check the file they make, and write it."""
    from skyband.lang.pipeline_file import read_job
    from skyband.lang.text import Position
    from skyband.lang.yaml_node import read_yaml

    if str(file) != "-" and file.exists() and not force:
        raise QueryError(f"file={str(file)!r} exists: add --force to overwrite it, or give another name")
    given = {
        "name": name, "kind": source, "path": path, "url": url, "topic": topic, "schema": schema,
        "time": time, "by": by, "k": k, "window": window, "per": ", ".join(per or []) or None, "late": late,
        "sink": sink, "output": output,
    }  # fmt: skip
    flags = {field: value for field, value in given.items() if value is not None}
    options = _read_schema(replace(PipelineOptions(), **flags))  # type: ignore[arg-type]
    if not flags and not yes and sys.stdin.isatty():
        options = _ask(options)
    _check(options)
    text = template(options)
    found = read_job(read_yaml(text, Position(file=str(file))))
    if str(file) == "-":
        print(text, end="")
        return
    file.write_text(text, encoding="utf-8")
    if as_json:
        print(json.dumps({"file": str(file), "name": found.name}))
    else:
        print(f"wrote {file}. Next: skyband parse {file}, skyband doctor {file}, skyband run {file}")


def _ask(options: PipelineOptions) -> PipelineOptions:
    """Ask what matters most; an empty answer keeps the default."""
    kind = typer.prompt(f"Source ({', '.join(get_args(SourceKind))})", options.kind)
    options = replace(options, kind=kind)
    if kind in _FILES:
        options = _read_schema(replace(options, path=typer.prompt("Folder of the files", "data/")))
    elif kind != "rate":
        options = replace(options, url=typer.prompt("Address (host:port or URL)"), topic=typer.prompt("Topic"))
    questions = {
        "schema": "Columns and types (ts timestamp, price double)",
        "time": "Event-time column",
        "by": "Score (price * volume)",
        "k": "Rows per answer",
        "window": "Window (size/slide)",
        "per": "Group columns (empty for none)",
        "late": "Allowed lateness",
        "sink": f"Sink ({', '.join(get_args(SinkKind))})",
    }
    for field, question in questions.items():
        if field == "schema" and (options.schema or kind == "rate"):
            continue
        before = getattr(options, field)
        answer = typer.prompt(question, before, show_default=before != "")
        options = replace(options, **{field: type(before)(answer)})
    return options


def _check(options: PipelineOptions) -> None:
    """Name the missing flag, rather than the wrong line of the file."""
    required = ("path",) if options.kind in _FILES else () if options.kind == "rate" else ("url", "topic", "schema")
    for field in required:
        if not getattr(options, field):
            raise QueryError(f"--source {options.kind} needs --{field}: add it")
    defaults = {field.name: field.default for field in fields(options)}
    if options.kind != "rate" and options.by == defaults["by"]:
        raise QueryError(f"--source {options.kind} needs --by, the score of a row: add --by price")


# ---------------------------------------------------------------- columns


def _read_schema(options: PipelineOptions) -> PipelineOptions:
    """Fill in schema and time column from the files at the path."""
    if options.schema or options.kind not in _FILES or not options.path:
        return options
    from skyband.runtime.source import open_source

    try:
        schema = open_source(options.path).schema
    except SkybandError:
        return options  # no files yet
    if schema is None:
        return options
    times = [field.name for field in schema if str(field.type).startswith(("timestamp", "date"))]
    time = options.time if options.time in schema.names or not times else times[0]
    return replace(options, schema=to_ddl(schema), time=time)


def to_ddl(schema: pa.Schema) -> str:
    """Return columns and types in Spark's DDL.

    Examples
    --------
    >>> import pyarrow as pa
    >>> to_ddl(pa.schema({"ts": pa.timestamp("us", "UTC"), "n": pa.int64(), "a b": pa.list_(pa.string())}))
    'ts timestamp, n bigint, `a b` array<string>'
    """
    from skyband.query.trees import quote_name

    return ", ".join(f"{quote_name(field.name)} {_spark_type(field.type)}" for field in schema)


_SPARK_TYPES = {
    "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "uint8": "smallint",
    "uint16": "int", "uint32": "bigint", "uint64": "decimal(20,0)", "float": "float", "double": "double",
    "halffloat": "float", "string": "string", "large_string": "string", "string_view": "string", "binary": "binary",
    "large_binary": "binary", "date32[day]": "date", "date64[ms]": "date",
}  # fmt: skip


def _spark_type(kind: pa.DataType) -> str:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {_spark_type(field.type)}' for field in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{_spark_type(kind.key_type)}, {_spark_type(kind.item_type)}>"
    return _SPARK_TYPES.get(str(kind), "string")


# ---------------------------------------------------------------- the file


def template(options: PipelineOptions) -> str:
    """Return the text of the file.

    Examples
    --------
    >>> from skyband.lang import load
    >>> load(template(PipelineOptions())).queries[0].k
    10
    """
    size, _, slide = (word.strip() for word in options.window.partition("/"))
    window = f"{{size: {size}, slide: {slide or size}}}"
    per = ", ".join(_to_yaml(name.strip()) for name in options.per.split(",") if name.strip())
    return f"""\
# A pipeline for `skyband run`. Check it with `skyband parse`, and this machine with `skyband doctor`.
# ${{NAME}} is replaced from the environment when the pipeline starts, and never printed.
name: {_to_yaml(options.name)}

# Source of the rows: parquet, json, csv (a folder that grows), kafka, redis, mqtt, or rate (generated rows).
{_source(options)}

# Allowed lateness of rows. A window is answered once the watermark has passed its end.
watermark: {{column: {_to_yaml(options.time)}, delay: {options.late}}}
# Rows whose time is further ahead of the clock are dropped and counted.
ahead_of_clock: 1 hour

query:
{_comment(f"  k: {options.k}", "rows per answer")}
{_comment(f"  by: {_to_yaml(options.by)}", "score of a row; larger is better")}
{_comment(f"  window: {window}", "or {rows: 1000, every: 100}")}
  time: {_to_yaml(options.time)}
{_comment(f"  per: [{per}]" if per else "  # per: [symbol]", "one answer for each group")}
{_comment("  # id: trade_id", "breaks ties")}
{_comment("  # emit: changes", "only rows that entered and left")}
# Several queries: queries: [{{name: ..., k: ...}}, ...]. Other languages: sql: | ..., or rspql: | ...

# true: also report open windows at every trigger.
early: false

# Sink of the answers: console, parquet, json, csv, kafka, memory, or latest (a table with the newest list).
{_sink(options)}

# Where the state is stored, so that a restart continues from there. One folder per pipeline.
checkpoint: state/{re.sub(r"[^A-Za-z0-9_-]+", "-", options.name)}
{_comment("trigger: {every: 5 seconds}", "or {available_now: true}: process what is there, then stop")}

spark:
  master: local[2]
  settings: {{spark.sql.shuffle.partitions: 2}}
"""


def _source(options: PipelineOptions) -> str:
    lines = ["source:", f"  kind: {options.kind}"]
    if options.kind == "rate":
        lines.append("  options: {rowsPerSecond: 1000}")
    lines += [
        f"  {name}: {_to_yaml(getattr(options, name))}"
        for name in ("path", "url", "topic", "schema")
        if getattr(options, name)
    ]
    if options.kind != "rate" and not options.schema:
        lines.append('  # schema: "ts timestamp, symbol string, price double"')
    if options.kind in ("redis", "mqtt"):
        lines.append(_comment("  idle: 30 seconds", "after this time without rows, event time advances by itself"))
    return "\n".join(lines)


def _sink(options: PipelineOptions) -> str:
    lines = ["sink:", f"  kind: {options.sink}"]
    if options.sink in _FILES:
        lines.append(f"  path: {_to_yaml(options.output or 'answers/')}")
    if options.sink == "latest":
        lines.append(f"  url: {_to_yaml(options.output or 'sqlite:///leaders.db')}")
        lines.append(f"  table: {re.sub(r'[^A-Za-z0-9_]+', '_', options.name)}")
    if options.sink == "kafka":
        lines.append(f"  url: {_to_yaml(options.output or 'localhost:9092')}")
        lines.append(f"  topic: {_to_yaml(options.name)}")
    return "\n".join(lines)


def _comment(line: str, comment: str) -> str:
    return f"{line:<28} # {comment}"


def _to_yaml(value: str) -> str:
    """Quote a value where YAML needs it."""
    import yaml

    return yaml.safe_dump(value, width=10_000, default_flow_style=True).removesuffix("\n...\n").strip()
