"""Which way a score moves with a column, as far as the expression tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyband.query.expression import Tree

_RISING = {"exp", "ln", "sqrt", "round", "whole", "real"}


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
    if operation in ("+", "least", "greatest"):
        return _agreed(inner)
    if operation == "-":
        return _agreed([inner[0], _turned(inner[1])])
    if operation in ("*", "/") and parts[1][0] == "number":
        return inner[0] if parts[1][1] > 0 else _turned(inner[0])
    if operation == "*" and parts[0][0] == "number":
        return inner[1] if parts[0][1] > 0 else _turned(inner[1])
    return None


def _turned(way: int | None) -> int | None:
    return None if way is None else -way


def _agreed(ways: list[int | None]) -> int | None:
    if None in ways:
        return None
    signs = {way for way in ways if way}
    return (signs.pop() if signs else 0) if len(signs) <= 1 else None
