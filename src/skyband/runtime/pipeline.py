"""The pipeline of one stream: rows come in batch by batch, operators rank them, results go out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.engines.validation import require, section, typed_column, validate
from skyband.runtime.arrow import take_rows
from skyband.runtime.row_store import RowStore
from skyband.runtime.runner import OperatorRunner
from skyband.runtime.schema import conform
from skyband.runtime.snapshot import refusing, table_of
from skyband.windows import MIN_TIME, WatermarkTracker

if TYPE_CHECKING:
    from skyband.runtime.protocols import OperatorSpec, Snapshot
    from skyband.runtime.schema import TimeType
    from skyband.runtime.stats import Stats

_SPARE_ROWS = 1 << 16  # rows that may pile up before those that nobody needs are dropped
_COLUMNS = {"stream": typed_column("i8", 8), "row_ids": typed_column("i8", "rows", low=0)}


class OutOfOrderError(Exception):
    """Raised when input declared sorted goes back in time. The caller sorts and retries."""


class Pipeline:
    """Operators over one stream.

    It owns what they share: the watermark, the row store and the counters. Each operator has a runner of its own, which
    owns its groups, its reorder buffer and its emit state.

    Parameters
    ----------
    specs
        The operators; several if the queries of a workload cannot share one.
    schema
        The columns of the source.
    late, ahead
        Allowed lateness, and how far ahead of the newest time a row may be (None: any), in microseconds.
    sorted_input
        No batch goes back behind the one before, so rows need not wait for their pane to close.
    live
        The source has no known end.
    """

    def __init__(
        self,
        specs: Sequence[OperatorSpec],
        schema: pa.Schema,
        *,
        late: int = 0,
        ahead: int | None = None,
        sorted_input: bool = False,
        live: bool = True,
    ) -> None:
        self.schema, self.sorted_input, self._live = schema, sorted_input, live
        self.tracker = WatermarkTracker(late, ahead)
        self.rows = RowStore()
        self.runners = [self._runner(spec) for spec in specs]
        scored = all(spec.scored for spec in specs)  # then groups have the values of their columns
        self._per = list(self.runners[0].columns.per) if scored else []
        self.finished = False
        self._kept = 0  # rows in the store when it was last cleaned
        self._results: list[pa.Table] = []  # tables that were computed before they were asked for
        self._counters = {"rows": 0, "without_time": 0, "late_rows": 0}
        self._closed: list[tuple[OperatorSpec, dict[str, int]]] = []  # counters of operators that are gone
        self._peak = 0
        self.changes: object = None  # lets queries in and out, and lives as long as the pipeline

    def _runner(self, spec: OperatorSpec) -> OperatorRunner:
        return OperatorRunner(
            spec, self.schema, self.rows, self.tracker, sorted_input=self.sorted_input, live=self._live
        )

    @property
    def time(self) -> TimeType | None:
        """How the time column counts."""
        return self.runners[0].time

    @property
    def timed(self) -> bool:
        """Whether time moves the operators on."""
        return self.runners[0].spec.event_time

    @property
    def names(self) -> Sequence[str]:
        """The names of all queries, by number."""
        every = [runner.operator.names for runner in self.runners]
        if len(every) == 1:
            return every[0]
        return ["".join(names) for names in zip_longest(*every, fillvalue="")]

    # ------------------------------------------------------------ rows in, results out

    def push(self, rows: pa.Table, watermark: int | None = None) -> Iterator[pa.Table]:
        """Take a batch; yield the results it brings about, in steps of bounded size."""
        self.begin(rows, watermark)
        yield from self.steps()

    def begin(self, rows: pa.Table, watermark: int | None = None) -> None:
        """Take a batch; the results come with the next steps."""
        self._counters["rows"] += rows.num_rows
        rows = conform(rows, self.schema)
        time, places = self._times(rows)
        closed = [self.tracker.closed_until(runner.operator.assigner) for runner in self.runners]
        if self.timed:
            taken = self.tracker.observe(time, watermark, sorted_input=self.sorted_input)
            if taken is None:
                raise OutOfOrderError
            if not taken.all():
                kept = np.flatnonzero(taken)
                places, time = (kept if places is None else places[kept]), time[kept]
        row_id, late = self._store(rows), 0
        for runner, closed_until in zip(self.runners, closed, strict=True):
            columns = runner.spec.columns
            # a table without columns forgets how many rows it has
            needed = rows if columns is None else rows.select(columns or rows.column_names[:1])
            mine, when = places, time
            on_time = runner.admit(time, closed_until) if self.timed else None
            if on_time is not None:
                late = max(late, len(time) - len(on_time))  # of nested sets, the largest
                mine, when = (on_time if places is None else places[on_time]), time[on_time]
            if mine is not None:
                needed = take_rows(needed, mine)
            ids = row_id if mine is None else row_id[mine]
            runner.begin(runner.spec.prepare(needed, ids, when, runner.groups), closed_until)
        self._counters["late_rows"] += late

    def accept(self, inputs: Mapping[str, Sequence[pa.Table]], watermark: int) -> Iterator[pa.Table]:
        """Take what has travelled to the one operator, with the watermark that holds as the batch begins."""
        (runner,) = self.runners
        judged_before = runner.spec.takes_closed_panes and self.tracker.watermark > MIN_TIME
        closed_until = runner.closed_until  # by the watermark of the batch before
        self.tracker.watermark = max(self.tracker.watermark, watermark)
        for name in inputs.keys() - {"rows"}:
            runner.operator.take_input(name, inputs[name], runner)
        if inputs.get("rows"):
            rows, part = runner.spec.receive(inputs["rows"], self.schema, runner.groups)
            if rows is not None:
                row_id = self._store(rows)
                part = part._replace(row_id=row_id[part.row_id])
            closed_until = closed_until if judged_before else runner.closed_until
            if self.timed:
                part = self._on_time(part, runner, closed_until)
            runner.begin(part, closed_until)
        else:
            runner.release()
        yield from self.steps()

    def _on_time(self, part: Any, runner: OperatorRunner, closed_until: int) -> Any:
        """Return what is not late of a part that has travelled."""
        late_before = runner.counters["late_rows"]
        places = runner.admit(part.time, closed_until)
        if runner.operator.assigner.slide:  # counted by pane, before the shuffle
            runner.counters["late_rows"] = late_before
        self.tracker.observe(part.time, self.tracker.watermark)
        return part if places is None else part.take(places)

    def _times(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the times of the rows, and the places of those that have one (None: all)."""
        name = self.runners[0].query.time
        if not self.timed or name is None:
            return np.empty(0, np.int64), None
        assert self.time is not None
        time, missing = self.time.micros(rows.column(name))
        if missing is None:
            return time, None
        self._counters["without_time"] += int(missing.sum())
        places = np.flatnonzero(~missing)
        return time[places], places

    def _store(self, rows: pa.Table) -> np.ndarray:
        """Store the rows for the operators that emit them; return their row ids."""
        if not any(runner.spec.ordered for runner in self.runners):
            return np.arange(rows.num_rows)
        return self.rows.add(rows.drop_columns(self._per) if self._per else rows)

    def finish(self) -> Iterator[pa.Table]:
        """Answer every time window that still holds a row. A window that ends after the newest row deletes nothing."""
        self.finished = True
        if self.timed:
            self.tracker.close()
        for runner in self.runners:
            runner.begin_end()
        yield from self.steps()

    def steps(self) -> Iterator[pa.Table]:
        """Yield what there is to yield, as long as an operator has yet to advance."""
        while self._results or any(runner.pending for runner in self.runners):
            found = self._results.pop(0) if self._results else self._step()
            if found is not None:
                yield found

    def _step(self) -> pa.Table | None:
        """Advance all operators together, as far as the results of the one with the most allow."""
        pending = [runner for runner in self.runners if runner.pending]
        goal = min(runner.affordable() for runner in pending)
        found = [(runner, table) for runner in pending for table in runner.step(goal, self.names)]
        if len(self.rows) > 2 * self._kept + _SPARE_ROWS:
            self._clean()
        return self._merged(found)

    def settle(self) -> None:
        """Finish the batch that is being answered, before queries come or go."""
        while any(runner.pending for runner in self.runners):
            found = self._step()
            self._results += [] if found is None else [found]

    def empty(self) -> pa.Table:
        """Return a result without rows."""
        tables = [runner.writer.empty(self.names) for runner in self.runners]
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")

    def _merged(self, found: list[tuple[OperatorRunner, pa.Table]]) -> pa.Table | None:
        """Return the results of all operators as one table, by the end of their windows, then by query."""
        if not found:
            return None
        tables = [table for _, table in found]
        if len({tuple(runner.columns.extra) for runner in self.runners}) > 1:  # all columns in every table
            tables = [self.empty(), *tables]
        ordered = all(runner is found[0][0] for runner, _ in found) and not found[0][0].operator.mixes_ends
        if ordered and len(tables) < 2:
            return tables[0]
        whole = pa.concat_tables(tables, promote_options="permissive")
        if ordered:
            return whole
        column = found[0][0].query.column
        end = whole.column(column("window_end"))
        end = end.cast(pa.int32() if pa.types.is_date32(end.type) else pa.int64()).to_numpy()
        number = np.concatenate([chunk.indices.to_numpy() for chunk in whole.column(column("query")).chunks])
        return take_rows(whole, np.lexsort((number, end)))

    # ------------------------------------------------------------ operators come and go

    def open(self, spec: OperatorSpec) -> OperatorRunner:
        """Add an operator where the stream stands now."""
        runner = self._runner(spec)
        self.runners.append(runner)
        return runner

    def close(self, runner: OperatorRunner) -> None:
        """End an operator; its counters stay."""
        self._peak = max(self._peak, self._peak_candidates())
        self.runners.remove(runner)
        self._closed.append((runner.spec, {**runner.counters, **runner.operator.counters}))

    # ------------------------------------------------------------ what is kept

    def candidates(self) -> int:
        """Return how many rows are kept because they may still be in an answer."""
        return sum(runner.operator.candidates() for runner in self.runners)

    def _peak_candidates(self) -> int:
        return max(self._peak, sum(int(runner.operator.peak) for runner in self.runners))

    @property
    def stats(self) -> Stats:
        """What has been seen and done so far. Rows are counted once, what operators do for each of them."""
        every = [(runner.spec, {**runner.counters, **runner.operator.counters}) for runner in self.runners]
        total: dict[str, Any] = {}
        for spec, counters in (*self._closed, *every):
            for name, value in counters.items():
                if isinstance(value, str):
                    total[name] = value or total.get(name, "")
                else:
                    before = total.get(name, 0)
                    total[name] = max(before, value) if spec.counters.get(name) == "max" else before + value
        total |= self._counters | {"ahead": self.tracker.ahead_rows, "peak_candidates": self._peak_candidates()}
        switches = [switch for runner in self.runners for switch in getattr(runner.operator, "switches", ())]
        kind = max((spec.stats_type for spec, _ in (*self._closed, *every)), key=lambda kind: len(kind.__mro__))
        return kind(**total, switches=tuple(switches))

    def _clean(self) -> None:
        """Drop the rows that no operator needs."""
        self.rows.keep(np.concatenate([runner.live_rows() for runner in self.runners]))
        self._kept = len(self.rows)

    def is_idle(self) -> bool:
        """Return whether there is nothing to remember."""
        return all(runner.is_idle() for runner in self.runners)

    def next_timer(self) -> int | None:
        """Return when a result may come without rows, in microseconds; None if none can."""
        timers = [timer for runner in self.runners if (timer := runner.next_timer()) is not None]
        return min(timers, default=None)

    # ------------------------------------------------------------ snapshots

    def snapshot(self, runners: Sequence[OperatorRunner] | None = None) -> Snapshot:
        """Return all that is needed to go on elsewhere, with these operators (None: all).

        Results of the last batch that were not taken yet are part of it.
        """
        self.settle()
        parts = [runner.snapshot() for runner in (self.runners if runners is None else runners)]
        self._clean()
        upcoming, row_ids, rows = self.rows.snapshot()
        tracker = self.tracker
        counters = [tracker.ahead_rows, *self._counters.values()]
        stream = [tracker.watermark, tracker.newest, upcoming, len(parts), *counters]
        saved: Snapshot = {"stream": np.array(stream, np.int64), "row_ids": row_ids}
        if rows is not None:
            saved["rows"] = rows
        for number, part in enumerate(parts):
            saved |= {f"{number}/{name}": value for name, value in part.items()}
        saved |= {f"result/{number}": table.unify_dictionaries() for number, table in enumerate(self._results)}
        return saved

    @refusing()
    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot of a pipeline with the same operators."""
        found = validate(saved, _COLUMNS)
        watermark, newest, upcoming, runners, *counters = (int(x) for x in found["stream"])
        require(min(upcoming, *counters) >= 0, "stream has a value that it cannot have")
        require(runners == len(self.runners), "there is another number of operators")
        self.tracker.watermark, self.tracker.newest, self.tracker.ahead_rows = watermark, newest, counters[0]
        self._counters = dict(zip(self._counters, counters[1:], strict=True))
        row_ids = found["row_ids"]
        rows = table_of(saved, "rows") if "rows" in saved else None
        self.rows.restore(upcoming, row_ids, rows)
        self._kept = len(row_ids)
        for number, runner in enumerate(self.runners):
            runner.restore(section(saved, f"{number}/"), row_ids)
        self._results = [table_of(saved, name) for name in saved if name.startswith("result/")]
