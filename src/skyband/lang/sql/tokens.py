"""SQL texts as tokens with positions: a tree has what a text means, tokens have how it was written."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import TokenError

from skyband.errors import QueryError
from skyband.query.trees import parse_sql, tokenize_sql

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

    from skyband.errors import ParseError
    from skyband.lang.position import Position

_CLAUSES = ("GROUP_BY", "QUALIFY", "SEMICOLON")  # what may follow WHERE
_WHOLE = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|[^'\"`]", re.DOTALL)


class Token(NamedTuple):
    """A word of the text: its kind in sqlglot's terms, and the characters it spans."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class SqlText:
    """A text, where it begins in something larger, and its tokens."""

    text: str
    start: Position
    tokens: tuple[Token, ...] = ()

    @classmethod
    def of(cls, text: str, start: Position) -> SqlText:
        """Cut a text into tokens."""
        try:
            found = tokenize_sql(text)
        except TokenError:
            msg = "this quote or comment is never closed: close it"
            raise cls(text, start).refuse(_unclosed(text), msg) from None
        except QueryError as error:
            raise start.error(error) from None
        return cls(text, start, tuple(Token(t.token_type.name, t.text, t.start, t.end + 1) for t in found))

    def refuse(self, at: Token | Expr | int | None, why: object) -> ParseError:
        """Return the error to raise for a token, a node (the first token if it has no position) or a character."""
        offset = at.start if isinstance(at, Token) else at if isinstance(at, int) else first_character(at)
        if offset is None:
            offset = self.tokens[0].start if self.tokens else 0
        return self.start.at(self.text, offset).error(why)

    def word(self, kind: str, before: int | None = None) -> Token | None:
        """Return the first token of a kind; or the last of them before a character."""
        found = [token for token in self.tokens if token.kind == kind]
        if before is not None:
            found = [token for token in found if token.start <= before][-1:] or found
        return found[0] if found else None

    def between(self, first: int, last: int) -> str:
        """Return what was written from token `first` up to, not with, token `last`."""
        return self.text[self.tokens[first].start : self.tokens[last - 1].end] if first < last else ""

    def closing(self, at: int) -> int:
        """Return the number of the token that closes the bracket opened by token `at`."""
        depth = 0
        for number in range(at, len(self.tokens)):
            depth += _nesting(self.tokens[number])
            if depth == 0:
                return number
        raise self.refuse(self.tokens[at], "this ( is never closed: write a ) to match it")

    def split(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of tokens between commas, from token `first` up to, not with, token `end`."""
        low, depth = first, 0
        for number in range(first, end):
            depth += _nesting(self.tokens[number])
            if depth == 0 and self.tokens[number].kind == "COMMA":
                yield low, number
                low = number + 1
        yield low, end

    def order_keys(self) -> list[str]:
        """Return the keys of OVER (... ORDER BY ...) as they were written, without their directions."""
        kinds = [token.kind for token in self.tokens]
        over = next(at for at in range(len(kinds)) if kinds[at - 1 : at + 2] == ["R_PAREN", "OVER", "L_PAREN"])
        end = self.closing(over + 1)
        found = []
        for low, high in self.split(kinds.index("ORDER_BY", over) + 1, end):
            words = [token.text.upper() for token in self.tokens[low:high]]
            nulls = len(words) > 2 and words[-2] == "NULLS" and words[-1] in ("FIRST", "LAST")
            if nulls and words[-1] == "FIRST":
                why = "NULLS FIRST is not supported, a row without a score is never ranked: leave it out"
                raise self.refuse(self.tokens[high - 2], why)
            last = high - 2 * nulls
            found.append(self.between(low, last - (kinds[last - 1] in ("ASC", "DESC"))))
        return found

    def condition(self, where: Expr) -> str:
        """Return the condition of a WHERE as it was written."""
        token = self.word("WHERE", before=first_character(where))
        assert token is not None
        first, depth = self.tokens.index(token) + 1, 0
        for number in range(first, len(self.tokens)):
            depth += _nesting(self.tokens[number])
            if depth < 0 or (depth == 0 and self.tokens[number].kind in _CLAUSES):
                return self.between(first, number)
        return self.between(first, len(self.tokens))

    def calls(self, names: Container[str]) -> Iterator[str]:
        """Yield the calls of these functions as they were written."""
        for number, token in enumerate(self.tokens[:-1]):
            if token.text.lower() in names and self.tokens[number + 1].kind == "L_PAREN":
                yield self.between(number, self.closing(number + 1) + 1)

    def parse(self, blank: tuple[int, int], name: str) -> Any:
        """Parse the text with the characters of `blank` replaced by a name; positions stay as they are."""
        low, high = blank
        gap = "".join(c if c == "\n" else " " for c in self.text[low + len(name) : high])
        try:
            trees = [tree for tree in parse_sql(self.text[:low] + name + gap + self.text[high:]) if tree is not None]
        except SqlglotParseError as error:
            found = error.errors[0]
            column = (found.get("col") or 1) - len(found.get("highlight") or "") + 1
            why = " ".join(str(found.get("description")).split())
            at = self.start.within(found.get("line") or 1, max(1, column))
            raise at.error(f"this is not SQL: {why[:1].lower()}{why[1:]}") from None
        except RecursionError:
            raise self.start.error("this is nested too deeply: write it with fewer brackets") from None
        if len(trees) != 1:
            raise self.start.error("this must be one statement, got more: write one")
        return trees[0]


def _nesting(token: Token) -> int:
    return (token.kind == "L_PAREN") - (token.kind == "R_PAREN")


def _unclosed(text: str) -> int:
    """Return where the quote or comment begins that has no end.

    Examples
    --------
    >>> _unclosed("a = 'b' AND c = 'd")
    16
    """
    at = 0
    while at < len(text) and not text.startswith("/*", at) and (found := _WHOLE.match(text, at)):
        at = found.end()
    return at


def first_character(node: Any) -> int | None:
    """Return the first character of a node, as far as its parts have positions."""
    return None if node is None else min((n.meta["start"] for n in node.walk() if "start" in n.meta), default=None)
