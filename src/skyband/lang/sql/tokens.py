"""SQL texts as tokens with positions: a tree has what a text means, tokens have how it was written.

Window table functions such as TABLE(HOP(TABLE trades, DESCRIPTOR(ts), slide, size)) are read from tokens: sqlglot
cannot parse them.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot.errors import ParseError as SqlglotParseError
from sqlglot.errors import TokenError

from skyband.errors import QueryError
from skyband.lang.text import errors_at
from skyband.query import Sliding
from skyband.query.trees import parse_sql, tokenize_sql

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

    from skyband.errors import ParseError
    from skyband.lang.text import Position

_CLAUSES = ("GROUP_BY", "QUALIFY", "SEMICOLON")  # what may follow WHERE
_WHOLE = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|[^'\"`]", re.DOTALL)

_PARAMETERS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
}
_EXAMPLE = {
    "TUMBLE": "TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' HOUR)",
    "HOP": "HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTE)",
}
_UNSUPPORTED = ("CUMULATE", "SESSION")
_UNITS = ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


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


# ---------------------------------------------------------------- window table functions


@dataclass(frozen=True)
class WindowFunction:
    """The table, its time column, the window, and the characters of the text that the call spans."""

    table: str
    time: str
    window: Sliding
    span: tuple[int, int]


def find_window_function(text: SqlText) -> WindowFunction:
    """Read the one window table function of a text."""
    tokens = text.tokens
    calls = [
        number
        for number, (one, two) in enumerate(pairwise(tokens))
        if two.kind == "L_PAREN" and one.text.upper() in {*_PARAMETERS, *_UNSUPPORTED}
    ]
    if not calls:
        why = f"this must read a window of a stream: write FROM TABLE({_EXAMPLE['HOP']})"
        raise text.refuse(text.word("FROM"), why)
    if len(calls) > 1:
        raise text.refuse(tokens[calls[1]], "a statement must have one window, got a second: write two statements")
    [call] = calls
    name = tokens[call].text.upper()
    if name in _UNSUPPORTED:
        raise text.refuse(tokens[call], f"{name} windows are not supported: use HOP or TUMBLE")
    end = text.closing(call + 1)
    arguments = _arguments(text, name, call + 2, end)
    first, last = call, end
    if call >= 2 and tokens[call - 1].kind == "L_PAREN" and tokens[call - 2].kind == "TABLE":
        first, last = call - 2, text.closing(call - 1)
        if last != end + 1:
            raise text.refuse(tokens[end + 1], "TABLE(...) must have one function: close the bracket before this")
    lengths: dict[str, Any] = {
        field: _interval(text, arguments[key])
        for field, key in (("size", "SIZE"), ("slide", "SLIDE"), ("origin", "OFFSET"))
        if key in arguments
    }
    hint = "; HOP takes the slide first, then the size"
    with errors_at(lambda e: text.refuse(arguments["SIZE"][0], f"{e}{hint if 'slide' in str(e) else ''}")):
        window = Sliding(**{"slide": lengths["size"], **lengths})
    span = tokens[first].start, tokens[last].end
    return WindowFunction(_table(text, arguments["DATA"]), _descriptor(text, arguments["TIMECOL"]), window, span)


def _arguments(text: SqlText, name: str, first: int, end: int) -> dict[str, tuple[Token, ...]]:
    """Return the tokens of each argument by its name; names may be written: SIZE => INTERVAL '1' HOUR."""
    known, tokens = _PARAMETERS[name], text.tokens
    found: dict[str, tuple[Token, ...]] = {}
    for low, high in text.split(first, end):
        if low == high:
            raise text.refuse(tokens[high], f"an argument is missing: write {_EXAMPLE[name]}")
        key, argument = known[len(found)] if len(found) < len(known) else "", tokens[low:high]
        if len(argument) > 2 and argument[1].kind == "FARROW":
            key, argument = argument[0].text.upper(), argument[2:]
        if key not in known or key in found:
            raise text.refuse(argument[0], f"{name} does not take this argument: write {_EXAMPLE[name]}")
        found[key] = argument
    for key in known[:-1]:
        if key not in found:
            raise text.refuse(tokens[end], f"{name} must have {key}: write {_EXAMPLE[name]}")
    return found


def _table(text: SqlText, tokens: tuple[Token, ...]) -> str:
    names = tokens[1:]
    if tokens[0].kind != "TABLE" or not names or not all(_is_name(t) for t in names[::2]):
        raise text.refuse(tokens[0], "the first argument must be the stream: write TABLE and its name: TABLE trades")
    if len(names) % 2 == 0 or any(dot.kind != "DOT" for dot in names[1::2]):
        raise text.refuse(names[1], "a stream must have one name: write TABLE trades")
    return ".".join(t.text for t in names[::2])


def _descriptor(text: SqlText, tokens: tuple[Token, ...]) -> str:
    if len(tokens) != 4 or tokens[0].text.upper() != "DESCRIPTOR" or not _is_name(tokens[2]):
        why = "the second argument must name the column of the event time: write DESCRIPTOR(ts)"
        raise text.refuse(tokens[0], why)
    return tokens[2].text


def _interval(text: SqlText, tokens: tuple[Token, ...]) -> str:
    """Return a duration as windows read it."""
    number, unit = (tokens[1].text, tokens[2].text.upper()) if len(tokens) == 3 else ("", "")
    if tokens[0].kind != "INTERVAL" or not _NUMBER.fullmatch(number):
        raise text.refuse(tokens[0], "an interval must have one number and one unit: write INTERVAL '10' MINUTE")
    if unit.removesuffix("S") not in _UNITS:
        why = f"the unit must be of a fixed length, got {unit}: write one of {', '.join(_UNITS)}"
        raise text.refuse(tokens[2], why)
    return f"{number} {unit.lower()}"


def _is_name(token: Token) -> bool:
    return token.kind == "IDENTIFIER" or (token.text.replace("_", "a").isalnum() and token.kind != "STRING")
