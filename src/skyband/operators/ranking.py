"""Ranks rows by their score: one query, or a family of queries that share an engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from skyband.engines import ENGINES, Objects, build
from skyband.engines.family import UNBOUNDED, FamilyMember
from skyband.engines.registry import allows_changes
from skyband.engines.validation import section, typed_column, validate
from skyband.operators.family_operator import FamilyOperator, apply_commands, check_changes, family_assigner
from skyband.operators.late_rows import LateRows
from skyband.runtime.batch import PreparedBatch
from skyband.runtime.combine import RowCombiner, decode_rows
from skyband.runtime.ids import read_ids
from skyband.runtime.protocols import OperatorSpec
from skyband.runtime.result import ResultColumns
from skyband.runtime.score import points, ranks_by
from skyband.runtime.snapshot import table_of
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from skyband.engines.family import QueryFamily
    from skyband.engines.protocol import Answers, Engine
    from skyband.query import TopK
    from skyband.runtime.groups import GroupTracker
    from skyband.runtime.protocols import Assigner, Context, Goal, LateRule, Snapshot
    from skyband.runtime.row_store import RowStore
    from skyband.runtime.runner import OperatorRunner

_NOTHING = Objects(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class RankingSpec(OperatorSpec):
    """A query, or a family of queries, on an engine.

    Parameters
    ----------
    family
        The queries: one, or several that share a score, groups and a clock.
    engine
        A name in `ENGINES`.
    all_per
        The group columns of all queries on the stream.
    many
        The result has a column `query`.
    fixed
        No query will come or go.
    options
        Of the engine.
    leads, sole
        Whether queries that come and are like none belong here; whether there is no other family, nor another part of
        this one.
    part
        Which part of a family that is split over tasks.
    late_rows
        Whether rows are taken until their pane has closed, or until all their windows have.
    """

    family: QueryFamily
    engine: str
    all_per: tuple[str, ...] = ()
    many: bool = False
    fixed: bool = True
    options: Mapping[str, object] | None = None
    leads: bool = True
    sole: bool = False
    part: str = ""
    late_rows: LateRule = "pane"

    @property
    def takes_closed_panes(self) -> bool:  # type: ignore[override]
        """Whether rows of closed panes are taken; windows that count rows, or end with each, have none."""
        return self.late_rows == "window" and not self.family.counts and self.query.window.kind == "slide"

    best_rows_only = True

    @property
    def query(self) -> TopK:  # type: ignore[override]
        """The query that stands for the family: the largest k and the longest window."""
        return self.family.query

    @property
    def inputs(self) -> Mapping[str, Literal["by_group", "broadcast"]]:
        """Rows, and commands if queries may come and go."""
        return {"rows": "by_group"} if self.family.reserve is None else {"rows": "by_group", "commands": "broadcast"}

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns that `prepare` needs; None: all."""
        by = getattr(self.query.by, "columns", None)  # a function takes any
        return None if by is None else list(dict.fromkeys([*by, *self.per, *filter(None, [self.query.id])]))

    @property
    def forgets_groups(self) -> bool:
        """Whether groups may be forgotten: none has a position, or changes by the number of its rows."""
        return not self.family.counts and (self.query.window.kind != "row" or self.query.emit != "changes")

    def assigner(self) -> Assigner:
        """Return the windows and panes of all queries, and of those that may come."""
        return family_assigner(self.family)

    def result(self, *, early: bool = False) -> ResultColumns:
        """Return the columns of the result."""
        return ResultColumns(self.query, self.all_per or self.per, many=self.many, early=early)

    @property
    def counts_rows(self) -> bool:  # type: ignore[override]
        """Whether this is the first, or only, part of its family."""
        return self.part[:2] in ("", "1 ")

    def check_commands(self) -> None:
        """Raise unless queries can come and go by commands."""
        super().check_commands()
        check_changes(self.engine, able=ENGINES[self.engine].traits.changes)

    def prepare(
        self, rows: pa.Table, row_id: np.ndarray, time: np.ndarray, groups: GroupTracker | None
    ) -> PreparedBatch:
        """Return the rows with their scores, ties and groups."""
        query = self.query
        score = points(self.family.axes, rows) if self.family.points else ranks_by(query, rows)
        group = None if groups is None else groups.codes(rows)
        tie, missing = (None, None) if query.id is None else read_ids(rows.column(query.id), query.id)
        return PreparedBatch(row_id, time, score, tie, missing, group)

    def combiner(self, buckets: int) -> RowCombiner:
        """Return what lets the k best rows of each pane and group travel."""
        return RowCombiner(self, buckets, partial(_best_rows, k=int(self.query.k)))

    def receive(
        self, tables: Sequence[pa.Table], schema: pa.Schema, groups: GroupTracker | None
    ) -> tuple[pa.Table, PreparedBatch]:
        """Return the rows that have travelled, prepared."""
        rows, batch = decode_rows(tables, schema, self.query)
        return rows, batch if groups is None else batch._replace(group=groups.codes(rows)[batch.row_id])

    def with_engine(self, engine: str) -> RankingSpec:
        """Return the operator on another engine."""
        return replace(self, engine=engine)

    def fingerprint(self) -> Mapping[str, str]:
        """Return every query in place of the largest; or what any of them must fit into."""
        family = self.family
        if not self.many:
            return {}
        if family.reserve is not None:
            finest = f"of panes of {family.reserve.finest} us"
            said = {"k": f"at most {family.reserve.k}", "window": finest, "queries": "come and go"}
            return {**said, "tasks": self.part} if self.part else said
        by = {m.number: "" if m.by is None else f", {m.by.text}" for m in family.members}
        each = "; ".join(f"{m.name}: k {m.k}, {m.window}{by[m.number]}{_active(m)}" for m in family.members)
        said = {"k": "of each", "window": "of each", "queries": each}
        return {**said, "by": "of each"} if family.points else said

    def open(self, context: Context, snapshot: Snapshot | None = None) -> Ranking:
        """Return the operator, new or restored."""
        return Ranking(self, context, snapshot)


