"""What a command is given to read: a file, `-` for what is piped in, or the text itself."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.errors import SourceError

if TYPE_CHECKING:
    from skyband.lang.job import Job
    from skyband.lang.statement import Statement

_ENDINGS = {".sql": "sql", ".rq": "rspql", ".rspql": "rspql", ".sparql": "rspql", ".yaml": "yaml", ".yml": "yaml"}


@dataclass(frozen=True)
class Given:
    """The language of a text, its statements, and the job if it is a pipeline file."""

    language: str
    statements: tuple[Statement, ...]
    job: Job | None = None


def given(text: str, language: str | None = None, functions: Mapping[str, str] | None = None) -> Given:
    """Read a text, or the file that it names; errors say file, line and column.

    Examples
    --------
    >>> given("{k: 3, by: price, window: 1 hour, time: ts}").statements[0].query.k
    3
    """
    from skyband.lang.parse import detect_language, parse_at
    from skyband.lang.pipeline_file import read_job
    from skyband.lang.position import Position
    from skyband.lang.yaml_node import read_yaml

    file, content = _content(text)
    named = _ENDINGS.get(Path(file).suffix.lower()) if file else None
    chosen = language or named or detect_language(content)
    if chosen == "yaml":
        node = read_yaml(content, Position(file=file))
        if isinstance(node.value, dict) and ({"source", "sink"} & set(node.value)):
            found = read_job(node)
            return Given("pipeline", found.statements, found)
    more = {"functions": functions} if functions else {}
    return Given(chosen, (parse_at(content, chosen, Position(file=file), **more),))


def _content(text: str) -> tuple[str | None, str]:
    if text == "-":
        return "stdin", sys.stdin.read()
    path = Path(text)
    named = "\n" not in text and path.suffix.lower() in _ENDINGS
    if not named and (any(sign in text for sign in "\n{(:") or " " in text.strip()):
        return None, text
    try:
        return text, path.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"{text!r} cannot be read: {error.strerror}; give a file, - for what is piped in, or the text in quotes"
        raise SourceError(msg) from None
    except UnicodeDecodeError:
        msg = f"{text!r} is no UTF-8 text: save it as UTF-8"
        raise SourceError(msg) from None
