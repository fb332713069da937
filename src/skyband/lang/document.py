"""YAML with a place for every value: what stands in a file, before anyone asks what it means.

A plain subset: mappings, lists, texts, numbers, true and false. No tags, no aliases, no documents after the
first, no key twice; `yes`, `on` and `1:30` are texts, as in YAML 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from skyband.errors import ParseError, QueryError, nearest
from skyband.lang.late import Late, Options
from skyband.lang.lengths import in_words
from skyband.lang.numbers import whole
from skyband.lang.place import Place
from skyband.query.duration import parse_duration
from skyband.query.expression import check_unicode

_WHOLE = re.compile(r"[+-]?\d+(?:_\d+)*")
_REAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NOTHING = ("", "~", "null", "Null", "NULL")
_YES = {"true": True, "True": True, "false": False, "False": False}


@dataclass(frozen=True)
class Part:
    """A value of a document: where it is, how it is reached, and what it is (a dict, a list, or a text)."""

    value: Any
    place: Place
    path: str
    plain: bool = False  # written without quotes: it may be a number, true, false or nothing
    inner: Place | None = None  # where a text of several lines begins

    def error(self, why: str) -> ParseError:
        """The error to raise for this value."""
        return self.place.error(f"{self.path or 'the file'} {why}")

    def shown(self) -> str:
        """The value in an error message, if it is short."""
        return repr(self.value) if isinstance(self.value, str) and len(self.value) < 60 else self.kind

    @property
    def kind(self) -> str:
        """What it is, in a word."""
        if isinstance(self.value, dict):
            return "a mapping"
        return "a list" if isinstance(self.value, list) else "a text"

    @property
    def nothing(self) -> bool:
        """Whether nothing was written."""
        return self.plain and self.value in _NOTHING

    def fields(self, known: Iterable[str], required: Iterable[str] = ()) -> dict[str, Part]:
        """The entries of a mapping, all with known names; those without a value are left out."""
        names = list(known)
        if not isinstance(self.value, dict):
            example = ", ".join(f"{name}: ..." for name in (list(required) or names)[:2])
            raise self.error(f"is {self.kind}: write {{{example}}}")
        for name, part in self.value.items():
            if name not in names:
                raise part[0].error(f"{_joined(self.path, name)} is unknown: {nearest(name, names)}")
        found = {name: part for name, (_, part) in self.value.items() if not part.nothing}
        for name in required:
            if name not in found:
                raise self.error(f"has no {name}: add {name}: ...")
        return found

    def entries(self) -> dict[str, Part]:
        """The entries of a mapping, whatever their names."""
        if not isinstance(self.value, dict):
            raise self.error(f"is {self.kind}: write {{name: value}}")
        return {name: part for name, (_, part) in self.value.items()}

    def items(self) -> list[Part]:
        """The items of a list; a single value is a list of one."""
        return self.value if isinstance(self.value, list) else [self]

    def text(self, example: str = "a text", *, variables: bool = False) -> str:
        """A text as it was written; with `variables` it may name some."""
        if not isinstance(self.value, str) or self.nothing:
            raise self.error(f"is {'empty' if self.nothing else self.kind}: write {example}")
        if "${" in self.value and not variables:
            where = "variables are filled in only where rows, answers and state are"
            raise self.error(f"is {self.shown()}, but {where}: write {example}")
        return self.value

    def texts(self, example: str) -> tuple[str, ...]:
        """One text or a list of them."""
        return tuple(item.text(example) for item in self.items())

    def late(self, example: str = "a text") -> Late:
        """A text that may name environment variables."""
        return Late(self.text(example, variables=True), self.inner or self.place)

    def options(self) -> Options:
        """Settings of any name."""
        return tuple((name, part.late("a value")) for name, part in self.entries().items())

    def whole(self, example: str = "a whole number") -> int:
        """A whole number."""
        if not isinstance(self.value, str) or not self.plain or not _WHOLE.fullmatch(self.value):
            raise self.error(f"is {self.shown()}: write {example}")
        return self._integer()

    def _integer(self) -> int:
        try:
            return whole(self.value)
        except QueryError as error:
            raise self.error(str(error)) from None

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, str) or not self.plain or self.value not in _YES:
            raise self.error(f"is {self.shown()}: write true or false")
        return _YES[self.value]

    def guessed(self) -> Any:
        """A value of the type it looks like: for settings that others will check."""
        if isinstance(self.value, dict):
            return {name: part.guessed() for name, part in self.entries().items()}
        if isinstance(self.value, list):
            return [item.guessed() for item in self.value]
        if self.plain and self.value in _YES:
            return _YES[self.value]
        if self.plain and _WHOLE.fullmatch(self.value):
            return self._integer()
        return float(self.value) if self.plain and _REAL.fullmatch(self.value) else self.value

    def choice(self, known: Iterable[str]) -> str:
        """One of some names."""
        names = list(known)
        name = self.text(" or ".join(names))
        if name not in names:
            raise self.error(f"{name!r} is unknown: {nearest(name, names)}")
        return name

    def length(self) -> str:
        """A duration, in words that Spark reads too."""
        text = self.text('a duration such as "10 seconds"')
        try:
            return in_words(parse_duration(text, self.path, least=0))
        except QueryError as error:
            raise self.place.error(str(error)) from None


def read(text: str, file: str | None = None, begin: Place | None = None) -> Part:
    r"""The value that `text` holds.

    Examples
    --------
    >>> part = read("k: 10\nper: [symbol]").fields(["k", "per"])
    >>> part["k"].whole(), part["per"].texts("names"), str(part["per"].place)
    (10, ('symbol',), 'line 2, column 6')
    """
    import yaml

    start = begin or Place(1, 1, file)
    try:
        _check(yaml.parse(text, yaml.SafeLoader), start)
        found = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = error.problem or error.context or "it is no YAML"
        where = start.within(mark.line + 1, mark.column + 1) if mark else start
        hint = ": put quotes around the text" if "mapping values" in why or "cannot start" in why else ""
        raise where.error(f"this is no YAML, {why}{hint}") from None
    except yaml.YAMLError as error:
        raise start.error(f"this is no YAML, {str(error).splitlines()[0]}") from None
    except ParseError:
        raise
    except (OverflowError, ValueError):  # of "\\UFFFFFFFF", which pyyaml does not catch
        raise start.error("this is no YAML, an escape in a text names no character of Unicode: write another") from None
    if found is None:
        raise start.error("the file is empty: `skyband init` writes one to start from")
    return _part(found, start, "", text.splitlines())


def _check(events: Iterable[Any], start: Place) -> None:
    """Refuse what a configuration needs not, and what an attacker might, before the rest is read."""
    import yaml

    depth = documents = 0
    for event in events:
        place = start.within(event.start_mark.line + 1, event.start_mark.column + 1)
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if documents > 1:
            raise place.error("a second document begins here: write one in a file")
        if depth > 20:
            raise place.error("this is nested too deeply: write fewer levels")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise place.error("& and * are not read here: write the value itself, or put quotes around the text")
        if getattr(event, "tag", None):
            raise place.error(f"the tag {event.tag} is not read here: write the value without it")


def _part(node: Any, start: Place, path: str, lines: list[str]) -> Part:
    import yaml

    place = start.within(node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.ScalarNode):
        _check_text(node.value, place)
        inner = None
        if node.style == "|":  # its lines are lines of the file
            first = node.start_mark.line + 1
            while first < len(lines) and not lines[first].strip():
                first += 1
            indent = len(lines[first]) - len(lines[first].lstrip(" ")) if first < len(lines) else 0
            inner = start.within(node.start_mark.line + 2, indent + 1)
        return Part(node.value, place, path, plain=node.style is None, inner=inner)
    if isinstance(node, yaml.SequenceNode):
        items = [_part(item, start, f"{path}[{number}]", lines) for number, item in enumerate(node.value)]
        return Part(items, place, path)
    entries: dict[str, tuple[Place, Part]] = {}
    for key, value in node.value:
        where = start.within(key.start_mark.line + 1, key.start_mark.column + 1)
        if not isinstance(key, yaml.ScalarNode):
            raise where.error("a name is a text: write name: value")
        _check_text(key.value, where)
        if key.value in entries:
            raise where.error(f"{_joined(path, key.value)} stands here twice: leave one out")
        entries[key.value] = where, _part(value, start, _joined(path, key.value), lines)
    return Part(entries, place, path)


def _check_text(text: str, place: Place) -> None:
    try:
        check_unicode("text", text)
    except QueryError as error:
        raise place.error(str(error)) from None


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
