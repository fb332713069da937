"""Streams of RDF: triples with a time, from N-Quads, from chunks of Turtle or from a table, as rows that fit a pattern.

Matching works on columns: a pattern picks triples, and the picked ones are joined on subject and event.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import MissingLibraryError, SourceError
from skyband.lang.triples import HOME, Pattern, Star, Term, escape, unescape
from skyband.query.duration import parse_instant
from skyband.runtime.source import as_table, open_source

PROV = "http://www.w3.org/ns/prov#generatedAtTime"
"""The predicate that gives the time of a graph of N-Quads."""

TRIPLE = ("subject", "predicate", "object")
_LITERAL = r'^"((?:[^"\\]|\\.)*)"(?:\^\^<[^>]*>|@[A-Za-z0-9-]+)?$'
_NUMERAL = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_QUADS = (".nq", ".nquads")
_MOMENT = pa.timestamp("us", "UTC")
_IRI = r"<[^<>\"{}|^`\\\x00-\x20]*>"
_LINE = (
    rf"^\s*(?P<subject>{_IRI}|_:\S+)\s*(?P<predicate>{_IRI})\s*"
    rf'(?P<object>{_IRI}|_:\S+|"(?:[^"\\]|\\.)*"(?:\^\^{_IRI}|@[A-Za-z]+(?:-[A-Za-z0-9]+)*)?)\s*'
    rf"(?P<graph>{_IRI}|_:\S+)?\s*\.\s*(?:#.*)?$"
)


def bind(pattern: Pattern, source: object) -> object:
    """Return a source of rows for what a user passes: triples are matched, rows stay as they are.

    Examples
    --------
    >>> from datetime import datetime
    >>> import skyband as sb
    >>> statement = sb.parse('''SELECT ?user FROM NAMED WINDOW :W ON :S [RANGE 1m STEP 1m]
    ...     WHERE { WINDOW :W { ?user :likes ?n } } ORDER BY DESC(?n) LIMIT 1''')
    >>> chunks = [(datetime(2024, 1, 1, 12, 0, 30), ":ann :likes 3 . :bob :likes 5 .")]
    >>> sb.run(statement, chunks).select(["rank", "user"]).to_pylist()
    [{'rank': 1, 'user': 'urn:skyband:bob'}]
    """
    if isinstance(source, (str, Path)) and Path(source).suffix.lower() in _QUADS:
        return match_rows(pattern, read_nquads(Path(source)))
    if isinstance(source, (str, Path)) and Path(source).suffix.lower() in (".ttl", ".nt", ".rdf", ".trig"):
        raise SourceError(
            f"source must have times, got {str(source)!r}: use N-Quads (.nq), or pairs of a time and a Turtle text"
        )
    if isinstance(source, Iterator) or (isinstance(source, (list, tuple)) and not hasattr(source, "schema")):
        return (_batch(pattern, item) for item in source)
    opened = open_source(source)
    if not opened.finite or opened.schema is None:
        return (_batch(pattern, item) for item in source)  # type: ignore[attr-defined]
    if not set(TRIPLE) <= set(opened.schema.names):
        return source
    parts = [part for part, _ in opened.batches()]
    return match_rows(pattern, as_events(pattern, pa.concat_tables(parts) if parts else opened.schema.empty_table()))


def _batch(pattern: Pattern, item: Any) -> Any:
    """Read an item of a stream: (time, Turtle), a batch of triples or rows, or such a batch with its watermark."""
    if isinstance(item, tuple) and len(item) == 2 and not _is_batch(item[0]):
        return match_rows(pattern, read_turtle(item[0], item[1]))
    table, mark = (as_table(item[0]), item[1:]) if isinstance(item, tuple) else (as_table(item), ())
    if set(TRIPLE) <= set(table.column_names):
        table = match_rows(pattern, as_events(pattern, table))
    return (table, *mark) if mark else table


def _is_batch(value: Any) -> bool:
    return hasattr(value, "keys") or hasattr(value, "__arrow_c_stream__") or hasattr(value, "column_names")


def as_events(pattern: Pattern, table: pa.Table) -> pa.Table:
    """Return a table of triples as events: triples of the same time belong together."""
    if pattern.time not in table.column_names:
        known = ", ".join(table.column_names)
        raise SourceError(f'triples must have a column {pattern.time!r}, got {known}: write sb.parse(text, time="...")')
    time = table[pattern.time]
    return pa.table({**{name: table[name] for name in TRIPLE}, "event": time, "time": time})


def read_turtle(time: Any, text: Any) -> pa.Table:
    """Read the triples of a Turtle text (or of an rdflib graph), all at one time."""
    try:
        from rdflib import Graph, Literal, URIRef
    except ImportError as error:
        raise MissingLibraryError.of("Turtle", "rdflib") from error

    if isinstance(text, bytes):
        text = text.decode("utf-8")
    graph = text
    if isinstance(text, str):
        graph = Graph()
        try:
            graph.parse(data=f"@prefix : <{HOME}> . {text}", format="turtle")
        except Exception as error:
            why = " ".join(str(error).split())[:200]
            raise SourceError(f"the chunk at {time} must be Turtle: {why}") from error

    def write(term: Any) -> str:
        if isinstance(term, Literal):
            kind = f"@{term.language}" if term.language else f"^^<{term.datatype}>" if term.datatype else ""
            return escape(str(term)) + kind
        return f"<{term}>" if isinstance(term, URIRef) else f"_:{term}"

    found = sorted(tuple(write(term) for term in triple) for triple in graph)
    columns = {name: pa.array([t[at] for t in found], pa.string()) for at, name in enumerate(TRIPLE)}
    micros = pa.array([parse_instant(time, "time")] * len(found), pa.int64())
    return pa.table({**columns, "event": micros, "time": micros.cast(_MOMENT)})


def read_nquads(path: Path) -> pa.Table:
    """Read the triples of an N-Quads file; prov:generatedAtTime in the default graph has the time of each graph."""
    try:
        lines = pa.array(path.read_text(encoding="utf-8").split("\n"), pa.string())
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"source={str(path)!r} cannot be read: {error}") from None
    number = pa.array(np.arange(1, len(lines) + 1))
    used = pc.invert(pc.match_substring_regex(lines, r"^\s*(#.*)?$"))
    lines, number = lines.filter(used), number.filter(used)
    found = pc.extract_regex(lines, _LINE)
    if found.null_count:
        at = pc.index(pc.is_null(found), value=True).as_py()
        raise SourceError(
            f"{path.name}:{number[at]}: this must be an N-Quad: write <subject> <predicate> <object> <graph> ."
        )
    table = pa.Table.from_struct_array(found) if len(found) else pa.table({n: [] for n in (*TRIPLE, "graph")})
    table = table.append_column("line", number)
    for name in (*TRIPLE, "graph"):
        table = table.set_column(table.column_names.index(name), name, _decode(table[name].cast(pa.string())))
    here = pc.not_equal(table["graph"], "")
    times = table.filter(pc.and_(pc.invert(here), pc.equal(table["predicate"], f"<{PROV}>")))
    triples = table.filter(here)
    where = pc.index_in(triples["graph"], value_set=times["subject"].combine_chunks())
    if where.null_count:
        at = pc.index(pc.is_null(where), value=True).as_py()
        graph, line = triples["graph"][at], triples["line"][at]
        raise SourceError(
            f'{path.name}:{line}: graph {graph} must have a time: add {graph} <{PROV}> "2024-01-01T00:00:00Z" .'
        )
    moments = _moments(times["object"], path.name).take(where)
    return pa.table({**{name: triples[name] for name in TRIPLE}, "event": triples["graph"], "time": moments})


def _decode(column: pa.ChunkedArray) -> pa.ChunkedArray:
    r"""Return texts without \u escapes."""
    if not pc.any(pc.match_substring_regex(column, r"\\u|\\U")).as_py():
        return column

    def plain(text: str) -> str:
        return re.sub(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})", lambda m: chr(int(m[1] or m[2], 16)), text)

    return pa.chunked_array([pa.array([plain(text) for text in column.to_pylist()], pa.string())])


def _moments(column: pa.ChunkedArray, file: str) -> pa.ChunkedArray:
    """Return literals of xsd:dateTime as times; without a zone they are UTC."""
    found = pc.replace_substring_regex(column, r'^"([^"]*)".*$', r"\1")
    zoned = pc.match_substring_regex(found, r"(Z|[+-]\d\d:\d\d)$")
    found = pc.if_else(zoned, found, pc.binary_join_element_wise(found, "Z", ""))
    try:
        return found.cast(_MOMENT)
    except pa.ArrowInvalid as error:
        raise SourceError(f'{file}: {error}: write a time such as "2024-01-01T00:00:00Z"') from None


# ---------------------------------------------------------------- rows that fit a pattern


def match_rows(pattern: Pattern, triples: pa.Table) -> pa.Table:
    """Return the rows that `triples` (subject, predicate, object, event, time) make, by their first triples.

    Cost: O(t) for t triples and each pattern, and a sort of the rows.

    Examples
    --------
    >>> star = Star(Term("?user"), ((Term("<urn:likes>"), Term("?n")),))
    >>> triples = {"subject": ["<urn:a>"], "predicate": ["<urn:likes>"], "object": ['"3"'], "event": [0], "time": [7]}
    >>> match_rows(Pattern((star,), numbers=("n",)), pa.table(triples)).to_pylist()
    [{'user': 'urn:a', 'n': 3.0, 'time': 7}]
    """
    columns = {name: triples[name] for name in ("subject", "predicate", "object")}
    table = pa.table({"key": _keys(triples), **columns, "n": pa.array(np.arange(triples.num_rows))})
    found = pa.concat_tables([_columns(pattern, _match_star(star, table)) for star in pattern.stars])
    if len(pattern.stars) > 1:
        found = found.take(pc.sort_indices(found, sort_keys=[("#", "ascending")]))
    values = {name: _value(found[f"?{name}"], number=name in pattern.numbers) for name in pattern.variables}
    return pa.table({**values, pattern.time: triples["time"].take(found["#"])})


def _keys(triples: pa.Table) -> pa.ChunkedArray:
    """Number the pairs of subject and event."""
    subject, event = (triples[name].combine_chunks().dictionary_encode() for name in ("subject", "event"))
    many = max(1, len(event.dictionary))
    return pc.add(pc.multiply(subject.indices.cast(pa.int64()), many), event.indices.cast(pa.int64()))


def _match_star(star: Star, table: pa.Table) -> pa.Table:
    """Return a column ?name for each variable; #0 is the first triple of a row, further # are those of the rest."""
    if star.subject.variable is None:
        table = table.filter(_equals(table["subject"], star.subject))
    found = _match_group(star.needed, table, "#", star.subject.variable)
    for at, group in enumerate(star.optional):
        found = _join(found, _match_group(group, table, f"#{at}/"), "left outer")
    return found.sort_by([(name, "ascending") for name in found.column_names if name.startswith("#")])