def _active(member: FamilyMember) -> str:
    """Return the part of the stream in which a query is active, if it is but a part."""
    bounded = (member.low, member.high) != (MIN_TIME, UNBOUNDED)
    return f", active from {member.low} to {member.high} us" if bounded else ""


def _best_rows(batch: PreparedBatch, code: np.ndarray, codes: int, rows: RowStore, k: int) -> np.ndarray:
    del rows
    from skyband.kernels.select import best_of_panes

    keep: np.ndarray = best_of_panes(batch.score, batch.time, batch.tie_order(), code, codes, k)
    return keep


class Ranking(FamilyOperator):
    """The k best rows of each window, by an engine.

    Cost and memory: those of the engine, see `sb.ENGINES`.
    """

    def __init__(self, spec: RankingSpec, context: Context, snapshot: Snapshot | None = None) -> None:
        super().__init__(spec.family, context)
        self.spec, self.engine_name = spec, spec.engine
        self._reached = self._newest = MIN_TIME  # how far the engine has come, and its newest row
        self._late = None if context.order is None else LateRows(context.order)
        self.engine: Engine
        if snapshot is None:
            self.engine = self._build(None)
        else:
            self._restore(snapshot)

    def _build(self, snapshot: Snapshot | None) -> Engine:
        spec = self.spec
        return build(spec.engine, self.family, snapshot, spec.options, fixed=spec.fixed)

    @property
    def peak(self) -> int:
        """The most candidates ever at once."""
        return int(self.engine.peak) + (0 if self._late is None else self._late.peak)

    @property
    def switches(self) -> Sequence[dict[str, Any]]:  # type: ignore[override]
        """When an engine changed its strategy, and why."""
        return [switch._asdict() for switch in getattr(self.engine, "switches", ())]

    # ------------------------------------------------------------ rows in, answers out

    def advance(self, parts: Mapping[str, Any], upto: Goal) -> Answers | None:
        """Take rows in the order of time, and late ones, then close the windows that end by `upto`."""
        rows: Objects | None = parts.get("rows")
        late: Objects | None = parts.get("late")
        if self._late is not None and late is not None:
            self._late.add(late, self.assigner, int(self.family.query.k))
            self._newest = max(self._newest, int(late.time[-1]))
            self._reached = max(self._reached, parts["closed_until"])
        if rows is None and not self._closes(upto):
            return None
        before = self._reached
        if rows is not None and len(rows.time) and not isinstance(upto, np.ndarray):
            self._newest = max(self._newest, int(rows.time[-1]))
        if not isinstance(upto, np.ndarray):
            self._reached = max(self._reached, upto)
            if rows is not None and self.assigner.slide:
                self._next_end = self.assigner.next_end(upto)
        moved = () if parts.get("moved") is None else (parts["moved"],)
        answers = self.engine.advance(self._nothing() if rows is None else rows, upto, *moved)
        if not self._late or isinstance(upto, np.ndarray):
            return answers
        return self._late.merge(answers, self.family.members, before, upto)

    def _nothing(self) -> Objects:
        return _NOTHING._replace(group=np.empty(0, np.int32)) if self.spec.per else _NOTHING

    def _closes(self, upto: Goal) -> bool:
        """Return whether a window may end by `upto`, if no rows have come since this was asked last."""
        if isinstance(upto, np.ndarray) or not self.assigner.slide:
            return False
        closes = self._next_end is None or self._next_end <= upto
        if closes:
            self._next_end = self.assigner.next_end(upto)
        return closes

    def affordable(self, due: np.ndarray, goal: int, groups: int) -> int:
        """Return how far to advance so that answers stay few: rows can be in very many windows."""
        bound, kept = self._answer_bound, self.peak
        if not len(bound.k):
            return goal
        open_for = int((bound.size + bound.slide).max())
        start, newest = self._reached, self._newest
        if start >= newest + open_for or newest == MIN_TIME:  # no window can show a candidate
            if not len(due):
                return goal
            start = max(start, int(due[0]))
        last = max(newest, int(due[-1])) if len(due) else newest
        length = max(min(goal, last + open_for) - start, 0)
        if bound.fits(length, groups, kept + len(due)):
            return goal
        return min(goal, start + bound.longest(due, start, length, groups, kept))

    # ------------------------------------------------------------ what is kept

    def live_rows(self) -> np.ndarray:
        """Return the rows that may still be in an answer, and perhaps some more."""
        ids = self.engine.live_ids()
        return np.concatenate([ids, self._late.rows.id]) if self._late else ids

    def candidates(self) -> int:
        """Return how many rows may still be in an answer."""
        return len(self.engine.candidates().id) + (len(self._late) if self._late else 0)

    def active_groups(self) -> np.ndarray:
        """Return the groups that keep rows, or whose window has yet to become empty."""
        groups = self.engine.active_groups()
        return np.union1d(groups, self._late.groups) if self._late else groups

    def keep_groups(self, keep: np.ndarray) -> None:
        """Forget all groups but these."""
        self.engine.keep_groups(keep)
        if self._late:
            self._late.keep_groups(keep)

    def snapshot(self) -> Snapshot:
        """Return the engine's state, how far it has come, and the queries if they come and go."""
        engine = {f"engine/{name}": column for name, column in self.engine.snapshot().items()}
        saved = {**engine, "reached": np.array([self._reached, self._newest], np.int64)}
        if self._late:
            saved |= self._late.snapshot()
        if self.family.reserve is not None:
            members = [json.dumps(member.as_json()) for member in self.family.members]
            saved["members"] = pa.table({"v": pa.array(members, pa.string())})
        return saved

    def _restore(self, snapshot: Snapshot) -> None:
        if self.family.reserve is not None:
            texts = table_of(snapshot, "members").column("v").to_pylist()
            self.set_family(self.family.with_members([FamilyMember.from_json(json.loads(text)) for text in texts]))
        self._reached, self._newest = (
            int(x) for x in validate(snapshot, {"reached": typed_column("i8", 2)})["reached"]
        )
        self.engine = self._build(section(snapshot, "engine/"))
        if self._late is not None:
            groups = self._context.groups
            self._late.restore(section(snapshot, "late/"), 1 if groups is None else groups.count)

    @property
    def takes_queries(self) -> bool:
        """Whether queries may come, and change their k."""
        return allows_changes(self.spec.engine, self.family, fixed=self.spec.fixed)

    def take_input(self, name: str, tables: Sequence[pa.Table], runner: OperatorRunner) -> None:
        """Apply commands, which add, update and remove queries."""
        assert name == "commands"
        texts = [text for table in tables for text in table.column(0).to_pylist()]
        apply_commands(self, texts, runner, leads=self.spec.leads, sole=self.spec.sole)

    def is_idle(self) -> bool:
        """Return whether nothing is kept, and no query came or went."""
        same = self.family.reserve is None or self.family.members == self.spec.family.members
        return same and super().is_idle()
