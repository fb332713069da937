"""Window table functions: TABLE(HOP(TABLE trades, DESCRIPTOR(ts), slide, size)), which sqlglot does not know."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from skyband.errors import ParseError, QueryError
from skyband.query import Sliding

if TYPE_CHECKING:
    from skyband.lang.sql.text import Text, Token

NAMES = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
}
_NEEDED = {"TUMBLE": 3, "HOP": 4}
_EXAMPLE = {
    "TUMBLE": "TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' HOUR)",
    "HOP": "HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTE)",
}
_OTHERS = {
    "CUMULATE": "windows that grow are not kept: write HOP or TUMBLE",
    "SESSION": "windows by sessions are not kept: write HOP or TUMBLE",
}
_UNITS = ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True)
class Windowed:
    """The table, its time column, the window, and the characters of the text that said so."""

    table: str
    time: str
    window: Sliding
    span: tuple[int, int]


def windowed(text: Text) -> Windowed:
    """The one window table function of a text."""
    tokens = text.tokens
    calls = [
        number
        for number, (one, two) in enumerate(pairwise(tokens))
        if two.kind == "L_PAREN" and one.text.upper() in {*NAMES, *_OTHERS}
    ]
    if not calls:
        at = text.word("FROM") or (tokens[0] if tokens else None)
        why = f"this reads no window of a stream: write FROM TABLE({_EXAMPLE['HOP']})"
        raise text.refuse(at, why)
    for more in calls[1:]:
        raise text.refuse(tokens[more], "this is a second window: ask for one in each statement")
    call = calls[0]
    name = tokens[call].text.upper()
    if name in _OTHERS:
        raise text.refuse(tokens[call], _OTHERS[name])
    end = text.closing(call + 1)
    given = _arguments(text, name, call + 2, end)
    first, last = call, end
    if call >= 2 and tokens[call - 1].kind == "L_PAREN" and tokens[call - 2].kind == "TABLE":
        first, last = call - 2, text.closing(call - 1)
        if last != end + 1:
            raise text.refuse(tokens[end + 1], "TABLE(...) holds one function: close the bracket before this")
    size = _interval(text, *given["SIZE"])
    slide = _interval(text, *given["SLIDE"]) if "SLIDE" in given else size
    origin = _interval(text, *given["OFFSET"]) if "OFFSET" in given else "0 s"
    try:
        window = Sliding(size, slide, origin=origin)
    except ParseError:
        raise
    except QueryError as error:
        hint = "; HOP takes the slide first, then the size" if "slide" in str(error) else ""
        raise text.refuse(tokens[given["SIZE"][0]], f"{error}{hint}") from None
    return Windowed(
        _table(text, *given["DATA"]),
        _descriptor(text, *given["TIMECOL"]),
        window,
        (tokens[first].start, tokens[last].end),
    )


def _arguments(text: Text, name: str, first: int, end: int) -> dict[str, tuple[int, int]]:
    """The tokens of each argument, by its name; names may be written: SIZE => INTERVAL '1' HOUR."""
    known, tokens = NAMES[name], text.tokens
    given: dict[str, tuple[int, int]] = {}
    low, depth = first, 0
    for number in range(first, end + 1):
        kind = tokens[number].kind
        if number == end or (kind == "COMMA" and depth == 0):
            if low == number:
                raise text.refuse(tokens[number], f"an argument is missing: write {_EXAMPLE[name]}")
            place = len(given)
            key = known[place] if place < len(known) else ""
            if number - low > 2 and tokens[low + 1].kind == "FARROW":
                key, low = tokens[low].text.upper(), low + 2
            if key not in known or key in given:
                raise text.refuse(tokens[low], f"{name} does not take this argument: write {_EXAMPLE[name]}")
            given[key] = low, number
            low = number + 1
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
    for key in known[: _NEEDED[name]]:
        if key not in given:
            raise text.refuse(tokens[end], f"{name} has no {key}: write {_EXAMPLE[name]}")
    return given


def _table(text: Text, low: int, high: int) -> str:
    tokens = text.tokens[low:high]
    names = tokens[1:]
    if tokens[0].kind != "TABLE" or not names or not all(_is_name(t) for t in names[::2]):
        raise text.refuse(tokens[0], "the first argument is the stream: write TABLE and its name, such as TABLE trades")
    if len(names) % 2 == 0 or any(dot.kind != "DOT" for dot in names[1::2]):
        raise text.refuse(names[1], "a stream has one name: write TABLE trades")
    return ".".join(t.text for t in names[::2])


def _descriptor(text: Text, low: int, high: int) -> str:
    tokens = text.tokens[low:high]
    if len(tokens) != 4 or tokens[0].text.upper() != "DESCRIPTOR" or not _is_name(tokens[2]):
        why = "the second argument names the column of the event time: write DESCRIPTOR(ts)"
        raise text.refuse(tokens[0], why)
    return tokens[2].text


def _interval(text: Text, low: int, high: int) -> str:
    """A length of time, as our windows read it."""
    tokens = text.tokens[low:high]
    number, unit = (tokens[1].text, tokens[2].text.upper()) if len(tokens) == 3 else ("", "")
    if tokens[0].kind != "INTERVAL" or not _NUMBER.fullmatch(number):
        raise text.refuse(tokens[0], "a length of time is one number and one unit: write INTERVAL '10' MINUTE")
    if unit.removesuffix("S") not in _UNITS:
        why = f"{unit} is no unit of a fixed length: write one of {', '.join(_UNITS)}"
        raise text.refuse(tokens[2], why)
    return f"{number} {unit.lower()}"


def _is_name(token: Token) -> bool:
    return token.kind == "IDENTIFIER" or (token.text.replace("_", "a").isalnum() and token.kind != "STRING")
