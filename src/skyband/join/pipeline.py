"""A stream joined with remote rows: rows come in batch by batch, answers go out, each on time."""

from __future__ import annotations

import time as clock_time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.errors import SchemaError, TableError
from skyband.flow.ids import id_numbers
from skyband.flow.keys import Groups
from skyband.flow.part import Part, joined
from skyband.flow.pipeline import END, OutOfOrderError, Stats
from skyband.flow.schema import check_schema, conform
from skyband.flow.score import scores
from skyband.flow.time import TimeType
from skyband.join.answers import Answer, columns_of
from skyband.join.budget import Purse
from skyband.join.changes import Changes
from skyband.join.lookup import Lookup
from skyband.join.policies import named
from skyband.join.replica import Replica
from skyband.join.summed import Summed
from skyband.join.valued import Valued
from skyband.query.join import OWN
from skyband.windows import Clock, Timeline

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.query.join import Join


@dataclass
class JoinStats(Stats):
    """What a run has seen and done, and what became of its look-ups."""

    without_key: int = 0
    wanted: int = 0  # look-ups that the policy asked for
    made: int = 0
    failed: int = 0
    overdue: int = 0  # made, but not back by the deadline
    evicted: int = 0
    last_error: str = ""


class JoinPipeline:
    """One query with a join over one stream; the same door as `flow.pipeline.Pipeline`.

    Rows wait until their pane closes; of each key's rows in a pane the newest stands for all. Then, at the end of
    each window: pushed changes are applied, the policy chooses, the look-ups run, the answer goes out.
    """

    def __init__(
        self,
        query: TopK,
        schema: pa.Schema,
        *,
        late: int = 0,
        ahead: int | None = None,
        rising: bool = False,
        live: bool = True,
    ) -> None:
        assert query.join is not None
        self.query, self.schema, self.join = query, schema, query.join
        check_schema(query, schema)
        _check_names(query, schema)
        self.clock = Clock.of(query.window)
        self.time = None if query.time is None else TimeType.of(query, schema.field(query.time).type)
        self.timeline = Timeline(self.clock, late, ahead)
        self.keys = Groups([self.join.on])
        self.replica = Replica(self.join.columns, self.clock.slide)
        self.policy = named(self.join.policy)
        self.purse = Purse(self.join.budget)
        self.lookup = Lookup(self.join)
        self.changes = Changes(query, None if self.time is None else self.time)
        self.held: Valued | Summed = (Summed if self.join.aggregates else Valued)(self)
        self.stop = END  # no window that ends later is answered
        self.waiting: list[Part] = []
        self.window: int | None = None  # the next to close
        self.reach = -(1 << 62)  # the last window that holds a row
        self.arrived = np.empty(0, np.int64)
        self._ties = np.empty(0, np.int64)
        self.position = 0
        self._rising, self._live = rising, live
        self._deadline = 0.0
        self._stats = JoinStats()
        self.begun = False

    # ------------------------------------------------------------ rows in

    @property
    def stats(self) -> JoinStats:
        """What has been seen and done so far."""
        self._stats.late, self._stats.ahead = self.timeline.lost
        self._stats.peak_candidates = max(self._stats.peak_candidates, self.held.peak)
        return self._stats

    @property
    def kept(self) -> int:
        """How many objects are kept because they may still be in an answer."""
        return len(self.held)

    def push(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take a batch, give the answers of the windows it closes."""
        self._deadline = 0.0
        self._stats.rows += rows.num_rows
        rows = conform(rows, self.schema)
        if self.clock.counts:
            place = np.arange(self.position, self.position + rows.num_rows)
            self.position += rows.num_rows
            self._wait(Part(rows, _nothing(len(place)), place, None, None))
            return self._advance(self.position, self.position)
        assert self.time is not None
        time, missing = self.time.micros(rows.column(self.query.time))
        if missing is not None:
            self._stats.without_time += int(missing.sum())
            rows, time = rows.filter(pa.array(~missing)), time[~missing]
        if self._rising and len(time) and time.min() < self.timeline.newest:
            raise OutOfOrderError
        taken = self.timeline.admit(time, watermark)
        ids = None if self.query.id is None else id_numbers(rows.column(self.query.id), self.query.id)
        part = Part(rows, _nothing(len(time)), time, ids, None)
        self._wait(part if taken.all() else part.take(np.flatnonzero(taken)))
        return self._advance(self.timeline.edge, self.timeline.watermark)

    def between(self, since: int | None, until: int | None) -> None:
        """Answer only windows that begin at `since` or later and end by `until` (in microseconds)."""
        if since is not None:
            self.window = -(-(since - self.clock.origin + self.clock.shift) // self.clock.slide)
        self.stop = END if until is None else until + self.clock.shift

    def changed(self, rows: pa.Table) -> None:
        """Pushed changes of the remote side: the key, the columns and their time; applied in time order."""
        self.changes.add(rows)

    def finish(self) -> pa.Table:
        """Answer every time window that still holds a row."""
        self._deadline = 0.0
        return self._table([]) if self.clock.counts else self._advance(END, END)

    def _wait(self, part: Part) -> None:
        key = part.rows.column(self.join.on)
        if key.null_count:
            self._stats.without_key += key.null_count
            part = part.take(np.flatnonzero(key.is_valid().to_numpy()))
        if len(part.time):
            self.waiting.append(part.sorted())

    def _advance(self, edge: int, upto: int) -> pa.Table:
        """Take the rows before `edge` and answer the windows that end by `upto`."""
        part = self._release(edge)
        key = self._coded(part)
        time = np.empty(0, np.int64) if part is None else part.time
        answers: list[Answer] = []
        at = 0
        while True:
            if self.window is None or self.window > self.reach:  # no row in it: on to the next that has one
                if at == len(time):
                    break
                self.window = max(int(self.clock.first(time[at])), -(1 << 61) if self.window is None else self.window)
            end = self.clock.end(self.window)
            stop = int(np.searchsorted(time, end))
            if part is not None and stop > at:
                self._take(part.take(slice(at, stop)), key[at:stop])
                at = stop
            if end > min(upto, self.stop):
                break
            answers.append(self._evaluate(self.window, end))
            self.window += 1
        return self._table(answers)

    def _release(self, edge: int) -> Part | None:
        """The waiting rows before `edge`, in order."""
        if not self.waiting:
            return None
        whole = joined(self.waiting).sorted()
        cut = int(np.searchsorted(whole.time, edge))
        self.waiting = [whole.take(slice(cut, len(whole.time)))] if cut < len(whole.time) else []
        return whole.take(slice(0, cut)) if cut else None

    def _coded(self, part: Part | None) -> np.ndarray:
        """The number of each row's key."""
        if part is None:
            return np.empty(0, np.int64)
        if not self.begun:
            self._begin(part)
        code = self.keys.codes(part.rows.select([self.join.on])).astype(np.int64)
        self.grow()
        return code

    def grow(self) -> None:
        """Room for all keys known."""
        known = len(self.keys)
        self.replica.grow(known)
        if known > len(self.arrived):
            self.arrived = np.concatenate([self.arrived, np.full(known - len(self.arrived), -(1 << 62))])

    def _begin(self, part: Part) -> None:
        """Fill the replica with what it starts with."""
        self.begun = True
        initial = self.join.initial
        if initial is None:
            return
        rows = initial if isinstance(initial, pa.Table) else pa.table(initial)
        key = self.join.on if self.join.on in rows.column_names else getattr(self.join.table, "key", self.join.on)
        if key not in rows.column_names:
            msg = f"initial has no column {self.join.on!r}: give the key and {', '.join(self.join.columns)}"
            raise SchemaError(msg)
        codes = self._codes_of(rows[key])
        now = int(part.time[0]) - self.clock.slide
        self.replica.update(np.unique(codes), codes, rows, now)
        if self.query.time in rows.column_names and self.time is not None:
            self.replica.time[codes] = self.time.micros(rows[self.query.time].cast(self.time.type))[0]

    def _codes_of(self, column: pa.ChunkedArray) -> np.ndarray:
        """The numbers of remote keys, in the type of the stream's."""
        kind = self.schema.field(self.join.on).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        codes = self.keys.codes(pa.table({self.join.on: column.cast(kind)})).astype(np.int64)
        self.grow()
        return codes

    def _take(self, part: Part, key: np.ndarray) -> None:
        """Hand rows over pane by pane, with the pushed changes of their pane before them."""
        pane = np.asarray(self.clock.pane(part.time))
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(pane)) + 1, [len(pane)]])
        self.arrived[key] = part.time  # rows come by time: the newest stays
        self.reach = max(self.reach, int(self.clock.last(part.time[-1])))
        places = self.held.places(pane, key)
        for low, high in zip(cuts, cuts[1:], strict=False):
            self._apply_pushed(int(self.clock.pane_end(part.time[low])))
            inside = places[np.searchsorted(places, low) : np.searchsorted(places, high)] - low
            self.held.take(part.take(slice(int(low), int(high))), key[low:high], inside)

    # ------------------------------------------------------------ the remote side

    def _apply_pushed(self, before: int) -> None:
        found = self.changes.until(before)
        if found is not None:
            rows, when = found
            codes = self._codes_of(rows[self.join.on])
            order = np.argsort(codes)
            read = self.replica.update(codes[order], codes, rows, when[order])
            self.held.refreshed(read.changed, pushed=True)

    def _evaluate(self, window: int, end: int) -> Answer:
        """Refresh what the policy wants, then answer."""
        self._apply_pushed(end)
        now = end - self.clock.shift
        wanted, made, failed, late = self._refresh(window, now)
        answer = self.held.answer(window, now)._replace(lookups=(wanted, made, failed, late))
        self.held.expire(window + 1)
        if self.join.replica_size is not None:
            open_ = np.flatnonzero(self.arrived >= self.clock.start(window + 1))
            self._stats.evicted += self.replica.evict(self.join.replica_size, open_)
        stats = self._stats
        stats.wanted, stats.made = stats.wanted + wanted, stats.made + made
        stats.failed, stats.overdue = stats.failed + failed, stats.overdue + late
        stats.windows += len(answer.key) > 0
        return answer

    def _refresh(self, window: int, now: int) -> tuple[int, int, int, int]:
        if self.join.table is None:
            return 0, 0, 0, 0
        until = self._until()  # from here on: choosing takes time too
        for asked, ids, rows in self.lookup.overdue():
            self._read(ids, [rows], asked)
        budget = self.purse.draw()
        unlimited = getattr(self.policy, "unlimited", False)
        # what was found absent may have come to be: asked for again after a window's length, or at once
        unread = self.held.unread(now if unlimited else now - self.clock.size)
        new = unread if unlimited else unread[:budget]
        if self.join.policy == "never":
            new = new[:0]
        room = budget - len(new)
        chosen = new
        candidates = self.held.candidates(window, now)
        if len(candidates.id) and (room > 0 or unlimited):
            more = np.asarray(self.policy(candidates, self.replica, room, now), np.int64)
            more = more[~np.isin(more, new)]
            chosen = np.concatenate([new, more if unlimited else more[:room]])
        self.purse.pay(len(chosen))
        if not len(chosen):
            return 0, 0, 0, 0
        ids = self.key_values(chosen).to_pylist()
        if hasattr(self.join.table, "at"):
            self.join.table.at(now)
        found = self.lookup.fetch(ids, now, until)
        failed = found.failed + self._read(found.ids, found.rows, now)
        self._stats.last_error = found.error or self._stats.last_error
        return len(ids), found.made, failed, found.late

    def _until(self) -> float:
        """The deadline: windows that close in one batch of a live stream share it."""
        length = self.join.deadline / 1e6
        if not self._live:
            return clock_time.monotonic() + length
        self._deadline = self._deadline or clock_time.monotonic() + length
        return self._deadline

    def _read(self, ids: list[object], tables: list[pa.Table], now: int) -> int:
        """Take what came back into the replica; how many look-ups were of no use after all."""
        kind = self.schema.field(self.join.on).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        useless = 0
        asked = set(ids)
        good, names = [], [self.join.table.key, *self.join.columns]
        for rows in tables:
            try:
                fitting = rows.select(names)
                key = fitting[names[0]].cast(kind)
                good.append(self.replica.conform(fitting).append_column(self.join.on, key))
            except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError, TableError) as error:
                bad = set(rows[names[0]].to_pylist()) if names[0] in rows.column_names else asked
                useless += len(asked & bad)
                asked -= bad
                self._stats.last_error = str(error)
        codes = self._codes_of(pa.chunked_array([pa.array(list(asked), kind)]))
        newer = codes[self.replica.time[codes] < now]
        if len(newer):
            empty = pa.table({n: pa.nulls(0) for n in self.join.columns} | {self.join.on: pa.array([], kind)})
            rows = pa.concat_tables(good, promote_options="default") if good else empty
            of = self._codes_of(rows[self.join.on])
            fits = np.isin(of, newer)
            chosen = rows if fits.all() else rows.filter(pa.array(fits))
            read = self.replica.update(np.unique(newer), of[fits], chosen, now)
            self.held.refreshed(np.concatenate([read.changed, read.same[self.held.waits(read.same)]]), pushed=False)
        return useless

    # ------------------------------------------------------------ what the engines ask for

    def seen(self, codes: np.ndarray) -> np.ndarray:
        """When each key's newest row came."""
        return self.arrived[codes]

    def ties(self, codes: np.ndarray) -> np.ndarray:
        """Numbers that break ties between keys: the larger first."""
        if len(self._ties) < len(self.keys):
            table = self.keys.table()
            assert table is not None
            self._ties = id_numbers(table.column(0), self.join.on)
        return self._ties[codes]

    def key_values(self, codes: np.ndarray) -> pa.Array:
        """The keys themselves."""
        return self.keys.values(codes)[0]

    def scored(self, rows: pa.Table, places: np.ndarray) -> np.ndarray:
        """The scores of stream rows with the remote rows at these places; larger is better, NaN is none."""
        remote = self.replica.take(places)
        for name in self.join.columns:
            rows = rows.append_column(name, pa.nulls(len(places), pa.float64()) if remote is None else remote[name])
        score = scores(self.query.by, rows)
        return -score if self.query.ascending else score

    def miss(self, count: int) -> None:
        """So many objects have a remote row and no score."""
        self._stats.without_score += count

    def _table(self, answers: list[Answer]) -> pa.Table:
        table = columns_of(self, answers)
        self._stats.answer_rows += table.num_rows
        self.held.tidy()
        return table


def _nothing(n: int) -> np.ndarray:
    """A column that no one reads."""
    return np.broadcast_to(np.float64(0.0), (n,))


def _check_names(query: TopK, schema: pa.Schema) -> None:
    join: Join = query.join  # type: ignore[assignment]
    own = {query.column(name) for name in OWN}
    for name in (*join.columns, *join.aggregate_names):
        if name in schema.names:
            msg = f"the join brings a column {name!r}, which the source has too: rename one of them"
            raise SchemaError(msg)
        if name in own:
            msg = f"the join brings a column {name!r}, which is one of ours: rename it, or write prefix="
            raise SchemaError(msg)
    for name in schema.names:
        if name in own:
            msg = f"the source has a column {name!r}, which a join adds to the answers: rename it, or write prefix="
            raise SchemaError(msg)
