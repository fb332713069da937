"""skyband explain: which engine runs a query, why, and what it keeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from skyband.cli._common import parse_text
from skyband.errors import QueryError

if TYPE_CHECKING:
    from skyband.query import Counting, Sliding, TopK

HELP = """Explain which engine runs a query, why, and what it keeps in memory.

Examples:

  skyband explain --k 10 --by "price * volume" --window "10 minutes/1 minute" --time ts

  skyband explain --k 3 --by price --rows 1000/100 --per symbol --emit changes --json

  skyband explain query.sql

  skyband explain pipeline.yaml --json
"""


def explain(
    *,
    text: Annotated[
        str | None, typer.Argument(help="A query or pipeline file, - for stdin, or the text itself.")
    ] = None,
    by: Annotated[str | None, typer.Option(help='Score of a row, such as "price * volume".')] = None,
    k: Annotated[int, typer.Option(help="Rows per answer.")] = 10,
    window: Annotated[
        str | None,
        typer.Option(help='Size and slide in time: "10 minutes/1 minute", "10 minutes/row", "1 hour".'),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help="Size and slide in rows: 1000/100, or 1000 alone (after every row).")
    ] = None,
    time: Annotated[str | None, typer.Option(help="Event-time column.")] = None,
    per: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Group column; repeatable.")] = None,
    id: Annotated[str | None, typer.Option(help="Column that breaks ties.")] = None,
    emit: Annotated[str, typer.Option(help="What to emit: answers, changes or arrivals.")] = "answers",
    engine: Annotated[
        str, typer.Option(help='"auto", or the name of an engine.', autocompletion=complete_engine)
    ] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the explanation of the query in the text or the options."""
    from skyband.query import EMITS, TopK
    from skyband.query.validation import check_choice

    if text is not None:
        if by is not None or window is not None or rows is not None:
            raise QueryError(
                "the query must be given by a text or by options, got both: omit --by, --window and --rows"
            )
        queries = [statement.query for statement in parse_text(text).statements]
    elif by is None:
        raise QueryError("a query is missing: give a file, or --by and --window, such as --by price --rows 1000/100")
    else:
        queries = [
            TopK(
                k=k,
                by=by,
                window=parse_window(window, rows),
                time=time,
                per=per or (),
                id=id,
                emit=check_choice("emit", emit, EMITS),
            )
        ]
    print_explanations(queries, engine, as_json=as_json)


def print_explanations(queries: Sequence[TopK], engine: str = "auto", *, as_json: bool) -> None:
    """Print how each query would run."""
    from skyband import api

    explanations = []
    for query in queries:
        found = api.explain(query, engine=engine)
        named = {"query": query.name} if query.name else {}
        lines = dict(line.split(": ", 1) for line in found.lines)
        explanations.append({**named, "engine": found.engine, "why": found.why, **lines})
        if not as_json:
            print(f"query: {query.name}\n{found}" if query.name else found)
    if as_json:
        print(json.dumps(explanations[0] if len(explanations) == 1 else explanations))


def complete_engine(prefix: str) -> list[str]:
    """Return the engines with this prefix, for the shell."""
    from skyband.engines.registry import ENGINES

    return [name for name in ("auto", *ENGINES) if name.startswith(prefix)]


def parse_window(window: str | None, rows: str | None) -> Sliding | Counting:
    """Parse the window that one of the two options gives.

    Examples
    --------
    >>> parse_window("10 minutes/1 minute", None), parse_window(None, "1000/100")
    (Sliding('10 min', '1 min'), Counting(size=1000, slide=100))
    """
    from skyband.query import Counting, Sliding

    if window is not None and rows is None:
        size, _, slide = (part.strip() for part in window.partition("/"))
        return Sliding(size, slide or size)
    if window is not None or rows is None:
        raise QueryError('a query must have one window: write --window "10 minutes/1 minute" or --rows 1000/100')
    try:
        return Counting(*(int(part) for part in rows.split("/", 1)))
    except ValueError as error:
        if isinstance(error, QueryError):
            raise
        raise QueryError(f"rows must be a size and a slide such as 1000/100, got {rows!r}") from None
