"""An RSP-QL text as a tree that knows its places; lark does the reading."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from skyband.errors import MissingLibraryError

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

    from skyband.errors import ParseError
    from skyband.lang.place import Place

_HINTS = {
    "ASK": "write SELECT ?user (... AS ?score)",
    "CONSTRUCT": "write SELECT ?user (... AS ?score)",
    "DESCRIBE": "write SELECT ?user (... AS ?score)",
    "GROUP": "rows are ranked, not groups: leave GROUP BY out",
    "HAVING": "rows are ranked, not groups: write a FILTER",
    "MINUS": "write a FILTER",
    "GRAPH": "the triples come from the window: leave GRAPH out",
    "VALUES": "write a FILTER with IN",
    "EXISTS": "write an OPTIONAL and FILTER(BOUND(...))",
    "SLIDE": "write [RANGE 9m STEP 3m]",
    "TRIPLES": "windows are measured in time: write [RANGE 9m STEP 3m]",
    "ELEMENTS": "windows are measured in time: write [RANGE 9m STEP 3m]",
    "STREAM": "write FROM NAMED WINDOW :W ON :S [RANGE 9m STEP 3m]",
    "/": "a path of predicates is not followed: write a triple pattern for each",
    "^": "an inverse predicate is not followed: write the pattern from its subject",
    "|": "write { ... } UNION { ... }",
}
_WORD = re.compile(r"\w+|.", re.DOTALL)


@cache
def _parser() -> Lark:
    try:
        from lark import Lark
    except ImportError as error:
        raise MissingLibraryError.of("RSP-QL", "lark") from error

    grammar = files("skyband.lang.rspql").joinpath("rspql.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=False)


def read(text: str, begin: Place) -> Tree[Token]:
    """The tree of a text, or an error at the first word that does not fit."""
    parser = _parser()
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

    try:
        return parser.parse(text)
    except UnexpectedInput as error:
        at = error.pos_in_stream if isinstance(error, (UnexpectedCharacters, UnexpectedToken)) else None
        ended = isinstance(error, UnexpectedEOF) or (isinstance(error, UnexpectedToken) and error.token.type == "$END")
        if ended or at is None:
            lines = text.split("\n")
            place = begin.within(len(lines), len(lines[-1]) + 1)
            raise place.error(f"the text ends too early: {_wanted(error)}") from None
        found = _WORD.match(text, at)
        word = found[0] if found else text[at : at + 1]
        place = begin.within(error.line, error.column)
        hint = _HINTS.get(word.upper()) or _HINTS.get(_exists(text, at))
        raise place.error(f"{word!r} does not fit here: {hint or _wanted(error)}") from None


def _exists(text: str, at: int) -> str:
    """The word EXISTS, if what does not fit stands beside it: alone it looks like the name of a function."""
    beside = re.search(r"(\w*)\s*$", text[:at]), re.match(r"\w+\s+(\w+)", text[at:])
    return "EXISTS" if any(found and found[1].upper() == "EXISTS" for found in beside) else ""


def _wanted(error: Any) -> str:
    """What could stand there instead."""
    names: set[str] = set()
    for attribute in ("accepts", "expected", "allowed"):
        names = names or set(getattr(error, attribute, None) or ())
    said = sorted({_SHOWN.get(name, name) for name in names} - {"end"})
    return f"write {' or '.join(said[:6])}" if said else "leave it out"


_SHOWN = {
    "VAR": "?variable", "IRIREF": "<iri>", "PNAME_LN": ":name", "PNAME_NS": ":name", "LBRACE": "{", "RBRACE": "}",
    "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "DOT": ".", "COMMA": ",", "SEMICOLON": ";", "$END": "end",
    "STAR": "*", "INTEGER": "a number", "DECIMAL": "a number", "DOUBLE": "a number", "STRING": "a text", "A": "a",
    "BOOLEAN": "true", "DURATION": "9m", "KIND": "STREAM", "NAME": "a function", "COMPARE": "=", "BLANK": "?variable",
    "CIRCUMFLEX": "^^", "__ANON_0": "||", "__ANON_1": "&&", "__ANON_2": "^^", "LANGTAG": "@en", "SLASH": "/",
    "PLUS": "+", "MINUS": "-", "BANG": "!",
}  # fmt: skip


def place_of(node: Tree[Token] | Token, begin: Place) -> Place:
    """Where a node begins."""
    at: Any = node.meta if hasattr(node, "meta") else node
    if getattr(at, "empty", False):
        return begin
    return begin.within(at.line, at.column)


def refused(node: Tree[Token] | Token, begin: Place, why: str) -> ParseError:
    """The error to raise for a node."""
    return place_of(node, begin).error(why)
