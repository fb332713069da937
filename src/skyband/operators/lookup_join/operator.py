"""Ranks rows whose score needs remote columns.

    rows ──> lists, by query and group ──> at the end of each window: pushed changes, look-ups, answers
                 │   ▲
                 ▼   │ scores
               replica <── look-ups, chosen by the refresh policies of the lists

Of each key's rows in a pane the newest counts, unless every row is an object. The lists of all queries and groups share
the replica; those whose windows end at one moment share one budget of look-ups.
"""

from __future__ import annotations

import time as wall_clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa

from skyband.engines.protocol import Answers
from skyband.engines.validation import require, section, typed_column, validate
from skyband.errors import SchemaError
from skyband.operators.lookup_join.aggregate_list import AggregateList
from skyband.operators.lookup_join.candidate_list import CandidateList
from skyband.operators.lookup_join.changes import PUSHED, PushedChanges
from skyband.operators.lookup_join.client import LookupClient
from skyband.operators.lookup_join.join_list import Arrivals, JoinList, ListAnswer, score_columns
from skyband.operators.lookup_join.planning import (
    NewestRows,
    check_columns,
    distributed_queries,
    join_of,
    read_initial,
    shared_join,
    state_fingerprint,
)
from skyband.operators.lookup_join.policies import resolve_policy
from skyband.operators.lookup_join.refresher import LookupCounts, Refresher
from skyband.operators.lookup_join.remote_rows import ARROW_TYPES, RemoteRows
from skyband.operators.lookup_join.replica import NOT_READ
from skyband.operators.lookup_join.topkn import STATUS
from skyband.runtime.arrow import from_storage
from skyband.runtime.batch import PreparedBatch
from skyband.runtime.combine import RowCombiner, decode_rows
from skyband.runtime.groups import Groups
from skyband.runtime.ids import read_ids
from skyband.runtime.protocols import Operator, OperatorSpec
from skyband.runtime.result import ResultColumns
from skyband.runtime.schema import TimeType
from skyband.runtime.score import scores
from skyband.runtime.snapshot import table_of
from skyband.runtime.stats import JoinStats
from skyband.windows import MAX_TIME, MIN_TIME, WindowAssigner, WindowAssignerUnion

if TYPE_CHECKING:
    from skyband.engines.protocol import Objects
    from skyband.query import Join, TopK
    from skyband.runtime.groups import GroupTracker
    from skyband.runtime.protocols import Assigner, Context, Goal, Merge, Snapshot
    from skyband.runtime.runner import OperatorRunner

_SPARE_KEYS = 1 << 16  # keys that no window needs and that were never read, before they are forgotten
_COLUMNS = {"state": typed_column("i8", 4), "lists": typed_column("i8", "lists", 2, low=0)}


