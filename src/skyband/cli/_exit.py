"""What an exit code means.

::

    0    done
    1    something unforeseen: please report it, with what --debug shows
    2    the command, the query or the pipeline file is wrong
    3    the data is: a source or a file cannot be read or written, or does not fit the query
    4    the saved state is: of another query, or damaged
    5    the machine is: Java, Spark or a library is missing, or a port is taken
    130  interrupted by Ctrl-C
"""

from __future__ import annotations

from skyband.errors import DashboardError, QueryError, SchemaError, SnapshotError, SourceError

FINE, UNFORESEEN, ASKED, DATA, STATE, ENVIRONMENT, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


def code(error: BaseException) -> int:
    """The exit code for an error.

    Examples
    --------
    >>> code(QueryError("")), code(SourceError("")), code(ImportError("")), code(KeyError(""))
    (2, 3, 5, 1)
    """
    if isinstance(error, QueryError):
        return ASKED
    if isinstance(error, (SourceError, SchemaError)):
        return DATA
    if isinstance(error, SnapshotError):
        return STATE
    if isinstance(error, (ImportError, DashboardError)):
        return ENVIRONMENT
    if isinstance(error, OSError) and error.filename is not None:
        return DATA
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "AnalysisException" in kinds:  # Spark's: a path, a column or a format that is not there
        return DATA
    if "PySparkRuntimeError" in kinds and "JAVA_GATEWAY" in str(error):
        return ENVIRONMENT
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else UNFORESEEN
