"""The answers of one query that are kept: whole tables, opened only when somebody looks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from skyband.dashboard.parts import Parts
from skyband.errors import DashboardError

if TYPE_CHECKING:
    from skyband.dashboard.parts import Group

_FRESH = 8  # tables that may lie around before they become one: small tables cost more than their rows
_INDEXED = 48  # tables whose groups are known by place
_WEIGHED = 16  # of as many joined tables one is weighed
_MOST_GROUPS = 100_000  # that can be listed; others are shown when they are named


class Columns(NamedTuple):
    """Where an answer has what."""

    start: str
    end: str
    per: tuple[str, ...]
    rank: str
    score: str
    own: tuple[str, ...]

    @classmethod
    def of(cls, schema: pa.Schema, *, shared: bool = False) -> Columns:
        """Read the names off a table of answers; where queries share one, the query is the first part of a group.

        Examples
        --------
        >>> names = ["window_start", "window_end", "symbol", "rank", "score", "price"]
        >>> Columns.of(pa.schema([(name, pa.int64()) for name in names]))[2:]
        (('symbol',), 'rank', 'score', ('price',))
        """
        names = list(schema.names)
        start = next((name for name in names if name.endswith("window_start")), None)
        prefix = "" if start is None else start.removesuffix("window_start")
        end, rank, score, kind = (prefix + name for name in ("window_end", "rank", "score", "_change_type"))
        if start is None or not {end, rank, score} <= set(names) or kind in names:
            msg = (
                f"a table with the columns {', '.join(names)} is no table of answers: "
                'give what a query with emit="answers" yields (window_start, window_end, ..., rank, score, ...)'
            )
            raise DashboardError(msg)
        ours = {prefix + "query", prefix + "final"}
        per = tuple(n for n in names[names.index(end) + 1 : names.index(rank)] if n not in ours)
        if shared:
            per = (prefix + "query", *per)
            if per[0] not in names:
                msg = f"answers without a name have no column {per[0]!r} either: say whose they are"
                raise DashboardError(msg)
        return cls(start, end, per, rank, score, tuple(n for n in names[names.index(score) + 1 :] if n not in ours))


@dataclass
class _Run:
    """Some tables, as one."""

    first: int  # number of its first row since the query began
    table: pa.Table
    rows: int
    tables: int
    size: int  # in bytes


class Feed:
    """What one query has answered lately.

    Adding is a matter of microseconds, whatever the table holds; who looks at a board pays for opening it.

    Cost: O(1) a table, plus a copy of its rows once. Memory: the last `history` tables, within `limit` bytes.
    """

    def __init__(self, history: int, *, shared: bool = False) -> None:
        self.shared = shared  # by all queries of a workload
        self.rows = 0  # so far; also the version of what is kept
        self.columns: Columns | None = None
        self._history = history
        self._schema: pa.Schema | None = None
        self._runs: deque[_Run] = deque()
        self._fresh: list[pa.Table] = []
        self._size = self._count = 0  # bytes and tables of the runs
        self._tidied, self._weight = 0, 0.0  # times; bytes a row
        self._groups: dict[Group, None] = {}
        self._parts: dict[tuple[int, int], Parts] = {}
        self._grouped = 0  # rows whose groups are known

    def add(self, table: pa.Table, limit: int) -> None:
        """Keep `table`, and forget what is too much."""
        if self._schema is None or not self._schema.equals(table.schema):
            self.columns = Columns.of(table.schema, shared=self.shared)  # a query that changed its columns begins anew
            self._schema = table.schema
            self._runs.clear()
            self._size = self._count = 0
            self._fresh.clear()
            self._groups.clear()
            self._parts.clear()
        self._fresh.append(table)
        self.rows += table.num_rows
        if len(self._fresh) >= _FRESH or table.num_rows > 10_000:
            self._tidy(limit)

    def since(self, row: int) -> list[tuple[int, pa.Table]]:
        """The kept tables that hold rows from number `row` on, oldest first, each with the number of its first row."""
        found = []
        first = self.rows
        for table in reversed(self._fresh):
            if first <= row:
                break
            first -= table.num_rows
            found.append((first, table))
        for run in reversed(self._runs):
            if run.first + run.rows <= row:
                break
            first = run.first
            found.append((first, run.table))
        if found and first < row:
            found[-1] = (row, found[-1][1].slice(row - first))
        return found[::-1]

    def parts(self, row: int) -> list[tuple[int, Parts]]:
        """What `since` gives, each table with its groups found."""
        assert self.columns is not None
        found = []
        for first, table in self.since(row):
            place = (first, table.num_rows)
            parts = self._parts.pop(place, None) or Parts(table, self.columns.per)
            self._parts[place] = parts  # the newest last
            while len(self._parts) > _INDEXED:
                del self._parts[next(iter(self._parts))]
            found.append((first, parts))
        return found

    def groups(self) -> list[Group]:
        """The groups that have been answered, as text, in the order in which they came."""
        if self.columns is None:
            return [] if self.shared else [()]
        if not self.columns.per:
            return [()]
        for _, table in self.since(self._grouped):
            if len(self._groups) < _MOST_GROUPS:
                self._groups.update(dict.fromkeys(Parts(table, self.columns.per).groups()))
        self._grouped = self.rows
        return list(self._groups)

    def _tidy(self, limit: int) -> None:
        table = pa.concat_tables(self._fresh).combine_chunks()
        first, tables = self.rows - table.num_rows, len(self._fresh)
        if self._tidied % _WEIGHED == 0:  # asking a table for its size costs more than adding it
            self._weight = table.nbytes / table.num_rows
        self._tidied += 1
        size = int(table.num_rows * self._weight)
        if size > limit:  # a slice would keep all of it alive: copy what stays
            keep = max(1, int(limit / self._weight))
            first += table.num_rows - keep
            table = table.take(pa.array(range(table.num_rows - keep, table.num_rows)))
            size = limit
        self._runs.append(_Run(first, table, table.num_rows, tables, size))
        self._fresh = []
        self._size, self._count = self._size + size, self._count + tables
        while len(self._runs) > 1 and (self._size > limit or self._count - self._runs[0].tables >= self._history):
            gone = self._runs.popleft()
            self._size, self._count = self._size - gone.size, self._count - gone.tables