@dataclass(frozen=True)
class LookupJoinSpec(OperatorSpec):
    """A query with `join=`, or several that join one table.

    Parameters
    ----------
    queries
        The queries, with their names if there are several.
    numbers
        Their numbers among all queries on the stream.
    all_per
        The group columns of all queries on the stream.
    many
        The result has a column `query`.
    since, until
        Windows that begin before the one or end after the other are not answered, in microseconds; None: all are.
    lookups
        Whether remote rows are looked up; if not, answers use what was read.
    token
        The name under which the connections of a process outlast a batch on Spark.
    pushed
        On Spark, the DataFrame of pushed changes. It stays with the driver.
    """

    queries: tuple[TopK, ...]
    numbers: tuple[int, ...] = (0,)
    all_per: tuple[str, ...] = ()
    many: bool = False
    since: int | None = None
    until: int | None = None
    lookups: bool = True
    token: str | None = None
    pushed: Any = field(default=None, compare=False, repr=False)

    engine = "topkn"
    scored = False
    unranked = "without_key"
    default_buckets = 1  # one replica and one budget for all groups
    stats_type = JoinStats
    own_counters = ("without_key", "wanted", "made", "failed", "missed_deadline", "evicted", "incomplete")
    numbers_groups = False  # queries may have different groups

    @property
    def counters(self) -> Mapping[str, Merge]:  # type: ignore[override]
        """How counters of several operators become one: rows are the same for all."""
        return {"late_rows": "max", "without_key": "max"}

    @classmethod
    def distributed(cls, queries: Sequence[TopK], per: tuple[str, ...], *, many: bool) -> LookupJoinSpec:
        """Return the operator as it travels to Spark's executors."""
        pushed = join_of(queries[0]).changes
        found = tuple(distributed_queries(queries))
        return cls(found, tuple(range(len(found))), per, many, token=uuid4().hex, pushed=pushed)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the DataFrame of pushed changes with the driver."""
        return {**self.__dict__, "pushed": None}

    @property
    def query(self) -> TopK:  # type: ignore[override]
        """The first query."""
        return self.queries[0]

    @cached_property
    def join(self) -> Join:
        """What is joined for all queries."""
        return shared_join(self.queries)

    @property
    def per(self) -> tuple[str, ...]:
        """The columns by which groups are hashed into buckets: those of several queries stay together."""
        return () if self.many else self.query.per

    @property
    def max_buckets(self) -> int | None:  # type: ignore[override]
        """One for several queries, which share a budget."""
        return 1 if self.many else None

    @property
    def inputs(self) -> Mapping[str, Literal["by_group", "broadcast"]]:
        """Rows, and pushed changes."""
        pushed = self.join.changes is PUSHED
        return {"rows": "by_group", "changes": "broadcast"} if pushed else {"rows": "by_group"}

    @property
    def columns(self) -> Sequence[str]:
        """The columns that `prepare` needs."""
        return list(dict.fromkeys([self.join.on, *self.per, *filter(None, [self.query.id])]))

    def assigner(self) -> Assigner:
        """Return the windows and panes of all queries."""
        assigners = [WindowAssigner.of(query.window) for query in self.queries]
        return assigners[0] if len(set(assigners)) == 1 else WindowAssignerUnion(assigners)

    def check(self, schema: pa.Schema) -> None:
        """Raise unless the queries fit the columns of the source."""
        for query in self.queries:
            check_columns(query, schema)
            if query.time is not None and not query.window.counts:
                TimeType.of(query, schema.field(query.time).type)

    def side_inputs(self) -> Mapping[str, tuple[Any, list[str]]]:
        """Return the pushed changes on Spark."""
        return {} if self.pushed is None else {"changes": (self.pushed, [self.join.on, *self.join.columns])}

    def fingerprint(self) -> Mapping[str, str]:
        """Return what is joined, and every query in place of the first."""
        found = {"join": "; ".join(state_fingerprint(join_of(query)) for query in self.queries)}
        if self.many:
            each = (f"{query.name}: k {query.k}, by {query.by}, {query.window}" for query in self.queries)
            found |= {"k": "of each", "by": "of each", "window": "of each", "queries": "; ".join(each)}
        return found

    def result(self, *, early: bool = False) -> ResultColumns:
        """Return the columns of the result; remote columns without a type get it with the first look-up."""
        join, name = self.join, self.query.column
        types = dict(join.types)
        extra = {a.name: pa.int64() if a.function == "count" else pa.float64() for a in join.aggregates}
        extra |= {column: ARROW_TYPES[types[column]] if column in types else pa.null() for column in join.columns}
        lookups = pa.struct([(count, pa.int64()) for count in ("wanted", "made", "failed", "late")])
        extra |= {name("staleness"): pa.float64(), name("status"): pa.string(), name("lookups"): lookups}
        return ResultColumns(self.query, self.all_per or self.query.per, extra=extra, many=self.many, early=early)

    def prepare(
        self, rows: pa.Table, row_id: np.ndarray, time: np.ndarray, groups: GroupTracker | None
    ) -> PreparedBatch:
        """Return the rows without a score: zero, or NaN if they have no key."""
        key, name = rows.column(self.join.on), self.query.id
        score = np.zeros(len(row_id))
        if key.null_count:
            score[key.is_null().to_numpy()] = np.nan
        group = None if groups is None else groups.codes(rows)
        tie, missing = (None, None) if name is None else read_ids(rows.column(name), name)
        return PreparedBatch(row_id, time, score, tie, missing, group)

    def combiner(self, buckets: int) -> RowCombiner:
        """Return what lets the newest rows of each pane, group and key travel."""
        return RowCombiner(self, buckets, NewestRows(self.queries))

    def receive(
        self, tables: Sequence[pa.Table], schema: pa.Schema, groups: GroupTracker | None
    ) -> tuple[pa.Table, PreparedBatch]:
        """Return the rows that have travelled."""
        del groups
        return decode_rows(tables, schema, self.query)

    def for_preview(self) -> LookupJoinSpec:
        """Return the operator without look-ups."""
        return replace(self, lookups=False)

    def open(self, context: Context, snapshot: Snapshot | None = None) -> LookupJoin:
        """Return the operator, new or restored."""
        return LookupJoin(self, context, snapshot)


class _Evaluation(NamedTuple):
    """The answer of one list at the end of a window."""

    owner: JoinList
    group: int
    window: int
    end: int
    answer: ListAnswer
    age: np.ndarray  # of the remote rows, NaN where there is none
    remote: pa.Table | None  # None: nothing was read yet
    lookups: LookupCounts


class LookupJoin(Operator):
    """The k best objects of each window, scored with remote columns from a replica.

    Cost: that of the lists, and of the look-ups. Memory: the lists, see `CandidateList` and `AggregateList`, and the
    replica.

    References
    ----------
    Zahmatkesh and Della Valle, AcquaTop, section 4 (Topk+N) and 5 (maintenance policies).
    """

    def __init__(self, spec: LookupJoinSpec, context: Context, snapshot: Snapshot | None = None) -> None:
        self._spec, self._context, self._join = spec, context, spec.join
        self.assigner = spec.assigner()
        self.names = [""] * (max(spec.numbers) + 1)
        for number, query in zip(spec.numbers, spec.queries, strict=True):
            self.names[number] = query.name or ""
        query, schema = spec.query, context.schema
        self._time = None if query.time is None else TimeType.of(query, schema.field(query.time).type)
        self._groups = [Groups(one.per) if one.per else None for one in spec.queries]
        self.remote = RemoteRows(self._join, schema, self.assigner.slide)
        self.changes = PushedChanges(self._join, query.time, self._time)
        self.lists: dict[tuple[int, int], JoinList] = {}  # by the place of the query and the code of the group
        looks_up = spec.lookups and self._join.table is not None
        client = LookupClient.of(self._join, spec.token) if looks_up else None
        self.refresher = Refresher(self._join, spec.queries, schema, self.remote, self.lists, client, live=context.live)
        self._reached = MIN_TIME  # windows that end by this are closed
        self._begun = False  # whether a row has come, and the replica has its initial rows
        self._kept_keys = 0  # when some were last forgotten
        self._peak = 0  # also of lists that are gone
        for place, one in enumerate(spec.queries):
            getattr(resolve_policy(join_of(one).refresh.policy), "compile", int)()  # before a deadline runs
            if not one.per:
                self._open_list(place, 0)
        if snapshot is not None:
            self._restore(snapshot)

    def _open_list(self, place: int, group: int) -> JoinList:
        query, since = self._spec.queries[place], self._spec.since
        assigner, window = WindowAssigner.of(query.window), None
        if since is not None:
            window = -(-(since - assigner.origin + assigner.shift) // assigner.slide)
        kind = AggregateList if join_of(query).aggregates else CandidateList
        found = self.lists[place, group] = kind(place, query, self.remote, self._context, window)
        found.shares_replica = len(self._spec.queries) > 1 or bool(query.per)
        return found

    @property
    def peak(self) -> int:
        """The most objects ever on the lists."""
        return max(self._peak, sum(each.peak for each in self.lists.values()))

    def bounds(self, end: np.ndarray, query: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the displayed start and end of windows."""
        if query is None:
            return WindowAssigner.of(self._spec.query.window).bounds(end)
        size, shift = np.zeros((2, len(self.names)), np.int64)
        for number, one in zip(self._spec.numbers, self._spec.queries, strict=True):
            assigner = WindowAssigner.of(one.window)
            size[number], shift[number] = assigner.size, assigner.shift
        return end - size[query] - shift[query], end - shift[query]

    def extra_types(self) -> Mapping[str, pa.DataType]:
        """Return the types of remote columns, once they are known."""
        known = self.remote.replica.schema
        return {} if known is None else dict(zip(known.names, known.types, strict=True))

    # ------------------------------------------------------------ rows in

    def take_input(self, name: str, tables: Sequence[pa.Table], runner: OperatorRunner) -> None:
        """Take pushed changes; they are applied as the windows come to their time."""
        assert name == "changes"
        del runner
        for table in tables:
            self.changes.add(table)

    def advance(self, parts: Mapping[str, Any], upto: Goal) -> Answers | None:
        """Take rows, and evaluate the windows that end by `upto` one moment after the other."""
        goal = int(upto[0]) if isinstance(upto, np.ndarray) else upto
        rows: Objects | None = parts.get("rows")
        if rows is not None and len(rows.time):
            self._offer(rows)
        latest = MAX_TIME if self._spec.until is None else self._spec.until
        found: list[_Evaluation] = []
        while True:
            ends = [(end, at) for at, each in self.lists.items() if (end := each.next_end(self._reached)) is not None]
            end = min((end for end, _ in ends), default=MAX_TIME)
            due = {at: self.lists[at] for other, at in ends if other == end}
            if not due or end > goal or end - next(iter(due.values())).assigner.shift > latest:
                break
            for each in due.values():
                self._take(each, end)
            found += self._evaluate(due, end)
        complete = goal if goal == MAX_TIME or self.assigner.counts else self.assigner.pane(goal)
        for each in self.lists.values():
            self._take(each, complete)
            each.offer(None)
        self._reached = max(self._reached, goal)
        self._peak = self.peak
        for at, each in list(self.lists.items()):
            if self._groups[at[0]] is not None and each.is_idle():
                del self.lists[at]  # opens anew with the next row of the group
        return self._answers(found) if found else None

    def _offer(self, rows: Objects) -> None:
        """Offer every list its rows; lists of new groups open."""
        names = dict.fromkeys([self._join.on, *(name for query in self._spec.queries for name in query.per)])
        table = self._context.take(rows.id, list(names))
        if not self._begun:
            self._begin(int(rows.time[0]))
        key = self.remote.codes(table)
        for place, groups in enumerate(self._groups):
            if groups is None:
                self.lists[place, 0].offer(self._arrivals(place, rows.time, rows.id, key))
                continue
            group = groups.codes(table)
            order = np.argsort(group, kind="stable")
            group = group[order]
            arrivals = self._arrivals(place, rows.time[order], rows.id[order], key[order], group)
            codes, first = np.unique(group, return_index=True)
            for code, low, high in zip(codes.tolist(), first, [*first[1:], len(group)], strict=True):
                each = self.lists.get((place, code))
                if each is None:  # a list that holds no object yet is false
                    each = self._open_list(place, code)
                each.offer(arrivals.slice(low, high))

    def _arrivals(
        self, place: int, time: np.ndarray, ids: np.ndarray, key: np.ndarray, group: np.ndarray | None = None
    ) -> Arrivals:
        """Return rows with what a query needs of them: those of each group in the order of time."""
        from skyband.kernels.topkn import newest

        query = self._spec.queries[place]
        join, take = join_of(query), self._context.take
        chosen = np.arange(len(time))
        if join.each == "key":
            pane = np.asarray(WindowAssigner.of(query.window).pane(time))
            if group is not None:  # number the panes of all groups
                pane = np.cumsum(np.r_[0, (np.diff(pane) != 0) | (np.diff(group) != 0)])
            keep = np.empty(len(key), np.bool_)
            newest(pane, key, np.full(len(self.remote.keys), MIN_TIME), keep)
            chosen = np.flatnonzero(keep)
        if not join.aggregates:
            return Arrivals(time, ids, key, chosen, take(ids[chosen], score_columns(query, self._context.schema)))
        used = dict.fromkeys([join.on, *(name for a in join.aggregates if a.of is not None for name in a.of.columns)])
        rows = take(ids, list(used)) if len(used) > 1 else None
        values = [np.ones(len(key)) if a.of is None or rows is None else scores(a.of, rows) for a in join.aggregates]
        return Arrivals(time, ids, key, chosen, values=values)

    def _begin(self, first: int) -> None:
        """Fill the replica with the initial rows, before the first row of the stream."""
        self._begun = True
        join, initial = self._join, self._join.initial
        if initial is None:
            return
        rows = read_initial(initial)
        on = join.on if join.on in rows.column_names else getattr(join.table, "key", join.on)
        for name in (on, *join.columns):
            if name not in rows.column_names:
                raise SchemaError(
                    f"initial must have the key and the columns {', '.join(join.columns)}, got no {name!r}"
                )
        keys, time = self.remote.remote_codes(rows[on], "initial"), self._spec.query.time
        self.remote.replica.update(np.unique(keys), keys, rows, first - self.assigner.slide)
        if time in rows.column_names and self._time is not None:
            self.remote.replica.time[keys] = self._time.micros(rows[time].cast(self._time.type))[0]

    def _take(self, each: JoinList, before: int) -> None:
        """Let a list take its rows before a moment, pane by pane, with the pushed changes of their pane before them."""
        for end, pane in each.take(before):
            self._apply_changes(end)
            each.add(pane)

    def _apply_changes(self, before: int) -> None:
        """Apply the pushed changes before a moment to the replica and to all lists."""
        found = self.changes.release(before)
        if found is not None:
            rows, time = found
            keys = self.remote.remote_codes(rows[self._join.on], "changes")
            order = np.argsort(keys)
            read = self.remote.replica.update(keys[order], keys, rows, time[order])
            self._update_lists(read.changed)

    def _update_lists(self, keys: np.ndarray) -> None:
        for each in self.lists.values():
            each.update(keys)

    # ------------------------------------------------------------ answers

    def _evaluate(self, due: Mapping[tuple[int, int], JoinList], end: int) -> list[_Evaluation]:
        """Look up what the policies of lists want, then answer their windows that end now."""
        self._apply_changes(end)
        replica, counters = self.remote.replica, self._context.counters
        now = end - next(iter(due.values())).assigner.shift
        lookups = self.refresher.refresh(list(due.values()), now)
        answers = [each.answer() for each in due.values()]
        key = np.concatenate([answer.key for answer in answers])
        remote = replica.take(np.concatenate([answer.place for answer in answers]))
        unit = 1.0 if self.assigner.counts else 1e6
        age = np.where(replica.time[key] == NOT_READ, np.nan, np.maximum(now - replica.time[key], 0) / unit)
        found, first = [], 0
        for ((_, group), each), answer in zip(due.items(), answers, strict=True):
            size = len(answer.key)
            assert each.window is not None
            if size:
                rows = None if remote is None else remote.slice(first, size)
                own = age[first : first + size]
                found.append(_Evaluation(each, group, each.window, end, answer, own, rows, lookups))
            first += size
            each.close_window()
        self._evict()
        for name, count in lookups._asdict().items():
            counters[name] += count
        counters["incomplete"] += sum(answer.incomplete for answer in answers)
        counters["last_error"] = self.refresher.last_error
        return found

    def _evict(self) -> None:
        size = self._join.refresh.replica_size
        if size is not None:
            needed = np.unique(np.concatenate([each.open_keys() for each in self.lists.values()]))
            gone = self.remote.replica.evict(size, needed)
            self._context.counters["evicted"] += len(gone)
            self._update_lists(gone)

    def _answers(self, found: list[_Evaluation]) -> Answers:
        """Return the answers of lists with all that belongs to their evaluation, by the end of the window and query."""
        found.sort(key=lambda each: (each.end - each.owner.assigner.shift, each.owner.place))
        query, numbers = self._spec.query, self._spec.numbers
        # scores are returned as the first query ranks them: negative if the least is the best
        score = [e.answer.score if e.owner.query.ascending == query.ascending else -e.answer.score for e in found]
        status = np.concatenate([e.answer.status for e in found])
        age = np.concatenate([e.age for e in found])
        remote = self._remote_columns(found)
        extra: dict[str, Any] = {a.name: self._aggregate(a.name, found) for a in self._join.aggregates}
        extra |= {name: remote.column(name) for name in self._join.columns}
        extra[query.column("staleness")] = pa.array(age, pa.float64(), from_pandas=True)
        extra[query.column("status")] = pa.array(STATUS).take(pa.array(status))
        counts = np.array([e.lookups for e in found], np.int64)
        lookups = pa.StructArray.from_arrays(list(map(pa.array, counts.T)), ["wanted", "made", "failed", "late"])
        return Answers(
            step=np.array([e.window for e in found], np.int64),
            end=np.array([e.end for e in found], np.int64),
            group=np.array([e.group for e in found], np.int32),
            first=np.cumsum([0, *(len(e.answer.key) for e in found)]),
            id=np.concatenate([e.answer.id for e in found]),
            score=np.concatenate(score),
            query=np.array([numbers[e.owner.place] for e in found], np.int64) if self._spec.many else None,
            extra=extra,
            list_extra={query.column("lookups"): lookups, **self._group_columns(found)},
        )

    def _remote_columns(self, found: list[_Evaluation]) -> pa.Table:
        """Return the remote rows, NULL where nothing had been read."""
        known = self.remote.replica.schema or pa.schema([(name, pa.null()) for name in self._join.columns])
        nothing = (pa.table([pa.nulls(len(e.answer.key), kind) for kind in known.types], schema=known) for e in found)
        tables = [none if e.remote is None else e.remote for e, none in zip(found, nothing, strict=True)]
        return pa.concat_tables([known.empty_table(), *tables], promote_options="permissive")

    def _aggregate(self, name: str, found: list[_Evaluation]) -> pa.Array:
        """Return an aggregate, NULL for queries that do not have it."""
        values = []
        for each in found:
            names = each.owner.join.aggregate_names
            own = each.answer.values[names.index(name)] if name in names else np.full(len(each.answer.key), np.nan)
            values.append(own)
        return pa.array(np.concatenate(values), pa.float64(), from_pandas=True).cast(self._spec.result().extra[name])

    def _group_columns(self, found: list[_Evaluation]) -> dict[str, pa.ChunkedArray]:
        """Return the group columns of lists, NULL for queries that do not group by them."""
        place = np.array([e.owner.place for e in found])
        code = np.array([e.group for e in found])
        columns = {}
        for name in self._spec.result().per:
            kind, parts, order = self._context.schema.field(name).type, [], []
            for at, groups in enumerate(self._groups):
                mine = np.flatnonzero(place == at)
                order.append(mine)
                if groups is None or name not in groups.per:
                    parts.append(pa.nulls(len(mine), kind))
                else:
                    parts += from_storage(groups.values(code[mine])[groups.per.index(name)], kind, name).chunks
            columns[name] = pa.chunked_array(parts, kind).take(pa.array(np.argsort(np.concatenate(order))))
        return columns

    # ------------------------------------------------------------ what is kept

    def tidy(self, watermark: int) -> None:
        """End the deadline of the batch; forget keys if there are many."""
        del watermark
        self.refresher.end_batch()
        if len(self.remote.keys) > 2 * self._kept_keys + _SPARE_KEYS:
            self._forget_keys()

    def _forget_keys(self) -> None:
        """Forget keys that are not in the replica and that no open window holds, and groups without a list."""
        needed = np.zeros(len(self.remote.keys), np.bool_)
        for each in self.lists.values():
            each.make_room()
            needed[each.open_keys()] = True
            needed[each.kept_keys()] = True
        kept = self.remote.keep(needed)
        if kept is not None:
            for each in self.lists.values():
                each.keep_keys(*kept)
        self._kept_keys = len(self.remote.keys)
        lists = list(self.lists.items())
        self.lists.clear()
        number: dict[tuple[int, int], tuple[int, int]] = {}
        for place, groups in enumerate(self._groups):
            codes = [code for (at, code), _ in lists if at == place]
            number |= {(place, code): (place, new) for new, code in enumerate(codes)}
            if groups is not None:
                groups.keep(np.array(codes, np.int64))
        self.lists.update({number[at]: each for at, each in lists})  # in the same order

    def live_rows(self) -> np.ndarray:
        """Return the ids of rows that lists need."""
        return np.concatenate([np.empty(0, np.int64), *(each.live_ids() for each in self.lists.values())])

    def candidates(self) -> int:
        """Return how many objects are kept."""
        return sum(map(len, self.lists.values()))

    def is_idle(self) -> bool:
        """Return whether no row and no change has come: after that, the replica is kept."""
        return not self._begun and self.changes.is_idle()

    def next_timer(self, watermark: int) -> int | None:
        """Return when the next window that holds a row ends."""
        del watermark
        ends = (each.next_end(self._reached) for each in self.lists.values())
        return min((end for end in ends if end is not None), default=None)

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> Snapshot:
        """Return the replica, the lists, and the changes that wait for their time."""
        self._forget_keys()
        client = self.refresher.client
        pause = 0.0 if client is None else client.blocked_until - wall_clock.monotonic()
        blocked_until = int((wall_clock.time() + pause) * 1e6)  # as other processes read the clock
        saved: Snapshot = {
            "state": np.array([self._begun, self.refresher.budget.saved, blocked_until, self._reached], np.int64),
            "lists": np.array(list(self.lists), np.int64).reshape(-1, 2),
            **self.remote.snapshot(),
            **self.changes.snapshot(),
        }
        for place, groups in enumerate(self._groups):
            table = None if groups is None else groups.table()
            if table is not None:
                saved[f"groups/{place}"] = table
        for number, each in enumerate(self.lists.values()):
            saved |= {f"list/{number}/{name}": column for name, column in each.snapshot().items()}
        return saved

    def _restore(self, saved: Snapshot) -> None:
        found = validate(saved, _COLUMNS)
        begun, self.refresher.budget.saved, blocked_until, self._reached = (int(x) for x in found["state"])
        self._begun = bool(begun)
        if self.refresher.client is not None:
            pause = blocked_until / 1e6 - wall_clock.time()
            self.refresher.client.blocked_until = pause + wall_clock.monotonic()
        self.remote.restore(saved)
        self.changes.restore(saved)
        for place, groups in enumerate(self._groups):
            if groups is not None and f"groups/{place}" in saved:
                groups.load(table_of(saved, f"groups/{place}"))
        for number, (place, group) in enumerate(found["lists"].tolist()):
            require(place < len(self._groups), "a list is of a query that is not there")
            names = self._groups[place]
            require(group < (1 if names is None else len(names)), "a list is of a group that never came")
            self._open_list(place, group).restore(section(saved, f"list/{number}/"))
