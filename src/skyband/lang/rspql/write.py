"""Queries as RSP-QL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skyband.errors import QueryError
from skyband.lang.pattern import Pattern, Star, Term
from skyband.lang.rspql.score import sparql, variable
from skyband.lang.rspql.terms import HOME
from skyband.lang.said import NO_SERVICE, check_said
from skyband.lang.statement import Remote, Statement
from skyband.query.duration import format_duration
from skyband.query.expression import Expression

if TYPE_CHECKING:
    from datetime import timedelta

    from skyband.query import Sliding, TopK

_LOCAL = re.compile(r"\w([\w.-]*[\w-])?")
_UNITS = {"min": "m", "h": "h", "s": "s", "ms": "ms", "d": "d"}


def to_rspql(query: TopK | Statement) -> str:
    """A query as RSP-QL; what RSP-QL cannot say is refused.

    The columns of a query become the values of triples around one subject. `sb.parse` reads it back;
    the name of the time column is given to it, not to the text.

    Examples
    --------
    >>> import skyband as sb
    >>> window = sb.Sliding("9 minutes", "3 minutes", closed="right")
    >>> print(sb.to_rspql(sb.TopK(k=1, by="mentions + 2 * likes", window=window, time="time", name="loud")))
    PREFIX : <urn:skyband:>
    REGISTER STREAM :loud AS
    SELECT *
    FROM NAMED WINDOW :W ON :stream [RANGE 9m STEP 3m]
    WHERE {
      WINDOW :W {
        ?row :mentions ?mentions ; :likes ?likes .
      }
    }
    ORDER BY DESC(?mentions + 2 * ?likes)
    LIMIT 1
    """
    asked = query if isinstance(query, Statement) else Statement(query)
    topk = asked.query
    window = _check(asked)
    assert isinstance(topk.by, Expression)
    tree, filters = topk.by.tree, []
    while tree[0] == "case" and len(tree) == 4 and tree[3] == ("null",):
        filters.append(tree[1])
        tree = tree[2]
    score = sparql(tree)
    pattern = asked.pattern or _pattern(topk.by, asked.remote)
    label = _label(asked.window or "W")
    lines = [f"PREFIX : <{HOME}>"]
    if topk.name is not None:
        lines.append(f"REGISTER STREAM {_label(topk.name)} AS")
    size, slide, _ = map(_length, window.lengths.values())
    lines += [
        f"SELECT {_chosen(asked, score)}",
        f"FROM NAMED WINDOW {label} ON {_label(asked.source)} [RANGE {size} STEP {slide}]",
        "WHERE {",
        f"  WINDOW {label} {{",
        *(f"    {line}" for line in _group(pattern)),
        *(f"    FILTER({sparql(condition)})" for condition in filters),
        "  }",
    ]
    if asked.remote is not None:
        lines.append(f"  SERVICE {_label(asked.remote.service)} {{ {_service(asked.remote)} }}")
    named = asked.columns is not None and any(what == "score" for what, _ in asked.columns)
    key = f"?{next(shown for what, shown in asked.columns or () if what == 'score')}" if named else score
    return "\n".join([*lines, "}", f"ORDER BY {'ASC' if topk.ascending else 'DESC'}({key})", f"LIMIT {topk.k}"])


def _check(asked: Statement) -> Sliding:
    query = asked.query
    window = check_said(query, "RSP-QL", {"per": (), "id": None})
    if query.join is not None and asked.remote is None:
        msg = f"join cannot be said in RSP-QL, {NO_SERVICE}"
        raise QueryError(msg)
    if window.closed != "right":
        msg = 'closed="left" cannot be said in RSP-QL, whose windows are (start, end]: use closed="right", or sb.to_sql'
        raise QueryError(msg)
    if window.origin:
        origin = format_duration(window.origin)
        msg = f"origin={origin!r} cannot be written in RSP-QL: pass it to sb.parse(text, origin=...)"
        raise QueryError(msg)
    return window


def _pattern(by: Expression, remote: Remote | None) -> Pattern:
    """One triple for each column of the score."""
    elsewhere = remote.columns if remote is not None else ()
    pairs = tuple((Term(f"<{HOME}{name}>"), Term(variable(name))) for name in by.columns if name not in elsewhere)
    if not pairs:
        msg = f"by={str(by)!r} names no column of the stream, so there is no triple to ask for: name one"
        raise QueryError(msg)
    return Pattern((Star(Term("?row"), pairs),))


def _service(remote: Remote) -> str:
    known = dict(remote.properties)
    pairs = [f"{_short(Term(f'<{known.get(name, HOME + name)}>'))} {variable(name)}" for name in remote.columns]
    return f"{variable(remote.on)} {' ; '.join(pairs)} ."


def _group(pattern: Pattern) -> list[str]:
    if len(pattern.stars) == 1:
        return _star(pattern.stars[0])
    return [" UNION ".join(f"{{ {' '.join(_star(star))} }}" for star in pattern.stars)]


def _star(star: Star) -> list[str]:
    needed = " ; ".join(f"{_short(predicate)} {_short(value)}" for predicate, value in star.needed)
    lines = [f"{star.subject} {needed} ."]
    for group in star.optional:
        pairs = " ; ".join(f"{_short(predicate)} {_short(value)}" for predicate, value in group)
        lines.append(f"OPTIONAL {{ {star.subject} {pairs} }}")
    return lines


def _short(term: Term) -> str:
    local = term.text[1:-1].removeprefix(HOME) if term.text.startswith(f"<{HOME}") else ""
    return f":{local}" if _LOCAL.fullmatch(local) else term.text


def _label(name: str) -> str:
    if _LOCAL.fullmatch(name) and name.isascii():
        return f":{name}"
    if re.fullmatch(r'[^<>"{}|^`\\\x00-\x20]*', name) and ":" in name:
        return f"<{name}>"
    msg = f"{name!r} cannot be a name in RSP-QL: use letters, digits and _, or an IRI"
    raise QueryError(msg)


def _chosen(asked: Statement, score: str) -> str:
    if asked.columns is None:
        return "*"
    ours = ("window_start", "window_end", "rank")
    words = []
    for what, shown in asked.columns:
        if what == "score":
            words.append(f"({score} AS {variable(shown)})")
        elif what not in ours:
            words.append(variable(what))
    return " ".join(words)


def _length(length: timedelta) -> str:
    number, unit = format_duration(length).split()
    if unit == "w":
        return f"{int(number) * 7}d"
    if unit not in _UNITS:
        msg = f"{format_duration(length)} is finer than a millisecond, which RSP-QL cannot say: use sb.to_yaml"
        raise QueryError(msg)
    return f"{number}{_UNITS[unit]}"
