"""Rows ready for an operator, as columns of numbers, and the buffer that puts them in the order of time.

The rows themselves are in the row store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.engines.validation import any_int_column, require, typed_column, validate

if TYPE_CHECKING:
    from skyband.windows import WindowAssigner, WindowAssignerUnion


class PreparedBatch(NamedTuple):
    """Rows with their time, score, tie order and group.

    Of rows with equal score and time the one with the larger `tie` ranks first, one without a tie last.
    """

    row_id: np.ndarray  # int64: where the row is in the row store
    time: np.ndarray  # int64: microseconds, or the position within the group
    score: np.ndarray  # float64, NaN where there is none; (rows, axes) for points; zeros where it is not known yet
    tie: np.ndarray | None = None  # int64; None: the later row ranks first
    missing: np.ndarray | None = None  # which rows have no tie; None: all have one
    group: np.ndarray | None = None  # int32; None: there is one group

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.row_id)

    def take(self, places: np.ndarray | slice) -> PreparedBatch:
        """Return the rows at these places."""
        return PreparedBatch(*(None if column is None else column[places] for column in self))  # type: ignore[arg-type]

    def tie_order(self) -> np.ndarray | None:
        """Return numbers that order the rows of this batch by their tie, those without one first."""
        if self.tie is None or self.missing is None:
            return self.tie
        return np.where(self.missing, 0, np.unique(self.tie, return_inverse=True)[1] + 1)

    def is_sorted(self) -> bool:
        """Return whether the rows are in the order of time and tie."""
        time, tie = self.time, self.tie_order()
        if not is_ascending(time):
            return False
        return tie is None or bool(((time[1:] > time[:-1]) | (tie[1:] >= tie[:-1])).all())

    def sorted(self) -> PreparedBatch:
        """Return the rows in the order of time and tie; rows that agree in both keep their order."""
        if self.is_sorted():
            return self
        tie = self.tie_order()
        return self.take(np.lexsort((self.time,) if tie is None else (tie, self.time)))


def is_ascending(values: np.ndarray) -> bool:
    """Return whether values never fall."""
    return bool((values[1:] >= values[:-1]).all())


def concat_batches(batches: Sequence[PreparedBatch]) -> PreparedBatch:
    """Return the rows of all batches, in the order given."""
    if len(batches) == 1:
        return batches[0]
    if any(batch.missing is not None for batch in batches):
        batches = [
            batch if batch.missing is not None else batch._replace(missing=np.zeros(batch.size, np.bool_))
            for batch in batches
        ]
    columns = zip(*batches, strict=True)
    return PreparedBatch(*(None if column[0] is None else np.concatenate(column) for column in columns))  # type: ignore[arg-type]


class RowOrder:
    """Time and tie of numbered rows, which order those of equal score that an engine does not take in order.

    Examples
    --------
    >>> order, none = RowOrder(), np.empty(0)
    >>> order.add(np.array([0, 1]), PreparedBatch(none, np.array([5, 9]), none))
    >>> order.add(np.array([2]), PreparedBatch(none, np.array([7]), none))
    >>> order.ranks(np.array([2, 1, 0])).tolist()
    [1, 2, 0]
    """

    def __init__(self) -> None:
        self._parts: list[PreparedBatch] = []  # the numbers are the row ids, ascending

    def add(self, number: np.ndarray, batch: PreparedBatch) -> None:
        """Note the time and tie of rows, given their numbers, which are larger than those before."""
        self._parts.append(PreparedBatch(number, batch.time, number, batch.tie, batch.missing))

    def whole(self) -> PreparedBatch | None:
        """Return all rows; None if there are none."""
        if len(self._parts) > 1:
            self._parts = [concat_batches(self._parts)]
        return self._parts[0] if self._parts else None

    def numbers(self) -> np.ndarray:
        """Return the numbers of all rows."""
        whole = self.whole()
        return np.empty(0, np.int64) if whole is None else whole.row_id

    def ranks(self, number: np.ndarray) -> np.ndarray:
        """Return numbers that order these rows by time, tie and number."""
        whole, rank = self.whole(), np.empty(len(number), np.int64)
        assert whole is not None
        rows = whole.take(np.searchsorted(whole.row_id, number))
        tie = rows.tie_order()
        rank[np.lexsort((number, rows.time) if tie is None else (number, tie, rows.time))] = np.arange(len(number))
        return rank

    def keep(self, number: np.ndarray) -> None:
        """Forget all rows but these."""
        whole = self.whole()
        if whole is not None:
            self._parts = [whole.take(np.flatnonzero(np.isin(whole.row_id, number)))]

    def snapshot(self) -> dict[str, np.ndarray]:
        """Return what is known as named arrays."""
        whole = self.whole()
        if whole is None:
            return {}
        columns = {"number": whole.row_id, "time": whole.time, "tie": whole.tie, "missing": whole.missing}
        return {name: column for name, column in columns.items() if column is not None}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""
        found = validate(saved, {name: spec for name, spec in _ORDER.items() if name in saved})
        if found:
            require(np.diff(found["number"]) > 0, "order/number is not ascending")
            batch = PreparedBatch(found["number"], found["time"], found["number"], found.get("tie"))
            self._parts = [batch._replace(missing=found.get("missing"))]


_ORDER = {
    "number": typed_column("i8", "rows"),
    "time": typed_column("i8", "rows"),
    "tie": any_int_column("rows"),
    "missing": typed_column("?", "rows"),
}


_MAX_ROWS = 1 << 16  # buffered before rows that cannot be in an answer are pruned
_FAN_IN = 16  # runs that are merged, ...
_RUN_SIZES = (16, 256, 4096)  # ... if each has at most so many rows


class ReorderBuffer:
    """Rows whose pane is still open, in sorted runs.

    Cost: O(log) merges a row, however small the batches. Memory: at most four times the k best rows of every open pane
    and group, and 65,536 rows, if rows can be pruned.
    """

    def __init__(self) -> None:
        self.runs: list[PreparedBatch] = []
        self._limit = _MAX_ROWS
        self.pruned = False  # whether rows were ever pruned

    def __len__(self) -> int:
        return sum(run.size for run in self.runs)

    def add(self, batch: PreparedBatch) -> None:
        """Take rows in any order."""
        if not batch.size:
            return
        self.runs.append(batch.sorted())
        for size in _RUN_SIZES:
            last = self.runs[-_FAN_IN:]
            if len(last) == _FAN_IN and all(run.size <= size for run in last):
                self.runs[-_FAN_IN:] = [concat_batches(last).sorted()]

    def release(self, before: int) -> list[PreparedBatch]:
        """Take out the rows before a moment, as batches that follow each other."""
        out, rest = [], []
        for run in self.runs:
            cut = 0 if run.time[0] >= before else int(np.searchsorted(run.time, before))
            if cut:
                out.append(run.take(slice(0, cut)) if cut < run.size else run)
            if cut < run.size:
                rest.append(run.take(slice(cut, None)) if cut else run)
        self.runs = rest
        if len(out) > 1 and sum(batch.size for batch in out) <= _RUN_SIZES[-1]:
            return [concat_batches(out).sorted()]
        return _in_sequence(out)

    def prune(self, assigner: WindowAssigner | WindowAssignerUnion, k: int) -> bool:
        """If there are many rows, keep the k best of each pane and group; return whether that was done."""
        if len(self) <= self._limit:
            return False
        self.runs = [_best_rows(concat_batches(self.runs), assigner, k).sorted()]
        self._limit, self.pruned = max(_MAX_ROWS, 4 * len(self)), True
        return True

    def oldest(self) -> int | None:
        """Return the time of the oldest row; None if there is none."""
        return min((int(run.time[0]) for run in self.runs), default=None)

    def whole(self) -> PreparedBatch:
        """Return all rows as one run."""
        self.runs = [concat_batches(self.runs).sorted()]
        return self.runs[0]

    def row_ids(self) -> np.ndarray:
        """Return where the rows are in the row store."""
        return np.concatenate([np.empty(0, np.int64), *(run.row_id for run in self.runs)])

    def groups(self) -> np.ndarray:
        """Return the groups of the rows."""
        groups = [run.group for run in self.runs if run.group is not None]
        return np.concatenate([np.empty(0, np.int32), *groups])

    def renumber_groups(self, number: np.ndarray) -> None:
        """Give the groups their new numbers."""
        self.runs = [run if run.group is None else run._replace(group=number[run.group]) for run in self.runs]


def _in_sequence(runs: list[PreparedBatch]) -> list[PreparedBatch]:
    """Return the same rows in batches that follow each other in time; only what overlaps is merged.

    Mostly that is next to nothing: the rows of one moment at the end of a batch and at the beginning of the next.
    """
    found = runs[:1]
    for run in runs[1:]:
        last = found.pop()
        low = int(np.searchsorted(last.time, run.time[0]))
        cut = int(np.searchsorted(run.time, last.time[-1], side="right"))
        if low == 0 and found and found[-1].time[-1] >= run.time[0]:
            return [concat_batches(runs).sorted()]  # overlaps more than one
        if low:
            found.append(last.take(slice(0, low)))
        if cut:
            found.append(concat_batches([last.take(slice(low, None)), run.take(slice(0, cut))]).sorted())
        if cut < run.size:
            found.append(run.take(slice(cut, None)))
    return found


def _best_rows(batch: PreparedBatch, assigner: WindowAssigner | WindowAssignerUnion, k: int) -> PreparedBatch:
    """Return the k best rows of each pane and group, and the first one, which decides the order of groups."""
    pane = np.asarray(assigner.pane(batch.time))
    group = np.zeros(batch.size, np.int32) if batch.group is None else batch.group
    tie = batch.tie_order()
    tie = np.arange(batch.size) if tie is None else tie
    order = np.lexsort((~tie, ~batch.time, -batch.score, group, pane))
    new = np.r_[True, (np.diff(pane[order]) != 0) | (np.diff(group[order]) != 0)]
    starts = np.flatnonzero(new)
    rank = np.arange(batch.size) - np.repeat(starts, np.diff(np.r_[starts, batch.size]))
    keep = np.zeros(batch.size, np.bool_)
    keep[order[rank < k]] = True
    if batch.group is not None:
        keep[np.lexsort((tie, batch.time, group, pane))[starts]] = True
    return batch.take(np.flatnonzero(keep))
