"""The `query:` of a pipeline file: a mapping of the fields of `sb.TopK`, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any, TypeVar

from skyband.errors import ParseError, QueryError
from skyband.lang.document import Part
from skyband.lang.lengths import in_words
from skyband.lang.said import NO_SERVICE
from skyband.lang.services import join_options
from skyband.lang.statement import Remote, Statement
from skyband.query import EMITS, AllTime, Counting, Sliding, TopK
from skyband.query.points import METRICS, Distance, Weighted, distance, weighted

_T = TypeVar("_T")

_WINDOW = ("size", "slide", "origin", "closed", "rows", "every")
_SAYS = re.compile(r"(\w+)(?:=| must )")


def window(part: Part) -> Sliding | Counting:
    """The window that a mapping describes, or a text such as 10 minutes/1 minute."""
    example = "{size: 10 minutes, slide: 1 minute}, or {rows: 1000, every: 100}"
    if isinstance(part.value, str):
        size, _, slide = (word.strip() for word in part.text(example).partition("/"))
        return _built(lambda: Sliding(size, slide or size), part, {})
    found = part.fields(_WINDOW)
    if "rows" in found:
        for name in found:
            if name not in ("rows", "every"):
                raise found[name].error("is for windows in time: a window of rows has {rows: ..., every: ...}")
        every = found["every"].whole("a whole number of rows") if "every" in found else 1
        return _built(lambda: Counting(found["rows"].whole(), every), part, {"size": found["rows"], **found})
    if "size" not in found or "every" in found:
        raise part.error(f"is no window: write {example}")
    texts: dict[str, Any] = {name: value.text(example) for name, value in found.items()}
    texts.setdefault("slide", texts["size"])
    return _built(lambda: Sliding(texts.pop("size"), texts.pop("slide"), **texts), part, found)


def score(part: Part) -> Any:
    """What makes a row good: an expression, or a mapping such as {distance: {columns: [x, y], to: [3, 4]}}."""
    if not isinstance(part.value, dict):
        return part.text("an expression such as price * volume")
    found = part.fields(("distance", "weighted"))
    if len(found) != 1:
        raise part.error(
            "is not one score: write {distance: {columns: [x, y], to: [3, 4]}} or {weighted: {a: 2, b: -1}}"
        )
    if "weighted" in found:
        weights = found["weighted"]
        return _built(lambda: weighted(weights.guessed()), weights, {})
    mapping = found["distance"]
    fields = mapping.fields(("columns", "to", "metric", "weights"), ["columns", "to"])
    given: dict[str, Any] = {
        "columns": fields["columns"].texts("the names of columns, such as [x, y]"),
        **{name: fields[name].guessed() for name in ("to", "weights") if name in fields},
        **({"metric": fields["metric"].choice(METRICS)} if "metric" in fields else {}),
    }
    for name in ("to", "weights"):
        if name in given and not isinstance(given[name], list):
            raise fields[name].error("is no list of numbers: write one for each column, such as [3, 4]")
    return _built(lambda: distance(**given), mapping, fields)


FIELDS: dict[str, Callable[[Part], Any]] = {
    "name": lambda part: part.text("a name"),
    "k": lambda part: part.whole("a whole number of at least 1"),
    "by": score,
    "window": window,
    "time": lambda part: part.text("the name of a column"),
    "per": lambda part: part.texts("the names of columns, such as [symbol]"),
    "id": lambda part: part.text("the name of a column"),
    "ascending": lambda part: part.flag(),
    "emit": lambda part: part.choice(EMITS),
    "ranks": lambda part: part.flag(),
    "unit": lambda part: part.text("s, ms, us or ns"),
    "prefix": lambda part: part.text("a text"),
    "version": lambda part: part.text("a text"),
}


def statement(part: Part) -> Statement:
    """The query that a mapping describes."""
    known = [*FIELDS, *(name for name in signature(TopK).parameters if name not in FIELDS and name != "join"), "join"]
    if isinstance(part.value, dict) and not part.path and "source" in part.value:
        raise part.error("is a whole pipeline file, not a query: read it with skyband.lang.load")
    ever = isinstance(part.value, dict) and "of" in part.value and "window" not in part.value  # totals of all time
    found = part.fields(known, ["k", "by"] if ever else ["k", "by", "window"])
    given = {name: FIELDS.get(name, Part.guessed)(value) for name, value in found.items() if name != "join"}
    remote = _remote(found["join"]) if "join" in found else None
    return Statement(_built(lambda: TopK(**given), part, found), remote=remote)


def _remote(part: Part) -> Remote:
    known = ("service", "on", "columns")
    entries = part.entries()
    mine = Part({name: pair for name, pair in part.value.items() if name in known}, part.place, part.path)
    found = mine.fields(known, known)
    columns = found["columns"]
    named: tuple[tuple[str, str], ...] = ()
    if isinstance(columns.value, dict):
        named = tuple((name, value.text("its name there")) for name, value in columns.entries().items())
    return Remote(
        found["service"].text("a name under services:"),
        found["on"].text("the name of a column"),
        tuple(name for name, _ in named) or columns.texts("the names of columns"),
        named,
        options=join_options({name: v.guessed() for name, v in entries.items() if name not in known}, part.path),
    )


def _built(build: Callable[[], _T], part: Part, found: dict[str, Part]) -> _T:
    """What `build` gives; what it says is wrong, at the place of the field it names."""
    try:
        return build()
    except QueryError as error:
        if isinstance(error, ParseError):
            raise
        says = _SAYS.match(str(error))
        field = found.get(says[1]) if says else None
        raise (field or part).place.error(f"{part.path}: {error}" if part.path else str(error)) from None


def described(query: TopK) -> dict[str, Any]:
    """A query as plain values, in the order and words of a pipeline file.

    Examples
    --------
    >>> described(TopK(k=3, by="x", window=Counting(10)))
    {'k': 3, 'by': 'x', 'window': {'rows': 10}}
    """
    if callable(query.by):
        msg = "by is a Python function, which cannot stand in a text: write an expression"
        raise QueryError(msg)
    window = query.window
    shown: dict[str, Any] = {"name": query.name} if query.name is not None else {}
    shown |= {"k": int(query.k), "by": _score(query.by)}
    if isinstance(window, AllTime):
        pass  # totals of all time: no window is what they have
    elif isinstance(window, Counting):
        shown["window"] = {"rows": window.size} | ({"every": window.slide} if window.slide > 1 else {})
    else:
        slide = window.slide if isinstance(window.slide, str) else in_words(window.slide)
        shown["window"] = {"size": in_words(window.size), "slide": slide}
        if window.origin:
            shown["window"]["origin"] = in_words(window.origin)
        if window.closed == "right" and window.kind == "slide":
            shown["window"]["closed"] = "right"
    for name, parameter in signature(TopK).parameters.items():
        value = getattr(query, name)
        usual = bool(getattr(query.by, "ascending", False)) if name == "ascending" else parameter.default
        if name in ("name", "k", "by", "window") or value == usual:
            continue
        shown[name] = list(value) if isinstance(value, tuple) else value
        if not all(isinstance(one, (str, int, float)) for one in (value if isinstance(value, tuple) else [value])):
            why = f", {NO_SERVICE}" if name == "join" else ": leave it out"
            msg = f"{name}={type(value).__name__} cannot stand in a text{why}"
            raise QueryError(msg)
    for name, value in shown.items():
        if any("${" in text for text in _texts(value)):  # which names a variable there
            msg = f"{name}={value!r} cannot stand in YAML with ${{ in it: rename the column"
            raise QueryError(msg)
    return shown


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value."""
    if isinstance(value, dict | list):
        for one in [*value, *(value.values() if isinstance(value, dict) else ())]:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value


def _score(by: Any) -> str | dict[str, Any]:
    if isinstance(by, Weighted):
        return {"weighted": dict(zip(by.columns, by.weights, strict=True))}
    if not isinstance(by, Distance):
        return str(by)
    shown: dict[str, Any] = {"columns": list(by.columns), "to": list(by.to)}
    if by.metric != "euclidean":
        shown["metric"] = by.metric
    return {"distance": shown | ({"weights": list(by.weights)} if by.weights else {})}
