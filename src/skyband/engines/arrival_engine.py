"""The base of engines driven by every object: an answer after each arrival, over the last n objects or the last time.

`strict`, `relaxed` and `probabilistic` differ in when a list of candidates forgets an object; `filtered` puts a buffer
and a second such list before the first two, `hybrid` switches between the last two while it runs. All of them share one
loop, `kernels/arrival.py`.

Pripuzic, Podnar Zarko and Aberer, "Time- and Space-Efficient Sliding Window Top-k Query Processing", ACM TODS 40(1),
2015. There smaller scores are better; here larger ones are.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skyband.engines.candidate_limit import limit as candidate_limit
from skyband.engines.protocol import Answers, Objects, OneGroupEngine, Snapshot
from skyband.engines.validation import check_progress, check_ranked, float_column, require, typed_column, validate
from skyband.errors import QueryError, SnapshotError
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
from skyband.query.duration import format_duration, parse_duration
from skyband.query.limits import MAX_ROWS
from skyband.query.validation import check_integer, check_number, invalid
from skyband.windows import WindowAssigner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skyband.engines.family import QueryFamily
    from skyband.engines.validation import ColumnSpec
    from skyband.query import TopK

_BUFFER_ROWS = 1 << 16  # rows of answers after which the loop returns
_WINDOW_ROWS = 1_000_000  # assumed in a window by time: the limit grows with the logarithm only, so more does no harm
_DEFAULT_BUFFER = 2000  # rows, the paper's default; 1/20 of its window


class PruningRule(NamedTuple):
    """When a list forgets an object."""

    kind: int
    limit: int = 0
    additional: int = 0
    least: int = 0
    rate: float = 0.0

    @classmethod
    def strict(cls) -> PruningRule:
        """As soon as k later ones beat it (SA, SF)."""
        return cls(STRICT)

    @classmethod
    def relaxed(cls, k: int, gamma: object = 0.2) -> PruningRule:
        """When the candidates have grown by `gamma` since the last pruning (RA, RF); the first one is at 4 k."""
        return cls(RELAXED, limit=4 * k, rate=check_number("gamma", gamma, least=0))

    @classmethod
    def probabilistic(
        cls, query: TopK, limit: object = None, additional: object = 10, sigma: object = 0.001
    ) -> PruningRule:
        """When k + limit + additional others rank above it (PA). The bar gives way by half of the last gap."""
        rows = WindowAssigner.of(query.window).size if query.window.counts else _WINDOW_ROWS
        needed = _limit(rows, query.k, limit, sigma)
        extra = check_integer("additional", additional, 0, MAX_ROWS)
        return cls(PROBABILISTIC, needed, extra, least=needed, rate=0.5)

    @classmethod
    def probabilistic_filter(cls, query: TopK, span: int, limit: object = None, sigma: object = 0.001) -> PruningRule:
        """The same for a filter (PF): the bar gives way by the whole gap, and is given up only with the last gap."""
        needed = _limit(span if query.window.counts else _WINDOW_ROWS, query.k, limit, sigma)
        return cls(PROBABILISTIC, needed, least=2, rate=1.0)


NO_LIST = PruningRule(NONE)


def _limit(rows: int, k: int, limit: object, sigma: object) -> int:
    """Return how many candidates to keep behind the k best: as given, or as many as definition 4.5 needs."""
    needed = candidate_limit(rows, k, check_number("sigma", sigma, above=0, below=1)).summed
    return needed if limit is None else check_integer("limit", limit, 1, MAX_ROWS)


def buffer_span(query: TopK, buffer: object) -> int:
    """Return how far back a buffer reaches: in rows, or in microseconds for windows by time.

    At most half the window (theorem 5.1): otherwise what made an object wait could leave before it does.
    """
    size = WindowAssigner.of(query.window).size
    most = (size + 1) // 2
    if query.window.counts:
        if buffer is None:
            return min(_DEFAULT_BUFFER, most)
        rows = check_integer("buffer", buffer, 1, MAX_ROWS)
        if rows > most:
            raise QueryError(
                f"buffer must be at most half of the {size} rows of the window, got {rows}: write at most {most}"
            )
        return rows
    if buffer is None:
        return max(size // 20, 1)
    if not isinstance(buffer, (str, timedelta)):
        raise invalid("buffer", "be a length of time", buffer, repr(format_duration(max(size // 20, 1))))
    length = parse_duration(buffer, "buffer")
    if not 0 < length <= most:
        raise QueryError(
            f"buffer must be above zero and at most half the window's {format_duration(size)}, got {buffer!r}: "
            f'write at most "{format_duration(max(size // 2, 1))}"'
        )
    return length


def _list_columns(prefix: str, rows: str) -> dict[str, ColumnSpec]:
    return {
        prefix + "score": float_column(rows),
        prefix + "time": typed_column("i8", rows),
        prefix + "id": typed_column("i8", rows),
        prefix + "mark": typed_column("i8", rows, low=0),
        prefix + "num": typed_column("i8", NUMBERS),
        prefix + "real": typed_column("f8", REALS),
    }


_COLUMNS = {
    "buffer_score": typed_column("f8", "buffer"),
    "buffer_time": typed_column("i8", "buffer"),
    "buffer_id": typed_column("i8", "buffer"),
    "buffer_wait": typed_column("f8", "buffer"),
    **_list_columns("", "rows"),
    **_list_columns("filter_", "screened"),
    "state": typed_column("i8", STATE),
    "rules": typed_column("f8", 2 * len(PruningRule._fields) + 2),
    "now": typed_column("i8", 1),
}


class ArrivalEngine(OneGroupEngine):
    """A band, perhaps a filter with its buffer, and how far they have come: all that the engines share."""

    def __init__(
        self,
        family: QueryFamily,
        band: PruningRule,
        filter_rule: PruningRule = NO_LIST,
        *,
        span: int = 0,
        cell: float = 0.0,
        resume: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        query = family.query
        self._k, self._size = int(query.k), WindowAssigner.of(query.window).size
        self.span = span  # how far back the buffer reaches; 0: there is none
        self._counts, self._partial = query.window.counts, query.emit == "arrivals"
        self._rules = np.array([*band, *filter_rule, span, cell])
        self._filtered = filter_rule.kind != NONE
        self.band = _empty_list(self._k, band, 0.0)
        self.filter = _empty_list(self._k, filter_rule, cell)
        none = np.empty(0, np.int64)
        self.buffer = Rows(np.empty(0), none, none, np.empty(0))
        self._state = np.zeros(STATE, np.int64)
        self.now = -FAR  # what lies a window's size before this has left
        if resume is not None:
            self._restore(resume)
        self.peak = int(self._state[PEAK])

    @property
    def bar(self) -> float:
        """The score below which arrivals are ignored."""
        return float((self.filter if self._filtered else self.band).real[BAR])

    def advance(self, arrivals: Objects, upto: int | np.ndarray, moved: np.ndarray | None = None) -> Answers:  # noqa: ARG002
        """Take one step for every arrival, or for every position before `upto`."""
        end, state = int(np.asarray(upto).item()), self._state
        rows = self._with_buffer(arrivals)
        buffered = len(rows.id) - len(arrivals.id)
        state[ROW], state[TAIL] = buffered, 0
        state[SEEN] -= buffered
        held = len(rows.id) + self.band.num[END] - self.band.num[HEAD]
        shape = Shape(self._k, self._size, self.span, self._counts, self._partial, min(self._k, int(held)))
        capacity = max(shape.most, min(_BUFFER_ROWS, 4 * len(arrivals.id) + 64))
        found, why = [], kernels.PAGE
        while why != FINISHED:
            state[[LISTS, OUT]] = 0
            answers = AnswerBuffer.allocate(capacity, capacity, "end", "rank")
            while (why := kernels.advance(rows, end, shape, self.band, self.filter, answers, state)) == ROOM:
                self.band, self.filter = (_grow(one, int(state[NEED])) for one in (self.band, self.filter))
            found.append(answers.written(int(state[LISTS]), int(state[OUT])))
        state[SEEN] += len(rows.id)
        if self._filtered:
            kept = slice(int(state[TAIL]), None)
            self.buffer = Rows(*(part[kept].copy() for part in rows))
        newest = int(arrivals.time[-1]) if len(arrivals.id) else -FAR
        self.now = max(self.now, min(end, FAR), newest)
        self.peak = int(state[PEAK])
        step, stop, _, _, first, id, score, rank = concatenate(found)
        return Answers(step, stop, np.zeros(len(step), np.int32), first, id, score, rank if self._partial else None)

    def owes_empty_list(self) -> bool:
        """Return whether the last list had rows; after every row of a time window none is owed."""
        return self._counts and bool(self._state[SPOKE])

    def candidates(self) -> Objects:
        """Return the rows of the window that fewer than k better ones outlive, best first."""
        waits = ~np.isnan(self.buffer.wait)
        rows = Objects.concat([self.band_rows()[0], Objects(*(part[waits] for part in self.buffer[:3]))])
        rows = rows.take(rows.time > self.now - self._size).by_rank()
        left = slice(kernels.outlasting(*rows[:3], np.zeros(len(rows.id), np.int64), self._k))
        return rows.take(left)

    def band_rows(self) -> tuple[Objects, np.ndarray]:
        """Return the band as it is, best first, and which of its rows have been reported."""
        score, time, id, mark = _kept(self.band)
        return Objects(score, time, id), mark & TOLD

    def kept_counts(self) -> tuple[int, int]:
        """Return how many references to objects lists have, and how many objects are in lists and buffer."""
        lists = [_kept(one)[2] for one in (self.band, self.filter) if one.num[KIND] != NONE]
        return sum(map(len, lists)), len(np.union1d(lists[0], self.buffer.id))

    def snapshot(self) -> Snapshot:
        """Return lists, buffer and numbers."""
        saved = {f"buffer_{name}": part.copy() for name, part in zip(Rows._fields, self.buffer, strict=True)}
        for one, prefix in ((self.band, ""), (self.filter, "filter_")):
            for name, part in zip(("score", "time", "id", "mark"), _kept(one), strict=True):
                saved[prefix + name] = part.copy()
            saved[prefix + "num"], saved[prefix + "real"] = one.num.copy(), one.real.copy()
        saved["state"], saved["rules"] = self._state.copy(), self._rules
        saved["now"] = np.array([self.now])
        return saved

    def _restore(self, resume: Mapping[str, np.ndarray]) -> None:
        saved = validate(resume, _COLUMNS)
        if not np.array_equal(saved["rules"], self._rules) or saved["num"][K] != self._k:
            raise SnapshotError(
                "the snapshot is of another query, or of other options: resume with those it was made with"
            )
        self.buffer = Rows(*(saved[f"buffer_{name}"] for name in Rows._fields))
        require(self._filtered or not len(self.buffer.id), "there are rows in a buffer that it has not")
        require(np.diff(self.buffer.time) >= 0, "its buffer is in no order of time")
        lists = []
        for prefix, fresh in (("", self.band), ("filter_", self.filter)):
            score, time, id, mark, num, real = (saved[prefix + name] for name in Ranked._fields if name != "heap")
            check_ranked(score, id)
            check_rules(num[None], real[None], mark[None], fresh.num[None], fresh.real[None])
            require(num[KIND] != NONE or not len(id), "there are rows on a list that it has not")
            lists.append(_make_list(score, time, id, mark, num, real))
        self.band, self.filter = lists
        self._state = saved["state"]
        check_progress(self._state[DONE], counts=self._counts)
        require(self._state[PEAK] >= 0, "state has a value that it cannot have")
        self.now = int(saved["now"][0])

    def take_over(self, rows: Objects, reported: np.ndarray, buffer: Objects, like: ArrivalEngine) -> None:
        """Continue from another engine at the same step with `rows`, best first, which include all of `buffer`."""
        score, time, id, mark = (part.copy() for part in (*rows[:3], reported * np.int64(TOLD)))
        left = slice(kernels.outlasting(score, time, id, mark, self._k))
        num = self.band.num.copy()
        num[OLDEST], num[NEWEST] = time[left].min(initial=FAR), time[left].max(initial=-FAR)
        self.band = _make_list(score[left], time[left], id[left], mark[left], num, self.band.real)
        inside = np.full(len(buffer.id), np.nan)
        self.buffer = Rows(buffer.score.copy(), buffer.time.copy(), buffer.id.copy(), inside)
        self._state, self.now = like._state.copy(), like.now

    def set_reported(self, reported: np.ndarray) -> None:
        """Set for each row of the band whether it has been reported."""
        _kept(self.band)[3][:] = reported * TOLD

    def _with_buffer(self, arrivals: Objects) -> Rows:
        # Numba would compile the loop once more for each mixture of writable and read-only columns
        score, time, id = (np.require(part, requirements=["C", "W"]) for part in arrivals[:3])
        if not self._filtered:
            return Rows(score, time, id, np.empty(0))
        return Rows(*(np.concatenate(pair) for pair in zip(self.buffer, (score, time, id, score), strict=True)))


def check_rules(
    num: np.ndarray, real: np.ndarray, mark: np.ndarray, fresh_num: np.ndarray, fresh_real: np.ndarray
) -> None:
    """Reject stored lists, one a row, whose rules are not those of new ones, or whose marks are too large."""
    fixed = [KIND, K, ADDITIONAL, LEAST]
    same = np.array_equal(num[:, fixed], fresh_num[:, fixed])
    same = same and np.array_equal(real[:, [RATE, CELL]], fresh_real[:, [RATE, CELL]])
    require(same and (num[:, LIMIT] >= 0).all(), "a list has other rules than its engine")
    limits = (num[:, LIMIT] == fresh_num[:, LIMIT]) | (num[:, KIND] == RELAXED)
    require(limits, "a list has another limit than its engine")
    require((mark >= 0) & (mark <= 2 * num[:, [K]] + 1), "a row on a list is beaten by more than it can be")


def _empty_list(k: int, rule: PruningRule, cell: float) -> Ranked:
    num, real = np.zeros(NUMBERS, np.int64), np.zeros(REALS)
    num[[KIND, K, LIMIT, ADDITIONAL, LEAST]] = rule.kind, k, rule.limit, rule.additional, rule.least
    num[[OLDEST, NEWEST]] = FAR, -FAR
    real[[BAR, RATE, CELL, THRESHOLD]] = -np.inf, rule.rate, cell, -np.inf
    none = np.empty(0, np.int64)
    return _make_list(np.empty(0), none, none, none, num, real)


def _make_list(*columns: np.ndarray) -> Ranked:
    """Make a list of score, time, id, mark, numbers and reals, with some space around the objects."""
    *objects, num, real = (part.copy() for part in columns)
    num[HEAD], num[END] = 0, len(objects[0])
    return _grow(Ranked(*objects, np.empty(0, np.int64), num, real), 1)  # type: ignore[call-arg]


def _kept(ranked: Ranked) -> tuple[np.ndarray, ...]:
    """Return score, time, id and mark of the objects on a list."""
    held = slice(int(ranked.num[HEAD]), int(ranked.num[END]))
    return tuple(part[held] for part in ranked[:4])


def _grow(ranked: Ranked, need: int) -> Ranked:
    """Put the list in the middle of four times the space that it needs, if it has less than twice."""
    count = int(ranked.num[END] - ranked.num[HEAD])
    if 2 * (count + need) <= len(ranked.score) or ranked.num[KIND] == NONE:
        return ranked
    capacity = max(4 * (count + need), 64)
    low = (capacity - count) // 2
    columns = [np.empty(capacity, part.dtype) for part in ranked[:4]]
    for new, old in zip(columns, _kept(ranked), strict=True):
        new[low : low + count] = old
    num = ranked.num
    num[HEAD], num[END] = low, low + count
    score, time, id, mark = columns
    return Ranked(score, time, id, mark, np.empty(min(int(num[K]), capacity), np.int64), num, ranked.real)
