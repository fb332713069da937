"""What the answers must be, what they are, and how they differ."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import skyband as sb
from skyband.tables.sql_schema import connect_args
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from scripts.torture.pipelines import Rows, Stream

Answers = Counter[Any]


def wanted(stream: Stream, rows: Rows) -> Answers:
    """The answers of an undisturbed run in this process over the same rows, of the windows that have closed."""
    if not rows.all:
        return Counter()
    if stream.sink == "latest":
        return _lists(stream, rows)
    table = sb.run(stream.asked, rows.table, progress=False)
    return Counter(_plain(_closed(table, stream, rows)))


def _closed(table: pa.Table, stream: Stream, rows: Rows) -> pa.Table:
    if stream.query.window.counts:
        return table
    end = table["window_end"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    within = pc.less if stream.query.window.kind == "row" else pc.less_equal
    return table.filter(within(end, rows.watermark))


def promised(table: pa.Table) -> pa.Table:
    """Without what a service that is away may change: how old a remote value is, and how many were looked up."""
    return table.drop_columns([name for name in ("staleness", "lookups") if name in table.column_names])


def _plain(table: pa.Table) -> list[str]:
    """Rows as texts, columns by name, times in UTC."""
    columns = []
    table = promised(table)
    for name in sorted(table.column_names):
        column = table[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        elif pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        columns.append(column.to_pylist())
    return list(map(repr, zip(*columns, strict=True)))


def _lists(stream: Stream, rows: Rows) -> Answers:
    """The newest list of each group; with changes, without the groups whose window is empty by now."""
    query = stream.query
    answers = sb.TopK(k=query.k, by=query.by, window=query.window, time="ts", id="id", per=query.per)
    found = _closed(sb.run(answers, rows.table, progress=False), stream, rows)
    lists: dict[Any, list[dict[str, Any]]] = {}
    for row in found.to_pylist():
        lists.setdefault(row["symbol"], []).append(row)
    newest: list[Any] = []
    for symbol, said in lists.items():
        end = max(row["window_end"] for row in said)
        over = int(end.timestamp() * 1_000_000) + WindowAssigner.of(query.window).slide <= rows.watermark
        if query.emit == "answers" or not over:
            newest += [(symbol, r["rank"], r["score"], r["id"]) for r in said if r["window_end"] == end]
    return Counter(newest)


class Parquet:
    """The rows in files that Spark's file sink has committed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: Answers = Counter()
        self.known: set[str] = set()

    def answers(self) -> Answers:
        """All so far; a file is read once."""
        log = self.folder / "_spark_metadata"
        names: set[str] = set()
        for part in sorted(log.iterdir()) if log.exists() else []:
            if part.name[0].isdigit():
                names |= {Path(json.loads(line)["path"]).name for line in part.read_text().splitlines()[1:]}
        for name in sorted(names - self.known):
            self.found.update(_plain(pq.read_table(self.folder / name)))
            self.known.add(name)
        return self.found


class Listed:
    """The rows of a table of `sb.spark.upsert_sink`."""

    def __init__(self, url: str, table: str) -> None:
        self.url, self.table = url, table

    def answers(self) -> Answers:
        """The table now."""
        import sqlalchemy as sa

        engine = sa.create_engine(self.url, poolclass=sa.NullPool, connect_args=connect_args(self.url))
        with engine.connect() as connection:
            if not sa.inspect(connection).has_table(self.table):
                return Counter()
            names: list[Any] = [sa.column(c) for c in ("symbol", "rank", "score", "id")]
            asked = sa.select(*names).select_from(sa.table(self.table))
            return Counter(tuple(row) for row in connection.execute(asked))


def difference(want: Answers, got: Answers) -> str:
    """In words, or nothing."""
    lost, more = want - got, got - want
    if not lost and not more:
        return ""
    twice = sum(1 for row in more if row in want)
    shown = "; ".join(str(row) for row in [*list(lost)[:2], *list(more)[:2]])
    return f"{sum(lost.values())} lost, {sum(more.values())} too many ({twice} of them twice), such as {shown}"
