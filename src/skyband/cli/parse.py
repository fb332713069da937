"""skyband parse: check a query or a pipeline file, and translate it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skyband.cli._common import parse_text
from skyband.errors import QueryError
from skyband.lang.parse import Language

if TYPE_CHECKING:
    from skyband.lang.statement import Statement

HELP = """Check a query or a pipeline file and print its parts, or translate it into another language.

Reads Flink's SQL, RSP-QL, the query of a pipeline file, or a whole pipeline file. Nothing is opened or contacted. An
error has file, line and column, and what to write instead.

Examples:

  skyband parse pipeline.yaml

  skyband parse query.sql --to rspql

  cat query.rq | skyband parse - --function "F(m, f) = m + 2 * f" --json
"""


def parse(
    *,
    text: Annotated[str, typer.Argument(help="A file, - for stdin, or the text itself.")],
    to: Annotated[Language | None, typer.Option(help="Translate into this language.")] = None,
    language: Annotated[Language | None, typer.Option(help="Language of the text. Default: detected.")] = None,
    function: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help='Function that RSP-QL may call: "F(m, f) = m + f"; repeatable.'),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Parse the text and print its parts, or the translation."""
    found = parse_text(text, language, parse_functions(function or []))
    if to is not None:
        print("\n\n".join(_translate(statement, to).rstrip() for statement in found.statements))
        return
    queries = [_describe(statement) for statement in found.statements]
    if as_json:
        print(json.dumps({"language": found.language, "queries": queries, **_describe_job(found.job)}))
        return
    for number, query in enumerate(queries):
        print("\n" * bool(number) + "\n".join(f"{name}: {_to_text(value)}" for name, value in query.items()))
    for name, value in _describe_job(found.job).items():
        print(f"{name}: {_to_text(value)}")


def parse_functions(texts: list[str]) -> dict[str, str]:
    """Parse the functions that the options define.

    Examples
    --------
    >>> parse_functions(["F(m, f) = m + f"])
    {'F(m, f)': 'm + f'}
    """
    found = {}
    for text in texts:
        signature, sign, body = text.partition("=")
        if not sign or not body.strip():
            raise QueryError(f'function must have the form "F(m, f) = m + f", got {text!r}')
        found[signature.strip()] = body.strip()
    return found


def _describe(statement: Statement) -> dict[str, Any]:
    from skyband.lang.query_yaml import query_values

    query = statement.query if statement.remote is None else replace(statement.query, join=None)  # which follows below
    found: dict[str, Any] = {"stream": statement.source, **query_values(query)}
    if statement.columns is not None:
        found["columns"] = [name if source == name else f"{source} as {name}" for source, name in statement.columns]
    if statement.pattern is not None:
        stars = statement.pattern.stars
        found["triples"] = [f"{star.subject} {p} {o}" for star in stars for p, o in star.needed]
        found["optional"] = [f"{star.subject} {p} {o}" for star in stars for group in star.optional for p, o in group]
        found = {name: value for name, value in found.items() if value or name != "optional"}
    if statement.remote is not None:
        remote = statement.remote
        found["join"] = {"service": remote.service, "on": remote.on, "columns": list(remote.columns)}
        found["join"] |= {"sparql": remote.sparql()} if remote.properties else {}
        found["join"] |= dict(remote.options)
    return found


def _describe_job(job: Any) -> dict[str, Any]:
    """Return the rest of a pipeline file, with variables as they are written."""
    if job is None:
        return {}
    from skyband.lang.text import variables_in

    return {
        "name": job.name,
        "source": _to_plain(job.source),
        "watermark": _to_plain(job.watermark),
        "ahead_of_clock": job.ahead_of_clock,
        "sink": _to_plain(job.sink),
        "checkpoint": None if job.checkpoint is None else str(job.checkpoint),
        "trigger": job.trigger.every or job.trigger.kind,
        "variables": sorted(variables_in(job)),
    }


def _to_plain(value: Any) -> Any:
    if value is None:
        return None
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__ if name != "columns"}
    plain = {name: dict(one) if name == "options" else one for name, one in fields.items() if one}
    return json.loads(json.dumps(plain, default=str))


def _to_text(value: Any) -> str:
    if isinstance(value, dict):
        values = {
            name: f"{{{_to_text(one)}}}" if isinstance(one, dict) else _to_text(one) for name, one in value.items()
        }
        return ", ".join(f"{name}: {one}" for name, one in values.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _translate(statement: Statement, to: Language) -> str:
    from skyband import lang

    write: Any = {"sql": lang.to_sql, "rspql": lang.to_rspql, "yaml": lang.to_yaml}[to]
    return str(write(statement))
