"""Totals: what a leaderboard ranks its keys by, such as sum(quantity)."""

from __future__ import annotations

from functools import lru_cache

from skyband.errors import QueryError
from skyband.query.expression import Expression, parse

TOTALS = ("count", "sum", "max", "min", "mean")
_OTHER_NAMES = {"avg": "mean"}


@lru_cache(maxsize=4096)  # a service is asked for texts without end
def parse_total(text: str) -> Expression:
    """The total in `text`: one of `TOTALS` of a score expression. Its tree is ("total", name, tree of the inside).

    Examples
    --------
    >>> parse_total("sum(price * quantity)").columns
    ('price', 'quantity')
    >>> parse_total("count(*)").tree
    ('total', 'count', None)
    >>> parse_total("quantity")
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: by='quantity' is no total, and of= ranks keys by one: write count(*), sum(...), ...
    """
    stripped = text.strip()
    name, _, rest = stripped.partition("(")
    name = name.strip().lower()
    name = _OTHER_NAMES.get(name, name)
    if name not in TOTALS or not rest.endswith(")") or not _one_pair(rest[:-1]):
        raise _no_total(text)
    inside = rest[:-1].strip()
    if name == "count" and inside == "*":
        return Expression(stripped, ("total", "count", None), ())
    if inside.lower().startswith("distinct "):
        msg = f"by={text!r}: a total of distinct values cannot be kept pane by pane: leave DISTINCT out"
        raise QueryError(msg)
    if not inside:
        raise _no_total(text)
    if name == "count":  # any column can be counted, also one that is no number
        found = parse(f"CASE WHEN ({inside}) IS NOT NULL THEN 1 END")
        return Expression(stripped, ("total", "count", found.tree), found.columns)
    found = parse(inside)
    return Expression(stripped, ("total", name, found.tree), found.columns)


def is_total(text: str) -> bool:
    """Whether `text` begins like a total.

    Examples
    --------
    >>> is_total("sum(price)"), is_total("price + 1")
    (True, False)
    """
    name, bracket, _ = text.strip().partition("(")
    name = name.strip().lower()
    return bool(bracket) and _OTHER_NAMES.get(name, name) in TOTALS


def _one_pair(text: str) -> bool:
    """Whether no bracket in `text` closes one that was opened before it."""
    depth, quote = 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"`":
            quote = letter
        else:
            depth += (letter == "(") - (letter == ")")
            if depth < 0:
                return False
    return depth == 0 and not quote


def _no_total(text: str) -> QueryError:
    return QueryError(
        f"by={text!r} is no total, and of= ranks keys by one: write count(*), sum(...), max(...), min(...) "
        f"or mean(...) of an expression"
    )
