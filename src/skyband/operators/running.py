"""Queries that come and go while a stream runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from skyband.engines.registry import resolve_engine
from skyband.errors import QueryError
from skyband.operators.family_operator import admission
from skyband.runtime.schema import TimeType, check_schema
from skyband.windows import MIN_TIME
from skyband.workload.family import (
    ALWAYS,
    Admission,
    families,
    grid_key,
    member_of,
    query_names,
    sharing_key,
    with_span,
)

if TYPE_CHECKING:
    from skyband.engines.family import FamilyMember, QueryFamily, ReservedCapacity
    from skyband.operators.ranking import Ranking, RankingSpec
    from skyband.query import TopK
    from skyband.runtime.pipeline import Pipeline
    from skyband.runtime.runner import OperatorRunner


class RunningWorkload:
    """The families of a workload on a running pipeline: lets queries in and out."""

    def __init__(
        self,
        pipeline: Pipeline,
        spec: Callable[[QueryFamily], RankingSpec],
        engine: str,
        reserve: ReservedCapacity | None,
    ) -> None:
        self.pipeline, self._spec, self._engine, self._reserve = pipeline, spec, engine, reserve
        self._keys = {id(runner): _key(family_of(runner)) for runner in pipeline.runners}

    @property
    def finished(self) -> bool:
        """Whether the stream has ended."""
        return self.pipeline.finished

    def settle(self) -> None:
        """Finish the batch that is being answered."""
        self.pipeline.settle()

    def find(self, query: TopK, number: int, *, bounded: bool = False) -> OperatorRunner | None:
        """Return the runner of a query's family: where it is, or could be. A bounded query shares no grid."""
        keys = [sharing_key(query, number)] if bounded else [grid_key(query), sharing_key(query, number)]
        fitting = [r for key in keys for r in self.pipeline.runners if key is not None and self._keys[id(r)] == key]
        there = [r for r in fitting if any(m.number == number for m in family_of(r).members)]
        return next(iter(there or fitting), None)

    def check_addition(self, query: TopK, number: int, span: tuple[int, int], *, alone: bool) -> None:
        """Raise unless a query can come, before anything has changed; `alone`: all others have left."""
        pipeline, per = self.pipeline, self.pipeline.runners[0].spec.result().per
        if not set(query.per) <= set(per):
            extra = ", ".join(sorted(set(query.per) - set(per)))
            raise QueryError(f"per must be among the group columns of the running stream, got {extra}: start it anew")
        if alone:  # what the queries before agreed in still holds
            before = replace(pipeline.runners[0].query, name="those before")
            query_names([before, replace(query, name=query.name or "this one")])
        check_schema(query, pipeline.schema)
        resolve_engine(self._engine, [query])
        if query.time is not None:
            TimeType.of(query, pipeline.schema.field(query.time).type)
        runner = self.find(query, number, bounded=span != ALWAYS)
        if runner is not None:
            ranking(runner).check_change()
        elif query.window.counts:
            self._counted(query)

    def _counted(self, query: TopK) -> OperatorRunner:
        """Return a runner that has counted the rows of the same groups."""
        sibling = next((runner for runner in self.pipeline.runners if runner.query.per == query.per), None)
        if sibling is None:
            raise QueryError(
                f"per must be that of a running query, whose rows are counted, got {list(query.per)!r}: start anew, or "
                f"begin with a query that has these groups"
            )
        if not family_of(sibling).points:
            ranking(sibling).check_change()
        return sibling

    def check_removal(self, query: TopK, number: int) -> None:
        """Raise unless a query can leave."""
        runner = self.find(query, number)
        if runner is not None and not self._ends(runner, number):
            ranking(runner).check_removal()

    def add(self, name: str, query: TopK, number: int, span: tuple[int, int]) -> Admission:
        """Let a query in."""
        runner = self.find(query, number, bounded=span != ALWAYS)
        if runner is not None and _shares_grid(runner):
            ranking(runner).change([*family_of(runner).members, member_of(query, number, name, points=True)])
            return Admission(name)  # every row of its window is there
        member = with_span(member_of(query, number, name, points=False), span)
        if runner is None:
            family = families([replace(query, name=name)])[0].with_reserve(self._reserve)
            if query.window.counts:
                runner = self._open(family.with_members([]), self._counted(query))
            else:  # begin with the member, so that every engine will do
                newest = self.pipeline.tracker.newest
                member = member if newest == MIN_TIME else replace(member, low=max(member.low, newest + 1))
                runner = self._open(family.with_members([member]))
                return admission(member, runner.time)
        return ranking(runner).admit(member, runner)

    def _open(self, family: QueryFamily, sibling: OperatorRunner | None = None) -> OperatorRunner:
        """Add a family where the stream stands now, with the positions of its sibling."""
        runner = self.pipeline.open(self._spec(family))
        self._keys[id(runner)] = _key(family)
        newest = self.pipeline.tracker.newest
        ranking(runner).blind_until = MIN_TIME if newest == MIN_TIME else newest + 1
        if sibling is not None:
            runner.positions = sibling.positions.copy()
            table = None if sibling.groups is None else sibling.groups.known.table()
            if runner.groups is not None and table is not None:
                runner.groups.known.load(table)
        return runner

    def remove(self, query: TopK, number: int) -> None:
        """Let a query go; its open windows are not answered."""
        runner = self.find(query, number)
        if runner is None:
            return
        if self._ends(runner, number):
            self.pipeline.close(runner)
        else:
            ranking(runner).change([m for m in family_of(runner).members if m.number != number])

    def _ends(self, runner: OperatorRunner, number: int) -> bool:
        """Return whether a family ends with a query. Where rows are counted, the count goes on."""
        last = {member.number for member in family_of(runner).members} <= {number}
        return last and not family_of(runner).counts and len(self.pipeline.runners) > 1

    def restarts(self, query: TopK, number: int) -> bool:
        """Return whether a query that changes must leave and come again."""
        runner = self.find(query, number)
        if runner is None:
            return False
        return family_of(runner).prefers_separate_engines(fixed=False) and not ranking(runner).takes_queries

    def check_update(self, query: TopK, number: int) -> None:
        """Raise unless a query can change its k and bounds."""
        runner = self.find(query, number)
        if runner is not None:
            ranking(runner).check_change()

    def update(self, name: str, query: TopK, number: int, span: tuple[int, int], before: tuple[int, int]) -> Admission:
        """Change the k or the bounds of a query; `before` are the bounds it had."""
        runner = self.find(query, number)
        assert runner is not None
        running, family = ranking(runner), family_of(runner)
        watermark = self.pipeline.tracker.watermark
        old = [m for m in family.members if m.number == number]
        old = [m for m in old if not running.is_over(m, watermark)] or old[-1:]
        rest = [m for m in family.members if m.number != number]
        member = with_span(member_of(query, number, name, points=family.points), span)
        if span == ALWAYS and _shares_grid(runner):
            running.change([*rest, member])
            return Admission(name)
        # for windows that were to be answered, the candidates suffice for as many rows and those windows still wanted
        narrowed = [_narrowed(m, member) for m in old]
        if query.k <= min((m.k for m in old), default=0) and before[0] <= span[0] and span[1] <= before[1]:
            running.change([*rest, *narrowed])
            return Admission(name)
        return running.admit(member, runner, narrowed)


def ranking(runner: OperatorRunner) -> Ranking:
    """Return the operator of a runner, which ranks rows."""
    return cast("Ranking", runner.operator)


def family_of(runner: OperatorRunner) -> QueryFamily:
    """Return the queries that a runner serves now."""
    return ranking(runner).family


def _key(family: QueryFamily) -> tuple[object, ...] | None:
    number = family.members[0].number if family.members else -1
    return grid_key(family.query) if family.points else sharing_key(family.query, number)


def _shares_grid(runner: OperatorRunner) -> bool:
    """Return whether queries about points may come to this family: it keeps every row of their window."""
    return family_of(runner).points and ranking(runner).takes_queries


def _narrowed(member: FamilyMember, wanted: FamilyMember) -> FamilyMember:
    """Return a member with at most the rows and windows that are wanted now."""
    low, high = max(member.low, wanted.low), min(member.high, wanted.high)
    return replace(member, k=min(member.k, wanted.k), low=low, high=max(low, high))
