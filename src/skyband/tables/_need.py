"""Libraries that only some tables need."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from skyband.errors import MissingLibraryError, TableError
from skyband.redaction import redact


def need(module: str) -> Any:
    """The module, or an error that says what to install.

    Examples
    --------
    >>> need("no_such_module")
    Traceback (most recent call last):
        ...
    skyband.errors.TableError: this table needs no_such_module, which is not installed: pip install no_such_module
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise TableError(str(MissingLibraryError.of("this table", module))) from error


def shown(text: str) -> str:
    """A message without secrets, and of addresses in it without what stands behind `?`.

    Examples
    --------
    >>> shown("redis://:secret@localhost:6379/0 failed, as did https://u:p@e.org/users?token=abc")
    'redis://***@localhost:6379/0 failed, as did https://***@e.org/users?...'
    """
    return _QUERY.sub(r"\1?...", redact(text))


_QUERY = re.compile(r"(://[^\s?'\"]*)\?[^\s'\"]*")
