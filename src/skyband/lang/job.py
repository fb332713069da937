"""A pipeline file as values: from where, what is asked, to where, how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skyband.lang.late import Late, Options, filled

if TYPE_CHECKING:
    from skyband.lang.statement import Remote, Statement
    from skyband.query import TopK

FILES = ("parquet", "json", "csv")
SOURCES = (*FILES, "kafka", "rate", "redis", "mqtt")
SINKS = ("console", *FILES, "memory", "latest", "kafka")
MODES = ("append", "update", "complete", "overwrite")
SERVICES = ("sparql", "sql", "http", "redis", "parquet")


@dataclass(frozen=True)
class Input:
    """Where rows come from."""

    kind: str
    path: Late | None = None
    url: Late | None = None
    topic: Late | None = None
    schema: str | None = None
    """Columns and types, as Spark's DDL: "ts timestamp, price double"."""
    columns: tuple[str, ...] | None = field(default=None, compare=False)
    """Their names, where the schema tells."""
    idle: str | None = None
    """After how long without a row time goes on by itself."""
    options: Options = ()

    def settings(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """The options with their variables filled in."""
        return filled(self.options, environ)


@dataclass(frozen=True)
class Watermark:
    """How far behind the newest time a row may come and still count."""

    column: str
    delay: str


@dataclass(frozen=True)
class Output:
    """Where answers go."""

    kind: str = "console"
    path: Late | None = None
    url: Late | None = None
    topic: Late | None = None
    table: str | None = None
    mode: str = "append"
    options: Options = ()

    def settings(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """The options with their variables filled in."""
        return filled(self.options, environ)


@dataclass(frozen=True)
class Trigger:
    """When the stream is looked at: "always" (as soon as the last batch is done), "every" so often,
    "available_now" (all there is, then stop) or "once" (the same in one batch).
    """  # noqa: D205 - the four words are the summary

    kind: str = "always"
    every: str | None = None


@dataclass(frozen=True)
class Cluster:
    """The Spark that does the work."""

    master: Late | None = None
    options: Options = ()

    def settings(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """The settings with their variables filled in."""
        return filled(self.options, environ)


@dataclass(frozen=True)
class Service:
    """What a name in SERVICE or `join` stands for."""

    kind: str
    url: Late | None = None
    path: Late | None = None
    table: str | None = None
    options: Options = ()
    join: tuple[tuple[str, Any], ...] = ()
    """How it is joined, such as its budget: keywords of `sb.Join`."""

    def settings(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """The options with their variables filled in."""
        return filled(self.options, environ)


@dataclass(frozen=True)
class Job:
    """All that a pipeline file says; `sb.lang.load` reads one.

    Texts that may hold secrets are `Late`: they keep `${NAME}` as written, and `get()` fills it in.

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
    sink: Output = Output()
    watermark: Watermark | None = None
    ahead_of_clock: str | None = None
    """How far ahead of the clock the time of a row may be."""
    early: bool = False
    checkpoint: Late | None = None
    trigger: Trigger = Trigger()
    spark: Cluster = Cluster()
    services: tuple[tuple[str, Service], ...] = ()

    @property
    def queries(self) -> tuple[TopK, ...]:
        """The queries alone."""
        return tuple(asked.query for asked in self.statements)

    @property
    def remotes(self) -> tuple[Remote | None, ...]:
        """The join of each query, if it has one."""
        return tuple(asked.remote for asked in self.statements)
