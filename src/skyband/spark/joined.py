"""Joins on Spark: the replica lives in the state of the operator, and the look-ups run where the bucket is."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from skyband.errors import QueryError
from skyband.join.changes import PUSHED
from skyband.join.pipeline import JoinPipeline
from skyband.join.saved import load, save
from skyband.join.shared import shared_join, start_rows
from skyband.runtime.batch import PreparedBatch
from skyband.runtime.groups import Groups
from skyband.runtime.snapshot import unwrite
from skyband.spark.prune import TIME, Blobs, Counts, Origin, Packer, arranged, in_utc, unpacked
from skyband.windows import WindowAssigner, WindowAssignerUnion

if TYPE_CHECKING:
    from skyband.join.lookup import Lookup
    from skyband.query import Join, TopK
    from skyband.runtime.saved import Saved

LOOKUPS = ("wanted", "made", "failed", "overdue", "incomplete")
"""What is counted of a join besides what is counted of every query: look-ups, and answers that may lack rows."""

_LIVE: dict[str, Lookup] = {}  # of this process: connections, and answers that came late, outlast a batch
_MOST = 64


@dataclass(frozen=True)
class Joined:
    """A query with `join=`; or several that join one table, by name."""

    query: TopK
    others: Mapping[str, TopK] | None = None
    per: tuple[str, ...] = ()
    engine: str = "topkn"
    token: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def of(cls, query: TopK, others: Mapping[str, TopK] | None = None, per: tuple[str, ...] | None = None) -> Joined:
        """The share of queries, after checking that their table can travel."""
        queries = [query] if others is None else list(others.values())
        shared_join(queries)
        for one in queries:
            assert one.join is not None
            if one.join.changes is not None and not hasattr(one.join.changes, "mapInArrow"):
                msg = "changes= on Spark is a DataFrame, whose watermark tells how far it has come: hand one over"
                raise QueryError(msg)
            try:
                pickle.dumps(replace(one.join, changes=None if one.join.changes is None else PUSHED))
            except Exception as error:
                why = f"{type(one.join.table).__name__} cannot travel to Spark's executors ({error})"
                msg = f"table={why}: give one that holds an address, such as skyband.tables.Http"
                raise QueryError(msg) from error
        starts: dict[int, pa.Table] = {}  # queries that start with the same rows still do
        typed = {name: _typed(one, starts) for name, one in (others or {"": query}).items()}
        first = next(iter(typed.values()))
        return cls(first, None if others is None else typed, tuple(query.per if per is None else per))

    @property
    def queries(self) -> list[TopK]:
        """All of them."""
        return [self.query] if self.others is None else list(self.others.values())

    def clock(self) -> Any:
        """When windows of any of them begin and end."""
        clocks = [WindowAssigner.of(one.window) for one in self.queries]
        return clocks[0] if len(set(clocks)) == 1 else WindowAssignerUnion(clocks)

    def line(self, schema: pa.Schema) -> JoinPipeline:
        """Their pipeline, anew."""
        return JoinPipeline(self.query, schema, others=self.others, per=self.per)

    def values(self, rows: pa.Table) -> np.ndarray:
        """What rows are ranked by: no score is known before the remote side is."""
        return np.zeros(rows.num_rows)

    def packer(self, keys: list[int]) -> JoinPacker:
        """What goes before the shuffle."""
        return JoinPacker(self, keys)

    def bucket(self, schema: pa.Schema, engine: str, *, early: bool) -> JoinBucket:
        """What goes behind it."""
        return JoinBucket(self, schema, engine, early=early)

    def told(self) -> dict[str, str]:
        """What a state of it belongs to. Budget, policy, deadline and address may be others after a restart."""
        said = [_identity(one.join) for one in self.queries if one.join is not None]
        whole = {"join": "; ".join(str(one) for one in said)}
        if self.others is not None:
            each = (f"{name}: k {one.k}, by {one.by}, {one.window}" for name, one in self.others.items())
            whole |= {"k": "of each", "by": "of each", "window": "of each", "queries": "; ".join(each)}
        return whole


def _identity(join: Join) -> dict[str, object]:
    """The fields of a join that its state depends on, as checkpoints have stored them from the first version on."""
    kept = {name: getattr(join.refresh, name) for name in ("spare", "reserve", "unlisted")}
    aggregates = tuple(replace(a, function="avg") if a.function == "mean" else a for a in join.aggregates)
    return {"on": join.on, "types": join.types, "each": join.each, **kept, "aggregates": aggregates}


def _typed(query: TopK, starts: dict[int, pa.Table]) -> TopK:
    """The query with a type for every remote column: as said, as the first values have it, or double."""
    join = query.join
    assert join is not None
    initial = starts.get(id(join.initial))
    if initial is None and join.initial is not None:  # a file is read here, not by every executor
        initial = starts[id(join.initial)] = start_rows(join.initial)
    known = {} if initial is None else {f.name: _word(f.type) for f in initial.schema}
    known |= dict(join.types)
    types: Any = tuple((name, known.get(name, "double")) for name in join.columns)
    changes = None if join.changes is None else PUSHED
    return replace(query, join=replace(join, types=types, changes=changes, initial=initial))


def _word(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "long"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    tests: dict[str, Callable[[pa.DataType], bool]] = {
        "boolean": pa.types.is_boolean,
        "timestamp": pa.types.is_timestamp,
        "date": pa.types.is_date,
    }
    return next((word for word, test in tests.items() if test(kind)), "double")


class JoinPacker(Packer):
    """Takes the rows of one partition; where the newest of a key stands for all, only that travels."""

    def __init__(self, share: Joined, keys: list[int]) -> None:
        super().__init__(share, keys)
        self._newest = all(one.join.each == "key" and not one.join.aggregates for one in share.queries)  # type: ignore[union-attr]
        named = dict.fromkeys(name for one in share.queries for name in (*one.per, one.join.on))  # type: ignore[union-attr]
        self._key = Groups(list(named))

    def _pruned(self, part: PreparedBatch, pane: np.ndarray, ends: np.ndarray) -> PreparedBatch:
        del ends
        if not self._newest or not len(part.time):
            return part
        key = self._key.codes(part.rows.select(self._key.per))
        ids = part.id_order()
        assert ids is not None
        order = np.lexsort((ids, part.time, key, pane))
        last = np.append((np.diff(pane[order]) != 0) | (np.diff(key[order]) != 0), [True])
        lasts = np.flatnonzero(last)
        newest = order[lasts[np.searchsorted(lasts, np.arange(len(order)))]]
        # rows that agree in time and id are told apart by what is in them, behind the shuffle
        same = (part.time[order] == part.time[newest]) & (ids[order] == ids[newest])
        return part.take(np.sort(order[same]))


class JoinBucket:
    """The groups of one bucket: one replica, one budget."""

    def __init__(self, share: Joined, schema: pa.Schema, engine: str, *, early: bool) -> None:
        self.share, self.query = share, share.query
        self.schema, self.engine, self.early = schema, engine, early
        self.line = share.line(schema)
        self.line.remote.lookup = _LIVE.setdefault(share.token, self.line.remote.lookup)
        while len(_LIVE) > _MOST:
            del _LIVE[next(iter(_LIVE))]
        self.counts = dict.fromkeys(("rows", "without_score", "without_time", "late", *LOOKUPS), 0)

    def take(self, packed: Mapping[str, Any], watermark: int) -> pa.Table:
        """Rows as they were packed, with the watermark that holds as this batch begins."""
        line = self.line
        line.timeline.watermark = max(line.timeline.watermark, watermark)
        edge, parts, origins = line.timeline.watermark, [], []
        for counts, blob in zip(packed["counts"], packed["blob"], strict=True):
            Counts.read(unwrite(counts), edge, self.counts)
            table = unwrite(blob) if blob else None
            if table is not None and TIME in table.column_names:
                part = unpacked(table, self.schema)
                late = None if line.clock.counts else np.asarray(line.clock.pane_end(part.time)) <= edge
                parts.append(part if late is None or not late.any() else part.take(np.flatnonzero(~late)))
                origins.append(Origin.of(table))
            elif table is not None:
                line.changed(table)
        stats = line.stats
        before = {"without_score": stats.without_score, **{name: getattr(stats, name) for name in LOOKUPS}}
        part = arranged(parts, origins, self.query) if parts else _none(self.schema)
        answers = line.count(part) if line.clock.counts else line.take(part, watermark)
        for name, count in before.items():
            self.counts[name] += getattr(line.stats, name) - count
        return self._told(answers)

    @property
    def timed(self) -> bool:
        """Whether something may happen as time goes by."""
        return not self.query.window.counts

    @property
    def kept(self) -> int:
        """How many objects are kept."""
        return self.line.kept

    def save(self) -> Saved:
        """All there is to remember."""
        return save(self.line)

    def load(self, saved: Saved) -> None:
        """Go on where another one stood."""
        load(self.line, saved)

    def finish(self, newest: int) -> pa.Table:
        """No more rows will come: a batch DataFrame, where every window has its own deadline."""
        line = self.line
        line.live = False
        line.timeline.watermark = max(line.timeline.watermark, newest)
        return self._marked(line.finish(), final=True)

    def _told(self, answers: pa.Table) -> pa.Table:
        """Answers, and with `early` what they would be if nothing more came, by what was read so far."""
        final = self._marked(answers, final=True)
        if not self.early or self.line.clock.counts:
            return final
        copy = self.share.line(self.schema)
        load(copy, save(self.line))
        copy.join = replace(copy.join, table=None, changes=PUSHED)  # no look-up is spent on it
        return pa.concat_tables([final, self._marked(copy.finish(), final=False)])

    def _marked(self, answers: pa.Table, *, final: bool) -> pa.Table:
        if not self.early:
            return answers
        return answers.append_column(self.query.column("final"), pa.array(np.full(answers.num_rows, final)))

    def next_end(self) -> int | None:
        """When something will happen next without new rows, in milliseconds; None if nothing can."""
        line = self.line
        if line.clock.counts:
            return None
        ends = [end for board in line.boards.values() if (end := board.upcoming()) is not None]
        watermark = line.timeline.watermark
        ends += [int(line.clock.next_end(max(watermark, int(part.time[0])))) for part in line.waiting]
        return -(-min(ends) // 1000) if ends else None

    def alive(self) -> bool:
        """Whether there is anything to remember: once a row has come, the replica."""
        return self.line.begun or bool(self.line.waiting) or self.line.changes.saved() is not None


def pack_changes(keys: list[int], time: str, names: list[str]) -> Callable[[Any], Iterator[pa.RecordBatch]]:
    """Pushed changes on their way to every bucket, which has a replica of its own."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = [pa.Table.from_batches([batch]) for batch in batches if batch.num_rows]
        if not found:
            return
        rows = in_utc(pa.concat_tables(found)).select([*names, time])
        counts, blobs = Blobs(), Blobs()
        for _ in keys:
            counts.add(Counts(1).table(0))
            blobs.add(rows)
        columns = [pa.array(keys, pa.int32()), counts.column(), blobs.column()]
        yield pa.RecordBatch.from_arrays(columns, ["bucket", "counts", "blob"])

    return pack


def _none(schema: pa.Schema) -> PreparedBatch:
    empty = np.empty(0, np.int64)
    return PreparedBatch(schema.empty_table(), np.empty(0), empty, empty, None)
