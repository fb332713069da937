"""How a score depends on a column, as far as its expression shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.query.expression import Tree

_RISING = {"exp", "ln", "sqrt", "round", "whole", "real"}
_STRICT = {*_RISING, "neg", "abs", "power", "sum", "product"}


def direction(tree: Tree, column: str) -> int | None:
    """Return 1 if the score never falls as `column` grows, -1 if it never rises, 0 if it is unused, None if unknown.

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
        return _reverse(inner[0])
    if operation in ("least", "greatest"):
        return _common(inner)
    if operation == "sum":
        signs = zip(parts[1::2], inner[1:], strict=True)
        return _common([inner[0], *(_reverse(d) if sign == "-" else d for sign, d in signs)])
    return _product_direction(parts, inner) if operation == "product" else None


def _product_direction(parts: list[Any], inner: list[int | None]) -> int | None:
    """Return the direction of a product with one factor that is not a number, if it divides by numbers only."""
    factors, signs = parts[::2], ["*", *parts[1::2]]
    others = [at for at, factor in enumerate(factors) if factor[0] != "number"]
    if "%" in signs or len(others) != 1 or signs[others[0]] == "/":
        return None
    found = inner[others[0]]
    for factor in factors:
        found = _reverse(found) if factor[0] == "number" and factor[1] < 0 else found
    return found


def is_required(tree: Tree, column: str) -> bool:
    """Return whether there is a score only with a value in `column`.

    Examples
    --------
    >>> from skyband.query.expression import parse
    >>> [is_required(parse(text).tree, "a") for text in ("a + b", "least(a, b)", "CASE WHEN b > 0 THEN a END")]
    [True, False, True]
    """
    operation, *parts = tree
    if operation in ("column", "raw"):
        return bool(parts[0] == column)
    inner = [is_required(part, column) for part in parts if isinstance(part, tuple)]
    if operation in ("least", "greatest"):
        return all(inner)
    if operation in _STRICT:
        return any(inner)
    filtered, _ = split_filters(tree)
    return filtered is not tree and is_required(filtered, column)


def split_filters(tree: Tree) -> tuple[Tree, list[Tree]]:
    """Return the score of rows that pass the conditions of its CASE WHEN, and these conditions.

    Examples
    --------
    >>> from skyband.query.expression import parse
    >>> split_filters(parse("CASE WHEN b > 0 THEN a END").tree)
    (('column', 'a'), [('>', ('column', 'b'), ('number', 0.0))])
    """
    conditions = []
    while tree[0] == "case" and len(tree) == 4 and tree[3] == ("null",):  # case, when, then, else
        conditions.append(tree[1])
        tree = tree[2]
    return tree, conditions


def _reverse(direction: int | None) -> int | None:
    return None if direction is None else -direction


def _common(directions: list[int | None]) -> int | None:
    if None in directions:
        return None
    signs = {d for d in directions if d}
    return (signs.pop() if signs else 0) if len(signs) <= 1 else None
