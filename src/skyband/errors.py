"""What can go wrong, as a tree.

::

    SkybandError
    ├── QueryError      (ValueError)   a query that makes no sense: seen when it is built
    ├── SchemaError     (ValueError)   a query that does not fit its source: seen with the first batch
    ├── SourceError     (ValueError)   a source that cannot be read, or whose values cannot be used
    ├── SnapshotError   (ValueError)   a saved state that does not belong to this query
    └── TableError      (OSError)      a table outside that did not give what it was asked for

Every message names the field, the value and what to write instead. All of them are also the
builtin that Python itself would raise, so that code which knows nothing of skyband can catch them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class SkybandError(Exception):
    """Anything skyband itself raises.

    Examples
    --------
    >>> import skyband as sb
    >>> try:
    ...     sb.Sliding("1 minute", "10 minutes")
    ... except sb.SkybandError as error:
    ...     print(type(error).__name__)
    QueryError
    """


class QueryError(SkybandError, ValueError):
    """A query that makes no sense, whatever the data.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.Counting(0)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: size=0 is not a number of rows: write a whole number of at least 1
    """


class SchemaError(SkybandError, ValueError):
    """A query that does not fit the columns of its source.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.run(sb.TopK(k=1, by="pirce", window=sb.Counting(1)), {"price": [1]})
    Traceback (most recent call last):
        ...
    skyband.errors.SchemaError: by names column 'pirce', which the source does not have: did you mean price? ...
    """


class SourceError(SkybandError, ValueError):
    """A source that cannot be read, or whose values cannot be used.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.run(sb.TopK(k=1, by="x", window=sb.Counting(1)), "nowhere.parquet")
    Traceback (most recent call last):
        ...
    skyband.errors.SourceError: source='nowhere.parquet' does not exist: check the path
    """


class SnapshotError(SkybandError, ValueError):
    """A saved state that does not belong to this query or this version, or is damaged.

    Examples
    --------
    >>> import skyband as sb
    >>> issubclass(sb.SnapshotError, ValueError)
    True
    """


class TableError(SkybandError, OSError):
    """A table outside that did not give what it was asked for.

    `retry_after` has the seconds after which it may be asked again, where it said so; `rows` what had come
    before it failed.

    Examples
    --------
    >>> import skyband as sb
    >>> raise sb.TableError("the service is busy", retry_after=2.0)
    Traceback (most recent call last):
        ...
    skyband.errors.TableError: the service is busy
    """

    def __init__(self, message: str, retry_after: float | None = None, rows: Any = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.rows = rows


def nearest(name: str, known: Iterable[str]) -> str:
    """A phrase that lists the names in `known` most like `name`, or all of them.

    Examples
    --------
    >>> nearest("pirce", ["price", "volume", "ts"])
    'did you mean price? There are: price, volume, ts'
    """
    names = list(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    there = "there are: " + ", ".join(names) if names else "there are none"
    return f"did you mean {' or '.join(close)}? T{there[1:]}" if close else there
