"""Groups as numbers: the combinations of the `per` columns, and their runs of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.engines.groups import grown_capacity, read_only
from skyband.engines.validation import require, typed_column, validate
from skyband.errors import SchemaError
from skyband.kernels.columns import Windows, number_runs
from skyband.runtime.arrow import plain, plain_type, take_rows
from skyband.runtime.row_store import RowStore
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from skyband.windows import WindowAssigner


_CODES = 1 << 62  # numbers of pairs that fit into 64 bits with room to spare
_FEW = 32  # rows whose groups are looked up one by one
_MANY = 8  # times as many groups as a batch has: from there on, those of the batch are looked up one by one


class Groups:
    """Gives each combination of the `per` columns a number, in the order in which they are first seen.

    NULL is a value like any other, as in GROUP BY. Cost: O(rows), whatever the number of groups seen before.

    Examples
    --------
    >>> groups = Groups(["s"])
    >>> groups.codes(pa.table({"s": ["b", "a", "b"]})).tolist(), groups.codes(pa.table({"s": ["a"]})).tolist()
    ([0, 1, 0], [1])
    """

    def __init__(self, per: Sequence[str]) -> None:
        self.per = list(per)
        self._code: dict[tuple[object, ...], int] = {}  # in the order of the numbers
        self._seen = RowStore()  # by number
        self._table: pa.Table | None = None  # all of them, until there is a new one

    def __len__(self) -> int:
        return len(self._code)

    def codes(self, rows: pa.Table) -> np.ndarray:
        """Return the number of each row's group."""
        if not rows.num_rows:
            return np.empty(0, np.int32)
        if rows.num_rows <= _FEW:
            for name in self.per:
                _check_plain(rows.column(name), name)
            return self._numbers(rows.select(self.per))
        code, codes = _encoded(rows.column(self.per[0]), self.per[0])
        for name in self.per[1:]:
            code, codes = combine_codes(code, codes, *_encoded(rows.column(name), name))
        code, rank, places = _numbered(code, codes)
        numbers = self._numbers(take_rows(rows.select(self.per), places))
        return numbers[rank][code]

    def _numbers(self, groups: pa.Table) -> np.ndarray:
        """Return the numbers of groups; those that are new get the next ones."""
        numbers = self._known(groups)
        if numbers is not None:
            return numbers
        numbers = np.empty(groups.num_rows, np.int32)
        before = len(self._code)
        new: list[int] = []
        for i, key in enumerate(_group_keys(groups.select(self.per))):
            numbers[i] = self._code.setdefault(key, len(self._code))
            if numbers[i] == before + len(new):
                new.append(i)
        if new:
            self._seen.add(groups if len(new) == groups.num_rows else take_rows(groups, np.array(new)))
            self._table = None
        return numbers

    def _known(self, rows: pa.Table) -> np.ndarray | None:
        """Return the numbers of groups that were all met before; None if one is new. The usual case, without a loop."""
        if len(self.per) > 1 or rows.num_rows <= _FEW or len(self) > _MANY * rows.num_rows:
            return None
        seen = self.table()
        if seen is None:
            return None
        column, values = plain(rows.column(0)), plain(seen.column(0))
        if column.type != values.type:
            return None
        found = pc.index_in(column, value_set=values)
        return None if found.null_count else found.to_numpy().astype(np.int32)

    def table(self) -> pa.Table | None:
        """Return the `per` columns of all groups, in the order of their numbers; None before the first."""
        if self._table is None and self._code:
            self._table = self._seen.take(np.arange(len(self)))
        return self._table

    def load(self, table: pa.Table) -> None:
        """Number the rows of `table` from 0 on, forgetting all groups known before."""
        self._put({key: i for i, key in enumerate(_group_keys(table.select(self.per)))}, table)

    def keep(self, numbers: np.ndarray) -> None:
        """Forget all groups but these, which are numbered anew, in this order."""
        keys = list(self._code)
        table = self._seen.take(numbers)
        if table is not None:
            self._put({keys[number]: i for i, number in enumerate(numbers.tolist())}, table)

    def _put(self, code: dict[tuple[object, ...], int], table: pa.Table) -> None:
        self._code, self._seen, self._table = code, RowStore(), None
        self._seen.add(table)

    def values(self, codes: np.ndarray) -> list[pa.ChunkedArray]:
        """Return the `per` columns of rows with these group numbers."""
        if self._table is not None or 2 * len(codes) > len(self):
            table = self.table()
            found = None if table is None else take_rows(table, codes)
        else:
            found = self._seen.take(codes)
        assert found is not None
        return found.columns


