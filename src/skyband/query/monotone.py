"""Which way a score moves with a column, as far as the expression tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.query.expression import Tree

_RISING = {"exp", "ln", "sqrt", "round", "whole", "real"}
_STRICT = {*_RISING, "neg", "abs", "power", "sum", "product"}


def direction(tree: Tree, column: str) -> int | None:
    """1 if the score never falls as `column` grows, -1 if it never rises, 0 if it does not use it; None: unknown.

    Examples
    --------
    >>> from skyband.query.expression import parse
    >>> [direction(parse("2 * a - b / 4").tree, name) for name in "abc"]
    [1, -1, 0]
    >>> direction(parse("a * b").tree, "a") is None
    True
    """
    operation, *parts = tree
    if operation in ("column", "raw", "flag"):
        return 1 if parts[0] == column else 0
    if operation in ("number", "text", "yes", "null"):
        return 0
    inner = [direction(part, column) for part in parts if isinstance(part, tuple)]
    if all(d == 0 for d in inner):
        return 0
    if operation in _RISING:
        return inner[0]
    if operation == "neg":
        return _turned(inner[0])
    if operation in ("least", "greatest"):
        return _agreed(inner)
    if operation == "sum":
        signs = zip(parts[1::2], inner[1:], strict=True)
        return _agreed([inner[0], *(_turned(way) if sign == "-" else way for sign, way in signs)])
    return _scaled(parts, inner) if operation == "product" else None


def _scaled(parts: list[Any], inner: list[int | None]) -> int | None:
    """A product moves with its one factor that is no number, as long as it divides by numbers only."""
    factors, signs = parts[::2], ["*", *parts[1::2]]
    others = [at for at, factor in enumerate(factors) if factor[0] != "number"]
    if "%" in signs or len(others) != 1 or signs[others[0]] == "/":
        return None
    way = inner[others[0]]
    for factor in factors:
        way = _turned(way) if factor[0] == "number" and factor[1] < 0 else way
    return way


def strict(tree: Tree, column: str) -> bool:
    """Whether there is no score without a value in `column`.

    Examples
    --------
    >>> from skyband.query.expression import parse
    >>> [strict(parse(text).tree, "a") for text in ("a + b", "least(a, b)", "CASE WHEN b > 0 THEN a END")]
    [True, False, True]
    """
    operation, *parts = tree
    if operation in ("column", "raw"):
        return bool(parts[0] == column)
    inner = [strict(part, column) for part in parts if isinstance(part, tuple)]
    if operation in ("least", "greatest"):
        return all(inner)
    if operation in _STRICT:
        return any(inner)
    filtered, _ = unfiltered(tree)
    return filtered is not tree and strict(filtered, column)


def unfiltered(tree: Tree) -> tuple[Tree, list[Tree]]:
    """The score of the rows that conditions let through, and these conditions.

    Examples
    --------
    >>> from skyband.query.expression import parse
    >>> unfiltered(parse("CASE WHEN b > 0 THEN a END").tree)
    (('column', 'a'), [('>', ('column', 'b'), ('number', 0.0))])
    """
    conditions = []
    while tree[0] == "case" and len(tree) == 4 and tree[3] == ("null",):  # case, when, then, else
        conditions.append(tree[1])
        tree = tree[2]
    return tree, conditions


def _turned(way: int | None) -> int | None:
    return None if way is None else -way


def _agreed(ways: list[int | None]) -> int | None:
    if None in ways:
        return None
    signs = {way for way in ways if way}
    return (signs.pop() if signs else 0) if len(signs) <= 1 else None
