"""skyband init: a commented pipeline file from a few questions or flags."""

from __future__ import annotations

import json
import sys
from dataclasses import fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skyband.errors import QueryError

if TYPE_CHECKING:
    from skyband.cli._template import Answers

HELP = """Write a pipeline file, with a word on every line.

On a terminal it asks a few questions, unless flags say enough or --yes is given. A folder of files that exists is
looked at for its columns. The file is checked before it is written.

Examples:

  skyband init

  skyband init trades.yaml --source parquet --path trades/ --time ts --by "price * volume" --per symbol

  skyband init --yes && skyband parse pipeline.yaml
"""


class Source(StrEnum):
    """Kinds of sources."""

    parquet = "parquet"
    json = "json"
    csv = "csv"
    kafka = "kafka"
    rate = "rate"
    redis = "redis"
    mqtt = "mqtt"


class Sink(StrEnum):
    """Kinds of sinks."""

    console = "console"
    parquet = "parquet"
    json = "json"
    csv = "csv"
    memory = "memory"
    latest = "latest"
    kafka = "kafka"


def init(
    *,
    file: Annotated[Path, typer.Argument(help="The file to write; - prints it.")] = Path("pipeline.yaml"),
    name: Annotated[str | None, typer.Option(help="What the pipeline is called.")] = None,
    source: Annotated[Source | None, typer.Option(help="Where rows come from.")] = None,
    path: Annotated[str | None, typer.Option(help="The folder of the files.")] = None,
    url: Annotated[str | None, typer.Option(help="The address of Kafka, Redis or MQTT.")] = None,
    topic: Annotated[str | None, typer.Option(help="What to listen to there.")] = None,
    schema: Annotated[str | None, typer.Option(help='Columns and types: "ts timestamp, price double".')] = None,
    time: Annotated[str | None, typer.Option(help="The column of the event time.")] = None,
    by: Annotated[str | None, typer.Option(help='What makes a row good, such as "price * volume".')] = None,
    k: Annotated[int | None, typer.Option(help="How many rows an answer has at most.")] = None,
    window: Annotated[str | None, typer.Option(help='Size and slide: "10 minutes/1 minute".')] = None,
    per: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column that makes groups; repeatable.")
    ] = None,
    late: Annotated[str | None, typer.Option(help="How late a row may come.")] = None,
    sink: Annotated[Sink | None, typer.Option(help="Where answers go.")] = None,
    output: Annotated[str | None, typer.Option(help="The folder or address of the sink.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: defaults for what is not given.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Say what was written as one JSON object.")] = False,
) -> None:
    """Gather the answers, check the file they make, and write it."""
    from skyband.cli._template import Answers, completed, template
    from skyband.lang.pipeline_file import read_job
    from skyband.lang.position import Position
    from skyband.lang.yaml_node import read_yaml

    if str(file) != "-" and file.exists() and not force:
        msg = f"file={str(file)!r} exists: write --force to overwrite it, or give another name"
        raise QueryError(msg)
    said = {
        "name": name, "kind": source.value if source else None, "path": path, "url": url, "topic": topic,
        "schema": schema, "time": time, "by": by, "k": k, "window": window, "per": ", ".join(per or []) or None,
        "late": late, "sink": sink.value if sink else None, "output": output,
    }  # fmt: skip
    flags = {field: value for field, value in said.items() if value is not None}
    answers = completed(replace(Answers(), **flags))  # type: ignore[arg-type]
    if not flags and not yes and sys.stdin.isatty():
        answers = _asked(answers)
    _check(answers)
    text = template(answers)
    found = read_job(read_yaml(text, Position(file=str(file))))
    if str(file) == "-":
        print(text, end="")
        return
    file.write_text(text, encoding="utf-8")
    if as_json:
        print(json.dumps({"file": str(file), "name": found.name}))
    else:
        print(f"wrote {file}. Next: skyband parse {file}, skyband doctor {file}, skyband run {file}")


def _asked(answers: Answers) -> Answers:
    """Ask what matters most; an empty answer keeps the default."""
    from skyband.cli._template import completed

    kind = typer.prompt("Where do rows come from (parquet, json, csv, kafka, rate, redis, mqtt)", answers.kind)
    answers = replace(answers, kind=str(Source(kind)) if kind in list(Source) else kind)
    if kind in ("parquet", "json", "csv"):
        answers = completed(replace(answers, path=typer.prompt("Folder of the files", "data/")))
    elif kind != "rate":
        answers = replace(answers, url=typer.prompt("Address (host:port or URL)"), topic=typer.prompt("Topic"))
    questions = {
        "schema": "Columns and types (ts timestamp, price double)",
        "time": "Column of the event time",
        "by": "What makes a row good (price * volume)",
        "k": "How many rows",
        "window": "Window (size/slide)",
        "per": "Groups (columns, empty for none)",
        "late": "How late a row may come",
        "sink": "Where do answers go (console, parquet, json, csv, kafka, memory, latest)",
    }
    for field, question in questions.items():
        if field == "schema" and (answers.schema or kind == "rate"):
            continue
        before = getattr(answers, field)
        answer = typer.prompt(question, before, show_default=before != "")
        answers = replace(answers, **{field: type(before)(answer)})
    return answers


def _check(answers: Answers) -> None:
    """Say which flag is missing, rather than which line of the file is wrong."""
    needed = {"parquet": "path", "json": "path", "csv": "path", "kafka": "url topic schema"}
    needed |= dict.fromkeys(("redis", "mqtt"), "url topic schema")
    for field in needed.get(answers.kind, "").split():
        if not getattr(answers, field):
            msg = f"--source {answers.kind} needs --{field}: add it"
            raise QueryError(msg)
    defaults = {field.name: field.default for field in fields(answers)}
    if answers.kind != "rate" and answers.by == defaults["by"]:
        msg = f"--source {answers.kind} needs --by, which says what makes a row good: add --by price"
        raise QueryError(msg)
