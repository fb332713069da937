"""What a text can say of a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyband.errors import QueryError
from skyband.query import Sliding, TopK
from skyband.query.points import Distance, Weighted

NO_SERVICE = "since it does not know what its service is called: give the statement of sb.parse, or leave it out"


def check_said(query: TopK, language: str, more: Mapping[str, Any] | None = None) -> Sliding:
    """Refuse what neither SQL nor RSP-QL can say, and `more`: fields with the only value they may have."""
    if callable(query.by):
        msg = f"by is a Python function, which cannot stand in {language}: write an expression"
        raise QueryError(msg)
    if isinstance(query.by, (Distance, Weighted)):
        msg = f"by={query.by.text} cannot be said in {language}: use sb.to_yaml, or write an expression"
        raise QueryError(msg)
    if not isinstance(query.window, Sliding) or query.window.kind == "row":
        msg = f"window={query.window!r} has no form in {language}, whose windows slide in time: use sb.to_yaml"
        raise QueryError(msg)
    usual = {"emit": "answers", "prefix": "", "unit": None, "version": None, "of": (), **(more or {})}
    for field, value in usual.items():
        if getattr(query, field) != value:
            msg = f"{field}={getattr(query, field)!r} cannot be said in {language}: leave it out, or use sb.to_yaml"
            raise QueryError(msg)
    return query.window
