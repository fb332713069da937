"""Parts of a text as they were written: a tree knows what they mean, but not how they were spelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyband.lang.sql.text import Text, Token

_AFTER = ("QUALIFY", "SEMICOLON")
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


def condition(text: Text) -> tuple[str, Token] | None:
    """The WHERE of the SELECT that ranks, and its first token."""
    depths = _depths(text)
    over = _over(text)
    for low, token in enumerate(text.tokens, 1):
        if token.kind != "WHERE" or depths[low - 1] != depths[over]:
            continue
        first, last = sorted((low - 1, over))
        if min(depths[first:last]) < depths[over]:
            continue  # of another SELECT, in brackets of its own
        high = low
        while high < len(text.tokens) and text.tokens[high].kind not in _AFTER and depths[high] >= depths[over]:
            high += 1
        return text.between(low, high), text.tokens[low]
    return None


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
