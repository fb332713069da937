"""Holds the lists of an engine and calls the loop over objects in rounds, until all arrivals are taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skyband.engines.protocol import Answers, Objects, OneGroupEngine, Snapshot
from skyband.engines.validation import check_progress, check_ranked, column, float_column, require, validate
from skyband.errors import SnapshotError
from skyband.kernels import arrival as kernels
from skyband.kernels.answers import AnswerBuffer, concatenate
from skyband.kernels.arrival import (
    DONE,
    FINISHED,
    LISTS,
    NEED,
    OUT,
    PEAK,
    ROOM,
    ROW,
    SEEN,
    SPOKE,
    STATE,
    TAIL,
    Rows,
    Shape,
)
from skyband.kernels.ranked import (
    ADDITIONAL,
    BAR,
    CELL,
    END,
    FAR,
    HEAD,
    KIND,
    LEAST,
    LIMIT,
    NEWEST,
    NONE,
    NUMBERS,
    OLDEST,
    PROBABILISTIC,
    RATE,
    REALS,
    RELAXED,
    STRICT,
    THRESHOLD,
    TOLD,
    K,
    Ranked,
)
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily
    from skyband.engines.validation import Column

_PAGE = 1 << 16  # rows told before the loop comes up for air


class Rule(NamedTuple):
    """When a list forgets an object."""

    kind: int
    limit: int = 0
    additional: int = 0
    least: int = 0
    rate: float = 0.0


def strict() -> Rule:
    """As soon as k later ones beat it (SA, SF)."""
    return Rule(STRICT)


def relaxed(k: int, gamma: float) -> Rule:
    """When the candidates have grown by `gamma` since the last look (RA, RF); the first one is at 4 k."""
    return Rule(RELAXED, limit=4 * k, rate=gamma)


def probabilistic(limit: int, additional: int) -> Rule:
    """When k + limit + additional others rank above it (PA). The bar gives way by half of the last gap."""
    return Rule(PROBABILISTIC, limit, additional, least=limit, rate=0.5)


def screening(limit: int) -> Rule:
    """The same for a filter (PF): the bar gives way by the whole gap, and is given up only with the last gap."""
    return Rule(PROBABILISTIC, limit, least=2, rate=1.0)


NO_LIST = Rule(NONE)


def _list_holds(prefix: str, rows: str) -> dict[str, Column]:
    return {
        prefix + "score": float_column(rows),
        prefix + "time": column("i8", rows),
        prefix + "id": column("i8", rows),
        prefix + "mark": column("i8", rows, low=0),
        prefix + "num": column("i8", NUMBERS),
        prefix + "real": column("f8", REALS),
    }


_HOLDS = {
    "buffer_score": column("f8", "buffer"),
    "buffer_time": column("i8", "buffer"),
    "buffer_id": column("i8", "buffer"),
    "buffer_wait": column("f8", "buffer"),
    **_list_holds("", "rows"),
    **_list_holds("filter_", "screened"),
    "state": column("i8", STATE),
    "rules": column("f8", 2 * len(Rule._fields) + 2),
    "now": column("i8", 1),
}


class ArrivalEngine(OneGroupEngine):
    """A band, perhaps a filter with its buffer, and how far they have come: all that the engines share."""

    def __init__(
        self,
        family: QueryFamily,
        band: Rule,
        screen: Rule = NO_LIST,
        *,
        span: int = 0,
        cell: float = 0.0,
        resume: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        query = family.query
        self._k, self._size, self._span = int(query.k), WindowAssigner.of(query.window).size, span
        self._counts, self._once = query.window.counts, query.emit == "arrivals"
        self._rules = np.array([*band, *screen, span, cell])
        self._filtered = screen.kind != NONE
        self.band = _empty(self._k, band, 0.0)
        self.screen = _empty(self._k, screen, cell)
        none = np.empty(0, np.int64)
        self.rows = Rows(np.empty(0), none, none, np.empty(0))  # the buffer
        self._state = np.zeros(STATE, np.int64)
        self.now = -FAR  # what lies a window's size before this has left
        if resume is not None:
            self._restore(resume)
        self.peak = int(self._state[PEAK])

    @property
    def bar(self) -> float:
        """Whoever scores less than this is not looked at."""
        return float((self.screen if self._filtered else self.band).real[BAR])

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:  # noqa: ARG002
        """One step for every arrival, or for every position before `upto`."""
        end, state = int(np.asarray(upto).item()), self._state
        rows = self._with_buffer(arrivals)
        waiting = len(rows.id) - len(arrivals.id)
        state[ROW], state[TAIL] = waiting, 0
        state[SEEN] -= waiting
        held = len(rows.id) + self.band.num[END] - self.band.num[HEAD]
        shape = Shape(self._k, self._size, self._span, self._counts, self._once, min(self._k, int(held)))
        pages, why = [], kernels.PAGE
        while why != FINISHED:
            state[[LISTS, OUT]] = 0
            room = max(shape.most, min(_PAGE, 4 * len(arrivals.id) + 64))
            page = AnswerBuffer.allocate(room, room, "end", "rank")
            while (why := kernels.advance(rows, end, shape, self.band, self.screen, page, state)) == ROOM:
                self.band, self.screen = (_grown(ranked, int(state[NEED])) for ranked in (self.band, self.screen))
            pages.append(page.written(int(state[LISTS]), int(state[OUT])))
        state[SEEN] += len(rows.id)
        if self._filtered:
            kept = slice(int(state[TAIL]), None)
            self.rows = Rows(*(column[kept].copy() for column in rows))
        newest = int(arrivals.time[-1]) if len(arrivals.id) else -FAR
        self.now = max(self.now, min(end, FAR), newest)
        self.peak = int(state[PEAK])
        return _answers(pages, once=self._once)

    def owes_empty_list(self) -> bool:
        """Return whether the last list had rows; after every row of a time window none is owed."""
        return self._counts and bool(self._state[SPOKE])

    def candidates(self) -> Objects:
        """What fewer than k better objects outlive, best first, of those that have not left the window."""
        score, time, id, _ = self._union()
        left = outlasting(score, time, id, np.zeros(len(id), np.int64), self._k)
        return Objects(score[:left], time[:left], id[:left])

    def snapshot(self) -> Snapshot:
        """Lists, buffer and numbers."""
        saved = {f"buffer_{name}": part.copy() for name, part in zip(Rows._fields, self.rows, strict=True)}
        for listed, prefix in ((self.band, ""), (self.screen, "filter_")):
            for name, part in zip(("score", "time", "id", "mark"), _columns(listed), strict=True):
                saved[prefix + name] = part.copy()
            saved[prefix + "num"], saved[prefix + "real"] = listed.num.copy(), listed.real.copy()
        saved["state"], saved["rules"] = self._state.copy(), self._rules
        saved["now"] = np.array([self.now])
        return saved

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        saved = validate(resume, _HOLDS)
        if not np.array_equal(saved["rules"], self._rules) or saved["num"][K] != self._k:
            msg = (
                "the snapshot is of another query, or its engine had other options: resume with those it was made with"
            )
            raise SnapshotError(msg)
        self.rows = Rows(*(saved[f"buffer_{name}"] for name in Rows._fields))
        require(self._filtered or not len(self.rows.id), "there are rows in a buffer that it has not")
        require(np.diff(self.rows.time) >= 0, "its buffer is in no order of time")
        self.band, self.screen = (
            _listed(_right([saved[prefix + name] for name in Ranked._fields if name != "heap"], fresh))
            for prefix, fresh in (("", self.band), ("filter_", self.screen))
        )
        self._state = saved["state"]
        check_progress(self._state[DONE], counts=self._counts)
        require(self._state[PEAK] >= 0, "state has a value that it cannot have")
        self.now = int(saved["now"][0])

    def adopt(self, objects: Objects, told: np.ndarray, buffer: Objects, like: ArrivalEngine) -> None:
        """Take over `objects`, best first, from another engine at the same step; all of `buffer` is among them."""
        score, time, id, mark = (column.copy() for column in (*objects[:3], told * np.int64(TOLD)))
        left = slice(outlasting(score, time, id, mark, self._k))
        num = self.band.num.copy()
        num[OLDEST], num[NEWEST] = time[left].min(initial=FAR), time[left].max(initial=-FAR)
        self.band = _listed([score[left], time[left], id[left], mark[left], num, self.band.real])
        inside = np.full(len(buffer.id), np.nan)
        self.rows = Rows(buffer.score.copy(), buffer.time.copy(), buffer.id.copy(), inside)
        self._state, self.now = like._state.copy(), like.now

    def mark(self, told: np.ndarray) -> None:
        """Say of each object of the band whether it has been told."""
        _columns(self.band)[3][:] = told * TOLD

    def kept(self) -> tuple[Objects, np.ndarray]:
        """The band as it is, best first, and which of it has been told."""
        score, time, id, mark = _columns(self.band)
        return Objects(score, time, id), mark & TOLD

    def kept_counts(self) -> tuple[int, int]:
        """References to objects in its lists, and objects in lists and buffer."""
        lists = [_columns(ranked)[2] for ranked in (self.band, self.screen) if ranked.num[KIND] != NONE]
        return sum(map(len, lists)), len(np.union1d(lists[0], self.rows.id))

    def _with_buffer(self, arrivals: Objects) -> Rows:
        # columns that may not be written to would make numba compile the loop once more for each mixture
        score, time, id = (np.require(c, requirements=["C", "W"]) for c in arrivals[:3])
        if not self._filtered:
            return Rows(score, time, id, np.empty(0))
        old = self.rows
        return Rows(
            np.concatenate([old.score, score]),
            np.concatenate([old.time, time]),
            np.concatenate([old.id, id]),
            np.concatenate([old.wait, score]),
        )

    def _union(self) -> tuple[np.ndarray, ...]:
        """Band and waiting rows that are still in the window, best first; whether each has been told."""
        waits = ~np.isnan(self.rows.wait)
        parts = zip(
            _columns(self.band), (*(c[waits] for c in self.rows[:3]), np.zeros(waits.sum(), np.int64)), strict=True
        )
        columns = [np.concatenate(pair) for pair in parts]
        alive = np.flatnonzero(columns[1] > self.now - self._size)
        order = alive[np.lexsort((columns[2][alive], columns[0][alive]))[::-1]]
        return tuple(column[order] for column in columns)


def outlasting(score: np.ndarray, time: np.ndarray, id: np.ndarray, mark: np.ndarray, k: int) -> int:
    """Prune ranked columns in place; how many objects are left."""
    return int(kernels.outlasting(score, time, id, mark, k))


def _empty(k: int, rule: Rule, cell: float) -> Ranked:
    num, real = np.zeros(NUMBERS, np.int64), np.zeros(REALS)
    num[[KIND, K, LIMIT, ADDITIONAL, LEAST]] = rule.kind, k, rule.limit, rule.additional, rule.least
    num[[OLDEST, NEWEST]] = FAR, -FAR
    real[[BAR, RATE, CELL, THRESHOLD]] = -np.inf, rule.rate, cell, -np.inf
    none = np.empty(0, np.int64)
    return _listed([np.empty(0), none, none, none, num, real])


def _listed(columns: list[np.ndarray]) -> Ranked:
    """A list of its objects alone, with some room around them."""
    *objects, num, real = columns
    num = num.copy()
    num[HEAD], num[END] = 0, len(objects[0])
    ranked = Ranked(*(c.copy() for c in objects), np.empty(0, np.int64), num, real.copy())  # type: ignore[call-arg]
    return _grown(ranked, 1)


def _right(columns: list[np.ndarray], fresh: Ranked) -> list[np.ndarray]:
    """The columns of a saved list, which must be one of the same kind as the `fresh` one."""
    score, _, id, mark, num, more = columns
    fixed = [KIND, K, ADDITIONAL, LEAST]
    same = np.array_equal(num[fixed], fresh.num[fixed]) and np.array_equal(more[[RATE, CELL]], fresh.real[[RATE, CELL]])
    require(same and num[LIMIT] >= 0, "a list has other rules than its engine")
    require(num[KIND] != NONE or not len(id), "there are rows on a list that it has not")
    require((num[LIMIT] == fresh.num[LIMIT]) | (num[KIND] == RELAXED), "a list has another limit than its engine")
    check_ranked(score, id)
    require(mark <= 2 * num[K] + 1, "a row on a list is beaten by more than it can be")
    return columns


def _columns(ranked: Ranked) -> tuple[np.ndarray, ...]:
    held = slice(int(ranked.num[HEAD]), int(ranked.num[END]))
    return tuple(column[held] for column in ranked[:4])


def _grown(ranked: Ranked, need: int) -> Ranked:
    """The list in the middle of four times the room that it needs, if it has less than twice."""
    count = int(ranked.num[END] - ranked.num[HEAD])
    if 2 * (count + need) <= len(ranked.score) or ranked.num[KIND] == NONE:
        return ranked
    room = max(4 * (count + need), 64)
    low = (room - count) // 2
    columns = [np.empty(room, column.dtype) for column in ranked[:4]]
    for new, old in zip(columns, _columns(ranked), strict=True):
        new[low : low + count] = old
    num = ranked.num
    num[HEAD], num[END] = low, low + count
    score, time, id, mark = columns
    return Ranked(score, time, id, mark, np.empty(min(int(num[K]), room), np.int64), num, ranked.real)


def _answers(pages: list[AnswerBuffer], *, once: bool) -> Answers:
    step, end, _, _, first, id, score, rank = concatenate(pages)
    return Answers(step, end, np.zeros(len(step), np.int32), first, id, score, rank if once else None)
