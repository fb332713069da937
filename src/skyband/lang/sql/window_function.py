"""Window table functions: TABLE(HOP(TABLE trades, DESCRIPTOR(ts), slide, size)), which sqlglot cannot parse."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from skyband.lang.position import errors_at
from skyband.query import Sliding

if TYPE_CHECKING:
    from skyband.lang.sql.tokens import SqlText, Token

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
