"""Workloads as pipelines: one for every family, and all of them as one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from skyband.engines import ENGINES, build
from skyband.engines.plan import allows_changes, resolve_engine
from skyband.errors import QueryError
from skyband.runtime.arrow import take_rows
from skyband.runtime.pipeline import Pipeline, Stats
from skyband.runtime.runs import Spans
from skyband.runtime.schema import check_schema
from skyband.runtime.score import points
from skyband.runtime.steps import Shapes, in_one_table
from skyband.runtime.time_type import TimeType
from skyband.windows import MIN_TIME, WindowAssignerUnion
from skyband.workload.emit import SharedEmitter
from skyband.workload.family import NEVER, Family, Member, kinship, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from skyband.engines.protocol import ChangingEngine
    from skyband.query import TopK
    from skyband.runtime.emit import EmittedRows
    from skyband.windows import WindowAssigner


def family_assigner(family: Family) -> WindowAssignerUnion:
    """Return the panes of all members of a family, and of those that its reserve lets in."""
    finest = None if family.reserve is None else family.reserve.finest
    return WindowAssignerUnion((m.clock for m in family.members), counts=family.counts, finest=finest)


class FamilyPipeline(Pipeline):
    """One family over one stream: takes what `Pipeline` takes, answers with a column `query`.

    `per` names the group columns of the whole workload: those that this family does not have are NULL. Where queries
    are `fixed`, none will come or go.
    """

    def __init__(
        self,
        family: Family,
        schema: pa.Schema,
        engine: str,
        *,
        per: Sequence[str] | None = None,
        fixed: bool = False,
        **more: Any,
    ) -> None:
        self.family = family
        self._fixed = fixed
        self.engine_name = engine
        number = family.members[0].number if family.members else -1
        self.key = place(family.query) if family.points else kinship(family.query, number)
        self.blind = NEVER  # rows before this were not seen
        self._all_per = list(family.query.per if per is None else per)
        self._name_of = np.array(family.names(), dtype=object)
        super().__init__(family.query, schema, engine, **more)
        self._fit(schema)

    def _fit(self, schema: pa.Schema) -> None:
        """Refuse windows that the time column cannot name; learn how far each query's windows reach."""
        self._size = np.zeros(self.family.numbers, np.int64)
        self._shift = np.zeros(self.family.numbers, np.int64)
        self._bounds = Shapes.of((m.k, m.clock.size, m.clock.slide) for m in self.family.members)
        for member in self.family.members:
            self._size[member.number], self._shift[member.number] = member.clock.size, member.clock.shift
        if self.query.time is not None and not self.family.counts:
            for window in {member.window for member in self.family.members}:
                TimeType.of(replace(self.query, window=window), schema.field(self.query.time).type)

    def _shapes(self) -> Shapes:
        """What bounds the answers of all members."""
        return self._bounds

    def made(self, engine: str, resume: Mapping[str, np.ndarray] | None = None) -> Any:
        """The engine of this name for the family; after every row there is one for every query."""
        return build(engine, self.family, resume, self.options, fixed=self._fixed)

    def _clock(self) -> WindowAssignerUnion | WindowAssigner:
        plain = self.family.points or self.family.query.window.kind == "row"
        return super()._clock() if plain else family_assigner(self.family)

    def _spans(self) -> Spans:
        if isinstance(self.clock, WindowAssignerUnion):
            return Spans(*(self.family.records[name] for name in ("size", "slide", "origin")))
        return super()._spans()

    def _points(self, rows: pa.Table) -> np.ndarray:
        return points(self.family.axes, rows) if self.family.points else super()._points(rows)

    def _emitter(self) -> SharedEmitter:
        return SharedEmitter(self.query)

    def _own(self) -> list[pa.Field]:
        return [f for f in self.schema if f.name not in self._all_per]

    def _lead(self, lines: EmittedRows) -> dict[str, pa.Array]:
        number = np.empty(0, np.int32) if lines.query is None else lines.query.astype(np.int32)
        names = pa.array(self._name_of, pa.string())
        return {self.query.column("query"): pa.DictionaryArray.from_arrays(pa.array(number), names)}

    def _shown(self, lines: EmittedRows) -> tuple[np.ndarray, np.ndarray]:
        if lines.query is None:
            return lines.end, lines.end
        start = lines.end - self._size[lines.query]
        if self.family.counts:
            return np.maximum(start, 0), lines.end
        shift = self._shift[lines.query]
        return start - shift, lines.end - shift

    def _per(self, group: np.ndarray) -> dict[str, pa.Array]:
        mine = super()._per(group)
        kinds = {name: self.schema.field(name).type for name in self._all_per}
        return {name: mine[name] if name in mine else pa.nulls(len(group), kind) for name, kind in kinds.items()}

    def follow(self, other: Pipeline) -> None:
        """Stand where another family of the same stream does."""
        self.timeline.watermark, self.timeline.newest = other.timeline.watermark, other.timeline.newest
        self.timeline.dropped = other.timeline.dropped
        self._stats.rows, self._stats.without_time = other.stats.rows, other.stats.without_time

    def nothing(self) -> pa.Table:
        """No answers."""
        return self._table(None)

    def reach(self) -> int | np.ndarray:
        """From where on every row is still to come: a time, or a position of every group."""
        if self.family.counts:
            return self.positions
        if not self.clock.slide:  # after every row: rows are handed on as soon as time has passed them
            return max(self.timeline.newest + 1 if self._sorted_input else self.timeline.watermark, self.blind)
        reach = max(int(cast("ChangingEngine", self.engine).reach()), self.timeline.watermark, self.blind)
        if self.thinned and self.waiting and self.family.reserve is None:  # rows that wait may be gone
            return max(reach, self.timeline.newest + 1)
        return reach

    def over(self, member: Member) -> bool:
        """Whether the last window of a member has closed."""
        return not self.family.counts and member.high + member.clock.size - 1 <= self.timeline.watermark

    def check_leave(self) -> None:
        """Raise unless members may leave."""
        if self.family.points or ENGINES[self.engine_name].traits.shared:
            self.check_change()

    @property
    def alters(self) -> bool:
        """Whether members may come, and change their k."""
        return allows_changes(self.engine_name, self.family, fixed=self._fixed)

    def check_change(self) -> None:
        """Raise unless members may come, and change their k."""
        name = self.engine_name
        if not self.alters:
            better = ", ".join(n for n, e in ENGINES.items() if e.traits.changes)
            msg = f"engine={name!r} does not let queries come and go: write engine={better!r}"
            raise QueryError(msg)

    def change(self, members: Sequence[Member], *, come: bool = False) -> None:
        """Go on with these members. With `come`, those of the newest moment are new: they know no earlier row."""
        self.check_leave()
        engine = cast("ChangingEngine", self.engine)
        old, family = self.family.members, self.family.with_members(members)
        if come and family.counts:
            family = replace(family, moments=family.moments + 1)
        place = {(m.number, m.moment, m.low, m.window): at for at, m in enumerate(family.members)}
        moved = np.array([place.get((m.number, m.moment, m.low, m.window), -1) for m in old], np.int64)
        self.family, self.query = family, family.query
        self._fit(self.schema)
        engine.change(family, moved, self.positions if come else None)
        for number, slots in engine.take_reported() if hasattr(engine, "take_reported") else ():
            cast("SharedEmitter", self.emitter).add_reported(number, slots)
        self.clock = self.timeline.assigner = cast("Any", self._clock())
        names = family.names()
        names[: len(self._name_of)] = [new or old for new, old in zip(names, self._name_of, strict=False)]
        self._name_of = np.array(names, dtype=object)
        self._empty, self._next_end = None, None


