"""run, stream, explain: the rooms joined into one door."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from skyband.engines.plan import choose
from skyband.engines.registry import ENGINES
from skyband.errors import QueryError, SourceError
from skyband.lang.statement import Statement
from skyband.query import Ever, TopK
from skyband.query.duration import duration, instant, spoken
from skyband.query.join import POLICIES

if TYPE_CHECKING:
    from datetime import timedelta

    import pyarrow as pa

    from skyband.engines.protocol import Traits
    from skyband.flow.pipeline import Pipeline, Stats
    from skyband.flow.source import Source
    from skyband.join.pipeline import JoinPipeline
    from skyband.join.together import Together
    from skyband.query.join import Choose
    from skyband.view.alltime import AllTime
    from skyband.workload.pipeline import WorkloadPipeline
    from skyband.workload.workload import Workload

    _Line = Pipeline | WorkloadPipeline | JoinPipeline | Together | AllTime

    Asked = TopK | Statement | Sequence[TopK] | Workload
    """What can be asked: a query, a text that was parsed, or many queries."""

METADATA = b"skyband"
"""Key under which an answer's schema carries the counts of its run, as JSON."""


@overload
def run(
    query: Asked,
    source: object,
    *,
    engine: str = ...,
    late: str | timedelta | None = ...,
    ahead: str | timedelta | None = ...,
    stats: Literal[False] = ...,
    progress: bool | None = ...,
    options: Mapping[str, object] | None = ...,
) -> pa.Table: ...
@overload
def run(
    query: Asked,
    source: object,
    *,
    engine: str = ...,
    late: str | timedelta | None = ...,
    ahead: str | timedelta | None = ...,
    stats: Literal[True],
    progress: bool | None = ...,
    options: Mapping[str, object] | None = ...,
) -> tuple[pa.Table, Stats]: ...
def run(  # noqa: PLR0913 - the one wide door
    query: Asked,
    source: object,
    *,
    engine: str = "auto",
    late: str | timedelta | None = None,
    ahead: str | timedelta | None = None,
    stats: bool = False,
    progress: bool | None = None,
    options: Mapping[str, object] | None = None,
) -> pa.Table | tuple[pa.Table, Stats]:
    """Answer `query`, or many queries, over all of `source`.

    Parameters
    ----------
    query
        What to rank; a list of queries, or a `Workload`, which share what they keep; also what `sb.parse` gives.
    source
        A path (Parquet, CSV or JSON lines; a folder of such files too), an Arrow table, a pandas or Polars
        frame, a dict of lists, or an iterator of such batches, each alone or with a watermark: (batch, time).
    engine
        "auto", or a name in `sb.ENGINES`; for many queries also "mtopband" or "mtoplist".
    late
        How far behind the newest time seen a row may come and still count. Without it a finite source is put
        in order first, so that nothing is late, and an iterator has a lateness of zero.
    ahead
        How far ahead of the newest time seen a row may be; one further ahead is dropped and counted.
    stats
        Also return what was counted on the way.
    progress
        Show a progress bar. Default: on a terminal, for work that takes more than two seconds.
    options
        What the engine can be told, such as {"buffer": 2000}; `sb.ENGINES[name].options` has the names. Many queries
        about points, which share a grid, take grid="uniform", slices= and index=False.

    Returns
    -------
    pyarrow.Table
        Columns window_start, window_end, the `per` columns, rank, score, then the row's own columns; of many
        queries a column `query` before them. Its
        schema metadata has the counts as JSON under b"skyband". With `stats=True` a pair of it and the counts.

    Examples
    --------
    >>> import skyband as sb
    >>> trades = {"ts": [0, 30, 70, 90], "price": [5.0, 9.0, 7.0, None]}
    >>> query = sb.TopK(k=1, by="price", window=sb.Sliding("2 minutes", "1 minute"), time="ts", unit="s")
    >>> answers, counts = sb.run(query, trades, stats=True)
    >>> answers.select(["window_start", "window_end", "score"]).to_pylist()[1]
    {'window_start': 0, 'window_end': 120, 'score': 9.0}
    >>> counts.rows, counts.without_score
    (4, 1)
    """
    import pyarrow as pa

    from skyband.flow.pipeline import OutOfOrderError

    session = _session(query, source, engine, late, ahead, options)
    try:
        tables = list(session.tables(progress=progress, trusting=True))
    except OutOfOrderError:
        tables = list(session.tables(progress=progress))
    promote = "permissive" if session.joins else "default"  # remote types show with the first look-up
    whole = pa.concat_tables(tables, promote_options=promote) if tables else None
    if whole is None:
        msg = "the source yielded no batch, so its columns are unknown: give at least one, which may be empty"
        raise SourceError(msg)
    counts = session.stats
    whole = whole.replace_schema_metadata({METADATA: json.dumps(counts.as_dict()).encode()})
    return (whole, counts) if stats else whole


