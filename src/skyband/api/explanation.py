"""Which engine answers a query, why, and what it costs, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skyband.engines.registry import ENGINES, choose
from skyband.lang.statement import Statement
from skyband.query import AllTime, Counting, Sliding, TopK
from skyband.query.duration import format_duration
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from skyband.api.execution import AnyQuery
    from skyband.engines.registry import Traits
    from skyband.query.window import Window
    from skyband.workload.workload import Workload


@dataclass(frozen=True)
class Explanation:
    """How a query will be answered; prints as text."""

    engine: str
    why: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"engine: {self.engine} ({self.why})", *self.lines])


def explain(query: AnyQuery, *, engine: str = "auto", tasks: int = 1) -> Explanation:
    """Say which engine answers `query`, why, and what it will keep; of many queries, which of them share.

    `tasks` is that of `sb.spark.top_k`: into how many tasks a family of queries is split.

    Examples
    --------
    >>> import skyband as sb
    >>> print(sb.explain(sb.TopK(k=10, by="x", window=sb.Counting(1000, 100))))
    engine: sweep (exact, serves every window and all groups in one call, and is fast on every stream)
    window: the last 1000 rows, answered every 100 rows; a row is in 10 of them
    keeps: about 29 rows in random order (k * H(10)), at most 100 whatever the order
    order: score, largest first; ties by position
    emits: answers, the ranked list of each closed window
    """
    from skyband.workload.family import check_tasks
    from skyband.workload.workload import Workload, queries_of

    query = query.query if isinstance(query, Statement) else query
    if not isinstance(query, TopK):
        from skyband.workload.explain import describe

        fixed = not isinstance(query, Workload)
        workload = query if isinstance(query, Workload) else Workload(query)
        queries = queries_of(workload)
        queries.first()  # there is one
        check_tasks("tasks", tasks)
        name = queries.engine(engine)
        if any(one.join is not None for one in workload.values()):
            return Explanation("topkn", "joins keep objects whose scores change", tuple(_joined_many(workload, name)))
        return Explanation(name, *describe(queries.families(name), name, tasks, fixed=fixed))
    plan = choose(query, engine)
    if query.join is not None:
        return Explanation("topkn", "a join keeps objects whose scores change", tuple(_joined(query)))
    if query.of:
        return Explanation(plan.engine, plan.why, tuple(_board_describe(query)))
    traits = ENGINES[plan.engine].traits
    return Explanation(plan.engine, plan.why, tuple(_describe(query, traits)))


def _joined_many(workload: Workload, engine: str) -> Iterator[str]:
    from skyband.workload.explain import describe
    from skyband.workload.workload import queries_of

    tables: dict[tuple[object, ...], list[str]] = {}
    for name, query in workload.items():
        if query.join is not None:
            tables.setdefault((id(query.join.table), query.join.on), []).append(name)
    plain = [name for name, query in workload.items() if query.join is None]
    for names in tables.values():
        join = workload[names[0]].join
        assert join is not None
        lookups = "" if join.table is None else f", and {join.refresh.budget.each} look-ups a moment"
        yield f"join on {join.on}: {', '.join(names)}; they share one replica{lookups}"
        for name in names:
            yield from (f"  {name}: {line}" for line in _joined(workload[name]))
    if plain:
        yield f"without a join: {', '.join(plain)}, beside them by {engine}"
        yield from (f"  {line}" for line in describe(queries_of(workload).only(plain).families(engine), engine)[1])


def _joined(query: TopK) -> Iterator[str]:
    join, window = query.join, query.window
    assert join is not None
    ratio = WindowAssigner.of(window).ratio
    yield _window_describe(window)
    if join.aggregates:
        yield f"keeps: all keys of the window, by pane, for {', '.join(join.aggregate_names)}"
    else:
        kept = query.k + join.refresh.spare + join.refresh.reserve
        usual = round(kept * _harmonic(ratio))
        yield f"keeps: about {usual} objects in random order ((k + spare) * H({ratio})), at most {kept * ratio}"
    if join.table is not None:
        refresh = join.refresh
        name = refresh.policy if isinstance(refresh.policy, str) else "your own"
        limits = f"at most {refresh.budget.each} keys an answer, within {format_duration(refresh.deadline)}"
        yield f"looks up: {limits}; policy {name}"
    if join.changes is not None:
        yield f"takes: pushed changes; one of an object that is not kept: {join.refresh.unlisted}"


def _board_describe(query: TopK) -> Iterator[str]:
    window, per = query.window, f" per {', '.join(query.per)}" if query.per else ""
    keys = ", ".join(query.of)
    if isinstance(window, AllTime):
        yield "window: none; totals of all time, told again after every batch that changes a list"
        yield f"keeps: one total for each {keys}{per}"
    else:
        yield _window_describe(window)
        yield f"keeps: one partial total for each {keys} and pane of the window{per}"
    best = "smallest" if query.ascending else "largest"
    yield f"order: {query.by}, {best} first; ties by {keys} (the larger first)"
    yield f"emits: {query.emit}"


def _describe(query: TopK, traits: Traits) -> Iterator[str]:
    window, per = query.window, f" per {', '.join(query.per)}" if query.per else ""
    if isinstance(window, Sliding) and window.kind == "row":
        yield f"window: the last {format_duration(window.size)} before every row, answered after every row"
        usual = "about k * (1 + ln(rows in the window / k)) in random order"
        yield f"keeps: what fewer than k later rows beat, {usual}"
    else:
        ratio = WindowAssigner.of(window).ratio
        yield _window_describe(window)
        if traits.minimal:
            most = min(query.k * ratio, window.size) if isinstance(window, Counting) else query.k * ratio
            mean = min(most, round(query.k * _harmonic(ratio)))
            yield f"keeps: about {mean} rows{per} in random order (k * H({ratio})), at most {most} whatever the order"
        else:
            yield f"keeps: {traits.memory}{per}"
    if not traits.exact:
        yield f"promises: {traits.bound}"
    ties = "position" if window.counts else f"{query.time}, then {query.id or 'arrival'} (the later first)"
    yield f"order: score, {'smallest' if query.ascending else 'largest'} first; ties by {ties}"
    if query.id is None and not window.counts:
        yield "note: without id= ties go by arrival here and by a hash of the row on Spark; id= makes them agree"
    says = {
        "answers": "the ranked list of each closed window",
        "changes": "what entered and left since the list before",
        "arrivals": "each row once, when it first enters a list",
    }
    heavy = '; heavy: up to k rows for every row, where "changes" or "arrivals" say less'
    every = query.emit == "answers" and "every row" in window.kinds
    yield f"emits: {query.emit}, {says[query.emit]}{heavy if every else ''}"


def _window_describe(window: Window) -> str:
    clock = WindowAssigner.of(window)
    size, slide = (f"{n} rows" if clock.counts else format_duration(n) for n in (clock.size, clock.slide))
    return f"window: the last {size}, answered every {slide}; a row is in {clock.ratio} of them"


def _harmonic(n: int) -> float:
    """H(n) = 1 + 1/2 + ... + 1/n."""
    if n > 1000:
        from math import log

        return log(n) + 0.5772156649015329 + 1 / (2 * n) - 1 / (12 * n * n)
    return sum(1 / i for i in range(1, n + 1))
