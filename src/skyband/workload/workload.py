"""Workload: many queries over one stream, which come and go while it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from skyband.engines.family import ReservedCapacity
from skyband.engines.registry import DEFAULT_ENGINE, check_options, few_point_queries, resolve_engine
from skyband.errors import QueryError, SnapshotError, nearest
from skyband.query import TopK
from skyband.query.duration import parse_duration
from skyband.query.limits import MAX_K
from skyband.query.validation import check_integer
from skyband.workload.family import (
    ALWAYS,
    EXAMPLE,
    Admission,
    active_span,
    check_query,
    families,
    latest_admission,
    query_names,
    with_span,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from skyband.engines.family import QueryFamily
    from skyband.query import Counting, Sliding
    from skyband.workload.family import Moment


class Workload(Mapping[str, TopK]):
    """Queries by name that run over one stream and share what they keep.

    Queries with the same score, groups and time column are a family, whatever their windows and k; each family is one
    structure. While `sb.stream(workload, ...)` runs, queries may be added, removed and changed: nothing restarts.

    Parameters
    ----------
    queries
        The queries to begin with. Those without a name are called q0, q1, ... by their place.
    max_k, finest
        Capacity to reserve for time windows of queries to come: none has a k above `max_k`, and all windows begin and
        end at multiples of `finest`, such as "10 s". On Spark, queries can come and go only with these, which cannot
        change while a checkpoint is in use.

    Examples
    --------
    >>> import skyband as sb
    >>> def query(k, n):
    ...     return sb.TopK(k=k, by="x", window=sb.Counting(n, 2))
    >>> workload = sb.Workload([query(1, 2)])
    >>> answers = sb.stream(workload, iter([{"x": [3, 9]}, {"x": [4, 1]}, {"x": [7, 5]}]))
    >>> next(answers).select(["query", "window_end", "score"]).to_pylist()
    [{'query': 'q0', 'window_end': 2, 'score': 9.0}]
    >>> workload.add(query(2, 2))
    Admission(name='q1', exact_from=2)
    >>> next(answers).select(["query", "window_end", "score"]).to_pylist()[1:]
    [{'query': 'q1', 'window_end': 4, 'score': 4.0}, {'query': 'q1', 'window_end': 4, 'score': 1.0}]
    >>> workload.remove("q0")
    >>> next(answers)["query"].to_pylist()
    ['q1', 'q1']
    """

    def __init__(
        self, queries: Iterable[TopK] = (), *, max_k: int | None = None, finest: str | timedelta | None = None
    ) -> None:
        self._queries = WorkloadQueries(_as_list(queries), _reserved(max_k, finest))

    def __getitem__(self, name: str) -> TopK:
        return self._queries.member(name)[1]

    def __contains__(self, name: object) -> bool:
        return name in self._queries.members

    def get(self, name: str, default: Any = None) -> Any:
        """Return the query of this name, or `default`."""
        return self._queries.members.get(name, (0, default))[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries.members)

    def __len__(self) -> int:
        return len(self._queries.members)

    def add(self, query: TopK, *, active: tuple[Moment, Moment] | None = None) -> Admission:
        """Add a query, also to the streams that run.

        It answers exactly from its first window on that begins after what the stream has seen (`exact_from` of the
        admission); earlier windows, of which rows may be gone, are left out. `active=(from, to)` bounds its windows:
        none begins before `from` or ends after `to`; either may be None.

        Cost: O(log q) a query and O(views) once; under 10 ms in a workload of 1000.
        """
        return self._queries.add(query, active)

    def remove(self, name: str) -> None:
        """Remove a query: its open windows are not answered, and what only it needed is forgotten."""
        self._queries.remove(name)

    def update(
        self,
        name: str,
        *,
        k: int | None = None,
        window: Sliding | Counting | None = None,
        active: tuple[Moment, Moment] | None = None,
    ) -> Admission:
        """Change a query that runs.

        A smaller k or span takes effect at once. A larger k takes effect at the first window that is exact with it,
        see `exact_from` of the admission; until then the old one answers. With another window it is as if
        the query were removed and added again, under its name and within its bounds; so it is with any change of a
        query after every row on an engine that is not shared.
        """
        return self._queries.update(name, k, window, active)


def queries_of(workload: Workload) -> WorkloadQueries:
    """Return what a workload is to those who run it."""
    return workload._queries  # noqa: SLF001 - users of a workload need not see it


class WorkloadQueries:
    """The queries of a workload, their numbers and bounds, and the streams that run them."""

    def __init__(self, queries: Sequence[TopK], reserve: ReservedCapacity | None) -> None:
        self.reserve = reserve  # for queries to come
        self.members: dict[str, tuple[int, TopK, tuple[int, int]]] = {
            name: (number, query, ALWAYS)
            for number, (name, query) in enumerate(zip(query_names(queries), queries, strict=True))
        }
        for query in queries:
            self._check(query)
        self.next = len(queries)  # the number of the next query to come
        self._running: WeakSet[Any] = WeakSet()
        self._fixed = False  # it runs with joins, whose queries are fixed

    # ------------------------------------------------------------ queries come and go

    def add(self, query: TopK, active: tuple[Moment, Moment] | None) -> Admission:
        """Add a query."""
        check_query(query)
        self._check_changes()
        name = query.name or f"q{self.next}"
        if name in self.members:
            raise QueryError(f"name must be new, got name={name!r}: remove that query first, or choose another name")
        if self.members:
            one = next(iter(self.members))
            query_names([replace(self.members[one][1], name=one), replace(query, name=name)])
        self._check(query)
        span = active_span(query, active)
        for running in self._streams():
            running.check_addition(query, self.next, span, alone=not self.members)
        return self._admit(name, query, span)

    def remove(self, name: str) -> None:
        """Remove a query."""
        self._check_changes()
        number, query, _ = self.member(name)
        for running in self._streams():
            running.check_removal(query, number)
        self._drop(name)

    def update(
        self,
        name: str,
        k: int | None,
        window: Sliding | Counting | None,
        active: tuple[Moment, Moment] | None,
    ) -> Admission:
        """Change a query that runs."""
        self._check_changes()
        number, query, before = self.member(name)
        new = replace(query, k=query.k if k is None else k, window=query.window if window is None else window)
        if new.window.counts != query.window.counts:
            raise QueryError(
                f"window must be of the kind of {query.window!r}, got {window!r}: remove the query and add a new one"
            )
        self._check(new)
        span = before if active is None else active_span(new, active)
        streams = self._streams()
        restarts = any(running.restarts(query, number) for running in streams)
        if new.window != query.window or restarts:  # under the same name, but its lists begin again
            for running in streams:
                running.check_addition(new, self.next, span, alone=False)
            self._drop(name)
            return self._admit(name, replace(new, name=name), span)
        for running in streams:
            running.check_update(query, number)
        self.members[name] = (number, new, span)
        return latest_admission(name, [running.update(name, new, number, span, before) for running in streams])

    # ------------------------------------------------------------ for sb.run and sb.stream

    def first(self) -> TopK:
        """Return any query: they agree in the time column and in what they emit."""
        if not self.members:
            raise QueryError(f"the workload has no query: write sb.Workload([{EXAMPLE}])")
        return next(iter(self.members.values()))[1]

    def queries(self) -> dict[str, TopK]:
        """Return the queries by name."""
        return {name: query for name, (_, query, _) in self.members.items()}

    def engine(self, engine: str) -> str:
        """Return the name of the engine, "auto" resolved; it serves every query."""
        return resolve_engine(engine, self.queries().values())

    def check_options(self, options: Mapping[str, object] | None, engine: str) -> None:
        """Raise unless the engine takes the options for every family."""
        for family in self.families(engine) if options else ():
            check_options(engine, family, options)

    def families(self, engine: str = DEFAULT_ENGINE) -> list[QueryFamily]:
        """Return the families of the current queries, as `engine` serves them."""
        queries = [query for _, query, _ in self.members.values()]
        places = {at: (number, span) for at, (number, _, span) in enumerate(self.members.values())}
        bounded = [at for at, (_, span) in places.items() if span != ALWAYS]
        found = []
        few = few_point_queries(engine, queries[0].emit) if queries else None
        for family in families(queries, list(self.members), few=few, bounded=bounded):
            members = []
            for m in family.members:
                number, span = places[m.number]
                members.append(with_span(replace(m, number=number), span))
            found.append(family.with_reserve(self.reserve).with_members(members))
        return found

    def only(self, names: Sequence[str]) -> WorkloadQueries:
        """Return some of the queries, under the same names."""
        some = WorkloadQueries([replace(self.member(name)[1], name=name) for name in names], None)
        some.members = {name: (at, some.member(name)[1], self.member(name)[2]) for at, name in enumerate(names)}
        return some

    def numbers(self) -> dict[str, list[int]]:
        """Return the number and the bounds of each query by name, as a snapshot has them."""
        return {name: [number, *span] for name, (number, _, span) in self.members.items()}

    def renumber(self, numbers: Mapping[str, Sequence[int]], following: int) -> None:
        """Continue with the numbers and bounds of a snapshot, and the number of the next query to come."""
        if self._running and numbers != self.numbers():
            raise SnapshotError(
                "workload must run in no other stream to be resumed: write sb.Workload([...]) once more"
            )
        for name, (number, low, high) in numbers.items():
            self.members[name] = (number, self.members[name][1], (low, high))
        self.next = max(self.next, following)

    def settle(self) -> None:
        """Refuse changes from now on: there are joins, which share a replica from the start."""
        self._fixed = True

    def attach(self, running: Any) -> None:
        """Pass changes on to a running pipeline."""
        self._running.add(running)

    # ------------------------------------------------------------ checks and changes

    def _check_changes(self) -> None:
        if self._fixed:
            raise QueryError(
                "this workload runs with joins, whose queries are fixed: start a new one with other queries"
            )
        for running in self._streams():
            running.settle()

    def _streams(self) -> list[Any]:
        """Return the pipelines that run; if none does, those that have ended and are still held."""
        return [running for running in self._running if not running.finished] or list(self._running)

    def _admit(self, name: str, query: TopK, span: tuple[int, int]) -> Admission:
        """Add a query that fits."""
        number, self.next = self.next, self.next + 1
        self.members[name] = (number, query, span)
        return latest_admission(name, [running.add(name, query, number, span) for running in self._streams()])

    def _drop(self, name: str) -> None:
        """Remove a query that may leave from all streams."""
        number, query, _ = self.members.pop(name)
        for running in self._streams():
            running.remove(query, number)

    def _check(self, query: TopK) -> None:
        if query.of:
            raise QueryError(f"of={query.of!r} ranks keys, which a workload cannot share: run this query by itself")
        if self.reserve is not None:
            self.reserve.check(int(query.k), query.window)

    def member(self, name: str) -> tuple[int, TopK, tuple[int, int]]:
        """Return the number, the query and its bounds; raise if there is no such query."""
        if name not in self.members:
            raise QueryError(
                f"name must be a query of the workload, got name={name!r}: {nearest(str(name), self.members)}"
            )
        return self.members[name]


def _as_list(queries: object) -> list[TopK]:
    """Return queries as a list; `query_names` checks each."""
    if isinstance(queries, TopK) or not isinstance(queries, Iterable):
        raise QueryError(f"queries must be a list of queries, got {type(queries).__name__}: write [{EXAMPLE}]")
    return list(queries)


def _reserved(max_k: int | None, finest: str | timedelta | None) -> ReservedCapacity | None:
    if max_k is None and finest is None:
        return None
    if max_k is None or finest is None:
        raise QueryError(
            f'max_k and finest go together, got {max_k!r} and {finest!r}: write both, as max_k=100, finest="10 s"'
        )
    max_k = check_integer("max_k", max_k, 1, MAX_K)
    return ReservedCapacity(max_k, parse_duration(finest, "finest", least=1))