def compare(
    query: TopK,
    source: object,
    policies: Iterable[str | Choose] = tuple(POLICIES),
    *,
    since: object = None,
    until: object = None,
) -> pa.Table:
    """Run a query's join under several refresh policies, side by side in one pass, against the truth.

    Parameters
    ----------
    query
        A query with `join=`, whose policy is left out of account.
    source
        What `run` takes. The oracle, and the policy "all", look up as much as they need at every evaluation.
    policies
        Names, or functions choose(candidates, replica, budget, now).
    since, until
        Moments: windows that begin before the one or end after the other are passed over. Default: none is.

    Returns
    -------
    pyarrow.Table
        One row a policy: policy, the paper's name for it, the sums of nDCG@k and precision@k, their cumulated
        errors after each window, and the look-ups made.

    Examples
    --------
    >>> import skyband as sb
    >>> from skyband.tables.memory import History
    >>> users = History({"user": [1, 2, 1], "at": [0, 0, 70], "y": [5, 6, 9]}, key="user", time="at", unit="s")
    >>> join = sb.Join(users, on="user", columns=["y"], budget=1)
    >>> query = sb.TopK(k=1, by="x + y", window=sb.Tumbling("1 minute"), time="t", unit="s", join=join)
    >>> seen = {"t": [10, 20, 80, 90], "user": [1, 2, 1, 2], "x": [0, 0, 0, 0]}
    >>> sb.compare(query, seen, ["top", "all"]).select(["policy", "ndcg", "precision", "lookups"]).to_pylist()
    [{'policy': 'top', 'ndcg': 2.0, 'precision': 2.0, 'lookups': 2}, ...]
    """
    from skyband.evaluate import evaluate
    from skyband.join.compare import side_by_side

    if not isinstance(query, TopK) or query.join is None:
        msg = "compare needs a query with join=: write sb.TopK(..., join=sb.Join(...))"
        raise QueryError(msg)
    from skyband.join.policies import Oracle

    policies = [policies] if isinstance(policies, str) else policies
    ways: list[str | Choose] = [*(query.join.replaced(policy=way).policy for way in policies), Oracle()]
    sessions = [
        _Session(query.joining(query.join.replaced(policy=way)), source, "auto", None, None, None) for way in ways
    ]
    if isinstance(source, Iterator):
        msg = "source is an iterator, which only one policy could read: give a path, a table or a list of batches"
        raise SourceError(msg)
    for session in sessions:
        session.between = (
            None if since is None else instant(since, "since"),
            None if until is None else instant(until, "until"),
        )
    return side_by_side([s.tables(progress=False) for s in sessions], query, ways, evaluate)


def stream(
    query: Asked,
    source: object,
    *,
    engine: str = "auto",
    late: str | timedelta | None = None,
    ahead: str | timedelta | None = None,
    options: Mapping[str, object] | None = None,
) -> Stream:
    """Answer `query` batch by batch: what each batch of `source` brings about, as soon as it does.

    Takes what `run` takes. Batches that close no window yield nothing. What comes back is an iterator of tables that
    also tells, at any time, what it has counted (`stats`) and how many rows it keeps (`candidates`).

    Examples
    --------
    >>> import skyband as sb
    >>> batches = iter([{"x": [3, 9]}, {"x": [4, 1]}])
    >>> for answers in sb.stream(sb.TopK(k=1, by="x", window=sb.Counting(2, 2)), batches):
    ...     print(answers["score"].to_pylist())
    [9.0]
    [4.0]
    """
    return Stream(_session(query, source, engine, late, ahead, options))


