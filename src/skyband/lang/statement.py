"""What a text asks: the query, the stream it is asked of, and what of the answer is wanted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError, SchemaError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from skyband.lang.pattern import Pattern
    from skyband.query import TopK


@dataclass(frozen=True)
class Remote:
    """A join with data elsewhere, as a text describes it: which service, by which column, for which columns.

    `service` is a name. What it stands for is said by the configuration, never by the text.
    """

    service: str
    on: str
    columns: tuple[str, ...]
    properties: tuple[tuple[str, str], ...] = ()
    """What a column is called there: the IRI of a property. Empty: as it is called here."""
    options: tuple[tuple[str, Any], ...] = ()
    """How the join is done, such as its budget: keywords of `sb.Join`."""

    def sparql(self) -> str:
        """The question to a SPARQL endpoint, before it is narrowed to the rows at hand.

        Examples
        --------
        >>> Remote("BKG", "user", ("followers",), (("followers", "urn:hasFollowers"),)).sparql()
        'SELECT ?user ?followers WHERE { ?user <urn:hasFollowers> ?followers . }'
        """
        names = " ".join(f"?{name}" for name in (self.on, *self.columns))
        triples = " ".join(f"?{self.on} <{iri}> ?{name} ." for name, iri in self.properties)
        return f"SELECT {names} WHERE {{ {triples} }}"


@dataclass(frozen=True)
class Statement:
    """A query as a text puts it; `sb.run`, `sb.stream` and `sb.explain` take it like a query.

    Parameters
    ----------
    query
        What to rank.
    source
        What the text calls the stream: a table of SQL, a stream of RSP-QL.
    columns
        Which columns of the answer are wanted, and their names there; None: all, under their own names.
    pattern
        How triples become rows (RSP-QL only).
    remote
        The data elsewhere that it joins, if any.
    window
        What RSP-QL calls the window.

    Examples
    --------
    >>> import skyband as sb
    >>> asked = sb.parse("{k: 1, by: price, window: 1 minute, time: ts}")
    >>> asked.query == sb.TopK(k=1, by="price", window=sb.Tumbling("1 minute"), time="ts")
    True
    """

    query: TopK
    source: str = "stream"
    columns: tuple[tuple[str, str], ...] | None = None
    pattern: Pattern | None = None
    remote: Remote | None = None
    window: str | None = None

    def with_services(self, services: Mapping[str, Any]) -> Statement:
        """The same with its join, if it has one: `services` says what the name in the text stands for.

        Examples
        --------
        >>> import skyband as sb
        >>> from skyband.tables import Memory
        >>> text = "{k: 1, by: x + y, window: 1 minute, time: t, unit: s, join: {service: crm, on: u, columns: [y]}}"
        >>> asked = sb.parse(text).with_services({"crm": Memory({"u": [1, 2], "y": [5, 6]}, key="u")})
        >>> sb.run(asked, {"t": [0, 1], "u": [1, 2], "x": [3, 1]})["score"].to_pylist()
        [8.0]
        """
        if self.remote is None:
            return self
        from skyband.lang.services import joined

        return replace(self, query=replace(self.query, join=joined(self.remote, services)))

    def rows(self, source: object) -> object:
        """What a user gives as the source, as something with the columns of the query."""
        if self.remote is not None and self.query.join is None:
            name = self.remote.service
            how = f'with sb.parse(text, services={{"{name}": ...}}), or under services: of a pipeline file'
            msg = f"SERVICE {name} is a name, which only the configuration explains: say what it stands for {how}"
            raise QueryError(msg)
        if self.pattern is None:
            return source
        from skyband.lang.rdf import bound

        return bound(self.pattern, source)

    def shaped(self, answers: pa.Table) -> pa.Table:
        """An answer with the wanted columns only."""
        if self.columns is None:
            return answers
        for name, _ in self.columns:
            if name not in answers.column_names:
                there = nearest(name, answers.schema.names)
                msg = f"SELECT names column {name!r}, which the answer does not have: {there}"
                raise SchemaError(msg)
        picked = answers.select([name for name, _ in self.columns])
        return picked.rename_columns([shown for _, shown in self.columns])
