"""What engines take, return and promise.

An engine sees columns, never rows or payloads: scores, times, row ids and group codes go in, ranked row ids come out.
`tests/contract` holds every entry of `ENGINES` to the protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from skyband.engines.family import QueryFamily

Snapshot = dict[str, np.ndarray]
"""Named arrays: all that an engine needs to continue in another process."""


class Objects(NamedTuple):
    """Rows as engines see them; a larger score is better.

    `id` increases along the stream (rows are numbered in the order of time and the query's `id`), so that of two equal
    scores the one with the larger `id` ranks first.
    """

    score: np.ndarray  # float64; for a family of points (rows, d). NaN only after every row: a step without an object
    time: np.ndarray  # int64: microseconds, or the row's position within its group
    id: np.ndarray  # int64
    group: np.ndarray | None = None  # int32 codes; None: one group

    @classmethod
    def empty(cls) -> Objects:
        """Make columns without rows."""
        return cls(np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def concat(cls, parts: Iterable[Objects]) -> Objects:
        """Concatenate rows of one group."""
        columns = zip(cls.empty()[:3], *(part[:3] for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    @classmethod
    def restore(cls, columns: Mapping[str, np.ndarray], prefix: str = "") -> Objects:
        """Make rows of one group from the columns of a snapshot."""
        return cls(*(columns[prefix + name] for name in cls._fields[:3]))

    def snapshot(self, prefix: str = "") -> Snapshot:
        """Return score, time and id as columns of a snapshot."""
        return {prefix + name: getattr(self, name) for name in self._fields[:3]}

    def take(self, rows: np.ndarray | slice) -> Objects:
        """Select rows."""
        group = None if self.group is None else self.group[rows]
        return Objects(self.score[rows], self.time[rows], self.id[rows], group)

    def by_rank(self) -> Objects:
        """Sort rows of one group, best first."""
        return self.take(np.lexsort((self.id, self.score))[::-1])


class Answers(NamedTuple):
    """Ranked lists, one after the other: list `a` is `id[first[a]:first[a + 1]]`, best first.

    An empty list means that the group's window has become empty since the list before it. Lists are ordered by end,
    query, group and step.

    Where the query emits "arrivals", an engine may return only the rows of each list that it has not returned before,
    with their ranks, and leave out lists without such a row. Where it emits "changes", an engine may leave out lists
    that equal the one before them.
    """

    step: np.ndarray  # int64: number of the window; after every row: how many rows its group has seen
    end: np.ndarray  # int64: where the window ends
    group: np.ndarray  # int32
    first: np.ndarray  # int64, one longer: where each list begins
    id: np.ndarray  # int64
    score: np.ndarray  # float64
    rank: np.ndarray | None = None  # int64, from 1 on, of partial lists; None: lists are complete
    query: np.ndarray | None = None  # int64: number of the family member; None: the family is a single query
    row: np.ndarray | None = None  # int64: the row in the row store, where that is not `id`; of operators alone
    extra: Mapping[str, Any] = MappingProxyType({})  # further result columns, a value for each row ...
    list_extra: Mapping[str, Any] = MappingProxyType({})  # ... or for each list; of operators alone

    @classmethod
    def empty(cls, *, queries: bool = False) -> Answers:
        """Make answers without lists, with a query column or without."""
        none = np.empty(0, np.int64)
        first, group = np.zeros(1, np.int64), np.empty(0, np.int32)
        return cls(none, none, group, first, none, np.empty(0), query=none if queries else None)

    @classmethod
    def concat(cls, parts: Iterable[Answers]) -> Answers:
        """Concatenate lists in the order of the parts, of which all or none have ranks and queries."""
        found = list(parts)
        if len(found) < 2:
            return found[0] if found else cls.empty()
        sizes = [np.diff(part.first) for part in found]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in found])
            for name in ("step", "end", "group", "id", "score", "rank", "query")
            if getattr(found[0], name) is not None
        }
        return cls(first=_offsets(np.concatenate(sizes)), **columns)

    def take(self, lists: np.ndarray) -> Answers:
        """Copy these lists, in this order."""
        sizes = np.diff(self.first)[lists]
        first = _offsets(sizes)
        rows = np.arange(first[-1]) + np.repeat(self.first[:-1][lists] - first[:-1], sizes)
        return Answers(
            self.step[lists],
            self.end[lists],
            self.group[lists],
            first,
            self.id[rows],
            self.score[rows],
            None if self.rank is None else self.rank[rows],
            None if self.query is None else self.query[lists],
        )

    def in_order(self) -> Answers:
        """Copy the lists, ordered by end, query, group and step."""
        query = [] if self.query is None else [self.query]
        return self.take(np.lexsort([self.step, self.group, *query, self.end]))


def _offsets(sizes: np.ndarray) -> np.ndarray:
    first = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=first[1:])
    return first


class Engine(Protocol):
    """Keeps the rows that may still be in an answer of any query of a family.

    An engine that subclasses this inherits what has a default.
    """

    peak: int
    """The most candidates ever kept at once."""

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """Take `arrivals`, then close every window that ends by `upto`.

        Arrivals are ordered by time and id, at or after the last `upto` and at or before this one. For counting
        windows `upto` is an array with the position of each group, and `moved` are the groups whose position has
        changed; None: it may be any. Groups without arrivals in which no window ends cost nothing.
        """

    def candidates(self) -> Objects:
        """Return the rows that may still matter, best first within each group, after pruning."""

    def live_ids(self) -> np.ndarray:
        """Return the ids of all rows that an answer may still contain, without the cost of pruning."""
        return self.candidates().id

    def active_groups(self) -> np.ndarray:
        """Return the groups that keep rows, or have yet to report that their window has become empty."""

    def keep_groups(self, keep: np.ndarray) -> None:
        """Forget all groups except these, which include the active ones; group `keep[i]` becomes `i`."""

    def snapshot(self) -> Snapshot:
        """Return all that is kept; an engine built from it continues as if nothing had happened."""


class OneGroupEngine(Engine):
    """An engine that takes no group column; `PerGroup` runs one for every group."""

    def owes_empty_list(self) -> bool:
        """Return whether its last list had rows, so that an empty window must be reported."""
        return False

    def active_groups(self) -> np.ndarray:
        """Return group 0 while it keeps rows or owes an empty list."""
        return np.arange(int(self.owes_empty_list() or len(self.candidates().id) > 0))

    def keep_groups(self, keep: np.ndarray) -> None:
        """Do nothing: there is one group."""


class ChangingEngine(Engine, Protocol):
    """An engine whose queries may be added, removed and changed while it runs."""

    def reach(self) -> int | np.ndarray:
        """Return from where on every row is still to come: a time, or the position of every group."""

    def change(self, family: QueryFamily, moved: np.ndarray, positions: np.ndarray | None = None) -> None:
        """Continue with other members: `moved[i]` is the new place of member i, or -1.

        `positions` are those of each group at which the members of the newest admission were added.
        """


class EngineClass(Protocol):
    """How an engine is made."""

    def __call__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None, **options: Any) -> Engine:
        """Start, or restore a snapshot; with the options that the engine's entry in the registry names."""