class Stream(Iterator["pa.Table"]):
    """Answers as they come; made by `sb.stream`.

    Examples
    --------
    >>> import skyband as sb
    >>> answers = sb.stream(sb.TopK(k=1, by="x", window=sb.Counting(2, 2)), iter([{"x": [3, 9]}, {"x": [4]}]))
    >>> next(answers)["score"].to_pylist(), answers.stats.rows, answers.candidates
    ([9.0], 2, 0)
    """

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._tables = (table for table in session.tables(progress=False) if table.num_rows)

    def __next__(self) -> pa.Table:
        return next(self._tables)

    @property
    def stats(self) -> Stats:
        """What has been seen and done so far."""
        from skyband.flow.pipeline import Stats

        return self._session.stats if self._session.pipeline is not None else Stats()

    @property
    def candidates(self) -> int:
        """How many rows are kept because they may still be in an answer."""
        pipeline = self._session.pipeline
        return 0 if pipeline is None else pipeline.kept


class _Session:
    """One query over one source, from the first batch to the last."""

    def __init__(
        self,
        query: TopK | Statement,
        source: object,
        engine: str,
        late: str | timedelta | None,
        ahead: str | timedelta | None,
        options: Mapping[str, object] | None,
    ) -> None:
        from skyband.flow.source import open_source

        self.asked = query if isinstance(query, Statement) else Statement(query)
        query, source = self.asked.query, self.asked.rows(source)
        if not isinstance(query, TopK):
            msg = f"query={type(query).__name__} is no query: write sb.TopK(k=..., by=..., window=...)"
            raise QueryError(msg)
        self.query = query
        self.plan = choose(query, engine)
        self.options = options
        self.late = _length(late, "late")
        self.ahead = _length(ahead, "ahead")
        self.source = open_source(source)
        self.between: tuple[int | None, int | None] = (None, None)
        self.pipeline: _Line | None = None

    @property
    def stats(self) -> Stats:
        assert self.pipeline is not None
        return self.pipeline.stats

    @property
    def joins(self) -> bool:
        """Whether remote columns are in the answers."""
        return self.query.join is not None

    def tables(self, *, progress: bool | None, trusting: bool = False) -> Iterator[pa.Table]:
        """The answers of each batch, then those that the end brings.

        With `trusting`, a finite source is taken to be in order; OutOfOrderError says that it is not.
        """
        from skyband.flow.progress import shown

        source, rising = self._in_order(trusting=trusting)
        self.pipeline = None
        if source.finite and source.schema is not None:
            self.pipeline = self._open(source.schema, rising=rising)
        for rows, watermark in shown(source.batches(), source.rows, wanted=progress):
            if self.pipeline is None:
                if not rows.num_rows and "null" in map(str, rows.schema.types):
                    continue  # an empty list has no type: the next batch will tell
                self.pipeline = self._open(rows.schema, rising=rising)
            yield self.asked.shaped(self.pipeline.push(rows, self._micros(watermark)))
        if self.pipeline is not None:
            yield self.asked.shaped(self.pipeline.finish())

    def _open(self, schema: pa.Schema, *, rising: bool) -> _Line:
        from skyband.flow.pipeline import Pipeline

        if self.query.join is not None:
            from skyband.join.pipeline import JoinPipeline

            ways = {"late": self.late or 0, "ahead": self.ahead, "rising": rising}
            join = JoinPipeline(self.query, schema, **ways, live=not self.source.finite)  # type: ignore[arg-type]
            join.between(*self.between)
            return join

        if isinstance(self.query.window, Ever):
            from skyband.view.alltime import AllTime

            return AllTime(self.query, schema, live=not self.source.finite)
        line: Any = Pipeline
        if self.query.of:
            from skyband.view.board import Leaderboard as line  # noqa: N813 - the same doors

        return line(
            self.query,
            schema,
            self.plan.engine,
            late=self.late or 0,
            ahead=self.ahead,
            rising=rising,
            options=self.options,
        )

    def _in_order(self, *, trusting: bool) -> tuple[Source, bool]:
        """The source, in the order of time if it must be; and whether its batches are."""
        source, query = self.source, self.query
        if not source.finite or query.window.counts or self.late is not None:
            return source, False
        if trusting:
            return source, True
        from skyband.flow.order import in_time_order, rising
        from skyband.flow.schema import check_schema
        from skyband.flow.time import TimeType

        assert source.schema is not None
        assert query.time is not None
        check_schema(query, source.schema)
        kind = TimeType.of(query, source.schema.field(query.time).type)
        if rising(source, query.time, kind):
            return source, True
        return in_time_order(source, query.time, kind), True

    def _micros(self, watermark: Any) -> int | None:
        """A watermark as the source gave it, in microseconds."""
        if watermark is None:
            return None
        assert self.pipeline is not None
        kind = self.pipeline.time
        if hasattr(watermark, "item"):  # a NumPy scalar, as column.max() gives it
            watermark = watermark.astype("datetime64[us]").item() if watermark.dtype.kind == "M" else watermark.item()
        if isinstance(watermark, int) and kind is not None:
            return watermark * kind.per // kind.parts
        if isinstance(watermark, str) and not watermark.strip()[:4].isdigit():
            msg = f"watermark={watermark!r} is not a moment: give a time of the type of {self.query.time!r}"
            raise SourceError(msg)
        return instant(watermark, "watermark")


