"""sb.parse: a text in any of the languages as a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skyband.lang.document import read
from skyband.lang.place import Place
from skyband.lang.question import statement

if TYPE_CHECKING:
    from skyband.lang.statement import Statement

LANGUAGES = ("sql", "rspql", "yaml")


def parse_at(text: str, language: str, begin: Place) -> Statement:
    """The statement in a text that begins at `begin` of something larger."""
    if language == "yaml":
        return statement(read(text, begin=begin))
    raise NotImplementedError


def parse(text: str) -> Statement:
    """The query that a text describes.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.parse("{k: 1, by: price, window: 1 minute, time: ts}").query.window
    Sliding('1 min', '1 min')
    """
    return parse_at(text, "yaml", Place(1, 1))
