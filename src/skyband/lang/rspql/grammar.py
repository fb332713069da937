"""RSP-QL texts as trees that lark parses, with the position and the meaning of their terms."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from skyband.errors import MissingLibraryError, nearest
from skyband.lang.triples import HOME, Term, escape, unescape

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

    from skyband.errors import ParseError
    from skyband.lang.text import Position

"""What `:` stands for where no PREFIX says so."""

XSD = "http://www.w3.org/2001/XMLSchema#"
MATH = "http://www.w3.org/2005/xpath-functions/math#"
FUNCTIONS = {MATH + "pow": "power", MATH + "sqrt": "sqrt", MATH + "exp": "exp", MATH + "log": "ln"}
"""Functions of SPARQL, and their names in scores."""

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_PREFIXES = {"xsd": XSD, "math": MATH, "": HOME}
_SELECT = "write SELECT ?user (... AS ?score)"
_RANGE = "write [RANGE 9m STEP 3m]"
_HINTS = {
    **dict.fromkeys(("ASK", "CONSTRUCT", "DESCRIBE"), _SELECT),
    "GROUP": "rows are ranked, not groups: leave GROUP BY out",
    "HAVING": "rows are ranked, not groups: write a FILTER",
    "MINUS": "write a FILTER",
    "GRAPH": "the triples come from the window: leave GRAPH out",
    "VALUES": "write a FILTER with IN",
    "EXISTS": "write an OPTIONAL and FILTER(BOUND(...))",
    "SLIDE": _RANGE,
    **dict.fromkeys(("TRIPLES", "ELEMENTS"), f"windows are in time: {_RANGE}"),
    "STREAM": "write FROM NAMED WINDOW :W ON :S [RANGE 9m STEP 3m]",
    "/": "paths of predicates are not supported: write a triple pattern for each",
    "^": "inverse predicates are not supported: write the pattern from its subject",
    "|": "write { ... } UNION { ... }",
}
_WORD = re.compile(r"\w+|.", re.DOTALL)
_TOKEN_TEXT = {
    "VAR": "?variable", "IRIREF": "<iri>", "PNAME_LN": ":name", "PNAME_NS": ":name", "LBRACE": "{", "RBRACE": "}",
    "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "DOT": ".", "COMMA": ",", "SEMICOLON": ";", "$END": "end",
    "STAR": "*", "INTEGER": "a number", "DECIMAL": "a number", "DOUBLE": "a number", "STRING": "a text", "A": "a",
    "BOOLEAN": "true", "DURATION": "9m", "KIND": "STREAM", "NAME": "a function", "COMPARE": "=", "BLANK": "?variable",
    "CIRCUMFLEX": "^^", "__ANON_0": "||", "__ANON_1": "&&", "__ANON_2": "^^", "LANGTAG": "@en", "SLASH": "/",
    "PLUS": "+", "MINUS": "-", "BANG": "!",
}  # fmt: skip


@cache
def _parser() -> Lark:
    try:
        from lark import Lark
    except ImportError as error:
        raise MissingLibraryError.of("RSP-QL", "lark") from error

    grammar = files("skyband.lang.rspql").joinpath("rspql.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def parse_tree(text: str, start: Position) -> Tree[Token]:
    """Parse a text; raise at the first word that does not fit."""
    parser = _parser()
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

    try:
        return parser.parse(text)
    except UnexpectedInput as error:
        at = error.pos_in_stream if isinstance(error, (UnexpectedCharacters, UnexpectedToken)) else None
        ended = isinstance(error, UnexpectedEOF) or (isinstance(error, UnexpectedToken) and error.token.type == "$END")
        if ended or at is None:
            raise start.at(text, len(text)).error(f"the text ends too early: {_expected(error)}") from None
        found = _WORD.match(text, at)
        word = found[0] if found else text[at : at + 1]
        hint = _HINTS.get(word.upper()) or _HINTS.get(_exists(text, at)) or _expected(error)
        raise start.within(error.line, error.column).error(f"{word!r} is not supported here: {hint}") from None


def _exists(text: str, at: int) -> str:
    """Return EXISTS if it stands beside the error: alone it looks like the name of a function."""
    beside = re.search(r"(\w*)\s*$", text[:at]), re.match(r"\w+\s+(\w+)", text[at:])
    return "EXISTS" if any(found and found[1].upper() == "EXISTS" for found in beside) else ""


def _expected(error: Any) -> str:
    names: set[str] = set()
    for attribute in ("accepts", "expected", "allowed"):
        names = names or set(getattr(error, attribute, None) or ())
    expected = sorted({_TOKEN_TEXT.get(name, name) for name in names} - {"end"})
    return f"write {' or '.join(expected[:6])}" if expected else "leave it out"


def subtrees(node: Any) -> list[Any]:
    """Return the children of a node that are nodes, without the words between them."""
    return [child for child in node.children if hasattr(child, "data")]


class Terms:
    """The prefixes of a text, what its terms stand for, and where its nodes are."""

    def __init__(self, start: Position) -> None:
        self.start = start
        self._prefixes = dict(_PREFIXES)
        self._base = ""

    def refuse(self, node: Tree[Token] | Token, why: object) -> ParseError:
        """Return the error to raise for a node."""
        at: Any = node.meta if hasattr(node, "meta") else node
        return (self.start if getattr(at, "empty", False) else self.start.within(at.line, at.column)).error(why)

    def declare(self, node: Tree[Token]) -> None:
        """Take a PREFIX or BASE."""
        words = [str(child) for child in node.children]
        if node.data == "base":
            self._base = words[1][1:-1]
        else:
            self._prefixes[words[1].removesuffix(":")] = self._absolute(words[2][1:-1])

    def iri(self, node: Tree[Token]) -> str:
        """Return the IRI in full."""
        word = str(node.children[0])
        if word.startswith("<"):
            return self._absolute(word[1:-1])
        prefix, _, local = word.partition(":")
        if prefix not in self._prefixes:
            known = nearest(prefix, self._prefixes)
            raise self.refuse(node, f"{prefix}: must be declared: write PREFIX {prefix}: <...>, or {known}")
        return self._prefixes[prefix] + local

    def label(self, node: Tree[Token]) -> str:
        """Return the name of a stream, a window or a service: `:W` is W, others are IRIs in full."""
        word = str(node.children[0])
        return word[1:] if word.startswith(":") and len(word) > 1 else self.iri(node)

    def term(self, node: Tree[Token]) -> Term:
        """Return a term of a triple."""
        kind = node.data
        if kind == "variable":
            return Term("?" + str(node.children[0])[1:])
        if kind == "iri":
            return Term(f"<{self.iri(node)}>")
        if kind == "type":
            return Term(f"<{TYPE}>")
        if kind == "blank":
            raise self.refuse(node, "blank nodes are not supported: write a variable")
        if kind == "string":
            text, *suffix = node.children
            value = escape(unescape(str(text)))
            if not suffix:
                return Term(value)
            return Term(f"{value}{suffix[0]}" if isinstance(suffix[0], str) else f"{value}^^<{self.iri(suffix[0])}>")
        return Term(f'"{str(node.children[0]).lower()}"^^<{XSD}{kind}>')

    def _absolute(self, iri: str) -> str:
        return urljoin(self._base, iri) if self._base and not re.match(r"[A-Za-z][\w+.-]*:", iri) else iri
