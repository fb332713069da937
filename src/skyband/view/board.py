"""A leaderboard over a stream: batches in, ranked keys out. The same doors as `flow.pipeline.Pipeline`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.flow.emit import Lines, change_names
from skyband.flow.pipeline import END, OutOfOrderError, Stats
from skyband.flow.schema import conform
from skyband.flow.time import TimeType
from skyband.view.keyed import Keyed
from skyband.view.partial import PANE, folded, numbers_of, partial_totals
from skyband.view.totals import Totals
from skyband.windows import Clock, Timeline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines import Answers
    from skyband.query import TopK

_SPARE = 1 << 16  # partial totals that may wait before those of one cell and pane are folded


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
        rising: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(query, schema)
        assert query.time is not None
        self.options = options
        self.engine = engine
        self.clock = Clock.of(query.window)
        self.time = TimeType.of(query, schema.field(query.time).type)
        self.timeline = Timeline(self.clock, late, ahead)
        self.totals = Totals(query, self.measure, self.clock)
        self._rising = rising
        self.waiting: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []  # pane, cell, ints, floats
        self._limit = _SPARE
        self.last = np.zeros((2, 0), np.int64)  # "changes": each group's last list ...
        self.lists = (np.empty(0, np.int64), np.empty(0))  # ... its cells and scores
        self._stats = Stats()

    @property
    def stats(self) -> Stats:
        """What has been seen and done so far."""
        self._stats.late, self._stats.ahead = self.timeline.lost
        self._stats.peak_candidates = self.totals.peak
        return self._stats

    @property
    def kept(self) -> int:
        """How many partial totals are kept because they may still be in an answer."""
        return len(self.totals.snapshot()["pane"]) + sum(len(part[0]) for part in self.waiting)

    def push(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take a batch, give the answers of the windows it closes."""
        self._stats.rows += rows.num_rows
        rows = conform(rows, self.schema)
        time, missing = self.time.micros(rows.column(self.query.time))
        if missing is not None:
            self._stats.without_time += int(missing.sum())
            rows, time = rows.filter(pa.array(~missing)), time[~missing]
        taken = self.timeline.admit(time, watermark, rising=self._rising)
        if taken is None:
            raise OutOfOrderError
        if not taken.all():
            places = np.flatnonzero(taken)
            rows, time = rows.take(pa.array(places)), time[places]
        if self.groups is not None:
            self.groups.codes(rows)  # numbered as they first appear, also by a row that adds nothing
        found, without = partial_totals(self.query, self.measure, rows, time)
        self._stats.without_score += without
        return self.take(found)

    def take(self, partials: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take partial totals, none of them late; give the answers of the windows that have closed by now."""
        if watermark is not None:
            self.timeline.watermark = max(self.timeline.watermark, watermark)
        if partials.num_rows:
            cell = self.numbers(partials, self.totals)
            self.waiting.append((partials.column(PANE).to_numpy(), cell, *numbers_of(partials, self.measure)))
        self._release(self.timeline.edge)
        return self._table(self.timeline.watermark)

    def finish(self) -> pa.Table:
        """Answer every window that still holds a row. A window that ends after the newest row deletes nothing."""
        self.timeline.close()
        self._release(END)
        return self._table(END)

    def _release(self, edge: int) -> None:
        """Hand the partial totals of panes before `edge` on; fold what waits when it is much."""
        if not self.waiting:
            return
        size = sum(len(part[0]) for part in self.waiting)
        due = any(len(part[0]) and part[0].min() < edge for part in self.waiting)
        if not due and size <= self._limit:
            return
        pane, cell, ints, floats = self.fold_waiting()
        cut = int(np.searchsorted(pane, edge))
        if cut:
            self.totals.add(pane[:cut], cell[:cut], ints[:cut], floats[:cut])
        self.waiting = [(pane[cut:], cell[cut:], ints[cut:], floats[cut:])] if cut < len(pane) else []
        self._limit = max(_SPARE, 2 * (len(pane) - cut))

    def fold_waiting(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """All that waits, by pane and cell, one total for each."""
        columns = self.waiting[0]
        if len(self.waiting) > 1:
            columns = tuple(np.concatenate(column) for column in zip(*self.waiting, strict=True))  # type: ignore[assignment]
        pane, cell, ints, floats = columns
        order = np.lexsort((cell, pane))
        new = (np.diff(pane[order]) != 0) | (np.diff(cell[order]) != 0)
        if new.all():
            return pane[order], cell[order], ints[order], floats[order]
        code = np.empty(len(pane), np.int64)
        code[order] = np.cumsum(np.concatenate([[False], new]))
        first, ints, floats = folded(code, ints, floats)
        return pane[first], cell[first], ints, floats

    def _table(self, upto: int) -> pa.Table:
        answers = self.totals.advance(upto)
        self._stats.windows += int((np.diff(answers.first) > 0).sum())
        sizes = np.diff(answers.first)
        if self.query.emit == "changes":
            lines = self._changes(answers)
        else:
            rank = np.arange(len(answers.id)) - np.repeat(answers.first[:-1], sizes) + 1
            rank = rank if answers.rank is None else answers.rank
            step, end, group = (np.repeat(column, sizes) for column in (answers.step, answers.end, answers.group))
            lines = Lines(step, end, group, rank, answers.score, answers.id)
        self._stats.answer_rows += len(lines)
        return self._columns(lines)

    def _changes(self, found: Answers) -> Lines:
        from skyband.kernels.boards import moves

        keep = (np.diff(found.first) > 0) | (found.end <= self.timeline.watermark)  # the end deletes nothing
        first = np.append(found.first[:-1][keep], found.first[-1])
        step, end, group = found.step[keep], found.end[keep], found.group[keep]
        groups = 1 if self.groups is None else len(self.groups)
        rest = np.zeros((2, max(groups - self.last.shape[1], 0)), np.int64)
        self.last = np.concatenate([self.last, rest], axis=1)
        cells = np.concatenate([self.lists[0], found.id])
        scores = np.concatenate([self.lists[1], found.score])
        which, kind, place, rank = moves(cells, scores, first + len(self.lists[0]), group, self.last, self.query.ranks)
        sizes = self.last[1] - self.last[0]
        ends = np.cumsum(sizes)
        last = np.arange(sizes.sum()) + np.repeat(self.last[0] - ends + sizes, sizes)
        self.lists = cells[last], scores[last]
        self.last = np.stack([ends - sizes, ends])
        return Lines(step[which], end[which], group[which], rank, scores[place], cells[place], kind)

    def _columns(self, lines: Lines) -> pa.Table:
        query = self.query
        start, end = self.clock.shown(lines.end)
        columns = {
            query.column("window_start"): self.time.column(start),
            query.column("window_end"): self.time.column(end),
        }
        if lines.change is not None:
            columns[query.column("step")] = pa.array(lines.step)
        for name in query.per:
            columns[name] = self.values(self.groups, name, lines.group)
        if lines.change is not None:
            columns[query.column("_change_type")] = change_names(lines.change)
        columns[query.column("rank")] = pa.array(lines.rank, pa.int32())
        columns[query.column("score")] = pa.array(-lines.score if query.ascending else lines.score)
        for name in query.of:
            columns[name] = self.values(self.keys, name, self.key_of[lines.slot])
        return pa.table(columns)

    def alive(self) -> bool:
        """Whether there is anything to remember."""
        return bool(self.waiting) or self.totals.busy or bool((self.last[1] > self.last[0]).any())
