"""Joins with the services that names in SERVICE and `join` stand for: the configuration says so, never the text."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from skyband.errors import QueryError, nearest
from skyband.lang.config import Service
from skyband.lang.text import EnvTemplate
from skyband.query import Calls, Join, Refresh
from skyband.query.join import PARTS
from skyband.query.validation import check_known, invalid

if TYPE_CHECKING:
    import pyarrow as pa


Options = tuple[tuple[str, Any], ...]
"""Fields of `sb.Join` as plain values; `refresh` and `calls` are mappings."""

SERVICE_FIELDS = tuple(field.name for field in fields(Service))
_JOIN_FIELDS = frozenset(field.name for field in fields(Join))
_OPTIONS = {
    "sparql": ("subject", "optional"),
    "sql": ("key", "schema"),
    "http": ("key", "ids", "items", "next"),
    "redis": ("key", "name"),
    "parquet": ("key",),
}


@dataclass(frozen=True)
class Remote:
    """A join as a text describes it. `service` is a name; only the configuration says what it stands for."""

    service: str
    on: str
    columns: tuple[str, ...]
    properties: tuple[tuple[str, str], ...] = ()
    """The names of columns there, such as the IRI of a property. Empty: as here."""
    options: tuple[tuple[str, Any], ...] = ()
    """Further fields of `sb.Join` as plain values; `refresh` and `calls` are mappings."""

    def sparql(self) -> str:
        """Return the query to a SPARQL endpoint, before it is narrowed to the keys of a look-up.

        Examples
        --------
        >>> Remote("BKG", "user", ("followers",), (("followers", "urn:hasFollowers"),)).sparql()
        'SELECT ?user ?followers WHERE { ?user <urn:hasFollowers> ?followers . }'
        """
        names = " ".join(f"?{name}" for name in (self.on, *self.columns))
        triples = " ".join(f"?{self.on} <{iri}> ?{name} ." for name, iri in self.properties)
        return f"SELECT {names} WHERE {{ {triples} }}"


def build_join(remote: Remote, services: Mapping[str, Any]) -> Join:
    """Build the join of a text.

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
        raise QueryError(f"SERVICE {name} must be among the services: {nearest(name, services)}")
    given = services[name]
    if callable(getattr(given, "fetch", None)):
        return Join(given, on=remote.on, columns=remote.columns, **_keywords(remote.options))
    if isinstance(given, str):
        given = {"url": given}
    service = given if isinstance(given, Service) else _service(name, given)
    keywords = _keywords(remote.options, service.join)
    return Join(_table(name, service, remote), on=remote.on, columns=remote.columns, **keywords)


def _service(name: str, given: Any) -> Service:
    if not isinstance(given, Mapping):
        example = "{'kind': ..., 'url': ...}"
        raise invalid(f"services[{name!r}]", "be an address, a table or a mapping", type(given).__name__, example)
    check_known(f"services.{name}", given, SERVICE_FIELDS)
    values = {"kind": "sparql", **given}
    values |= {field: EnvTemplate(str(values[field])) for field in ("url", "path") if field in values}
    values["options"] = tuple((option, EnvTemplate(str(value))) for option, value in given.get("options", {}).items())
    values["join"] = join_options(given.get("join", {}), f"services.{name}.join")
    try:
        return Service(**values)
    except QueryError as error:
        raise QueryError(f"services.{name}: {error}") from None


def join_options(given: Mapping[str, Any], path: str = "join") -> Options:
    """Return plain values of a join by field; keys of a former version are moved, with a warning."""
    if not isinstance(given, Mapping):
        raise invalid(path, "be a mapping", given)
    found: dict[str, Any] = {}
    for name, value in given.items():
        part = PARTS.get(name)
        if name not in _JOIN_FIELDS and part is None and isinstance(value, str) and "(" in value:
            part = "aggregates"
        if part is None:
            found[name] = value
            continue
        msg = f"{path}.{name} is deprecated: write {path}: {{{part}: {{{name}: {value}}}}}"
        warnings.warn(msg, DeprecationWarning, stacklevel=2)
        found[part] = {**found.get(part, {}), name: value}
    return tuple(found.items())


def _keywords(*options: Options) -> dict[str, Any]:
    """Build the keywords of `sb.Join`; of equal ones the last counts."""
    parts: dict[str, dict[str, Any]] = {"refresh": {}, "calls": {}}
    found: dict[str, Any] = {}
    for name, value in (pair for some in options for pair in some):
        if name not in parts:
            found[name] = value
        elif isinstance(value, Mapping):
            parts[name] |= value
        else:
            raise invalid(f"join.{name}", "be a mapping", value)
    for name, make in (("refresh", Refresh), ("calls", Calls)):
        check_known(f"join.{name}", parts[name], [field.name for field in fields(make)])
        found[name] = make(**parts[name])
    return found


def _table(name: str, service: Service, remote: Remote) -> Any:
    """Make the table, which calls nothing yet; it fills in `${NAME}` itself when it does."""
    options: dict[str, Any] = {option: value.text for option, value in service.options}
    headers = {o.removeprefix("header."): options.pop(o) for o in list(options) if o.startswith("header.")}
    check_known(f"services.{name}.options", options, _OPTIONS[service.kind])
    url, key = str(service.url), options.pop("key", remote.on)
    if service.kind == "sparql":
        return _sparql(name, url, options, remote)
    table: Any
    if service.kind == "sql":
        from skyband.tables import SqlTable

        table = SqlTable(url, str(service.table), key, **options)
    elif service.kind == "http":
        from skyband.tables import Http

        table = Http(url, key, headers=headers, **options)
    elif service.kind == "redis":
        from skyband.tables import Redis

        table = Redis(url, key, **options)
    else:
        assert service.path is not None
        table = ParquetTable(service.path, key)
    names = {here: there for here, there in remote.properties if here != there}
    return RenamedTable(table, names) if names else table


def _sparql(name: str, url: str, options: dict[str, str], remote: Remote) -> Any:
    from skyband.tables import Sparql

    if dict(remote.properties).keys() != set(remote.columns):
        must = f"have IRIs, which the SPARQL endpoint {name} knows them by"
        raise invalid("columns", must, list(remote.columns), "columns: {name: iri}")
    optional = options.pop("optional", "false").lower() == "true"
    return Sparql(url, remote.on, dict(remote.properties), optional=optional, **options)


class ParquetTable:
    """A Parquet file, read with the first look-up."""

    def __init__(self, path: EnvTemplate, key: str) -> None:
        self.path, self.key = path, key
        self._rows: Any = None

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """Return the rows of these ids."""
        if self._rows is None:
            import pyarrow.parquet as pq

            from skyband.tables import Memory

            self._rows = Memory(pq.read_table(self.path.get()), self.key)
        found: pa.Table = self._rows.fetch(ids, columns, timeout)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None}


class RenamedTable:
    """A table whose columns have other names here."""

    def __init__(self, table: Any, there: Mapping[str, str]) -> None:
        self.table, self.there, self.key = table, dict(there), table.key

    def fetch(self, ids: Sequence[object], columns: Sequence[str], timeout: float | None = None) -> pa.Table:
        """Return the rows of these ids, under the names used here."""
        there = [self.there.get(name, name) for name in columns]
        found: pa.Table = self.table.fetch(ids, there, timeout)
        return found.select([self.key, *there]).rename_columns([self.key, *columns])
