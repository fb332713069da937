"""RSP-QL to statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skyband.errors import ParseError, QueryError, nearest
from skyband.lang.numbers import whole
from skyband.lang.rspql.grammar import read, refused
from skyband.lang.rspql.score import Function, Scribe
from skyband.lang.rspql.shapes import Group, group_of, pattern_of
from skyband.lang.rspql.terms import Terms, trees
from skyband.lang.statement import Remote, Statement
from skyband.query import RESERVED, Sliding, TopK
from skyband.query.expression import parse

if TYPE_CHECKING:
    from datetime import date, timedelta

    from lark import Token, Tree

    from skyband.lang.pattern import Pattern
    from skyband.lang.place import Place

_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SIGNATURE = re.compile(r"\s*([\w:/.#<>-]+)\s*\(([^)]*)\)\s*")


def read_rspql(
    text: str,
    begin: Place,
    *,
    functions: Mapping[str, str] | None = None,
    origin: str | date | timedelta = "0 s",
    time: str = "time",
) -> Statement:
    """The statement in an RSP-QL text that begins at `begin`."""
    tree = read(text, begin)
    try:
        return _Reader(begin, _described(functions or {}), origin, time).read(tree)
    except RecursionError:
        raise begin.error("this is nested too deeply: write it with fewer brackets") from None


def _described(functions: Mapping[str, str]) -> dict[str, Function]:
    """Functions by name, from {"F(m, f)": "m + f"}."""
    found: dict[str, Function] = {}
    for signature, body in functions.items():
        parts = _SIGNATURE.fullmatch(signature)
        names = [name.strip() for name in parts[2].split(",")] if parts else []
        if parts is None or not all(name.isidentifier() for name in names):
            msg = f'functions={signature!r} is no function: write {{"F(m, f)": "m + f"}}'
            raise QueryError(msg)
        parse(body)
        found[parts[1]] = tuple(names), body
    return found


class _Reader:
    """Reads one query, clause by clause."""

    def __init__(self, begin: Place, functions: dict[str, Function], origin: Any, time: str) -> None:
        self.begin = begin
        self.terms = Terms(begin)
        self.scribe = Scribe(self.terms, functions)
        self.origin = origin
        self.time = time
        self.known: list[str] = []  # the variables of the triples

    def refuse(self, node: Any, why: str) -> ParseError:
        return refused(node, self.begin, why)

    def after(self, tree: Tree[Token], why: str) -> ParseError:
        return self.begin.within(tree.meta.end_line, tree.meta.end_column).error(why)

    def read(self, tree: Tree[Token]) -> Statement:
        clauses: dict[str, list[Any]] = {}
        for child in trees(tree):
            clauses.setdefault(child.data, []).append(child)
        for node in [*clauses.get("base", ()), *clauses.get("prefix", ())]:
            self.terms.declare(node)
        window, stream, label = self.window(clauses["where"][0], clauses.get("source", []))
        where = group_of(trees(clauses["where"][0])[0], self.terms)
        inner, pattern, remote = self.patterns(where, label, clauses["where"][0])
        self.known = [*pattern.variables, *(remote.columns if remote else ())]
        filters = [*self.said(inner), *self.said(where)]
        score, ascending, chosen = self.ranking(tree, clauses)
        by = self.filtered(score, filters)
        pattern = self.typed(pattern, by.tree)
        self.check_variables()
        try:
            query = TopK(
                k=self.limit(tree, clauses),
                by=by,
                window=window,
                time=pattern.time,
                name=self.name(clauses),
                ascending=ascending,
            )
        except ParseError:
            raise
        except QueryError as error:
            raise self.refuse(tree, str(error)) from None
        return Statement(query, stream, self.columns(chosen), pattern, remote, label)

    def window(self, where: Tree[Token], sources: list[Any]) -> tuple[Sliding, str, str]:
        """FROM NAMED WINDOW :W ON :S [RANGE 9m STEP 3m]."""
        if len(sources) != 1:
            at = sources[1] if sources else where
            raise self.refuse(at, "a query has one window: write FROM NAMED WINDOW :W ON :S [RANGE 9m STEP 3m]")
        label, stream, span = trees(sources[0])
        lengths = [child for child in span.children if child.type == "DURATION"]
        size, slide = _length(str(lengths[0])), _length(str(lengths[-1]))
        try:
            window = Sliding(size, slide, origin=self.origin, closed="right")
        except QueryError as error:
            raise self.refuse(lengths[-1], str(error)) from None
        return window, self.terms.label(stream), self.terms.label(label)

    def patterns(self, where: Group, label: str, node: Any) -> tuple[Group, Pattern, Remote | None]:
        """WINDOW :W { ... } and SERVICE :BKG { ... }."""
        if where.pairs or where.optional or where.unions:
            raise self.refuse(node, f"triples come from a window: write WHERE {{ WINDOW :{label} {{ ... }} }}")
        windows = [child for child in where.others if child.data == "window"]
        services = [child for child in where.others if child.data == "service"]
        if len(windows) != 1:
            at = windows[1] if windows else node
            raise self.refuse(at, f"one window is read: write WHERE {{ WINDOW :{label} {{ ... }} }}")
        name, body = trees(windows[0])
        if name.data != "iri" or self.terms.label(name) != label:
            raise self.refuse(name, f"this window is not declared: {nearest(str(name.children[0]), [':' + label])}")
        group = group_of(body, self.terms)
        pattern = pattern_of(group, body, self.terms)
        for more in services[1:]:
            raise self.refuse(more, "one SERVICE is joined: leave one out")
        return group, pattern, self.service(services[0], pattern) if services else None

    def service(self, node: Any, pattern: Pattern) -> Remote:
        name, body = trees(node)
        if name.data != "iri":
            raise self.refuse(name, "a SERVICE has a fixed name, which the configuration explains: write SERVICE :BKG")
        if any(str(child).upper() == "SILENT" for child in node.children):
            raise self.refuse(node, "SILENT would hide errors: leave it out")
        group = group_of(body, self.terms)
        asked = pattern_of(group, body, self.terms)
        if group.others or len(asked.stars) > 1 or group.optional:
            raise self.refuse(body, "a SERVICE is asked for triples of one subject: write the rest outside of it")
        star = asked.stars[0]
        shared = [variable for variable in asked.variables if variable in pattern.variables]
        if len(shared) != 1:
            why = f"shares {', '.join('?' + name for name in shared) or 'no variable'} with the window"
            raise self.refuse(body, f"this {why}: share exactly one, by which rows are joined")
        example = f"?{shared[0]} :hasFollowers ?followers"
        if star.subject.variable != shared[0]:
            raise self.refuse(body, f"rows are joined by the subject of the SERVICE: write {example}")
        pairs = tuple((value.variable or "", predicate.text[1:-1]) for predicate, value in star.needed)
        names = [column for column, _ in pairs]
        if not all(names) or len(set(names)) < len(names):
            raise self.refuse(body, f"a SERVICE is asked for values, each once: write {example}")
        return Remote(self.terms.label(name), shared[0], tuple(names), pairs)

    def said(self, group: Group) -> Iterator[str]:
        """The conditions of FILTER; BIND is kept for whoever names its variable."""
        for node in group.others:
            if node.data == "bind":
                value, variable = trees(node)
                self.bind(variable, self.scribe.write(value))
            elif node.data == "filter":
                inner = trees(node)[0]
                said = self.scribe.write(inner)
                yield f"({said})" if inner.data == "either" else said
            elif node.data in ("window", "service") and group.subject is not None:
                raise self.refuse(node, f"{node.data.upper()} cannot stand inside of WINDOW: write it beside it")

    def bind(self, variable: Any, said: str) -> None:
        name = str(variable.children[0])[1:]
        if name in self.scribe.bound or name in self.known:
            raise self.refuse(variable, f"?{name} has a value already: use another name")
        self.scribe.bound[name] = said if re.fullmatch(r"\w+|\(.*\)", said) else f"({said})"

    def ranking(self, tree: Tree[Token], clauses: dict[str, list[Any]]) -> tuple[str, bool, Any]:
        """ORDER BY DESC(?score), with what SELECT says that ?score is; and what SELECT chooses."""
        select = clauses["select"][0]
        for word in select.children:
            if str(word).upper() in ("DISTINCT", "REDUCED"):
                raise self.refuse(word, "rows stay apart even if they are equal: leave this out")
        chosen: list[tuple[str, str | None, Any]] = []
        for item in trees(select):
            *value, variable = trees(item)
            said = self.scribe.write(value[0]) if value else None
            chosen.append((str(variable.children[0])[1:], said, item))
            if said is not None:
                self.bind(variable, said)
        if "order" not in clauses:
            raise self.after(tree, "nothing says which row is best: write ORDER BY DESC(?score)")
        keys = trees(clauses["order"][0])
        for more in keys[1:]:
            raise self.refuse(more, "rows are ranked by one score, ties go to the later: write ORDER BY DESC(?score)")
        key = trees(keys[0])[0]
        return _plain(self.scribe.write(key)), keys[0].data == "ascending", (chosen, _plain(self.scribe.write(key)))

    def filtered(self, score: str, filters: list[str]) -> Any:
        """The score, but NULL, which is never ranked, for the rows that a FILTER leaves out."""
        said = f"CASE WHEN {' AND '.join(filters)} THEN {score} END" if filters else score
        try:
            return parse(said)
        except QueryError as error:
            raise self.begin.error(str(error)) from None

    def typed(self, pattern: Pattern, tree: Any) -> Pattern:
        """The pattern with those of its variables marked that are numbers."""
        columns = [name for name in pattern.variables if name in set(_numbers(tree))]
        for name in pattern.variables:
            if name in RESERVED:
                raise self.begin.error(f"?{name} has the name of a column of our answers: use another name")
        time = self.time
        while time in pattern.variables:
            time += "_"
        return replace(pattern, numbers=tuple(columns), time=time)

    def check_variables(self) -> None:
        for name, node in self.scribe.seen.items():
            if name not in self.known:
                raise self.refuse(node, f"?{name} has no value: {nearest(name, [*self.scribe.bound, *self.known])}")

    def limit(self, tree: Tree[Token], clauses: dict[str, list[Any]]) -> int:
        for node in clauses.get("offset", ()):
            raise self.refuse(node, "an answer begins at the first row: leave OFFSET out")
        if "limit" not in clauses:
            raise self.after(tree, "nothing says how many rows: write LIMIT 10")
        number = clauses["limit"][0].children[1]
        try:
            return whole(str(number))
        except QueryError as error:
            raise self.refuse(number, f"k {error}") from None

    def name(self, clauses: dict[str, list[Any]]) -> str | None:
        for node in clauses.get("register", ()):
            kind = str(node.children[1]).upper()
            if kind in ("ISTREAM", "DSTREAM"):
                raise self.refuse(node, f'{kind} says what changed: write STREAM, and emit="changes" in the query')
            return self.terms.label(trees(node)[0])
        return None

    def columns(self, chosen: Any) -> tuple[tuple[str, str], ...] | None:
        """Of which window and rank, then what SELECT names; None for `*`."""
        items, score = chosen
        if not items:
            return None
        picked = [("window_start", "window_start"), ("window_end", "window_end"), ("rank", "rank")]
        for name, said, node in items:
            value = self.scribe.bound.get(name)
            if value is not None and _plain(value) == score:
                picked.append(("score", name))
            elif said is not None or value is not None:
                raise self.refuse(node, f"?{name} is computed, and is not the score: compute it from the answer")
            elif name not in self.known:
                raise self.refuse(node, f"?{name} has no value: {nearest(name, [*self.scribe.bound, *self.known])}")
            else:
                picked.append((name, name))
        return tuple(picked)


def _plain(said: str) -> str:
    """A text without brackets around all of it."""
    if not said.startswith("(") or not said.endswith(")"):
        return said
    depth = 0
    for at, letter in enumerate(said):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return said[1:-1] if at == len(said) - 1 else said
    return said


def _length(text: str) -> str:
    """A length of time as our windows read it: 9m, PT9M."""
    iso = _ISO.fullmatch(text)
    if iso is None:
        return text
    return " ".join(f"{number} {unit}" for number, unit in zip(iso.groups(), "dhms", strict=True) if number)


def _numbers(tree: Any) -> Iterator[str]:
    """The columns that an expression takes for numbers."""
    kind, *parts = tree
    if kind == "column":
        yield parts[0]
    elif kind not in ("raw", "flag", "part"):
        for part in parts:
            if isinstance(part, tuple):
                yield from _numbers(part)