class _WorkloadSession(_Session):
    """Many queries over one source."""

    def __init__(  # noqa: PLR0913 - what the door was given
        self,
        workload: Workload,
        source: object,
        engine: str,
        late: str | timedelta | None,
        ahead: str | timedelta | None,
        options: Mapping[str, object] | None,
        *,
        fixed: bool,
    ) -> None:
        first = workload.first()
        super().__init__(first, source, "auto", late, ahead, workload.told(options, engine))
        self.workload = workload
        self.fixed = fixed
        self.engine = workload.chosen(engine)

    @property
    def joins(self) -> bool:
        """Whether remote columns are in the answers of any query."""
        return any(query.join is not None for query in self.workload.values())

    def _open(self, schema: pa.Schema, *, rising: bool) -> _Line:
        ways: dict[str, Any] = {"late": self.late or 0, "ahead": self.ahead, "rising": rising}
        if not self.joins:
            return self.workload.open(schema, self.engine, options=self.options, fixed=self.fixed, **ways)
        from skyband.join.together import joined_workload

        return joined_workload(self.workload, schema, self.engine, live=not self.source.finite, **ways)


def _session(
    query: Asked,
    source: object,
    engine: str,
    late: str | timedelta | None,
    ahead: str | timedelta | None,
    options: Mapping[str, object] | None,
) -> _Session:
    """One query, or many, over a source."""
    from skyband.workload.workload import Workload

    if isinstance(query, TopK) or not isinstance(query, (Workload, list, tuple)):
        return _Session(query, source, engine, late, ahead, options)  # type: ignore[arg-type]  # which says what is wrong
    fixed = not isinstance(query, Workload)
    workload = query if isinstance(query, Workload) else Workload(query)
    return _WorkloadSession(workload, source, engine, late, ahead, options, fixed=fixed)


def _length(value: str | timedelta | None, field: str) -> int | None:
    if value is None:
        return None
    length = duration(value, field)
    if length < 0:
        msg = f'{field}={value!r} is below zero: write a length of time such as "30 seconds"'
        raise QueryError(msg)
    return length


@dataclass(frozen=True)
class Explanation:
    """How a query will be answered; prints as text."""

    engine: str
    why: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"engine: {self.engine} ({self.why})", *self.lines])


def explain(query: Asked, *, engine: str = "auto", tasks: int = 1) -> Explanation:
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
    from skyband.workload.workload import Workload

    query = query.query if isinstance(query, Statement) else query
    if not isinstance(query, TopK):
        from skyband.workload.explain import described

        fixed = not isinstance(query, Workload)
        workload = query if isinstance(query, Workload) else Workload(query)
        name = workload.chosen(engine)
        if any(one.join is not None for one in workload.values()):
            return Explanation("topkn", "joins keep objects whose scores change", tuple(_joined_many(workload, name)))
        return Explanation(name, *described(workload.families(name), name, tasks, fixed=fixed))
    plan = choose(query, engine)
    if query.join is not None:
        return Explanation("topkn", "a join keeps objects whose scores change", tuple(_joined(query)))
    if query.of:
        return Explanation(plan.engine, plan.why, tuple(_board_described(query)))
    traits = ENGINES[plan.engine].traits
    return Explanation(plan.engine, plan.why, tuple(_described(query, traits)))


