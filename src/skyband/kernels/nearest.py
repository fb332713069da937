"""Many queries over one stream of points, one step a row: all objects of the window in the cells of a grid.

A query keeps a ranked list that is a prefix of its ranking of the window, and a bar: whoever scores at least the bar
is on the list. An arrival meets only the queries that watch its cell. When fewer than k are left, the list is made
anew from the cells, best first. How long a list is made, when it is cut and whether it drops what k later ones beat
is all that tells TMA, SMA, CPM/w, SNN and our own way apart.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inplace
from skyband.kernels.cells import search
from skyband.kernels.grid import cost_of, finite
from skyband.kernels.lists import alive, copied, ranked
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

PEAK = OWN  # objects in the window, at most
SEARCHES = OWN + 1  # lists made anew
FRESH = OWN + 2  # queries that came while the stream ran, and have not looked at the window yet

# Why it came back.
FINISHED, PAGE, STORE, INDEX = range(4)
# What is told: each object once, lists that have changed, or every list at every step.
ONCE, CHANGED, EVERY = range(3)
_WOKEN, _NEW = 1, 2  # why a query is looked at: its oldest may have left; its k best have changed
UNSEEN = _NEW  # the mark of a query that has just come


class Marks(NamedTuple):
    """How far each query has come."""

    bar: np.ndarray
    threshold: np.ndarray  # the bar when the list was last made: what the papers call the indexing threshold
    reach: np.ndarray  # the bar that the cells it watches are for
    link: np.ndarray  # int32: the next query to look at when the same object leaves
    mark: np.ndarray  # int8: why to look at it
    spoke: np.ndarray  # bool: the last list had rows
    chained: np.ndarray  # bool


class Shape(NamedTuple):
    """The queries as numbers."""

    kind: int
    size: int  # of the window
    counts: bool
    prunes: bool
    tells: int


@inplace
def advance(rows, upto, shape, aims, grid, index, store, lists, marks, work, page, state):
    """Take the rows from `state[ROW]` on, one step each; why it stopped: see above."""
    point, time, id = rows
    kind, window, counts, prunes, tells = shape
    to, weight = aims
    edge, guess, scale = grid
    i_first, i_query, wide, is_wide = index
    s_point, s_time, s_id, s_cell, s_next, s_told, s_wakes, s_head, s_tail = store
    l_score, l_number, l_beaten, l_size, l_k, l_fill, l_most, l_cut, l_whole = lists
    bar, threshold, reach, link, mark, spoke, chained = marks
    touched = work.touched
    steps, ends, _, out_query, out_first, out_id, out_score, out_rank = page
    queries, mask = len(l_k), len(s_next) - 1
    row, done, first, upcoming = state[ROW], state[DONE], state[FIRST], state[NEXT]
    listed, written, misses, wides = state[LISTS], state[OUT], state[MISSES], state[WIDES]
    shown = 0
    worst = 0
    for q in range(queries):
        worst += l_k[q]
    why = FINISHED
    while True:
        # the next step, and room for it
        now, over = next_step(row, done, time, upto, counts)
        if over:
            break
        comes = row < len(time) and time[row] == now
        if listed + queries > len(steps) or written + worst > len(out_id):
            why = PAGE
            break
        if upcoming - first > mask:
            why = STORE
            break
        if misses > state[BUDGET] and state[MOVED] > 0:
            why = INDEX
            break
        if comes and outside(row, point, edge):
            why = INDEX
            break
        there = comes and complete(row, point)
        # who has just come as a query, and who leaves the window
        looks = 0
        if state[FRESH] > 0:
            for q in range(queries):
                if mark[q]:
                    touched[looks] = q
                    looks += 1
            state[FRESH] = 0
        while first < upcoming and s_time[first & mask] <= now - window:
            slot = first & mask
            cell = s_cell[slot]
            s_head[cell] = s_next[slot]
            if s_next[slot] < 0:
                s_tail[cell] = -1
            q = s_wakes[slot]
            while q >= 0:
                touched[looks] = q
                looks += 1
                mark[q] = _WOKEN
                chained[q] = False
                q = link[q]
            first += 1
        for t in range(looks):
            q = touched[t]
            for i in range(min(l_size[q], l_k[q])):
                if l_number[q, i] < first:
                    mark[q] |= _NEW
            l_size[q] = alive(q, l_size[q], first, prunes, l_score, l_number, l_beaten)
        # who comes
        if comes:
            row += 1
        if there:
            slot = upcoming & mask
            cell = placed(row - 1, point, slot, s_point, edge, guess, scale)
            s_time[slot], s_id[slot], s_cell[slot], s_next[slot], s_wakes[slot] = now, id[row - 1], cell, -1, -1
            if s_tail[cell] >= 0:
                s_next[s_tail[cell]] = slot
            else:
                s_head[cell] = slot
            s_tail[cell] = slot
            for w in range(s_told.shape[1]):
                s_told[slot, w] = 0
            upcoming += 1
            low, high = i_first[cell], i_first[cell + 1]
            shown += high - low + wides
            misses += high - low + wides
            for e in range(low, high + wides):
                q = i_query[e] if e < high else wide[e - high]
                if e < high and is_wide[q]:
                    continue  # it will come, among those that are shown everything
                s = -cost_of(q, slot, kind, to, weight, s_point)
                if not s >= bar[q] or (np.isinf(s) and finite(slot, s_point)):
                    continue
                misses -= 1
                size = l_size[q]
                at, end = 0, size
                while at < end:
                    mid = (at + end) >> 1
                    if l_score[q, mid] > s:
                        at = mid + 1
                    else:
                        end = mid
                size = ranked(q, at, size, s, upcoming - 1, l_k[q], prunes, l_score, l_number, l_beaten)
                if size > l_most[q]:
                    # drop who has left; if that does not help, the worst
                    size = alive(q, size, first, prunes, l_score, l_number, l_beaten)
                    if 2 * size > l_cut[q] + l_most[q]:
                        size = l_cut[q]
                        bar[q] = l_score[q, size - 1]
                        l_whole[q] = False
                        state[MOVED] += 1
                elif l_whole[q] and size >= l_fill[q]:
                    size = l_fill[q]
                    bar[q] = l_score[q, size - 1]
                    threshold[q] = bar[q]
                    l_whole[q] = False
                    state[MOVED] += 1
                l_size[q] = size
                if at < l_k[q]:
                    if mark[q] == 0:
                        touched[looks] = q
                        looks += 1
                    mark[q] |= _NEW
        done = now + 1
        state[PEAK] = max(state[PEAK], upcoming - first)
        # bring those lists up to date that may have changed; in order of the queries
        looks = in_order(looks, touched, mark)
        for t in range(looks):
            q = touched[t]
            if l_size[q] < l_k[q] and not l_whole[q]:
                want = l_fill[q]
                size = search(
                    q, want, first, upcoming, kind, to, weight, edge, s_point, s_next, s_head, l_score, l_number, work
                )
                l_size[q] = size
                l_whole[q] = size < want
                bar[q] = -np.inf if l_whole[q] else l_score[q, want - 1]
                threshold[q] = bar[q]
                state[SEARCHES] += 1
                state[MOVED] += 1
                if prunes:
                    for i in range(size):
                        l_beaten[q, i] = 0
                        for j in range(i):
                            l_beaten[q, i] += l_number[q, j] > l_number[q, i]
                wides = widened(q, bar[q], wides, reach, wide, is_wide)
            count = min(l_size[q], l_k[q])
            if not chained[q] and count > 0:
                oldest = l_number[q, 0]
                for i in range(1, count):
                    oldest = min(oldest, l_number[q, i])
                slot = oldest & mask
                link[q] = s_wakes[slot]
                s_wakes[slot] = q
                chained[q] = True
            changed = mark[q] & _NEW
            mark[q] = 0
            if tells == EVERY or not changed:
                continue
            got = 0
            if tells == ONCE:
                word, bit = q >> 6, np.uint64(1) << np.uint64(q & 63)
                for i in range(count):
                    slot = l_number[q, i] & mask
                    if not s_told[slot, word] & bit:
                        s_told[slot, word] |= bit
                        out_id[written + got] = s_id[slot]
                        out_score[written + got] = l_score[q, i]
                        out_rank[written + got] = i + 1
                        got += 1
            else:
                got = count
                copied(q, count, written, mask, l_score, l_number, s_id, out_id, out_score)
            if got > 0 or (tells == CHANGED and spoke[q]):
                spoke[q] = got > 0
                written += got
                step = now + 1 if counts else state[SEEN] + row
                noted(listed, written, step, now + 1, q, steps, ends, out_query, out_first)
                listed += 1
        if tells == EVERY:
            for q in range(queries):
                got = min(l_size[q], l_k[q])
                copied(q, got, written, mask, l_score, l_number, s_id, out_id, out_score)
                if got > 0 or spoke[q]:
                    spoke[q] = got > 0
                    written += got
                    step = now + 1 if counts else state[SEEN] + row
                    noted(listed, written, step, now + 1, q, steps, ends, out_query, out_first)
                    listed += 1
    state[ROW], state[DONE], state[FIRST], state[NEXT] = row, done, first, upcoming
    state[LISTS], state[OUT], state[MISSES], state[WIDES] = listed, written, misses, wides
    state[SHOWN] += shown
    return why
