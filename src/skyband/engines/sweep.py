"""Our own engine: one sweep over the rows, one over the band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skyband.engines.family import UNBOUNDED
from skyband.engines.groups import MAX_BUFFER_ROWS, GroupedEngine
from skyband.engines.protocol import Answers, Engine, Objects
from skyband.engines.validation import MAX_WINDOWS_AHEAD, ColumnSpec, check_bands, object_columns, require, typed_column
from skyband.kernels.answers import AnswerBuffer, concatenate
from skyband.kernels.sweep import Marks, Rows, Shape, settle, sweep
from skyband.windows import MIN_TIME, WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily


class Sweep(GroupedEngine):
    """Scan each pane for its k best, and merge them into the band only when an answer needs them.

    A row outside the k best of its own pane can never be in an answer, and finding that out costs one comparison for
    nearly every row. The others are pending, unsorted behind the ranked band, until the k-th score comes within their
    reach, or until they are a third of the band; then one walk from the best row down merges both and drops what k
    better rows outlive. Exact; all groups in one call; every slide.

    Cost: O(1) for nearly every row, O(log k) for the others; O(k) an answer.
    Memory: about 1.5 times the minimal set in random order, at most twice; that set has about k * H(size / slide)
    rows, with H the harmonic number.

    Examples
    --------
    >>> import skyband as sb
    >>> query = sb.TopK(k=1, by="x", window=sb.Counting(3, 1))
    >>> sb.run(query, {"x": [5, 1, 2, 3]}, engine="sweep")["score"].to_pylist()
    [5.0, 5.0, 5.0, 3.0]

    References
    ----------
    The kept set is the minimal set of Yang et al., EDBT 2011, theorem 3.1. Erratum: its size averages
    k * H(size / slide) in random order, not the 2 k of theorem 3.2.
    """

    columns: ClassVar[Mapping[str, ColumnSpec]] = {
        **object_columns(),
        "first": typed_column("i8", 2, "groups"),
        "done": typed_column("i8", "groups"),
        "step": typed_column("i8", "groups"),
        "shown": typed_column("?", "groups"),
        "ranked": typed_column("i8", "groups"),
        "peak": typed_column("i8", low=0),
    }
    parts: ClassVar = (("", Rows), ("", Marks))
    new_group: ClassVar = {"done": MIN_TIME, "step": 0, "shown": False, "ranked": 0}

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        assigner = WindowAssigner.of(family.query.window)
        self._shape = Shape(int(family.query.k), assigner.size, assigner.slide, assigner.origin)
        self._closing = UNBOUNDED  # windows of a group that may close in the next call
        self._buffer: AnswerBuffer | None = None
        super().__init__(resume)

    def _check(self, saved: Mapping[str, np.ndarray]) -> None:
        group = check_bands(saved, saved["ranked"])
        kept = np.flatnonzero(group >= 0)
        ahead = (saved["time"][kept] - saved["done"][group[kept]]) // max(self._shape.slide, 1)
        require(ahead < MAX_WINDOWS_AHEAD, "a row lies far after what is done")

    def _may_close(self, before: int, upto: int) -> bool:
        _, size, slide, origin = self._shape
        if before > MIN_TIME and slide:
            self._closing = (upto - origin - size) // slide - (before - origin - size) // slide
        return self._closing > 0

    def _process(self, rows: list[Any], marks: Any, arrivals: Objects, goal: np.ndarray) -> tuple[list[Any], Answers]:
        (bands,), groups = rows, len(goal)
        others = len(self._bands) - len(bands.id)
        taken = Rows(*self._sort_by_group(arrivals, groups))
        lists, capacity = self._buffer_size(bands, taken, groups)
        found: list[AnswerBuffer] = []
        more = True
        while more:
            buffer = self._allocate(lists, capacity, fresh=groups == 1 or len(found) > 0)
            bands, listed, size, most, more = sweep(bands, marks, taken, goal, self._shape, buffer)
            self.peak = max(self.peak, int(most) + others)
            found.append(buffer.written(int(listed), int(size)))
        step, end, group, _, first, id, score, _ = concatenate(found)
        answers = Answers(step, end, group.astype(np.int32), first, id, score)
        return [bands], answers if groups == 1 else answers.in_order()

    def _allocate(self, lists: int, rows: int, *, fresh: bool) -> AnswerBuffer:
        """Return a buffer. New memory is expensive: answers of several groups are sorted, and so copied, from one."""
        old = self._buffer
        if not fresh and old is not None and len(old.id) >= rows and len(old.step) >= lists:
            return old
        buffer = AnswerBuffer.allocate(lists, rows, "end", "group")
        if not fresh:
            self._buffer = buffer
        return buffer

    def _buffer_size(self, bands: Rows, rows: Rows, groups: int) -> tuple[int, int]:
        """Return for how many lists and rows of answers to allocate: enough for most calls, never too much."""
        shape = self._shape
        kept = len(bands.id) + len(rows.id)
        most = len(rows.id)
        if shape.slide:
            if groups == 1:  # in order: a pass over the times would cost as much as one over the scores
                span = int(rows.time[-1]) - int(rows.time[0]) if most else 0
            else:
                span = int(rows.time.max()) - int(rows.time.min()) if most else 0
            most = min(min(most, span // shape.slide + 1) + shape.size // shape.slide + 1, self._closing)
        lists = min(max(most, 1) * groups + 1, MAX_BUFFER_ROWS)
        full = min(shape.k * groups, kept)
        return lists, max(min(max(most, 1) * full, MAX_BUFFER_ROWS), min(shape.k, kept), 1)

    def _settle(self) -> Objects:
        rows = settle(self._bands.all_rows(), self._marks, self._shape)
        self._replace_rows([rows])
        return Objects(rows.score, rows.time, rows.id)

    def live_ids(self) -> np.ndarray:
        """Return the ids of all rows that an answer may still contain, and of some that the next merge drops."""
        ids: np.ndarray = self._bands.all_rows().id
        return ids


def sweep_for(family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None, **options: Any) -> Engine:
    """Make the form of our engine that serves a family: over points, many queries, or one by window or by row."""
    if family.points:
        from skyband.engines.point_grid import PointGrid

        return PointGrid(family, resume, **options)
    if not family.is_single:
        from skyband.engines.sweep_shared import SharedSweep

        return SharedSweep(family, resume)
    if "every row" in family.query.window.kinds:
        from skyband.engines.sweep_each_row import SweepEachRow

        return SweepEachRow(family, resume)
    return Sweep(family, resume)
