"""SPARQL expressions in the grammar of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import sqlglot

from skyband.lang.rspql.grammar import FUNCTIONS, XSD, Terms, subtrees
from skyband.lang.triples import unescape
from skyband.query.trees import dialect, quote_name, quote_text

if TYPE_CHECKING:
    from lark import Token, Tree

_CASTS = {
    **{XSD + name: "DOUBLE" for name in ("double", "float", "decimal")},
    **{XSD + name: "BIGINT" for name in ("integer", "int", "long", "short")},
}
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "either": "OR", "both": "AND"}
_MAX_LENGTH = 500_000
"""Characters of an expression once BIND and functions are put in, which can double it with every use."""
_AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")

Function = tuple[tuple[str, ...], str]
"""The names of the arguments, and the expression over them."""


class ExpressionReader:
    """Translates SPARQL expressions; a method `_kind` reads a node of that kind, and the rest is refused."""

    def __init__(self, terms: Terms, functions: Mapping[str, Function]) -> None:
        self.terms = terms
        self.functions = functions
        self.bound: dict[str, str] = {}  # variables of BIND and SELECT, and their expressions
        self.seen: dict[str, Any] = {}  # every other variable, and its first node

    def read(self, node: Tree[Token]) -> str:
        """Return the expression as text."""
        special: Callable[[Tree[Token]], str] | None = getattr(self, f"_{node.data}", None)
        if special is not None:
            return special(node)
        return self._chain(node) if node.data in _SIGNS else str(node.children[0])

    def _chain(self, node: Tree[Token]) -> str:
        """Read a + b - c in a loop, so that its length is not its depth."""
        rest: list[str] = []
        while node.data in _SIGNS:
            first, other = subtrees(node)
            rest.append(f" {_SIGNS[node.data]} {self.read(other)}")
            node = first
        return self._limited("".join([self.read(node), *reversed(rest)]), node)

    def _limited(self, text: str, node: Any) -> str:
        if len(text) > _MAX_LENGTH:
            why = f"an expression must have at most {_MAX_LENGTH:,} characters with its BINDs and functions put in"
            raise self.terms.refuse(node, f"{why}, got {len(text):,}: write a shorter one")
        return text

    def _boolean(self, node: Tree[Token]) -> str:
        return str(node.children[0]).upper()

    def _variable(self, node: Tree[Token]) -> str:
        name = str(node.children[0])[1:]
        if name in self.bound:
            return self.bound[name]
        self.seen.setdefault(name, node)
        return quote_name(name)

    def _brackets(self, node: Tree[Token]) -> str:
        return f"({self.read(subtrees(node)[0])})"

    def _compare(self, node: Tree[Token]) -> str:
        sides = subtrees(node)
        left, right = (f"({self.read(side)})" if side.data == "negation" else self.read(side) for side in sides)
        sign = next(str(child) for child in node.children if not hasattr(child, "data"))
        if sign in ("=", "!=") and all(side.data == "variable" for side in sides):
            why = f"two variables can be compared as numbers only: write (?{left}) {sign} (?{right})"
            raise self.terms.refuse(node, why)
        return f"{left} {'<>' if sign == '!=' else sign} {right}"

    def _negation(self, node: Tree[Token]) -> str:
        text = self.read(subtrees(node)[0])
        return text.removesuffix("NOT NULL") + "NULL" if text.endswith(" IS NOT NULL") else f"NOT {text}"

    def _minus(self, node: Tree[Token]) -> str:
        text = self.read(subtrees(node)[0])
        return f"- {text}" if text.startswith("-") else f"-{text}"

    def _plus(self, node: Tree[Token]) -> str:
        return self.read(subtrees(node)[0])

    def _among(self, node: Tree[Token], word: str = "IN") -> str:
        first, *rest = map(self.read, subtrees(node))
        return f"{first} {word} ({', '.join(rest)})"

    def _not_among(self, node: Tree[Token]) -> str:
        return self._among(node, "NOT IN")

    def _iri(self, node: Tree[Token]) -> str:
        return quote_text(self.terms.iri(node))

    def _string(self, node: Tree[Token]) -> str:
        value, *suffix = cast("list[Any]", node.children)
        text = unescape(str(value))
        if suffix and not hasattr(suffix[0], "data"):
            why = f"texts with a language cannot be compared, got {suffix[0]}: write {value}"
            raise self.terms.refuse(node, why)
        kind = self.terms.iri(suffix[0]) if suffix else f"{XSD}string"
        if kind == f"{XSD}string":
            return quote_text(text)
        if kind not in _CASTS:
            why = f"only texts and numbers can be compared, got <{kind}>: write {value}, or a number"
            raise self.terms.refuse(node, why)
        try:
            float(text)
        except ValueError:
            raise self.terms.refuse(node, f"<{kind}> must be a number, got {text!r}") from None
        return text

    def _call(self, node: Tree[Token]) -> str:
        first, *rest = cast("list[Any]", node.children)
        arguments = [self.read(part) for part in rest if hasattr(part, "data")]
        name = self.terms.iri(first) if hasattr(first, "data") else str(first)
        found = _builtin(name, arguments) or self._user_function(name, arguments)
        if found is not None:
            return self._limited(found, node)
        if name.upper() in _AGGREGATES:
            why = f"{name} is not supported: rows are ranked, each by its own values"
            raise self.terms.refuse(node, why)
        listed = ", ".join("abcdefgh"[: len(arguments)])
        why = f"{name} with {len(arguments)} arguments must be a known function"
        example = f'parse(text, functions={{"{name}({listed})": "..."}}), or the expression itself'
        raise self.terms.refuse(node, f"{why}: write {example}")

    def _user_function(self, name: str, arguments: list[str]) -> str | None:
        """Return the expression of a function that the user has defined, with its arguments put in."""
        names, body = self.functions.get(name, ((), ""))
        if not body or len(names) != len(arguments):
            return None
        sql = dialect()
        given = {n: sqlglot.parse_one(f"({a})", read=sql) for n, a in zip(names, arguments, strict=True)}

        def put(node: Any) -> Any:
            if not isinstance(node, sqlglot.exp.Column) or node.name not in given:
                return node
            value: Any = given[node.name].copy()
            return value.this if isinstance(value.this, (sqlglot.exp.Column, sqlglot.exp.Literal)) else value

        return sqlglot.parse_one(f"({body})", read=sql).transform(put).sql(dialect=sql)


def _builtin(name: str, arguments: list[str]) -> str | None:
    listed, upper = ", ".join(arguments), name.upper()
    match len(arguments):
        case 1 if upper in ("ABS", "ROUND"):
            return f"{upper.lower()}({listed})"
        case 1 if upper == "BOUND":
            return f"{listed} IS NOT NULL"
        case 1 if name in _CASTS:
            return f"CAST({listed} AS {_CASTS[name]})"
        case 3 if upper == "IF":
            return "CASE WHEN {} THEN {} ELSE {} END".format(*arguments)
        case n if n and upper == "COALESCE":
            return f"coalesce({listed})"
        case n if name in FUNCTIONS and n == (2 if name.endswith("pow") else 1):
            return f"{FUNCTIONS[name]}({listed})"
    return None
