"""Queries as SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skyband.errors import QueryError
from skyband.lang.statement import Statement
from skyband.query.duration import MICROSECONDS
from skyband.query.trees import dialect, quote_name
from skyband.query.validation import invalid

if TYPE_CHECKING:
    from skyband.query import Sliding, TopK

_UNITS = (("DAY", "d"), ("HOUR", "h"), ("MINUTE", "min"), ("SECOND", "s"))


def to_sql(query: TopK | Statement, *, table: str | None = None) -> str:
    """Write a query as SQL in the form that Flink reads; raise for what SQL cannot express.

    `sb.parse` reads it back: `sb.parse(sb.to_sql(query)).query == query`.

    Parameters
    ----------
    query
        The query, or a statement.
    table
        The name of the stream (default: as in the statement, else "stream").

    Examples
    --------
    >>> import skyband as sb
    >>> window = sb.Sliding("10 minutes", "1 minute")
    >>> query = sb.TopK(k=10, by="price * volume", window=window, time="ts", per="symbol")
    >>> print(sb.to_sql(query, table="trades"))
    SELECT * FROM (
      SELECT *, ROW_NUMBER() OVER (
        PARTITION BY window_start, window_end, symbol
        ORDER BY price * volume DESC
      ) AS rn
      FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTE))
    )
    WHERE rn <= 10
    """
    statement = query if isinstance(query, Statement) else Statement(query)
    topk = statement.query
    window = _check(statement)
    assert topk.time is not None
    size, slide, origin = window.lengths.values()
    lengths = [size] if size == slide else [slide, size]
    lengths += [origin] if origin else []
    function = "TUMBLE" if size == slide else "HOP"
    stream = ".".join(quote_name(part) for part in (table or statement.source).split("."))
    arguments = [f"TABLE {stream}", f"DESCRIPTOR({quote_name(topk.time)})", *map(_interval, lengths)]
    source = f"TABLE({function}({', '.join(arguments)}))"
    score, total = _score(topk), _total_name(topk)
    keys = [f"{total or score} {'ASC' if topk.ascending else 'DESC'}"]
    if topk.id is not None:
        keys += [f"{quote_name(topk.time)} DESC", f"{quote_name(topk.id)} DESC"]
    if total:
        group = ", ".join(["window_start", "window_end", *map(quote_name, (*topk.per, *topk.of))])
        rows = [
            "  FROM (",
            f"    SELECT {group}, {score} AS {total}",
            f"    FROM {source}",
            f"    GROUP BY {group}",
            "  )",
        ]
    else:
        rows = [f"  FROM {source}"]
    return "\n".join(
        [
            f"SELECT {_select_list(statement, total)} FROM (",  # noqa: S608 - names are quoted, the score is of the safe grammar
            f"  SELECT *{'' if total else _score_column(statement)}, ROW_NUMBER() OVER (",
            f"    PARTITION BY {', '.join(['window_start', 'window_end', *map(quote_name, topk.per)])}",
            f"    ORDER BY {', '.join(keys)}",
            "  ) AS rn",
            *rows,
            f") AS {quote_name(topk.name)}" if topk.name is not None else ")",
            f"WHERE rn <= {topk.k}",
        ]
    )


def _total_name(query: TopK) -> str:
    """Return a name for the total of a leaderboard that no key has; "" for rows."""
    name = "total" if query.of else ""
    while name in (*query.of, *query.per):
        name += "_"
    return name


def _check(statement: Statement) -> Sliding:
    query = statement.query
    if query.join is not None or statement.remote is not None or statement.pattern is not None:
        raise QueryError("a join or triples cannot be written in SQL: use sb.to_rspql")
    window = statement.check_writable("SQL", closed="left")
    for field, names in (("per", query.per), ("of", query.of)):
        if {"window_start", "window_end"} & set(names):
            raise invalid(field, "not have a column of the window to be written in SQL", list(names))
    total, bracket, _ = str(query.by).partition("(")
    if query.of and total.isupper():  # COUNT(*) is read as count(*)
        raise invalid("by", "be in lower case to be written in SQL", str(query.by), f"{total.lower()}{bracket}...)")
    return window


def _score(query: TopK) -> str:
    """Return the score as it was written, without comments, which would hide what follows."""
    text = str(query.by)
    if not re.search(r"--|/\*|\n|;", text):
        return text
    import sqlglot

    return sqlglot.parse_one(text, read=dialect()).sql(dialect=dialect(), comments=False)


def _score_column(statement: Statement) -> str:
    wanted = statement.columns is not None and any(name == "score" for name, _ in statement.columns)
    return f", {_score(statement.query)} AS score" if wanted else ""


def _select_list(statement: Statement, total: str) -> str:
    if statement.columns is None:
        return "*"
    words = []
    for column, alias in statement.columns:
        name = "rn" if column == "rank" else total if total and column == "score" else column
        words.append(quote_name(name) if name == alias else f"{quote_name(name)} AS {quote_name(alias)}")
    return ", ".join(words)


def _interval(micros: int) -> str:
    for unit, short in _UNITS:
        if micros % MICROSECONDS[short] == 0:
            return f"INTERVAL '{micros // MICROSECONDS[short]}' {unit}"
    whole, part = divmod(micros, MICROSECONDS["s"])
    return f"INTERVAL '{whole}.{part:06d}'".rstrip("'0") + "' SECOND"
