"""Our own engine: one sweep over the rows, one over the band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines.columns import fixed
from skyband.engines.groups import Pool, enlarged, marks_of, put_marks, room_for, touched
from skyband.engines.protocol import Answers, Engine, Objects, Snapshot
from skyband.engines.validation import WINDOWS, banded, checked, held, objects, require
from skyband.kernels.answers import AnswerBuffer, concatenate
from skyband.kernels.order import by_group
from skyband.kernels.sweep import NEVER, Marks, Rows, Shape, settled, sweep
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily

_MOST = 1 << 24  # rows of answers written before the kernel comes up for air
_HOLDS = {
    **objects(),
    "first": held("i8", 2, "groups"),
    "done": held("i8", "groups"),
    "step": held("i8", "groups"),
    "shown": held("?", "groups"),
    "ranked": held("i8", "groups"),
    "peak": held("i8", low=0),
}


class Sweep(Engine):
    """Scan each pane for its k best, and merge them into the band only when an answer needs them.

    A row outside the k best of its own pane can never be in an answer, and finding that out costs one
    comparison for nearly every row. What is left waits unsorted behind the ranked band until the k-th
    score comes within its reach, or until it is a third of the band; then one walk from the best row down
    merges both and drops what k better rows outlive. Exact; all groups in one call; every slide.

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

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        query = family.query
        clock = WindowAssigner.of(query.window)
        self._shape = Shape(int(query.k), clock.size, clock.slide, clock.origin)
        self.peak = 0
        self._upto = NEVER
        self._last_page: AnswerBuffer | None = None
        self._sorted = (np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
        if resume is None:
            none = np.empty(0, np.int64)
            self._bands = Pool(Rows(np.empty(0), none, none, np.empty((2, 0), np.int64)))
            self._marks = Marks(none, none, np.empty(0, np.bool_), none)
        else:
            saved = checked(resume, _HOLDS)
            group = banded(saved, saved)
            kept = np.flatnonzero(group >= 0)
            ahead = (saved["time"][kept] - saved["done"][group[kept]]) // max(clock.slide, 1)
            require(ahead < WINDOWS, "a row lies far after what is done")
            self._bands = Pool(Rows(*(saved[name] for name in Rows._fields)))
            self._marks = Marks(*(saved[name] for name in Marks._fields))
            self.peak = int(saved["peak"])
        self._groups = len(self._marks.done)  # there may be room for more

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """Take `arrivals`, close what ends by `upto`.

        Groups in which nothing closes and nothing arrives cost nothing. For counting windows `moved` are the groups
        whose `upto` is another than before; None: it may be any.
        """
        groups = self._groups
        if isinstance(upto, np.ndarray):
            groups = max(groups, len(upto))
        if arrivals.group is not None and len(arrivals.group):
            groups = max(groups, int(arrivals.group.max()) + 1)
        self._enlarge(max(groups, 1 if arrivals.group is None else 0))
        whole = isinstance(upto, np.ndarray) and moved is None
        closing = 1 << 62
        if not isinstance(upto, np.ndarray):
            before, self._upto = self._upto, max(self._upto, upto)
            if before > NEVER and self._shape.slide:
                _, size, slide, origin = self._shape
                closing = (upto - origin - size) // slide - (before - origin - size) // slide
            whole = closing > 0
        some = None
        if arrivals.group is not None and not whole:
            some = touched(arrivals.group, moved, len(self._marks.done))
        if arrivals.group is None or some is None:
            rows, answers = self._swept(self._bands.whole(), self._marks, arrivals, self._goal(upto), closing)
            self._bands.replace(rows)
            return answers
        marks = marks_of(self._marks, some)
        mine = arrivals._replace(group=np.searchsorted(some, arrivals.group).astype(np.int32))
        goal = upto[some] if isinstance(upto, np.ndarray) else np.full(len(some), upto, np.int64)
        rows, answers = self._swept(self._bands.part(some), marks, mine, goal, closing)
        self._bands.put(some, rows)
        put_marks(self._marks, some, marks)
        return answers._replace(group=some[answers.group].astype(np.int32))

    def _goal(self, upto: int | np.ndarray) -> np.ndarray:
        """How far each group goes, those too that there is only room for."""
        room = len(self._marks.done)
        if not isinstance(upto, np.ndarray):
            return np.full(room, upto, np.int64)
        return upto if len(upto) == room else np.concatenate([upto, np.zeros(room - len(upto), np.int64)])

    def _swept(
        self, bands: Rows, marks: Marks, arrivals: Objects, goal: np.ndarray, closing: int
    ) -> tuple[Rows, Answers]:
        """Take the arrivals of some groups, in each of which at most so many windows close."""
        groups = len(goal)
        others = len(self._bands) - len(bands.id)
        rows = self._by_group(arrivals, groups)
        lists, room = self._rooms(bands, rows, groups, closing)
        pages: list[AnswerBuffer] = []
        more = True
        while more:
            page = self._page(lists, room, fresh=groups == 1 or len(pages) > 0)
            bands, listed, size, most, more = sweep(bands, marks, rows, goal, self._shape, page)
            self.peak = max(self.peak, int(most) + others)
            pages.append(page.written(int(listed), int(size)))
        return bands, _bound(pages, groups)

    def _page(self, lists: int, room: int, *, fresh: bool) -> AnswerBuffer:
        """Room for answers. NumPy's own memory comes in large pages, which halves the cost of long answers.

        New memory is dear. Answers of several groups are put in order, and so copied: their page serves again.
        """
        old = self._last_page
        if not fresh and old is not None and len(old.id) >= room and len(old.step) >= lists:
            return old
        page = AnswerBuffer.allocate(lists, room, "end", "group")
        if not fresh:
            self._last_page = page
        return page

    def _by_group(self, rows: Objects, groups: int) -> Rows:
        """The rows group by group, in their order within each; in room that serves again."""
        size = len(rows.id)
        if groups == 1 or rows.group is None:
            return Rows(fixed(rows.score), fixed(rows.time), fixed(rows.id), np.array([[0], [size]]))
        if len(self._sorted[0]) < size:
            self._sorted = (np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64))
        score, time, number = (column[:size] for column in self._sorted)
        first = by_group(rows.score, rows.time, rows.id, rows.group, groups, score, time, number)
        return Rows(fixed(score), fixed(time), fixed(number), first)

    def _rooms(self, bands: Rows, rows: Rows, groups: int, closing: int) -> tuple[int, int]:
        """How many lists and rows of answers to make room for: enough for most calls, never too much."""
        shape = self._shape
        waiting = len(bands.id) + len(rows.id)
        most = len(rows.id)
        if shape.slide:
            if groups == 1:  # in order: looking through the times would cost as much as looking through the scores
                span = int(rows.time[-1]) - int(rows.time[0]) if most else 0
            else:
                span = int(rows.time.max()) - int(rows.time.min()) if most else 0
            most = min(min(most, span // shape.slide + 1) + shape.size // shape.slide + 1, closing)
        lists = min(max(most, 1) * groups + 1, _MOST)
        full = min(shape.k * groups, waiting)
        return lists, max(min(max(most, 1) * full, _MOST), min(shape.k, waiting), 1)

    def _enlarge(self, groups: int) -> None:
        """Make room for groups not met before."""
        room = len(self._marks.done)
        if groups > room:
            room = room_for(groups, room)
            self._marks = enlarged(self._marks, room, {"done": NEVER, "step": 0, "shown": False, "ranked": 0})
            self._bands.enlarge(room)
        self._groups = max(self._groups, groups)

    def active_groups(self) -> np.ndarray:
        """Groups that keep rows, or have yet to say that their window has become empty."""
        return np.flatnonzero((self._bands.first[1] > self._bands.first[0]) | self._marks.shown)

    def keep_groups(self, keep: np.ndarray) -> None:
        """Forget all groups but these, all of those that are busy among them; they are numbered anew."""
        known = keep[keep < self._groups]
        self._marks, self._groups = marks_of(self._marks, known), len(known)
        self._bands.regroup(known)

    def candidates(self) -> Objects:
        """Exactly the minimal set of each group, best first."""
        rows = settled(self._bands.whole(), self._marks, self._shape)
        self._bands.replace(rows)
        sizes = rows.first[1] - rows.first[0]
        group = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        return Objects(rows.score, rows.time, rows.id, group)

    def live_ids(self) -> np.ndarray:
        """The ids of all rows that an answer may still name, and of some more that the next merge drops."""
        return self._bands.whole().id

    def snapshot(self) -> Snapshot:
        """The bands and the marks of all groups."""
        known = slice(self._groups)
        rows = self._bands.whole()
        return {
            **{name: column.copy() for name, column in rows._replace(first=rows.first[:, known])._asdict().items()},
            **{name: column[known].copy() for name, column in self._marks._asdict().items()},
            "peak": np.array(self.peak),
        }


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


def _bound(pages: list[AnswerBuffer], groups: int) -> Answers:
    """All pages as one, ordered by end, group and step."""
    step, end, group, _, first, ids, score, _ = concatenate(pages)
    answers = Answers(step, end, group.astype(np.int32), first, ids, score)
    return answers if groups == 1 else answers.in_order()
