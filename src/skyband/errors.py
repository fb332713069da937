"""What can go wrong, as a tree.

::

    SkybandError
    ├── QueryError      (ValueError)   a query that makes no sense: seen when it is built
    │   └── ParseError                 a text that cannot be read as a query or a pipeline: with line and column
    ├── SchemaError     (ValueError)   a query that does not fit its source: seen with the first batch
    ├── SourceError     (ValueError)   a source that cannot be read, or whose values cannot be used
    ├── SnapshotError   (ValueError)   a saved state that does not belong to this query
    ├── SinkError       (ValueError)   a place for answers that cannot take them
    ├── TableError      (OSError)      a table outside that did not give what it was asked for
    ├── ClosedError     (ValueError)   a view that was used after it was closed
    ├── DashboardError  (ValueError)   a dashboard that cannot be opened, or cannot show what it is given
    └── MissingLibraryError (ImportError)  a library that only some features need is not installed

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
    skyband.errors.QueryError: size must be an integer from 1 to 1,000,000,000, got 0
    """


class ParseError(QueryError):
    r"""A text that is no query, or none that is supported; `line` and `column` say where, from 1 on.

    Examples
    --------
    >>> import skyband as sb
    >>> sb.parse("k: 3\nby: price\nwidow: 1 hour")
    Traceback (most recent call last):
        ...
    skyband.errors.ParseError: line 3, column 1: widow is unknown: did you mean window ...
    """

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


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


class SinkError(SkybandError, ValueError):
    """A place for answers that cannot take them.

    Examples
    --------
    >>> import skyband as sb
    >>> issubclass(sb.SinkError, sb.SkybandError)
    True
    """


class DashboardError(SkybandError, ValueError):
    """A dashboard that cannot be opened, or cannot show what it is given.

    Examples
    --------
    >>> from skyband.dashboard import Dashboard, Hub
    >>> Dashboard(Hub(), host="0.0.0.0")
    Traceback (most recent call last):
        ...
    skyband.errors.DashboardError: host='0.0.0.0' can be reached by others, so it needs token= and tls=: give both, ...
    """


class ClosedError(SkybandError, ValueError):
    """A view that was used after it was closed, as with a closed file.

    Examples
    --------
    >>> import numpy as np
    >>> import skyband as sb
    >>> view = sb.View(sb.tables.ArrayTable(np.array([5.0, 9.0])), k=1, by="value")
    >>> view.close()
    >>> view.read()
    Traceback (most recent call last):
        ...
    skyband.errors.ClosedError: this view is closed: ...
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


class MissingLibraryError(SkybandError, ImportError):
    """A library that only some features need is not installed; the message says what to install.

    Examples
    --------
    >>> raise MissingLibraryError.of("sb.spark.top_k", "pyspark")
    Traceback (most recent call last):
        ...
    skyband.errors.MissingLibraryError: sb.spark.top_k needs pyspark, which is not installed: pip install ...
    """

    @classmethod
    def of(cls, feature: str, module: str | None) -> MissingLibraryError:
        """The error for a feature whose import of `module` failed."""
        library = str(module).partition(".")[0]
        install = f'"skyband[{_EXTRAS[library]}]"' if library in _EXTRAS else library
        return cls(f"{feature} needs {library}, which is not installed: pip install {install}", name=library)


_EXTRAS = {  # of each library that is no dependency, the extra that brings it
    "pyspark": "spark", "pandas": "spark", "google": "spark", "grpc": "spark",
    "polars": "polars", "duckdb": "duckdb",
    "sqlalchemy": "sql", "psycopg": "sql", "duckdb_engine": "sql",
    "httpx": "remote", "redis": "remote", "paho": "remote",
    "lark": "lang", "rdflib": "lang",
    "fastapi": "dashboard", "uvicorn": "dashboard",
    "matplotlib": "plot",
}  # fmt: skip


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


def not_utf8(text: object) -> bool:
    r"""Whether a text, such as the name of a file, holds bytes that are not UTF-8 (Python reads them as surrogates).

    Examples
    --------
    >>> not_utf8("Größe.csv"), not_utf8("\udcff.csv")
    (False, True)
    """
    try:
        str(text).encode()
    except UnicodeEncodeError:
        return True
    return False
