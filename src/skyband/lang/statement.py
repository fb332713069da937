"""Statements: a query as a text puts it, with the stream that it reads and the columns that it wants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError, SchemaError, nearest
from skyband.lang.services import Remote, build_join
from skyband.query import Sliding
from skyband.query.points import Distance, Weighted
from skyband.query.validation import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from skyband.lang.triples import Pattern
    from skyband.query import TopK

NAMED_SERVICE = "have the name of its service to be written as text, as the statement of sb.parse has"


@dataclass(frozen=True)
class Statement:
    """A query as a text puts it; `sb.run`, `sb.stream` and `sb.explain` take it like a query.

    Parameters
    ----------
    query
        What to rank.
    source
        The name of the stream in the text: a table of SQL, a stream of RSP-QL.
    columns
        The columns of the answer that are wanted, and their names there; None: all, under their own names.
    pattern
        How triples become rows (RSP-QL only).
    remote
        The remote data that it joins, if any.
    window
        The name of the window in RSP-QL.

    Examples
    --------
    >>> import skyband as sb
    >>> statement = sb.parse("{k: 1, by: price, window: 1 minute, time: ts}")
    >>> statement.query == sb.TopK(k=1, by="price", window=sb.Tumbling("1 minute"), time="ts")
    True
    """

    query: TopK
    source: str = "stream"
    columns: tuple[tuple[str, str], ...] | None = None
    pattern: Pattern | None = None
    remote: Remote | None = None
    window: str | None = None

    def with_services(self, services: Mapping[str, Any]) -> Statement:
        """Return the statement with its join, if it has one: `services` says what names in the text stand for.

        Examples
        --------
        >>> import skyband as sb
        >>> from skyband.tables import Memory
        >>> text = "{k: 1, by: x + y, window: 1 minute, time: t, unit: s, join: {service: crm, on: u, columns: [y]}}"
        >>> statement = sb.parse(text).with_services({"crm": Memory({"u": [1, 2], "y": [5, 6]}, key="u")})
        >>> sb.run(statement, {"t": [0, 1], "u": [1, 2], "x": [3, 1]})["score"].to_pylist()
        [8.0]
        """
        if self.remote is None:
            return self
        return replace(self, query=replace(self.query, join=build_join(self.remote, services)))

    def rows(self, source: object) -> object:
        """Return a source of rows with the columns of the query for what a user passes as the source."""
        if self.remote is not None and self.query.join is None:
            name = self.remote.service
            how = f'sb.parse(text, services={{"{name}": ...}}), or add it under services: of a pipeline file'
            raise QueryError(
                f"SERVICE {name} must be among the services, which say what the name stands for: write {how}"
            )
        if self.pattern is None:
            return source
        from skyband.lang.rdf import bind

        return bind(self.pattern, source)

    def select(self, answers: pa.Table) -> pa.Table:
        """Return an answer with the wanted columns only."""
        if self.columns is None:
            return answers
        for name, _ in self.columns:
            if name not in answers.column_names:
                known = nearest(name, answers.schema.names)
                raise SchemaError(f"SELECT names column {name!r}, which the answer does not have: {known}")
        return answers.select([name for name, _ in self.columns]).rename_columns([alias for _, alias in self.columns])

    def check_writable(self, language: str, **only: Any) -> Sliding:
        """Return the window if the query can be written; `only` has fields with the one value they may have."""
        query = self.query
        if callable(query.by):
            raise invalid("by", f"be an expression to be written in {language}", query.by)
        if isinstance(query.by, Distance | Weighted):
            raise invalid("by", f"be an expression to be written in {language} (sb.to_yaml writes it)", query.by.text)
        window = query.window
        if not isinstance(window, Sliding) or window.kind == "row":
            raise invalid("window", f"slide in time to be written in {language} (sb.to_yaml writes it)", window)
        for field, value in {"emit": "answers", "prefix": "", "unit": None, "version": None, **only}.items():
            given = getattr(window if field == "closed" else query, field)
            if given != value:
                raise invalid(field, f"be {value!r} to be written in {language} (sb.to_yaml writes it)", given)
        return window
