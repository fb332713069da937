"""Scores as SQL expressions, in a grammar that can do no harm.

sqlglot reads the text; what it found is translated node by node into a small tree of our own. A node
that is not in the tables below is refused, so nothing that could open a file, call a service or run a
user's function ever reaches an engine. `runtime/score.py` evaluates the tree on columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError
from skyband.query.trees import parse_sql
from skyband.query.validation import invalid, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot.expressions import Expr

Tree = tuple[Any, ...]
"""("column", name), ("number", x), ("text", s), ("null",), or (operation, *trees).

A chain of + and - is one operation, so that its length is not its depth: ("sum", a, "+", b, "-", c), from left to
right; a chain of *, / and % is ("product", ...) likewise. "and", "or" and "in" take any number of trees.
"""

CHAINS = {"sum": {"Add": "+", "Sub": "-"}, "product": {"Mul": "*", "Div": "/", "Mod": "%"}}
UNARY = {"Neg": "neg", "Abs": "abs", "Ln": "ln", "Exp": "exp", "Sqrt": "sqrt", "Not": "not"}
COMPARE = {"EQ": "=", "NEQ": "<>", "GT": ">", "GTE": ">=", "LT": "<", "LTE": "<="}
LOGIC = {"And": "and", "Or": "or"}
MANY = {"Least": "least", "Greatest": "greatest", "Coalesce": "coalesce"}
PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
WHOLE = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
REAL = {"FLOAT", "DOUBLE", "DECIMAL"}
YES_NO = {*COMPARE.values(), *LOGIC.values(), "not", "isnull", "yes", "flag", "in"}

_DIGITS = 300  # a double has no more
_CHAIN_OF = {node: chain for chain, nodes in CHAINS.items() for node in nodes}
_DAYS = {"year", "quarter", "month", "week", "day"}
_READ = {
    "this", "expression", "expressions", "ifs", "default", "true", "false", "low", "high", "to", "decimals",
    "is_string", "typed", "safe", "is_nvl", "is_null", "ignore_nulls", "quoted", "casts_non_integer_decimals",
}  # fmt: skip
"""Arguments of sqlglot's nodes that are read, or that a dialect sets and a user does not write."""
_DEPTH = 150
"""Operations inside of each other. Brackets are limited already (`trees.NESTED`), with a few operations for each."""
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


@lru_cache(maxsize=4096)  # a service receives new texts for as long as it runs
def parse(text: str) -> Expression:
    """Parse a score expression.

    Examples
    --------
    >>> parse("reflect('java.lang.System', 'exit', 1)")
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: by="reflect('java.lang.System', 'exit', 1)": REFLECT is not allowed in a score; ...
    """
    import sqlglot  # slow to import, and only a query needs it

    check_unicode("by", text)
    try:
        found = parse_sql(text)
    except (sqlglot.errors.SqlglotError, RecursionError) as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        raise invalid("by", f"be an expression such as price * volume ({_plain(reason)})", text) from None
    except QueryError as error:
        raise QueryError(f"by={shorten(text)}: {error}") from None
    if len(found) != 1 or found[0] is None:
        raise invalid("by", "be one expression such as price * volume", text)
    return read(found[0], text)


def read(node: Expr, text: str) -> Expression:
    """Translate the node that sqlglot made of `text`."""
    reader = _Reader(text)
    tree = reader.read(node)
    if tree[0] in YES_NO or tree[0] == "text":
        raise invalid("by", "be a number", text, f"CASE WHEN {text[:200]} THEN 1 ELSE 0 END")
    return Expression(text.strip(), tree, tuple(reader.columns))


def condition(node: Expr, text: str) -> Tree:
    """Translate a condition that sqlglot found in `text`."""
    return _Reader(text).truth(node)


