"""Our own engine for many queries: one band for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skyband.engines.family import UNBOUNDED
from skyband.engines.groups import GroupedEngine
from skyband.engines.protocol import Answers, ChangingEngine, Objects
from skyband.engines.validation import (
    MAX_WINDOWS_AHEAD,
    ColumnSpec,
    check_bands,
    check_bounds,
    float_column,
    require,
    section,
    typed_column,
)
from skyband.kernels.answers import AnswerBuffer, concatenate
from skyband.kernels.shared.groups import rebuild_views, settle_shared, sweep_shared
from skyband.kernels.shared.memory import STRIDE, SharedMarks, SharedRows, SharedSource, shared_scratch
from skyband.kernels.shared.views import Records, Views
from skyband.windows import MIN_TIME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily

_MAX_BUFFER_ROWS = 1 << 22  # rows of answers after which the kernel returns
_LAZY = 0.385  # the part of a band that may be pending before rows are pruned
_SHORT = 1024  # rows of a band of which those below all answers need no rank


class SharedSweep(GroupedEngine, ChangingEngine):
    """One ranked band for all queries; an answer is a walk down it that skips what is too old for its query.

    A row is kept for views: a view is the rows since a window began that is still open, and the k of its query. A row
    stays while some view needs it; one walk from the best row down finds that out for all views at once, since the
    first view that needs more rows only moves on. New rows are pending, unsorted behind the band; those that reach an
    answer are few, and ranked as soon as one does. Exact; all groups in one call.

    Cost: O(1) for nearly every row, O(log q) for a window that begins or ends, O(rows of the band above its k-th) an
    answer. Memory: at most twice the minimal set of all queries, 3 numbers a view.

    Examples
    --------
    >>> import skyband as sb
    >>> queries = [sb.TopK(k=1, by="x", window=sb.Counting(n, 2)) for n in (2, 4)]
    >>> sb.run(queries, {"x": [5, 1, 2, 3]}).select(["query", "window_end", "score"]).to_pylist()[2:]
    [{'query': 'q0', 'window_end': 4, 'score': 3.0}, {'query': 'q1', 'window_end': 4, 'score': 5.0}]

    References
    ----------
    The kept set is the minimal set of Shastri et al., CIKM 2011, theorem 5.1; views are its predicted views.
    """

    columns: ClassVar[Mapping[str, ColumnSpec]] = {
        "band/score": float_column("rows"),
        "band/time": typed_column("i8", "rows"),
        "band/id": typed_column("i8", "rows"),
        "band/pane": typed_column("i4", "rows", low=-1, high=(1 << 31) - 1),
        "band/first": typed_column("i8", 2, "groups"),
        **{f"mark/{name}": typed_column("i8", "groups") for name in ("done", "last", "seen", "ranked")},
        "mark/bar": float_column(2, "groups"),
        "mark/kept": typed_column("i8", 3, "groups"),
        "mark/shown": typed_column("?", "numbers", "groups"),
        "mark/since": typed_column("i8", "moments", "groups"),
        "view/at": typed_column("i8", "views"),
        "view/end": typed_column("i8", "views"),
        "view/k": typed_column("i8", "views", low=0),
        "view/first": typed_column("i8", 2, "groups"),
        "peak": typed_column("i8", low=0),
    }
    parts: ClassVar = (("band/", SharedRows), ("view/", Views), ("mark/", SharedMarks))
    new_group: ClassVar = {
        "done": MIN_TIME,
        "last": 0,
        "seen": MIN_TIME,
        "ranked": 0,
        "bar": np.inf,
        "kept": 0,
        "shown": False,
        "since": 0,
    }

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        self._family = family
        self._records = Records(**family.records)
        self._scratch_size = (-1, -1)
        self._scratch: Any = None
        super().__init__(resume, numbers=family.numbers, moments=family.moments)

    def _check(self, saved: Mapping[str, np.ndarray]) -> None:
        band, mark, view = (section(saved, f"{part}/") for part in ("band", "mark", "view"))
        group = check_bands(band, mark["ranked"])
        views = np.append(check_bounds(view["first"], len(view["at"]), "view/first"), 0)
        require(band["pane"] < np.maximum(views[group], 1), "band/pane names a view that is not there")
        length = view["end"] - view["at"]
        longest = int(self._records.size.max(initial=0))
        require((length >= 0) & (length <= longest), "a view is longer than any window")
        require(mark["kept"][1:] >= 0, "mark/kept has a value that it cannot have")
        kept, slide = np.flatnonzero(group >= 0), int(self._records.slide.min(initial=UNBOUNDED))
        done = mark["done"][group[kept]]
        ahead = (band["time"][kept] - done) // slide
        require((done == MIN_TIME) | (ahead < MAX_WINDOWS_AHEAD), "a row lies far after what is done")

    def _may_close(self, before: int, upto: int) -> bool:
        offset, slide = self._records.origin + self._records.size, self._records.slide
        closes = before == MIN_TIME or bool(((upto - offset) // slide > (before - offset) // slide).any())
        return closes or not len(slide)

    def _process(self, rows: list[Any], marks: Any, arrivals: Objects, goal: np.ndarray) -> tuple[list[Any], Answers]:
        (bands, views), groups = rows, len(goal)
        others = len(self._bands) - len(bands.id)
        score, time, id, first = self._sort_by_group(arrivals, groups)
        taken = SharedRows(score, time, id, np.empty(0, np.int32), first)
        if not len(self._records.k):
            return [self._skip(marks, goal, taken), views], Answers.empty(queries=True)
        lists, capacity = self._buffer_size(bands, taken, goal)
        scratch = self._allocate_scratch(bands, taken)
        found, more = [], True
        while more:
            buffer = AnswerBuffer.allocate(lists, capacity, "end", "group", "query")
            bands, views, listed, size, most, more = sweep_shared(
                bands, views, SharedSource(taken, marks, self._records, buffer), goal, scratch, _LAZY, _SHORT
            )
            self.peak = max(self.peak, int(most) + others)
            found.append(buffer.written(int(listed), int(size)))
        step, end, group, query, first, id, score, _ = concatenate(found)
        answers = Answers(step, end, group.astype(np.int32), first, id, score, query=query)
        return [bands, views], answers if groups == 1 else answers.in_order()

    @staticmethod
    def _skip(marks: SharedMarks, goal: np.ndarray, rows: SharedRows) -> SharedRows:
        """Note how far rows have come while there is no member; return bands without rows."""
        first, end = rows.first
        came = np.flatnonzero(end > first)
        marks.seen[came] = np.maximum(marks.seen[came], rows.time[end[came] - 1])
        np.maximum(marks.done, goal, out=marks.done)
        marks.ranked[:], marks.bar[:], marks.kept[:] = 0, np.inf, 0
        none = np.empty(0, np.int64)
        return SharedRows(np.empty(0), none, none, np.empty(0, np.int32), np.zeros((2, len(goal)), np.int64))

    def _allocate_scratch(self, bands: SharedRows, rows: SharedRows) -> Any:
        """Return memory to work in, which is used again."""
        longest = int((bands.first[1] - bands.first[0] + rows.first[1] - rows.first[0]).max(initial=0))
        total = len(bands.id) + len(rows.id)
        if longest > self._scratch_size[0] or total > self._scratch_size[1]:
            self._scratch_size = (longest + longest // 4, total + total // 4)
            self._scratch = shared_scratch(*self._scratch_size)
        return self._scratch

    def _buffer_size(self, bands: SharedRows, rows: SharedRows, goal: np.ndarray) -> tuple[int, int]:
        """Return for how many lists and rows of answers to allocate: enough for most calls, never too much."""
        slide, k = self._records.slide, self._records.k
        kept = len(bands.id) + len(rows.id)
        span = int(rows.time.max()) - int(rows.time.min()) if len(rows.id) else 0
        times = np.minimum(span // slide + 1, max(len(rows.id), 1)) + 1
        lists = min(int(times.sum()) * len(goal) + 1, _MAX_BUFFER_ROWS)
        full = np.minimum(k, kept)
        capacity = float((times * full).sum()) * min(len(goal), max(kept, 1))
        return lists, max(int(min(capacity, _MAX_BUFFER_ROWS)), int(full.max(initial=0)), 1) + STRIDE

    def reach(self) -> int | np.ndarray:
        """Return from where on every row is still to come: a time, or the position of every group."""
        if self._family.counts:
            return np.maximum(self._marks.done[: self._groups], 0)
        done = max(int(self._marks.done.max(initial=MIN_TIME)), self._upto)
        return max(int(self._marks.seen.max(initial=MIN_TIME - 1)) + 1, done)

    def change(self, family: QueryFamily, moved: np.ndarray, positions: np.ndarray | None = None) -> None:
        """Continue with other members: `moved[i]` is the new place of member i, or -1.

        `positions` are those of each group at which the members of the newest admission were added.
        """
        self._family, old = family, self._records
        self._records = Records(**family.records)
        if (len(moved) and (moved < 0).any()) or _less(old, self._records, moved):
            self._rows[1].replace(rebuild_views(self._bands.all_rows(), self._marks, self._records))
        if positions is not None:  # a family that has just begun has met none of the groups
            self._enlarge(len(positions))
        shown, since = self._marks.shown, self._marks.since
        rows = family.numbers - len(shown)
        if rows > 0:
            shown = np.concatenate([shown, np.zeros((rows, shown.shape[1]), np.bool_)])
        else:
            shown = shown[: family.numbers]
        alive = np.zeros(len(shown), np.bool_)
        alive[self._records.number] = True
        shown = shown & alive[:, None]
        if family.moments > len(since):
            assert positions is not None
            begin = np.zeros((1, since.shape[1]), np.int64)
            begin[0, : len(positions)] = positions
            since = np.concatenate([since, begin])
        self._marks = self._marks._replace(shown=shown, since=since)

    def _settle(self) -> Objects:
        bands, views = settle_shared(self._bands.all_rows(), self._marks, self._rows[1].all_rows())
        self._replace_rows([bands, views])
        return Objects(bands.score, bands.time, bands.id)

    def bytes(self) -> int:
        """Return the size of rows and views."""
        return sum(column.nbytes for part in self._rows for column in part.all_rows())

    def views(self) -> int:
        """Return how many views are kept."""
        return len(self._rows[1])


def _less(old: Records, new: Records, moved: np.ndarray) -> bool:
    """Return whether a member that stays needs fewer rows, or fewer windows, than before."""
    stays = moved >= 0
    return bool((new.k[moved[stays]] < old.k[stays]).any() or (new.high[moved[stays]] < old.high[stays]).any())
