"""Triples to rows: every way in which triples of one subject and one event fit a pattern.

All by columns: a pattern picks triples, the picked ones are joined on subject and event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.lang.rspql.terms import unescaped

if TYPE_CHECKING:
    from skyband.lang.pattern import Pattern, Star, Term

_LITERAL = r'^"((?:[^"\\]|\\.)*)"(?:\^\^<[^>]*>|@[A-Za-z0-9-]+)?$'
_NUMERAL = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


def rows(pattern: Pattern, triples: pa.Table) -> pa.Table:
    """The rows that `triples` (subject, predicate, object, event, time) make, in the order of their first triples.

    Examples
    --------
    >>> from skyband.lang.pattern import Pattern, Star, Term
    >>> star = Star(Term("?user"), ((Term("<urn:likes>"), Term("?n")),))
    >>> triples = {"subject": ["<urn:a>"], "predicate": ["<urn:likes>"], "object": ['"3"'], "event": [0], "time": [7]}
    >>> rows(Pattern((star,), numbers=("n",)), pa.table(triples)).to_pylist()
    [{'user': 'urn:a', 'n': 3.0, 'time': 7}]

    Cost: O(t) for t triples and each pattern, and a sort of the rows.
    """
    table = pa.table(
        {
            "key": _keys(triples),
            "subject": triples["subject"],
            "predicate": triples["predicate"],
            "object": triples["object"],
            "n": pa.array(np.arange(triples.num_rows)),
        }
    )
    parts = [_star(star, table) for star in pattern.stars]
    found = pa.concat_tables([_columns(pattern, part) for part in parts])
    order = pc.sort_indices(found, sort_keys=[("#", "ascending")]) if len(parts) > 1 else None
    found = found.take(order) if order is not None else found
    time = triples["time"].take(found["#"])
    columns = {name: _value(found[f"?{name}"], number=name in pattern.numbers) for name in pattern.variables}
    return pa.table({**columns, pattern.time: time})


def _keys(triples: pa.Table) -> pa.ChunkedArray:
    """A number for each pair of subject and event."""
    subject = triples["subject"].combine_chunks().dictionary_encode()
    event = triples["event"].combine_chunks().dictionary_encode()
    many = max(1, len(event.dictionary))
    return pc.add(pc.multiply(subject.indices.cast(pa.int64()), many), event.indices.cast(pa.int64()))


def _star(star: Star, table: pa.Table) -> pa.Table:
    """A column ?name for each variable; #0 has the first triple of a row, further # those of the rest."""
    if star.subject.variable is None:
        table = table.filter(_is(table["subject"], star.subject))
    found: pa.Table | None = None
    for number, (predicate, value) in enumerate(star.needed):
        part = _picked(table, predicate, value, f"#{number}")
        if found is None:
            found = part
            if star.subject.variable is not None:
                name = f"?{star.subject.variable}"
                found = found.append_column(name + "=" if name in found.column_names else name, part["subject"])
        else:
            found = _joined(found, part, "inner")
        found = _agreed(found, value)
    assert found is not None
    for at, group in enumerate(star.optional):
        side: pa.Table | None = None
        for number, (predicate, value) in enumerate(group):
            part = _picked(table, predicate, value, f"#{at}/{number}")
            side = part if side is None else _joined(side, part, "inner")
        assert side is not None
        found = _joined(found, side.drop_columns(["subject"]), "left outer")
    return found.sort_by([(name, "ascending") for name in found.column_names if name.startswith("#")])


def _picked(table: pa.Table, predicate: Term, value: Term, number: str) -> pa.Table:
    """The triples of one pattern: key, subject, its row number, and its object if that is a variable."""
    fits = _is(table["predicate"], predicate)
    if value.variable is None:
        fits = pc.and_(fits, _is(table["object"], value))
    part = table.filter(fits)
    columns = {"key": part["key"], "subject": part["subject"], number: part["n"]}
    if value.variable is not None:
        columns[f"?{value.variable}"] = part["object"]
    return pa.table(columns)


def _joined(left: pa.Table, right: pa.Table, kind: str) -> pa.Table:
    right = right.drop_columns([name for name in ("subject",) if name in right.column_names])
    again = [name for name in right.column_names if name in left.column_names and name != "key"]
    right = right.rename_columns([name + "=" if name in again else name for name in right.column_names])
    return left.join(right, "key", join_type=kind, use_threads=False)


def _agreed(found: pa.Table, value: Term) -> pa.Table:
    """Without the rows where a variable has two values."""
    again = f"?{value.variable}="
    if again not in found.column_names:
        return found
    same = pc.equal(_bare(found[again[:-1]]), _bare(found[again]))
    return found.filter(same).drop_columns([again])


def _columns(pattern: Pattern, found: pa.Table) -> pa.Table:
    """All variables of the pattern, NULL where this way to fit it has none."""
    empty = pa.nulls(found.num_rows, pa.string())
    there = set(found.column_names)
    names = [f"?{name}" for name in pattern.variables]
    return pa.table({"#": found["#0"], **{name: _text(found[name]) if name in there else empty for name in names}})


def _is(column: pa.ChunkedArray, term: Term) -> Any:
    """Where a column holds a term: in N-Triples form, or bare."""
    bare = _bare(pa.array([term.text])).to_pylist()[0]
    texts = _text(column)
    return pc.is_in(texts, value_set=pa.array([term.text, bare], pa.string()))


def _text(column: Any) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if column.type == pa.string() else column.cast(pa.string())


def _bare(column: Any) -> Any:
    """IRIs without their brackets, literals without quotes, type and language."""
    texts = _text(column)
    texts = pc.replace_substring_regex(texts, r"^<(.*)>$", r"\1")
    texts = pc.replace_substring_regex(texts, _LITERAL, r"\1")
    if pc.any(pc.match_substring(texts, "\\")).as_py():
        values = [None if text is None else unescaped(f'"{text}"') for text in texts.to_pylist()]
        return pa.chunked_array([pa.array(values, pa.string())])
    return texts


def _value(column: pa.ChunkedArray, *, number: bool) -> Any:
    bare = _bare(column)
    if not number:
        return bare
    fits = pc.match_substring_regex(bare, _NUMERAL)
    return pc.utf8_trim_whitespace(pc.if_else(fits, bare, pa.scalar(None, pa.string()))).cast(pa.float64())
