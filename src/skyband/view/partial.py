"""Rows into partial totals, one for each pane, group and key: what a leaderboard keeps, and what travels on Spark.

A partial total is one or more whole numbers and doubles, see `kernels.totals`. Partial totals of the same pane,
group and key can be folded again, so any cut of the rows into batches or partitions gives the same totals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.query import AllTime
from skyband.query.expression import Expression
from skyband.runtime.arrow import plain, plain_type, take_rows
from skyband.runtime.groups import Groups, combine_codes
from skyband.runtime.score import scores
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.runtime.ids import Ids

PANE, INTS, FLOATS = "__skyband_pane", "__skyband_int", "__skyband_float"
_COUNT, _WHOLE, _DECIMAL, _REAL, _EXTREME = range(5)  # as in kernels.totals, which is slow to import
_LOW = (1 << 32) - 1


@dataclass(frozen=True)
class Measure:
    """How a query's total is kept: how many whole numbers and doubles, and how they become a score."""

    name: str  # count, sum, max, min, mean
    inside: Expression | None  # what is totalled; None for count(*)
    kind: int
    ints: int
    floats: int
    unit: float  # how many of a decimal's last digit make one; negative for a mean

    @classmethod
    def of(cls, query: TopK, schema: pa.Schema) -> Measure:
        """The measure of a query's total, given the types of the columns."""
        by = cast("Expression", query.by)
        _, name, tree = by.tree
        inside = None if tree is None else Expression(by.text, tree, by.columns)
        if name == "count":
            return cls(name, inside, _COUNT, 1, 0, 1.0)
        if name in ("max", "min"):
            return cls(name, inside, _EXTREME, 0, 1, 1.0)
        mean = name == "mean"
        sign = -1.0 if mean else 1.0
        kind = plain_type(schema.field(tree[1]).type) if tree[0] == "column" else pa.float64()
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            return cls(name, inside, _WHOLE, 2 + mean, 0, sign)
        if pa.types.is_decimal(kind) and kind.bit_width <= 128 and kind.scale >= 0:
            return cls(name, inside, _DECIMAL, 4 + mean, 0, sign * 10.0**kind.scale)
        return cls(name, inside, _REAL, int(mean), 2, sign)

    def values(self, rows: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What each row adds, as whole numbers and doubles; and which rows add anything."""
        size = rows.num_rows
        ints, floats = np.zeros((size, self.ints), np.int64), np.zeros((size, self.floats))
        given = np.ones(size, np.bool_)
        if self.kind == _COUNT:
            ints[:, 0] = 1 if self.inside is None else ~np.isnan(scores(self.inside, rows))
            return ints, floats, given
        assert self.inside is not None
        if self.kind in (_WHOLE, _DECIMAL):
            column = _plain(rows.column(self.inside.columns[0]))
            if column.null_count:
                given = column.is_valid().to_numpy(zero_copy_only=False)
            limbs = _limbs(column, self.kind == _DECIMAL)
            ints[:, : len(limbs)] = np.stack(limbs, axis=1)
        else:
            found = scores(self.inside, rows)
            given = ~np.isnan(found)
            floats[:, 0] = -found if self.name == "min" else found  # the least is the largest, turned
        if self.name == "mean":
            ints[:, -1] = 1
        return ints, floats, given


def _plain(column: pa.ChunkedArray) -> pa.Array:
    column = plain(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _limbs(column: pa.Array, decimal: bool) -> list[np.ndarray]:
    """Whole numbers as limbs of 32 bits, the least first; the last carries the sign."""
    if decimal:
        kind = column.type
        if kind.bit_width != 128:
            column = column.cast(pa.decimal128(kind.precision, kind.scale))
        words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
        low, high = words[::2], words[1::2]
        if column.null_count:
            none = column.is_null().to_numpy(zero_copy_only=False)
            low, high = np.where(none, 0, low), np.where(none, 0, high)
        return [low & _LOW, (low >> 32) & _LOW, high & _LOW, high >> 32]
    column = pc.fill_null(column, 0) if column.null_count else column
    numbers = column.to_numpy(zero_copy_only=False)
    if numbers.dtype == np.uint64:
        return [(numbers & np.uint64(_LOW)).astype(np.int64), (numbers >> np.uint64(32)).astype(np.int64)]
    numbers = numbers.astype(np.int64, copy=False)
    return [numbers & _LOW, numbers >> 32]


def partial_totals(query: TopK, measure: Measure, rows: pa.Table, time: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    """Partial totals of `rows` (which all have a time), and which rows had a value to add.

    One row for each pane, group and key: the `per` and `of` columns, the pane's start, and the total's numbers.
    Cost: one pass over the rows after their keys are numbered.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, of="p", by="sum(n)", window=sb.Tumbling("10 us"), time="t", unit="us")
    >>> rows = pa.table({"t": [1, 2, 12], "p": ["a", "a", "b"], "n": [5, 2, 7]})
    >>> found, given = partial_totals(query, Measure.of(query, rows.schema), rows, rows["t"].to_numpy())
    >>> found.select(["p", PANE, INTS + "0"]).to_pylist()
    [{'p': 'a', '__skyband_pane': 0, '__skyband_int0': 7}, {'p': 'b', '__skyband_pane': 10, '__skyband_int0': 7}]
    """
    ints, floats, given = measure.values(rows)
    if not given.all():
        places = np.flatnonzero(given)
        rows, time, ints, floats = take_rows(rows, places), time[places], ints[places], floats[places]
    names = [*query.per, *query.of]
    ever = isinstance(query.window, AllTime)
    pane = np.zeros(len(time), np.int64) if ever else np.asarray(WindowAssigner.of(query.window).pane(time))
    code = _panes(pane)
    codes = int(code.max(initial=-1)) + 1
    for name in names:
        groups = Groups([name])
        here = groups.codes(rows)
        code, codes = _dense(*combine_codes(code, codes, here, max(len(groups), 1)))
    first, seen_ints, seen_floats = folded(code, ints, floats)
    table = take_rows(rows.select(names), first).append_column(PANE, pa.array(pane[first]))
    return with_numbers(table, seen_ints, seen_floats), given


def with_numbers(table: pa.Table, ints: np.ndarray, floats: np.ndarray) -> pa.Table:
    """A table with the numbers of totals as columns."""
    for name, numbers in ((INTS, ints), (FLOATS, floats)):
        for j in range(numbers.shape[1]):
            table = table.append_column(f"{name}{j}", pa.array(np.ascontiguousarray(numbers[:, j])))
    return table


def numbers_of(table: pa.Table, measure: Measure) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of totals in a table's columns."""
    ints = [table.column(f"{INTS}{j}").to_numpy() for j in range(measure.ints)]
    floats = [table.column(f"{FLOATS}{j}").to_numpy() for j in range(measure.floats)]
    size = table.num_rows
    return (
        np.stack(ints, axis=1) if ints else np.zeros((size, 0), np.int64),
        np.stack(floats, axis=1) if floats else np.zeros((size, 0)),
    )


