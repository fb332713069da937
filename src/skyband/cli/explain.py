"""skyband explain: which engine, why, and what it will keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from skyband.errors import QueryError

if TYPE_CHECKING:
    from skyband.query import Counting, Sliding, TopK

HELP = """Say which engine answers a query, why, and what it will keep.

Examples:

  skyband explain --k 10 --by "price * volume" --window "10 minutes/1 minute" --time ts

  skyband explain --k 3 --by price --rows 1000/100 --per symbol --emit changes --json

  skyband explain query.sql

  skyband explain pipeline.yaml --json
"""


def explain(
    *,
    text: Annotated[
        str | None, typer.Argument(help="A query or pipeline file, - for what is piped in, or the text itself.")
    ] = None,
    by: Annotated[str | None, typer.Option(help='What makes a row good, such as "price * volume".')] = None,
    k: Annotated[int, typer.Option(help="How many rows an answer has at most.")] = 10,
    window: Annotated[
        str | None,
        typer.Option(help='Size and slide in time: "10 minutes/1 minute", "10 minutes/row", "1 hour".'),
    ] = None,
    rows: Annotated[
        str | None, typer.Option(help="Size and slide in rows: 1000/100, or 1000 alone (after every row).")
    ] = None,
    time: Annotated[str | None, typer.Option(help="The column of the event time.")] = None,
    per: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="A column that makes groups; repeatable.")
    ] = None,
    id: Annotated[str | None, typer.Option(help="The column that breaks ties.")] = None,
    emit: Annotated[str, typer.Option(help="What goes out: answers, changes or arrivals.")] = "answers",
    engine: Annotated[str, typer.Option(help='"auto", or the name of an engine.', autocompletion=engines)] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the explanation of the query that the text or the options describe."""
    from skyband.query import EMITS, TopK
    from skyband.query.validation import check_choice

    if text is not None:
        from skyband.cli._texts import given

        if by is not None or window is not None or rows is not None:
            msg = "the text says what is asked: leave the options of the query out, or the text"
            raise QueryError(msg)
        queries = [statement.query for statement in given(text).statements]
    elif by is None:
        msg = "there is no query: give a file, or --by and --window, such as --by price --rows 1000/100"
        raise QueryError(msg)
    else:
        queries = [
            TopK(
                k=k,
                by=by,
                window=parsed(window, rows),
                time=time,
                per=per or (),
                id=id,
                emit=check_choice("emit", emit, EMITS),
            )
        ]
    told(queries, engine, as_json=as_json)


def told(queries: Sequence[TopK], engine: str = "auto", *, as_json: bool) -> None:
    """Print how each query would be answered."""
    from skyband import api

    said = []
    for query in queries:
        found = api.explain(query, engine=engine)
        named = {"query": query.name} if query.name else {}
        lines = dict(line.split(": ", 1) for line in found.lines)
        said.append({**named, "engine": found.engine, "why": found.why, **lines})
        if not as_json:
            print(f"query: {query.name}\n{found}" if query.name else found)
    if as_json:
        print(json.dumps(said[0] if len(said) == 1 else said))


def engines(begun: str) -> list[str]:
    """Names of engines that begin so, for the shell."""
    from skyband.engines.registry import ENGINES

    return [name for name in ("auto", *ENGINES) if name.startswith(begun)]


def parsed(window: str | None, rows: str | None) -> Sliding | Counting:
    """The window that one of the two options names.

    Examples
    --------
    >>> parsed("10 minutes/1 minute", None), parsed(None, "1000/100")
    (Sliding('10 min', '1 min'), Counting(size=1000, slide=100))
    """
    from skyband.query import Counting, Sliding

    if window is not None and rows is None:
        size, _, slide = (part.strip() for part in window.partition("/"))
        return Sliding(size, slide or size)
    if window is not None or rows is None:
        msg = 'a query has one window: write --window "10 minutes/1 minute" or --rows 1000/100'
        raise QueryError(msg)
    try:
        return Counting(*(int(part) for part in rows.split("/", 1)))
    except ValueError as error:
        if isinstance(error, QueryError):
            raise
        msg = f"rows={rows!r} is not a size and a slide: write whole numbers such as 1000/100"
        raise QueryError(msg) from None
