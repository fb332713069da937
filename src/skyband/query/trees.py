"""SQL texts as sqlglot's tokens and trees, within limits of size and depth; errors are raised, not logged."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError

if TYPE_CHECKING:
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.expressions import Expr

NESTED = 32
"""Brackets, CASEs and signs that may stand inside of each other; sqlglot needs up to 25 Python frames for each."""
TOKENS = 50_000
"""Words, numbers and signs that a text may have."""
_OPENS = {"L_PAREN", "L_BRACKET", "L_BRACE", "CASE"}
_CLOSES = {"R_PAREN", "R_BRACKET", "R_BRACE", "END"}
_SIGNS = {"NOT", "DASH", "PLUS", "TILDE", "TILDA"}
_READING: ContextVar[bool] = ContextVar("reading", default=False)


def dialect() -> Dialect:
    """Return Spark's SQL, in which a quote may also be doubled within a text, as the standard has it.

    Examples
    --------
    >>> [token.text for token in dialect().tokenize("s = 'it''s'")]
    ['s', '=', "it's"]
    """
    return _dialect_class()()


@cache
def _dialect_class() -> type[Dialect]:
    from sqlglot.dialects.spark import Spark  # slow to import, and only a query needs it

    class Skyband(Spark):
        class Tokenizer(Spark.Tokenizer):
            STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012 - as sqlglot expects it: the first is the one that it writes

    return Skyband


def quote_name(name: str) -> str:
    """Write the name of a column in an expression, in back quotes where it needs them.

    Examples
    --------
    >>> quote_name("price"), quote_name("unit price"), quote_name("order")
    ('price', '`unit price`', '`order`')
    """
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in _reserved()
    return name if plain else f"`{name.replace('`', '``')}`"


def quote_text(value: str) -> str:
    """Write a text in an expression.

    Examples
    --------
    >>> print(quote_text("it's"))
    'it''s'
    """
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


@cache
def _reserved() -> frozenset[str]:
    return frozenset(word for phrase in dialect().tokenizer_class.KEYWORDS for word in phrase.split())


def column_names(ddl: str) -> tuple[str, ...] | None:
    """Return the names in columns and types as DDL has them; None if that is not what the text is.

    Examples
    --------
    >>> column_names("ts timestamp, price double"), column_names("price")
    (('ts', 'price'), None)
    """
    from sqlglot.errors import SqlglotError

    try:
        [tree] = parse_sql(f"CREATE TABLE t ({ddl})")
        found = tree.this.expressions  # type: ignore[union-attr]
    except (SqlglotError, QueryError, AttributeError, RecursionError, ValueError):  # no table, or not one alone
        return None
    typed = all(column.args.get("kind") is not None for column in found)
    return tuple(column.name for column in found) if found and typed else None


def parse_sql(text: str) -> list[Expr | None]:
    """Parse the statements or expressions in `text`; sqlglot's own errors are raised.

    Examples
    --------
    >>> [tree.sql() for tree in parse_sql("a + b; c")]
    ['a + b', 'c']
    """
    tokens = tokenize_sql(text)
    try:
        return _parse(tokens, text)
    except RecursionError:  # whether a text can be parsed must not depend on the depth of the caller's stack
        with ThreadPoolExecutor(1) as fresh:
            return fresh.submit(_parse, tokens, text).result()


def tokenize_sql(text: str) -> list[Any]:
    """Cut a text into sqlglot's tokens.

    Raises QueryError if there are too many or they are nested too deeply.
    """
    tokens = dialect().tokenize(text)
    if len(tokens) > TOKENS:
        raise QueryError(
            f"the text must have at most {TOKENS:,} words and signs, got {len(tokens):,}: write a shorter one"
        )
    deepest = _deepest(tokens)
    if deepest > NESTED:
        raise QueryError(
            f"brackets, CASE and signs must be nested at most {NESTED} deep, got {deepest:,} (nested too deeply): "
            f"write it with fewer"
        )
    return list(tokens)


def _deepest(tokens: Sequence[Any]) -> int:
    depth = signs = deepest = 0
    for token in tokens:
        kind = token.token_type.name
        signs = signs + 1 if kind in _SIGNS else 0
        depth += (kind in _OPENS) - (kind in _CLOSES)
        deepest = max(deepest, depth + signs)
    return deepest


def _parse(tokens: list[Any], text: str) -> list[Expr | None]:
    log = logging.getLogger("sqlglot")
    if _silent not in log.filters:
        log.addFilter(_silent)
    token = _READING.set(True)
    try:
        return dialect().parser().parse(tokens, text)
    finally:
        _READING.reset(token)


def _silent(record: logging.LogRecord) -> bool:
    """Suppress what sqlglot logs while we parse; others may still want its log."""
    del record
    return not _READING.get()
