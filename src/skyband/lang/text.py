"""Texts of queries and pipeline files: positions in them, which errors name, and environment variables."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from skyband.errors import ParseError, QueryError

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>[^}:]*)(?::-(?P<default>[^}]*))?\})")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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


# ---------------------------------------------------------------- environment variables


@dataclass(frozen=True)
class EnvTemplate:
    """A text whose variables are filled in when it is used, so that no secret is ever printed or compared.

    `${NAME}` is the environment variable NAME, `${NAME:-text}` has a default, `$$` is a dollar.

    Examples
    --------
    >>> url = EnvTemplate("redis://:${PASSWORD}@localhost")
    >>> url
    EnvTemplate('redis://:${PASSWORD}@localhost')
    >>> url.get({"PASSWORD": "secret"})
    'redis://:secret@localhost'
    """

    text: str
    position: Position | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for found in _VARIABLE.finditer(self.text):
            if found["name"] is not None and not _NAME.fullmatch(found["name"]):
                msg = f"{found[0]} must name an environment variable: write ${{PASSWORD}}, or $$ for a dollar"
                raise self._error(found, msg)

    def _error(self, found: re.Match[str], message: str) -> Exception:
        return (self.position or Position().at(self.text, found.start())).error(message)

    def __repr__(self) -> str:
        return f"EnvTemplate({self.text!r})"

    def __str__(self) -> str:
        return self.text

    @property
    def variables(self) -> dict[str, str | None]:
        """The names of its variables and their defaults; None where one is needed."""
        return _merge((found["name"], found["default"]) for found in _VARIABLE.finditer(self.text) if found["name"])

    def get(self, environ: Mapping[str, str] | None = None) -> str:
        """Return the text with its variables filled in from `environ` (default: that of this process)."""
        known = os.environ if environ is None else environ

        def value(found: re.Match[str]) -> str:
            name, default = found["name"], found["default"]
            if name is None:
                return "$"
            if default is not None:
                return known.get(name) or default
            if name not in known:
                msg = f"the environment variable {name} must be set: set it, or write ${{{name}:-a default}}"
                raise self._error(found, msg)
            return known[name]

        return _VARIABLE.sub(value, self.text)


Settings = tuple[tuple[str, EnvTemplate], ...]
"""Settings by name, in the order they were written."""


def fill_settings(settings: Settings, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Fill in the variables of settings, as Spark's `.options(**...)` takes them.

    Examples
    --------
    >>> fill_settings((("rowsPerSecond", EnvTemplate("${RATE:-5}")),), {})
    {'rowsPerSecond': '5'}
    """
    return {name: value.get(environ) for name, value in settings}


def variables_in(value: Any) -> dict[str, str | None]:
    """Return the variables in a value made of dataclasses and tuples, and their defaults.

    Examples
    --------
    >>> variables_in((("password", EnvTemplate("${PW}")), "plain"))
    {'PW': None}
    """
    if isinstance(value, EnvTemplate):
        return value.variables
    inner = value if isinstance(value, tuple) else ()
    if is_dataclass(value):
        inner = tuple(getattr(value, one.name) for one in fields(value))
    return _merge(pair for one in inner for pair in variables_in(one).items())


def _merge(variables: Iterable[tuple[str, str | None]]) -> dict[str, str | None]:
    """A variable that has no default somewhere is needed."""
    found: dict[str, str | None] = {}
    for name, default in variables:
        found[name] = None if default is None else found.get(name, default)
    return found
