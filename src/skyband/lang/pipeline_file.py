"""Pipeline files: YAML that says where rows come from, which queries run, and where answers go."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from skyband.errors import QueryError, SourceError, TableError, nearest
from skyband.lang.config import Cluster, Input, Output, Service, Trigger, Watermark
from skyband.lang.query_yaml import build, read_query
from skyband.lang.services import SERVICE_FIELDS, join_options
from skyband.lang.text import Position
from skyband.lang.yaml_node import YamlNode, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from skyband.lang.services import Remote
    from skyband.lang.statement import Statement
    from skyband.lang.text import EnvTemplate
    from skyband.query import TopK

FIELDS = (
    "name", "source", "watermark", "ahead", "ahead_of_clock", "query", "queries", "sql", "rspql", "early", "sink",
    "checkpoint", "trigger", "spark", "services",
)  # fmt: skip
_QUERY_FIELDS = ("query", "queries", "sql", "rspql")
_TRIGGER = "{every: 5 seconds}, {available_now: true} or once"
_T = TypeVar("_T", Input, Output, Service)


@dataclass(frozen=True)
class Job:
    """The content of a pipeline file; `sb.lang.load` reads one.

    Texts that may hold secrets are `EnvTemplate`: they keep `${NAME}` as written, and `get()` fills it in.

    Examples
    --------
    >>> from skyband.lang import load
    >>> job = load('''
    ... name: trades
    ... source: {kind: parquet, path: trades/, schema: "ts timestamp, symbol string, price double"}
    ... watermark: 10 seconds
    ... query: {k: 3, by: price, window: 10 minutes/1 minute, time: ts, per: symbol}
    ... ''')
    >>> job.queries[0].k, job.watermark, job.sink.kind
    (3, Watermark(column='ts', delay='10 seconds'), 'console')
    """

    name: str
    source: Input
    statements: tuple[Statement, ...]
    sink: Output = field(default_factory=Output)
    watermark: Watermark | None = None
    ahead_of_clock: str | None = None
    """How far ahead of the clock the time of a row may be."""
    early: bool = False
    checkpoint: EnvTemplate | None = None
    trigger: Trigger = field(default_factory=Trigger)
    spark: Cluster = field(default_factory=Cluster)
    services: tuple[tuple[str, Service], ...] = ()

    @property
    def queries(self) -> tuple[TopK, ...]:
        """The queries alone."""
        return tuple(statement.query for statement in self.statements)

    @property
    def remotes(self) -> tuple[Remote | None, ...]:
        """The join of each query, if it has one."""
        return tuple(statement.remote for statement in self.statements)


def load(file: str | Path) -> Job:
    """Read a pipeline file: a path to it, or its text.

    Every error says file, line and column, and what to write instead. Nothing is opened or contacted, and no
    environment variable is read.

    Examples
    --------
    >>> load("source: {kind: parqet}")
    Traceback (most recent call last):
        ...
    skyband.errors.ParseError: line 1, column 16: source: kind must be one of 'parquet', ... got 'parqet': did you ...
    """
    if isinstance(file, str) and "\n" not in file and (":" not in file or file.endswith((".yaml", ".yml"))):
        file = Path(file)
    if isinstance(file, str):
        return read_job(read_yaml(file))
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise SourceError(
            f"pipeline={str(file)!r} cannot be read: {error.strerror}; `skyband init` writes one"
        ) from None
    except UnicodeDecodeError:
        raise SourceError(f"pipeline={str(file)!r} must be UTF-8 text: save it as UTF-8") from None
    return read_job(read_yaml(text, Position(file=file.name if len(str(file)) > 60 else str(file))))


def read_job(node: YamlNode) -> Job:
    """Read the job in a document."""
    found = node.fields(FIELDS)
    if "source" not in found:
        raise node.error("must have a source: add source: {kind: parquet, path: ...}")
    source = _configured(Input, found["source"])
    statements = _statements(node, found)
    query_node = found[next(name for name in _QUERY_FIELDS if name in found)]
    _check_columns(query_node, source, statements)
    early = found["early"].flag() if "early" in found else False
    if early and any(one.query.emit != "answers" for one in statements):
        raise found["early"].error("must be false unless every query has emit: answers")
    services = {
        name: _configured(Service, one)
        for name, one in (found["services"].entries() if "services" in found else {}).items()
    }
    name = found["name"].text("a name") if "name" in found else "skyband"
    statements = tuple(_with_services(one, query_node, services) for one in statements)
    return Job(
        name=name,
        source=source,
        statements=statements,
        sink=_sink(found["sink"], name) if "sink" in found else Output(),
        watermark=_watermark(node, found.get("watermark"), statements),
        ahead_of_clock=_ahead_of_clock(found),
        early=early,
        checkpoint=found["checkpoint"].template("a path") if "checkpoint" in found else None,
        trigger=_trigger(found["trigger"]) if "trigger" in found else Trigger(),
        spark=_cluster(found["spark"]) if "spark" in found else Cluster(),
        services=tuple(services.items()),
    )


def _configured(make: type[_T], node: YamlNode, **values: Any) -> _T:
    """Read a source, sink or service: fields by what they hold."""
    readers: dict[str, Callable[[YamlNode], Any]] = {
        **dict.fromkeys(("path", "url", "topic"), YamlNode.template),
        "options": YamlNode.settings,
        "idle": YamlNode.duration,
        "join": lambda one: join_options(one.guess(), one.path),
    }
    names = SERVICE_FIELDS if make is Service else make.__dataclass_fields__
    found = node.fields(names, ["kind"])
    values |= {name: readers.get(name, YamlNode.text)(one) for name, one in found.items()}
    return build(lambda: make(**values), node, found)


def _sink(node: YamlNode, name: str) -> Output:
    if isinstance(node.value, str):
        table = {"table": name} if node.value == "memory" else {}
        return build(lambda: Output(node.text(), **table), node, {"kind": node})  # type: ignore[arg-type]
    memory = isinstance(node.value, dict) and "kind" in node.value and node.entries()["kind"].value == "memory"
    return _configured(Output, node, **({"table": name} if memory else {}))


def _ahead_of_clock(found: dict[str, YamlNode]) -> str | None:
    if "ahead" in found:  # on Spark the newest time is not known before rows have moved the watermark
        length = found["ahead"].duration()
        raise found["ahead"].error(
            f"is the distance from the newest time seen, which is known in process only: write ahead_of_clock: "
            f"{length}, the distance from the clock"
        )
    return found["ahead_of_clock"].duration() if "ahead_of_clock" in found else None


def _statements(node: YamlNode, found: dict[str, YamlNode]) -> tuple[Statement, ...]:
    given = [name for name in _QUERY_FIELDS if name in found]
    if not given:
        raise node.error("must have a query: add query: {k: 10, by: price, window: ..., time: ts}")
    if len(given) > 1:
        raise found[given[1]].error(f"must not stand beside {given[0]}: keep one; queries: [...] holds several")
    [name], query_node = given, found[given[0]]
    if name in ("sql", "rspql"):
        return (_from_text(name, query_node),)
    if name == "query":
        return (_statement(query_node),)
    if not isinstance(query_node.value, list) or not query_node.value:
        raise query_node.wrong("a list of queries: write - {k: ...} for each")
    statements = tuple(map(_statement, query_node.value))
    names: dict[str, YamlNode] = {}
    for one, item in zip(statements, query_node.value, strict=True):
        if one.query.name is not None and names.setdefault(one.query.name, item) is not item:
            raise item.error(f"must have a name of its own, got {one.query.name!r} again")
    return statements


def _statement(node: YamlNode) -> Statement:
    """Read a query in fields, or one in a language: {sql: ...}."""
    if isinstance(node.value, dict):
        for language in ("sql", "rspql"):
            if language in node.value:
                return _from_text(language, node.fields([language], [language])[language])
    return read_query(node)


def _from_text(language: str, node: YamlNode) -> Statement:
    from skyband.lang.parse import parse_at

    return parse_at(node.text(f"a query in {language}", variables=True), language, node.inner or node.position)


def _check_columns(query_node: YamlNode, source: Input, statements: tuple[Statement, ...]) -> None:
    """Raise if the schema of the source lacks a column that a query names."""
    if source.columns is None:
        return
    for one in statements:
        query, remote = one.query, one.remote
        if one.pattern is not None:
            continue  # its columns are made of triples
        joined = (*remote.columns, *dict(remote.options).get("aggregates", ())) if remote else ()
        known = [*source.columns, *joined]
        named = {"time": (query.time,), "id": (query.id,), "per": query.per, "of": query.of}
        named["by"] = () if callable(query.by) else query.by.columns
        for key, name in ((key, name) for key, names in named.items() for name in names):
            if name is not None and name not in known:
                at = query_node.entries().get(key, query_node) if isinstance(query_node.value, dict) else query_node
                raise at.error(f"names column {name!r}, which source.schema does not have: {nearest(name, known)}")


def _watermark(node: YamlNode, given: YamlNode | None, statements: tuple[Statement, ...]) -> Watermark | None:
    times = [one.query.time for one in statements if not one.query.window.counts]
    if given is None:
        if times:
            example = f"watermark: {{column: {times[0]}, delay: 10 seconds}}"
            raise node.error(f"must have a watermark, without which no window closes: add {example}")
        return None
    column = times[0] if times else None
    if isinstance(given.value, str):
        delay = given.duration()
    else:
        fields = given.fields(("column", "delay", "late"))
        if ("delay" in fields) == ("late" in fields):
            raise given.error("must have one delay: write {column: ts, delay: 10 seconds}")
        column = fields["column"].text("the name of a column") if "column" in fields else column
        delay = (fields.get("delay") or fields["late"]).duration()
    if column is None:
        raise given.error("must have a column, since no query has a time: write {column: ts, delay: ...}")
    for time in times:
        if time != column:
            raise given.error(f"must be on the time column {time!r} of the query, got {column!r}")
    return Watermark(column, delay)


def _trigger(node: YamlNode) -> Trigger:
    if isinstance(node.value, str):
        for kind in ("once", "available_now", "always"):
            if node.value == kind:
                return Trigger(kind)
        raise node.wrong(_TRIGGER)
    found = node.fields(("every", "available_now", "once"))
    if "every" in found and len(found) == 1:
        every = found["every"].duration()
        if every.startswith("0 "):
            raise found["every"].error("must be above zero: leave trigger out for no pause")
        return Trigger("every", every)
    chosen = [kind for kind in ("available_now", "once") if kind in found and found[kind].flag()]
    if len(chosen) != 1 or "every" in found:
        raise node.error(f"must be one of {_TRIGGER}, got {', '.join(found) or 'nothing'}")
    return Trigger("once" if chosen == ["once"] else "available_now")


def _cluster(node: YamlNode) -> Cluster:
    found = node.fields(("master", "settings"))
    return Cluster(
        found["master"].template("local[2], or the address of a cluster") if "master" in found else None,
        found["settings"].settings() if "settings" in found else (),
    )


def _with_services(statement: Statement, query_node: YamlNode, services: dict[str, Service]) -> Statement:
    name = None if statement.remote is None else statement.remote.service
    if name is not None and name not in services:
        raise query_node.error(f"joins {name!r}, which is not under services: {nearest(name, services)}")
    try:
        return statement.with_services(services)
    except (QueryError, TableError) as error:
        raise query_node.error(str(error)) from None
