"""Ranks the rows of a database table, from the stream of its changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.engines.protocol import Answers
from skyband.errors import SchemaError, nearest
from skyband.query import AllTime
from skyband.runtime.combine import Combiner, Origin
from skyband.runtime.ids import id_numbers
from skyband.runtime.protocols import Operator, OperatorSpec
from skyband.runtime.result import ResultColumns
from skyband.tables.protocol import CHANGE, VERSION
from skyband.view.changes import ChangeBatch, read_changes
from skyband.view.refill import RefillController, RefillWorker
from skyband.view.rows import ViewRows
from skyband.view.snapshot import restore_view, snapshot_view
from skyband.windows import MAX_TIME, WindowAssigner

if TYPE_CHECKING:
    from skyband.runtime.groups import GroupTracker
    from skyband.runtime.protocols import Context, Goal, Snapshot
    from skyband.tables.sql import SqlTable
    from skyband.view.spec import ViewSpec

_SCORE = "__skyband_score"


@dataclass(frozen=True)
class ViewQuery:
    """A view in the terms of a query: the k best rows of all time, told by their changes."""

    k: int
    ascending: bool
    ranks: bool

    window = AllTime()
    emit = "changes"
    per: tuple[str, ...] = ()
    time: str | None = None
    id: str | None = None

    def column(self, name: str) -> str:
        """Return the name of a result column."""
        return name


class Changes(NamedTuple):
    """Changes of a table: of each key the newest version, its score (NaN: deleted) and columns."""

    rows: pa.Table
    time: np.ndarray
    without_score: int = 0


@dataclass(frozen=True)
class TableViewSpec(OperatorSpec):
    """A view over a table.

    Parameters
    ----------
    table
        The table, by its address.
    view
        Which of its rows to keep.
    ranks
        Also emit rows that only moved in the list.
    change, version
        The columns of the stream that say whether a row was deleted, and that order the changes of a row.
    """

    table: SqlTable
    view: ViewSpec
    ranks: bool = False
    change: str = CHANGE
    version: str = VERSION

    ordered = False
    engine = "view"
    max_buckets = 1
    own_counters = ("stale", "refills", "failed_refills", "incomplete")

    @property
    def query(self) -> Any:  # type: ignore[override]
        """The view in the terms of a query."""
        return ViewQuery(self.view.k, self.view.ascending, self.ranks)

    @property
    def event_time(self) -> bool:
        """Time plays no part."""
        return False

    @property
    def names(self) -> list[str]:
        """The columns that results have of a row."""
        return [self.view.key, *self.view.columns]

    def assigner(self) -> WindowAssigner:
        """Return one window that never ends."""
        return WindowAssigner(1, 1, counts=True)

    def check(self, schema: pa.Schema) -> None:
        """Raise unless the stored columns are there."""

    def check_changes(self, schema: pa.Schema) -> list[str]:
        """Return the columns of the stream that are needed; raise if one is missing."""
        needed = list(dict.fromkeys([*self.names, self.version, *self.view.by.columns]))
        for name in needed:
            if name not in schema.names:
                role = ", which orders the changes of a row: name it by version=" if name == self.version else ""
                raise SchemaError(f"changes must have the column {name!r}{role}; {nearest(name, schema.names)}")
        return [*needed, *([self.change] if self.change in schema.names else [])]

    def fingerprint(self) -> Mapping[str, str]:
        """Return what a state belongs to. The address of the database may change, and so may kmax."""
        view = self.view
        named = {"by": view.by.text, "key": view.key, "table": self.table.name, "columns": ", ".join(view.columns)}
        flags = {name: str(getattr(view, name)) for name in ("k", "ascending", "ordered")}
        return {**named, **flags, "ranks": str(self.ranks)}

    def result(self, *, early: bool = False) -> ResultColumns:
        """Return the columns of the result."""
        del early
        return ResultColumns(self.query, (), row=tuple(self.names), extra={"complete": pa.bool_()}, windows=False)

    def prepare(self, rows: pa.Table, row_id: np.ndarray, time: np.ndarray, groups: GroupTracker | None) -> Changes:
        """Return the newest change of each key."""
        del row_id, time, groups
        return self.newest([self.score_rows(rows)[0]])

    def score_rows(self, rows: pa.Table) -> tuple[pa.Table, np.ndarray]:
        """Return changes with their score and version, and which of them have none."""
        for given, name in ((self.change, CHANGE), (self.version, VERSION)):
            if given != name and given in rows.column_names:
                rows = rows.append_column(name, rows.column(given))
        if rows.column(VERSION).null_count:
            raise SchemaError(f"version={self.version!r} must not be NULL in a change: it orders the changes of a row")
        batch = self.view.score(read_changes(rows, self.view.key))
        without = np.isnan(batch.score) if batch.deleted is None else np.isnan(batch.score) & ~batch.deleted
        found = batch.rows.select(self.names).append_column(_SCORE, pa.array(batch.score))
        return found.append_column(VERSION, pa.array(batch.version)), without

    def newest(self, tables: Sequence[pa.Table]) -> Changes:
        """Return the newest version of each key, in the order of versions."""
        rows = pa.concat_tables(tables).unify_dictionaries()
        ids, version = id_numbers(rows.column(self.view.key), self.view.key), rows.column(VERSION).to_numpy()
        order = np.lexsort((version, ids))
        last = np.append(ids[order][1:] != ids[order][:-1], True)[: len(order)]
        places = order[last]
        places = places[np.argsort(version[places], kind="stable")]
        return Changes(rows.take(pa.array(places)), np.zeros(len(places), np.int64))

    def combiner(self, buckets: int) -> ChangesCombiner:
        """Return what lets the newest change of each key travel."""
        return ChangesCombiner(self, buckets)

    def receive(
        self, tables: Sequence[pa.Table], schema: pa.Schema, groups: GroupTracker | None
    ) -> tuple[None, Changes]:
        """Return the changes that have travelled."""
        del schema, groups
        return None, self.newest(tables)

    def open(self, context: Context, snapshot: Snapshot | None = None) -> TableView:
        """Return the operator, new or restored."""
        return TableView(self, context, snapshot)


class ChangesCombiner(Combiner):
    """Scores changes, and lets the newest of each key travel."""

    def __init__(self, spec: TableViewSpec, buckets: int) -> None:
        super().__init__(spec, buckets)
        self._spec, self._found = spec, list[pa.Table]()

    def add(self, rows: pa.Table, tie: np.ndarray | None = None, origin: Origin | None = None) -> None:
        """Take a batch."""
        del tie, origin
        found, without = self._spec.score_rows(rows)
        self.counts.add(np.full(found.num_rows, MAX_TIME), None, without)
        self._found.append(self._spec.newest([found]).rows)

    def drain(self, bucket: int) -> Iterator[pa.Table]:
        """Return the newest change of each key."""
        del bucket
        yield self._spec.newest(self._found).rows


class TableView(Operator):
    """The k best rows of a table. The table is queried only when rows have left and too few are known.

    Cost and memory: see `sb.View`.
    """

    def __init__(self, spec: TableViewSpec, context: Context, snapshot: Snapshot | None = None) -> None:
        self._spec, self._context = spec, context
        self.assigner = spec.assigner()
        self.counters: dict[str, int] = dict.fromkeys(spec.own_counters, 0)
        if snapshot is None:
            rows = ViewRows(spec.view, types=context.schema)
            self._refills = RefillController(rows, RefillWorker(spec.table, spec.view))
        else:
            options = {"kmax": spec.view.kmax, "ordered": spec.view.ordered}
            self._refills, _ = restore_view(spec.table, snapshot, options)

    def advance(self, parts: Mapping[str, Any], upto: Goal) -> Answers:
        """Apply changes; return the list."""
        del upto
        if "rows" in parts:
            self._apply(parts["rows"])
        return self._list()

    def _apply(self, changes: Changes) -> None:
        refills, rows = self._refills, self._refills.rows
        if not rows.complete:
            refills.refill()  # at the start, and after one that failed
        before = refills.stats.stale
        if changes.rows.num_rows:
            version, score = (changes.rows.column(name).to_numpy() for name in (VERSION, _SCORE))
            refills.apply(rows.prepare(ChangeBatch(changes.rows, None, version, score)))
        stats = refills.stats
        counted = {"stale": stats.stale - before, "refills": stats.refills, "failed_refills": stats.failed_refills}
        self.counters = {**counted, "incomplete": int(not rows.complete)}

    def _list(self) -> Answers:
        """Return the k best rows; their values go to the row store, where a delete finds them later."""
        table, key = self._refills.rows.read(), self._spec.view.key
        size = table.num_rows
        score = table.column("score").to_numpy()
        row = self._context.rows.add(table.select(self._spec.names))
        return Answers(
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            np.zeros(1, np.int32),
            np.array([0, size]),
            id_numbers(table.column(key), key),
            -score if self._spec.view.ascending else score,
            row=row,
            list_extra={"complete": pa.array([self._refills.rows.complete])},
        )

    def live_rows(self) -> np.ndarray:
        """Return nothing: values are needed of listed rows only."""
        return np.empty(0, np.int64)

    def candidates(self) -> int:
        """Return how many rows are kept."""
        return self._refills.rows.index.size

    def is_idle(self) -> bool:
        """Return that a view is always remembered."""
        return False

    def snapshot(self) -> Snapshot:
        """Return the view."""
        return dict(snapshot_view(self._refills))
