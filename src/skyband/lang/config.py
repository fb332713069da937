"""The parts of a pipeline file besides its queries, as values that are validated when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from skyband.lang.text import EnvTemplate, Settings, fill_settings
from skyband.query.trees import column_names
from skyband.query.validation import check_choice, invalid

SourceKind = Literal["parquet", "json", "csv", "kafka", "rate", "redis", "mqtt"]
SinkKind = Literal["console", "parquet", "json", "csv", "memory", "latest", "kafka"]
ServiceKind = Literal["sparql", "sql", "http", "redis", "parquet"]
Mode = Literal["append", "update", "complete", "overwrite"]
TriggerKind = Literal["always", "every", "available_now", "once"]

_FILE: dict[str, tuple[str, ...]] = {"path": ()}
_ADDRESS: dict[str, tuple[str, ...]] = {"url": ()}
_STREAM: dict[str, tuple[str, ...]] = {"url": (), "topic": ()}


class _Configured:
    """A kind with the fields that it needs, each with the options that may say the same."""

    kind: str
    options: Settings
    NEEDS: ClassVar[Mapping[str, Mapping[str, tuple[str, ...]]]]
    CHECKED: ClassVar[tuple[str, ...]] = ("path", "url", "topic")

    def check_needs(self) -> None:
        """Raise if a field is missing, or given to a kind that does not use it."""
        check_choice("kind", self.kind, self.NEEDS)
        needed, options = self.NEEDS[self.kind], dict(self.options)
        for name, instead in needed.items():
            if getattr(self, name) is None and not any(option in options for option in instead):
                raise invalid(name, f"be given with kind: {self.kind}", None, f"{name}: ...")
        for name in self.CHECKED:
            if getattr(self, name) is not None and name not in needed:
                raise invalid(name, f"be left out with kind: {self.kind}", str(getattr(self, name)))

    def settings(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the options with their variables filled in."""
        return fill_settings(self.options, environ)


@dataclass(frozen=True)
class Input(_Configured):
    """Where rows come from."""

    kind: SourceKind
    path: EnvTemplate | None = None
    url: EnvTemplate | None = None
    topic: EnvTemplate | None = None
    schema: str | None = None
    """Columns and types, as Spark's DDL: "ts timestamp, price double"."""
    idle: str | None = None
    """After how long without a row time goes on by itself."""
    options: Settings = ()
    NEEDS = {  # noqa: RUF012 - a constant
        **dict.fromkeys(("parquet", "json", "csv"), _FILE),
        **dict.fromkeys(("redis", "mqtt"), _STREAM),
        "kafka": {
            "url": ("kafka.bootstrap.servers",),
            "topic": ("subscribe", "subscribePattern", "assign"),
        },
        "rate": {},
    }

    def __post_init__(self) -> None:
        self.check_needs()
        if self.schema is None and "topic" in self.NEEDS[self.kind]:
            raise invalid("schema", f"be given with kind: {self.kind}", None, 'schema: "ts timestamp, ..."')
        if self.schema is not None and self.kind == "rate":
            raise invalid("schema", "be left out with kind: rate, which has timestamp and value", self.schema)
        if self.idle is not None and self.NEEDS[self.kind] is not _STREAM:
            raise invalid("idle", f"be left out with kind: {self.kind}; redis and mqtt have it", self.idle)
        if self.schema is not None and self.columns is None:
            raise invalid("schema", "be columns and types", self.schema, '"ts timestamp, price double"')

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns, where the schema has them."""
        if self.kind == "rate":
            return ("timestamp", "value")
        return None if self.schema is None else column_names(self.schema)


@dataclass(frozen=True)
class Output(_Configured):
    """Where answers go."""

    kind: SinkKind = "console"
    path: EnvTemplate | None = None
    url: EnvTemplate | None = None
    topic: EnvTemplate | None = None
    table: str | None = None
    mode: Mode = "append"
    options: Settings = ()
    CHECKED = ("path", "url", "topic", "table")
    NEEDS = {  # noqa: RUF012 - a constant
        "console": {},
        **dict.fromkeys(("parquet", "json", "csv"), _FILE),
        "memory": {"table": ()},
        "latest": {"url": (), "table": ()},
        "kafka": {"url": ("kafka.bootstrap.servers",), "topic": ("topic",)},
    }

    def __post_init__(self) -> None:
        self.check_needs()
        check_choice("mode", self.mode, get_args(Mode))


@dataclass(frozen=True)
class Service(_Configured):
    """What a name in SERVICE or `join` stands for."""

    kind: ServiceKind
    url: EnvTemplate | None = None
    path: EnvTemplate | None = None
    table: str | None = None
    options: Settings = ()
    join: tuple[tuple[str, Any], ...] = ()
    """Fields of `sb.Join` as plain values, such as {refresh: {budget: 7}}."""
    CHECKED = ()
    NEEDS = {  # noqa: RUF012 - a constant
        **dict.fromkeys(("sparql", "http", "redis"), _ADDRESS),
        "sql": {"url": (), "table": ()},
        "parquet": _FILE,
    }

    def __post_init__(self) -> None:
        self.check_needs()


@dataclass(frozen=True)
class Watermark:
    """How far behind the newest time a row may come and still count."""

    column: str
    delay: str


@dataclass(frozen=True)
class Trigger:
    """When batches start: "always" (as soon as the last one is done), "every" so often, "available_now" or "once".

    "available_now" processes all there is, then stops; "once" does the same in one batch.
    """

    kind: TriggerKind = "always"
    every: str | None = None


@dataclass(frozen=True)
class Cluster:
    """The Spark that runs the pipeline."""

    master: EnvTemplate | None = None
    options: Settings = ()

    def settings(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the settings with their variables filled in."""
        return fill_settings(self.options, environ)
