"""Scores as SQL expressions, in a grammar that can do no harm.

sqlglot reads the text; what it found is translated node by node into a small tree of our own. A node
that is not in the tables below is refused, so nothing that could open a file, call a service or run a
user's function ever reaches an engine. `flow/score.py` evaluates the tree on columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError
from skyband.query.trees import parsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot.expressions import Expr

Tree = tuple[Any, ...]
"""("column", name), ("number", x), ("text", s), ("null",), or (operation, *trees)."""

BINARY = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "Pow": "power"}
UNARY = {"Neg": "neg", "Abs": "abs", "Ln": "ln", "Exp": "exp", "Sqrt": "sqrt", "Not": "not"}
COMPARE = {"EQ": "=", "NEQ": "<>", "GT": ">", "GTE": ">=", "LT": "<", "LTE": "<="}
LOGIC = {"And": "and", "Or": "or"}
MANY = {"Least": "least", "Greatest": "greatest", "Coalesce": "coalesce"}
PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
REAL = {"FLOAT", "DOUBLE", "DECIMAL"}
YES_NO = {*COMPARE.values(), *LOGIC.values(), "not", "isnull", "yes", "flag"}

_DIGITS = 300  # a double has no more
_ALLOWED = (
    "+ - * / %, comparisons, AND OR NOT, IS NULL, BETWEEN, IN, CASE, abs, ln, exp, sqrt, power, least, greatest, "
    "coalesce, round, casts to numbers, and year, quarter, month, week, day, hour, minute, second of a time"
)


@dataclass(frozen=True)
class Expression:
    """A checked score expression.

    Examples
    --------
    >>> parse("price * volume").columns
    ('price', 'volume')
    """

    text: str
    tree: Tree = field(repr=False, compare=False)
    columns: tuple[str, ...] = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=4096)  # a service is asked for texts without end
def parse(text: str) -> Expression:
    """The expression in `text`, or an error that says what is wrong with it.

    Examples
    --------
    >>> parse("reflect('java.lang.System', 'exit', 1)")
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: by="reflect('java.lang.System', 'exit', 1)": REFLECT is not allowed in a score; ...
    """
    import sqlglot  # slow to import, and only a query needs it

    try:
        found = parsed(text)
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        msg = f'by={text!r} cannot be read: {_plain(reason)}. Write an expression such as "price * volume"'
        raise QueryError(msg) from None
    if len(found) != 1 or found[0] is None:
        why = "is empty" if not any(found) else "holds more than one expression"
        msg = f'by={text!r} {why}: write one, such as "price * volume"'
        raise QueryError(msg)
    columns: dict[str, None] = {}
    try:
        tree = _Reader(text, columns).read(found[0])
    except RecursionError:
        msg = "by is nested too deeply: write a shorter expression"
        raise QueryError(msg) from None
    if tree[0] in YES_NO or tree[0] == "text":
        msg = f"by={text!r} is no number: write one, such as CASE WHEN {text} THEN 1 ELSE 0 END"
        raise QueryError(msg)
    return Expression(text.strip(), tree, tuple(columns))


def _plain(reason: str) -> str:
    """What sqlglot said, without its terminal colours and the names of its classes."""
    signs = {**BINARY, **COMPARE, **LOGIC, "Neg": "-", "Not": "not"}
    missing = re.match(r"Required keyword: .* missing for <class '.*\.(\w+)'>(.*)", reason)
    if missing:
        reason = f"something is missing beside {signs.get(missing[1], missing[1].lower())!r}{missing[2]}"
    return "".join(c for c in reason if c.isprintable()).rstrip(". ")


class _Reader:
    """Translates sqlglot's nodes into ours; whatever it does not know it refuses."""

    def __init__(self, text: str, columns: dict[str, None]) -> None:
        self.text = text
        self.columns = columns

    def read(self, node: Expr) -> Tree:
        name = type(node).__name__
        special: Callable[[Expr], Tree] | None = getattr(self, f"_{name.lower()}", None)
        if special is not None:
            return special(node)
        if name in BINARY:
            return (BINARY[name], self.number(node.this), self.number(node.expression))
        if name in UNARY:
            read = self.truth if name == "Not" else self.number
            return (UNARY[name], read(node.this))
        if name in COMPARE:
            return self.compare(COMPARE[name], node.this, node.expression)
        if name in LOGIC:
            return (LOGIC[name], self.truth(node.this), self.truth(node.expression))
        if name in MANY:
            return (MANY[name], *(self.number(n) for n in [node.this, *node.expressions] if n is not None))
        if name.lower() in PARTS or name in ("DayOfMonth", "WeekOfYear"):
            return self.part({"DayOfMonth": "day", "WeekOfYear": "week"}.get(name, name.lower()), node.this)
        raise self.refuse(node)

    def number(self, node: Expr) -> Tree:
        tree = self.read(node)
        if tree[0] in YES_NO or tree[0] == "text":
            msg = f"by={self.text!r}: {node.sql()} is no number: compare it, or use CASE WHEN ... THEN ... END"
            raise QueryError(msg)
        return tree

    def truth(self, node: Expr) -> Tree:
        tree = self.read(node)
        if tree[0] == "column":
            return ("flag", tree[1])
        if tree[0] not in YES_NO:
            msg = f"by={self.text!r}: {node.sql()} is neither true nor false: compare it with something"
            raise QueryError(msg)
        return tree

    def refuse(self, node: Expr) -> QueryError:
        what = str(node.name) if type(node).__name__ == "Anonymous" else type(node).__name__
        msg = f"by={self.text!r}: {what.upper()} is not allowed in a score; what is: {_ALLOWED}"
        return QueryError(msg)

    def compare(self, operation: str, left: Expr, right: Expr) -> Tree:
        a, b = self.read(left), self.read(right)
        if "text" in (a[0], b[0]):
            if operation not in ("=", "<>") or {a[0], b[0]} - {"text", "column"}:
                msg = f"by={self.text!r}: a text can only be compared with a column, by = or <>"
                raise QueryError(msg)
            return (operation, *(("raw", t[1]) if t[0] == "column" else t for t in (a, b)))
        return (operation, self.number(left), self.number(right))

    def _paren(self, node: Expr) -> Tree:
        return self.read(node.this)

    def _column(self, node: Expr) -> Tree:
        if node.args.get("table") is not None or type(node.this).__name__ != "Identifier":
            raise self.refuse(node)
        self.columns[node.name] = None
        return ("column", node.name)

    def _literal(self, node: Expr) -> Tree:
        if node.args.get("is_string"):
            return ("text", node.this)
        try:
            value = float(node.this)
        except ValueError:  # sqlglot takes 1e300. for a number
            msg = f"by={self.text!r}: {node.this} is no number: write it as 1.5 or 1.5e3"
            raise QueryError(msg) from None
        if not isfinite(value):
            msg = f"by={self.text!r}: {node.this} is too large for a double: write a smaller number"
            raise QueryError(msg)
        return ("number", value)

    def _null(self, _: Expr) -> Tree:
        return ("null",)

    def _boolean(self, node: Expr) -> Tree:
        return ("yes", bool(node.this))

    def _is(self, node: Expr) -> Tree:
        if type(node.expression).__name__ != "Null":
            raise self.refuse(node)
        tree = self.read(node.this)
        return ("isnull", ("raw", tree[1]) if tree[0] == "column" else tree)

    def _between(self, node: Expr) -> Tree:
        value = self.number(node.this)
        low, high = self.number(node.args["low"]), self.number(node.args["high"])
        return ("and", (">=", value, low), ("<=", value, high))

    def _in(self, node: Expr) -> Tree:
        if not node.expressions or node.args.get("query") is not None:
            raise self.refuse(node)
        tree: Tree | None = None
        for choice in node.expressions:
            equal = self.compare("=", node.this, choice)
            tree = equal if tree is None else ("or", tree, equal)
        assert tree is not None
        return tree

    def _cast(self, node: Expr) -> Tree:
        to = node.args["to"].this
        kind = to.name if hasattr(to, "name") else str(to)
        if kind not in WHOLE | REAL:
            msg = f"by={self.text!r}: a score is a number, so CAST AS {kind} is not allowed; cast to INT or DOUBLE"
            raise QueryError(msg)
        tree = self.read(node.this)
        inner = ("raw", tree[1]) if tree[0] == "column" else tree
        return ("whole" if kind in WHOLE else "real", inner)

    _trycast = _cast

    def _round(self, node: Expr) -> Tree:
        digits = node.args.get("decimals")
        if digits is None:
            return ("round", self.number(node.this), 0)
        tree = self.read(digits)
        negative = tree[0] == "neg"
        value = tree[1][1] if negative else tree[1] if tree[0] == "number" else None
        if not isinstance(value, float) or not value.is_integer() or value > _DIGITS or node.args.get("truncate"):
            msg = f"by={self.text!r}: round takes a whole number of digits up to {_DIGITS}, such as round(price, 2)"
            raise QueryError(msg)
        return ("round", self.number(node.this), -int(value) if negative else int(value))

    def _case(self, node: Expr) -> Tree:
        branches: list[Tree] = []
        for branch in node.args["ifs"]:
            when = self.compare("=", node.this, branch.this) if node.this is not None else self.truth(branch.this)
            branches += [when, self.number(branch.args["true"])]
        default = node.args.get("default")
        return ("case", *branches, ("null",) if default is None else self.number(default))

    def _if(self, node: Expr) -> Tree:
        other = node.args.get("false")
        return (
            "case",
            self.truth(node.this),
            self.number(node.args["true"]),
            ("null",) if other is None else self.number(other),
        )

    def _extract(self, node: Expr) -> Tree:
        return self.part(node.name.lower(), node.expression)

    def part(self, part: str, node: Expr) -> Tree:
        while type(node).__name__ in ("Paren", "TsOrDsToDate", "Cast", "TsOrDsToTimestamp"):
            node = node.this  # sqlglot wraps the argument of year() and its like in casts of its own
        tree = self.read(node)
        if part not in PARTS or tree[0] != "column":
            msg = f"by={self.text!r}: the parts of a time are {', '.join(PARTS)}, each of a column"
            raise QueryError(msg)
        return ("part", part, ("raw", tree[1]))
