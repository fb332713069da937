"""Results: their columns, of which one description gives the Arrow schema, the Spark schema and the tables; their size.

Two rows can be in a thousand million windows, and a batch can close as many lists. So windows are closed in steps, each
with at most `STEP_ROWS` rows by an upper bound (or one window, if that alone may have more).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.errors import QueryError
from skyband.runtime.arrow import from_storage
from skyband.runtime.emit import EmittedRows, change_names

if TYPE_CHECKING:
    from skyband.engines.protocol import Answers
    from skyband.query import TopK
    from skyband.runtime.groups import GroupTracker
    from skyband.runtime.protocols import Operator
    from skyband.runtime.schema import TimeType


class ResultField(NamedTuple):
    """A column of a result."""

    name: str
    type: pa.DataType
    source: str | None = None  # the source column whose values or type it has


@dataclass(frozen=True)
class ResultColumns:
    """Which columns a result has, in this order.

    query, window_start, window_end, step, the `per` columns, _change_type, rank, score, the columns of the row itself,
    those that belong to the evaluation (`extra`), final.
    """

    query: TopK
    per: tuple[str, ...]  # the group columns of all queries
    row: tuple[str, ...] | None = None  # the columns of a row; None: those of the source that are not in `per`
    extra: Mapping[str, pa.DataType] = field(default_factory=dict)
    many: bool = False  # several queries, told apart by the column `query`
    windows: bool = True
    early: bool = False  # provisional results too, told apart by the column `final`

    @property
    def steps(self) -> bool:
        """Whether there is a column `step`."""
        return self.query.emit == "changes" or not self.windows

    def row_names(self, source: pa.Schema) -> Sequence[str]:
        """Return the columns of a row."""
        return [name for name in source.names if name not in self.per] if self.row is None else self.row

    def fields(self, source: pa.Schema) -> list[ResultField]:
        """Return all columns; every one but those of rows and groups has the prefix of the query."""
        name, kind = self.query.column, source.field
        time = self.query.time if not self.query.window.counts else None
        found = [ResultField(name("query"), pa.dictionary(pa.int32(), pa.string()))] if self.many else []
        if self.windows:
            moment = pa.int64() if time is None else kind(time).type
            found += [ResultField(name(bound), moment, time) for bound in ("window_start", "window_end")]
        if self.steps:
            found.append(ResultField(name("step"), pa.int64()))
        found += [ResultField(column, kind(column).type, column) for column in self.per]
        if self.query.emit == "changes":
            found.append(ResultField(name("_change_type"), pa.string()))
        found += [ResultField(name("rank"), pa.int32()), ResultField(name("score"), pa.float64())]
        found += [ResultField(column, kind(column).type, column) for column in self.row_names(source)]
        found += [ResultField(column, type_) for column, type_ in self.extra.items()]
        return [*found, ResultField(name("final"), pa.bool_())] if self.early else found


class ResultWriter:
    """Writes emitted rows as tables."""

    def __init__(self, columns: ResultColumns, source: pa.Schema, time: TimeType | None, operator: Operator) -> None:
        self._columns, self._source, self._time, self._operator = columns, source, time, operator
        self._row = columns.row_names(source)
        self.step = 0  # what has been emitted without windows, counted

    def empty(self, names: Sequence[str] = ()) -> pa.Table:
        """Return a table without rows; `names` are those of the queries."""
        fields, known = self._columns.fields(self._source), self._operator.extra_types()
        none = pa.schema([(column.name, known.get(column.name, column.type)) for column in fields]).empty_table()
        return none.set_column(0, fields[0].name, _query_names(np.empty(0), names)) if self._columns.many else none

    def table(
        self,
        answers: Answers,
        rows: EmittedRows,
        values: pa.Table | None,
        groups: GroupTracker | None,
        group: np.ndarray,
        names: Sequence[str] = (),
    ) -> pa.Table:
        """Return the rows as a table.

        `values` has the columns of the rows, `group` the number of each row's group in `groups`, and `names` those of
        the queries.
        """
        query, wanted = self._columns.query, self._columns
        columns: list[pa.Array | pa.ChunkedArray] = []
        if wanted.many:
            assert answers.query is not None
            columns.append(_query_names(answers.query[rows.list], names))
        if wanted.windows:
            of = None if answers.query is None else answers.query[rows.list]
            columns += [self._moments(bound) for bound in self._operator.bounds(answers.end[rows.list], of)]
        if wanted.steps:
            step = answers.step[rows.list] if wanted.windows else np.full(len(rows.list), self.step)
            columns.append(pa.array(step))
            self.step += not wanted.windows
        columns += self._per(answers, rows, groups, group)
        if rows.change is not None and query.emit == "changes":
            columns.append(change_names(rows.change))
        columns.append(pa.array(rows.rank.astype(np.int32)))
        columns.append(pa.array(-rows.score if query.ascending else rows.score))
        for name in self._row:
            assert values is not None
            columns.append(from_storage(values.column(name), self._source.field(name).type, name))
        for name in wanted.extra:
            columns.append(answers.extra[name] if name in answers.extra else _of_lists(answers, name, rows))
        fields = self._columns.fields(self._source)[: len(columns)]
        return pa.Table.from_arrays(columns, names=[column.name for column in fields])

    def _moments(self, micros: np.ndarray) -> pa.Array:
        counts = self._time is None or self._columns.query.window.counts
        return pa.array(micros) if counts else self._time.column(micros)  # type: ignore[union-attr]

    def _per(
        self, answers: Answers, rows: EmittedRows, groups: GroupTracker | None, group: np.ndarray
    ) -> list[pa.Array]:
        """Return the group columns, NULL where the query does not group by them."""
        own = {} if groups is None else dict(zip(groups.per, groups.values(group), strict=True))
        found = []
        for name in self._columns.per:
            kind = self._source.field(name).type
            if name in answers.list_extra:  # of an operator that numbers groups itself
                found.append(_of_lists(answers, name, rows))
            else:
                found.append(from_storage(own[name], kind, name) if name in own else pa.nulls(len(group), kind))
        return found


def _of_lists(answers: Answers, name: str, rows: EmittedRows) -> pa.Array:
    return answers.list_extra[name].take(pa.array(rows.list))


def _query_names(number: np.ndarray, names: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(number.astype(np.int32)), pa.array(names, pa.string()))


STEP_ROWS = 1 << 20
"""Result rows of one step."""

MAX_RESULT_ROWS = 50_000_000
"""Result rows in one table."""


class AnswerBound(NamedTuple):
    """What bounds the answers of queries: a value for each, as floats, which do not overflow."""

    k: np.ndarray
    size: np.ndarray
    slide: np.ndarray

    @classmethod
    def of(cls, queries: Iterable[tuple[int, int, int]]) -> AnswerBound:
        """Return the bound of queries, given their k, size and slide."""
        return cls(*np.array(list(queries), np.float64).reshape(-1, 3).T)

    def most_rows(self, length: int, groups: int, rows: int) -> float:
        """Return the most rows that answers of time windows can have that close in a stretch of `length`.

        There are so many groups, and rows that may be in any of these windows, each in at most size / slide of them.

        Examples
        --------
        >>> AnswerBound.of([(3, 10, 5)]).most_rows(100, 1, 4), AnswerBound.of([(1, 9, 9)]).most_rows(90, 2, 100)
        (8.0, 22.0)
        """
        windows = length // self.slide + 1
        whole = windows * np.minimum(self.k * groups, rows)
        return float(np.minimum(whole, rows * np.minimum(windows, np.ceil(self.size / self.slide))).sum())

    def fits(self, length: int, groups: int, rows: int) -> bool:
        """Return whether the answers fit into one step."""
        return self.most_rows(length, groups, rows) <= STEP_ROWS

    def longest(self, time: np.ndarray, start: int, length: int, groups: int, candidates: int) -> int:
        """Return the longest stretch from `start` on whose answers fit into one step, at least one slide.

        `time` has the times of the rows to come.
        """
        found = int(self.slide.min())
        while found < length:
            further = min(2 * found, length)
            if not self.fits(further, groups, candidates + int(time.searchsorted(start + further))):
                break
            found = further
        return found


def concat_results(tables: Iterable[pa.Table], promote: str = "none") -> pa.Table | None:
    """Return all results as one table, None if there is none; raise if they are too many for one."""
    found: list[pa.Table] = []
    rows = 0
    for table in tables:
        found.append(table)
        rows += table.num_rows
        if rows > MAX_RESULT_ROWS:
            raise QueryError(
                f"answers must have at most {MAX_RESULT_ROWS:,} rows in one table, got {rows:,} so far: write a longer "
                f'slide, a smaller k or emit="changes", or read them in steps with sb.stream'
            )
    return pa.concat_tables(found, promote_options=promote) if found else None
