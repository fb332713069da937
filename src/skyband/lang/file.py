"""The pipeline file: read, checked, and written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.errors import QueryError, SourceError, TableError, nearest
from skyband.lang.document import Part, read
from skyband.lang.ends import service, sink, source
from skyband.lang.job import Cluster, Input, Job, Output, Service, Trigger, Watermark
from skyband.lang.question import statement

if TYPE_CHECKING:
    from skyband.lang.statement import Statement

FIELDS = (
    "name", "source", "watermark", "ahead", "ahead_of_clock", "query", "queries", "sql", "rspql", "early", "sink",
    "checkpoint", "trigger", "spark", "services",
)  # fmt: skip
_ASKED = ("query", "queries", "sql", "rspql")


def load(file: str | Path) -> Job:
    """The job that a pipeline file describes: a path to it, or its text.

    Every error says file, line and column, and what to write instead. Nothing is opened or contacted, and no
    environment variable is read.

    Examples
    --------
    >>> load("source: {kind: parqet}")
    Traceback (most recent call last):
        ...
    skyband.errors.ParseError: line 1, column 16: source.kind 'parqet' is unknown: did you mean parquet? ...
    """
    if isinstance(file, str) and "\n" not in file and (":" not in file or file.endswith((".yaml", ".yml"))):
        file = Path(file)
    if isinstance(file, str):
        return job(read(file))
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"pipeline={str(file)!r} cannot be read: {error.strerror}; `skyband init` writes one"
        raise SourceError(msg) from None
    except UnicodeDecodeError:
        msg = f"pipeline={str(file)!r} is no UTF-8 text: save it as UTF-8"
        raise SourceError(msg) from None
    return job(read(text, file.name if len(str(file)) > 60 else str(file)))


def job(part: Part) -> Job:
    """The job in a document."""
    found = part.fields(FIELDS)
    if "source" not in found:
        raise part.error("has no source: add source: {kind: parquet, path: ...}")
    rows = source(found["source"])
    asked = _statements(part, found)
    _check_columns(found, rows, asked)
    early = found["early"].flag() if "early" in found else False
    if early and any(one.query.emit != "answers" for one in asked):
        raise found["early"].error("goes with emit: answers only: leave one of them out")
    services = tuple((name, service(one)) for name, one in _entries(found, "services"))
    asked = _with_services(found, asked, dict(services))
    name = found["name"].text("a name") if "name" in found else "skyband"
    return Job(
        name=name,
        source=rows,
        statements=asked,
        sink=sink(found["sink"], name) if "sink" in found else Output(),
        watermark=_watermark(part, found, asked),
        ahead_of_clock=_ahead_of_clock(found),
        early=early,
        checkpoint=found["checkpoint"].late("a path") if "checkpoint" in found else None,
        trigger=_trigger(found["trigger"]) if "trigger" in found else Trigger(),
        spark=_cluster(found["spark"]) if "spark" in found else Cluster(),
        services=services,
    )


def _ahead_of_clock(found: dict[str, Part]) -> str | None:
    if "ahead" in found:  # on Spark the newest time is not known before rows have moved the watermark
        length = found["ahead"].length()
        raise found["ahead"].error(
            f"means ahead of the newest time seen, which only runs in process know: write ahead_of_clock: {length}, "
            f"which is ahead of the clock"
        )
    return found["ahead_of_clock"].length() if "ahead_of_clock" in found else None


def _entries(found: dict[str, Part], name: str) -> Iterable[tuple[str, Part]]:
    return found[name].entries().items() if name in found else ()


def _statements(part: Part, found: dict[str, Part]) -> tuple[Statement, ...]:
    ways = [name for name in _ASKED if name in found]
    if not ways:
        raise part.error("asks nothing: add query: {k: 10, by: price, window: ..., time: ts}")
    if len(ways) > 1:
        raise found[ways[1]].error(f"stands beside {ways[0]}: keep one; queries: [...] holds several")
    way = ways[0]
    if way in ("sql", "rspql"):
        return (_text(way, found[way]),)
    if way == "query":
        return (_question(found[way]),)
    if not found[way].items() or not isinstance(found[way].value, list):
        raise found[way].error("is no list of queries: write - {k: ...} for each")
    asked = tuple(_question(item) for item in found[way].items())
    names: dict[str, Part] = {}
    for one, item in zip(asked, found[way].items(), strict=True):
        if one.query.name is not None and names.setdefault(one.query.name, item) is not item:
            raise item.error(f"has the name {one.query.name!r}, as another query has: give each its own")
    return asked


def _question(part: Part) -> Statement:
    """A query in fields, or one in a language: {sql: ...}."""
    if isinstance(part.value, dict):
        for way in ("sql", "rspql"):
            if way in part.value:
                return _text(way, part.fields([way], [way])[way])
    return statement(part)


def _text(language: str, part: Part) -> Statement:
    from skyband.lang.parse import parse_at

    text = part.text(f"a query in {language}", variables=True)
    return parse_at(text, language, part.inner or part.place)


def _check_columns(found: dict[str, Part], rows: Input, asked: tuple[Statement, ...]) -> None:
    """Whether the source has the columns that the queries name, where its schema tells."""
    if rows.columns is None:
        return
    at = found[next(name for name in _ASKED if name in found)]
    for one in asked:
        query, remote = one.query, one.remote
        if one.pattern is not None:
            continue  # its columns are made of triples
        joined = (*remote.columns, *dict(remote.options).get("aggregates", ())) if remote else ()
        known = [*rows.columns, *joined]
        wanted = [("time", query.time), ("id", query.id), *(("per", name) for name in query.per)]
        wanted += [("of", name) for name in query.of]
        wanted += [] if callable(query.by) else [("by", name) for name in query.by.columns]
        for field, name in wanted:
            if name is not None and name not in known:
                place = at.entries().get(field, at) if isinstance(at.value, dict) else at
                raise place.error(f"names column {name!r}, which source.schema does not have: {nearest(name, known)}")


def _watermark(part: Part, found: dict[str, Part], asked: tuple[Statement, ...]) -> Watermark | None:
    times = [one.query.time for one in asked if not one.query.window.counts]
    given = found.get("watermark")
    if given is None:
        if times:
            raise part.error(
                f"has no watermark, so no window could ever close: add watermark: {{column: {times[0]}, "
                f"delay: 10 seconds}}, which is how late a row may come"
            )
        return None
    if isinstance(given.value, str):
        column, delay = times[0] if times else None, given.length()
    else:
        fields = given.fields(("column", "delay", "late"))
        if ("delay" in fields) == ("late" in fields):
            raise given.error("needs one length of time: write {column: ts, delay: 10 seconds}")
        column = fields["column"].text("the name of a column") if "column" in fields else times[0] if times else None
        delay = fields["delay" if "delay" in fields else "late"].length()
    if column is None:
        raise given.error("has no column, and no query has a time to take it from: write {column: ts, delay: ...}")
    for time in times:
        if time != column:
            raise given.error(f"is on {column!r}, but a query's time is {time!r}: use one column for both")
    return Watermark(column, delay)


def _trigger(part: Part) -> Trigger:
    example = "{every: 5 seconds}, {available_now: true}, or once"
    if isinstance(part.value, str):
        if part.value in ("once", "available_now", "always"):
            return Trigger(part.value)
        raise part.error(f"is {part.shown()}: write {example}")
    found = part.fields(("every", "available_now", "once"))
    if "every" in found and len(found) == 1:
        every = found["every"].length()
        if every.startswith("0 "):
            raise found["every"].error("is no time at all: leave trigger out to go on without a pause")
        return Trigger("every", every)
    chosen = [name for name, value in found.items() if name != "every" and value.flag()]
    if len(chosen) != 1 or "every" in found:
        raise part.error(f"is not one way to go on: write {example}")
    return Trigger(chosen[0])


def _cluster(part: Part) -> Cluster:
    found = part.fields(("master", "settings"))
    return Cluster(
        found["master"].late("local[2], or the address of a cluster") if "master" in found else None,
        found["settings"].options() if "settings" in found else (),
    )


def _with_services(
    found: dict[str, Part], asked: tuple[Statement, ...], known: dict[str, Service]
) -> tuple[Statement, ...]:
    """The statements with the services that their names stand for; nothing is contacted."""
    joined = []
    for one in asked:
        at = found[next(name for name in _ASKED if name in found)]
        if one.remote is not None and one.remote.service not in known:
            name = one.remote.service
            raise at.error(f"joins {name!r}, which is not under services: {nearest(name, known)}")
        try:
            joined.append(one.with_services(known))
        except (QueryError, TableError) as error:
            raise at.error(str(error)) from None
    return tuple(joined)
