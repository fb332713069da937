"""Parts of a text as they were written: a tree knows what they mean, but not how they were spelled."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyband.lang.sql.text import Text

_AFTER = ("GROUP_BY", "QUALIFY", "SEMICOLON")
_NULLS = (["NULLS", "FIRST"], ["NULLS", "LAST"])


def order_keys(text: Text) -> list[str]:
    """The keys of OVER (... ORDER BY ...), without their directions."""
    tokens = text.tokens
    over = _over(text)
    end = text.closing(over + 1)
    low = next(number for number in range(over, end) if tokens[number].kind == "ORDER_BY") + 1
    found, depth = [], 0
    for number in range(low, end + 1):
        kind = tokens[number].kind
        if depth == 0 and (number == end or kind == "COMMA"):
            high = number
            if high - low > 2 and [token.text.upper() for token in tokens[high - 2 : high]] in _NULLS:
                if tokens[high - 1].text.upper() == "FIRST":
                    raise text.refuse(tokens[high - 2], "a row without a score is never ranked: leave NULLS FIRST out")
                high -= 2
            high -= tokens[high - 1].kind in ("ASC", "DESC")
            found.append(text.between(low, high))
            low = number + 1
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
    return found


def condition(text: Text, select: int) -> str:
    """Return the WHERE of the SELECT that begins with token number `select`, as it was written; "" without one."""
    depths = _depths(text)
    low = 0
    for number in range(select + 1, len(text.tokens)):
        token = text.tokens[number]
        ends = depths[number] < depths[select] or (depths[number] == depths[select] and token.kind in _AFTER)
        if ends and low:
            return text.between(low, number)
        if depths[number] < depths[select]:
            return ""
        if token.kind == "WHERE" and depths[number] == depths[select]:
            low = number + 1
    return text.between(low, len(text.tokens)) if low else ""


def calls(text: Text, names: Container[str]) -> Iterator[str]:
    """Yield the calls of these functions, as they were written."""
    for number, token in enumerate(text.tokens[:-1]):
        if token.text.lower() in names and text.tokens[number + 1].kind == "L_PAREN":
            yield text.between(number, text.closing(number + 1) + 1)


def _over(text: Text) -> int:
    """The OVER of ROW_NUMBER() OVER (...): a column may be called so too."""
    kinds = [token.kind for token in text.tokens]
    return next(at for at in range(len(kinds)) if kinds[at - 1 : at + 2] == ["R_PAREN", "OVER", "L_PAREN"])


def _depths(text: Text) -> list[int]:
    """How many brackets are open at each token; a bracket is outside of itself."""
    found, depth = [], 0
    for token in text.tokens:
        depth -= token.kind == "R_PAREN"
        found.append(depth)
        depth += token.kind == "L_PAREN"
    return found
