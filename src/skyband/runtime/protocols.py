"""What operators are: planned by a spec, opened on a stream, driven by a pipeline.

    prepare ──> combine ──> [shuffle] ──> operator ──> emit

A spec is frozen, picklable and complete at plan time. In process, a `Pipeline` prepares rows and drives the operators
of one stream. On Spark, `prepare` and the spec's combiner run before the shuffle, and each bucket is a pipeline with
one operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skyband.errors import QueryError
from skyband.runtime.groups import window_columns
from skyband.runtime.schema import check_schema
from skyband.runtime.stats import Stats
from skyband.windows import WindowAssigner, WindowAssignerUnion

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engines.protocol import Answers
    from skyband.kernels.columns import Windows
    from skyband.query import TopK
    from skyband.runtime.batch import RowOrder
    from skyband.runtime.combine import Combiner
    from skyband.runtime.emit import Emitter
    from skyband.runtime.groups import GroupTracker
    from skyband.runtime.result import ResultColumns
    from skyband.runtime.row_store import RowSequence, RowStore
    from skyband.runtime.runner import OperatorRunner

Assigner = WindowAssigner | WindowAssignerUnion
Goal = int | np.ndarray
"""How far to advance: a time, or a position for each group."""

Snapshot = dict[str, Any]
"""Named NumPy arrays and Arrow tables: what is needed to go on in another process."""

GROUP_CODES = "buffer/group"
"""The column of an operator's snapshot that holds codes of groups, if it has one."""

LateRule = Literal["pane", "window"]
"""How long rows are taken: until their pane has closed, or until all windows that hold them have."""

Merge = Literal["sum", "max", "first"]
"""How the counters of several operators or buckets become one."""