class WorkloadPipeline:
    """All families of a workload over one stream."""

    def __init__(
        self, families: Sequence[Family], schema: pa.Schema, engine: str, per: Sequence[str], **more: Any
    ) -> None:
        self.schema, self.engine, self.per, self._more = schema, engine, list(per), more
        self.lines = [self._line(family) for family in families]
        self.finished = False
        self._buffered: list[pa.Table] = []  # answers that were given before they were asked for
        self._told = Stats()  # what families that have ended had said, and the most that all kept
        self._empty = self.lines[0].nothing()

    def check(self, query: TopK) -> None:
        """Raise unless the columns, and the engine, can serve a query."""
        check_schema(query, self.schema)
        resolve_engine(self.engine, [query])
        if query.time is not None:
            TimeType.of(query, self.schema.field(query.time).type)

    def counted(self, query: TopK) -> FamilyPipeline:
        """A family that has counted the rows of the same groups."""
        sibling = next((other for other in self.lines if other.query.per == query.per), None)
        if sibling is None:
            msg = (
                f"per={list(query.per)!r} makes groups whose rows this stream has not counted: start anew, "
                f"or begin with a query that has them"
            )
            raise QueryError(msg)
        if not sibling.family.points:
            sibling.check_change()
        return sibling

    def open(self, family: Family) -> FamilyPipeline:
        """Begin one more family where the stream stands now."""
        line = self._line(family)
        sibling = self.counted(family.query) if family.counts else self.lines[0]
        if family.counts:
            line.positions = sibling.positions.copy()
            table = None if sibling.groups is None else sibling.groups.table()
            if line.groups is not None and table is not None:
                line.groups.load(table)
        line.follow(sibling)
        line.blind = NEVER if sibling.timeline.newest == MIN_TIME else sibling.timeline.newest + 1
        self.lines.append(line)
        return line

    def closes(self, line: FamilyPipeline, number: int) -> bool:
        """Whether a family ends with a member: it has no other. Where rows are counted, the count goes on."""
        last = {member.number for member in line.family.members} <= {number}
        return last and not line.family.counts and len(self.lines) > 1

    def close(self, line: FamilyPipeline, number: int) -> bool:
        """End a family if it ends with this member; whether it did."""
        if not self.closes(line, number):
            return False
        before, gone = self.stats, line.stats
        self.lines.remove(line)
        self._told = replace(
            self._told,
            **{name: getattr(self._told, name) + getattr(gone, name) for name in _SAID},
            peak_candidates=before.peak_candidates,
        )
        return True

    def _line(self, family: Family) -> FamilyPipeline:
        return FamilyPipeline(family, self.schema, self.engine, per=self.per, **self._more)

    @property
    def time(self) -> TimeType | None:
        """How the time column counts."""
        return self.lines[0].time if self.lines else None

    @property
    def kept(self) -> int:
        """How many rows are kept by all families."""
        return sum(line.kept for line in self.lines)

    @property
    def stats(self) -> Stats:
        """What has been seen and done so far. Rows are counted once, what is kept or said by every family."""
        every = [line.stats for line in self.lines]
        once = {name: max(getattr(each, name) for each in every) for name in _ONCE}
        said = {name: sum(getattr(each, name) for each in (self._told, *every)) for name in _SAID}
        peak = max(self._told.peak_candidates, sum(each.peak_candidates for each in every))
        return Stats(**once, **said, peak_candidates=peak)

    def push(self, rows: pa.Table, watermark: int | None = None) -> pa.Table:
        """Take a batch, give the answers of the windows it closes."""
        found = in_one_table(self.push_in_steps(rows, watermark))
        return self._empty if found is None else found

    def push_in_steps(self, rows: pa.Table, watermark: int | None = None) -> Iterator[pa.Table]:
        """Take a batch, give the answers of the windows it closes in steps of bounded size."""
        for line in self.lines:
            line.begin(rows, watermark)
        yield from self._steps()

    def finish(self) -> pa.Table:
        """Answer every time window that still holds a row."""
        found = in_one_table(self.finish_in_steps())
        return self._empty if found is None else found

    def finish_in_steps(self) -> Iterator[pa.Table]:
        """Answer every time window that still holds a row, in steps of bounded size."""
        self.finished = True
        for line in self.lines:
            line.begin_end()
        yield from self._steps()

    def _steps(self) -> Iterator[pa.Table]:
        """All families go on together, as far as the answers of the one with the most allow."""
        while self._buffered or any(line.pending for line in self.lines):
            yield self._buffered.pop(0) if self._buffered else self._step()

    def _step(self) -> pa.Table:
        lines = [line for line in self.lines if line.pending]
        goal = min(line.affordable() for line in lines)
        return self._together(lines, [line.step(goal) for line in lines])

    def settle(self) -> None:
        """Finish the batch that is being answered: before queries come or go."""
        while any(line.pending for line in self.lines):
            self._buffered.append(self._step())

    @staticmethod
    def _together(lines: list[FamilyPipeline], tables: list[pa.Table]) -> pa.Table:
        """The answers of families, by the end of their windows."""
        if len(tables) < 2:
            return tables[0]
        whole = pa.concat_tables(tables)
        end = whole.column(lines[0].query.column("window_end")).cast(pa.int64()).to_numpy()
        number = np.concatenate([_numbers(line, table) for line, table in zip(lines, tables, strict=True)])
        return take_rows(whole, np.lexsort((number, end)))


_ONCE = ("rows", "without_time", "late", "ahead")
_SAID = ("without_score", "windows", "answer_rows")


def _numbers(line: FamilyPipeline, table: pa.Table) -> np.ndarray:
    column = table.column(line.query.column("query"))
    parts = [chunk.indices.to_numpy() for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.empty(0, np.int32)
