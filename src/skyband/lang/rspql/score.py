"""Expressions: from SPARQL to the grammar of our scores, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from skyband.errors import QueryError
from skyband.lang.names import quoted, text
from skyband.lang.rspql.grammar import refused
from skyband.lang.rspql.terms import MATH, XSD, Terms, escaped, trees, unescaped

if TYPE_CHECKING:
    from lark import Token, Tree

    from skyband.query.expression import Tree as Ours

_CASTS = {
    **{XSD + name: "DOUBLE" for name in ("double", "float", "decimal")},
    **{XSD + name: "BIGINT" for name in ("integer", "int", "long", "short")},
}
_MATH = {MATH + theirs: ours for theirs, ours in (("pow", "power"), ("sqrt", "sqrt"), ("exp", "exp"), ("log", "ln"))}
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "either": "OR", "both": "AND"}
_TOTALS = ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")

Function = tuple[tuple[str, ...], str]
"""The names of the arguments, and the expression over them."""


class Scribe:
    """Writes SPARQL expressions in the grammar of our scores; whatever it does not know it refuses."""

    def __init__(self, terms: Terms, functions: Mapping[str, Function]) -> None:
        self.terms = terms
        self.functions = functions
        self.bound: dict[str, str] = {}  # what BIND and SELECT say of a variable
        self.seen: dict[str, Any] = {}  # every other variable, and where it was seen first

    def write(self, node: Tree[Token]) -> str:
        """The expression as text."""
        kind = node.data
        special: Callable[[Tree[Token]], str] | None = getattr(self, f"_{kind}", None)
        if special is not None:
            return special(node)
        parts = trees(node)
        if kind in _SIGNS:
            return f"{self.write(parts[0])} {_SIGNS[kind]} {self.write(parts[1])}"
        if kind in ("integer", "decimal", "double"):
            return str(node.children[0])
        assert kind == "boolean", kind
        return str(node.children[0]).upper()

    def name(self, name: str, node: Any) -> str:
        """A variable, or what it stands for."""
        if name in self.bound:
            return self.bound[name]
        self.seen.setdefault(name, node)
        return quoted(name)

    def _variable(self, node: Tree[Token]) -> str:
        return self.name(str(node.children[0])[1:], node)

    def _brackets(self, node: Tree[Token]) -> str:
        return f"({self.write(trees(node)[0])})"

    def _compare(self, node: Tree[Token]) -> str:
        left, right = (f"({self.write(n)})" if n.data == "negation" else self.write(n) for n in trees(node))
        sign = next(str(child) for child in node.children if not hasattr(child, "data"))
        if sign in ("=", "!=") and all(part.data == "variable" for part in trees(node)):
            why = f"texts are compared with texts only; as numbers: write (?{left}) {sign} (?{right})"
            raise refused(node, self.terms.begin, f"two variables are compared, but {why}")
        return f"{left} {'<>' if sign == '!=' else sign} {right}"

    def _negation(self, node: Tree[Token]) -> str:
        inner = trees(node)[0]
        said = self.write(inner)
        if said.endswith(" IS NOT NULL"):
            return said.removesuffix("NOT NULL") + "NULL"
        return f"NOT {said}"

    def _minus(self, node: Tree[Token]) -> str:
        said = self.write(trees(node)[0])
        return f"- {said}" if said.startswith("-") else f"-{said}"

    def _plus(self, node: Tree[Token]) -> str:
        return self.write(trees(node)[0])

    def _among(self, node: Tree[Token]) -> str:
        first, *rest = (self.write(part) for part in trees(node))
        return f"{first} IN ({', '.join(rest)})"

    def _not_among(self, node: Tree[Token]) -> str:
        first, *rest = (self.write(part) for part in trees(node))
        return f"{first} NOT IN ({', '.join(rest)})"

    def _iri(self, node: Tree[Token]) -> str:
        return text(self.terms.iri(node))

    def _string(self, node: Tree[Token]) -> str:
        value, *more = cast("list[Any]", node.children)
        plain = unescaped(str(value))
        if more and hasattr(more[0], "data") and self.terms.iri(more[0]) in _CASTS:
            try:
                float(plain)
            except ValueError:
                raise refused(node, self.terms.begin, f"{plain!r} is no number: write one") from None
            return plain
        return text(plain)

    def _call(self, node: Tree[Token]) -> str:
        first, *rest = cast("list[Any]", node.children)
        arguments = [self.write(part) for part in rest if hasattr(part, "data")]
        name = str(first) if not hasattr(first, "data") else self.terms.iri(first)
        found = self._known(name, arguments) or self._own(str(first) if isinstance(first, str) else name, arguments)
        if found is not None:
            return found
        if name.upper() in _TOTALS:
            raise refused(node, self.terms.begin, f"{name} sums up a group: rows are ranked, each by its own values")
        listed = ", ".join("abcdefgh"[: len(arguments)])
        example = f'functions={{"{name}({listed})": "..."}}'
        why = f"say what it is with parse(text, {example}), or write the expression itself"
        raise refused(node, self.terms.begin, f"{name} with {len(arguments)} arguments is no known function: {why}")

    def _known(self, name: str, arguments: list[str]) -> str | None:
        listed = ", ".join(arguments)
        many = len(arguments)
        upper = name.upper()
        if upper in ("ABS", "ROUND") and many == 1:
            return f"{upper.lower()}({listed})"
        if upper == "COALESCE" and many:
            return f"coalesce({listed})"
        if upper == "IF" and many == 3:
            return f"CASE WHEN {arguments[0]} THEN {arguments[1]} ELSE {arguments[2]} END"
        if upper == "BOUND" and many == 1:
            return f"{listed} IS NOT NULL"
        if name in _CASTS and many == 1:
            return f"CAST({listed} AS {_CASTS[name]})"
        if name in _MATH and many == (2 if name.endswith("pow") else 1):
            return f"{_MATH[name]}({listed})"
        return None

    def _own(self, name: str, arguments: list[str]) -> str | None:
        """A function that the user has described, with its arguments put in."""
        names, body = self.functions.get(name, ((), ""))
        if not body or len(names) != len(arguments):
            return None
        import sqlglot

        given = {n: sqlglot.parse_one(f"({a})", read="spark") for n, a in zip(names, arguments, strict=True)}

        def put(node: Any) -> Any:
            plain = type(node).__name__ == "Column" and node.name in given
            value = given[node.name].copy() if plain else node
            simple = plain and type(value.this).__name__ in ("Column", "Literal")
            return value.this if simple else value

        whole = sqlglot.parse_one(f"({body})", read="spark").transform(put)
        return whole.sql(dialect="spark")


_LEVELS = {"or": 1, "and": 2, "not": 6, "=": 3, "<>": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "+": 4, "-": 4, "*": 5,
           "/": 5, "neg": 6}  # fmt: skip
_WORDS = {"or": "||", "and": "&&", "<>": "!="}
_CALLS = {"abs": "ABS", "coalesce": "COALESCE", "whole": f"<{XSD}integer>", "real": f"<{XSD}double>",
          **{ours: f"<{theirs}>" for theirs, ours in _MATH.items()}}  # fmt: skip


def sparql(tree: Ours) -> str:
    """A score in the words of SPARQL.

    Examples
    --------
    >>> from skyband.query.expression import parse
    >>> sparql(parse("(a + b) * CASE WHEN c = 'x' THEN 2 ELSE 1 END").tree)
    '(?a + ?b) * IF(?c = "x", 2, 1)'
    """
    kind, *parts = tree
    if kind in ("column", "raw", "flag"):
        return variable(parts[0])
    if kind == "number":
        value = parts[0]
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    if kind == "text":
        return escaped(parts[0])
    if kind == "yes":
        return str(parts[0]).lower()
    if kind == "isnull":
        return f"!BOUND({sparql(parts[0])})"
    if kind == "case":
        *branches, other = parts
        said = sparql(other)
        for when, then in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
            said = f"IF({sparql(when)}, {sparql(then)}, {said})"
        return said
    if kind == "round" and parts[1] == 0:
        return f"ROUND({sparql(parts[0])})"
    if kind in _CALLS:
        return f"{_CALLS[kind]}({', '.join(map(sparql, parts))})"
    if kind in ("neg", "not"):
        return ("-" if kind == "neg" else "!") + _inside(parts[0], _LEVELS[kind])
    if kind in _LEVELS:
        level = _LEVELS[kind]
        right = level + (kind not in ("or", "and"))  # a - (b - c); a comparison takes no comparison
        left = level + (level == 3)
        word = _WORDS.get(kind, kind)
        if kind in ("=", "<>") and parts[0][0] == parts[1][0] == "column":
            return f"({sparql(parts[0])}) {word} ({sparql(parts[1])})"  # brackets: as numbers
        return f"{_inside(parts[0], left)} {word} {_inside(parts[1], right)}"
    msg = f"{kind} has no form in RSP-QL: use sb.to_sql or sb.to_yaml"
    raise QueryError(msg)


def variable(name: str) -> str:
    """A column as a variable."""
    if not name.replace("_", "a").isalnum() or not name[0].replace("_", "a").isalpha() or not name.isascii():
        msg = f"column {name!r} cannot be a variable of RSP-QL: rename it to letters, digits and _"
        raise QueryError(msg)
    return f"?{name}"


def _inside(tree: Ours, level: int) -> str:
    said = sparql(tree)
    own = _LEVELS.get(tree[0], 9)
    negative = tree[0] == "number" and tree[1] < 0
    return f"({said})" if own < level or negative or (own == level == 6) else said