@dataclass(frozen=True)
class Context:
    """What an operator is given of the stream it runs on."""

    schema: pa.Schema
    rows: RowStore
    sequence: RowSequence
    groups: GroupTracker | None
    emitter: Emitter
    counters: dict[str, Any]
    live: bool = True  # the source has no known end
    order: RowOrder | None = None  # of rows, where those of closed panes are taken

    def take(self, ids: np.ndarray, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows with these ids, which are live; `columns`: None for all that are stored."""
        rows = self.rows.take(self.sequence.row_ids(ids), columns)
        assert rows is not None
        return rows

    def add(self, rows: pa.Table) -> np.ndarray:
        """Store rows that the operator makes itself; return their ids."""
        return self.sequence.add(self.rows.add(rows))


class OperatorSpec(ABC):
    """An operator as planned: frozen, picklable, complete."""

    query: TopK
    """The query, or what stands for several: the widest k and window."""
    ordered: bool = True
    """Whether the pipeline stores the rows, sorts them and buffers them until their pane closes."""
    scored: bool = True
    """Whether rows have their score before they reach the operator.

    An operator that scores rows itself finds all their columns in the row store, and takes those of a pane together.
    """
    best_rows_only: bool = False
    """Whether only the k best rows of a pane and group can be in an answer, so that the buffer may drop the others."""
    unranked: str = "without_score"
    """The counter of rows that `prepare` gives NaN as score, which are dropped."""
    numbers_groups: bool = True
    """Whether the pipeline numbers the groups, which are the same for all queries."""
    max_buckets: int | None = None
    """Into how many buckets groups may be hashed at most; None: any number."""
    counters: Mapping[str, Merge] = {"late_rows": "max"}
    """How the counters of several operators or buckets become one; those not named are added up."""
    stats_type: type[Stats] = Stats
    """What the counters of a run are returned as."""
    engine: str = ""
    """The engine, where the operator has a choice."""
    own_counters: Sequence[str] = ()
    """What the operator counts besides what every bucket does."""
    default_buckets: int = 8
    """Into how many buckets groups are hashed unless a user says so."""
    counts_rows: bool = True
    """Whether no other operator counts the same rows."""
    takes_closed_panes: bool = False
    """Whether rows are taken as long as a window that holds them is open, also if their pane has closed."""

    @property
    def per(self) -> tuple[str, ...]:
        """The columns that make groups."""
        return self.query.per

    @property
    def event_time(self) -> bool:
        """Whether time moves the operator on, which on Spark must be known when the stream is planned."""
        return not self.query.window.counts

    @property
    def inputs(self) -> Mapping[str, Literal["by_group", "broadcast"]]:
        """The streams that the operator takes."""
        return {"rows": "by_group"}

    @property
    def columns(self) -> Sequence[str] | None:
        """The source columns that `prepare` needs; None: all."""
        return None

    @property
    def forgets_groups(self) -> bool:
        """Whether a group that was away for a window may be forgotten."""
        return not self.query.window.counts

    def assigner(self) -> Assigner:
        """Return the windows and panes."""
        return WindowAssigner.of(self.query.window)

    def check(self, schema: pa.Schema) -> None:
        """Raise unless the operator fits the columns of the source."""
        check_schema(self.query, schema)

    def check_commands(self) -> None:
        """Raise unless the operator takes commands."""
        if "commands" not in self.inputs:
            raise QueryError(
                'commands need a workload that queries may come to: write sb.Workload(..., max_k=100, finest="10 s")'
            )

    def side_inputs(self) -> Mapping[str, tuple[Any, list[str]]]:
        """Return inputs other than rows that a query brings along, as DataFrames with the columns that are needed."""
        return {}

    def fingerprint(self) -> Mapping[str, str]:
        """Return what a stored state depends on, beyond the fields of the query."""
        return {}

    @abstractmethod
    def result(self, *, early: bool = False) -> ResultColumns:
        """Return the columns of the result; with `early`, those that tell provisional results apart too."""

    @abstractmethod
    def prepare(self, rows: pa.Table, row_id: np.ndarray, time: np.ndarray, groups: GroupTracker | None) -> Any:
        """Return what the operator takes of rows, such as a `PreparedBatch`: columns with `time` and `take`."""

    @abstractmethod
    def combiner(self, buckets: int) -> Combiner:
        """Return what runs before the shuffle, in each task."""

    @abstractmethod
    def receive(
        self, tables: Sequence[pa.Table], schema: pa.Schema, groups: GroupTracker | None
    ) -> tuple[pa.Table | None, Any]:
        """Return the rows to store of what has travelled, and what `prepare` would have returned."""

    def for_preview(self) -> OperatorSpec:
        """Return the operator as it answers open windows early: without look-ups."""
        return self

    def with_engine(self, engine: str) -> OperatorSpec:
        """Return the operator on the engine that wrote a snapshot."""
        del engine
        return self

    @abstractmethod
    def open(self, context: Context, snapshot: Snapshot | None = None) -> Operator:
        """Return the operator, new or restored."""


class Operator(ABC):
    """Maintains ranked lists. Knows nothing of Spark, files or output formats."""

    assigner: Assigner
    names: Sequence[str] = ()
    """The names of the queries, by number."""
    mixes_ends = False
    """Whether windows that end at one displayed moment may close one after the other: some are closed on the right."""
    switches: Sequence[dict[str, Any]] = ()
    """When an engine changed its strategy, and why."""
    counters: Mapping[str, Any] = MappingProxyType({})
    """What the operator itself counts: see `OperatorSpec.own_counters`."""

    @property
    def windows(self) -> Windows:
        """The windows of which one must be empty before a group appears anew."""
        assert isinstance(self.assigner, WindowAssigner)
        return window_columns([self.assigner])

    @property
    def peak(self) -> int:
        """The most candidates ever at once."""
        return 0

    def bounds(self, end: np.ndarray, query: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the displayed start and end of windows, from their ends and the numbers of their queries."""
        assert query is None
        assert isinstance(self.assigner, WindowAssigner)
        return self.assigner.bounds(end)

    def extra_types(self) -> Mapping[str, pa.DataType]:
        """Return the types of result columns that are known only as the stream runs."""
        return {}

    def take_input(self, name: str, tables: Sequence[pa.Table], runner: OperatorRunner) -> None:
        """Take an input other than rows, before the rows of its batch."""
        del tables, runner
        raise TypeError(f"{type(self).__name__} takes no {name}")

    @abstractmethod
    def advance(self, parts: Mapping[str, Any], upto: Goal) -> Answers | None:
        """Take parts, commands and changes before rows, then close the windows that end by `upto`."""

    def affordable(self, due: np.ndarray, goal: int, groups: int) -> int:
        """Return how far to advance so that the answers stay few, given the times of the rows to come."""
        del due, groups
        return goal

    def tidy(self, watermark: int) -> None:  # noqa: B027 - most have nothing to tidy up
        """Let go of what is over, after the answers of a batch have been emitted."""

    @abstractmethod
    def live_rows(self) -> np.ndarray:
        """Return the ids of rows whose values are still needed."""

    def active_groups(self) -> np.ndarray:
        """Return the groups that keep something, or have yet to say that their window has become empty."""
        return np.empty(0, np.int64)

    def keep_groups(self, keep: np.ndarray) -> None:  # noqa: B027 - one without groups has nothing to forget
        """Forget all groups but these, which get the numbers from 0 on."""

    def buffered_groups(self) -> np.ndarray:
        """Return the codes of groups of which something is buffered in the operator."""
        return np.empty(0, np.int32)

    def renumber_groups(self, code: np.ndarray) -> None:  # noqa: B027 - most buffer nothing
        """Give what is buffered in the operator the new codes of its groups."""

    @abstractmethod
    def candidates(self) -> int:
        """Return how many rows are kept because they may still be in an answer."""

    def is_idle(self) -> bool:
        """Return whether nothing is kept."""
        return not self.candidates()

    def next_timer(self, watermark: int) -> int | None:
        """Return when the operator may answer next without rows, in microseconds; None if it cannot."""
        return self.assigner.next_end(watermark) if self.candidates() else None

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return all that is needed to go on elsewhere."""
