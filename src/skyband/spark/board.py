"""Leaderboards on Spark: partial totals travel in place of rows, and a bucket keeps totals in place of candidates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.runtime.ids import row_hash
from skyband.runtime.snapshot import unwrite
from skyband.runtime.time_type import TimeType
from skyband.spark.prune import NEVER, Counts, Packed, in_utc, placed
from skyband.view.alltime import AllTime
from skyband.view.board import Leaderboard
from skyband.view.partial import PANE, Measure, partial_totals
from skyband.view.saved import load, save
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.runtime.saved import Saved


@dataclass(frozen=True)
class Board:
    """A query with `of=`."""

    query: TopK
    engine: str = "totals"

    def packer(self, keys: list[int]) -> BoardPacker:
        """What goes before the shuffle."""
        return BoardPacker(self.query, keys)

    def bucket(self, schema: pa.Schema, engine: str, *, early: bool) -> BoardBucket | AllTimeBucket:
        """What goes behind it."""
        if self.query.window.kind == "all time":
            return AllTimeBucket(self.query, schema, engine)
        return BoardBucket(self.query, schema, engine, early=early)

    def told(self) -> dict[str, str]:
        """What a state of it belongs to, beyond what all queries say."""
        return {"of": ", ".join(self.query.of)}


class BoardPacker:
    """Takes the rows of one partition and adds up what can be added up there."""

    def __init__(self, query: TopK, keys: list[int]) -> None:
        self.query, self.keys = query, np.array(keys, np.int32)
        self.clock = WindowAssigner.of(query.window)
        self.counts = Counts(len(keys))
        self.partials: list[pa.Table] = []

    def add(self, rows: pa.Table) -> None:
        """Take a batch."""
        rows = in_utc(rows)
        if self.query.window.kind == "all time":
            self._add(rows, np.zeros(rows.num_rows, np.int64), np.full(rows.num_rows, NEVER))
            return
        assert self.query.time is not None
        kind = TimeType.of(self.query, rows.schema.field(self.query.time).type)
        time, missing = kind.micros(rows.column(self.query.time))
        if missing is not None:
            self.counts.timeless(int(missing.sum()))
            rows, time = rows.filter(pa.array(~missing)), time[~missing]
        self._add(rows, time, np.asarray(self.clock.pane_end(time)))

    def _add(self, rows: pa.Table, time: np.ndarray, ends: np.ndarray) -> None:
        found, given = partial_totals(self.query, Measure.of(self.query, rows.schema), rows, time)
        self.counts.add(ends, self._bucket(rows), ~given)
        self.partials.append(found)

    def _bucket(self, rows: pa.Table) -> np.ndarray:
        if not self.query.per:
            return np.zeros(rows.num_rows, np.int64)
        return placed(row_hash(rows.select(list(self.query.per))), len(self.keys))

    def packed(self) -> Iterator[pa.RecordBatch]:
        """All partial totals, one row for each bucket."""
        whole = pa.concat_tables(self.partials).unify_dictionaries() if self.partials else None
        mine = np.empty(0, np.int64) if whole is None else self._bucket(whole)
        out = Packed()
        for bucket in self.counts.buckets():
            places = np.flatnonzero(mine == bucket)
            rows = whole.take(pa.array(places)) if whole is not None and len(places) else None
            out.add(int(self.keys[bucket]), self.counts.table(bucket), rows)
        yield from out.batches()


class BoardBucket:
    """The groups of one bucket of a leaderboard."""

    timed = True

    def __init__(self, query: TopK, schema: pa.Schema, engine: str, *, early: bool) -> None:
        self.query, self.schema, self.engine, self.early = query, schema, engine, early
        self.line = Leaderboard(query, schema)
        self.counts = dict.fromkeys(("rows", "without_score", "without_time", "late"), 0)

    @property
    def kept(self) -> int:
        """How many partial totals are kept."""
        return self.line.kept

    def save(self) -> Saved:
        """All there is to remember."""
        return save(self.line)

    def load(self, saved: Saved) -> None:
        """Go on where another one stood."""
        load(self.line, saved)

    def take(self, packed: Mapping[str, Any], watermark: int) -> pa.Table:
        """Partial totals as they were packed, with the watermark that holds as this batch begins."""
        line = self.line
        line.timeline.watermark = max(line.timeline.watermark, watermark)
        edge = line.timeline.watermark
        partials = []
        for counts, blob in zip(packed["counts"], packed["blob"], strict=True):
            Counts.read(unwrite(counts), edge, self.counts)
            if blob:
                table = unwrite(blob)
                late = np.asarray(line.clock.pane_end(table.column(PANE).to_numpy())) <= edge
                partials.append(table.filter(pa.array(~late)) if late.any() else table)
        whole = pa.concat_tables(partials).unify_dictionaries() if partials else _NOTHING
        return self._told(line.take(whole, watermark))

    def finish(self, newest: int) -> pa.Table:
        """No more rows will come."""
        self.line.timeline.watermark = max(self.line.timeline.watermark, newest)
        return self._marked(self.line.finish(), final=True)

    def _told(self, answers: pa.Table) -> pa.Table:
        final = self._marked(answers, final=True)
        if not self.early:
            return final
        copy = Leaderboard(self.query, self.schema)
        load(copy, save(self.line))
        return pa.concat_tables([final, self._marked(copy.finish(), final=False)])

    def _marked(self, answers: pa.Table, *, final: bool) -> pa.Table:
        if not self.early:
            return answers
        return answers.append_column(self.query.column("final"), pa.array(np.full(answers.num_rows, final)))

    def next_end(self) -> int | None:
        """When something will happen next without new rows, in milliseconds; None if nothing can."""
        if not self.alive():
            return None
        watermark = self.line.timeline.watermark
        first = min((int(part[0].min()) for part in self.line.waiting if len(part[0])), default=watermark)
        return -(-int(self.line.clock.next_end(max(watermark, first if watermark < 0 else watermark))) // 1000)

    def alive(self) -> bool:
        """Whether there is anything to remember."""
        return self.line.alive()


class AllTimeBucket:
    """The groups of one bucket of a leaderboard of all time."""

    timed = False

    def __init__(self, query: TopK, schema: pa.Schema, engine: str) -> None:
        self.query, self.schema, self.engine = query, schema, engine
        self.line = AllTime(query, schema, live=True)
        self.counts = dict.fromkeys(("rows", "without_score", "without_time", "late"), 0)

    @property
    def kept(self) -> int:
        """How many totals are kept."""
        return self.line.kept

    def save(self) -> Saved:
        """All there is to remember."""
        return self.line.save()

    def load(self, saved: Saved) -> None:
        """Go on where another one stood."""
        self.line.load(saved)

    def take(self, packed: Mapping[str, Any], watermark: int) -> pa.Table:
        """Partial totals as they were packed; the lists that they change."""
        partials = []
        for counts, blob in zip(packed["counts"], packed["blob"], strict=True):
            Counts.read(unwrite(counts), watermark, self.counts)
            if blob:
                partials.append(unwrite(blob))
        if not partials:
            return self.line.finish()
        return self.line.take(pa.concat_tables(partials).unify_dictionaries())

    def finish(self, newest: int) -> pa.Table:
        """All has been told."""
        del newest
        return self.line.finish()

    def next_end(self) -> int | None:
        """Nothing happens without rows."""
        return None

    def alive(self) -> bool:
        """Totals of all time are always remembered."""
        return True


_NOTHING = pa.table({PANE: pa.array([], pa.int64())})
