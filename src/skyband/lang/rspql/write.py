"""Queries as RSP-QL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError
from skyband.lang.rspql.grammar import FUNCTIONS, XSD
from skyband.lang.statement import NAMED_SERVICE, Statement
from skyband.lang.triples import HOME, Pattern, Star, Term, escape
from skyband.query.duration import format_duration
from skyband.query.expression import Expression
from skyband.query.monotone import split_filters
from skyband.query.validation import invalid

if TYPE_CHECKING:
    from skyband.lang.services import Remote
    from skyband.query import Sliding, TopK
    from skyband.query.expression import Tree

_LOCAL = re.compile(r"\w([\w.-]*[\w-])?")
_UNITS = {"min": "m", "h": "h", "s": "s", "ms": "ms", "d": "d"}
_LEVELS = {"or": 1, "and": 2, "=": 3, "<>": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3, "sum": 4, "product": 5,
           "neg": 6, "not": 6}  # fmt: skip
_SIGNS = {"or": "||", "and": "&&", "<>": "!=", "neg": "-", "not": "!"}
_CALLS = {"abs": "ABS", "coalesce": "COALESCE", "whole": f"<{XSD}integer>", "real": f"<{XSD}double>",
          **{ours: f"<{theirs}>" for theirs, ours in FUNCTIONS.items()}}  # fmt: skip


def to_rspql(query: TopK | Statement) -> str:
    """Write a query as RSP-QL; raise for what RSP-QL cannot express.

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
    statement = query if isinstance(query, Statement) else Statement(query)
    topk = statement.query
    window = _check(statement)
    assert isinstance(topk.by, Expression)
    tree, conditions = split_filters(topk.by.tree)
    score = to_sparql(tree)
    label = _label(statement.window or "W")
    size, slide, _ = map(_duration, window.lengths.values())
    lines = [
        f"PREFIX : <{HOME}>",
        *([] if topk.name is None else [f"REGISTER STREAM {_label(topk.name)} AS"]),
        f"SELECT {_select_list(statement, score)}",
        f"FROM NAMED WINDOW {label} ON {_label(statement.source)} [RANGE {size} STEP {slide}]",
        "WHERE {",
        f"  WINDOW {label} {{",
        *(f"    {line}" for line in _group(statement.pattern or _pattern(topk.by, statement.remote))),
        *(f"    FILTER({to_sparql(condition)})" for condition in conditions),
        "  }",
    ]
    if statement.remote is not None:
        lines.append(f"  SERVICE {_label(statement.remote.service)} {{ {_service(statement.remote)} }}")
    key = next((f"?{alias}" for name, alias in statement.columns or () if name == "score"), score)
    return "\n".join([*lines, "}", f"ORDER BY {'ASC' if topk.ascending else 'DESC'}({key})", f"LIMIT {topk.k}"])


def _check(statement: Statement) -> Sliding:
    window = statement.check_writable("RSP-QL", closed="right", per=(), id=None, of=())
    if statement.query.join is not None and statement.remote is None:
        raise invalid("join", NAMED_SERVICE, statement.query.join.table)
    if window.origin:
        must = "be 0 s to be written in RSP-QL; it is given to sb.parse(text, origin=...)"
        raise invalid("origin", must, format_duration(window.origin))
    return window


def _pattern(by: Expression, remote: Remote | None) -> Pattern:
    """Return one triple for each column of the score."""
    names = [name for name in by.columns if remote is None or name not in remote.columns]
    if not names:
        raise invalid("by", "name a column of the stream to be written in RSP-QL", str(by))
    return Pattern((Star(Term("?row"), tuple((Term(f"<{HOME}{name}>"), Term(_variable(name))) for name in names)),))


def _service(remote: Remote) -> str:
    iris = {name: HOME + name for name in remote.columns} | dict(remote.properties)
    pairs = ((Term(f"<{iris[name]}>"), Term(_variable(name))) for name in remote.columns)
    return _triples(Term(_variable(remote.on)), pairs) + " ."


def _triples(subject: Term, pairs: Any) -> str:
    return f"{subject} " + " ; ".join(f"{_short(predicate)} {_short(value)}" for predicate, value in pairs)


