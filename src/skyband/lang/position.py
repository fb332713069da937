"""Positions in a text, which errors name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from skyband.errors import ParseError, QueryError


@dataclass(frozen=True)
class Position:
    """A line and a column, both counted from 1, of a file or of a text without a name.

    Examples
    --------
    >>> str(Position(4, 9, "pipeline.yaml")), str(Position(4, 9))
    ('pipeline.yaml:4:9', 'line 4, column 9')
    """

    line: int = 1
    column: int = 1
    file: str | None = None

    def __str__(self) -> str:
        if self.file is None:
            return f"line {self.line}, column {self.column}"
        return f"{self.file}:{self.line}:{self.column}"

    def error(self, message: object) -> ParseError:
        """Return the error to raise for what is at this position."""
        return ParseError(f"{self}: {message}", self.line, self.column)

    def within(self, line: int, column: int) -> Position:
        """Return a position of a text that itself begins here, each of its lines indented like the first."""
        return Position(self.line + line - 1, self.column + column - 1, self.file)

    def at(self, text: str, offset: int) -> Position:
        r"""Return the position of the character at `offset` of a text that begins here.

        Examples
        --------
        >>> Position().at("ab\ncd", 4)
        Position(line=2, column=2, file=None)
        """
        before = text[:offset]
        return self.within(before.count("\n") + 1, offset - before.rfind("\n"))


@contextmanager
def errors_at(locate: Callable[[QueryError], ParseError]) -> Iterator[None]:
    """Give errors of queries a position: `locate` returns the error to raise instead.

    Examples
    --------
    >>> with errors_at(Position(2, 3).error):
    ...     raise QueryError("k must be positive")
    Traceback (most recent call last):
        ...
    skyband.errors.ParseError: line 2, column 3: k must be positive
    """
    try:
        yield
    except ParseError:
        raise
    except QueryError as error:
        raise locate(error) from None
