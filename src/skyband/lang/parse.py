"""sb.parse: a text in any of the languages as a statement."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError, nearest
from skyband.lang.place import Place
from skyband.query.expression import check_unicode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, timedelta

    from skyband.lang.statement import Statement

LANGUAGES = ("sql", "rspql", "yaml")
_COMMENTS = re.compile(r"^(?:\s+|--[^\n]*|#[^\n]*|/\*.*?\*/)+", re.DOTALL)
_RSPQL = re.compile(r"(?:REGISTER|PREFIX|BASE)\b|SELECT\s+(?:DISTINCT\s+|REDUCED\s+)?[?$(]", re.IGNORECASE)
_SQL = re.compile(r"(?:SELECT|WITH|INSERT|CREATE|EXPLAIN|FROM)\b(?!\s*:)|\(\s*SELECT\b", re.IGNORECASE)


def parse(
    text: str,
    *,
    language: str | None = None,
    functions: Mapping[str, str] | None = None,
    origin: str | date | timedelta | None = None,
    time: str | None = None,
    services: Mapping[str, Any] | None = None,
) -> Statement:
    """The query that a text describes: SQL as Flink has it, RSP-QL, or the `query:` part of a pipeline file.

    Parameters
    ----------
    text
        The text.
    language
        "sql", "rspql" or "yaml" (default: seen from how it begins).
    functions
        Functions that RSP-QL may call, such as {"F(m, f)": "m + 2 * f"}.
    origin
        Where the windows of RSP-QL begin (default: at the epoch).
    time
        What the column with the time of the triples is called in RSP-QL (default: "time").
    services
        What the names in SERVICE, or in `join:`, stand for: the address of a SPARQL endpoint, a table such as those in
        `skyband.tables`, or a mapping as under `services:` of a pipeline file, such as
        {"BKG": {"kind": "sparql", "url": "http://...", "join": {"refresh": {"budget": 7}}}}. A text never
        names an address.

    Returns
    -------
    A statement, which `sb.run`, `sb.stream` and `sb.explain` take like a query; `.query` is the `sb.TopK` in it.
    What is not supported raises a `ParseError`, which says where, and what to write instead.

    Examples
    --------
    >>> import skyband as sb
    >>> asked = sb.parse('''
    ...     SELECT symbol, price, rn FROM (
    ...       SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rn
    ...       FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTE)))
    ...     WHERE rn <= 1''')
    >>> asked.query == sb.TopK(k=1, by="price", window=sb.Tumbling("1 minute"), time="ts")
    True
    """
    if not isinstance(text, str):
        msg = f"text={type(text).__name__} is no text: give SQL, RSP-QL or YAML"
        raise QueryError(msg)
    if language is not None and language not in LANGUAGES:
        msg = f"language={language!r} is unknown: {nearest(language, LANGUAGES)}"
        raise QueryError(msg)
    try:
        check_unicode("text", text)
    except QueryError as error:
        raise Place(1, 1).error(str(error)) from None
    given = {"functions": functions, "origin": origin, "time": time}
    more = {name: value for name, value in given.items() if value is not None}
    asked = parse_at(text, language or seen(text), Place(1, 1), **more)
    return asked if services is None else asked.with_services(services)


def seen(text: str) -> str:
    r"""The language of a text, by how it begins.

    Examples
    --------
    >>> seen("-- the best\nSELECT * FROM t"), seen("PREFIX : <urn:>"), seen("k: 3")
    ('sql', 'rspql', 'yaml')
    """
    rest = _COMMENTS.sub("", text)
    if _RSPQL.match(rest):
        return "rspql"
    return "sql" if _SQL.match(rest) else "yaml"


def parse_at(text: str, language: str, begin: Place, **more: Any) -> Statement:
    """The statement in a text that begins at `begin` of something larger."""
    if language == "sql" and not more:
        from skyband.lang.sql.read import read_sql

        return read_sql(text, begin)
    if language == "rspql":
        from skyband.lang.rspql.read import read_rspql

        return read_rspql(text, begin, **more)
    if more:
        msg = f"{next(iter(more))}= is for RSP-QL only: leave it out"
        raise QueryError(msg)
    from skyband.lang.document import read
    from skyband.lang.question import statement

    return statement(read(text, begin=begin))
