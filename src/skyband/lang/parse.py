"""sb.parse: a text in any of the languages as a statement."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, get_args

from skyband.lang.text import Position, errors_at
from skyband.query.expression import check_unicode
from skyband.query.validation import check_choice, invalid

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date, timedelta

    from skyband.lang.statement import Statement

Language = Literal["sql", "rspql", "yaml"]
_COMMENTS = re.compile(r"^(?:\s+|--[^\n]*|#[^\n]*|/\*.*?\*/)+", re.DOTALL)
_RSPQL = re.compile(r"(?:REGISTER|PREFIX|BASE)\b|SELECT\s+(?:DISTINCT\s+|REDUCED\s+)?[?$(]", re.IGNORECASE)
_SQL = re.compile(r"(?:SELECT|WITH|INSERT|CREATE|EXPLAIN|FROM)\b(?!\s*:)|\(\s*SELECT\b", re.IGNORECASE)


def parse(
    text: str,
    *,
    language: Language | None = None,
    functions: Mapping[str, str] | None = None,
    origin: str | date | timedelta | None = None,
    time: str | None = None,
    services: Mapping[str, Any] | None = None,
) -> Statement:
    """Read a query from a text: SQL as Flink has it, RSP-QL, or the `query:` part of a pipeline file.

    Parameters
    ----------
    text
        The text.
    language
        "sql", "rspql" or "yaml" (default: by how the text begins).
    functions
        Functions that RSP-QL may call, such as {"F(m, f)": "m + 2 * f"}.
    origin
        Where the windows of RSP-QL begin (default: at the epoch).
    time
        The name of the column with the time of the triples in RSP-QL (default: "time").
    services
        What the names in SERVICE, or in `join:`, stand for: the address of a SPARQL endpoint, a table such as those in
        `skyband.tables`, or a mapping as under `services:` of a pipeline file, such as
        {"BKG": {"kind": "sparql", "url": "http://...", "join": {"refresh": {"budget": 7}}}}. A text never names an
        address.

    Returns
    -------
    A statement, which `sb.run`, `sb.stream` and `sb.explain` take like a query; `.query` is the `sb.TopK` in it.
    What is not supported raises a `ParseError`, which says where, and what to write instead.

    Examples
    --------
    >>> import skyband as sb
    >>> statement = sb.parse('''
    ...     SELECT symbol, price, rn FROM (
    ...       SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS rn
    ...       FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTE)))
    ...     WHERE rn <= 1''')
    >>> statement.query == sb.TopK(k=1, by="price", window=sb.Tumbling("1 minute"), time="ts")
    True
    """
    if not isinstance(text, str):
        raise invalid("text", "be SQL, RSP-QL or YAML", text)
    if language is not None:
        check_choice("language", language, get_args(Language))
    with errors_at(Position().error):
        check_unicode("text", text)
    options = {"functions": functions, "origin": origin, "time": time}
    given = {name: value for name, value in options.items() if value is not None}
    statement = parse_at(text, language or detect_language(text), Position(), **given)
    return statement if services is None else statement.with_services(services)


def detect_language(text: str) -> str:
    r"""Return the language of a text, by how it begins.

    Examples
    --------
    >>> detect_language("-- the best\nSELECT * FROM t"), detect_language("PREFIX : <urn:>"), detect_language("k: 3")
    ('sql', 'rspql', 'yaml')
    """
    rest = _COMMENTS.sub("", text)
    if _RSPQL.match(rest):
        return "rspql"
    return "sql" if _SQL.match(rest) else "yaml"


def parse_at(text: str, language: str, start: Position, **options: Any) -> Statement:
    """Read a statement from a text that begins at `start` of something larger."""
    if language == "rspql":
        from skyband.lang.rspql.read import read_rspql

        return read_rspql(text, start, **options)
    if options:
        [name, value], *_ = options.items()
        raise invalid(name, "be left out: only RSP-QL has it", value)
    if language == "sql":
        from skyband.lang.sql.read import read_sql

        return read_sql(text, start)
    from skyband.lang.query_yaml import read_query
    from skyband.lang.yaml_node import read_yaml

    return read_query(read_yaml(text, start))
