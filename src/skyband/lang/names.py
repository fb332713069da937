"""Names of columns in an expression."""

from __future__ import annotations

import re
from functools import cache

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quoted(name: str) -> str:
    """A name as it stands in an expression: in back quotes where it needs them.

    Examples
    --------
    >>> quoted("price"), quoted("unit price"), quoted("order")
    ('price', '`unit price`', '`order`')
    """
    plain = _PLAIN.fullmatch(name) and name.upper() not in _reserved()
    return name if plain else f"`{name.replace('`', '``')}`"


def text(value: str) -> str:
    """A text as it stands in an expression.

    Examples
    --------
    >>> print(text("it's"))
    'it''s'
    """
    escaped = value.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


@cache
def _reserved() -> frozenset[str]:
    from skyband.query.trees import dialect

    phrases = dialect().tokenizer_class.KEYWORDS
    return frozenset(word for phrase in phrases for word in phrase.split())
