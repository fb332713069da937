"""Workloads with joins: queries that join one table share its replica and its budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import QueryError
from skyband.join.pipeline import JoinPipeline, JoinStats
from skyband.runtime.steps import InOneStep

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.runtime.pipeline import Stats
    from skyband.runtime.time_type import TimeType


class Line(Protocol):
    """A pipeline whose answers have a column `query`."""

    time: Any

    @property
    def kept(self) -> int:
        """How many rows are kept."""

    @property
    def stats(self) -> Stats:
        """What has been seen and done so far."""

    def push(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take a batch."""

    def finish(self) -> pa.Table:
        """The last answers."""


def joined_workload(
    workload: Any, schema: pa.Schema, engine: str, *, live: bool, **ways: Any
) -> JoinPipeline | Together:
    """A pipeline for each table that is joined, and one for the queries that join none."""
    workload.settle()
    queries: dict[str, TopK] = dict(workload.items())
    per = list(dict.fromkeys(name for query in queries.values() for name in query.per))
    split: dict[tuple[object, ...], dict[str, TopK]] = {}
    for name, query in queries.items():
        if query.join is not None:
            if query.window.counts:
                msg = "queries with a join share a budget by the moment, which counting windows lack: write sb.Sliding"
                raise QueryError(msg)
            key = (id(query.join.table), query.join.on, query.id, query.unit)
            split.setdefault(key, {})[name] = query
    lines: list[Line] = [
        JoinPipeline(next(iter(mine.values())), schema, others=mine, per=per, live=live, **ways)
        for mine in split.values()
    ]
    plain = [name for name, query in queries.items() if query.join is None]
    if plain:
        lines.append(workload.only(plain).open(schema, engine, per=per, **ways))
    return Together(lines, queries)


class Together(InOneStep):
    """Pipelines side by side over one stream: answers by the end of their windows, then in the order of the queries."""

    def __init__(self, lines: list[Line], queries: Mapping[str, TopK]) -> None:
        self.lines = lines
        self._place = pa.array(list(queries), pa.string())
        first = next(iter(queries.values()))
        self._names = first.column("query"), first.column("window_end")

    @property
    def time(self) -> TimeType | None:
        """How the time column counts."""
        return self.lines[0].time

    @property
    def kept(self) -> int:
        """How many rows are kept by all."""
        return sum(line.kept for line in self.lines)

    @property
    def stats(self) -> JoinStats:
        """What has been seen and done so far. Rows are counted once, what is kept or said by everyone."""
        total = JoinStats()
        once = ("rows", "without_time", "late", "ahead", "without_key")
        for line in self.lines:
            said = line.stats
            for field in fields(said):
                value, before = getattr(said, field.name), getattr(total, field.name)
                if isinstance(value, str):
                    setattr(total, field.name, value or before)
                else:
                    setattr(total, field.name, max(before, value) if field.name in once else before + value)
        return total

    def push(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take a batch, give the answers of the windows it closes."""
        return self._ordered([line.push(rows, watermark) for line in self.lines])

    def finish(self) -> pa.Table:
        """Answer every time window that still holds a row."""
        return self._ordered([line.finish() for line in self.lines])

    def _ordered(self, tables: list[pa.Table]) -> pa.Table:
        query, end = self._names
        plain = [t.set_column(0, query, t.column(query).cast(pa.string())) for t in tables]
        whole = pa.concat_tables(plain, promote_options="permissive")
        place = pc.index_in(whole[query], value_set=self._place).to_numpy()
        order = np.lexsort((place, whole[end].cast(pa.int64()).to_numpy()))
        return whole.take(pa.array(order))