class Partials(NamedTuple):
    """Partial totals, by the numbers of their group and key."""

    pane: np.ndarray  # int64
    group: np.ndarray  # int32
    key: np.ndarray  # int32
    arrived: np.ndarray  # int64: when the first of its rows came, by number
    ints: np.ndarray
    floats: np.ndarray

    def take(self, places: np.ndarray | slice) -> Partials:
        """Some of them."""
        return Partials(*(column[places] for column in self))


def folded_rows(rows: Partials) -> Partials:
    """One total for each pane, group and key of a batch of rows."""
    if len(rows.pane) < 2:
        return rows
    code = _panes(rows.pane)
    codes = int(code.max(initial=-1)) + 1
    for column in (rows.group, rows.key):
        code, codes = _dense(*combine_codes(code, codes, *_local(column)))
    first, ints, floats = folded(code, rows.ints, rows.floats)
    return Partials(rows.pane[first], rows.group[first], rows.key[first], rows.arrived[first], ints, floats)


def folded_partials(partials: Partials) -> Partials:
    """One total for each pane, group and key, ordered by these."""
    pane, group, key = partials[:3]
    order = np.lexsort((key, group, pane))
    new = (np.diff(pane[order]) != 0) | (np.diff(group[order]) != 0) | (np.diff(key[order]) != 0)
    if new.all():
        return partials.take(order)
    code = np.empty(len(pane), np.int64)
    code[order] = np.cumsum(np.concatenate([[False], new]))
    first, ints, floats = folded(code, partials.ints, partials.floats)
    return Partials(pane[first], group[first], key[first], partials.arrived[first], ints, floats)


def _local(column: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers as numbers from 0 on, in the same order; and how many different ones there are."""
    high = int(column.max(initial=-1)) + 1
    if high <= len(column):
        return column, max(high, 1)
    if high > 8 * len(column):
        found, local = np.unique(column, return_inverse=True)
        return local, max(len(found), 1)
    there = np.zeros(high, np.bool_)
    there[column] = True
    return (np.cumsum(there) - 1)[column], max(int(there.sum()), 1)


def folded(code: np.ndarray, ints: np.ndarray, floats: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One total for each code, by rising code: where each code first stands, its whole numbers and doubles."""
    from skyband.kernels.columns import first_seen
    from skyband.kernels.totals import fold

    codes = int(code.max(initial=-1)) + 1
    seen, to_ints, to_floats = fold(code, codes, ints, floats)
    first = first_seen(code, codes)
    return (first, to_ints, to_floats) if seen.all() else (first[seen], to_ints[seen], to_floats[seen])


def _panes(pane: np.ndarray) -> np.ndarray:
    """The number of each row's pane, in the order of panes."""
    if len(pane) and (np.diff(pane) >= 0).all():
        return np.cumsum(np.concatenate([[False], np.diff(pane) > 0]))
    return np.unique(pane, return_inverse=True)[1]


def _dense(code: np.ndarray, codes: int) -> tuple[np.ndarray, int]:
    """Codes so few that a table of them is cheap, in the same order."""
    if codes <= 4 * len(code) + (1 << 16):
        return code, codes
    found, code = np.unique(code, return_inverse=True)
    return code, len(found)


def tie_numbers(table: pa.Table, names: tuple[str, ...]) -> Ids:
    """What orders keys of equal totals: one column like an id, several by a hash of all."""
    from skyband.runtime.ids import Ids, read_ids, row_hash

    if len(names) == 1:
        return read_ids(table.column(names[0]), names[0])
    return Ids(row_hash(table.select(list(names))).view(np.int64))
