"""Text with ${NAME} in it: filled from the environment when it is used, and shown as it was written."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from skyband.lang.place import Place

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>[^}:]*)(?::-(?P<default>[^}]*))?\})")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Late:
    """A text whose variables are known only when it is used, so that no secret is ever printed or compared.

    `${NAME}` is the environment variable NAME, `${NAME:-text}` has a default, `$$` is a dollar.

    Examples
    --------
    >>> url = Late("redis://:${PASSWORD}@localhost")
    >>> url
    Late('redis://:${PASSWORD}@localhost')
    >>> url.get({"PASSWORD": "secret"})
    'redis://:secret@localhost'
    """

    text: str
    place: Place | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for found in _VARIABLE.finditer(self.text):
            name = found["name"]
            if name is not None and not _NAME.fullmatch(name):
                place = self.place or Place(1, found.start() + 1)
                msg = f"{found[0]} names no environment variable: write one such as ${{PASSWORD}}, or $$ for a dollar"
                raise place.error(msg)

    def __repr__(self) -> str:
        return f"Late({self.text!r})"

    def __str__(self) -> str:
        return self.text

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables that it uses."""
        return tuple(m["name"] for m in _VARIABLE.finditer(self.text) if m["name"] is not None)

    @property
    def needed(self) -> tuple[str, ...]:
        """Those of them that have no default."""
        found = _VARIABLE.finditer(self.text)
        return tuple(m["name"] for m in found if m["name"] is not None and m["default"] is None)

    def get(self, environ: Mapping[str, str] | None = None) -> str:
        """The text with its variables filled in, from `environ` (default: that of this process)."""
        known = os.environ if environ is None else environ

        def value(found: re.Match[str]) -> str:
            name, default = found["name"], found["default"]
            if name is None:
                return "$"
            if default is not None:
                return known.get(name) or default
            if name not in known:
                msg = f"the environment variable {name} is not set: set it, or write ${{{name}:-a default}}"
                raise (self.place or Place(1, found.start() + 1)).error(msg)
            return known[name]

        return _VARIABLE.sub(value, self.text)


def texts(value: Any) -> list[Late]:
    """Every such text in a value made of dataclasses and tuples.

    Examples
    --------
    >>> texts((("password", Late("${PW}")), "plain"))
    [Late('${PW}')]
    """
    if isinstance(value, Late):
        return [value]
    if isinstance(value, tuple):
        return [text for one in value for text in texts(one)]
    if is_dataclass(value):
        return [text for field in fields(value) for text in texts(getattr(value, field.name))]
    return []


Options = tuple[tuple[str, Late], ...]
"""Settings by name, in the order they were written."""


def filled(options: Options, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Settings with their variables filled in, as Spark's `.options(**...)` takes them.

    Examples
    --------
    >>> filled((("rowsPerSecond", Late("${RATE:-5}")),), {})
    {'rowsPerSecond': '5'}
    """
    return {name: value.get(environ) for name, value in options}
