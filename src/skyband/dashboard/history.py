"""The recent answers of a query as tables, read only when a board is shown; and their values as the page shows them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.errors import DashboardError

Group = tuple[str | None, ...]
"""The values of a group, as text."""

MAX_TEXT = 240
"""Characters of a value that are sent."""

_TIMESTAMP = pa.timestamp("us").id
_NUMBERS = {kind.id for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float64())}
_EXACT = 1 << 53  # a browser rounds larger integers
_MERGE_TABLES = 8  # small tables that are merged into one: each costs more than its rows
_MERGE_ROWS = 10_000  # a table of more rows is not small
_INDEXED_TABLES = 48  # tables whose group index is kept
_MAX_GROUPS = 100_000  # groups that are listed; others are shown when they are named


class AnswerColumns(NamedTuple):
    """Names of the columns of a table of answers."""

    start: str
    end: str
    per: tuple[str, ...]
    rank: str
    score: str
    own: tuple[str, ...]

    @classmethod
    def from_schema(cls, schema: pa.Schema, *, shared: bool = False) -> AnswerColumns:
        """Find the columns; where queries share a table, the query is the first part of a group.

        Examples
        --------
        >>> names = ["window_start", "window_end", "symbol", "rank", "score", "price"]
        >>> AnswerColumns.from_schema(pa.schema([(name, pa.int64()) for name in names]))[2:]
        (('symbol',), 'rank', 'score', ('price',))
        """
        names = list(schema.names)
        start = next((name for name in names if name.endswith("window_start")), None)
        prefix = "" if start is None else start.removesuffix("window_start")
        end, rank, score, change = (prefix + name for name in ("window_end", "rank", "score", "_change_type"))
        if start is None or not {end, rank, score} <= set(names) or change in names:
            raise DashboardError(
                "a table of answers must have the columns window_start, window_end, ..., rank, score, ... of a query "
                f'with emit="answers", got {", ".join(names)}'
            )
        query, final = prefix + "query", prefix + "final"
        per = tuple(n for n in names[names.index(end) + 1 : names.index(rank)] if n not in (query, final))
        if shared:
            per = (query, *per)
            if query not in names:
                raise DashboardError(
                    f"answers without a name must have the column {query!r}: add it, or name the query"
                )
        own = tuple(n for n in names[names.index(score) + 1 :] if n not in (query, final))
        return cls(start, end, per, rank, score, own)


class GroupIndex:
    """The positions of the rows of each group in a table.

    Cost: O(rows * log rows) once, O(rows) if groups are contiguous; then O(log rows) per group.

    Examples
    --------
    >>> index = GroupIndex(pa.table({"who": ["b", "a", "b"], "x": [1, 2, 3]}), ("who",))
    >>> index.positions(("b",)).tolist(), index.positions(("c",)).tolist(), index.groups()
    ([0, 2], [], [('b',), ('a',)])
    """

    def __init__(self, table: pa.Table, per: tuple[str, ...]) -> None:
        self.table = table
        self._codes: list[dict[str | None, int]] = []  # of each column, by text
        self._code = np.zeros(1, np.int64)
        for name in per:
            column = to_text(table[name]) if pa.types.is_nested(table.schema.field(name).type) else table[name]
            encoded = column.combine_chunks().dictionary_encode()
            texts = [*to_text(encoded.dictionary).to_pylist(), None]
            codes: dict[str | None, int] = {}
            code = np.array([codes.setdefault(text, len(codes)) for text in texts])  # a dictionary may repeat a text
            self._codes.append(codes)
            places = encoded.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
            self._code = self._code * len(codes) + code[places]

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self._code, kind="stable")
        return order, self._code[order]

    def positions(self, group: Group) -> np.ndarray:
        """Return the positions of the rows of one group."""
        code = 0
        for text, codes in zip(group, self._codes, strict=True):
            if text not in codes:
                return np.zeros(0, np.int64)
            code = code * len(codes) + codes[text]
        order, codes_in_order = self._sorted
        start, stop = codes_in_order.searchsorted((code, code + 1)).tolist()
        return order[start:stop]

    def groups(self) -> list[Group]:
        """Return the groups in the order of their first rows."""
        code = self._code[np.sort(np.unique(self._code, return_index=True)[1])]
        columns = []
        for codes in reversed(self._codes):
            texts = list(codes)
            code, place = np.divmod(code, len(texts))
            columns.append([texts[i] for i in place.tolist()])
        return list(zip(*reversed(columns), strict=True))


class _Run(NamedTuple):
    first: int  # number of its first row since the query began
    table: pa.Table
    answers: int = 1  # tables that were merged into it
    size: int = 0  # bytes


class AnswerHistory:
    """The recent answers of one query, or of all queries of a workload (`shared`).

    Cost: O(1) per table, plus one copy of its rows. Memory: the last `history` tables, within a limit of bytes.
    """

    def __init__(self, history: int, *, shared: bool = False) -> None:
        self.shared = shared
        self.rows = 0  # so far; also the version of the history
        self.columns: AnswerColumns | None = None
        self._history = history
        self._schema: pa.Schema | None = None
        self._runs: deque[_Run] = deque()
        self._small = 0  # runs at the end that are still to be merged
        self._size = self._answers = 0  # of the runs before them
        self._groups: dict[Group, None] = {}
        self._grouped = 0  # rows whose groups are known
        self._indexes: dict[tuple[int, int], GroupIndex] = {}

    @property
    def first(self) -> int:
        """Number of the first row that is kept."""
        return self._runs[0].first if self._runs else self.rows

    def add(self, table: pa.Table, limit: int) -> None:
        """Add answers, and drop old ones beyond `limit` bytes. Other columns than before start a new history."""
        if self._schema is None or not self._schema.equals(table.schema):
            self.columns = AnswerColumns.from_schema(table.schema, shared=self.shared)
            self._schema = table.schema
            self._runs.clear()
            self._small = self._size = self._answers = 0
            self._groups.clear()
            self._indexes.clear()
        self._runs.append(_Run(self.rows, table))
        self.rows += table.num_rows
        self._small += 1
        if self._small >= _MERGE_TABLES or table.num_rows > _MERGE_ROWS:
            self._merge(limit)

    def _merge(self, limit: int) -> None:
        small = [self._runs.pop() for _ in range(self._small)][::-1]
        self._small = 0
        first, table = small[0].first, pa.concat_tables([run.table for run in small]).combine_chunks()
        size = table.get_total_buffer_size()
        if size > limit:  # a slice would keep all of it in memory
            rows = max(1, table.num_rows * limit // size)
            first, size = first + table.num_rows - rows, limit
            table = table.take(pa.array(range(table.num_rows - rows, table.num_rows)))
        self._runs.append(_Run(first, table, len(small), size))
        self._size, self._answers = self._size + size, self._answers + len(small)
        while len(self._runs) > 1:
            oldest = self._runs[0]
            if self._size <= limit and self._answers - oldest.answers < self._history:
                break
            self._runs.popleft()
            self._size, self._answers = self._size - oldest.size, self._answers - oldest.answers

    def since(self, row: int) -> list[tuple[int, pa.Table]]:
        """Return the tables with rows from number `row` on, oldest first, each with the number of its first row."""
        found: list[tuple[int, pa.Table]] = []
        for first, table, *_ in reversed(self._runs):
            if first + table.num_rows <= row:
                break
            found.append((first, table) if first >= row else (row, table.slice(row - first)))
        return found[::-1]

    def indexed(self, row: int) -> list[tuple[int, GroupIndex]]:
        """Return the tables of `since` with their group index, which all boards share."""
        assert self.columns is not None
        found = []
        for first, table in self.since(row):
            place = (first, table.num_rows)
            index = self._indexes.pop(place, None) or GroupIndex(table, self.columns.per)
            self._indexes[place] = index  # the newest last
            while len(self._indexes) > _INDEXED_TABLES:
                del self._indexes[next(iter(self._indexes))]
            found.append((first, index))
        return found

    def groups(self) -> list[Group]:
        """Return the groups that have had answers, in the order in which they came."""
        if self.columns is None:
            return [] if self.shared else [()]
        if not self.columns.per:
            return [()]
        for _, table in self.since(self._grouped):
            if len(self._groups) < _MAX_GROUPS:
                self._groups.update(dict.fromkeys(GroupIndex(table, self.columns.per).groups()))
        self._grouped = self.rows
        return list(self._groups)


# ---------------------------------------------------------------- values


def value_kind(column_type: pa.DataType) -> str:
    """Return how a column is shown: "number", "time" or "text".

    Examples
    --------
    >>> value_kind(pa.int8()), value_kind(pa.timestamp("ns")), value_kind(pa.string())
    ('number', 'time', 'text')
    """
    if pa.types.is_dictionary(column_type):
        return value_kind(column_type.value_type)
    if pa.types.is_integer(column_type) or pa.types.is_floating(column_type) or pa.types.is_decimal(column_type):
        return "number"
    return "time" if pa.types.is_timestamp(column_type) or pa.types.is_date(column_type) else "text"


def to_json(column: pa.ChunkedArray) -> list[Any]:
    """Convert a column to values that JSON can carry.

    Examples
    --------
    >>> to_json(pa.chunked_array([[1, 2**60, None]])), to_json(pa.chunked_array([[b"a"]]))
    ([1, '1152921504606846976', None], ['61'])
    """
    kind = column.type.id
    if kind == _TIMESTAMP:  # naive is UTC; NumPy formats ten times as fast as datetime
        texts = column.to_numpy().astype("datetime64[us]").astype(str).tolist()
        return [None if text == "NaT" else text.removesuffix(".000000") for text in texts]
    if kind in _NUMBERS and not column.null_count:  # faster through NumPy
        values = column.to_numpy()
        exact = values.dtype.kind == "f" or values.dtype.itemsize <= 4 or bool((np.abs(values) <= _EXACT).all())
        if exact and bool(np.isfinite(values).all()):
            return values.tolist()
    return [None if value is None else _to_json(value) for value in column.to_pylist()]


def to_comparable(column: pa.ChunkedArray) -> list[Any]:
    """Convert a column to values that can be compared with each other; timestamps to integers.

    Examples
    --------
    >>> to_comparable(pa.chunked_array([pa.array([5], pa.timestamp("s"))]))
    [5]
    """
    if column.type.id == _TIMESTAMP:
        return column.to_numpy().view("i8").tolist()
    fast = column.type.id in _NUMBERS and not column.null_count
    return column.to_numpy().tolist() if fast else column.to_pylist()


def to_hashable(column: pa.ChunkedArray) -> list[Any]:
    """Convert a column so that equal values have equal hashes: no lists, no NaN."""
    values = to_comparable(column)
    has_nan = pa.types.is_floating(column.type) and any(value is not None and math.isnan(value) for value in values)
    return [repr(value) for value in values] if has_nan or pa.types.is_nested(column.type) else values


def to_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to strings, to name groups.

    Examples
    --------
    >>> to_text(pa.chunked_array([[1, None]])).to_pylist()
    ['1', None]
    """
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        texts = [None if value is None else str(_to_json(value)) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])


def _to_json(value: Any) -> Any:
    convert = _CONVERSIONS.get(type(value))
    return convert(value) if convert is not None else _shorten(str(value))


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


_CONVERSIONS: dict[type, Callable[[Any], Any]] = {
    bool: lambda value: "true" if value else "false",
    int: lambda value: value if -_EXACT <= value <= _EXACT else str(value),
    float: lambda value: value if math.isfinite(value) else str(value),
    str: _shorten,
    bytes: lambda value: _shorten(value[:MAX_TEXT].hex()),
    date: date.isoformat,
}
