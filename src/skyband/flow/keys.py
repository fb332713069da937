"""Groups as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.errors import SchemaError


class Groups:
    """Gives each combination of the `per` columns a number, in the order in which they are first seen.

    NULL is a value like any other, as in GROUP BY.

    Examples
    --------
    >>> groups = Groups(["s"])
    >>> groups.codes(pa.table({"s": ["b", "a", "b"]})).tolist(), groups.codes(pa.table({"s": ["a"]})).tolist()
    ([0, 1, 0], [1])
    """

    def __init__(self, per: Sequence[str]) -> None:
        self.per = list(per)
        self._code: dict[tuple[object, ...], int] = {}
        self._seen: list[pa.Table] = []

    def __len__(self) -> int:
        return len(self._code)

    def codes(self, rows: pa.Table) -> np.ndarray:
        """The number of each row's group."""
        if not rows.num_rows:
            return np.empty(0, np.int32)
        code, codes = np.zeros(rows.num_rows, np.int64), 1
        for name in self.per:
            column = _encoded(rows.column(name), name)
            here, more = column.indices.to_numpy(zero_copy_only=False), max(len(column.dictionary), 1)
            code, codes = (here, more) if codes == 1 else (code * more + here, codes * more)
        code, rank, places = _numbered(code, codes)
        numbers = self._numbers(rows.select(self.per).take(pa.array(places)))
        return numbers[rank][code]

    def _numbers(self, groups: pa.Table) -> np.ndarray:
        """The numbers of groups, each named once; those that are new get the next ones."""
        numbers = self._known(groups)
        if numbers is not None:
            return numbers
        numbers = np.empty(groups.num_rows, np.int32)
        before = len(self._code)
        new: list[int] = []
        for i, value in enumerate(zip(*(groups.column(name).to_pylist() for name in self.per), strict=True)):
            numbers[i] = self._code.setdefault(_key(value), len(self._code))
            if numbers[i] == before + len(new):
                new.append(i)
        if new:
            self._seen.append(groups.take(pa.array(new)))
        return numbers

    def _known(self, rows: pa.Table) -> np.ndarray | None:
        """The numbers of groups that were all met before; None if one is new. The usual case, without a loop."""
        seen = self.table()
        if seen is None or len(self.per) > 1:
            return None
        column, values = _plain(rows.column(0)), _plain(seen.column(0))
        if column.type != values.type:
            return None
        found = pc.index_in(column, value_set=values)
        return None if found.null_count else found.to_numpy().astype(np.int32)

    def table(self) -> pa.Table | None:
        """The `per` columns of all groups, in the order of their numbers; None before the first."""
        if len(self._seen) > 1:
            self._seen = [pa.concat_tables(self._seen, promote_options="default").unify_dictionaries().combine_chunks()]
        return self._seen[0] if self._seen else None

    def load(self, table: pa.Table) -> None:
        """Number the rows of `table` from 0 on, forgetting all groups known before."""
        self._seen = [table]
        values = zip(*(table.column(name).to_pylist() for name in self.per), strict=True)
        self._code = {_key(value): i for i, value in enumerate(values)}

    def values(self, codes: np.ndarray) -> list[pa.Array]:
        """The `per` columns of rows with these group numbers."""
        table = self.table()
        assert table is not None
        return [column.take(pa.array(codes)).combine_chunks() for column in table.columns]


def _key(value: tuple[object, ...]) -> tuple[object, ...]:
    """What a group is known by: NaN is one value, as in GROUP BY, though it does not equal itself."""
    return tuple("NaN" if part != part else part for part in value) if any(p != p for p in value) else value  # noqa: PLR0124


def _numbered(code: np.ndarray, codes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, the rank of each in the order in which they are first seen, and where that is."""
    from skyband.kernels.order import first_seen

    if codes > 4 * len(code) + (1 << 20):
        _, code = np.unique(code, return_inverse=True)
        codes = int(code.max(initial=0)) + 1
    place = first_seen(code, codes)
    order = np.argsort(place, kind="stable")[: int((place < len(code)).sum())]
    rank = np.zeros(codes, np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return code, rank, place[order]


def _encoded(column: pa.ChunkedArray, name: str) -> pa.DictionaryArray:
    if pa.types.is_nested(column.type):
        msg = f"per holds {name!r}, which is {column.type}: group by columns of plain values"
        raise SchemaError(msg)
    if not pa.types.is_dictionary(column.type) or column.null_count:
        column = pc.dictionary_encode(_plain(column), null_encoding="encode")
    if not column.num_chunks:  # Arrow makes no empty one of every type
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], column.type.value_type))
    column = column.unify_dictionaries()
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