def _group_keys(groups: pa.Table) -> Iterator[tuple[object, ...]]:
    """Return what each group is known by: Python values that are equal exactly if the group is the same.

    Times are whole numbers, since Python's datetimes drop nanoseconds and do not tell the two hours apart that a clock
    set back repeats; text is bytes, which need not be UTF-8. NaN is one value, and so are zero and minus zero.
    """
    return zip(*(_key_values(plain(column)) for column in groups.columns), strict=True)


def _key_values(column: pa.ChunkedArray) -> list[object]:
    kind, types = column.type, pa.types
    if types.is_floating(kind):
        numbers = column.cast(pa.float64()).to_pylist()
        return ["NaN" if number != number else number for number in numbers]  # noqa: PLR0124 - only NaN is not itself
    if types.is_string(kind) or types.is_large_string(kind):
        if len(column) <= _FEW:
            with suppress(UnicodeDecodeError):
                return [value if value is None else value.encode() for value in column.to_pylist()]
        column = column.cast(pa.large_binary())
    elif types.is_date32(kind) or types.is_time32(kind):
        column = column.cast(pa.int32())
    elif types.is_temporal(kind) and not types.is_interval(kind):
        column = column.cast(pa.int64())
    return column.to_pylist()


def combine_codes(code: np.ndarray, codes: int, other: np.ndarray, others: int) -> tuple[np.ndarray, int]:
    """Return a number for each pair of two numbers, different for different pairs; and how many there may be.

    Examples
    --------
    >>> combine_codes(np.array([0, 1, 1]), 2, np.array([2, 0, 2]), 3)
    (array([2, 3, 5]), 6)
    """
    if codes * others > _CODES:  # numbered anew there are no more than rows, and their product fits
        code, codes = _dense(code)
        other, others = _dense(other)
    return code.astype(np.int64) * others + other, codes * others


def _dense(code: np.ndarray) -> tuple[np.ndarray, int]:
    found, code = np.unique(code, return_inverse=True)
    return code.reshape(-1), max(len(found), 1)


