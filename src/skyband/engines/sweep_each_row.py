"""Our own engine after every row: one comparison for nearly every row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.groups import Pool, enlarged, marks_of, put_marks, room_for, touched
from skyband.engines.protocol import Answers, Engine, Objects, Snapshot
from skyband.engines.validation import banded, checked, held, real, require
from skyband.kernels.answers import AnswerBuffer
from skyband.kernels.eachgroup import Bands, Marks, advanced, settled
from skyband.kernels.eachrow import ANSWERS, ARRIVALS, CHANGES, Shape
from skyband.kernels.order import by_group
from skyband.kernels.sweep import NEVER, Rows
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily

_MOST = 1 << 24  # rows of answers written before the kernel comes up for air
_LEAST = 1 << 12
_EMITS = {"answers": ANSWERS, "changes": CHANGES, "arrivals": ARRIVALS}
_HOLDS = {
    "score": real("rows"),
    "time": held("i8", "rows"),
    "mark": held("i8", "rows"),
    "first": held("i8", 2, "groups"),
    "done": held("i8", "groups"),
    "step": held("i8", "groups"),
    "shown": held("?", "groups"),
    "ranked": held("i8", "groups"),
    "base": held("i8", "groups", low=0),
    "bar": real("groups"),
    "lost": held("?", "groups"),
    "peak": held("i8", low=0),
}
_FRESH = {"done": 0, "step": 0, "shown": False, "ranked": 0, "base": 0, "bar": -np.inf, "lost": False}


class SweepEachRow(Engine):
    """Keep the best of the window ranked down to a bar, and pass over all rows below it.

    No list changes while no row reaches the bar and none of the k best expires, so the next row to look at is found
    by one comparison a row, many at once. Only when fewer than k of the ranked are left above the bar, or
    the batch ends, one walk back over the rows passed over since finds the few that fewer than k later ones
    beat. They wait, unsorted, until the bar comes down to them or there are half as many as ranked ones; then one walk
    from the best row down merges both and drops what k better rows outlive. Exact; all groups in one call.

    Stretches of scores that only fall, or only rise, need no ranking: falling rows go behind the list as they are, and
    with "arrivals" whole stretches get in and out of the answer at once, as fast as they can be written down.

    Cost: O(1) for nearly every row, O(k) when a row enters the k best or one of them expires; O(k) a list.
    Memory: what fewer than k better rows outlive, about k * (1 + ln(size / k)) in random order; after a merge it may
    grow by half, or by 16 rows, before the next.

    With "arrivals" each row is given once; with "changes" only the lists that differ from the one before.

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

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        query = family.query
        window, spare = query.window, math.ceil(4 * math.sqrt(query.k))
        self._shape = Shape(int(query.k), WindowAssigner.of(window).size, spare, window.counts, _EMITS[query.emit], 0)
        self._room = _LEAST
        self._upto = NEVER
        self._sorted = (np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64))
        if resume is None:
            none = np.empty(0, np.int64)
            self._bands = Pool(Bands(np.empty(0), none, none, np.empty((2, 0), np.int64)))
            self._marks = Marks(none, none, np.empty(0, np.bool_), none, none, np.empty(0), np.empty(0, np.bool_))
            self.peak = 0
        else:
            saved = checked(resume, _HOLDS)
            banded(saved, saved, "mark")
            require(not window.counts or saved["done"] >= 0, "done has a position before the first")
            self._bands = Pool(Bands(*(saved[name] for name in Bands._fields)))
            self._marks = Marks(*(saved[name] for name in Marks._fields))
            self.peak = int(saved["peak"])
        self._groups = len(self._marks.done)  # there may be room for more

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:
        """Take `arrivals`, a step for each; or a step for each position before `upto`.

        Groups without a step cost nothing. For counting windows `moved` are the groups whose `upto` is another than
        before; None: it may be any.
        """
        groups = self._groups
        if isinstance(upto, np.ndarray):
            groups = max(groups, len(upto))
        else:
            self._upto = max(self._upto, upto)
        if arrivals.group is not None and len(arrivals.group):
            groups = max(groups, int(arrivals.group.max()) + 1)
        self._enlarge(max(groups, 1 if arrivals.group is None else 0))
        some = None
        if arrivals.group is not None and not (isinstance(upto, np.ndarray) and moved is None):
            some = touched(arrivals.group, moved, len(self._marks.done))
        if arrivals.group is None or some is None:
            room = len(self._marks.done)
            if not isinstance(upto, np.ndarray):
                goal = np.full(room, upto, np.int64)
            else:
                goal = upto if len(upto) == room else np.concatenate([upto, np.zeros(room - len(upto), np.int64)])
            bands, answers = self._stepped(self._bands.whole(), self._marks, arrivals, goal)
            self._bands.replace(bands)
            return answers
        marks = marks_of(self._marks, some)
        mine = arrivals._replace(group=np.searchsorted(some, arrivals.group).astype(np.int32))
        goal = upto[some] if isinstance(upto, np.ndarray) else np.full(len(some), upto, np.int64)
        bands, answers = self._stepped(self._bands.part(some), marks, mine, goal)
        self._bands.put(some, bands)
        put_marks(self._marks, some, marks)
        return answers._replace(group=some[answers.group].astype(np.int32))

    def _stepped(self, bands: Bands, marks: Marks, arrivals: Objects, goal: np.ndarray) -> tuple[Bands, Answers]:
        """Take the arrivals of some groups."""
        others = len(self._bands) - len(bands.mark)
        rows = self._by_group(arrivals, len(goal))
        held = len(bands.mark) + len(rows.id)
        shape = self._shape._replace(most=min(self._shape.k, held))
        steps = int((goal - marks.done).clip(0).sum()) if shape.counts else len(rows.id)
        most = held if shape.emit == ARRIVALS else (steps + 1) * shape.most  # rows it can tell
        room = min(most, _MOST if shape.emit == ANSWERS else self._room)
        page, listed, written, owners = self._page(steps, max(room, shape.most, 1)), 0, 0, []
        while True:
            bands, lists, written, peak, more = advanced(bands, marks, rows, goal, shape, page, listed, written)
            self.peak = max(self.peak, int(peak) + others)
            listed += int(lists.sum())
            owners.append(lists)
            if not more:
                break
            left = int((rows.first[1] - rows.first[0]).sum())
            likely = written * left // max(len(rows.id) - left, 1)  # if it goes on like that
            room = min(max(written, likely + likely // 8, _LEAST), most, max(written, _MOST))
            steps = max(steps, 2 * listed)  # never less than there is to tell, even if the state was forged
            longer = self._page(steps, max(written, listed) + max(room, shape.most, 1))
            for new, old in zip(longer, page, strict=True):
                new[: min(len(old), len(new))] = old[: len(new)]
            page = longer
        self._room = max(_LEAST, 2 * written)
        return bands, _bound(page.written(listed, int(written)), owners, once=shape.emit == ARRIVALS)

    def _page(self, steps: int, room: int) -> AnswerBuffer:
        """Room for answers. It is dear even if little is written to it, so there is seldom room for all that may be."""
        counts, ranks = self._shape.counts, self._shape.emit == ARRIVALS
        columns = [*(() if counts else ("end",)), *(("rank",) if ranks else ())]
        page = AnswerBuffer.allocate(min(steps + 1, room), room, *columns)
        return page._replace(end=page.step) if counts else page  # a column less, where they are the same

    def _by_group(self, rows: Objects, groups: int) -> Rows:
        """The rows group by group, in their order within each; in room that serves again."""
        size = len(rows.id)
        single = groups == 1 or rows.group is None
        fit = all(column.flags.c_contiguous and column.flags.writeable for column in rows[:3])
        if single and fit:
            return Rows(rows.score, rows.time, rows.id, np.array([[0], [size]]))
        if len(self._sorted[0]) < size:
            self._sorted = (np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64))
        score, time, number = (column[:size] for column in self._sorted)
        if single:  # columns that may not be written to would make numba compile the loop once more for each mixture
            for new, old in zip((score, time, number), rows[:3], strict=True):
                new[:] = old
            return Rows(score, time, number, np.array([[0], [size]]))
        first = by_group(rows.score, rows.time, rows.id, rows.group, groups, score, time, number)
        return Rows(score, time, number, first)

    def _enlarge(self, groups: int) -> None:
        """Make room for groups not met before."""
        room = len(self._marks.done)
        if groups > room:
            room = room_for(groups, room)
            fresh = _FRESH if self._shape.counts else {**_FRESH, "done": NEVER}
            self._marks = enlarged(self._marks, room, fresh)
            self._bands.enlarge(room)
        self._groups = max(self._groups, groups)

    def active_groups(self) -> np.ndarray:
        """Groups that keep rows of the window, or have yet to say that it has become empty.

        With "changes" these are all groups: their steps are counted, and what leaves a window shows at the next row.
        """
        if self._shape.counts:
            return np.flatnonzero((self._bands.first[1] > self._bands.first[0]) | self._marks.shown)
        if self._shape.emit == CHANGES:
            return np.arange(self._groups)
        self.candidates()  # drops what has left the window
        return np.flatnonzero(self._bands.first[1] > self._bands.first[0])

    def keep_groups(self, keep: np.ndarray) -> None:
        """Forget all groups but these, all of those that are busy among them; they are numbered anew."""
        known = keep[keep < self._groups]
        self._marks, self._groups = marks_of(self._marks, known), len(known)
        self._bands.regroup(known)

    def candidates(self) -> Objects:
        """Exactly what fewer than k better rows outlive in each group, best first."""
        if not self._shape.counts:  # groups without rows have not been told how far time has come
            np.maximum(self._marks.done, self._upto, out=self._marks.done)
        bands = settled(self._bands.whole(), self._marks, self._shape)
        self._bands.replace(bands)
        sizes = bands.first[1] - bands.first[0]
        group = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        return Objects(bands.score, bands.time, bands.mark >> 1, group)

    def with_family(self, family: QueryFamily) -> SweepEachRow:
        """An engine for another family that goes on from here: with another k, or giving out other lists.

        A larger k is exact for windows that begin after all rows so far. The next step of each group gives its list.
        """
        other = SweepEachRow(family, self.snapshot())
        other._marks.lost[:], other._upto = True, self._upto
        return other

    def reported(self) -> np.ndarray:
        """The ids of rows that were given out as arrivals and are still kept."""
        mark: np.ndarray = self._bands.whole().mark
        return mark[mark & 1 == 1] >> 1

    def kept_counts(self) -> tuple[int, int]:
        """References to rows, and rows: those ranked and those that wait."""
        return len(self._bands), len(self._bands)

    def snapshot(self) -> Snapshot:
        """The bands and the marks of all groups."""
        known = slice(self._groups)
        bands = self._bands.whole()
        return {
            **{name: column.copy() for name, column in bands._replace(first=bands.first[:, known])._asdict().items()},
            **{name: column[known].copy() for name, column in self._marks._asdict().items()},
            "peak": np.array(self.peak),
        }


def _bound(page: AnswerBuffer, owners: list[np.ndarray], *, once: bool) -> Answers:
    """The page ordered by end, group and step; `owners` has the number of each group's lists, in the page's order."""
    groups = len(owners[0])
    if groups == 1:
        group = np.zeros(len(page.step), np.int32)
    else:
        group = np.repeat(np.tile(np.arange(groups, dtype=np.int32), len(owners)), np.concatenate(owners))
    answers = Answers(page.step, page.end, group, page.first, page.id, page.score, page.rank if once else None)
    return answers if groups == 1 else answers.in_order()
