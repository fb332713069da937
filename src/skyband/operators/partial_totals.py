"""Rows into partial totals, one for each pane, group and key: what a leaderboard keeps, and what travels on Spark.

A partial total is one or more whole numbers and doubles, see `kernels.totals`. Partial totals of the same pane,
group and key can be folded again, so any cut of the rows into batches or partitions gives the same totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.query.expression import Expression
from skyband.runtime.arrow import plain, plain_type, take_rows
from skyband.runtime.groups import Groups, combine_codes
from skyband.runtime.score import scores

if TYPE_CHECKING:
    from skyband.query import TopK
    from skyband.runtime.ids import Ids

_PANE, _INTS, _FLOATS = "__skyband_pane", "__skyband_int", "__skyband_float"
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


class PartialTotals(NamedTuple):
    """Partial totals: one for each pane, group and key of some rows."""

    keys: pa.Table  # the `per` and `of` columns
    time: np.ndarray  # int64: where the pane starts
    arrived: np.ndarray  # int64: the place of its first row
    ints: np.ndarray
    floats: np.ndarray
    without_score: int = 0  # rows that added nothing

    def take(self, places: np.ndarray) -> PartialTotals:
        """Return the totals at these places."""
        columns = (self.time[places], self.arrived[places], self.ints[places], self.floats[places])
        return PartialTotals(take_rows(self.keys, places), *columns, self.without_score)


def partial_totals(
    names: Sequence[str], measure: Measure, rows: pa.Table, pane: np.ndarray
) -> tuple[PartialTotals, np.ndarray]:
    """Return the partial totals of rows in the order of their first rows, and which rows had a value to add.

    Cost: one pass over the rows after their keys are numbered.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, of="p", by="sum(n)", window=sb.Tumbling("10 us"), time="t", unit="us")
    >>> rows = pa.table({"p": ["a", "a", "b"], "n": [5, 2, 7]})
    >>> found, given = partial_totals(["p"], Measure.of(query, rows.schema), rows, np.array([0, 0, 10]))
    >>> found.keys["p"].to_pylist(), found.time.tolist(), found.ints[:, 0].tolist()
    (['a', 'b'], [0, 10], [7, 7])
    """
    ints, floats, given = measure.values(rows)
    keys, arrived = rows.select(names), np.arange(rows.num_rows)
    if not given.all():
        arrived = np.flatnonzero(given)
        keys, pane, ints, floats = take_rows(keys, arrived), pane[arrived], ints[arrived], floats[arrived]
    code = _pane_numbers(pane)
    codes = int(code.max(initial=-1)) + 1
    for name in names:
        groups = Groups([name])
        here = groups.codes(keys)
        code, codes = _dense(*combine_codes(code, codes, here, max(len(groups), 1)))
    first, ints, floats = fold_totals(code, ints, floats)
    without = int(len(given) - given.sum())
    totals = PartialTotals(take_rows(keys, first), pane[first], arrived[first], ints, floats, without)
    return totals if (np.diff(first) > 0).all() else totals.take(np.argsort(first)), given


def encode_totals(totals: PartialTotals) -> pa.Table:
    """Return partial totals as one table, in which they travel."""
    table = totals.keys.append_column(_PANE, pa.array(totals.time))
    for name, numbers in ((_INTS, totals.ints), (_FLOATS, totals.floats)):
        for j in range(numbers.shape[1]):
            table = table.append_column(f"{name}{j}", pa.array(np.ascontiguousarray(numbers[:, j])))
    return table


def decode_totals(table: pa.Table, names: Sequence[str], measure: Measure) -> PartialTotals:
    """Return the partial totals of a table."""
    pane = table.column(_PANE).to_numpy()
    ints, floats = np.zeros((len(pane), measure.ints), np.int64), np.zeros((len(pane), measure.floats))
    for name, numbers in ((_INTS, ints), (_FLOATS, floats)):
        for j in range(numbers.shape[1]):
            numbers[:, j] = table.column(f"{name}{j}").to_numpy()
    return PartialTotals(table.select(names), pane, np.arange(len(pane)), ints, floats)


class CodedTotals(NamedTuple):
    """Partial totals by the codes of their groups and keys."""

    pane: np.ndarray  # int64
    group: np.ndarray  # int32
    key: np.ndarray  # int32
    arrived: np.ndarray  # int64: the place of its first row in the stream
    ints: np.ndarray
    floats: np.ndarray

    def take(self, places: np.ndarray | slice) -> CodedTotals:
        """Return the totals at these places."""
        return CodedTotals(*(column[places] for column in self))

    def folded(self) -> CodedTotals:
        """Return one total for each pane, group and key, ordered by these."""
        pane, group, key = self[:3]
        order = np.lexsort((key, group, pane))
        new = (np.diff(pane[order]) != 0) | (np.diff(group[order]) != 0) | (np.diff(key[order]) != 0)
        if new.all():
            return self.take(order)
        code = np.empty(len(pane), np.int64)
        code[order] = np.cumsum(np.concatenate([[False], new]))
        first, ints, floats = fold_totals(code, self.ints, self.floats)
        return CodedTotals(pane[first], group[first], key[first], self.arrived[first], ints, floats)


def fold_totals(code: np.ndarray, ints: np.ndarray, floats: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One total for each code, by rising code: where each code first stands, its whole numbers and doubles."""
    from skyband.kernels.columns import first_seen
    from skyband.kernels.totals import fold

    codes = int(code.max(initial=-1)) + 1
    seen, to_ints, to_floats = fold(code, codes, ints, floats)
    first = first_seen(code, codes)
    return (first, to_ints, to_floats) if seen.all() else (first[seen], to_ints[seen], to_floats[seen])


def _pane_numbers(pane: np.ndarray) -> np.ndarray:
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