def _group(pattern: Pattern) -> list[str]:
    stars = [
        [_triples(star.subject, star.needed) + " .",
         *(f"OPTIONAL {{ {_triples(star.subject, group)} }}" for group in star.optional)]
        for star in pattern.stars
    ]  # fmt: skip
    return stars[0] if len(stars) == 1 else [" UNION ".join(f"{{ {' '.join(star)} }}" for star in stars)]


def _short(term: Term) -> str:
    local = term.text[1:-1].removeprefix(HOME) if term.text.startswith(f"<{HOME}") else ""
    return f":{local}" if _LOCAL.fullmatch(local) else term.text


def _label(name: str) -> str:
    if _LOCAL.fullmatch(name) and name.isascii():
        return f":{name}"
    if re.fullmatch(r'[^<>"{}|^`\\\x00-\x20]*', name) and ":" in name:
        return f"<{name}>"
    raise invalid("names in RSP-QL", "have letters, digits and _, or be IRIs", name)


def _select_list(statement: Statement, score: str) -> str:
    if statement.columns is None:
        return "*"
    named = [(name, alias) for name, alias in statement.columns if name not in ("window_start", "window_end", "rank")]
    return " ".join(f"({score} AS {_variable(alias)})" if name == "score" else _variable(name) for name, alias in named)


def _duration(length: int) -> str:
    number, unit = format_duration(length).split()
    if unit == "w":
        return f"{int(number) * 7}d"
    if unit not in _UNITS:
        raise invalid("durations in RSP-QL", "be whole milliseconds", format_duration(length))
    return f"{number}{_UNITS[unit]}"


# ---------------------------------------------------------------- expressions


def to_sparql(tree: Tree) -> str:
    """Write a score as a SPARQL expression.

    Examples
    --------
    >>> from skyband.query.expression import parse
    >>> to_sparql(parse("(a + b) * CASE WHEN c = 'x' THEN 2 ELSE 1 END").tree)
    '(?a + ?b) * IF(?c = "x", 2, 1)'
    """
    kind, *parts = tree
    if kind in ("column", "raw", "flag"):
        return _variable(parts[0])
    if kind in ("number", "text", "yes"):
        return _constant(kind, parts[0])
    if kind == "isnull":
        return f"!BOUND({to_sparql(parts[0])})"
    if kind == "case":
        *branches, other = parts
        text = to_sparql(other)
        for when, then in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
            text = f"IF({to_sparql(when)}, {to_sparql(then)}, {text})"
        return text
    if kind in _CALLS or (kind == "round" and parts[1] == 0):
        arguments = parts[:1] if kind == "round" else parts
        return f"{_CALLS.get(kind, 'ROUND')}({', '.join(map(to_sparql, arguments))})"
    if kind in _LEVELS and "%" not in parts:
        return _operation(kind, parts)
    raise QueryError(f"{'%' if kind == 'product' else kind} cannot be written in RSP-QL: use sb.to_sql or sb.to_yaml")


def _operation(kind: str, parts: list[Any]) -> str:
    level, sign = _LEVELS[kind], _SIGNS.get(kind, kind)
    if kind in ("neg", "not"):
        return sign + _operand(parts[0], level)
    if kind in ("and", "or"):
        return f" {sign} ".join(_operand(part, level) for part in parts)
    if kind == "in":
        return f"{_operand(parts[0], level + 1)} IN ({', '.join(map(to_sparql, parts[1:]))})"
    if kind in ("sum", "product"):
        others = (f" {s} {_operand(other, level + 1)}" for s, other in zip(parts[1::2], parts[2::2], strict=True))
        return _operand(parts[0], level) + "".join(others)  # a - (b - c)
    if kind in ("=", "<>") and parts[0][0] == parts[1][0] == "column":
        return f"({to_sparql(parts[0])}) {sign} ({to_sparql(parts[1])})"  # brackets: as numbers
    return f"{_operand(parts[0], level + 1)} {sign} {_operand(parts[1], level + 1)}"


def _operand(tree: Tree, level: int) -> str:
    own, text = _LEVELS.get(tree[0], 9), to_sparql(tree)
    negative = tree[0] == "number" and tree[1] < 0
    return f"({text})" if own < level or own == level == 6 or negative else text


def _constant(kind: str, value: Any) -> str:
    if kind == "text":
        return escape(value)
    if kind == "yes":
        return str(value).lower()
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def _variable(name: str) -> str:
    """Write a column as a variable."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise invalid("columns", "have letters, digits and _ to be variables of RSP-QL", name, "another name")
    return f"?{name}"