def _joined_many(workload: Workload, engine: str) -> Iterator[str]:
    from skyband.workload.explain import described

    tables: dict[tuple[object, ...], list[str]] = {}
    for name, query in workload.items():
        if query.join is not None:
            tables.setdefault((id(query.join.table), query.join.on), []).append(name)
    plain = [name for name, query in workload.items() if query.join is None]
    for names in tables.values():
        join = workload[names[0]].join
        assert join is not None
        share = "one replica" if join.table is None else f"one replica, and {join.budget.each} look-ups a moment"
        yield f"join on {join.on}: {', '.join(names)}; they share {share}"
        for name in names:
            yield from (f"  {name}: {line}" for line in _joined(workload[name]))
    if plain:
        yield f"without a join: {', '.join(plain)}, beside them by {engine}"
        yield from (f"  {line}" for line in described(workload.only(plain).families(engine), engine)[1])


def _joined(query: TopK) -> Iterator[str]:
    join, window = query.join, query.window
    assert join is not None
    ratio = -(-window.size // window.slide)
    length = (str, "rows") if window.counts else (spoken, "")
    size, slide = (f"{length[0](n)} {length[1]}".strip() for n in (window.size, window.slide))
    yield f"window: the last {size}, answered every {slide}; a row is in {ratio} of them"
    if join.aggregates:
        yield f"keeps: all keys of the window, by pane, for {', '.join(join.aggregate_names)}"
    else:
        kept = query.k + join.spare + join.reserve
        usual = round(kept * _harmonic(ratio))
        yield f"keeps: about {usual} objects in random order ((k + spare) * H({ratio})), at most {kept * ratio}"
    if join.table is not None:
        name = join.policy if isinstance(join.policy, str) else "your own"
        yield f"looks up: at most {join.budget.each} keys an answer, within {spoken(join.deadline)}; policy {name}"
    if join.changes is not None:
        yield f"takes: pushed changes; one of an object that is not kept: {join.unlisted}"


def _board_described(query: TopK) -> Iterator[str]:
    window, per = query.window, f" per {', '.join(query.per)}" if query.per else ""
    ratio = -(-window.size // window.slide)
    keys = ", ".join(query.of)
    if isinstance(window, Ever):
        yield "window: none; totals of all time, told again after every batch that changes a list"
        yield f"keeps: one total for each {keys}{per}"
    else:
        size, slide = spoken(window.size), spoken(window.slide)
        yield f"window: the last {size}, answered every {slide}; a row is in {ratio} of them"
        yield f"keeps: one partial total for each {keys} and pane of the window{per}"
    best = "smallest" if query.ascending else "largest"
    yield f"order: {query.by}, {best} first; ties by {keys} (the larger first)"
    yield f"emits: {query.emit}"


def _described(query: TopK, traits: Traits) -> Iterator[str]:
    window, per = query.window, f" per {', '.join(query.per)}" if query.per else ""
    if window.kind == "row":
        yield f"window: the last {spoken(window.size)} before every row, answered after every row"
        usual = "about k * (1 + ln(rows in the window / k)) in random order"
        yield f"keeps: what fewer than k later rows beat, {usual}"
    else:
        ratio = -(-window.size // window.slide)
        size, slide = (
            (f"{window.size} rows", f"{window.slide} rows")
            if window.counts
            else (spoken(window.size), spoken(window.slide))
        )
        yield f"window: the last {size}, answered every {slide}; a row is in {ratio} of them"
        if traits.minimal:
            most = min(query.k * ratio, window.size) if window.counts else query.k * ratio
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


def _harmonic(n: int) -> float:
    """H(n) = 1 + 1/2 + ... + 1/n."""
    if n > 1000:
        from math import log

        return log(n) + 0.5772156649015329 + 1 / (2 * n) - 1 / (12 * n * n)
    return sum(1 / i for i in range(1, n + 1))
