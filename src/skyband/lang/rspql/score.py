"""Expressions: from SPARQL to the grammar of our scores, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from skyband.errors import QueryError
from skyband.lang.names import quoted, text
from skyband.lang.rspql.grammar import refused
from skyband.lang.rspql.terms import MATH, XSD, Terms, escaped, trees, unescaped
from skyband.query.trees import dialect

if TYPE_CHECKING:
    from lark import Token, Tree

    from skyband.query.expression import Tree as Ours

_CASTS = {
    **{XSD + name: "DOUBLE" for name in ("double", "float", "decimal")},
    **{XSD + name: "BIGINT" for name in ("integer", "int", "long", "short")},
}
_MATH = {MATH + theirs: ours for theirs, ours in (("pow", "power"), ("sqrt", "sqrt"), ("exp", "exp"), ("log", "ln"))}
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "either": "OR", "both": "AND"}
_LONGEST = 500_000
"""Letters that an expression may have once BIND and functions are put in, which can double it with every use."""
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
        if kind in _SIGNS:
            return self._chain(node)
        if kind in ("integer", "decimal", "double"):
            return str(node.children[0])
        assert kind == "boolean", kind
        return str(node.children[0]).upper()

    def _chain(self, node: Tree[Token]) -> str:
        """Write a + b - c; its length is no depth."""
        rest: list[str] = []
        while node.data in _SIGNS:
            first, other = trees(node)
            rest.append(f" {_SIGNS[node.data]} {self.write(other)}")
            node = first
        return self.short("".join([self.write(node), *reversed(rest)]), node)

    def short(self, said: str, node: Any) -> str:
        """Refuse an expression that has grown too long."""
        if len(said) > _LONGEST:
            why = f"an expression must have at most {_LONGEST:,} letters with its BINDs and functions put in"
            raise refused(node, self.terms.begin, f"{why}, got {len(said):,}: write a shorter one")
        return said

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
        if not more:
            return text(plain)
        if not hasattr(more[0], "data"):
            why = f"rows hold texts without their language, so that {more[0]} cannot be compared: write {value}"
            raise refused(node, self.terms.begin, why)
        kind = self.terms.iri(more[0])
        if kind == f"{XSD}string":
            return text(plain)
        if kind not in _CASTS:
            why = f"rows hold texts and numbers, so that <{kind}> cannot be compared: write {value}, or a number"
            raise refused(node, self.terms.begin, why)
        try:
            float(plain)
        except ValueError:
            raise refused(node, self.terms.begin, f"{plain!r} is no number: write one") from None
        return plain

    def _call(self, node: Tree[Token]) -> str:
        first, *rest = cast("list[Any]", node.children)
        arguments = [self.write(part) for part in rest if hasattr(part, "data")]
        name = str(first) if not hasattr(first, "data") else self.terms.iri(first)
        found = self._known(name, arguments) or self._own(str(first) if isinstance(first, str) else name, arguments)
        if found is not None:
            return self.short(found, node)
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

        sql = dialect()
        given = {n: sqlglot.parse_one(f"({a})", read=sql) for n, a in zip(names, arguments, strict=True)}

        def put(node: Any) -> Any:
            plain = type(node).__name__ == "Column" and node.name in given
            value = given[node.name].copy() if plain else node
            simple = plain and type(value.this).__name__ in ("Column", "Literal")
            return value.this if simple else value

        return sqlglot.parse_one(f"({body})", read=sql).transform(put).sql(dialect=sql)


_LEVELS = {"or": 1, "and": 2, "not": 6, "=": 3, "<>": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3, "sum": 4,
           "product": 5, "neg": 6}  # fmt: skip
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
    if kind in ("number", "text", "yes"):
        return _constant(kind, parts[0])
    if kind == "isnull":
        return f"!BOUND({sparql(parts[0])})"
    if kind == "case":
        *branches, other = parts
        said = sparql(other)
        for when, then in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
            said = f"IF({sparql(when)}, {sparql(then)}, {said})"
        return said
    if kind in _CALLS or (kind == "round" and parts[1] == 0):
        given = parts[:1] if kind == "round" else parts
        return f"{_CALLS.get(kind, 'ROUND')}({', '.join(map(sparql, given))})"
    if kind in ("neg", "not"):
        return ("-" if kind == "neg" else "!") + _inside(parts[0], _LEVELS[kind])
    if kind in ("sum", "product", "and", "or", "in") and "%" not in parts:
        return _chain(kind, parts)
    if kind in _LEVELS and kind != "product":
        level = _LEVELS[kind] + 1  # a comparison takes no comparison
        word = _WORDS.get(kind, kind)
        if kind in ("=", "<>") and parts[0][0] == parts[1][0] == "column":
            return f"({sparql(parts[0])}) {word} ({sparql(parts[1])})"  # brackets: as numbers
        return f"{_inside(parts[0], level)} {word} {_inside(parts[1], level)}"
    kind = "%" if kind == "product" else kind
    msg = f"{kind} has no form in RSP-QL: use sb.to_sql or sb.to_yaml"
    raise QueryError(msg)


def _constant(kind: str, value: Any) -> str:
    if kind == "text":
        return escaped(value)
    if kind == "yes":
        return str(value).lower()
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _chain(kind: str, parts: list[Any]) -> str:
    """An operation of any number of operands."""
    level = _LEVELS[kind]
    if kind == "in":
        return f"{_inside(parts[0], level + 1)} IN ({', '.join(map(sparql, parts[1:]))})"
    if kind in _WORDS:
        return f" {_WORDS[kind]} ".join(_inside(part, level) for part in parts)
    others = (f" {sign} {_inside(other, level + 1)}" for sign, other in zip(parts[1::2], parts[2::2], strict=True))
    return _inside(parts[0], level) + "".join(others)  # a - (b - c)


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
