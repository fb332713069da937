"""A stream joined with remote rows: rows come in batch by batch, answers go out, each on time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa

from skyband.errors import SchemaError
from skyband.join.answers import Answer, columns_of
from skyband.join.board import Board
from skyband.join.changes import Changes
from skyband.join.checks import check_names, check_types
from skyband.join.remote import Remote
from skyband.join.replica import Replica
from skyband.join.shared import remote_types, shared_join, start_rows
from skyband.runtime.batch import PreparedBatch, joined
from skyband.runtime.groups import Groups
from skyband.runtime.ids import id_numbers, read_ids
from skyband.runtime.pipeline import END, OutOfOrderError, Stats
from skyband.runtime.schema import check_schema, conform
from skyband.runtime.score import scores
from skyband.runtime.steps import InOneStep
from skyband.runtime.time_type import TimeType
from skyband.windows import WatermarkTracker, WindowAssigner, WindowAssignerUnion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skyband.query import TopK
    from skyband.query.expression import Expression


@dataclass
class JoinStats(Stats):
    """What a run has seen and done, and what became of its look-ups."""

    without_key: int = 0
    wanted: int = 0  # look-ups that the policy asked for
    made: int = 0
    failed: int = 0
    overdue: int = 0  # made, but not back by the deadline
    evicted: int = 0
    incomplete: int = 0  # answers of fewer than k rows where a forgotten object may belong
    last_error: str = ""


class JoinPipeline(InOneStep):
    """Queries with one join over one stream; the same door as `runtime.pipeline.Pipeline`.

    Rows wait until their pane closes; of each key's rows in a pane the newest stands for all. Then, at the end of
    each window: pushed changes are applied, the policy chooses, the look-ups run, the answer goes out. Groups, and
    the queries of a workload, have lists of their own over one replica; those whose windows end at one moment share
    one budget.
    """

    def __init__(  # noqa: PLR0913 - the one place where all is known
        self,
        query: TopK,
        schema: pa.Schema,
        *,
        late: int = 0,
        ahead: int | None = None,
        sorted_input: bool = False,
        live: bool = True,
        others: Mapping[str, TopK] | None = None,
        per: Sequence[str] | None = None,
    ) -> None:
        assert query.join is not None
        self.query, self.schema = query, schema
        self.queries = list(others.values()) if others is not None else [query]
        self.names = None if others is None else list(others)
        self.join = shared_join(self.queries)
        for one in self.queries:
            check_schema(one, schema)
            check_names(one, schema)
            check_types(one, schema)
        self.per = list(query.per if per is None else per)
        clocks = [WindowAssigner.of(one.window) for one in self.queries]
        self.clock: WindowAssigner | WindowAssignerUnion = (
            clocks[0] if len(set(clocks)) == 1 else WindowAssignerUnion(clocks)
        )
        self.time = None if query.time is None else TimeType.of(query, schema.field(query.time).type)
        self.timeline = WatermarkTracker(cast("WindowAssigner", self.clock), late, ahead)
        self.keys = Groups([self.join.on])
        self.groups = [Groups(one.per) if one.per else None for one in self.queries]
        self.replica = Replica(self.join.columns, self.clock.slide, remote_types(self.join))
        self.remote = Remote(self)
        self.changes = Changes(query, self.join, self.time)
        self.stop = END  # no window that ends later is answered
        self._since: int | None = None
        self.waiting: list[PreparedBatch] = []
        self._ties = np.empty(0, np.int64)
        self.position = 0
        self._sorted_input, self.live = sorted_input, live
        self._stats = JoinStats()
        self.begun = False
        self.usable: set[tuple[pa.DataType, ...]] = set()  # types of remote columns that all scores can take
        self.boards: dict[tuple[int, int], Board] = {}
        self._open_boards()

    def _open_boards(self) -> None:
        """One for every query; those of groups open with their first rows."""
        self.boards = {
            (number, 0): Board(self, number, one)
            for number, (one, groups) in enumerate(zip(self.queries, self.groups, strict=True))
            if groups is None
        }

    # ------------------------------------------------------------ rows in

    @property
    def stats(self) -> JoinStats:
        """What has been seen and done so far."""
        self._stats.late, self._stats.ahead = self.timeline.dropped
        self._stats.last_error = self.remote.error
        peak = sum(board.held.peak for board in self.boards.values())
        self._stats.peak_candidates = max(self._stats.peak_candidates, peak)
        return self._stats

    @property
    def kept(self) -> int:
        """How many objects are kept because they may still be in an answer."""
        return sum(len(board.held) for board in self.boards.values())

    def push(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take a batch, give the answers of the windows it closes."""
        self._stats.rows += rows.num_rows
        rows = conform(rows, self.schema)
        if self.clock.counts:
            return self.count(PreparedBatch(rows, _nothing(rows.num_rows), np.empty(0, np.int64), None, None))
        assert self.time is not None
        time, missing = self.time.micros(rows.column(self.query.time))
        if missing is not None:
            self._stats.without_time += int(missing.sum())
            rows, time = rows.filter(pa.array(~missing)), time[~missing]
        ids, missing = (None, None) if self.query.id is None else read_ids(rows.column(self.query.id), self.query.id)
        return self.take(PreparedBatch(rows, _nothing(len(time)), time, ids, None, missing), watermark)

    def take(self, part: PreparedBatch, watermark: int | None = None) -> pa.Table:
        """Take rows that have their time, in any order; give the answers of the windows they close."""
        self.remote.begin()
        taken = self.timeline.admit(part.time, watermark, sorted_input=self._sorted_input)
        if taken is None:
            raise OutOfOrderError
        self._wait(part if taken.all() else part.take(np.flatnonzero(taken)))
        return self._advance(self.timeline.closed_until, self.timeline.watermark)

    def count(self, part: PreparedBatch) -> pa.Table:
        """Counting windows: every row takes the next position."""
        self.remote.begin()
        place = np.arange(self.position, self.position + part.rows.num_rows)
        self.position += part.rows.num_rows
        self._wait(PreparedBatch(part.rows, _nothing(len(place)), place, None, None))
        return self._advance(self.position, self.position)

    def between(self, since: int | None, until: int | None) -> None:
        """Answer only windows that begin at `since` or later and end by `until` (in microseconds)."""
        self._since = since
        self.stop = END if until is None else until
        self._open_boards()

    def since(self, clock: WindowAssigner) -> int | None:
        """The first window to be answered; None: that of the first row."""
        return None if self._since is None else -(-(self._since - clock.origin + clock.shift) // clock.slide)

    def changed(self, rows: pa.Table) -> None:
        """Pushed changes of the remote side: the key, the columns and their time; applied in time order."""
        self.changes.add(rows)

    def finish(self) -> pa.Table:
        """Answer every time window that still holds a row."""
        self.remote.begin()
        return self._table([]) if self.clock.counts else self._advance(END, END)

    def _wait(self, part: PreparedBatch) -> None:
        key = part.rows.column(self.join.on)
        if key.null_count:
            self._stats.without_key += key.null_count
            part = part.take(np.flatnonzero(key.is_valid().to_numpy()))
        if len(part.time):
            self.waiting.append(part.sorted())

    def _advance(self, edge: int, upto: int) -> pa.Table:
        """Take the rows before `edge` and answer the windows that end by `upto`."""
        part = self._release(edge)
        self._deal(part, self._coded(part))
        answers: list[Answer] = []
        while True:
            ends = [(end, board) for board in self.boards.values() if (end := board.upcoming()) is not None]
            end = min((end for end, _ in ends), default=END)
            due = [board for its, board in ends if its == end]
            if not due or end > upto or end - due[0].clock.shift > self.stop:
                break
            for board in due:
                board.take(end)
            answers += self._evaluate(due, end)
        for board in self.boards.values():
            board.take(edge)
            board.hand(None, _NO_ROWS)
        self._forget_boards()
        return self._table(answers)

    def _deal(self, part: PreparedBatch | None, key: np.ndarray) -> None:
        """Hand every board its rows; boards of new groups open."""
        for number, groups in enumerate(self.groups):
            if part is None:
                continue
            if groups is None:
                self.boards[(number, 0)].hand(part, key)
                continue
            group = groups.codes(part.rows.select(groups.per))
            order = np.argsort(group, kind="stable")
            found, first = np.unique(group[order], return_index=True)
            for code, places in zip(found.tolist(), np.split(order, first[1:]), strict=True):
                board = self.boards.get((number, code))
                if board is None:
                    board = self.boards[(number, code)] = Board(self, number, self.queries[number], code)
                board.hand(part.take(places), key[places])

    def _forget_boards(self) -> None:
        """Groups that have nothing left to say open anew when they come again."""
        for place, board in list(self.boards.items()):
            if self.groups[board.number] is not None and board.idle():
                del self.boards[place]

    def _release(self, edge: int) -> PreparedBatch | None:
        """The waiting rows before `edge`, in order."""
        if not self.waiting:
            return None
        whole = joined(self.waiting).sorted()
        cut = int(np.searchsorted(whole.time, edge))
        self.waiting = [whole.take(slice(cut, len(whole.time)))] if cut < len(whole.time) else []
        return whole.take(slice(0, cut)) if cut else None

    def _coded(self, part: PreparedBatch | None) -> np.ndarray:
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
        self.replica.grow(len(self.keys))

    def _begin(self, part: PreparedBatch) -> None:
        """Fill the replica with what it starts with."""
        self.begun = True
        initial = self.join.initial
        if initial is None:
            return
        rows = start_rows(initial)
        key = self.join.on if self.join.on in rows.column_names else getattr(self.join.table, "key", self.join.on)
        for name in (key, *self.join.columns):
            if name not in rows.column_names:
                msg = f"initial has no column {name!r}: give the key and {', '.join(self.join.columns)}"
                raise SchemaError(msg)
        codes = self.codes_of(rows[key], "initial")
        now = int(part.time[0]) - self.clock.slide
        self.replica.update(np.unique(codes), codes, rows, now)
        if self.query.time in rows.column_names and self.time is not None:
            self.replica.time[codes] = self.time.micros(rows[self.query.time].cast(self.time.type))[0]

    @property
    def key_type(self) -> pa.DataType:
        """What the keys of the stream are."""
        kind = self.schema.field(self.join.on).type
        return kind.value_type if pa.types.is_dictionary(kind) else kind

    def codes_of(self, column: pa.ChunkedArray, source: str = "the table") -> np.ndarray:
        """The numbers of remote keys, in the type of the stream's."""
        try:
            keys = column.cast(self.key_type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            why = str(error).splitlines()[0]
            msg = f"{source} has other keys than {self.join.on!r}, which is {self.key_type} in the stream: {why}"
            raise SchemaError(msg) from error
        codes = self.keys.codes(pa.table({self.join.on: keys})).astype(np.int64)
        self.grow()
        return codes

    # ------------------------------------------------------------ the remote side

    def apply_pushed(self, before: int) -> None:
        """Pushed changes that happened before a moment: to the replica, and to all lists."""
        found = self.changes.until(before)
        if found is not None:
            rows, when = found
            codes = self.codes_of(rows[self.join.on], "changes")
            order = np.argsort(codes)
            read = self.replica.update(codes[order], codes, rows, when[order])
            self._refreshed(read.changed)

    def _refreshed(self, codes: np.ndarray) -> None:
        """Remote rows of these codes are others now, for all lists."""
        for board in self.boards.values():
            board.held.refreshed(codes)

    def _evaluate(self, due: list[Board], end: int) -> list[Answer]:
        """Refresh what the policies want, then answer the windows that end now."""
        self.apply_pushed(end)
        now = end - due[0].clock.shift
        lookups = self.remote.refresh(due, now)
        answers = []
        for board in due:
            assert board.window is not None
            answers.append(board.held.answer(board.window, now)._replace(lookups=lookups, board=board))
            board.close()
        if self.join.refresh.replica_size is not None:
            open_ = np.unique(np.concatenate([board.needed() for board in self.boards.values()]))
            gone = self.replica.evict(self.join.refresh.replica_size, open_)
            self._stats.evicted += len(gone)
            self._refreshed(gone)
        stats, (wanted, made, failed, late) = self._stats, lookups
        stats.wanted, stats.made = stats.wanted + wanted, stats.made + made
        stats.failed, stats.overdue = stats.failed + failed, stats.overdue + late
        stats.windows += sum(len(answer.key) > 0 for answer in answers)
        stats.incomplete += sum(answer.incomplete for answer in answers)
        return answers

    # ------------------------------------------------------------ what the engines ask for

    def ties(self, codes: np.ndarray) -> np.ndarray:
        """Numbers that break ties between keys: the larger first."""
        if len(self._ties) < len(self.keys):
            table = self.keys.table()
            assert table is not None
            self._ties = id_numbers(table.column(0), self.join.on)
        return self._ties[codes]

    def forget_ties(self) -> None:
        """Keys have other numbers now."""
        self._ties = np.empty(0, np.int64)

    def key_values(self, codes: np.ndarray) -> pa.Array:
        """The keys themselves."""
        return self.keys.values(codes)[0].combine_chunks()

    def scored(self, query: TopK, rows: pa.Table, places: np.ndarray, by: Expression | None = None) -> np.ndarray:
        """The scores of stream rows with the remote rows at these places; larger is better, NaN is none.

        `by` stands in for the score of the query.
        """
        remote = self.replica.take(places)
        for name in self.join.columns:
            rows = rows.append_column(name, pa.nulls(len(places), pa.float64()) if remote is None else remote[name])
        score = scores(query.by if by is None else by, rows)
        return -score if query.ascending else score

    def miss(self, count: int) -> None:
        """So many objects have a remote row and no score."""
        self._stats.without_score += count

    def _table(self, answers: list[Answer]) -> pa.Table:
        table = columns_of(self, answers)
        self._stats.answer_rows += table.num_rows
        for board in self.boards.values():
            board.held.tidy()
        self.remote.told()
        return table


def _nothing(n: int) -> np.ndarray:
    """A column that no one reads."""
    return np.broadcast_to(np.float64(0.0), (n,))


_NO_ROWS = np.empty(0, np.int64)
