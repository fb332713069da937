"""YAML values with their positions, read by whoever knows what they mean.

A plain subset of YAML: mappings, lists, texts, numbers, true and false. No tags, no aliases, no documents after the
first, no key twice; `yes`, `on` and `1:30` are texts, as in YAML 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from skyband.errors import ParseError, nearest
from skyband.lang.text import EnvTemplate, Position, Settings, errors_at
from skyband.query.duration import parse_duration, spell_duration
from skyband.query.expression import check_unicode
from skyband.query.validation import parse_integer

_INTEGER = re.compile(r"[+-]?\d+(?:_\d+)*")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NULL = ("", "~", "null", "Null", "NULL")
_FLAGS = {"true": True, "True": True, "false": False, "False": False}
_DEPTH = 20


@dataclass(frozen=True)
class YamlNode:
    """A value of a document: a mapping of names to (position of the name, node), a list of nodes, or a text."""

    value: Any
    position: Position
    path: str
    plain: bool = False  # written without quotes: may be a number, true, false or null
    inner: Position | None = None  # where a block of text begins

    def error(self, message: str) -> ParseError:
        """Return the error to raise for this value; the message follows its path."""
        return self.position.error(f"{self.path or 'the file'} {message}")

    def wrong(self, expected: str) -> ParseError:
        """Return the error to raise if the value is something else than expected."""
        given = {"dict": "a mapping", "list": "a list"}.get(type(self.value).__name__)
        given = given or ("nothing" if self.is_null else repr(self.value[:60]))
        return self.error(f"must be {expected}, got {given}")

    @property
    def is_null(self) -> bool:
        """Whether nothing was written."""
        return self.plain and self.value in _NULL

    def entries(self) -> dict[str, YamlNode]:
        """Return the entries of a mapping."""
        if not isinstance(self.value, dict):
            raise self.wrong("a mapping such as {name: value}")
        return {name: node for name, (_, node) in self.value.items()}

    def fields(self, known: Iterable[str], required: Iterable[str] = ()) -> dict[str, YamlNode]:
        """Return the entries of a mapping with known names; those without a value are left out."""
        names, needed = list(known), list(required)
        if not isinstance(self.value, dict):
            raise self.wrong(f"a mapping such as {{{', '.join(f'{name}: ...' for name in (needed or names)[:2])}}}")
        for name, (position, node) in self.value.items():
            if name not in names:
                raise position.error(f"{node.path} is unknown: {nearest(name, names)}")
        found = {name: node for name, node in self.entries().items() if not node.is_null}
        for name in needed:
            if name not in found:
                raise self.error(f"must have {name}: add {name}: ...")
        return found

    def items(self) -> list[YamlNode]:
        """Return the items of a list; a single value is a list of one."""
        return self.value if isinstance(self.value, list) else [self]

    def text(self, expected: str = "a text", *, variables: bool = False) -> str:
        """Return a text as it was written; it may have variables only where they are filled in later."""
        if not isinstance(self.value, str) or self.is_null:
            raise self.wrong(expected)
        if "${" in self.value and not variables:
            raise self.wrong(f"{expected} without ${{...}}, which is filled in only where rows, answers and state are")
        return self.value

    def texts(self, expected: str) -> tuple[str, ...]:
        """Return one text or a list of them."""
        return tuple(item.text(expected) for item in self.items())

    def template(self, expected: str = "a text") -> EnvTemplate:
        """Return a text that may have environment variables."""
        return EnvTemplate(self.text(expected, variables=True), self.inner or self.position)

    def settings(self) -> Settings:
        """Return settings of any name."""
        return tuple((name, node.template("a value")) for name, node in self.entries().items())

    def integer(self, expected: str = "an integer") -> int:
        """Return an integer."""
        if not isinstance(self.value, str) or not self.plain or not _INTEGER.fullmatch(self.value):
            raise self.wrong(expected)
        with errors_at(self.position.error):
            return parse_integer(self.path, self.value)

    def flag(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, str) or not self.plain or self.value not in _FLAGS:
            raise self.wrong("true or false")
        return _FLAGS[self.value]

    def guess(self) -> Any:
        """Return a value of the type that it looks like, for fields that are validated elsewhere."""
        if isinstance(self.value, dict):
            return {name: node.guess() for name, node in self.entries().items()}
        if isinstance(self.value, list):
            return [item.guess() for item in self.value]
        if self.plain and self.value in _FLAGS:
            return self.flag()
        if self.plain and _INTEGER.fullmatch(self.value):
            return self.integer()
        return float(self.value) if self.plain and _NUMBER.fullmatch(self.value) else self.value

    def duration(self) -> str:
        """Return a duration in words that Spark reads too."""
        with errors_at(self.position.error):
            return spell_duration(parse_duration(self.text('a duration such as "10 seconds"'), self.path, least=0))


def read_yaml(text: str, start: Position | None = None) -> YamlNode:
    r"""Read a YAML text that begins at `start` of a file.

    Examples
    --------
    >>> nodes = read_yaml("k: 10\nper: [symbol]").fields(["k", "per"])
    >>> nodes["k"].integer(), nodes["per"].texts("names"), str(nodes["per"].position)
    (10, ('symbol',), 'line 2, column 6')
    """
    import yaml

    start = start or Position()
    try:
        _check_events(yaml.parse(text, yaml.SafeLoader), start)
        found = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark, why = error.problem_mark or error.context_mark, error.problem or error.context or ""
        hint = ": put quotes around the text" if "mapping values" in why or "cannot start" in why else ""
        raise (_position(mark, start) if mark else start).error(f"this is not YAML: {why}{hint}") from None
    except yaml.YAMLError as error:
        raise start.error(f"this is not YAML: {str(error).splitlines()[0]}") from None
    except ParseError:
        raise
    except (OverflowError, ValueError):  # PyYAML does not catch them for "\\UFFFFFFFF"
        raise start.error("this is not YAML: an escape in a text must name a Unicode character") from None
    if found is None:
        raise start.error("the file is empty: `skyband init` writes one to start from")
    return _node(found, start, "", text.splitlines())


def _position(mark: Any, start: Position) -> Position:
    return start.within(mark.line + 1, mark.column + 1)


def _check_events(events: Iterable[Any], start: Position) -> None:
    """Refuse what a configuration does not need, and an attacker might, before nodes are made of it."""
    import yaml

    depth = documents = 0
    for event in events:
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        why = ""
        if documents > 1:
            why = "a second document begins here: write one in a file"
        elif depth > _DEPTH:
            why = f"this is nested too deeply: write at most {_DEPTH} levels"
        elif isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            why = "& and * are not supported: write the value itself, or put quotes around the text"
        elif getattr(event, "tag", None):
            why = f"the tag {event.tag} is not supported: write the value without it"
        if why:
            raise _position(event.start_mark, start).error(why)


def _node(node: Any, start: Position, path: str, lines: list[str]) -> YamlNode:
    import yaml

    position = _position(node.start_mark, start)
    if isinstance(node, yaml.ScalarNode):
        text, inner = _checked(node.value, position), None
        if node.style == "|":  # its lines are lines of the file
            block = (line for line in lines[node.start_mark.line + 1 :] if line.strip())
            first = next(block, "")
            inner = start.within(node.start_mark.line + 2, len(first) - len(first.lstrip(" ")) + 1)
        return YamlNode(text, position, path, plain=node.style is None, inner=inner)
    if isinstance(node, yaml.SequenceNode):
        items = [_node(item, start, f"{path}[{number}]", lines) for number, item in enumerate(node.value)]
        return YamlNode(items, position, path)
    entries: dict[str, tuple[Position, YamlNode]] = {}
    for key, value in node.value:
        at = _position(key.start_mark, start)
        if not isinstance(key, yaml.ScalarNode):
            raise at.error("a key must be a text: write name: value")
        name = f"{path}.{_checked(key.value, at)}".removeprefix(".")
        if key.value in entries:
            raise at.error(f"{name} must be given once: leave one out")
        entries[key.value] = at, _node(value, start, name, lines)
    return YamlNode(entries, position, path)


def _checked(text: str, position: Position) -> str:
    with errors_at(position.error):
        check_unicode("text", text)
    return text
