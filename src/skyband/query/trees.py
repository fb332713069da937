"""SQL texts as sqlglot's trees, without a word on the log: what is wrong with a text is said by our own errors."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

DIALECT = "spark"  # of those that sqlglot knows, the nearest: back-quoted names, and scores run on Spark too
_READING: ContextVar[bool] = ContextVar("reading", default=False)


def parsed(text: str) -> list[Expr | None]:
    """The statements or expressions in `text`, or sqlglot's own error.

    Examples
    --------
    >>> [tree.sql() for tree in parsed("a + b; c")]
    ['a + b', 'c']
    """
    import sqlglot  # slow to import, and only a query needs it

    log = logging.getLogger("sqlglot")
    if _silent not in log.filters:
        log.addFilter(_silent)
    token = _READING.set(True)
    try:
        return sqlglot.parse(text, read=DIALECT)
    finally:
        _READING.reset(token)


def _silent(record: logging.LogRecord) -> bool:
    """Whether it may be logged: what others ask of sqlglot may, what we ask may not."""
    del record
    return not _READING.get()
