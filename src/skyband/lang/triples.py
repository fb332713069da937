"""Patterns of triples: stars, that is, patterns around one subject."""

from __future__ import annotations

import re
from dataclasses import dataclass

HOME = "urn:skyband:"
"""Prefix of the names of columns without one of their own."""

_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


@dataclass(frozen=True)
class Term:
    """A term of a triple in N-Triples form, such as `<urn:a>` or `"x"@en`; or a variable such as `?user`.

    Examples
    --------
    >>> Term("?user").variable, Term("<urn:a>").variable
    ('user', None)
    """

    text: str

    @property
    def variable(self) -> str | None:
        """Its name if it is a variable."""
        return self.text[1:] if self.text.startswith("?") else None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Star:
    """Triples of one subject: all of `needed`, and each group of `optional` if all of it is there."""

    subject: Term
    needed: tuple[tuple[Term, Term], ...]
    optional: tuple[tuple[tuple[Term, Term], ...], ...] = ()


@dataclass(frozen=True)
class Pattern:
    """Stars that each make rows (more than one: UNION), and what their variables are.

    A row is made of triples with the same subject and the same time.
    """

    stars: tuple[Star, ...]
    numbers: tuple[str, ...] = ()
    """Variables that the score takes for numbers; all others are texts."""
    time: str = "time"
    """The name of the time column."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable, in the order of the text."""
        found: dict[str, None] = {}
        for star in self.stars:
            groups = (star.needed, *star.optional)
            for term in (star.subject, *(term for group in groups for pair in group for term in pair)):
                if term.variable is not None:
                    found[term.variable] = None
        return tuple(found)


def unescape(text: str) -> str:
    r"""Return the value of a text in quotes.

    Examples
    --------
    >>> unescape('"a\\\\tb"')
    'a\\tb'
    """
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), text[1:-1])


def escape(value: str) -> str:
    """Write a value as a text in quotes."""
    for letter, sign in (("\\", "\\"), ('"', '"'), ("n", "\n"), ("r", "\r"), ("t", "\t")):
        value = value.replace(sign, "\\" + letter)
    return f'"{value}"'
