"""Shared by the commands: exit codes, output, texts to read, and the signals that stop a stream."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import IntEnum
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from skyband.errors import DashboardError, QueryError, SchemaError, SnapshotError, SourceError

if TYPE_CHECKING:
    from rich.console import Console

    from skyband.lang import Job
    from skyband.lang.statement import Statement


class ExitCode(IntEnum):
    """What the exit code of a command means."""

    OK = 0
    UNEXPECTED = 1  # please report it, with the output of --debug
    USAGE = 2  # the command, the query or the pipeline file is wrong
    DATA = 3  # a source or file cannot be read or written, or does not match the query
    STATE = 4  # a snapshot or checkpoint is damaged, or of another query
    ENVIRONMENT = 5  # Java, Spark or a library is missing, or a port is taken
    INTERRUPTED = 130  # by Ctrl-C


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code for an error.

    Examples
    --------
    >>> [int(exit_code(error)) for error in (QueryError(""), SourceError(""), ImportError(""), KeyError(""))]
    [2, 3, 5, 1]
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    file_error = isinstance(error, OSError) and error.filename is not None
    no_java = "PySparkRuntimeError" in names and "JAVA_GATEWAY" in str(error)
    if isinstance(error, QueryError):
        return ExitCode.USAGE
    if isinstance(error, SourceError | SchemaError) or file_error or "AnalysisException" in names:
        return ExitCode.DATA
    if isinstance(error, SnapshotError):
        return ExitCode.STATE
    if isinstance(error, ImportError | DashboardError) or no_java:
        return ExitCode.ENVIRONMENT
    return ExitCode.INTERRUPTED if isinstance(error, KeyboardInterrupt) else ExitCode.UNEXPECTED


# ---------------------------------------------------------------- output

_PIPE_WIDTH = 1_000  # columns: a pipe or a log has no width to fit into


def stdout_console() -> Console:
    """Return a console for stdout, so wide that no table is cut where there is no terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=_PIPE_WIDTH)


def to_text(value: Any) -> str:
    r"""Format a value as one line without control characters, which a terminal would interpret.

    Examples
    --------
    >>> to_text("a\nb\x1b[2J"), to_text(None), to_text(0.00125), to_text(54175.0)
    ('a\\nb\\x1b[2J', '', '0.00125', '54175.0')
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.replace(tzinfo=None)  # all times are UTC here
    text = "" if value is None else str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def to_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    r"""Format rows as aligned lines below their names, in full.

    Examples
    --------
    >>> print(*to_lines([{"rank": 1, "who": "ann"}, {"rank": 10, "who": "bob"}]), sep="\n")
    rank  who
       1  ann
      10  bob
    """
    if not rows:
        return
    names = list(rows[0])
    lines = [names, *([to_text(row.get(name)) for name in names] for row in rows)]
    right = [is_number(rows[0][name]) for name in names]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(line, widths, right, strict=True)
        yield "  ".join(cell.rjust(width) if flush else cell.ljust(width) for cell, width, flush in cells).rstrip()


def is_number(value: Any) -> bool:
    """Whether a value is aligned to the right."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_json(value: Any) -> str:
    """Format a value as one line of JSON: times as ISO 8601, NaN and infinity as null, other objects as strings.

    Examples
    --------
    >>> to_json({"at": datetime(2024, 1, 2), "score": math.nan})
    '{"at": "2024-01-02T00:00:00", "score": null}'
    """
    return json.dumps(_to_plain(value), allow_nan=False, ensure_ascii=False)


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _to_plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | str) else str(value)


# ---------------------------------------------------------------- queries and pipeline files

_LANGUAGES = {".sql": "sql", ".rq": "rspql", ".rspql": "rspql", ".sparql": "rspql", ".yaml": "yaml", ".yml": "yaml"}


@dataclass(frozen=True)
class Parsed:
    """The language of a text, its statements, and the job if it is a pipeline file."""

    language: str
    statements: tuple[Statement, ...]
    job: Job | None = None


def parse_text(text: str, language: str | None = None, functions: Mapping[str, str] | None = None) -> Parsed:
    """Parse a text, or the file that it names; errors have file, line and column.

    Examples
    --------
    >>> parse_text("{k: 3, by: price, window: 1 hour, time: ts}").statements[0].query.k
    3
    """
    from skyband.lang.parse import detect_language, parse_at
    from skyband.lang.pipeline_file import read_job
    from skyband.lang.text import Position
    from skyband.lang.yaml_node import read_yaml

    file, content = _read_text(text)
    by_suffix = _LANGUAGES.get(Path(file).suffix.lower()) if file else None
    language = language or by_suffix or detect_language(content)
    if language == "yaml":
        node = read_yaml(content, Position(file=file))
        if isinstance(node.value, dict) and ({"source", "sink"} & set(node.value)):
            job = read_job(node)
            return Parsed("pipeline", job.statements, job)
    options = {"functions": functions} if functions else {}
    return Parsed(language, (parse_at(content, language, Position(file=file), **options),))


def _read_text(text: str) -> tuple[str | None, str]:
    """Return the file name and content of a text: - is stdin, and what looks like a query is no file name."""
    if text == "-":
        return "stdin", sys.stdin.read()
    path = Path(text)
    is_file = "\n" not in text and path.suffix.lower() in _LANGUAGES
    if not is_file and (any(sign in text for sign in "\n{(:") or " " in text.strip()):
        return None, text
    try:
        return text, path.read_text(encoding="utf-8")
    except OSError as error:
        raise SourceError(
            f"{text!r} cannot be read: {error.strerror}; give a file, - for stdin, or the text in quotes"
        ) from None
    except UnicodeDecodeError:
        raise SourceError(f"{text!r} must be UTF-8: save it as UTF-8") from None


# ---------------------------------------------------------------- signals


@contextlib.contextmanager
def stop_event() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets; a second Ctrl-C interrupts as usual.

    Spark's own handler calls the JVM in the middle of another call, which breaks both.

    Examples
    --------
    >>> import os, signal
    >>> with stop_event() as stop:
    ...     os.kill(os.getpid(), signal.SIGTERM)
    ...     stop.wait(5)
    True
    """
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            signal.default_int_handler(number, frame)
        stop.set()

    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield stop
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
