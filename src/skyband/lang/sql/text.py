"""An SQL text as tokens that know their places; sqlglot does the cutting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError
from skyband.lang.place import Place
from skyband.query.trees import parsed, tokenized

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

    from skyband.errors import ParseError


@dataclass(frozen=True)
class Token:
    """A word of the text: its kind in sqlglot's terms, and the characters it spans."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Text:
    """A text, where it begins in something larger, and its tokens."""

    text: str
    begin: Place
    tokens: tuple[Token, ...] = ()

    @classmethod
    def of(cls, text: str, begin: Place) -> Text:
        """Cut a text into tokens."""
        from sqlglot.errors import TokenError

        try:
            found = tokenized(text)
        except TokenError:
            raise cls(text, begin).refuse(_opened(text), "this quote or comment is never closed: close it") from None
        except QueryError as error:
            raise begin.error(str(error)) from None
        return cls(text, begin, tuple(Token(t.token_type.name, t.text, t.start, t.end + 1) for t in found))

    def place(self, offset: int) -> Place:
        """The place of a character."""
        inner = Place.of(self.text, offset)
        return self.begin.within(inner.line, inner.column)

    def refuse(self, at: Token | Expr | int | None, why: str) -> ParseError:
        """The error to raise for what stands at a token, a node or a character."""
        offset = at if isinstance(at, int) else at.start if isinstance(at, Token) else start(at)
        return self.place(len(self.text) if offset is None else offset).error(why)

    def word(self, kind: str, before: int | None = None) -> Token | None:
        """The first token of a kind; or the last of them before a character."""
        found = [token for token in self.tokens if token.kind == kind]
        if before is not None:
            found = [token for token in found if token.start <= before][-1:] or found
        return found[0] if found else None

    def between(self, first: int, last: int) -> str:
        """What was written from token `first` up to, not with, token `last`."""
        return self.text[self.tokens[first].start : self.tokens[last - 1].end] if first < last else ""

    def closing(self, at: int) -> int:
        """The number of the token that closes the bracket opened by token `at`."""
        depth = 0
        for number in range(at, len(self.tokens)):
            kind = self.tokens[number].kind
            depth += (kind == "L_PAREN") - (kind == "R_PAREN")
            if depth == 0:
                return number
        raise self.refuse(self.tokens[at], "this ( is never closed: write a ) to match it")

    def parsed(self, blank: tuple[int, int], name: str) -> Any:
        """The tree of the text, with the characters of `blank` replaced by a name; places stay as they are."""
        import sqlglot

        low, high = blank
        gap = "".join(c if c == "\n" else " " for c in self.text[low + len(name) : high])
        whole = self.text[:low] + name + gap + self.text[high:]
        try:
            trees = [tree for tree in parsed(whole) if tree is not None]
        except sqlglot.errors.ParseError as error:
            told = error.errors[0]
            line, after = told.get("line") or 1, told.get("col") or 1
            place = self.begin.within(line, max(1, after - len(told.get("highlight") or "") + 1))
            says = " ".join(str(told.get("description")).split())
            raise place.error(f"this is no SQL, {says[:1].lower()}{says[1:]}") from None
        except RecursionError:
            raise self.begin.error("this is nested too deeply: write it with fewer brackets") from None
        if len(trees) != 1:
            raise self.begin.error("this holds more than one statement: write one")
        return trees[0]


def _opened(text: str) -> int:
    """Where the quote or comment begins that has no end.

    Examples
    --------
    >>> _opened("a = 'b' AND c = 'd")
    16
    """
    whole = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|[^'\"`]", re.DOTALL)
    at = 0
    while at < len(text) and not text.startswith("/*", at) and (found := whole.match(text, at)):
        at = found.end()
    return at


def start(node: Any) -> int | None:
    """The first character of a node, as far as its parts know theirs."""
    if node is None:
        return None
    known = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(known, default=None)
