"""Both ends of a pipeline, and the services it joins: which fields each kind needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skyband.lang.job import FILES, MODES, SERVICES, SINKS, SOURCES, Input, Output, Service
from skyband.lang.services import join_options
from skyband.query.trees import parsed

if TYPE_CHECKING:
    from skyband.lang.document import Part

_CONNECTED: dict[str, dict[str, tuple[str, ...]]] = {  # what a kind needs, and the options that may say it instead
    "kafka": {
        "url": ("kafka.bootstrap.servers",),
        "topic": ("subscribe", "subscribePattern", "assign"),
    },
    "redis": {"url": (), "topic": ()},
    "mqtt": {"url": (), "topic": ()},
}
_RATE = ("timestamp", "value")


def source(part: Part) -> Input:
    """Where rows come from."""
    found = part.fields(("kind", "path", "url", "topic", "schema", "idle", "options"), ["kind"])
    kind = found["kind"].choice(SOURCES)
    options = found["options"].options() if "options" in found else ()
    _check_needs(part, kind, found, dict(options))
    if kind == "rate" and "schema" in found:
        raise found["schema"].error("is fixed for rate, to timestamp and value: leave it out")
    if kind in _CONNECTED and "schema" not in found:
        raise part.error(f'has no schema, so what {kind} sends cannot be read: add schema: "ts timestamp, ..."')
    if "idle" in found and kind not in ("redis", "mqtt"):
        raise found["idle"].error(f"must be left out with kind: {kind}; the kinds redis and mqtt have it")
    columns = _columns(found["schema"]) if "schema" in found else _RATE if kind == "rate" else None
    return Input(
        kind,
        **{name: found[name].late() for name in ("path", "url", "topic") if name in found},
        schema=found["schema"].text() if "schema" in found else None,
        columns=columns,
        idle=found["idle"].length() if "idle" in found else None,
        options=options,
    )


def _check_needs(part: Part, kind: str, found: dict[str, Part], options: dict[str, Any]) -> None:
    """Refuse a source or sink that cannot be opened, and fields that it would not look at."""
    if kind in FILES and "path" not in found:
        raise part.error(f"has no path: add path: folder/, where the {kind} files are")
    for name, instead in _CONNECTED.get(kind, {}).items():
        if name not in found and not any(option in options for option in instead):
            raise part.error(f"has no {name}, which {kind} needs: add {name}: ...")
    for name in ("path", "url", "topic"):
        wanted = name == "path" if kind in FILES else name in _CONNECTED.get(kind, {})
        wanted = wanted or (kind == "latest" and name == "url")
        if name in found and not wanted:
            raise found[name].error(f"says nothing with kind: {kind}; leave it out")


def _columns(part: Part) -> tuple[str, ...]:
    """The names in a schema, which is checked on the way."""
    import sqlglot

    text = part.text('columns and types, such as "ts timestamp, price double"')
    try:
        [tree] = parsed(f"CREATE TABLE t ({text})")
        table: Any = tree and tree.this
        found = [column for column in table.expressions if column.args.get("kind") is not None]
        whole = bool(found) and len(found) == len(table.expressions)
    except (sqlglot.errors.SqlglotError, AttributeError, RecursionError, ValueError):  # no table, or not one alone
        whole = False
    if not whole:
        raise part.error(f'is {part.shown()}: write columns and types, such as "ts timestamp, price double"')
    return tuple(column.name for column in found)


def sink(part: Part, name: str) -> Output:
    """Where answers go; `name` is that of the job."""
    if isinstance(part.value, str):
        kind = part.choice(SINKS)
        if kind in ("console", "memory"):
            return Output(kind, table=name if kind == "memory" else None)
        raise part.error(f"is {kind}, which needs more: write {{kind: {kind}, ...}}")
    found = part.fields(("kind", "path", "url", "topic", "table", "mode", "options"), ["kind"])
    kind = found["kind"].choice(SINKS)
    options = found["options"].options() if "options" in found else ()
    _check_needs(part, kind, found, {"subscribe": True} if "topic" in dict(options) else dict(options))
    table = found["table"].text("the name of a table") if "table" in found else None
    if kind == "latest" and ("url" not in found or table is None):
        raise part.error('needs a database and a table: write {kind: latest, url: "sqlite:///leaders.db", table: ...}')
    if table is not None and kind not in ("latest", "memory"):
        raise found["table"].error(f"says nothing with kind: {kind}; leave it out")
    return Output(
        kind,
        **{field: found[field].late() for field in ("path", "url", "topic") if field in found},
        table=table or (name if kind == "memory" else None),
        mode=found["mode"].choice(MODES) if "mode" in found else "append",
        options=options,
    )


def service(part: Part) -> Service:
    """What a name in a join stands for."""
    found = part.fields(("kind", "url", "path", "table", "options", "join"), ["kind"])
    kind = found["kind"].choice(SERVICES)
    if "join" in found:
        found["join"].entries()
    need = "path" if kind == "parquet" else "url"
    if need not in found:
        raise part.error(f"has no {need}, which {kind} needs: add {need}: ...")
    return Service(
        kind,
        **{field: found[field].late() for field in ("url", "path") if field in found},
        table=found["table"].text("the name of a table") if "table" in found else None,
        options=found["options"].options() if "options" in found else (),
        join=join_options(found["join"].guessed(), found["join"].path) if "join" in found else (),
    )
