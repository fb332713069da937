"""What an engine takes, gives and promises.

An engine sees columns, never rows and never a payload: scores, times, row numbers and group codes go
in, ranked row numbers come out. `Engine` is the whole contract; `tests/contract` holds every entry of
`ENGINES` to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.query import TopK

Snapshot = dict[str, np.ndarray]
"""Named arrays: all that an engine needs to go on in another process."""


class Objects(NamedTuple):
    """Rows as the engines see them; a larger score is better.

    `id` rises along the stream (the flow numbers the rows in the order of time and the query's `id`),
    so that of two equal scores the one with the larger `id` ranks first.
    """

    score: np.ndarray  # float64; NaN only for windows after every row: a step without an object
    time: np.ndarray  # int64: microseconds, or the row's position within its group
    id: np.ndarray  # int64
    group: np.ndarray | None = None  # int32 codes; None = one group

    def take(self, rows: np.ndarray | slice) -> Objects:
        """The same columns, of some rows only."""
        group = None if self.group is None else self.group[rows]
        return Objects(self.score[rows], self.time[rows], self.id[rows], group)


class Answers(NamedTuple):
    """Ranked lists, one after the other: list `a` is `id[first[a]:first[a + 1]]`, best first.

    A list without rows says that its group's window has become empty since the list before it.
    Lists come ordered by end, then by group, then by step.

    Where the query emits "arrivals", an engine may give of each list only the rows that it has not given
    before; it says so by their ranks, and leaves out lists that have no such row. Where it emits "changes",
    an engine may leave out lists that are like the one before them.
    """

    step: np.ndarray  # int64: number of the window; after every row: how many rows its group has seen
    end: np.ndarray  # int64: where the window ends, see windows.WindowAssigner
    group: np.ndarray  # int32: whose list it is
    first: np.ndarray  # int64, one longer: where each list begins
    id: np.ndarray  # int64
    score: np.ndarray  # float64
    rank: np.ndarray | None = None  # int64, from 1 on: the lists are partial; None: they are whole


@dataclass(frozen=True)
class Traits:
    """What an engine can do, for the planner, the contract suite and the docs."""

    exact: bool  # agrees with the oracle row by row, ties included
    groups: bool  # takes a group column; otherwise `PerGroup` slices for it
    windows: frozenset[str]  # the kinds of window it serves, see `Sliding.kinds`: "slide", "row", "every row"
    minimal: bool  # candidates() is exactly the minimal set
    cost: str  # per object, for the table in the docs
    memory: str
    paper: str  # where it comes from
    bound: str = ""  # what it promises if it is not exact


class Engine(Protocol):
    """Keeps what may still be among the k best of some window."""

    peak: int
    """The most candidates ever kept at once."""

    def advance(self, arrivals: Objects, upto: int | np.ndarray) -> Answers:
        """Take `arrivals`, then close every window that ends by `upto`.

        Arrivals are ordered by time and id, at or after the last `upto` and at or before this one. For
        counting windows `upto` is an array: how far each group has come.
        """

    def candidates(self) -> Objects:
        """What may still matter, best first within each group; an engine that prunes lazily prunes now."""

    def snapshot(self) -> Snapshot:
        """All that is kept, so that `Engine(query, resume=snapshot)` goes on as if nothing had happened."""


class GroupedEngine(Engine, Protocol):
    """An engine that takes a group column."""

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """As every engine. Groups without arrivals in which no window ends cost nothing.

        For counting windows `moved` are the groups whose `upto` is another than before; None: it may be any.
        """

    def busy(self) -> np.ndarray:
        """Groups that keep rows, or have yet to say that their window has become empty."""

    def regroup(self, keep: np.ndarray) -> None:
        """Forget all groups but these, which include the busy ones; they are numbered anew, in this order."""


class EngineClass(Protocol):
    """How an engine is made."""

    def __call__(self, query: TopK, resume: Mapping[str, np.ndarray] | None = None, **options: Any) -> Engine:
        """Begin anew, or go on from a snapshot; with the options that its entry in the registry names."""
