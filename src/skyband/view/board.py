"""A leaderboard over a stream: batches in, ranked keys out. The same doors as `runtime.pipeline.Pipeline`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.runtime import steps
from skyband.runtime.arrow import take_rows
from skyband.runtime.emit import EmittedRows, change_names
from skyband.runtime.pipeline import END, OutOfOrderError, Stats
from skyband.runtime.runs import GroupRuns, Spans
from skyband.runtime.schema import conform
from skyband.runtime.steps import in_one_table
from skyband.runtime.time_type import TimeType
from skyband.view.keyed import Keyed, LastLists
from skyband.view.partial import PANE, Partials, folded_partials, folded_rows, numbers_of
from skyband.view.totals import Totals
from skyband.windows import WatermarkTracker, WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from skyband.engines import Answers
    from skyband.engines.protocol import Snapshot
    from skyband.query import TopK

_SPARE = 1 << 16  # partial totals that may wait before those of one cell and pane are folded
_SPARE_CELLS = 1 << 12  # cells that may have no rows before they are forgotten


class Leaderboard(Keyed):
    """One query with `of=` over one stream.

    `push` takes a batch and gives the answers it brings about; `finish` says that no more will come. `take` is for
    partial totals that were made elsewhere, by `partial_totals`.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, of="p", by="sum(n)", window=sb.Tumbling("10 us"), time="t", unit="us")
    >>> rows = pa.table({"t": [1, 2, 12], "p": ["a", "a", "b"], "n": [5, -2, 7]})
    >>> board = Leaderboard(query, rows.schema)
    >>> board.push(rows).to_pylist()
    [{'window_start': 0, 'window_end': 10, 'rank': 1, 'score': 3.0, 'p': 'a'}]
    """

    def __init__(  # noqa: PLR0913 - as Pipeline
        self,
        query: TopK,
        schema: pa.Schema,
        engine: str = "totals",
        *,
        late: int = 0,
        ahead: int | None = None,
        sorted_input: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(query, schema)
        assert query.time is not None
        self.options = options
        self.engine = engine
        self.clock = WindowAssigner.of(query.window)
        self.time = TimeType.of(query, schema.field(query.time).type)
        self.timeline = WatermarkTracker(self.clock, late, ahead)
        self.totals = Totals(query, self.measure, self.clock)
        self._sorted_input = sorted_input
        self.runs = GroupRuns() if query.per else None
        self.waiting: list[Partials] = []
        self._buffered, self._limit = 0, _SPARE  # how many partial totals wait, and how many may
        self._arrived = 0  # rows that came
        self.last = LastLists()  # "changes": of each group
        self._active, self._active_keys = 0, 0  # cells and keys when some were last forgotten
        self._next_end: int | None = None  # when the next window ends; None: not known
        self._empty: pa.Table | None = None
        self._stats = Stats()

    @property
    def stats(self) -> Stats:
        """What has been seen and done so far."""
        self._stats.late, self._stats.ahead = self.timeline.dropped
        self._stats.peak_candidates = self.totals.peak
        return self._stats

    @property
    def kept(self) -> int:
        """How many partial totals are kept because they may still be in an answer."""
        return len(self.totals.snapshot()["pane"]) + self._buffered

    def push(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take a batch, give the answers of the windows it closes."""
        return self._whole(self.push_in_steps(rows, watermark))

    def push_in_steps(self, rows: pa.Table, watermark: int | None = None) -> Iterator[pa.Table]:
        """Take a batch, give the answers of the windows it closes in steps of bounded size."""
        self._stats.rows += rows.num_rows
        rows = conform(rows, self.schema)
        time, missing = self.time.micros(rows.column(self.query.time))
        if missing is not None:
            self._stats.without_time += int(missing.sum())
            rows, time = rows.filter(pa.array(~missing)), time[~missing]
        taken = self.timeline.admit(time, watermark, sorted_input=self._sorted_input)
        if taken is None:
            raise OutOfOrderError
        if not taken.all():
            places = np.flatnonzero(taken)
            rows, time = rows.take(pa.array(places)), time[places]
        ints, floats, given = self.measure.values(rows)
        without = len(given) - int(given.sum())
        if without:
            places = np.flatnonzero(given)
            rows, time, ints, floats = take_rows(rows, places), time[places], ints[places], floats[places]
            self._stats.without_score += without
        if len(time):
            group, key = self.codes(rows)
            pane = np.asarray(self.clock.pane(time))
            self._wait(folded_rows(Partials(pane, group, key, np.arange(len(pane)), ints, floats)))
        yield from self._close(self.timeline.watermark)

    def take(self, partials: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take partial totals, none of them late; give the answers of the windows that have closed by now."""
        if watermark is not None:
            self.timeline.watermark = max(self.timeline.watermark, watermark)
        if partials.num_rows:
            group, key = self.codes(partials)
            pane = partials.column(PANE).to_numpy()
            self._wait(Partials(pane, group, key, np.arange(len(pane)), *numbers_of(partials, self.measure)))
        return self._whole(self._close(self.timeline.watermark))

    def _wait(self, part: Partials) -> None:
        """Keep partial totals until a window closes."""
        self.waiting.append(part._replace(arrived=part.arrived + self._arrived))
        self._arrived += int(part.arrived.max(initial=-1)) + 1
        self._buffered += len(part.pane)
        if self._buffered > self._limit:
            self.fold_waiting()
            self._limit = max(_SPARE, 2 * self._buffered)

    def resume_waiting(self, part: Partials) -> None:
        """Go on with partial totals that waited elsewhere."""
        self.waiting, self._buffered = [part], len(part.pane)
        self._arrived = int(part.arrived.max(initial=-1)) + 1

    def finish(self) -> pa.Table:
        """Answer every window that still holds a row. A window that ends after the newest row deletes nothing."""
        return self._whole(self.finish_in_steps())

    def finish_in_steps(self) -> Iterator[pa.Table]:
        """Answer every window that still holds a row, in steps of bounded size."""
        self.timeline.close()
        yield from self._close(END)

    @staticmethod
    def _whole(found: Iterator[pa.Table]) -> pa.Table:
        whole = in_one_table(found)
        assert whole is not None
        return whole

    def _close(self, upto: int) -> Iterator[pa.Table]:
        """The answers of the windows that end by `upto`, in steps of bounded size."""
        if self._next_end is not None and upto < self._next_end:
            yield self._table(None)
            return
        self._next_end = self.clock.next_end(upto)
        self._release(END if upto == END else self.timeline.closed_until)
        windows = max(steps.ANSWERS // max(min(self.query.k * self.totals.groups, self.totals.number), 1), 1)
        while True:
            reached, last = self.totals.reach()
            reached += windows * self.clock.slide
            if last is None or reached >= min(upto, last + self.clock.size + self.clock.slide):
                break
            yield self._table(self.totals.advance(reached))
        yield self._table(self.totals.advance(upto))
        self.forget(due=True)

    def _release(self, edge: int) -> None:
        """Hand the partial totals of panes before `edge` on."""
        if not self.waiting:
            return
        whole = self.fold_waiting()
        cut = int(np.searchsorted(whole.pane, edge))
        due, rest = whole.take(slice(0, cut)), whole.take(slice(cut, None))
        self.waiting, self._buffered = [rest] if len(rest.pane) else [], len(rest.pane)
        if not cut:
            return
        run, groups = due.group, 1
        if self.runs is not None and self.groups is not None:
            due = due.take(np.lexsort((due.arrived, due.pane)))
            run = self.runs.numbers(due.group, due.pane, len(self.groups), self._spans)
            groups = self.runs.count
        cell = self.numbers(run, due.key, groups, self.totals)
        self.totals.add(due.pane, cell, due.ints, due.floats)

    @property
    def _spans(self) -> Spans:
        clock = self.clock
        return Spans(*(np.array([number], np.int64) for number in (clock.size, clock.slide, clock.origin)))

    def fold_waiting(self) -> Partials:
        """All that waits, by pane, group and key, one total for each."""
        whole = self.waiting[0]
        if len(self.waiting) > 1:
            whole = Partials(*(np.concatenate(column) for column in zip(*self.waiting, strict=True)))
        whole = folded_partials(whole)
        self.waiting, self._buffered = [whole], len(whole.pane)
        return whole

    def forget(self, *, due: bool = False) -> None:
        """Forget cells without rows, and groups and keys without cells; the others are numbered anew.

        With `due` only if there are so many that the work is small beside that of their rows.
        """
        number = self.totals.number
        if due and number <= 2 * self._active + _SPARE_CELLS:
            return
        cells = np.unique(np.concatenate([self.totals.kept(), self.last.cells()]).astype(np.int64))
        saved = self.totals.snapshot()
        runs = np.arange(self.totals.groups)
        if self.runs is not None:
            since = self.timeline.newest if self._sorted_input else self.timeline.closed_until
            busy = [saved["group"][cells], np.flatnonzero(saved["shown"]), self.runs.open(since, self._spans)]
            runs = np.unique(np.concatenate(busy)).astype(np.int64)
        renumbered = np.full(max(number, 1), -1, np.int64)
        renumbered[cells] = np.arange(len(cells))
        self.last.keep(runs, renumbered)
        if len(cells) < number or len(runs) < self.totals.groups:
            self._rebuild(saved, cells, runs, renumbered)
        self._active = len(cells)
        self._forget_keys(due=due)

    def _rebuild(self, saved: Snapshot, cells: np.ndarray, runs: np.ndarray, renumbered: np.ndarray) -> None:
        """Go on with these cells and runs only."""
        place = np.full(self.totals.groups, -1, np.int64)
        place[runs] = np.arange(len(runs))
        saved.update(
            cell=renumbered[saved["cell"]].astype(np.int32),
            group=place[saved["group"][cells]].astype(np.int32),
            tie=saved["tie"][cells],
            missing=saved["missing"][cells],
            told=saved["told"][cells],
            shown=saved["shown"][runs],
        )
        peak, self.totals = self.totals.peak, Totals(self.query, self.measure, self.clock)
        self.totals.peak = peak
        self.totals.load(saved)
        if self.runs is not None:
            self.runs.keep(runs)
        self.key_of = self.key_of[cells]
        self.rehash(len(cells), self.totals)

    def _forget_keys(self, *, due: bool) -> None:
        """Forget groups and keys that have no cell and of which nothing waits."""
        if self.groups is not None and self.runs is not None and (not due or self.runs.due(len(self.groups))[1]):
            runs = self.runs.groups(np.arange(self.runs.count))
            known = np.unique(np.concatenate([runs, *(part.group for part in self.waiting)]))
            self.groups.keep(known)
            number = self.runs.keep_groups(known)
            self.waiting = [part._replace(group=number[part.group]) for part in self.waiting]
        if not due or len(self.keys) > 2 * self._active_keys + _SPARE:
            known = np.unique(np.concatenate([self.key_of, *(part.key for part in self.waiting)]))
            number = np.zeros(len(self.keys), np.int32)
            number[known] = np.arange(len(known), dtype=np.int32)
            self.keys.keep(known)
            self.key_of = number[self.key_of]
            self.waiting = [part._replace(key=number[part.key]) for part in self.waiting]
            self._active_keys = len(known)
            self.rehash(len(self.key_of), self.totals)

    def _table(self, answers: Answers | None) -> pa.Table:
        if answers is not None and len(answers.step):
            self._stats.windows += int((np.diff(answers.first) > 0).sum())
            lines = self._lines(answers)
            self._stats.answer_rows += len(lines)
            if len(lines):
                return self._columns(lines)
        if self._empty is None:
            self._empty = self._columns(EmittedRows.none(changes=self.query.emit == "changes"))
        return self._empty

    def _lines(self, answers: Answers) -> EmittedRows:
        if self.query.emit == "changes":
            return self._changes(answers)
        sizes = np.diff(answers.first)
        rank = np.arange(len(answers.id)) - np.repeat(answers.first[:-1], sizes) + 1
        rank = rank if answers.rank is None else answers.rank
        step, end, group = (np.repeat(column, sizes) for column in (answers.step, answers.end, answers.group))
        return EmittedRows(step, end, group, rank, answers.score, answers.id)

    def _changes(self, found: Answers) -> EmittedRows:
        keep = (np.diff(found.first) > 0) | (found.end <= self.timeline.watermark)  # the end deletes nothing
        first = np.append(found.first[:-1][keep], found.first[-1])
        step, end, group = found.step[keep], found.end[keep], found.group[keep]
        groups = 1 if self.runs is None else self.runs.count
        which, kind, rank, cell, score = self.last.moves(found.id, found.score, first, group, groups, self.query.ranks)
        return EmittedRows(step[which], end[which], group[which], rank, score, cell, kind)

    def _columns(self, lines: EmittedRows) -> pa.Table:
        query = self.query
        start, end = self.clock.bounds(lines.end)
        columns = {
            query.column("window_start"): self.time.column(start),
            query.column("window_end"): self.time.column(end),
        }
        if lines.change is not None:
            columns[query.column("step")] = pa.array(lines.step)
        for name in query.per:
            known = lines.group if self.runs is None or not len(lines) else self.runs.groups(lines.group)
            columns[name] = self.values(self.groups, name, known)
        if lines.change is not None:
            columns[query.column("_change_type")] = change_names(lines.change)
        columns[query.column("rank")] = pa.array(lines.rank.astype(np.int32))
        columns[query.column("score")] = pa.array(-lines.score if query.ascending else lines.score)
        for name in query.of:
            columns[name] = self.values(self.keys, name, self.key_of[lines.slot])
        return pa.table(columns)

    def alive(self) -> bool:
        """Whether there is anything to remember."""
        return bool(self.waiting) or self.totals.busy or self.last.any()
