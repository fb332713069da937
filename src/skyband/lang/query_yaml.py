"""Queries in YAML, as under `query:` of a pipeline file: mappings of the fields of `sb.TopK`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, TypeVar

from skyband.errors import ParseError, QueryError
from skyband.lang.services import Remote, join_options
from skyband.lang.statement import NAMED_SERVICE, Statement
from skyband.lang.text import errors_at
from skyband.lang.yaml_node import YamlNode
from skyband.query import AllTime, Counting, Distance, Sliding, TopK, Weighted, distance, weighted
from skyband.query.duration import spell_duration
from skyband.query.validation import invalid

_T = TypeVar("_T")
_FIELD = re.compile(r"(\w+)(?:=| must )")  # how the message of an error begins
_COLUMN, _COLUMNS = "the name of a column", "names of columns such as [symbol]"
_WINDOW = "a window such as {size: 10 minutes, slide: 1 minute} or {rows: 1000, every: 100}"
_SCORE = "an expression, {distance: {columns: [x, y], to: [3, 4]}} or {weighted: {a: 2, b: -1}}"


def build(make: Callable[[], _T], node: YamlNode, fields: Mapping[str, YamlNode] | None = None) -> _T:
    """Call `make`; an error that it raises gets the position of the field that it names."""

    def locate(error: QueryError) -> ParseError:
        name = _FIELD.match(str(error))
        at = (fields or {}).get(name[1], node) if name else node
        return at.position.error(f"{node.path}: {error}" if node.path else error)

    with errors_at(locate):
        return make()


def _window(node: YamlNode) -> Sliding | Counting:
    if isinstance(node.value, str):
        size, _, slide = (word.strip() for word in node.text(_WINDOW).partition("/"))
        return build(lambda: Sliding(size, slide or size), node)
    found = node.fields(("size", "slide", "origin", "closed", "rows", "every"))
    if "rows" in found and not found.keys() - {"rows", "every"}:
        every = found["every"].integer("a number of rows") if "every" in found else 1
        return build(lambda: Counting(found["rows"].integer(), every), node, {"size": found["rows"], **found})
    if "size" not in found or {"rows", "every"} & found.keys():
        raise node.error(f"must be {_WINDOW}, got {', '.join(found) or 'nothing'}")
    texts: dict[str, Any] = {name: value.text(_WINDOW) for name, value in found.items()}
    return build(lambda: Sliding(**{"slide": texts["size"], **texts}), node, found)


def _score(node: YamlNode) -> Any:
    if not isinstance(node.value, dict):
        return node.text(_SCORE)
    found = node.fields(("distance", "weighted"))
    if len(found) != 1:
        raise node.error(f"must be {_SCORE}, got {', '.join(found) or 'nothing'}")
    [(kind, inner)] = found.items()
    if kind == "weighted":
        return build(lambda: weighted(inner.guess()), inner)
    fields = inner.fields(("columns", "to", "metric", "weights"), ["columns", "to"])
    for name in fields.keys() & {"to", "weights"}:
        if not isinstance(fields[name].value, list):
            raise fields[name].wrong("a list of numbers, one for each column, such as [3, 4]")
    return build(lambda: distance(**{name: one.guess() for name, one in fields.items()}), inner, fields)


_READERS: dict[str, Callable[[YamlNode], Any]] = {
    "name": lambda node: node.text("a name"),
    "k": lambda node: node.integer("an integer of at least 1"),
    "by": _score,
    "window": _window,
    "time": lambda node: node.text(_COLUMN),
    "per": lambda node: node.texts(_COLUMNS),
    "id": lambda node: node.text(_COLUMN),
    "ascending": YamlNode.flag,
    "emit": YamlNode.text,
    "ranks": YamlNode.flag,
    "unit": YamlNode.text,
    "prefix": YamlNode.text,
    "version": YamlNode.text,
    "of": lambda node: node.texts(_COLUMNS),
}


def read_query(node: YamlNode) -> Statement:
    """Read a query from a mapping."""
    if isinstance(node.value, dict) and not node.path and "source" in node.value:
        raise node.error("must be a query, got a whole pipeline file: read it with skyband.lang.load")
    all_time = isinstance(node.value, dict) and "of" in node.value and "window" not in node.value
    found = node.fields([*_READERS, "join"], ["k", "by"] if all_time else ["k", "by", "window"])
    remote = _remote(found["join"]) if "join" in found else None
    given = {name: _READERS[name](value) for name, value in found.items() if name != "join"}
    return Statement(build(lambda: TopK(**given), node, found), remote=remote)


def _remote(node: YamlNode) -> Remote:
    own = ("service", "on", "columns")
    found = node.fields([*own, *node.entries()], own)
    columns = found["columns"]
    names: dict[str, str] = {}
    if isinstance(columns.value, dict):
        names = {name: value.text("its name there") for name, value in columns.entries().items()}
    options = {name: value.guess() for name, value in found.items() if name not in own}
    return Remote(
        found["service"].text("a name under services:"),
        found["on"].text(_COLUMN),
        tuple(names) or columns.texts(_COLUMNS),
        tuple(names.items()),
        options=build(lambda: join_options(options, node.path), node),
    )


def query_values(query: TopK) -> dict[str, Any]:
    """Return a query as plain values, in the order and words of a pipeline file.

    Examples
    --------
    >>> query_values(TopK(k=3, by="x", window=Counting(10)))
    {'k': 3, 'by': 'x', 'window': {'rows': 10}}
    """
    if callable(query.by):
        raise invalid("by", "be an expression to be written as text", query.by)
    if query.join is not None:
        raise invalid("join", NAMED_SERVICE, query.join.table)
    values: dict[str, Any] = {"name": query.name} if query.name is not None else {}
    values |= {"k": query.k, "by": _score_values(query.by)}
    if not isinstance(query.window, AllTime):
        values["window"] = _window_values(query.window)
    for name, parameter in signature(TopK).parameters.items():
        value = getattr(query, name)
        default = bool(getattr(query.by, "ascending", False)) if name == "ascending" else parameter.default
        if name not in ("name", "k", "by", "window") and value != default:
            values[name] = list(value) if isinstance(value, tuple) else value
    for name, value in values.items():
        if any("${" in text for text in _texts(value)):
            raise invalid(name, "not have ${ to be written in YAML, where it names a variable", value)
    return values


def _window_values(window: Sliding | Counting) -> dict[str, Any]:
    if isinstance(window, Counting):
        return {"rows": window.size} | ({"every": window.slide} if window.slide > 1 else {})
    slide = window.slide if isinstance(window.slide, str) else spell_duration(window.slide)
    values = {"size": spell_duration(window.size), "slide": slide}
    if window.origin:
        values["origin"] = spell_duration(window.origin)
    return values | ({"closed": "right"} if window.closed == "right" and window.kind == "slide" else {})


def _score_values(by: Any) -> str | dict[str, Any]:
    if isinstance(by, Weighted):
        return {"weighted": dict(zip(by.columns, by.weights, strict=True))}
    if not isinstance(by, Distance):
        return str(by)
    values: dict[str, Any] = {"columns": list(by.columns), "to": list(by.to)}
    if by.metric != "euclidean":
        values["metric"] = by.metric
    return {"distance": values | ({"weights": list(by.weights)} if by.weights else {})}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for one in [*value, *(value.values() if isinstance(value, dict) else ())]:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value


def to_yaml(query: TopK | Statement | Sequence[TopK]) -> str:
    """Write a query as the `query:` part of a pipeline file; a list of queries as its `queries:`.

    `sb.parse` reads it back: `sb.parse(sb.to_yaml(query)).query == query`.

    Examples
    --------
    >>> import skyband as sb
    >>> window = sb.Sliding("10 minutes", "1 minute")
    >>> print(sb.to_yaml(sb.TopK(k=10, by="price * volume", window=window, time="ts", per="symbol")))
    k: 10
    by: price * volume
    window: {size: 10 minutes, slide: 1 minute}
    time: ts
    per: [symbol]
    """
    if not isinstance(query, Statement):
        return _dump(query_values(query) if isinstance(query, TopK) else [query_values(one) for one in query])
    if query.pattern is not None or query.columns is not None:
        raise QueryError("triples and chosen columns cannot be written in YAML: keep the text, under sql: or rspql:")
    remote = query.remote
    if remote is None:
        return _dump(query_values(query.query))
    columns = dict(remote.properties) or list(remote.columns)
    join = {"service": remote.service, "on": remote.on, "columns": columns, **dict(remote.options)}
    return _dump(query_values(replace(query.query, join=None)) | {"join": join})


def _dump(values: Any) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        def represent_str(self, text: str) -> yaml.ScalarNode:
            # line ends and other signs that cannot be seen as escapes: folded, some of them are lost
            return self.represent_scalar("tag:yaml.org,2002:str", text, None if text.isprintable() else '"')

    Dumper.add_representer(str, Dumper.represent_str)
    options: dict[str, Any] = {"sort_keys": False, "default_flow_style": None, "width": 1000, "allow_unicode": True}
    return str(yaml.dump(values, Dumper=Dumper, **options))
