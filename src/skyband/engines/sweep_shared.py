"""Our own engine for many queries: one band for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.engines.columns import fixed
from skyband.engines.groups import Pool, enlarged, marks_of, put_marks, room_for, touched
from skyband.engines.protocol import Answers, ChangingEngine, Objects, Snapshot
from skyband.engines.validation import WINDOWS, banded, checked, held, parted, real, require, under
from skyband.kernels.answers import AnswerBuffer, concatenate
from skyband.kernels.shared import STRIDE, Marks, Rows, looked, roomed, settled, shared
from skyband.kernels.views import NEVER, Records, Views

if TYPE_CHECKING:
    from skyband.engines.family import QueryFamily

_MOST = 1 << 22  # rows of answers written before the kernel comes up for air
_LAZY = 0.385  # the part of a band that may wait behind it before rows are let go
_HOLDS = {
    "band/score": real("rows"),
    "band/time": held("i8", "rows"),
    "band/id": held("i8", "rows"),
    "band/pane": held("i4", "rows", low=-1, high=(1 << 31) - 1),
    "band/first": held("i8", 2, "groups"),
    **{f"mark/{name}": held("i8", "groups") for name in ("done", "last", "seen", "ranked")},
    "mark/bar": real(2, "groups"),
    "mark/kept": held("i8", 3, "groups"),
    "mark/shown": held("?", "numbers", "groups"),
    "mark/since": held("i8", "moments", "groups"),
    "view/at": held("i8", "views"),
    "view/end": held("i8", "views"),
    "view/k": held("i8", "views", low=0),
    "view/first": held("i8", 2, "groups"),
    "peak": held("i8", low=0),
}
_FRESH = {
    "done": NEVER, "last": 0, "seen": NEVER, "ranked": 0, "bar": np.inf, "kept": 0, "shown": False, "since": 0
}  # fmt: skip
_SHORT = 1024  # rows of a band of which those below all answers need no rank


class SharedSweep(ChangingEngine):
    """One ranked band for all queries; an answer is a walk down it that skips what is too old for its query.

    What a row must be kept for is a view: the rows since a window began that is still open, and how many of them
    its query wants. A row stays while some view wants it; one walk from the best row down finds out for
    all views at once, since the first view in want only moves on. New rows wait unsorted behind the band;
    those that reach an answer are few, and ranked as soon as one does. Exact; all groups in one call.

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

    def __init__(self, family: QueryFamily, resume: Mapping[str, np.ndarray] | None = None) -> None:
        self._family = family
        self._records = Records(**family.records)
        self.peak = 0
        self._room = (-1, -1)
        self._work: Any = None
        none = np.empty(0, np.int64)
        if resume is None:
            self._bands = Pool(Rows(np.empty(0), none, none, np.empty(0, np.int32), np.empty((2, 0), np.int64)))
            shown, since = np.empty((family.numbers, 0), np.bool_), np.empty((family.moments, 0), np.int64)
            self._marks = Marks(none, none, none, none, np.empty((2, 0)), np.empty((3, 0), np.int64), shown, since)
            self._views = Pool(Views(none, none, none, np.empty((2, 0), np.int64)))
        else:
            self._restore(resume)
        self._groups = len(self._marks.done)  # there may be room for more
        self._upto = NEVER

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        saved = checked(resume, _HOLDS, numbers=self._family.numbers, moments=self._family.moments)
        band, mark, view = (under(saved, f"{part}/") for part in ("band", "mark", "view"))
        group = banded(band, mark)
        views = np.append(parted(view["first"], len(view["at"]), "view/first"), 0)
        require(band["pane"] < np.maximum(views[group], 1), "band/pane names a view that is not there")
        length = view["end"] - view["at"]
        longest = int(self._records.size.max(initial=0))
        require((length >= 0) & (length <= longest), "a view is longer than any window")
        require(mark["kept"][1:] >= 0, "mark/kept has a value that it cannot have")
        kept, slide = np.flatnonzero(group >= 0), int(self._records.slide.min(initial=1 << 62))
        ahead = (band["time"][kept] - mark["done"][group[kept]]) // slide
        require((mark["done"][group[kept]] == NEVER) | (ahead < WINDOWS), "a row lies far after what is done")
        self._bands = Pool(Rows(*(band[name] for name in Rows._fields)))
        self._marks = Marks(*(mark[name] for name in Marks._fields))
        self._views = Pool(Views(*(view[name] for name in Views._fields)))
        self.peak = int(saved["peak"])

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
        whole = self._closes(upto) if moved is None else False
        some = None
        if arrivals.group is not None and not whole and len(self._records.k):
            some = touched(arrivals.group, moved, len(self._marks.done))
        if arrivals.group is None or some is None:
            return self._advance_all(arrivals, upto)
        marks = marks_of(self._marks, some)
        mine = arrivals._replace(group=np.searchsorted(some, arrivals.group).astype(np.int32))
        goal = upto[some] if isinstance(upto, np.ndarray) else np.full(len(some), upto, np.int64)
        parts = self._bands.part(some), self._views.part(some)
        bands, views, answers = self._swept(*parts, marks, mine, goal)
        self._bands.put(some, bands)
        self._views.put(some, views)
        put_marks(self._marks, some, marks)
        return answers._replace(group=some[answers.group].astype(np.int32))

    def _advance_all(self, arrivals: Objects, upto: int | np.ndarray) -> Answers:
        room = len(self._marks.done)
        if not isinstance(upto, np.ndarray):
            goal = np.full(room, upto, np.int64)
        else:
            goal = upto if len(upto) == room else np.concatenate([upto, np.zeros(room - len(upto), np.int64)])
        if not len(self._records.k):
            return self._idle(goal, _by_group(arrivals, room))
        bands, views, answers = self._swept(self._bands.whole(), self._views.whole(), self._marks, arrivals, goal)
        self._bands.replace(bands)
        self._views.replace(views)
        return answers

    def _closes(self, upto: int | np.ndarray) -> bool:
        """Whether a window of any query may end by `upto` that had not ended before."""
        if isinstance(upto, np.ndarray):
            return True
        before, self._upto = self._upto, max(self._upto, upto)
        offset, slide = self._records.origin + self._records.size, self._records.slide
        return before == NEVER or bool(((upto - offset) // slide > (before - offset) // slide).any())

    def _swept(
        self, bands: Rows, views: Views, marks: Marks, arrivals: Objects, goal: np.ndarray
    ) -> tuple[Rows, Views, Answers]:
        """Take the arrivals of some groups."""
        groups, others = len(goal), len(self._bands) - len(bands.id)
        rows = _by_group(arrivals, groups)
        pages, more = [], True
        lists, room = self._rooms(bands, rows, goal)
        scratch = self._scratch(bands, rows)
        while more:
            page = AnswerBuffer.allocate(lists, room, "end", "group", "query")
            bands, views, listed, size, most, more = shared(
                bands, marks, rows, goal, self._records, views, page, scratch, _LAZY, _SHORT
            )
            self.peak = max(self.peak, int(most) + others)
            pages.append(page.written(int(listed), int(size)))
        return bands, views, _bound(pages, groups)

    def _scratch(self, bands: Rows, rows: Rows) -> Any:
        """Room to work in, which serves again."""
        longest = int((bands.first[1] - bands.first[0] + rows.first[1] - rows.first[0]).max(initial=0))
        total = len(bands.id) + len(rows.id)
        if longest > self._room[0] or total > self._room[1]:
            self._room = (longest + longest // 4, total + total // 4)
            self._work = roomed(*self._room)
        return self._work

    def _idle(self, goal: np.ndarray, rows: Rows) -> Answers:
        """All queries have left: keep nothing, but know how far rows have come."""
        seen = self._marks.seen.copy()
        first, end = rows.first[:, : len(seen)]
        came = end > first
        seen[came] = np.maximum(seen[came], rows.time[end[came] - 1])
        none = np.empty(0, np.int64)
        first = np.zeros((2, len(goal)), np.int64)
        self._bands.replace(Rows(np.empty(0), none, none, np.empty(0, np.int32), first))
        self._marks = self._marks._replace(
            done=np.maximum(self._marks.done, goal),
            seen=seen,
            ranked=np.zeros(len(goal), np.int64),
            bar=np.full((2, len(goal)), np.inf),
            kept=np.zeros((3, len(goal)), np.int64),
        )
        return Answers.empty(queries=True)

    def _rooms(self, bands: Rows, rows: Rows, goal: np.ndarray) -> tuple[int, int]:
        """How many lists and rows of answers to make room for: enough for most calls, never too much."""
        slide, k = self._records.slide, self._records.k
        waiting = len(bands.id) + len(rows.id)
        span = int(rows.time.max()) - int(rows.time.min()) if len(rows.id) else 0
        times = np.minimum(span // slide + 1, max(len(rows.id), 1)) + 1
        lists = min(int(times.sum()) * len(goal) + 1, _MOST)
        full = np.minimum(k, waiting)
        room = float((times * full).sum()) * min(len(goal), max(waiting, 1))
        return lists, max(int(min(room, _MOST)), int(full.max(initial=0)), 1) + STRIDE

    def _enlarge(self, groups: int) -> None:
        """Make room for groups not met before."""
        room = len(self._marks.done)
        if groups > room:
            room = room_for(groups, room)
            self._marks = enlarged(self._marks, room, _FRESH)
            self._bands.enlarge(room)
            self._views.enlarge(room)
        self._groups = max(self._groups, groups)

    def reach(self) -> int | np.ndarray:
        """From where on every row is still to come: a time, or a position of every group."""
        if self._family.counts:
            return np.maximum(self._marks.done[: self._groups], 0)
        done = max(int(self._marks.done.max(initial=NEVER)), self._upto)
        return max(int(self._marks.seen.max(initial=NEVER - 1)) + 1, done)

    def change(self, family: QueryFamily, moved: np.ndarray, positions: np.ndarray | None = None) -> None:
        """Go on with other members: `moved[i]` is the new place of record i, or -1.

        `positions` are those of each group at which the members of the newest moment came.
        """
        self._family, old = family, self._records
        self._records = Records(**family.records)
        if (len(moved) and (moved < 0).any()) or _less(old, self._records, moved):
            self._views.replace(looked(self._bands.whole(), self._marks, self._records))
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

    def active_groups(self) -> np.ndarray:
        """Groups that keep rows, or have yet to say that a window has become empty."""
        return np.flatnonzero((self._bands.first[1] > self._bands.first[0]) | self._marks.shown.any(axis=0))

    def keep_groups(self, keep: np.ndarray) -> None:
        """Forget all groups but these, all of those that are busy among them; they are numbered anew."""
        known = keep[keep < self._groups]
        self._marks, self._groups = marks_of(self._marks, known), len(known)
        self._bands.regroup(known)
        self._views.regroup(known)

    def candidates(self) -> Objects:
        """Exactly the minimal set of each group, best first."""
        bands, views = settled(self._bands.whole(), self._marks, self._views.whole())
        self._bands.replace(bands)
        self._views.replace(views)
        sizes = bands.first[1] - bands.first[0]
        group = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        return Objects(bands.score, bands.time, bands.id, group)

    def bytes(self) -> int:
        """What rows and views take."""
        return sum(column.nbytes for part in (self._bands.whole(), self._views.whole()) for column in part)

    def views(self) -> int:
        """How many views are kept."""
        return len(self._views)

    def snapshot(self) -> Snapshot:
        """The bands, the marks and the views."""
        bands, views = self._bands.whole(), self._views.whole()
        known = np.arange(self._groups)
        bands = bands._replace(first=bands.first[:, known])
        views = views._replace(first=views.first[:, known])
        named = {
            f"{part}/{name}": column.copy()
            for part, columns in (("band", bands), ("mark", marks_of(self._marks, known)), ("view", views))
            for name, column in columns._asdict().items()
        }
        return {**named, "peak": np.array(self.peak)}


def _by_group(rows: Objects, groups: int) -> Rows:
    """The rows group by group, in their order within each."""
    order: np.ndarray | slice = slice(None)
    first = np.array([[0], [len(rows.id)]])
    if groups > 1 and rows.group is not None:
        order = np.argsort(rows.group, kind="stable")
        sizes = np.bincount(rows.group, minlength=groups)
        ends = np.cumsum(sizes)
        first = np.stack([ends - sizes, ends])
    score, time, id = (fixed(column[order]) for column in rows[:3])
    return Rows(score, time, id, np.empty(0, np.int32), first)


def _less(old: Records, new: Records, moved: np.ndarray) -> bool:
    """Whether a member that stays wants fewer rows, or fewer windows, than before."""
    stays = moved >= 0
    return bool((new.k[moved[stays]] < old.k[stays]).any() or (new.high[moved[stays]] < old.high[stays]).any())


def _bound(pages: list[AnswerBuffer], groups: int) -> Answers:
    """All pages as one, ordered by end, query and group."""
    step, end, group, query, first, ids, score, _ = concatenate(pages)
    answers = Answers(step, end, group.astype(np.int32), first, ids, score, query=query)
    return answers if groups == 1 else answers.in_order()
