"""Output that is whole wherever it goes: tables for terminals, lines for logs, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_WHOLE = 1_000  # columns: a pipe or a log has no width to fit into


def console() -> Console:
    """Stdout: as wide as the terminal; where there is none, so wide that no table is cut."""
    from rich.console import Console

    found = Console()
    return found if found.is_terminal else Console(width=_WHOLE)


def text(value: Any) -> str:
    r"""A value in one line of text, which no terminal takes for a command.

    Examples
    --------
    >>> text("a\nb\x1b[2J"), text(None), text(0.00125), text(54175.0)
    ('a\\nb\\x1b[2J', '', '0.00125', '54175.0')
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.replace(tzinfo=None)  # all times are UTC here
    said = "" if value is None else str(value)
    return said if said.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in said)


def lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    r"""Rows below their names, aligned, one line each, with nothing left out.

    Examples
    --------
    >>> print(*lines([{"rank": 1, "who": "ann"}, {"rank": 10, "who": "bob"}]), sep="\n")
    rank  who
       1  ann
      10  bob
    """
    if not rows:
        return
    names = list(rows[0])
    cells = [names, *([text(row.get(name)) for name in names] for row in rows)]
    right = [number(rows[0][name]) for name in names]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (
            cell.rjust(size) if flush else cell.ljust(size) for cell, size, flush in zip(line, wide, right, strict=True)
        )
        yield "  ".join(padded).rstrip()


def number(value: Any) -> bool:
    """Whether a value stands on the right of its column."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def as_json(value: Any) -> str:
    """A value as one line of JSON: times as ISO 8601, what JSON has no word for as null or text.

    Examples
    --------
    >>> as_json({"at": datetime(2024, 1, 2), "score": math.nan})
    '{"at": "2024-01-02T00:00:00", "score": null}'
    """
    return json.dumps(_plain(value), allow_nan=False, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | str) else str(value)