def check_unicode(field: str, text: str) -> None:
    """Raise if a text holds half of a surrogate pair, which no column of text can hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"{text[error.start]!r}, half of a surrogate pair"
        raise invalid(field, f"be Unicode text without {half}", text) from None


def _plain(reason: str) -> str:
    """Return an error of sqlglot without terminal colours and names of classes."""
    signs = {**CHAINS["sum"], **CHAINS["product"], **COMPARE, **LOGIC, "Neg": "-", "Not": "not"}
    missing = re.match(r"Required keyword: .* missing for <class '.*\.(\w+)'>(.*)", reason)
    if missing:
        reason = f"something is missing beside {signs.get(missing[1], missing[1].lower())!r}{missing[2]}"
    return "".join(c for c in reason if c.isprintable()).rstrip(". ")


def _sql(node: Expr) -> str:
    try:
        return node.sql()[:200]
    except RecursionError:
        return "this"


class _Reader:
    """Translates sqlglot's nodes; a method `_kind` reads a node of that kind, and unknown nodes are refused."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.columns: dict[str, None] = {}
        self.depth = 0

    def error(self, message: str) -> QueryError:
        return QueryError(f"by={shorten(self.text)}: {message}")

    def read(self, node: Expr) -> Tree:
        self.depth += 1
        if self.depth > _DEPTH:  # of signs that need no brackets: x::int::int, a = b = c
            raise self.error(f"operations must be nested at most {_DEPTH} deep: write fewer")
        found = self.translate(node)
        self.depth -= 1
        return found

    def translate(self, node: Expr) -> Tree:
        name = type(node).__name__
        for argument, value in node.args.items():
            if value and argument not in _READ:
                raise self.refuse(node, f"{name} with {argument}")
        special: Callable[[Expr], Tree] | None = getattr(self, f"_{name.lower()}", None)
        if special is not None:
            return special(node)
        if name in _CHAIN_OF:
            return self.chain(node, _CHAIN_OF[name])
        if name in UNARY:
            read = self.truth if name == "Not" else self.number
            return (UNARY[name], read(node.this))
        if name in COMPARE:
            return self.compare(COMPARE[name], node.this, node.expression)
        if name in LOGIC:
            return self.logic(node)
        if name in MANY:
            return (MANY[name], *(self.number(n) for n in [node.this, *node.expressions] if n is not None))
        if name.lower() in PARTS or name in ("DayOfMonth", "WeekOfYear"):
            return self.part({"DayOfMonth": "day", "WeekOfYear": "week"}.get(name, name.lower()), node.this)
        raise self.refuse(node)

    def chain(self, node: Expr, kind: str) -> Tree:
        """Read a + b - c as one operation; brackets around its beginning make no difference."""
        signs = CHAINS[kind]
        rest: list[tuple[str, Expr]] = []
        while True:
            name = type(node).__name__
            if name in signs:
                rest.append((signs[name], node.expression))
            elif name != "Paren" or type(node.this).__name__ not in {*signs, "Paren"}:
                break
            node = node.this
        first = self.number(node)
        return (kind, first, *(part for sign, other in reversed(rest) for part in (sign, self.number(other))))

    def logic(self, node: Expr) -> Tree:
        """Read a AND b AND c; brackets make no difference."""
        kind, rest = type(node).__name__, []
        while type(node).__name__ == kind:
            rest.append(node.expression)
            node = node.this
        operation, found = LOGIC[kind], [self.truth(part) for part in (node, *reversed(rest))]
        return (operation, *(part for tree in found for part in (tree[1:] if tree[0] == operation else (tree,))))

    def _pow(self, node: Expr) -> Tree:
        return ("power", self.number(node.this), self.number(node.expression))

    def number(self, node: Expr) -> Tree:
        return self.checked_number(self.read(node), node)

    def checked_number(self, tree: Tree, node: Expr) -> Tree:
        if tree[0] in YES_NO or tree[0] == "text":
            raise self.error(f"{_sql(node)} must be a number: compare it, or use CASE WHEN ... THEN ... END")
        return tree

    def truth(self, node: Expr) -> Tree:
        tree = self.read(node)
        if tree[0] == "column":
            return ("flag", tree[1])
        if tree[0] not in YES_NO:
            raise self.error(f"{_sql(node)} must be a condition: compare it with something")
        return tree

    def refuse(self, node: Expr, what: str | None = None) -> QueryError:
        what = what or (str(node.name) if type(node).__name__ == "Anonymous" else type(node).__name__)
        return self.error(f"{what.upper()} is not allowed in a score; allowed: {_ALLOWED}")

    def compare(self, operation: str, left: Expr, right: Expr) -> Tree:
        a, b = self.read(left), self.read(right)
        if "text" in (a[0], b[0]):
            if operation not in ("=", "<>") or {a[0], b[0]} - {"text", "column"}:
                raise self.error("a text must be compared with a column, by = or <>")
            return (operation, *(("raw", t[1]) if t[0] == "column" else t for t in (a, b)))
        return (operation, self.checked_number(a, left), self.checked_number(b, right))

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
            raise self.error(f"{str(node.this)[:50]} must be a number: write it as 1.5 or 1.5e3") from None
        if not isfinite(value):
            raise self.error(f"{str(node.this)[:50]} must fit into a double: write a smaller number")
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
        found: dict[str, list[Tree]] = {}  # texts are compared with a column as it is, numbers with its number
        sides: dict[str, Tree] = {}
        for choice in node.expressions:
            _, value, other = self.compare("=", node.this, choice)
            sides[value[0]] = value
            found.setdefault(value[0], []).append(other)
        parts = [("in", sides[kind], *others) for kind, others in found.items()]
        return parts[0] if len(parts) == 1 else ("or", *parts)

    def _cast(self, node: Expr) -> Tree:
        to = node.args["to"].this
        kind = to.name if hasattr(to, "name") else str(to)
        if kind not in WHOLE | REAL:
            raise self.error(f"CAST AS {kind} must be to a number: write INT or DOUBLE")
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
        if not isinstance(value, float) or not value.is_integer() or value > _DIGITS:
            raise self.error(f"round must have a whole number of digits up to {_DIGITS}: write round(price, 2)")
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
        while type(node).__name__ == "Paren" or (type(node).__name__ == "TsOrDsToDate" and part in _DAYS):
            node = node.this  # sqlglot wraps the argument of year() and its like; a day is the same in a date
        tree = self.read(node)
        if part not in PARTS or tree[0] != "column":
            raise self.error(f"a part of a time must be {', '.join(PARTS)} of a column")
        return ("part", part, ("raw", tree[1]))
