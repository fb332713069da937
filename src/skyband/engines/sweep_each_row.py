"""Our own engine after every row: one comparison for nearly every row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skyband.engines.groups import MAX_BUFFER_ROWS, GroupedEngine
from skyband.engines.protocol import Answers, Objects
from skyband.engines.validation import ColumnSpec, check_bands, float_column, require, typed_column
from skyband.kernels.answers import AnswerBuffer
from skyband.kernels.row_steps import ANSWERS, ARRIVALS, CHANGES, RowShape
from skyband.kernels.row_sweep import RowBands, RowMarks, settle_rows, sweep_rows
from skyband.kernels.sweep import Rows
from skyband.windows import MIN_TIME, WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily

_MIN_BUFFER_ROWS = 1 << 12
_EMITS = {"answers": ANSWERS, "changes": CHANGES, "arrivals": ARRIVALS}


class SweepEachRow(GroupedEngine):
    """Keep the best of the window ranked down to a bar, and skip all rows below it.

    No list changes while no row reaches the bar and none of the k best expires, so the next row to look at is found
    by one comparison a row, many at once. Only when fewer than k of the ranked rows are left above the bar, or the
    batch ends, one walk back over the skipped rows finds the few that fewer than k later ones beat. They are pending,
    unsorted, until the bar comes down to them or there are half as many as ranked rows; then one walk from the best
    row down merges both and drops what k better rows outlive. Exact; all groups in one call.

    Stretches of scores that only fall, or only rise, need no ranking: falling rows are appended as they are, and
    with "arrivals" whole stretches enter and leave the answer at once, as fast as they can be written.

    Cost: O(1) for nearly every row, O(k) when a row enters the k best or one of them expires; O(k) a list.
    Memory: what fewer than k better rows outlive, about k * (1 + ln(size / k)) in random order; after a merge it may
    grow by half, or by 16 rows, before the next.

    With "arrivals" each row is returned once; with "changes" only the lists that differ from the one before.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3), emit="arrivals")
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="sweep").select(["window_end", "score"]).to_pylist()
    [{'window_end': 1, 'score': 5.0}, {'window_end': 4, 'score': 3.0}]

    References
    ----------
    The bar is that of Pripuzic et al., TODS 2015, section 4.1 (PA); the rows below it are what makes it exact here.
    """

    columns: ClassVar[Mapping[str, ColumnSpec]] = {
        "score": float_column("rows"),
        "time": typed_column("i8", "rows"),
        "mark": typed_column("i8", "rows"),
        "first": typed_column("i8", 2, "groups"),
        "done": typed_column("i8", "groups"),
        "step": typed_column("i8", "groups"),
        "shown": typed_column("?", "groups"),
        "ranked": typed_column("i8", "groups"),
        "base": typed_column("i8", "groups", low=0),
        "bar": float_column("groups"),
        "lost": typed_column("?", "groups"),
        "peak": typed_column("i8", low=0),
    }
    parts: ClassVar = (("", RowBands), ("", RowMarks))
    new_group: ClassVar = {"done": 0, "step": 0, "shown": False, "ranked": 0, "base": 0, "bar": -np.inf, "lost": False}

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        query, assigner = family.query, WindowAssigner.of(family.query.window)
        spare, emit = math.ceil(4 * math.sqrt(query.k)), _EMITS[query.emit]
        self._shape = RowShape(int(query.k), assigner.size, spare, assigner.counts, emit, 0)
        self._buffer_rows = _MIN_BUFFER_ROWS
        if not assigner.counts:
            self.new_group = {**self.new_group, "done": MIN_TIME}  # type: ignore[misc]
        super().__init__(resume)

    def _check(self, saved: Mapping[str, np.ndarray]) -> None:
        check_bands(saved, saved["ranked"], "mark")
        require(not self._shape.counts or saved["done"] >= 0, "done has a position before the first")

    def _process(self, rows: list[Any], marks: Any, arrivals: Objects, goal: np.ndarray) -> tuple[list[Any], Answers]:
        """Take a step for each arrival, or for each position before `goal`."""
        (bands,) = rows
        others = len(self._bands) - len(bands.mark)
        taken = Rows(*self._sort_by_group(arrivals, len(goal)))
        held = len(bands.mark) + len(taken.id)
        shape = self._shape._replace(most=min(self._shape.k, held))
        steps = int((goal - marks.done).clip(0).sum()) if shape.counts else len(taken.id)
        most = held if shape.emit == ARRIVALS else (steps + 1) * shape.most  # rows it can report
        capacity = min(most, MAX_BUFFER_ROWS if shape.emit == ANSWERS else self._buffer_rows)
        buffer, listed, written, owners = self._allocate(steps, max(capacity, shape.most, 1)), 0, 0, []
        while True:
            bands, lists, written, peak, more = sweep_rows(bands, marks, taken, goal, shape, buffer, listed, written)
            self.peak = max(self.peak, int(peak) + others)
            listed += int(lists.sum())
            owners.append(lists)
            if not more:
                break
            left = int((taken.first[1] - taken.first[0]).sum())
            likely = written * left // max(len(taken.id) - left, 1)  # if it goes on like that
            capacity = max(written, likely + likely // 8, _MIN_BUFFER_ROWS)
            capacity = min(capacity, most, max(written, MAX_BUFFER_ROWS))
            steps = max(steps, 2 * listed)  # never less than there is to report, even if the state was forged
            longer = self._allocate(steps, max(written, listed) + max(capacity, shape.most, 1))
            for new, old in zip(longer, buffer, strict=True):
                new[: min(len(old), len(new))] = old[: len(new)]
            buffer = longer
        self._buffer_rows = max(_MIN_BUFFER_ROWS, 2 * written)
        return [bands], self._answers(buffer.written(listed, int(written)), owners)

    def _allocate(self, steps: int, rows: int) -> AnswerBuffer:
        """Return a buffer. It is expensive even if little is written to it, so it seldom fits all that may be."""
        counts, ranks = self._shape.counts, self._shape.emit == ARRIVALS
        columns = [*(() if counts else ("end",)), *(("rank",) if ranks else ())]
        buffer = AnswerBuffer.allocate(min(steps + 1, rows), rows, *columns)
        return buffer._replace(end=buffer.step) if counts else buffer  # where they are equal, one column less

    def _answers(self, buffer: AnswerBuffer, owners: list[np.ndarray]) -> Answers:
        """Make answers in order; `owners` has the number of each group's lists, in the order of the buffer."""
        groups = len(owners[0])
        group = np.zeros(len(buffer.step), np.int32)
        if groups > 1:
            group = np.repeat(np.tile(np.arange(groups, dtype=np.int32), len(owners)), np.concatenate(owners))
        rank = buffer.rank if self._shape.emit == ARRIVALS else None
        answers = Answers(buffer.step, buffer.end, group, buffer.first, buffer.id, buffer.score, rank)
        return answers if groups == 1 else answers.in_order()

    def active_groups(self) -> np.ndarray:
        """Return the groups that keep rows, or have yet to report an empty window; for time windows, by "changes" all.

        The steps of these are counted, and what leaves a window shows at the next row.
        """
        if self._shape.counts:
            return super().active_groups()
        if self._shape.emit == CHANGES:
            return np.arange(self._groups)
        self.candidates()  # drops what has left the window
        return np.flatnonzero(self._bands.first[1] > self._bands.first[0])

    def _settle(self) -> Objects:
        if not self._shape.counts:  # groups without rows do not know how far time has come
            np.maximum(self._marks.done, self._upto, out=self._marks.done)
        bands = settle_rows(self._bands.all_rows(), self._marks, self._shape)
        self._replace_rows([bands])
        return Objects(bands.score, bands.time, bands.mark >> 1)

    def with_family(self, family: QueryFamily) -> SweepEachRow:
        """Return an engine for another family that continues from here: with another k, or returning other lists.

        A larger k is exact for windows that begin after all rows so far. The next step of each group returns its list.
        """
        other = SweepEachRow(family, self.snapshot())
        other._marks.lost[:], other._upto = True, self._upto
        return other

    def reported(self) -> np.ndarray:
        """Return the ids of rows that were reported as arrivals and are still kept."""
        mark: np.ndarray = self._bands.all_rows().mark
        return mark[mark & 1 == 1] >> 1

    def kept_counts(self) -> tuple[int, int]:
        """Return how many references to rows, and how many rows, are kept."""
        return len(self._bands), len(self._bands)