def _numbered(code: np.ndarray, codes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, the rank of each in the order in which they are first seen, and where that is."""
    from skyband.kernels.columns import first_seen

    if codes > 4 * len(code) + (1 << 20):
        _, code = np.unique(code, return_inverse=True)
        codes = int(code.max(initial=0)) + 1
    place = first_seen(code, codes)
    order = np.argsort(place, kind="stable")[: int((place < len(code)).sum())]
    rank = np.zeros(codes, np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return code, rank, place[order]


def _check_plain(column: pa.ChunkedArray, name: str) -> None:
    if pa.types.is_nested(plain_type(column.type)):
        raise SchemaError(f"per, of and on must name columns of plain values, got {name!r} of type {column.type}")


def _encoded(column: pa.ChunkedArray, name: str) -> tuple[np.ndarray, int]:
    """Return a number for each value of a column, and how many there may be."""
    _check_plain(column, name)
    encoded = pc.dictionary_encode(plain(column), null_encoding="encode") if _needs_encoding(column) else None
    if encoded is None:
        try:
            encoded = column.unify_dictionaries()
        except pa.ArrowInvalid:  # all values together need a wider index
            encoded = pc.dictionary_encode(plain(column), null_encoding="encode")
    column = encoded  # one dictionary for all chunks
    parts = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in column.chunks]
    code = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if code.dtype not in (np.int32, np.int64):  # those that kernels are compiled for
        code = code.astype(np.int64)
    return code, max(len(column.chunk(0).dictionary), 1)


def _needs_encoding(column: pa.ChunkedArray) -> bool:
    """Return whether a column has no dictionary, or one that Arrow cannot unify with others because of NULL."""
    if not pa.types.is_dictionary(column.type) or column.null_count:
        return True
    return any(chunk.dictionary.null_count for chunk in column.chunks)


_NO_RUN = -1
_SPARE_RUNS = 1 << 12  # runs that may be over before they are forgotten
_SPARE_GROUPS = 1 << 16  # the same of groups, which cost more to forget


def window_columns(assigners: Sequence[WindowAssigner]) -> Windows:
    """Return the windows of several queries, of which one must be empty before a group appears anew."""
    table = np.array([(a.size, a.slide, a.origin) for a in assigners], np.int64).reshape(-1, 3)
    return Windows(*(np.ascontiguousarray(column) for column in table.T))


class GroupTracker:
    """Numbers the groups of a stream in the order in which they appear.

    With `forgets`, a group's rows are numbered by runs: a run ends when a window passes that holds no row of the group.
    Nothing of it is in an answer any more, so it makes no difference when it is forgotten: if the group returns, that
    is another run in any case. Rows must then come in the order of time.

    Examples
    --------
    >>> tracker = GroupTracker(["s"], forgets=True)
    >>> windows = Windows(np.array([2]), np.array([2]), np.array([0]))
    >>> code = tracker.codes(pa.table({"s": ["a", "b", "a", "a"]}))
    >>> tracker.numbers(code, np.array([1, 2, 3, 7]), windows).tolist(), tracker.values(np.array([2]))[0].to_pylist()
    ([0, 1, 0, 2], ['a'])
    """

    def __init__(self, per: Sequence[str], *, forgets: bool) -> None:
        self.known = Groups(per)
        self.forgets = forgets
        self._runs = 0
        self._owner = np.empty(0, np.int32)  # the group of each run; there is room for more
        self._run = np.empty(0, np.int32)  # the current run of each group
        self._last = np.empty(0, np.int64)  # the time of its last row
        self._active, self._active_groups = 0, 0  # runs and groups when some were last forgotten

    @property
    def per(self) -> list[str]:
        """The columns that make the groups."""
        return self.known.per

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return self._runs if self.forgets else len(self.known)

    def codes(self, rows: pa.Table) -> np.ndarray:
        """Return the code of each row's group, which `numbers` turns into its number."""
        return self.known.codes(rows)

    def numbers(self, code: np.ndarray, time: np.ndarray, windows: Windows) -> np.ndarray:
        """Return the number of each row's group, given its code."""
        if not self.forgets:
            return code

        self._make_room(len(self.known), self._runs + len(code))
        number, runs = number_runs(
            read_only(code), read_only(time), self._run, self._last, self._owner, self._runs, windows
        )
        self._runs = int(runs)
        return number

    def late_numbers(self, code: np.ndarray, time: np.ndarray, now: int, windows: Windows) -> np.ndarray:
        """Return the number of each row's group, of rows whose panes had closed at `now`.

        A group goes on unless one of its windows was empty when it closed.
        """
        if not self.forgets:
            return code
        self._make_room(len(self.known), 0)
        groups = np.unique(code)
        last = np.where(self._run[groups] == _NO_RUN, MIN_TIME, self._last[groups])
        number = self.numbers(code, np.full(len(code), now), windows)
        self._last[groups] = last
        np.maximum.at(self._last, code, time)
        return number

    def _make_room(self, groups: int, runs: int) -> None:
        if groups > len(self._run):
            more = grown_capacity(groups, len(self._run)) - len(self._run)
            self._run = np.concatenate([self._run, np.full(more, _NO_RUN, np.int32)])
            self._last = np.concatenate([self._last, np.zeros(more, np.int64)])
        if runs > len(self._owner):
            more = grown_capacity(runs, len(self._owner)) - len(self._owner)
            self._owner = np.concatenate([self._owner, np.zeros(more, np.int32)])

    def values(self, number: np.ndarray) -> list[pa.ChunkedArray]:
        """Return the `per` columns of groups."""
        return self.known.values(self._owner[number] if self.forgets else number)

    # ------------------------------------------------------------ forgetting

    def due(self) -> tuple[bool, bool]:
        """Return whether there are so many runs, and so many groups, that forgetting some is worth the work."""
        runs = self.forgets and self._runs > 2 * self._active + _SPARE_RUNS
        return runs, self.forgets and len(self.known) > 2 * self._active_groups + _SPARE_GROUPS

    def open_runs(self, since: int, windows: Windows) -> np.ndarray:
        """Return the runs that a row at `since` or later may belong to."""
        group = self._owner[: self._runs]
        current = np.flatnonzero(self._run[group] == np.arange(self._runs))
        last = self._last[group[current]]
        goes_on = np.full(len(current), len(windows.size) == 0)
        for size, slide, origin in zip(*(column.tolist() for column in windows), strict=True):
            end = last + size if slide == 0 else origin + ((last - origin) // slide + 1) * slide + size
            goes_on |= end > since
        return current[goes_on]

    def keep(self, runs: np.ndarray) -> None:
        """Forget all runs but these, which are ascending and get the numbers from 0 on."""
        number = np.full(self._runs, _NO_RUN, np.int32)
        number[runs] = np.arange(len(runs), dtype=np.int32)
        known = self._run >= 0
        self._run[known] = number[self._run[known]]
        self._owner = self._owner[runs]
        self._runs = self._active = len(runs)

    def keep_groups(self, codes: np.ndarray) -> np.ndarray:
        """Forget all groups without a run but these; return the new code of each group."""
        known = np.unique(np.concatenate([self._owner[: self._runs], codes]))
        self.known.keep(known)
        self._make_room(int(known.max(initial=-1)) + 1, 0)
        code = np.zeros(len(self._run), np.int32)
        code[known] = np.arange(len(known), dtype=np.int32)
        self._owner = code[self._owner[: self._runs]]
        self._run, self._last = self._run[known], self._last[known]
        self._active_groups = len(known)
        return code

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> tuple[dict[str, Any], np.ndarray]:
        """Return the groups by the numbers of their runs, then the others; and the new code of each group."""
        table = self.known.table()
        if table is None:
            return {}, np.empty(0, np.int32)
        if not self.forgets:
            return {"groups": table}, np.arange(len(self.known), dtype=np.int32)
        owner = self._owner[: self._runs]
        code = np.full(len(self.known), -1, np.int32)
        code[owner] = np.arange(len(owner), dtype=np.int32)
        rest = np.flatnonzero(code < 0)
        code[rest] = np.arange(len(owner), len(owner) + len(rest), dtype=np.int32)
        values = self.known.values(np.concatenate([owner, rest]))
        return {"groups": pa.Table.from_arrays(values, names=self.per), "groups/last": self._last[owner]}, code

    def restore(self, snapshot: Mapping[str, Any], now: int) -> np.ndarray:
        """Go on from a snapshot; return the code of each of its groups."""
        table = snapshot.get("groups")
        if table is None:
            return np.empty(0, np.int32)
        require(isinstance(table, pa.Table), "groups is not a table")
        if not self.forgets:
            self.known.load(table)
            return np.arange(len(self.known), dtype=np.int32)
        code = self.known.codes(table)
        # states of format 1 do not say when a group was last seen: it goes on
        last = {"groups/last": np.full(len(code), now), **snapshot}
        last_time = validate(last, {"groups/last": typed_column("i8", "runs")})["groups/last"]
        require(len(last_time) <= len(code), "groups/last has more groups than there are")
        owner = code[: len(last_time)]
        self._make_room(len(self.known), len(owner))
        self._runs = len(owner)
        self._owner[: len(owner)] = owner
        self._run[owner] = np.arange(len(owner), dtype=np.int32)
        self._last[owner] = last_time
        return code
