"""Which operator serves a query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skyband.engines.family import FamilyMember, QueryFamily, common_query
from skyband.engines.registry import choose
from skyband.errors import QueryError
from skyband.operators.ranking import RankingSpec
from skyband.operators.running import RunningWorkload, family_of, ranking
from skyband.query import TopK
from skyband.runtime.pipeline import Pipeline
from skyband.workload.family import per_of, split
from skyband.workload.workload import Workload, queries_of

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.runtime.protocols import OperatorSpec
    from skyband.runtime.runner import OperatorRunner
    from skyband.workload.workload import WorkloadQueries

Options = Mapping[str, object]


def plan(
    query: TopK,
    engine: str = "auto",
    options: Options | None = None,
    *,
    between: tuple[int | None, int | None] = (None, None),
) -> OperatorSpec:
    """Return the operator for one query; a join answers only the windows `between` two times, in microseconds.

    Examples
    --------
    >>> import skyband as sb
    >>> type(plan(sb.TopK(k=3, by="x", window=sb.Counting(10)))).__name__
    'RankingSpec'
    """
    chosen = choose(query, engine).engine
    if query.of:
        from skyband.operators.leaderboard import LeaderboardSpec

        return LeaderboardSpec(query)
    if query.join is not None:
        from skyband.operators.lookup_join.operator import LookupJoinSpec

        return LookupJoinSpec((query,), since=between[0], until=between[1])
    return RankingSpec(QueryFamily.of(query), chosen, options=options)


def plan_operators(
    query: TopK | Sequence[TopK] | Workload, engine: str = "auto", tasks: int = 1
) -> tuple[list[TopK], list[OperatorSpec]]:
    """Return the queries by name, and the operators that serve them together.

    A family of queries is split into so many parts at most, for as many tasks.
    """
    if isinstance(query, TopK):
        if query.join is not None:
            return [query], [_distributed_join([query], query.per, many=False)]
        return [query], [plan(query, engine)]
    workload = query if isinstance(query, Workload) else Workload(_checked(query))
    queries = [replace(one, name=name) for name, one in workload.items()]
    per, chosen = tuple(per_of(queries)), queries_of(workload).engine(engine)
    if any(one.join is not None for one in queries):
        if any(one.join is None for one in queries):
            raise QueryError(
                "queries with and without join= cannot share a stream on Spark: run a stream for each kind"
            )
        return queries, [_distributed_join(queries, per, many=True)]
    found = [
        (part, f"{at} of {len(parts)}" if len(parts) > 1 else "")
        for parts in (split(family, tasks) for family in queries_of(workload).families(chosen))
        for at, part in enumerate(parts, 1)
    ]
    sole = len(found) == 1
    return queries, [
        RankingSpec(
            family,
            chosen,
            per,
            many=True,
            fixed=family.reserve is None,
            leads=at == 0,
            sole=sole,
            part=part,
        )
        for at, (family, part) in enumerate(found)
    ]


def _distributed_join(queries: Sequence[TopK], per: tuple[str, ...], *, many: bool) -> OperatorSpec:
    from skyband.operators.lookup_join.operator import LookupJoinSpec

    return LookupJoinSpec.distributed(queries, per, many=many)


def _checked(queries: object) -> Sequence[TopK]:
    if isinstance(queries, (list, tuple)) and queries:
        return queries
    raise QueryError(
        f"query must be a sb.TopK(k=..., by=..., window=...) or a list of such, got {type(queries).__name__}"
    )


def open_workload(
    workload: Workload,
    schema: pa.Schema,
    engine: str,
    *,
    options: Options | None = None,
    fixed: bool = False,
    families: Sequence[QueryFamily] | None = None,
    **stream_options: Any,
) -> Pipeline:
    """Return a pipeline that answers all queries of a workload; unless there are joins, they may come and go.

    `families` are those of a snapshot; default: those that the queries make now.
    """
    queries, per = queries_of(workload), tuple(per_of(workload.values()))
    if any(query.join is not None for query in workload.values()):
        queries.settle()
        return Pipeline(_with_joins(workload, per, engine, options), schema, **stream_options)

    def spec(family: QueryFamily) -> RankingSpec:
        return RankingSpec(family, engine, per, many=True, fixed=fixed, options=options)

    opened = queries.families(engine) if families is None else families
    pipeline = Pipeline([spec(family) for family in opened], schema, **stream_options)
    pipeline.changes = RunningWorkload(pipeline, spec, engine, queries.reserve)
    queries.attach(pipeline.changes)
    return pipeline


def stored_families(pipeline: Pipeline) -> tuple[list[dict[str, Any]], list[OperatorRunner]]:
    """Return the families of a running workload that have members, as plain values, and what runs them."""
    runners = [runner for runner in pipeline.runners if family_of(runner).members]
    found = []
    for runner in runners:
        family = family_of(runner)
        values = {
            "members": [member.as_json() for member in family.members],
            "blind_until": ranking(runner).blind_until,
        }
        found.append({**values, "moments": family.moments, "points": family.points})
    return found, runners


def restored_families(queries: WorkloadQueries, stored: Sequence[Mapping[str, Any]]) -> list[QueryFamily]:
    """Return the families that `stored_families` returned, of the same queries."""
    by_number = {number: query for number, query, _ in queries.members.values()}
    found = []
    for values in stored:
        members = tuple(FamilyMember.from_json(member) for member in values["members"])
        query = common_query(by_number[members[0].number], members, queries.reserve)
        found.append(QueryFamily(query, members, int(values["moments"]), bool(values["points"]), queries.reserve))
    return found


def _with_joins(workload: Workload, per: tuple[str, ...], engine: str, options: Options | None) -> list[OperatorSpec]:
    """Return an operator for each table that is joined, and those of the queries that join none."""
    from skyband.operators.lookup_join.operator import LookupJoinSpec

    joined: dict[tuple[object, ...], dict[int, TopK]] = {}
    for number, (name, query) in enumerate(workload.items()):
        if query.join is not None:
            key = (id(query.join.table), query.join.on, query.id, query.unit)
            joined.setdefault(key, {})[number] = replace(query, name=name)
    found: list[OperatorSpec] = [
        LookupJoinSpec(tuple(mine.values()), tuple(mine), per, many=True) for mine in joined.values()
    ]
    others = [number for number, query in enumerate(workload.values()) if query.join is None]
    for family in queries_of(workload).only([list(workload)[number] for number in others]).families(engine):
        members = [replace(member, number=others[member.number]) for member in family.members]
        found.append(RankingSpec(family.with_members(members), engine, per, many=True, options=options))
    return found
