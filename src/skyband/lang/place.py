"""Where in a text something stands, so that an error can point at it."""

from __future__ import annotations

from dataclasses import dataclass

from skyband.errors import ParseError


@dataclass(frozen=True)
class Place:
    """A line and a column, both from 1 on, of a file or of a text without a name.

    Examples
    --------
    >>> str(Place(4, 9, "pipeline.yaml")), str(Place(4, 9))
    ('pipeline.yaml:4:9', 'line 4, column 9')
    """

    line: int
    column: int
    file: str | None = None

    def __str__(self) -> str:
        if self.file is None:
            return f"line {self.line}, column {self.column}"
        return f"{self.file}:{self.line}:{self.column}"

    def error(self, message: str) -> ParseError:
        """The error to raise for what stands here."""
        return ParseError(f"{self}: {message}", self.line, self.column)

    def within(self, line: int, column: int) -> Place:
        """A place of a text that itself begins here, each of its lines indented as the first."""
        return Place(self.line + line - 1, self.column + column - 1, self.file)

    @classmethod
    def of(cls, text: str, offset: int, file: str | None = None) -> Place:
        r"""The place of the character at `offset`.

        Examples
        --------
        >>> Place.of("ab\ncd", 4)
        Place(line=2, column=2, file=None)
        """
        before = text[:offset]
        return cls(before.count("\n") + 1, offset - before.rfind("\n"), file)
