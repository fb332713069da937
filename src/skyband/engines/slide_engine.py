"""Calls a kernel in rounds, until it has taken all arrivals; makes answers of the lists it filled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skyband.engines.protocol import Answers, Objects, Snapshot
from skyband.engines.validation import FAR, checked, held, objects, require
from skyband.errors import QueryError, SnapshotError
from skyband.kernels.answers import AnswerBuffer, concatenate
from skyband.kernels.slide import (
    COUNT,
    FREE,
    LISTS,
    NEWEST,
    NO_NODE,
    NO_ROOM,
    OLDEST,
    OUT,
    PEAK,
    ROW,
    SPOKE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from skyband.query import TopK
    from skyband.windows import WindowAssigner

_ROUND = 1 << 24  # rows in the lists of one round, at most (or k)
_NEVER = -(1 << 62)  # no window yet
_REFERENCES = 1 << 26  # to rows that an engine makes room for beforehand
_HOLDS = {**objects(), "state": held("i8", 3)}


def fresh(numbers: int) -> np.ndarray:
    """The numbers a kernel keeps, before the first row."""
    state = np.zeros(numbers, np.int64)
    state[[OLDEST, NEWEST]] = _NEVER
    state[FREE] = -1
    return state


def check_memory(engine: str, what: str, references: int, query: TopK) -> None:
    """Raise if an engine whose memory grows with k and the window would need too much before the first row."""
    if references > _REFERENCES:
        msg = (
            f"engine={engine!r} keeps {what}: these must be at most {_REFERENCES:,}, got {references:,} "
            f"with k={query.k}, window={query.window!r}: write engine='sweep'"
        )
        raise QueryError(msg)


def ring(clock: WindowAssigner) -> int:
    """Length of a ring over all windows that can be open at once: a power of two."""
    return 1 << (clock.ratio - 1).bit_length()


def answers(
    take: Callable[[AnswerBuffer], int],
    grow: Callable[[], None],
    state: np.ndarray,
    clock: WindowAssigner,
    k: int,
    upto: int,
) -> Answers:
    """What `take` gives out, called again with more nodes or more room until it is done."""
    state[ROW] = 0
    rounds: list[AnswerBuffer] = []
    why = NO_ROOM
    while why == NO_ROOM:
        windows = min(max(int(clock.first(upto)) - int(state[OLDEST]), 0) + 1, _ROUND // k + 1)
        state[[LISTS, OUT]] = 0
        lists = AnswerBuffer.allocate(windows, windows * k)
        while (why := take(lists)) == NO_NODE:
            grow()
        rounds.append(lists.written(int(state[LISTS]), int(state[OUT])))
    step, _, _, _, first, id, score, _ = concatenate(rounds)
    return Answers(step, clock.end(step), np.zeros(len(step), np.int32), first, id, score)


def saved(kept: Objects, state: np.ndarray) -> Snapshot:
    """The objects kept and three numbers: the predicted lists follow from them (theorem 3.1)."""
    return {"score": kept.score, "time": kept.time, "id": kept.id, "state": state[[OLDEST, SPOKE, PEAK]]}


def restore(
    advance: Callable[[Objects, int], Answers],
    state: np.ndarray,
    clock: WindowAssigner,
    resume: Mapping[str, np.ndarray],
) -> None:
    """Insert what was kept once more, in its old order, into the windows that were open."""
    saved = checked(resume, _HOLDS)
    oldest, spoke, peak = (int(n) for n in saved["state"])
    rows = Objects(saved["score"], saved["time"], saved["id"]).take(np.argsort(saved["id"]))
    start, end = clock.start(oldest), clock.end(oldest)
    far = FAR + clock.size + clock.slide
    require(oldest == _NEVER or -far <= start < end <= far, "its oldest window lies far away")
    require(spoke in (0, 1) and peak >= 0, "state has a value that it cannot have")
    state[OLDEST], state[SPOKE] = oldest, spoke
    if len(rows.id):
        require((np.diff(rows.id) > 0) & (np.diff(rows.time) >= 0), "its rows are in no order of time and id")
        require((rows.time >= start) & (rows.time < end), "a row is in no open window")
        advance(rows, end - 1)
    if state[COUNT] != len(rows.id):
        msg = f"{state[COUNT]} of {len(rows.id)} saved rows matter: the snapshot is of another query"
        raise SnapshotError(msg)
    state[PEAK] = peak