def _match_group(
    group: tuple[tuple[Term, Term], ...], table: pa.Table, prefix: str, subject: str | None = None
) -> pa.Table:
    found: pa.Table | None = None
    for number, (predicate, value) in enumerate(group):
        fits = _equals(table["predicate"], predicate)
        if value.variable is None:
            fits = pc.and_(fits, _equals(table["object"], value))
        picked = table.filter(fits)
        columns = {"key": picked["key"], f"{prefix}{number}": picked["n"]}
        if value.variable is not None:
            columns[f"?{value.variable}"] = picked["object"]
        part = pa.table(columns)
        if found is None and subject is not None:
            name = f"?{subject}" if f"?{subject}" not in columns else f"?{subject}="
            part = part.append_column(name, picked["subject"])
        found = part if found is None else _join(found, part, "inner")
        again = f"?{value.variable}="
        if again in found.column_names:  # a variable must have one value
            same = pc.equal(_bare(found[again[:-1]]), _bare(found[again]))
            found = found.filter(same).drop_columns([again])
    assert found is not None
    return found


def _join(left: pa.Table, right: pa.Table, kind: str) -> pa.Table:
    again = set(left.column_names) - {"key"}
    right = right.rename_columns([name + "=" if name in again else name for name in right.column_names])
    return left.join(right, "key", join_type=kind, use_threads=False)


