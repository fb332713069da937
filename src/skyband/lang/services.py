"""What the names in SERVICE and `join` stand for: only what the configuration says, never what a text says."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError, nearest
from skyband.lang.job import SERVICES, Service
from skyband.lang.late import Late
from skyband.query import Calls, Join, Refresh
from skyband.query.join import PARTS

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.lang.statement import Remote

Options = tuple[tuple[str, Any], ...]
"""Keywords of `sb.Join` as plain values; `refresh` and `calls` are mappings."""

JOIN_FIELDS = frozenset(field.name for field in fields(Join))
_OPTIONS = {
    "sparql": ("subject", "optional"),
    "sql": ("key", "schema"),
    "http": ("key", "ids", "items", "next"),
    "redis": ("key", "name"),
    "parquet": ("key",),
}


def joined(remote: Remote, services: Mapping[str, Any]) -> Join:
    """The join that a text asks for, with the service that its name stands for.

    Parameters
    ----------
    remote
        What the text says.
    services
        By name: the address of a SPARQL endpoint, a table with `fetch`, a `Service` of a pipeline file, or a mapping
        with its fields, such as {"kind": "http", "url": "https://...", "join": {"refresh": {"budget": 7}}}.
    """
    name = remote.service
    if name not in services:
        msg = f"SERVICE {name} is not among the services: {nearest(name, services)}"
        raise QueryError(msg)
    given = services[name]
    if callable(getattr(given, "fetch", None)):
        return Join(given, on=remote.on, columns=remote.columns, **join_keywords(remote.options))
    if isinstance(given, str):
        given = Service("sparql", Late(given))
    if isinstance(given, Mapping):
        given = _service(name, given)
    if not isinstance(given, Service):
        msg = f"services={name!r} is {type(given).__name__}: give an address, a table, or {{'kind': ..., 'url': ...}}"
        raise QueryError(msg)
    return Join(
        _table(name, given, remote), on=remote.on, columns=remote.columns, **join_keywords(remote.options, given.join)
    )


def join_keywords(*options: Options) -> dict[str, Any]:
    """Build the keywords of `sb.Join` from plain values; what comes later goes before."""
    parts: dict[str, dict[str, Any]] = {"refresh": {}, "calls": {}}
    found: dict[str, Any] = {}
    for name, value in (pair for some in options for pair in some):
        if name not in parts:
            found[name] = value
        elif isinstance(value, Mapping):
            parts[name] |= value
        else:
            msg = f"join.{name} must be a mapping, got {value!r}"
            raise QueryError(msg)
    for name, make in (("refresh", Refresh), ("calls", Calls)):
        known = [field.name for field in fields(make)]
        for field in parts[name]:
            if field not in known:
                msg = f"join.{name} has no field {field!r}: {nearest(field, known)}"
                raise QueryError(msg)
        found[name] = make(**parts[name])
    return found


def join_options(given: Mapping[str, Any], path: str = "join") -> Options:
    """Return plain values of a join by field; former keys are moved to where they are now, with a warning."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        part = PARTS.get(name)
        if name not in JOIN_FIELDS and part is None and isinstance(value, str) and "(" in value:
            part = "aggregates"
        if part is None:
            found[name] = value
            continue
        msg = f"{path}.{name} is deprecated: write {path}: {{{part}: {{{name}: {value}}}}}"
        warnings.warn(msg, DeprecationWarning, stacklevel=2)
        found[part] = {**found.get(part, {}), name: value}
    return tuple(found.items())


def _service(name: str, given: Mapping[str, Any]) -> Service:
    known = ("kind", "url", "path", "table", "options", "join")
    for field in given:
        if field not in known:
            msg = f"services: {name} has no field {field!r}: {nearest(str(field), known)}"
            raise QueryError(msg)
    late = {field: Late(str(given[field])) for field in ("url", "path") if field in given}
    options = tuple((option, Late(str(value))) for option, value in dict(given.get("options", {})).items())
    join = join_options(dict(given.get("join", {})), f"services.{name}.join")
    return Service(given.get("kind", "sparql"), **late, table=given.get("table"), options=options, join=join)


def _table(name: str, service: Service, remote: Remote) -> Any:
    """The table, which knows its address and has not been asked yet; `${NAME}` in it is filled when it is."""
    if service.kind not in SERVICES:
        msg = f"services: {name} has the kind {service.kind!r}: {nearest(service.kind, SERVICES)}"
        raise QueryError(msg)
    options = {option: late.text for option, late in service.options}
    headers = {o.removeprefix("header."): options.pop(o) for o in list(options) if o.startswith("header.")}
    for option in options:
        if option not in _OPTIONS[service.kind]:
            msg = f"services: {name} has no option {option!r}: {nearest(option, _OPTIONS[service.kind])}"
            raise QueryError(msg)
    where = service.path if service.kind == "parquet" else service.url
    if where is None:
        msg = f"services: {name} has no {'path' if service.kind == 'parquet' else 'url'}: add one"
        raise QueryError(msg)
    if service.kind == "sparql":
        return _sparql(name, where.text, options, remote)
    key = options.pop("key", remote.on)
    table: Any
    if service.kind == "sql":
        from skyband.tables import SqlTable

        if service.table is None:
            msg = f"services: {name} names no table: add table: ..."
            raise QueryError(msg)
        table = SqlTable(where.text, service.table, key, schema=options.get("schema"))
    elif service.kind == "http":
        from skyband.tables import Http

        table = Http(where.text, key, headers=headers, **options)
    elif service.kind == "redis":
        from skyband.tables import Redis

        table = Redis(where.text, key, name=options.get("name", "{}"))
    else:
        table = File(where, key)
    names = {here: there for here, there in remote.properties if here != there}
    return Renamed(table, names) if names else table


def _sparql(name: str, url: str, options: dict[str, str], remote: Remote) -> Any:
    from skyband.tables import Sparql

    if {column for column, _ in remote.properties} != set(remote.columns):
        msg = f"services: {name} is a SPARQL endpoint, where a column is a property: write columns: {{name: iri}}"
        raise QueryError(msg)
    optional = options.get("optional", "false").lower() == "true"
    return Sparql(url, remote.on, dict(remote.properties), subject=options.get("subject", "{}"), optional=optional)


class File:
    """A Parquet file, read when it is first asked."""

    def __init__(self, path: Late, key: str) -> None:
        self.path, self.key = path, key
        self._rows: Any = None

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The rows of those ids."""
        if self._rows is None:
            import pyarrow.parquet as pq

            from skyband.tables import Memory

            self._rows = Memory(pq.read_table(self.path.get()), self.key)
        found: pa.Table = self._rows.fetch(ids, columns, timeout)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """What travels: where the file is."""
        return {**self.__dict__, "_rows": None}


class Renamed:
    """A table whose columns are called otherwise here."""

    def __init__(self, table: Any, there: Mapping[str, str]) -> None:
        self.table, self.there, self.key = table, dict(there), table.key

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """The rows of those ids, under the names used here."""
        found: pa.Table = self.table.fetch(ids, [self.there.get(name, name) for name in columns], timeout)
        return found.select([self.key, *(self.there.get(name, name) for name in columns)]).rename_columns(
            [self.key, *columns]
        )
