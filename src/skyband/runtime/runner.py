"""Runs one operator over a stream: its groups, the rows that wait for it, and what it emits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines.groups import grown_capacity
from skyband.engines.protocol import Objects
from skyband.engines.validation import any_int_column, check_known, require, section, typed_column, validate
from skyband.runtime.batch import PreparedBatch, ReorderBuffer, RowOrder, concat_batches
from skyband.runtime.emit import Emitter
from skyband.runtime.groups import GroupTracker
from skyband.runtime.protocols import GROUP_CODES, Context
from skyband.runtime.result import ResultWriter
from skyband.runtime.row_store import RowSequence
from skyband.runtime.schema import TimeType
from skyband.windows import MAX_TIME, MIN_TIME

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engines.protocol import Answers
    from skyband.runtime.protocols import Operator, OperatorSpec, Snapshot
    from skyband.runtime.row_store import RowStore
    from skyband.windows import WatermarkTracker

_COUNTERS = ("without_score", "late_rows", "windows", "answer_rows")
_NO_TIMES = np.empty(0, np.int64)
_MAX_ROWS = 1 << 60  # of a stream
_MAX_STEPS = 1 << 31  # positions that may follow after the last candidate


class OperatorRunner:
    """Drives an operator, batch by batch and in steps of bounded size.

    `begin` takes what a batch brings. As long as `pending`, `step` advances the operator and returns the result.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        schema: pa.Schema,
        rows: RowStore,
        tracker: WatermarkTracker,
        *,
        sorted_input: bool = False,
        live: bool = True,
    ) -> None:
        self.spec, self.query, self.schema = spec, spec.query, schema
        spec.check(schema)
        time = self.query.time
        self.time = None if time is None else TimeType.of(self.query, schema.field(time).type)
        self._rows, self.tracker, self.sorted_input = rows, tracker, sorted_input
        self.columns, query = spec.result(), self.query
        self.emitter = Emitter(query.emit, ranks=query.ranks, only_changed=not self.columns.windows)
        numbered = spec.per if spec.numbers_groups else ()
        self.groups = GroupTracker(numbered, forgets=spec.forgets_groups) if numbered else None
        self.sequence = RowSequence()
        self.counters: dict[str, Any] = dict.fromkeys((*_COUNTERS, *spec.own_counters), 0)
        self.order = RowOrder() if spec.takes_closed_panes else None
        self.context = Context(schema, rows, self.sequence, self.groups, self.emitter, self.counters, live, self.order)
        self.operator: Operator = spec.open(self.context)
        self.writer = ResultWriter(self.columns, schema, self.time, self.operator)
        self.buffer = ReorderBuffer()
        self._positions = np.zeros(0 if spec.per else 1, np.int64)  # there may be room for more groups
        self._due: list[Any] = []  # parts that the operator has yet to take
        self._late: dict[str, Any] = {}  # rows of closed panes that it has yet to take, and which panes had closed
        self._goal: int | None = None  # how far it advances with all these; None: it has
        self.notices: list[str] = []  # what became of commands

    @property
    def counts(self) -> bool:
        """Whether windows count rows."""
        return self.spec.ordered and self.query.window.counts

    @property
    def positions(self) -> np.ndarray:
        """How many rows of each group have come, for counting windows."""
        return self._positions[: self.lists()]

    @positions.setter
    def positions(self, positions: np.ndarray) -> None:
        self._positions = positions

    def lists(self) -> int:
        """Return how many groups there are side by side."""
        return 1 if self.groups is None else self.groups.count

    # ------------------------------------------------------------ rows in

    def admit(self, time: np.ndarray, closed_until: int) -> np.ndarray | None:
        """Return the places of rows that are not late (None: all), and count the others."""
        if not len(time) or int(time.min()) >= closed_until:
            return None
        late = time < closed_until
        if self.spec.takes_closed_panes:  # windows end where panes do
            late[late] = self.operator.assigner.last_end(time[late]) <= closed_until
        self.counters["late_rows"] += int(late.sum())
        return np.flatnonzero(~late)

    def late_panes(self, end: np.ndarray, watermark: int) -> np.ndarray:
        """Return of which panes, given their ends, rows are late in a batch that begins with this watermark."""
        previous = self.tracker.watermark
        if self.spec.takes_closed_panes:
            return self.operator.assigner.last_end(end - 1) <= (watermark if previous == MIN_TIME else previous)
        return end <= max(previous, watermark)

    def begin(self, part: Any, closed_until: int = MIN_TIME) -> None:
        """Take what was prepared of a batch; panes before `closed_until` had closed when it came."""
        if not self.spec.ordered:
            self.counters["without_score"] += part.without_score
            self._due, self._goal = [part], self.tracker.watermark if self.spec.event_time else MAX_TIME - 1
            return
        if self.counts:
            self._due, self._goal = [part], MAX_TIME
            return
        scored = self._scored(part)
        if self.order is not None:
            scored = self._take_late(scored, closed_until)
        # after every row, a row without a score is still a step
        self.buffer.add(scored if self.operator.assigner.slide else part)
        self.release()

    def release(self) -> None:
        """Let go of the buffered rows that are complete."""
        if self.counts or not self.spec.event_time:
            self._due, self._goal = [], MAX_TIME if self.counts else MAX_TIME - 1
            return
        tracker, slide = self.tracker, self.operator.assigner.slide
        # rows of the newest moment wait if ties are broken by id: the next batch may have more of them
        newest = tracker.newest + (self.query.id is None)
        in_order = self.sorted_input and self.spec.scored
        self._due = self.buffer.release(newest if in_order else self.closed_until)
        self._goal = tracker.watermark
        if slide and self.spec.best_rows_only:
            self.buffer.prune(self.operator.assigner, int(self.query.k))

    @property
    def closed_until(self) -> int:
        """Panes before this have closed."""
        return self.tracker.closed_until(self.operator.assigner)

    def begin_end(self) -> None:
        """Note that no more rows will come: every time window that holds a row is answered."""
        self._due = [] if self.counts else self.buffer.release(MAX_TIME)
        self._goal = MAX_TIME

    def _scored(self, batch: PreparedBatch) -> PreparedBatch:
        """Return the rows that have a score, and count the others."""
        score = batch.score
        if not len(score) or not np.isnan(score.min()):  # the minimum is NaN if any is
            return batch
        without = np.isnan(score) if score.ndim == 1 else np.isnan(score).any(axis=1)
        self.counters[self.spec.unranked] += int(without.sum())
        return batch.take(np.flatnonzero(~without))

    def _take_late(self, batch: PreparedBatch, closed_until: int) -> PreparedBatch:
        """Number the rows of closed panes for the next step; return the others."""
        late = batch.time < closed_until
        if late.any():
            rows = batch.take(np.flatnonzero(late)).sorted()
            group = rows.group
            if self.groups is not None and group is not None:
                group = self.groups.late_numbers(group, rows.time, closed_until, self.operator.windows)
            objects = Objects(rows.score, rows.time, self._numbers(rows), group)
            self._late = {"late": objects, "closed_until": closed_until}
            batch = batch.take(np.flatnonzero(~late))
        return batch

    # ------------------------------------------------------------ steps

    @property
    def pending(self) -> bool:
        """Whether the operator has yet to advance."""
        return self._goal is not None

    def affordable(self) -> int:
        """Return how far the next step may go so that its result stays small."""
        assert self._goal is not None
        if not self.spec.event_time or not self.operator.assigner.slide:
            return self._goal
        due = [part.time for part in ([self._late["late"]] if self._late else []) + self._due]
        time = due[0] if len(due) == 1 else np.concatenate([_NO_TIMES, *due])
        appearing = 0 if self.groups is None else len(self.groups.known)  # perhaps with these rows
        return self.operator.affordable(time, self._goal, self.lists() + appearing)

    def step(self, goal: int, names: Sequence[str] = ()) -> list[pa.Table]:
        """Advance up to `goal`, which `affordable` returned, or less; return the result. `names`: of the queries."""
        assert self._goal is not None
        done = self.counts or goal >= self._goal
        if self.counts:
            found = [self._count(part) for part in self._due]
            found = found or [self.operator.advance({}, self.positions)]
        else:
            found = self._advance(self._take_due(goal, rest=done), self._goal if done else goal)
        tables = [
            table for answers in found if answers is not None and (table := self._write(answers, names)) is not None
        ]
        if done:
            self.operator.tidy(self._goal)
            if self._goal != MAX_TIME:
                self.forget_groups(due=True)
            self._due, self._goal = [], None
        return tables

    def _take_due(self, goal: int, *, rest: bool) -> list[Any]:
        """Take out the rows that are due before `goal`; with `rest`, or without an order, all of them."""
        if rest or not self.spec.ordered:
            out, self._due = self._due, []
            return out
        if not self.spec.scored:
            goal = self.operator.assigner.pane(goal)
        cuts = [(part, int(np.searchsorted(part.time, goal))) for part in self._due]
        self._due = [part.take(slice(cut, None)) for part, cut in cuts if cut < len(part.time)]
        return [part.take(slice(0, cut)) for part, cut in cuts if cut]

    def _advance(self, parts: list[Any], upto: int) -> list[Answers | None]:
        late, self._late = self._late, {}
        if not parts:
            return [self.operator.advance(late, upto)]
        if not self.spec.scored:
            parts = [concat_batches(parts)]
        goals = [int(part.time[0]) for part in parts[1:]] + [upto] if self.spec.ordered else [upto]
        found = []
        for part, goal in zip(parts, goals, strict=True):
            late["rows"] = self._arrivals(part) if self.spec.ordered else part
            found.append(self.operator.advance(late, goal))
            late = {}
        return found

    def _arrivals(self, batch: PreparedBatch) -> Objects:
        """Return the rows as the operator sees them."""
        group = batch.group
        if self.groups is not None and group is not None:
            group = self.groups.numbers(group, batch.time, self.operator.windows)
        return Objects(batch.score, batch.time, self._numbers(batch), group)

    def _numbers(self, batch: PreparedBatch) -> np.ndarray:
        """Number rows in the order in which the operator takes them."""
        number = self.sequence.add(batch.row_id)
        if self.order is not None:
            self.order.add(number, batch)
        return number

    def _count(self, batch: PreparedBatch) -> Answers | None:
        """Let rows take the next positions of their groups."""
        if batch.group is None:
            position = np.arange(self._positions[0], self._positions[0] + batch.size)
            self._positions[0] += batch.size
        else:
            from skyband.kernels.columns import number_rows

            groups, room = self.lists(), len(self._positions)
            if groups > room:
                more = np.zeros(grown_capacity(groups, room) - room, np.int64)
                self._positions = np.concatenate([self._positions, more])
            position = number_rows(batch.group, self._positions)
        moved = batch.group
        batch = self._scored(batch._replace(time=position, tie=None, missing=None))
        return self.operator.advance({"rows": self._arrivals(batch), "moved": moved}, self.positions)

    def _write(self, answers: Answers, names: Sequence[str]) -> pa.Table | None:
        """Return the result rows of answers; None if there are none."""
        if not len(answers.step):
            return None
        reached = self.tracker.watermark if self.spec.event_time and not self.counts else MAX_TIME
        rows = self.emitter.emit(answers, self.lists(), reached)
        lists = (np.diff(answers.first) > 0).sum() if self.columns.windows else len(np.unique(rows.list))
        self.counters["windows"] += int(lists)
        self.counters["answer_rows"] += len(rows.list)
        if not len(rows.list):
            return None
        values = self._rows.take(self.sequence.row_ids(rows.row))
        group = answers.group[rows.list] if self.groups is not None else rows.list
        return self.writer.table(answers, rows, values, self.groups, group, names)

    # ------------------------------------------------------------ what is kept

    def live_rows(self) -> np.ndarray:
        """Return the row ids of rows whose values may still be needed."""
        candidates = self.operator.live_rows()
        self.emitter.keep_reported(candidates)
        listed = self.emitter.live_rows()
        live = np.concatenate([candidates, listed]) if len(listed) else candidates
        row_ids = self.sequence.row_ids(live)
        self.sequence.keep(live)
        if self.order is not None:
            self.order.keep(candidates)
        due = [part.row_id for part in self._due] if self.spec.ordered else []  # rows of the steps to come
        return np.concatenate([row_ids, self.buffer.row_ids(), *due]) if len(self.buffer) or due else row_ids

    def forget_groups(self, *, due: bool = False) -> None:
        """Forget groups that keep no rows, owe no deletion, and appear anew with their next row.

        With `due` only if there are so many that the work is small beside that of their rows.
        """
        groups = self.groups
        if groups is None or not groups.forgets:
            return
        runs, known = groups.due() if due else (True, True)
        if not runs and not known:
            return
        since = self.tracker.newest if self.sorted_input else self.closed_until
        active = [
            self.operator.active_groups(),
            self.emitter.active_groups(),
            groups.open_runs(since, self.operator.windows),
        ]
        keep = np.unique(np.concatenate(active)).astype(np.int64)
        self.operator.keep_groups(keep)
        self.emitter.keep_groups(keep)
        groups.keep(keep)
        if known:
            code = groups.keep_groups(np.concatenate([self.buffer.groups(), self.operator.buffered_groups()]))
            self.buffer.renumber_groups(code)
            self.operator.renumber_groups(code)

    def is_idle(self) -> bool:
        """Return whether there is nothing to remember."""
        if self.counts or len(self.buffer) or not self.operator.is_idle():
            return False
        return not len(self.emitter.active_groups())

    def next_timer(self) -> int | None:
        """Return when a result may come without rows, in microseconds; None if none can."""
        assigner, watermark, oldest = self.operator.assigner, self.tracker.watermark, self.buffer.oldest()
        if not self.spec.event_time:
            return None
        if not assigner.slide:  # a row is answered once time has passed it, in Spark's milliseconds
            return None if oldest is None else (oldest // 1000 + 1) * 1000
        timers = [self.operator.next_timer(watermark)]
        if oldest is not None:
            timers.append(assigner.next_end(max(watermark, oldest)))
        if len(self.emitter.active_groups()):
            timers.append(assigner.next_end(watermark))
        return min((timer for timer in timers if timer is not None), default=None)

    # ------------------------------------------------------------ snapshots

    @property
    def _counter_names(self) -> tuple[str, ...]:
        return (*_COUNTERS, *self.spec.own_counters)

    def snapshot(self) -> Snapshot:
        """Return all that is needed to go on elsewhere. Groups with nothing left are forgotten."""
        self.forget_groups()
        groups, code = ({}, None) if self.groups is None else self.groups.snapshot()
        number, row_id = self.sequence.mapping()
        operator = self.operator.snapshot()
        if code is not None and GROUP_CODES in operator:
            operator[GROUP_CODES] = code[operator[GROUP_CODES]]
        saved: Snapshot = {
            **groups,
            "counters": np.array([self.counters[name] for name in self._counter_names], np.int64),
            "positions": self.positions,
            "sequence": np.array([self.sequence.next, self.writer.step], np.int64),
            "sequence/number": number,
            "sequence/row_id": row_id,
            **{f"operator/{name}": value for name, value in operator.items()},
            **{f"emit/{name}": column for name, column in self.emitter.snapshot().items()},
        }
        if self.order is not None:
            self.order.keep(self.operator.live_rows())
            saved |= {f"order/{name}": column for name, column in self.order.snapshot().items()}
        if len(self.buffer):
            batch = self.buffer.whole()
            batch = batch if batch.group is None or code is None else batch._replace(group=code[batch.group])
            columns = zip(PreparedBatch._fields, batch, strict=True)
            saved |= {f"buffer/{name}": column for name, column in columns if column is not None}
        return saved

    def restore(self, saved: Mapping[str, Any], row_ids: np.ndarray) -> None:
        """Go on from a snapshot; `row_ids` are the rows that the row store has."""
        names = self._counter_names
        found = validate(saved, _COLUMNS, counters=len(names))
        tracker = self.tracker
        code = None
        if self.groups is not None:
            code = self.groups.restore(saved, max(tracker.newest, tracker.watermark))
        upcoming, self.writer.step = (int(x) for x in found["sequence"])
        require(0 <= upcoming < _MAX_ROWS, "sequence has a value that it cannot have")
        self.counters |= dict(zip(names, found["counters"].tolist(), strict=True))
        require(np.diff(found["sequence/number"]) > 0, "sequence/number is not ascending")
        self.sequence.restore(upcoming, found["sequence/number"], found["sequence/row_id"])
        operator = section(saved, "operator/")
        if code is not None and GROUP_CODES in operator:
            codes = validate(operator, {GROUP_CODES: typed_column("i4", "rows", low=0, high=len(code) - 1)})[
                GROUP_CODES
            ]
            operator[GROUP_CODES] = code[codes]
        self.operator = self.spec.open(self.context, operator)
        self.writer = ResultWriter(self.columns, self.schema, self.time, self.operator)
        self.writer.step = int(found["sequence"][1])
        self.emitter.restore(section(saved, "emit/"), self.lists())
        self.positions = found["positions"]
        require(len(self.positions) <= self.lists(), "positions has more groups than there are")
        if "buffer/time" in saved:
            self.buffer.runs = [self._restored_batch(section(saved, "buffer/"), code)]
        if self.order is not None:
            self.order.restore(section(saved, "order/"))
            check_known(self.operator.live_rows(), self.order.numbers(), "the operator")
        check_known(self.live_rows(), row_ids, "the operator")

    def _restored_batch(self, saved: Mapping[str, Any], code: np.ndarray | None) -> PreparedBatch:
        columns = {
            "row_id": typed_column("i8", "rows", low=0),
            "time": typed_column("i8", "rows"),
            "score": typed_column("f8", "rows"),
        }
        score = saved.get("score")
        if isinstance(score, np.ndarray) and score.ndim > 1:  # points
            columns["score"] = typed_column("f8", "rows", score.shape[1])
        if self.query.id is not None or "tie" in saved:
            columns["tie"] = any_int_column("rows")
        if "missing" in saved:
            columns["missing"] = typed_column("?", "rows")
        if code is not None:
            columns["group"] = typed_column("i4", "rows", low=0, high=len(code) - 1)
        batch = PreparedBatch(**validate(saved, columns))
        require(batch.is_sorted(), "the buffered rows are not in the order of time")
        return batch if code is None or batch.group is None else batch._replace(group=code[batch.group])


_COLUMNS = {
    "counters": typed_column("i8", "counters", low=0),
    "positions": typed_column("i8", "positions", low=0),
    "sequence": typed_column("i8", 2),
    "sequence/number": typed_column("i8", "mapped"),
    "sequence/row_id": typed_column("i8", "mapped"),
}
