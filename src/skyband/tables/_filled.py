"""Addresses with ${NAME} in them: filled from the environment of the process that uses them, never before."""

from __future__ import annotations

import os
import re

from skyband.errors import TableError

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\})")


def filled(text: str) -> str:
    """The text with `${NAME}` and `${NAME:-default}` filled in; `$$` is a dollar.

    So a table can travel, be printed and be saved, and the secret in its address cannot.

    Examples
    --------
    >>> filled("redis://:${NO_SUCH_NAME:-secret}@localhost")
    'redis://:secret@localhost'
    """

    def value(found: re.Match[str]) -> str:
        name, default = found["name"], found["default"]
        if name is None:
            return "$"
        known = os.environ.get(name) or default
        if known is None:
            msg = f"the environment variable {name} is not set where the table is asked: set it on every executor"
            raise TableError(msg)
        return known

    return _VARIABLE.sub(value, text)
