"""The stages joined: rows come in batch by batch, answers go out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.engines import Objects, QueryFamily, build
from skyband.engines.groups import grown_capacity
from skyband.runtime import steps
from skyband.runtime.arrow import from_storage
from skyband.runtime.batch import PreparedBatch, following, joined
from skyband.runtime.emit import EmittedRows, Emitter, change_names
from skyband.runtime.groups import Groups
from skyband.runtime.ids import read_ids
from skyband.runtime.row_store import RowStore
from skyband.runtime.runs import GroupRuns, Spans
from skyband.runtime.schema import check_schema, conform
from skyband.runtime.score import ranks_by
from skyband.runtime.steps import Shapes, in_one_table
from skyband.runtime.time_type import TimeType
from skyband.windows import WatermarkTracker, WindowAssigner
from skyband.windows.watermark import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skyband.engines import Answers
    from skyband.query import TopK

END = (1 << 62) - 1
"""After all time."""

_SPARE = 1 << 16  # rows that may pile up before the useless ones are dropped
_FAN = 16  # so many parts that wait are joined, ...
_SIZES = (16, 256, 4096)  # ... if each has at most so many rows


@dataclass
class Stats:
    """What a run has seen and done."""

    rows: int = 0
    without_score: int = 0
    without_time: int = 0
    late: int = 0
    ahead: int = 0
    windows: int = 0  # answers that had rows: one for each window and group
    answer_rows: int = 0
    peak_candidates: int = 0
    switches: tuple[dict[str, Any], ...] = ()  # of an engine that changes its ways: time, engine, why, exact_from

    def as_dict(self) -> dict[str, Any]:
        """The counts by name; switches only where there are any."""
        counts = asdict(self)
        if not self.switches:
            del counts["switches"]
        return counts


class OutOfOrderError(Exception):
    """A source that vowed to be in order is not: whoever believed it must order it and begin again."""


class Pipeline:
    """One query over one stream.

    `push` takes a batch and gives the answers it brings about; `finish` says that no more will come. With
    `rising` the source vows that no batch goes back behind the one before, so rows need not wait for their
    pane to close.
    """

    def __init__(  # noqa: PLR0913 - the one place where all is known
        self,
        query: TopK,
        schema: pa.Schema,
        engine: str,
        *,
        late: int = 0,
        ahead: int | None = None,
        sorted_input: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> None:
        check_schema(query, schema)
        self.query = query
        self.schema = schema
        self.options = options
        self.clock = self._clock()
        self.engine = self.made(engine)
        self.time = None if query.time is None else TimeType.of(query, schema.field(query.time).type)
        self._sorted_input = sorted_input
        self.timeline = WatermarkTracker(self.clock, late, ahead)
        self.groups = Groups(query.per) if query.per else None
        self.runs = GroupRuns() if query.per and self._forgets() else None
        self.payload = RowStore()
        self.emitter = self._emitter()
        self.waiting: list[PreparedBatch] = []  # rows whose pane is still open
        self._thin = _SPARE  # so many may wait before they are thinned out
        self.thinned = False  # whether they ever were
        self._positions = np.zeros(0 if query.per else 1, np.int64)  # there may be room for more groups
        self._due: list[PreparedBatch] = []  # rows of this batch that the engine has yet to take ...
        self._goal: int | None = None  # ... and how far it has to go with them; None: it has
        self._reached = self._newest = MIN_TIME  # how far the engine has come, and its newest row
        self._kept = 0
        self._empty: pa.Table | None = None
        self._next_end: int | None = None  # when the next window ends; None: not known
        self._stats = Stats()

    def made(self, engine: str, resume: Mapping[str, np.ndarray] | None = None) -> Any:
        """The engine of this name, anew or from a snapshot."""
        return build(engine, QueryFamily.of(self.query), resume, self.options)

    def _clock(self) -> Any:
        return WindowAssigner.of(self.query.window)

    def _emitter(self) -> Emitter:
        return Emitter(self.query)

    def _forgets(self) -> bool:
        """Whether groups may be forgotten: none has a position, or changes by the number of its rows."""
        return not self.clock.counts and (self.clock.slide > 0 or self.query.emit != "changes")

    def _spans(self) -> Spans:
        """The windows of which one must be empty before a group appears anew."""
        clock = self.clock
        return Spans(*(np.array([number], np.int64) for number in (clock.size, clock.slide, clock.origin)))

    @property
    def positions(self) -> np.ndarray:
        """How many rows of each group have come, for counting windows."""
        return self._positions[: self.lists()]

    @positions.setter
    def positions(self, positions: np.ndarray) -> None:
        self._positions = positions

    @property
    def stats(self) -> Stats:
        """What has been seen and done so far."""
        self._stats.late, self._stats.ahead = self.timeline.dropped
        self._stats.peak_candidates = int(self.engine.peak)  # a NumPy number where kernels are not compiled
        self._stats.switches = tuple(switch._asdict() for switch in getattr(self.engine, "switches", ()))
        return self._stats

    @property
    def kept(self) -> int:
        """How many rows are kept because they may still be in an answer."""
        return len(self.engine.candidates().id)

    def push(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take a batch, give the answers of the windows it closes."""
        return self._whole(self.push_in_steps(rows, watermark))

    def push_in_steps(self, rows: pa.Table, watermark: int | None = None) -> Iterator[pa.Table]:
        """Take a batch, give the answers of the windows it closes in steps of bounded size."""
        self.begin(rows, watermark)
        yield from self._steps()

    def begin(self, rows: pa.Table, watermark: int | None = None) -> None:
        """Take a batch; `step` then gives its answers, as long as `pending`."""
        self._stats.rows += rows.num_rows
        rows = conform(rows, self.schema)
        if self.clock.counts:
            self._begin_count(self._scored(rows, np.empty(0, np.int64)))
            return
        assert self.time is not None
        time, missing = self.time.micros(rows.column(self.query.time))
        if missing is not None:
            self._stats.without_time += int(missing.sum())
            rows, time = rows.filter(pa.array(~missing)), time[~missing]
        self._begin_take(self._scored(rows, time), watermark)

    def take(self, part: PreparedBatch, watermark: int | None = None) -> pa.Table:
        """Take rows that have their time and score, in any order; give the answers of the windows they close."""
        self._begin_take(part, watermark)
        return self._whole(self._steps())

    def _begin_take(self, part: PreparedBatch, watermark: int | None) -> None:
        taken = self.timeline.admit(part.time, watermark, sorted_input=self._sorted_input)
        if taken is None:
            raise OutOfOrderError
        if not taken.all():
            part = part.take(np.flatnonzero(taken))
        ranked = self._ranked_only(part)
        part = ranked if self.clock.slide else part  # after every row, one without a score is still a step
        if len(part.time):
            self._wait(part.sorted())
        # where ids break ties, rows of the newest moment wait: the next batch may have more of it
        edge = self.timeline.newest + (self.query.id is None) if self._sorted_input else self.timeline.closed_until
        self._due, self._goal = self._release(edge), self.timeline.watermark

    def finish(self) -> pa.Table:
        """Answer every time window that still holds a row. A window that ends after the newest row deletes nothing."""
        return self._whole(self.finish_in_steps())

    def finish_in_steps(self) -> Iterator[pa.Table]:
        """Answer every time window that still holds a row, in steps of bounded size."""
        self.begin_end()
        yield from self._steps()

    def begin_end(self) -> None:
        """No more rows will come; `step` then gives the last answers, as long as `pending`."""
        if not self.clock.counts:
            self.timeline.close()
        self._due, self._goal = [] if self.clock.counts else self._release(END), END

    def count(self, part: PreparedBatch) -> pa.Table:
        """Counting windows: every row takes the next position of its group, and nothing is late."""
        self._begin_count(part)
        return self._whole(self._steps())

    def _begin_count(self, part: PreparedBatch) -> None:
        self._due, self._goal = [part], END

    # ------------------------------------------------------------ steps

    @property
    def pending(self) -> bool:
        """Whether there are answers of this batch to give."""
        return self._goal is not None

    def _steps(self) -> Iterator[pa.Table]:
        while self.pending:
            yield self.step(self.affordable())

    @staticmethod
    def _whole(found: Iterator[pa.Table]) -> pa.Table:
        whole = in_one_table(found)
        assert whole is not None
        return whole

    def _shapes(self) -> Shapes:
        """What bounds the answers of the query."""
        return Shapes.of([(int(self.query.k), self.clock.size, self.clock.slide)])

    def affordable(self) -> int:
        """How far the next step may go, so that it has few enough answers.

        Only time windows with a slide can answer with many times the rows of a batch.
        """
        goal = self._goal
        assert goal is not None
        if self.clock.counts or not self.clock.slide:
            return goal
        shapes, kept = self._shapes(), int(self.engine.peak)
        groups = self.lists() + (0 if self.groups is None else len(self.groups))  # some may appear with these rows
        if not len(shapes.k):
            return goal
        time = self._due[0].time if len(self._due) == 1 else np.concatenate([_NO_TIMES, *(p.time for p in self._due)])
        open_for = int((shapes.size + shapes.slide).max())
        start, newest = self._reached, self._newest
        if start >= newest + open_for or newest == MIN_TIME:  # no window can show a row that is kept
            if not len(time):
                return goal
            start = max(start, int(time[0]))
        last = max(newest, int(time[-1])) if len(time) else newest
        length = max(min(goal, last + open_for) - start, 0)
        if shapes.by_time(length, groups, kept + len(time)) <= steps.ANSWERS:
            return goal
        return min(goal, start + shapes.longest(time, start, length, groups, kept))

    def step(self, goal: int) -> pa.Table:
        """The answers up to `goal`, one that `affordable` gave, or a smaller one."""
        assert self._goal is not None
        done = self.clock.counts or goal >= self._goal
        if self.clock.counts:
            found = self._count(self._due)
        else:
            found = self._advance(self._due_before(goal, rest=done), self._goal if done else goal)
        self._reached = max(self._reached, goal)
        if done:
            if self._goal != END:
                self.forget_groups(due=True)
            self._due, self._goal = [], None
        return found

    def stand_at(self, watermark: int, newest: int) -> None:
        """Go on where another pipeline stood: how far windows are closed, and the newest row that was seen."""
        self._reached, self._newest = watermark, newest

    def _due_before(self, goal: int, *, rest: bool) -> list[PreparedBatch]:
        """Take out the rows that are due before `goal`; with `rest` all of them."""
        out, later = self._due, []
        if not rest:
            cuts = [(part, int(np.searchsorted(part.time, goal))) for part in self._due]
            out = [part.take(slice(0, cut)) for part, cut in cuts if cut]
            later = [part.take(slice(cut, None)) for part, cut in cuts if cut < len(part.time)]
        self._due = later
        if out:
            self._newest = max(self._newest, int(out[-1].time[-1]))
        return out

    def _count(self, parts: list[PreparedBatch]) -> pa.Table:
        """Let the rows of the batch take the next positions of their groups."""
        if not parts:
            return self._table(None)
        (part,) = parts
        if part.group is None:
            position = np.arange(self._positions[0], self._positions[0] + len(part.score))
            self._positions[0] += len(part.score)
            moved = None
        else:
            from skyband.kernels.columns import number_rows

            assert self.groups is not None
            more = grown_capacity(len(self.groups), len(self._positions)) - len(self._positions)
            if len(self.groups) > len(self._positions):
                self._positions = np.concatenate([self._positions, np.zeros(more, np.int64)])
            position = number_rows(part.group, self._positions)
            moved = part.group
        part = self._ranked_only(part._replace(time=position, id=None, missing=None))
        return self._advance([part], self.positions, moved)

    def _scored(self, rows: pa.Table, time: np.ndarray) -> PreparedBatch:
        score = self._points(rows)
        group = self.group(rows)
        ids, missing = (None, None) if self.query.id is None else read_ids(rows.column(self.query.id), self.query.id)
        return PreparedBatch(rows.drop_columns(list(self.query.per)), score, time, ids, group, missing)

    def _points(self, rows: pa.Table) -> np.ndarray:
        """What an engine ranks a row by, larger first."""
        return ranks_by(self.query, rows)

    def group(self, rows: pa.Table) -> np.ndarray | None:
        """The number of each row's group; None where there is but one."""
        return None if self.groups is None else self.groups.codes(rows)

    def _ranked_only(self, part: PreparedBatch) -> PreparedBatch:
        """The rows that have a score; the others are counted."""
        if not len(part.score) or not np.isnan(part.score.min()):  # the least is NaN if any is
            return part
        none = _unscored(part.score)
        self._stats.without_score += int(none.sum())
        return part.take(np.flatnonzero(~none))

    def _wait(self, part: PreparedBatch) -> None:
        """Keep rows until their pane closes. Small parts are joined, so that there are few of them."""
        waiting = self.waiting
        waiting.append(part)
        for most in _SIZES:
            if len(waiting) < _FAN or any(len(last.time) > most for last in waiting[-_FAN:]):
                continue
            waiting[-_FAN:] = [joined(waiting[-_FAN:]).sorted()]

    def _release(self, edge: int) -> list[PreparedBatch]:
        """Take out the waiting rows before `edge`, as parts in order."""
        out, rest = [], []
        for part in self.waiting:
            if part.time[0] >= edge:
                rest.append(part)
                continue
            cut = int(np.searchsorted(part.time, edge))
            out.append(part.take(slice(0, cut)) if cut < len(part.time) else part)
            if cut < len(part.time):
                rest.append(part.take(slice(cut, None)))
        self.waiting = rest
        if sum(len(p.time) for p in rest) > self._thin and self.clock.slide:
            self.waiting = [self._thinned(joined(rest))]
            self._thin, self.thinned = max(_SPARE, 4 * len(self.waiting[0].time)), True
        if len(out) > 1 and sum(len(part.time) for part in out) <= _SIZES[-1]:
            return [joined(out).sorted()]
        return following(out)

    def _thinned(self, part: PreparedBatch) -> PreparedBatch:
        """The k best of each pane and group: nothing else can be in an answer. And the first, which orders groups."""
        pane = np.asarray(self.clock.pane(part.time))
        group = np.zeros(len(pane), np.int32) if part.group is None else part.group
        ids = part.id_order()
        ids = np.arange(len(pane)) if ids is None else ids
        order = np.lexsort((~ids, ~part.time, -part.score, group, pane))
        pane, group = pane[order], group[order]
        new = np.flatnonzero(np.r_[True, (np.diff(pane) != 0) | (np.diff(group) != 0)])
        rank = np.arange(len(order)) - np.repeat(new, np.diff(np.r_[new, len(order)]))
        keep = np.zeros(len(order), np.bool_)
        keep[order[rank < self.query.k]] = True
        if part.group is not None:
            early = np.lexsort((ids, part.time, part.group, np.asarray(self.clock.pane(part.time))))
            keep[early[new]] = True
        return part.take(np.flatnonzero(keep)).sorted()

    def _advance(self, parts: list[PreparedBatch], upto: int | np.ndarray, moved: np.ndarray | None = None) -> pa.Table:
        """Hand rows to the engine; its answers as a table."""
        options = () if moved is None else (moved,)
        if not parts:
            return self._table(self.engine.advance(self._none(), upto) if self._closes(upto) else None)
        tables = []
        for part, later in zip(parts, [*parts[1:], None], strict=True):
            goal = upto if later is None else later.time[0]
            tables.append(self._table(self.engine.advance(self._arrivals(part), goal, *options)))
        if self.clock.slide and not isinstance(upto, np.ndarray):
            self._next_end = self.clock.next_end(upto)
        if len(self.payload) > 2 * self._kept + _SPARE:
            self.payload.keep(self.emitter.needed(self.engine.live_ids()))
            self._kept = len(self.payload)
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def _closes(self, upto: int | np.ndarray) -> bool:
        """Whether a window may end by `upto`, if no rows have come since this was asked last."""
        if isinstance(upto, np.ndarray) or not self.clock.slide:
            return False
        closes = self._next_end is None or self._next_end <= upto
        if closes:
            self._next_end = self.clock.next_end(upto)
        return closes

    def _none(self) -> Objects:
        return _NOTHING if self.groups is None else _NOTHING._replace(group=np.empty(0, np.int32))

    def _arrivals(self, part: PreparedBatch) -> Objects:
        slots = self.payload.add(part.rows)
        group = part.group
        if self.runs is not None:
            assert group is not None
            assert self.groups is not None
            group = self.runs.numbers(group, part.time, len(self.groups), self._spans())
        return Objects(part.score, part.time, slots, group)

    def forget_groups(self, *, due: bool = False) -> None:
        """Forget groups that keep no rows, owe no deletion, and appear anew with their next row.

        With `due` only if there are so many that the work is small beside that of their rows.
        """
        runs, groups = self.runs, self.groups
        if runs is None or groups is None:
            return
        few, few_groups = runs.due(len(groups)) if due else (True, True)
        if not few and not few_groups:
            return
        engine = self.engine
        since = self.timeline.newest if self._sorted_input else self.timeline.closed_until
        keep = np.unique(np.concatenate([engine.active_groups(), self.emitter.busy(), runs.open(since, self._spans())]))
        engine.keep_groups(keep)
        self.emitter.regroup(keep)
        runs.keep(keep)
        if few_groups:
            waiting = [part.group for part in self.waiting if part.group is not None]
            known = np.unique(np.concatenate([runs.groups(np.arange(runs.count)), *waiting]))
            groups.keep(known)
            number = runs.keep_groups(known)
            self.waiting = [part._replace(group=number[part.group]) for part in self.waiting]

    def lists(self) -> int:
        """How many lists there are side by side."""
        if self.runs is not None:
            return self.runs.count
        return 1 if self.groups is None else len(self.groups)

    def _table(self, answers: Answers | None) -> pa.Table:
        """Answers as rows, with the rows they speak of."""
        if answers is not None and len(answers.step):
            watermark = END if self.clock.counts else self.timeline.watermark
            lines = self.emitter.lines(answers, self.lists(), watermark)
            self._stats.windows += int((np.diff(answers.first) > 0).sum())
            self._stats.answer_rows += len(lines)
            if len(lines):
                return self._columns(lines)
        if self._empty is None:
            self._empty = self._columns(EmittedRows.none(changes=self.query.emit == "changes"))
        return self._empty

    def _columns(self, lines: EmittedRows) -> pa.Table:
        query, own = self.query, self._own()
        start, end = self._shown(lines)
        if self.time is not None and not self.clock.counts:
            window = [self.time.column(start), self.time.column(end)]
        else:
            window = [pa.array(start), pa.array(end)]
        columns = self._lead(lines)
        columns |= {query.column("window_start"): window[0], query.column("window_end"): window[1]}
        if lines.change is not None:
            columns[query.column("step")] = pa.array(lines.step)
        for name, values in self._per(lines.group).items():
            columns[name] = from_storage(values, self.schema.field(name).type, name)
        if lines.change is not None:
            columns[query.column("_change_type")] = change_names(lines.change)
        columns[query.column("rank")] = pa.array(lines.rank.astype(np.int32))
        columns[query.column("score")] = pa.array(-lines.score if query.ascending else lines.score)
        rows = self.payload.take(lines.slot) if len(lines) else None
        for field in own:
            column = pa.nulls(0, field.type) if rows is None else rows.column(field.name)
            columns[field.name] = from_storage(column, field.type, field.name)
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))

    def _own(self) -> list[pa.Field]:
        """The columns of a row itself."""
        return [f for f in self.schema if f.name not in self.query.per]

    def _lead(self, lines: EmittedRows) -> dict[str, pa.Array]:  # noqa: ARG002 - for workloads
        """The columns before all others."""
        return {}

    def _shown(self, lines: EmittedRows) -> tuple[np.ndarray, np.ndarray]:
        """Start and end of the lines' windows, as a user reads them."""
        shown: tuple[np.ndarray, np.ndarray] = self.clock.bounds(lines.end)
        return shown

    def _per(self, group: np.ndarray) -> dict[str, pa.Array]:
        if self.groups is None:
            return {}
        if not len(group):
            return {name: pa.nulls(0, self.schema.field(name).type) for name in self.query.per}
        known = group if self.runs is None else self.runs.groups(group)
        return dict(zip(self.query.per, self.groups.values(known), strict=True))


def _unscored(score: np.ndarray) -> np.ndarray:
    """Which rows cannot be ranked; a point cannot if it lacks a coordinate."""
    none = np.isnan(score)
    return none if none.ndim == 1 else none.any(axis=1)


_NO_TIMES = np.empty(0, np.int64)
_NOTHING = Objects(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