def _columns(pattern: Pattern, found: pa.Table) -> pa.Table:
    """Return all variables of the pattern, NULL where this star has none."""
    names, known = [f"?{name}" for name in pattern.variables], set(found.column_names)
    empty = pa.nulls(found.num_rows, pa.string())
    return pa.table({"#": found["#0"], **{name: _text(found[name]) if name in known else empty for name in names}})


def _equals(column: pa.ChunkedArray, term: Term) -> Any:
    """Return where a column has a term, in N-Triples form or bare."""
    bare = _bare(pa.array([term.text])).to_pylist()[0]
    return pc.is_in(_text(column), value_set=pa.array([term.text, bare], pa.string()))


def _text(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if column.type == pa.string() else column.cast(pa.string())


def _bare(column: Any) -> Any:
    """Return IRIs without brackets, literals without quotes, type and language."""
    texts = pc.replace_substring_regex(_text(column), r"^<(.*)>$", r"\1")
    texts = pc.replace_substring_regex(texts, _LITERAL, r"\1")
    if pc.any(pc.match_substring(texts, "\\")).as_py():
        values = [None if text is None else unescape(f'"{text}"') for text in texts.to_pylist()]
        return pa.chunked_array([pa.array(values, pa.string())])
    return texts


def _value(column: pa.ChunkedArray, *, number: bool) -> Any:
    bare = _bare(column)
    if not number:
        return bare
    fits = pc.match_substring_regex(bare, _NUMERAL)
    return pc.utf8_trim_whitespace(pc.if_else(fits, bare, pa.scalar(None, pa.string()))).cast(pa.float64())
