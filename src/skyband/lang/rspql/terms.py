"""IRIs, prefixes, labels and literals of RSP-QL."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skyband.errors import nearest
from skyband.lang.pattern import Term
from skyband.lang.rspql.grammar import refused

if TYPE_CHECKING:
    from lark import Token, Tree

    from skyband.lang.place import Place

HOME = "urn:skyband:"
"""What `:` stands for where no PREFIX says so."""

XSD = "http://www.w3.org/2001/XMLSchema#"
MATH = "http://www.w3.org/2005/xpath-functions/math#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_KNOWN = {"xsd": XSD, "math": MATH, "": HOME}
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


@dataclass
class Terms:
    """The prefixes of a text, and what its terms stand for."""

    begin: Place
    prefixes: dict[str, str] = field(default_factory=dict)
    base: str = ""

    def declare(self, node: Tree[Token]) -> None:
        """Take a PREFIX or BASE."""
        words = [str(child) for child in node.children]
        if node.data == "base":
            self.base = words[1][1:-1]
        else:
            self.prefixes[words[1].removesuffix(":")] = self._absolute(words[2][1:-1])

    def iri(self, node: Tree[Token]) -> str:
        """The IRI in full."""
        word = str(node.children[0])
        if word.startswith("<"):
            return self._absolute(word[1:-1])
        prefix, _, local = word.partition(":")
        if prefix not in self.prefixes and prefix not in _KNOWN:
            there = nearest(prefix, {**_KNOWN, **self.prefixes})
            raise refused(node, self.begin, f"{prefix}: is not declared: write PREFIX {prefix}: <...>, or {there}")
        return self.prefixes.get(prefix, _KNOWN.get(prefix, "")) + local

    def label(self, node: Tree[Token]) -> str:
        """A name given to a stream, a window or a service: `:W` is W, others are IRIs in full."""
        word = str(node.children[0])
        return word[1:] if word.startswith(":") and len(word) > 1 else self.iri(node)

    def term(self, node: Tree[Token]) -> Term:
        """A term of a triple."""
        kind = node.data
        if kind == "variable":
            return Term("?" + str(node.children[0])[1:])
        if kind == "iri":
            return Term(f"<{self.iri(node)}>")
        if kind == "type":
            return Term(f"<{TYPE}>")
        if kind == "blank":
            raise refused(node, self.begin, "a blank node is a variable without a name: write a variable")
        if kind == "string":
            text, *more = node.children
            value = escaped(unescaped(str(text)))
            if not more:
                return Term(value)
            return Term(f"{value}{more[0]}" if isinstance(more[0], str) else f"{value}^^<{self.iri(more[0])}>")
        return Term(f'"{str(node.children[0]).lower()}"^^<{XSD}{kind}>')

    def _absolute(self, iri: str) -> str:
        from urllib.parse import urljoin

        return urljoin(self.base, iri) if self.base and not re.match(r"[A-Za-z][\w+.-]*:", iri) else iri


def unescaped(text: str) -> str:
    r"""The value of a text in quotes.

    Examples
    --------
    >>> unescaped('"a\\\\tb"')
    'a\\tb'
    """
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), text[1:-1])


def escaped(value: str) -> str:
    """The text in quotes that has this value."""
    plain = value.replace("\\", "\\\\").replace('"', '\\"')
    for letter, sign in (("n", "\n"), ("r", "\r"), ("t", "\t")):
        plain = plain.replace(sign, "\\" + letter)
    return f'"{plain}"'


def trees(node: Any) -> list[Any]:
    """The children of a node that are nodes, without the words between them."""
    return [child for child in node.children if hasattr(child, "data")]
