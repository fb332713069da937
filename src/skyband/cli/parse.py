"""skyband parse: what a text asks, and the same in another language."""

from __future__ import annotations

import json
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyband.errors import QueryError

if TYPE_CHECKING:
    from skyband.lang.statement import Statement

HELP = """Check a query or a pipeline file, and say what it asks; or write it in another language.

Reads SQL as Flink has it, RSP-QL, the query of a pipeline file, or a whole pipeline file. Nothing is opened or
contacted. What is wrong is said with file, line and column, and with what to write instead.

Examples:

  skyband parse pipeline.yaml

  skyband parse query.sql --to rspql

  cat query.rq | skyband parse - --function "F(m, f) = m + 2 * f" --json
"""


class Language(StrEnum):
    """What can be read and written."""

    sql = "sql"
    rspql = "rspql"
    yaml = "yaml"


def parse(
    *,
    text: Annotated[str, typer.Argument(help="A file, - for what is piped in, or the text itself.")],
    to: Annotated[Language | None, typer.Option(help="Write it in this language.")] = None,
    language: Annotated[Language | None, typer.Option(help="What it is written in (else seen from the text).")] = None,
    function: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help='A function that RSP-QL may call: "F(m, f) = m + f"; repeatable.'),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Read the text and print what it says."""
    from skyband.cli._texts import given

    found = given(text, language.value if language else None, functions(function or []))
    if to is not None:
        print("\n\n".join(_written(statement, to).rstrip() for statement in found.statements))
        return
    said = [described(statement) for statement in found.statements]
    if as_json:
        print(json.dumps({"language": found.language, "queries": said, **_job(found.job)}))
        return
    for number, one in enumerate(said):
        print("\n" * bool(number) + "\n".join(f"{name}: {_shown(value)}" for name, value in one.items()))
    for name, value in _job(found.job).items():
        print(f"{name}: {_shown(value)}")


def functions(texts: list[str]) -> dict[str, str]:
    """The functions that the options describe.

    Examples
    --------
    >>> functions(["F(m, f) = m + f"])
    {'F(m, f)': 'm + f'}
    """
    found = {}
    for text in texts:
        signature, sign, body = text.partition("=")
        if not sign or not body.strip():
            msg = f'function={text!r} is no function: write one such as "F(m, f) = m + f"'
            raise QueryError(msg)
        found[signature.strip()] = body.strip()
    return found


def described(statement: Statement) -> dict[str, Any]:
    """A statement as plain values."""
    from skyband.lang.query_yaml import query_values

    asked = statement.query if statement.remote is None else replace(statement.query, join=None)  # which follows below
    said: dict[str, Any] = {"stream": statement.source, **query_values(asked)}
    if statement.columns is not None:
        said["columns"] = [shown if what == shown else f"{what} as {shown}" for what, shown in statement.columns]
    if statement.pattern is not None:
        stars = statement.pattern.stars
        said["triples"] = [f"{star.subject} {p} {o}" for star in stars for p, o in star.needed]
        said["optional"] = [f"{star.subject} {p} {o}" for star in stars for group in star.optional for p, o in group]
        said = {name: value for name, value in said.items() if value or name != "optional"}
    if statement.remote is not None:
        remote = statement.remote
        said["join"] = {"service": remote.service, "on": remote.on, "columns": list(remote.columns)}
        said["join"] |= {"sparql": remote.sparql()} if remote.properties else {}
        said["join"] |= dict(remote.options)
    return said


def _job(job: Any) -> dict[str, Any]:
    """The rest of a pipeline file; variables stay as they are written."""
    if job is None:
        return {}
    from skyband.lang.env_template import variables_in

    return {
        "name": job.name,
        "source": _plain(job.source),
        "watermark": _plain(job.watermark),
        "ahead_of_clock": job.ahead_of_clock,
        "sink": _plain(job.sink),
        "checkpoint": None if job.checkpoint is None else str(job.checkpoint),
        "trigger": job.trigger.every or job.trigger.kind,
        "variables": sorted(variables_in(job)),
    }


def _plain(value: Any) -> Any:
    if value is None:
        return None
    shown = {name: getattr(value, name) for name in value.__dataclass_fields__ if name != "columns"}
    plain = {name: dict(one) if name == "options" else one for name, one in shown.items() if one}
    return json.loads(json.dumps(plain, default=str))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        values = {name: f"{{{_shown(one)}}}" if isinstance(one, dict) else _shown(one) for name, one in value.items()}
        return ", ".join(f"{name}: {one}" for name, one in values.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _written(statement: Statement, to: Language) -> str:
    from skyband import lang

    write = {Language.sql: lang.to_sql, Language.rspql: lang.to_rspql, Language.yaml: lang.to_yaml}[to]
    return write(statement)
