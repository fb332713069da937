"""What a view is made of, checked field by field, so that what is wrong is told before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from skyband.errors import QueryError, SchemaError
from skyband.query.expression import Expression, parse
from skyband.query.validation import check_integer

MOST = 1 << 26  # rows of a view
_OURS = ("rank", "score", "step", "complete", "_change_type", "_version")
_ASKED = ("key", "ranked", "position", "since")


def whole_number(field: str, value: object, least: int = 1) -> int:
    """A number of rows.

    Examples
    --------
    >>> whole_number("k", 0)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: k must be an integer from 1 to 67,108,864, got 0
    """
    return check_integer(field, value, least, MOST)


def truth(field: str, value: object) -> bool:
    """Yes or no."""
    if not isinstance(value, bool | np.bool_):
        msg = f"{field}={value!r} is neither yes nor no: write True or False"
        raise QueryError(msg)
    return bool(value)


def scored(by: object) -> Expression:
    """What makes a row good."""
    if isinstance(by, str):
        return parse(by)
    if not isinstance(by, Expression) or by.tree[0] == "total":
        msg = f'by={by!r} cannot be asked of a table: write an expression over its columns, such as "price / earnings"'
        raise QueryError(msg)
    return by


def base(table: Any) -> Any:
    """Something that a view can stand on."""
    if isinstance(table, type) or not all(hasattr(table, name) for name in _ASKED):
        msg = (
            f"table={str(table)[:60]!r} is no table of a database: write "
            f'sb.tables.open_table("sqlite:///shop.db", "stock", key="id")'
        )
        raise QueryError(msg)
    return table


def other_columns(columns: Any, key: str) -> tuple[str, ...]:
    """Columns to keep beside the key, each once, none named like one of ours.

    Examples
    --------
    >>> other_columns("note", "id"), other_columns(["id", "note"], "id")
    (('note',), ('note',))
    """
    names = [columns] if isinstance(columns, str) else list(columns) if isinstance(columns, Iterable) else [columns]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        msg = f"columns={columns!r} is no list of distinct column names: name each column once"
        raise QueryError(msg)
    for field, name in [("key", key), *(("columns", name) for name in names)]:
        if name in _OURS:
            msg = (
                f"{field} names column {name!r}, which is also the name of one of ours: let a view of the database "
                f"(CREATE VIEW) give it another name"
            )
            raise SchemaError(msg)
    return tuple(name for name in names if name != key)
