"""The engines of top-k/w that define a threshold, for many queries at once behind a query grid.

As `arrival.py`, with one list (and one filter) a row of longer arrays. One buffer of the last points serves all
filters. An object is shown to the queries that watch its cell when it comes, and once more when it leaves the buffer.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace
from skyband.kernels.grid import cost_of, finite
from skyband.kernels.ranked import (
    BAR,
    END,
    FAR,
    HEAD,
    KIND,
    OLDEST,
    PROBABILISTIC,
    TOLD,
    K,
    add,
    centre,
    entry,
    expire,
)
from skyband.kernels.watching import (
    BUDGET,
    DONE,
    FIRST,
    LISTS,
    MISSES,
    MOVED,
    NEXT,
    OUT,
    OWN,
    ROW,
    SEEN,
    SHOWN,
    WIDES,
    complete,
    in_order,
    next_step,
    noted,
    outside,
    placed,
    widened,
)

NEED, LONGEST = OWN, OWN + 1  # room that a list must have, and the longest one
FINISHED, PAGE, ROOM, BUFFER, INDEX = range(5)  # why it came back
_LOOK, _LEFT = 1, 2


class Buffer(NamedTuple):
    """The last points, number `n` in slot `n & mask`."""

    point: np.ndarray
    time: np.ndarray
    id: np.ndarray
    cell: np.ndarray
    inside: np.ndarray  # uint64 (slots, words): a bit for each query whose band it is in


class Shape(NamedTuple):
    """The queries as numbers."""

    kind: int
    size: int
    span: int  # of the buffer; 0: there is none
    counts: bool


class Marks(NamedTuple):
    """How far each query has come."""

    bar: np.ndarray  # whoever scores less need not be shown
    reach: np.ndarray  # the bar that the cells it watches are for
    lowest: np.ndarray  # the least bar since then
    due: np.ndarray  # int64: when something of it expires
    mark: np.ndarray  # int8


# Functions of their own here: a list is a row of its array, few objects get so far, and it compiles faster.


@inplace
def _add(s, t, r, score, time, id, mark, heap, num, real):
    return add(s, t, r, score, time, id, mark, heap, num, real)


@inplace
def _expire(cutoff, score, time, id, mark, num, real):
    return expire(cutoff, score, time, id, mark, num, real)


@inline
def floor(q, filtered, b_real, f_score, f_num, f_real):
    """What an object must score at least to matter to a query."""
    low = b_real[q, BAR]
    if filtered:
        low = -np.inf
        if f_num[q, END] - f_num[q, HEAD] >= f_num[q, K]:
            low = f_score[q, f_num[q, HEAD] + f_num[q, K] - 1]
            if f_num[q, KIND] == PROBABILISTIC:
                low = min(low, f_real[q, BAR])
    return low


@inplace
def advance(rows, upto, shape, aims, grid, index, buffer, band, screen, marks, touched, page, state):
    """Take the rows from `state[ROW]` on, one step each; tell each object once. Why it stopped: see above."""
    point, time, id = rows
    kind, size, span, counts = shape
    to, weight = aims
    edge, guess, scale = grid
    i_first, i_query, wide, is_wide = index
    u_point, u_time, u_id, u_cell, u_inside = buffer
    b_score, b_time, b_id, b_mark, b_heap, b_num, b_real = band
    f_score, f_time, f_id, f_mark, f_heap, f_num, f_real = screen
    bar, reach, lowest, due, mark = marks
    steps, ends, _, out_query, first_of, out_id, out_score, out_rank = page
    queries = len(bar)
    filtered = span > 0
    fills = filtered and f_num[0, KIND] != PROBABILISTIC
    mask = len(u_time) - 1
    row, done, first, upcoming = state[ROW], state[DONE], state[FIRST], state[NEXT]
    listed, written, wides, longest = state[LISTS], state[OUT], state[WIDES], state[LONGEST]
    worst, soonest = 0, FAR
    for q in range(queries):
        worst += b_num[q, K]
        soonest = min(soonest, due[q])
    why = FINISHED
    while True:
        # the next step, and room for it
        now, over = next_step(row, done, time, upto, counts)
        if over:
            break
        comes = row < len(time) and time[row] == now
        leave = first
        if filtered:
            while leave < upcoming and u_time[leave & mask] <= now - span:
                leave += 1
        if listed + queries > len(steps) or written + worst > len(out_id):
            why = PAGE
        elif 2 * (longest + leave - first + 1) > b_score.shape[1]:
            state[NEED] = leave - first + 1
            why = ROOM
        elif filtered and upcoming - first > mask:
            why = BUFFER
        elif state[MISSES] > state[BUDGET] and state[MOVED] > 0:
            why = INDEX
        if comes and outside(row, point, edge):
            why = INDEX
        there = comes and complete(row, point)
        if why != FINISHED:
            break
        looks = 0
        # who leaves the window, or a filter
        if soonest <= now:
            soonest = FAR
            for q in range(queries):
                if due[q] <= now:
                    gone = _expire(now - size, b_score[q], b_time[q], b_id[q], b_mark[q], b_num[q], b_real[q])
                    if filtered:
                        _expire(now - span, f_score[q], f_time[q], f_id[q], f_mark[q], f_num[q], f_real[q])
                    touched[looks] = q
                    looks += 1
                    mark[q] = _LEFT if gone > 0 else _LOOK
                    # at once: who leaves the buffer must meet the queries that have to look further now
                    low = floor(q, filtered, b_real, f_score, f_num, f_real)
                    wides = widened(q, low, wides, reach, wide, is_wide)
                    bar[q] = low
                else:
                    soonest = min(soonest, due[q])
        # who leaves the buffer, then who comes
        for number in range(first, leave + 1):
            last = number == leave
            if last and not there:
                break
            slot = number & mask if not last else upcoming & mask
            cell = 0
            if last:
                cell = placed(row, point, slot, u_point, edge, guess, scale)
                u_time[slot], u_id[slot], u_cell[slot] = now, id[row], cell
                for w in range(u_inside.shape[1]):
                    u_inside[slot, w] = 0
            elif u_time[slot] <= now - size:
                continue  # after a gap it leaves both at once
            else:
                cell = u_cell[slot]
            low, high = i_first[cell], i_first[cell + 1]
            state[SHOWN] += high - low + wides
            state[MISSES] += high - low + wides
            for e in range(low, high + wides):
                q = i_query[e] if e < high else wide[e - high]
                if e < high and is_wide[q]:
                    continue
                s = -cost_of(q, slot, kind, to, weight, u_point)
                least = bar[q]
                if fills and last:
                    least = min(least, reach[q])  # in a cell that is watched: it may serve when better ones leave
                if not s >= least or (np.isinf(s) and finite(slot, u_point)):
                    continue
                state[MISSES] -= 1
                bit = np.uint64(1) << np.uint64(q & 63)
                enters = True
                if filtered and not last:
                    enters = not u_inside[slot, q >> 6] & bit and s >= entry(f_score[q], f_num[q])
                elif filtered:
                    enters = f_num[q, END] - f_num[q, HEAD] < f_num[q, K]
                    enters = enters or s >= f_score[q, f_num[q, HEAD] + f_num[q, K] - 1]
                    if f_num[q, END] + 1 > f_score.shape[1]:
                        centre(1, f_score[q], f_time[q], f_id[q], f_mark[q], f_num[q])
                    _add(
                        s, now, u_id[slot], f_score[q], f_time[q], f_id[q], f_mark[q], f_heap[q], f_num[q], f_real[q]
                    )  # fmt: skip
                    longest = max(longest, f_num[q, END] - f_num[q, HEAD])
                rank = -1
                if enters:
                    if b_num[q, END] + 1 > b_score.shape[1]:
                        centre(1, b_score[q], b_time[q], b_id[q], b_mark[q], b_num[q])
                    when = now if last else u_time[slot]
                    rank = _add(
                        s, when, u_id[slot], b_score[q], b_time[q], b_id[q], b_mark[q], b_heap[q], b_num[q], b_real[q]
                    )  # fmt: skip
                    longest = max(longest, b_num[q, END] - b_num[q, HEAD])
                    if filtered:
                        u_inside[slot, q >> 6] |= bit
                if mark[q] == 0:
                    touched[looks] = q
                    looks += 1
                    mark[q] = _LOOK
                if rank >= 0 and rank < b_num[q, K]:
                    mark[q] = _LEFT
        first = leave
        if there and filtered:
            upcoming += 1
        if comes:
            row += 1
        done = now + 1
        # bars, times and what is told, in order of the queries
        looks = in_order(looks, touched, mark)
        for t in range(looks):
            q = touched[t]
            low = floor(q, filtered, b_real, f_score, f_num, f_real)
            when = b_num[q, OLDEST] + size if b_num[q, OLDEST] < FAR else FAR
            if filtered and f_num[q, OLDEST] < FAR:
                when = min(when, f_num[q, OLDEST] + span)
            state[MOVED] += low != bar[q]
            bar[q], due[q] = low, when
            lowest[q] = min(lowest[q], low)
            soonest = min(soonest, when)
            wides = widened(q, low, wides, reach, wide, is_wide)
            changed = mark[q] == _LEFT
            mark[q] = 0
            if not changed:
                continue
            head, got = b_num[q, HEAD], 0
            for i in range(min(b_num[q, END] - head, b_num[q, K])):
                if not b_mark[q, head + i] & TOLD:
                    b_mark[q, head + i] |= TOLD
                    out_id[written + got] = b_id[q, head + i]
                    out_score[written + got] = b_score[q, head + i]
                    out_rank[written + got] = i + 1
                    got += 1
            if got > 0:
                written += got
                step = now + 1 if counts else state[SEEN] + row
                noted(listed, written, step, now + 1, q, steps, ends, out_query, first_of)
                listed += 1
    state[ROW], state[DONE], state[FIRST], state[NEXT] = row, done, first, upcoming
    state[LISTS], state[OUT], state[WIDES], state[LONGEST] = listed, written, wides, longest
    return why
