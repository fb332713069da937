"""Which triples make a row: stars, that is, patterns around one subject."""

from __future__ import annotations

from dataclasses import dataclass


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
        """The name of the variable, or None."""
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
    """The ways in which a row can be made (more than one: UNION), and what its variables are.

    A row is made of triples with the same subject and the same timestamp.
    """

    stars: tuple[Star, ...]
    numbers: tuple[str, ...] = ()
    """Variables that the score takes for numbers; all others are texts."""
    time: str = "time"
    """What the column of the timestamps is called."""

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
