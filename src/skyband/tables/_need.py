"""Libraries that only some tables need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from skyband.errors import TableError


def need(module: str, extra: str) -> Any:
    """The module, or an error that says what to install.

    Examples
    --------
    >>> need("no_such_module", "remote")
    Traceback (most recent call last):
        ...
    skyband.errors.TableError: no_such_module is not installed: pip install "skyband[remote]"
    """
    try:
        return import_module(module)
    except ImportError as error:
        msg = f'{module.partition(".")[0]} is not installed: pip install "skyband[{extra}]"'
        raise TableError(msg) from error
