"""Groups of triple patterns as stars, with OPTIONAL and UNION."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from skyband.lang.pattern import Pattern, Star, Term
from skyband.lang.rspql.grammar import refused
from skyband.lang.rspql.terms import Terms, trees

if TYPE_CHECKING:
    from lark import Token, Tree

Pair = tuple[Term, Term]
_WAYS = 1000
"""Ways to make a row: each UNION beside another multiplies them."""


@dataclass
class Group:
    """What stands between { and }: triples of one subject, further groups, and what is said of their values."""

    subject: Term | None = None
    pairs: list[Pair] = field(default_factory=list)
    optional: list[list[Pair]] = field(default_factory=list)
    unions: list[list[Group]] = field(default_factory=list)
    others: list[Tree[Token]] = field(default_factory=list)  # FILTER, BIND, WINDOW, SERVICE, in their order

    def stars(self) -> list[Star]:
        """Every way to satisfy it."""
        ways = [(self.subject, self.pairs, self.optional)]
        for arms in self.unions:
            ways = [
                (one or other, [*pairs, *more], [*optional, *further])
                for one, pairs, optional in ways
                for arm in arms
                for other, more, further in arm.ways()
            ]
        return [
            Star(subject, tuple(pairs), tuple(map(tuple, optional)))
            for subject, pairs, optional in ways
            if subject is not None
        ]

    def ways(self) -> list[tuple[Term | None, list[Pair], list[list[Pair]]]]:
        """The same as parts that can be put together."""
        return [(star.subject, list(star.needed), [list(group) for group in star.optional]) for star in self.stars()]


def group_of(node: Tree[Token], terms: Terms, subject: Term | None = None) -> Group:
    """The group in a node; `subject` is what the triples around it are about."""
    group = Group(subject)
    for child in trees(node):
        kind = child.data
        if kind == "block":
            _add(child, terms, group)
        elif kind == "optional":
            group.optional.append(_optional(child, terms, group))
        elif kind == "union":
            _unite(child, terms, group)
        else:
            group.others.append(child)
    return group


def _optional(child: Tree[Token], terms: Terms, group: Group) -> list[Pair]:
    inner = group_of(trees(child)[0], terms, group.subject)
    if inner.unions or inner.optional or inner.others:
        extra = next(iter(trees(trees(child)[0])), child)
        raise refused(extra, terms.begin, "an OPTIONAL holds triples only: write the rest outside of it")
    if group.subject is None:
        raise refused(child, terms.begin, "an OPTIONAL needs something to add to: write its triples after it")
    taken = {value for _, value in [*group.pairs, *(pair for pairs in group.optional for pair in pairs)]}
    for _, value in inner.pairs:
        if value.variable is not None and value in {*taken, group.subject}:
            raise refused(child, terms.begin, f"{value} has a value already: use another name in the OPTIONAL")
    if not inner.pairs:
        raise refused(child, terms.begin, "an OPTIONAL holds triples: write { ?user :likes ?likes }")
    return inner.pairs


def _unite(child: Tree[Token], terms: Terms, group: Group) -> None:
    arms = [group_of(arm, terms, group.subject) for arm in trees(child)]
    for arm, inner in zip(arms, trees(child), strict=True):
        if arm.others:
            raise refused(inner, terms.begin, "a { ... } of a UNION holds triples only: write the rest outside")
    group.unions.append(arms)
    if prod(max(1, sum(len(arm.stars()) for arm in some)) for some in group.unions) > _WAYS:
        why = f"UNIONs must give at most {_WAYS:,} ways to make a row: write fewer"
        raise refused(child, terms.begin, why)
    group.subject = group.subject or arms[0].subject
    for arm, inner in zip(arms, trees(child), strict=True):
        _same(group, arm.subject, inner, terms)


def _add(node: Tree[Token], terms: Terms, group: Group) -> None:
    for child in _triples(node):
        subject, *rest = trees(child)
        term = terms.term(subject)
        group.subject = group.subject or term
        _same(group, term, subject, terms)
        for verb, objects in zip(rest[::2], rest[1::2], strict=True):
            predicate = terms.term(verb if verb.data == "type" else trees(verb)[0])
            if predicate.variable is not None:
                raise refused(verb, terms.begin, "a predicate cannot be a variable: write its IRI")
            group.pairs += [(predicate, terms.term(term)) for term in trees(objects)]


def _triples(block: Tree[Token] | None) -> list[Tree[Token]]:
    """The triples of a block, which holds those before its last in a block of its own."""
    found: list[Tree[Token]] = []
    while block is not None:
        parts = trees(block)
        found += [part for part in parts if part.data != "block"]
        block = next((part for part in parts if part.data == "block"), None)
    return found[::-1]


def _same(group: Group, subject: Term | None, node: Tree[Token], terms: Terms) -> None:
    if subject is not None and subject != group.subject:
        why = f"the patterns of a window share one subject, here {group.subject}: ask of {subject} in another query"
        raise refused(node, terms.begin, why)


def pattern_of(group: Group, node: Tree[Token], terms: Terms) -> Pattern:
    """The pattern of a window."""
    stars = [star for star in group.stars() if star.needed]
    if not stars or len(stars) < len(group.stars()):
        raise refused(node, terms.begin, "no triple is asked for here: write { ?user :hasMentions ?mentions }")
    return Pattern(tuple(stars))
