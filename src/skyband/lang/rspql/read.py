"""RSP-QL to statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

from skyband.errors import nearest
from skyband.lang.rspql.expression import ExpressionReader, Function
from skyband.lang.rspql.grammar import Terms, parse_tree, subtrees
from skyband.lang.services import Remote
from skyband.lang.statement import Statement
from skyband.lang.text import errors_at
from skyband.lang.triples import Pattern, Star, Term
from skyband.query import RESERVED, Sliding, TopK
from skyband.query.expression import Expression, parse
from skyband.query.validation import invalid, parse_integer

if TYPE_CHECKING:
    from datetime import date, timedelta

    from lark import Token, Tree

    from skyband.lang.text import Position

Pair = tuple[Term, Term]
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SIGNATURE = re.compile(r"\s*([\w:/.#<>-]+)\s*\(([^)]*)\)\s*")
_MAX_STARS = 1000  # each UNION beside another multiplies the stars that can make a row


def read_rspql(
    text: str,
    start: Position,
    *,
    functions: Mapping[str, str] | None = None,
    origin: str | date | timedelta = "0 s",
    time: str = "time",
) -> Statement:
    """Read the statement in an RSP-QL text that begins at `start`."""
    tree = parse_tree(text, start)
    try:
        return _Reader(start, _functions(functions or {}), origin, time).read(tree)
    except RecursionError:
        raise start.error("this is nested too deeply: write it with fewer brackets") from None


def _functions(given: Mapping[str, str]) -> dict[str, Function]:
    """Read functions by name from {"F(m, f)": "m + f"}."""
    found: dict[str, Function] = {}
    for signature, body in given.items():
        parts = _SIGNATURE.fullmatch(signature)
        names = [name.strip() for name in parts[2].split(",")] if parts else []
        if parts is None or not all(name.isidentifier() for name in names):
            raise invalid("functions", "be named with their arguments", signature, '{"F(m, f)": "m + f"}')
        parse(body)
        found[parts[1]] = tuple(names), body
    return found


# ---------------------------------------------------------------- groups of triple patterns


@dataclass
class Group:
    """What stands between { and }: triples of one subject, further groups, and clauses about their values."""

    subject: Term | None = None
    pairs: list[Pair] = field(default_factory=list)
    optional: list[list[Pair]] = field(default_factory=list)
    unions: list[list[Group]] = field(default_factory=list)
    clauses: list[Tree[Token]] = field(default_factory=list)  # FILTER, BIND, WINDOW, SERVICE, in their order

    def stars(self) -> list[Star]:
        """Return a star for every choice of the arms of its UNIONs."""
        found = [Star(self.subject or Term(""), tuple(self.pairs), tuple(map(tuple, self.optional)))]
        for arms in self.unions:
            found = [
                Star(one.subject if one.subject.text else other.subject, one.needed + other.needed,
                     one.optional + other.optional)
                for one in found for arm in arms for other in arm.stars()
            ]  # fmt: skip
        return [star for star in found if star.subject.text]

    def pattern(self, node: Tree[Token], terms: Terms) -> Pattern:
        """Return the pattern of a window or service."""
        stars = self.stars()
        if not stars or not all(star.needed for star in stars):
            raise terms.refuse(node, "there must be a triple pattern: write { ?user :hasMentions ?mentions }")
        return Pattern(tuple(stars))


def read_group(node: Tree[Token], terms: Terms, subject: Term | None = None) -> Group:
    """Read a group; `subject` is that of the triples around it."""
    group = Group(subject)
    for child in subtrees(node):
        if child.data == "block":
            _add_triples(child, terms, group)
        elif child.data == "optional":
            group.optional.append(_optional(child, terms, group))
        elif child.data == "union":
            _add_union(child, terms, group)
        else:
            group.clauses.append(child)
    return group


def _optional(node: Tree[Token], terms: Terms, group: Group) -> list[Pair]:
    [body] = subtrees(node)
    inner = read_group(body, terms, group.subject)
    if inner.unions or inner.optional or inner.clauses:
        extra = next(iter(subtrees(body)), node)
        raise terms.refuse(extra, "an OPTIONAL must have triples only: write the rest outside of it")
    if group.subject is None:
        raise terms.refuse(node, "an OPTIONAL must follow the triples that it adds to: write it after them")
    taken = {group.subject, *(value for pairs in (group.pairs, *group.optional) for _, value in pairs)}
    for _, value in inner.pairs:
        if value.variable is not None and value in taken:
            raise terms.refuse(node, f"variables of an OPTIONAL must be new, got {value}: use another name")
    if not inner.pairs:
        raise terms.refuse(node, "an OPTIONAL must have triples: write { ?user :likes ?likes }")
    return inner.pairs


def _add_union(node: Tree[Token], terms: Terms, group: Group) -> None:
    arms = [(body, read_group(body, terms, group.subject)) for body in subtrees(node)]
    for body, arm in arms:
        if arm.clauses:
            raise terms.refuse(body, "a { ... } of a UNION must have triples only: write the rest outside of it")
    group.unions.append([arm for _, arm in arms])
    stars = prod(max(1, sum(len(arm.stars()) for arm in some)) for some in group.unions)
    if stars > _MAX_STARS:
        raise terms.refuse(node, f"UNIONs must combine to at most {_MAX_STARS:,} patterns, got {stars:,}: write fewer")
    group.subject = group.subject or arms[0][1].subject
    for body, arm in arms:
        _check_subject(group, arm.subject, body, terms)


def _add_triples(block: Tree[Token] | None, terms: Terms, group: Group) -> None:
    triples: list[Tree[Token]] = []
    while block is not None:  # a block has the triples before its last one in a block of its own
        children = subtrees(block)
        triples += [child for child in children if child.data != "block"]
        block = next((child for child in children if child.data == "block"), None)
    for triple in reversed(triples):
        subject, *rest = subtrees(triple)
        term = terms.term(subject)
        group.subject = group.subject or term
        _check_subject(group, term, subject, terms)
        for verb, objects in zip(rest[::2], rest[1::2], strict=True):
            predicate = terms.term(verb if verb.data == "type" else subtrees(verb)[0])
            if predicate.variable is not None:
                raise terms.refuse(verb, "a predicate must be an IRI, got a variable")
            group.pairs += [(predicate, terms.term(value)) for value in subtrees(objects)]


def _check_subject(group: Group, subject: Term | None, node: Tree[Token], terms: Terms) -> None:
    if subject is not None and subject != group.subject:
        why = f"patterns of a window must have one subject, here {group.subject}, got {subject}: write another query"
        raise terms.refuse(node, why)


# ---------------------------------------------------------------- clauses


class _Reader:
    """Reads one query, clause by clause."""

    def __init__(self, start: Position, functions: dict[str, Function], origin: Any, time: str) -> None:
        self.start = start
        self.terms = Terms(start)
        self.expressions = ExpressionReader(self.terms, functions)
        self.origin = origin
        self.time = time
        self.variables: list[str] = []  # of the triples
        self.refuse = self.terms.refuse

    def read(self, tree: Tree[Token]) -> Statement:
        clauses: dict[str, list[Any]] = {}
        for child in subtrees(tree):
            clauses.setdefault(child.data, []).append(child)
        for node in [*clauses.get("base", ()), *clauses.get("prefix", ())]:
            self.terms.declare(node)
        [body] = clauses["where"]
        window, stream, label = self.window(body, clauses.get("source", []))
        where = read_group(subtrees(body)[0], self.terms)
        inner, pattern, remote = self.patterns(where, label, body)
        self.variables = [*pattern.variables, *(remote.columns if remote else ())]
        conditions = [*self.conditions(inner, inside=True), *self.conditions(where)]
        items = self.items(clauses["select"][0])
        score, ascending = self.order(tree, clauses)
        by = self.score(score, conditions)
        pattern = self.typed(pattern, by.tree)
        for name, node in self.expressions.seen.items():
            self.check_variable(name, node)
        given: dict[str, Any] = {"k": self.limit(tree, clauses), "name": self.name(clauses), "ascending": ascending}
        with self.errors_at(tree):
            query = TopK(by=by, window=window, time=pattern.time, **given)
        return Statement(query, stream, self.columns(items, score), pattern, remote, label)

    def errors_at(self, node: Any) -> AbstractContextManager[None]:
        return errors_at(lambda error: self.refuse(node, error))

    def check_variable(self, name: str, node: Any) -> None:
        if name not in self.variables:
            known = nearest(name, [*self.expressions.bound, *self.variables])
            raise self.refuse(node, f"?{name} must have a value: {known}")

    def window(self, where: Tree[Token], sources: list[Any]) -> tuple[Sliding, str, str]:
        """Read FROM NAMED WINDOW :W ON :S [RANGE 9m STEP 3m]."""
        if len(sources) != 1:
            at = sources[1] if sources else where
            raise self.refuse(at, "a query must have one window: write FROM NAMED WINDOW :W ON :S [RANGE 9m STEP 3m]")
        label, stream, span = subtrees(sources[0])
        lengths = [child for child in span.children if child.type == "DURATION"]
        size, slide = _duration(str(lengths[0])), _duration(str(lengths[-1]))
        with self.errors_at(lengths[-1]):
            window = Sliding(size, slide, origin=self.origin, closed="right")
        return window, self.terms.label(stream), self.terms.label(label)

    def patterns(self, where: Group, label: str, node: Any) -> tuple[Group, Pattern, Remote | None]:
        """Read WINDOW :W { ... } and SERVICE :BKG { ... }."""
        example = f"write WHERE {{ WINDOW :{label} {{ ... }} }}"
        if where.pairs or where.optional or where.unions:
            raise self.refuse(node, f"triples must be inside of a window: {example}")
        windows, services = ([c for c in where.clauses if c.data == kind] for kind in ("window", "service"))
        if len(windows) != 1:
            raise self.refuse(windows[1] if windows else node, f"WHERE must have one window: {example}")
        name, body = subtrees(windows[0])
        if name.data != "iri" or self.terms.label(name) != label:
            known = nearest(str(name.children[0]), [":" + label])
            raise self.refuse(name, f"this window must be declared: {known}")
        group = read_group(body, self.terms)
        pattern = group.pattern(body, self.terms)
        if len(services) > 1:
            raise self.refuse(services[1], "a query must have one SERVICE, got a second")
        return group, pattern, self.service(services[0], pattern) if services else None

    def service(self, node: Any, pattern: Pattern) -> Remote:
        name, body = subtrees(node)
        if name.data != "iri":
            raise self.refuse(name, "a SERVICE must have a name that the configuration knows: write SERVICE :BKG")
        if any(str(child).upper() == "SILENT" for child in node.children):
            raise self.refuse(node, "SILENT is not supported, it would hide errors: leave it out")
        group = read_group(body, self.terms)
        remote = group.pattern(body, self.terms)
        if group.clauses or len(remote.stars) > 1 or group.optional:
            raise self.refuse(body, "a SERVICE must have triples of one subject: write the rest outside of it")
        shared = [variable for variable in remote.variables if variable in pattern.variables]
        if len(shared) != 1:
            got = ", ".join("?" + name for name in shared) or "none"
            raise self.refuse(body, f"a SERVICE must share one variable with the window, the key, got {got}")
        [star], [key] = remote.stars, shared
        pairs = tuple((value.variable or "", predicate.text[1:-1]) for predicate, value in star.needed)
        names = [column for column, _ in pairs]
        if star.subject.variable != key or not all(names) or len(set(names)) < len(names):
            why = "a SERVICE must have distinct variables of the shared subject"
            raise self.refuse(body, f"{why}: write ?{key} :hasFollowers ?followers")
        return Remote(self.terms.label(name), key, tuple(names), pairs)

    def conditions(self, group: Group, *, inside: bool = False) -> Iterator[str]:
        """Yield the conditions of FILTER; the expressions of BIND are noted for those that name its variable."""
        for node in group.clauses:
            if node.data == "bind":
                value, variable = subtrees(node)
                self.bind(variable, self.expressions.read(value))
            elif node.data == "filter":
                [condition] = subtrees(node)
                text = self.expressions.read(condition)
                yield f"({text})" if condition.data == "either" else text
            elif inside:
                raise self.refuse(node, f"{node.data.upper()} must not be inside of WINDOW: write it beside it")

    def bind(self, variable: Any, text: str) -> None:
        name = str(variable.children[0])[1:]
        if name in self.expressions.bound or name in self.variables:
            raise self.refuse(variable, f"?{name} must be new, but has a value already: use another name")
        self.expressions.bound[name] = text if re.fullmatch(r"\w+|\(.*\)", text) else f"({text})"

    def items(self, select: Tree[Token]) -> list[tuple[str, bool, Any]]:
        """Return what SELECT chooses: the variable, whether it is computed there, and its node."""
        for word in select.children:
            if str(word).upper() in ("DISTINCT", "REDUCED"):
                raise self.refuse(word, f"{word} is not supported, equal rows are ranked one by one: leave it out")
        items = []
        for item in subtrees(select):
            *value, variable = subtrees(item)
            text = self.expressions.read(value[0]) if value else None
            items.append((str(variable.children[0])[1:], bool(value), item))
            if text is not None:
                self.bind(variable, text)
        return items

    def order(self, tree: Tree[Token], clauses: dict[str, list[Any]]) -> tuple[str, bool]:
        """Return the score of ORDER BY DESC(?score), and whether it is ascending."""
        if "order" not in clauses:
            raise self.end(tree).error("there must be an order: write ORDER BY DESC(?score)")
        first, *rest = subtrees(clauses["order"][0])
        if rest:
            raise self.refuse(rest[0], "ORDER BY must have one key, time breaks ties: write ORDER BY DESC(?score)")
        return _unwrap(self.expressions.read(subtrees(first)[0])), first.data == "ascending"

    def end(self, tree: Tree[Token]) -> Position:
        return self.start.within(tree.meta.end_line, tree.meta.end_column)

    def score(self, score: str, conditions: list[str]) -> Expression:
        """Return the score, or NULL, which is never ranked, for rows that a FILTER leaves out."""
        with errors_at(self.start.error):
            return parse(f"CASE WHEN {' AND '.join(conditions)} THEN {score} END" if conditions else score)

    def typed(self, pattern: Pattern, tree: Any) -> Pattern:
        """Return the pattern with its numbers marked, and a time column that no variable has the name of."""
        numbers, time = set(_numbers(tree)), self.time
        for name in pattern.variables:
            if name in RESERVED:
                raise self.start.error(f"?{name} has the name of a column of answers: use another name")
        while time in pattern.variables:
            time += "_"
        return replace(pattern, numbers=tuple(n for n in pattern.variables if n in numbers), time=time)

    def limit(self, tree: Tree[Token], clauses: dict[str, list[Any]]) -> int:
        for node in clauses.get("offset", ()):
            raise self.refuse(node, "OFFSET is not supported, an answer begins with the first row: leave it out")
        if "limit" not in clauses:
            raise self.end(tree).error("there must be a limit: write LIMIT 10")
        number = clauses["limit"][0].children[1]
        with self.errors_at(number):
            return parse_integer("k", str(number))

    def name(self, clauses: dict[str, list[Any]]) -> str | None:
        for node in clauses.get("register", ()):
            kind = str(node.children[1]).upper()
            if kind in ("ISTREAM", "DSTREAM"):
                raise self.refuse(node, f'{kind} is not supported: write STREAM, and emit="changes" in the query')
            return self.terms.label(subtrees(node)[0])
        return None

    def columns(self, items: list[tuple[str, bool, Any]], score: str) -> tuple[tuple[str, str], ...] | None:
        """Return the window, the rank, and what SELECT chooses; None for `*`."""
        if not items:
            return None
        chosen = [("window_start", "window_start"), ("window_end", "window_end"), ("rank", "rank")]
        for name, computed, node in items:
            value = self.expressions.bound.get(name)
            if value is not None and _unwrap(value) == score:
                chosen.append(("score", name))
            elif computed or value is not None:
                raise self.refuse(node, f"?{name} must be the score or a value of triples: compute it from the answer")
            else:
                self.check_variable(name, node)
                chosen.append((name, name))
        return tuple(chosen)


def _unwrap(text: str) -> str:
    """Return a text without brackets around all of it."""
    depth = 0
    for at, letter in enumerate(text if text.startswith("(") else ""):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if at == len(text) - 1 else text
    return text


def _duration(text: str) -> str:
    """Return a duration as windows read it: 9m, PT9M."""
    iso = _ISO.fullmatch(text)
    if iso is None:
        return text
    return " ".join(f"{number} {unit}" for number, unit in zip(iso.groups(), "dhms", strict=True) if number)


def _numbers(tree: Any) -> Iterator[str]:
    """Yield the columns that an expression takes for numbers."""
    kind, *parts = tree
    if kind == "column":
        yield parts[0]
    elif kind not in ("raw", "flag", "part"):
        for part in parts:
            if isinstance(part, tuple):
                yield from _numbers(part)
