"""Aggregates over a window, such as sum(quantity): what leaderboards rank by, and values that a join's score uses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from skyband.errors import QueryError
from skyband.query.expression import Expression, parse

AGGREGATES = ("count", "sum", "max", "min", "mean")
_ALIASES = {"avg": "mean"}
_FORMS = "count(*), or count, sum, max, min or mean (avg) of an expression"


@dataclass(frozen=True)
class Aggregate:
    """A value of each key over the window: `name` is `function` of the expression `of` (None: of the rows)."""

    name: str
    function: str
    of: Expression | None


def is_aggregate(text: str) -> bool:
    """Return whether `text` begins with the name of an aggregate and a bracket.

    Examples
    --------
    >>> is_aggregate("sum(price)"), is_aggregate("price + 1")
    (True, False)
    """
    name, bracket, _ = text.partition("(")
    return bool(bracket) and _canonical(name) in AGGREGATES


def _canonical(name: str) -> str:
    name = name.strip().lower()
    return _ALIASES.get(name, name)


@lru_cache(maxsize=4096)  # a service receives new texts for as long as it runs
def split_aggregate(text: str, field: str = "by") -> tuple[str, str]:
    """Split an aggregate into the name of its function, "mean" for avg, and its argument.

    Examples
    --------
    >>> split_aggregate("AVG( price )"), split_aggregate("count(*)")
    (('mean', 'price'), ('count', '*'))
    >>> split_aggregate("quantity")
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: by must be an aggregate, got 'quantity': write count(*), or count, sum, ...
    """
    name, _, rest = text.strip().partition("(")
    function, argument = _canonical(name), rest[:-1].strip()
    complete = function in AGGREGATES and rest.endswith(")") and _is_balanced(argument)
    if not complete or not argument or (argument == "*" and function != "count"):
        raise QueryError(f"{field} must be an aggregate, got {text!r}: write {_FORMS}")
    if argument.lower().startswith("distinct "):
        raise QueryError(f"{field} must be an aggregate of all values, got {text!r}: write it without DISTINCT")
    return function, argument


@lru_cache(maxsize=4096)
def parse_total(text: str) -> Expression:
    """Parse what a leaderboard ranks by, as an expression with the tree ("total", function, tree of the argument).

    Examples
    --------
    >>> parse_total("sum(price * quantity)").columns
    ('price', 'quantity')
    >>> parse_total("count(*)").tree
    ('total', 'count', None)
    """
    function, argument = split_aggregate(text)
    if argument == "*":
        return Expression(text.strip(), ("total", "count", None), ())
    # columns of every type can be counted, also those that are no numbers
    found = parse(f"CASE WHEN ({argument}) IS NOT NULL THEN 1 END" if function == "count" else argument)
    return Expression(text.strip(), ("total", function, found.tree), found.columns)


def parse_aggregate(name: str, text: object) -> Aggregate:
    """Parse a value over the window that a join's score uses.

    Examples
    --------
    >>> parse_aggregate("mentions", "count(*)")
    Aggregate(name='mentions', function='count', of=None)
    """
    field = f"aggregates[{name!r}]"
    if not isinstance(text, str):
        raise QueryError(f"{field} must be an aggregate, got {text!r}: write {_FORMS}")
    function, argument = split_aggregate(text, field)
    if argument == "*":
        return Aggregate(name, function, None)
    try:
        return Aggregate(name, function, parse(argument))
    except QueryError as error:
        raise QueryError(f"{field}{str(error).removeprefix('by')}") from None


def _is_balanced(text: str) -> bool:
    """Return whether brackets outside of quotes come in pairs, none closed before it is opened."""
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
