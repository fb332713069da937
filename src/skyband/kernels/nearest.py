"""Many queries over one stream of points, one step a row: all objects of the window in the cells of a grid.

A query keeps a ranked list that is a prefix of its ranking of the window, and a bar: whoever scores at least the bar
is on the list. An arrival meets only the queries that watch its cell. When fewer than k are left, the list is made
anew from the cells, best first. How long a list is made, when it is cut and whether it drops what k later ones beat
is all that tells TMA, SMA, CPM/w, SNN and our own way apart.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import bare, inlined, kernel
from skyband.kernels.grid import cost_of, finished, finite, least_part, put, slice_of

# What the loop leaves in `state` between two calls.
ROW = 0  # the next arrival
SEEN = 1  # steps before row 0, for windows by time
DONE = 2  # positions before this have had their step, for counting windows
FIRST, NEXT = 3, 4  # numbers of the oldest object of the window, and of the next one to come
WIDES = 5  # queries that are shown every object
MISSES = 6  # objects shown in vain since the index was made
BUDGET = 7  # so many may be
MOVED = 8  # bars that changed since then
PEAK = 9  # objects in the window, at most
LISTS, OUT = 10, 11  # on the page
SEARCHES = 12  # lists made anew
SHOWN = 13  # (object, query) pairs that met
INDEXED = 14  # times the index was made
FRESH = 15  # queries that came while the stream ran, and have not looked at the window yet
STATE = 16

# Why it came back.
FINISHED, PAGE, STORE, INDEX = range(4)
# What is told: each object once, lists that have changed, or every list at every step.
ONCE, CHANGED, EVERY = range(3)
_WOKEN, _NEW = 1, 2  # why a query is looked at: its oldest may have left; its k best have changed
UNSEEN = _NEW  # the mark of a query that has just come


class Rows(NamedTuple):
    """The arrivals."""

    point: np.ndarray  # float64 (rows, d); NaN: a step without an object
    time: np.ndarray
    id: np.ndarray


class Store(NamedTuple):
    """The objects of the window, object `number` in slot `number & mask`; each cell has a queue of them."""

    point: np.ndarray
    time: np.ndarray
    id: np.ndarray
    cell: np.ndarray  # int32
    next: np.ndarray  # int32: the next slot of the same cell
    told: np.ndarray  # uint64 (slots, words): a bit for each query that has reported it
    wakes: np.ndarray  # int32: the first query to look at when it leaves
    head: np.ndarray  # int32 (cells)
    tail: np.ndarray


class Lists(NamedTuple):
    """What each query keeps, a row each, best first."""

    score: np.ndarray  # float64 (queries, room)
    number: np.ndarray  # int64 (queries, room)
    beaten: np.ndarray  # int32 (queries, room): by how many later ones
    size: np.ndarray
    k: np.ndarray
    fill: np.ndarray  # how many a list made anew has
    most: np.ndarray  # beyond this ...
    cut: np.ndarray  # ... it is cut back to this
    whole: np.ndarray  # bool: nobody else is in the window, but for those that k later ones beat


class Marks(NamedTuple):
    """How far each query has come."""

    bar: np.ndarray
    threshold: np.ndarray  # the bar when the list was last made: what the papers call the indexing threshold
    reach: np.ndarray  # the bar that the cells it watches are for
    link: np.ndarray  # int32: the next query to look at when the same object leaves
    mark: np.ndarray  # int8: why to look at it
    spoke: np.ndarray  # bool: the last list had rows
    chained: np.ndarray  # bool


class Index(NamedTuple):
    """Who watches which cell."""

    first: np.ndarray
    query: np.ndarray
    wide: np.ndarray  # int32: who is shown everything
    is_wide: np.ndarray


class Work(NamedTuple):
    """Room to work in."""

    bound: np.ndarray  # a heap of cells: the least cost ...
    code: np.ndarray  # ... and the ranks of their slices, as one number
    part: np.ndarray  # float64 (d, slices): least parts ...
    order: np.ndarray  # ... and the slices by them
    touched: np.ndarray


class Shape(NamedTuple):
    """The queries as numbers."""

    kind: int
    size: int  # of the window
    counts: bool
    prunes: bool
    tells: int


class Page(NamedTuple):
    """Room for what is told."""

    step: np.ndarray
    end: np.ndarray
    query: np.ndarray
    first: np.ndarray
    id: np.ndarray
    score: np.ndarray
    rank: np.ndarray


@inlined
def ranked_in(s, n, q, size, want, l_score, l_number):
    """Put (s, n) on a list that keeps the `want` best; its new size. O(want)."""
    if size == want:
        if l_score[q, size - 1] > s or (l_score[q, size - 1] == s and l_number[q, size - 1] > n):
            return size
        size -= 1
    i = size
    while i > 0 and (l_score[q, i - 1] < s or (l_score[q, i - 1] == s and l_number[q, i - 1] < n)):
        l_score[q, i], l_number[q, i] = l_score[q, i - 1], l_number[q, i - 1]
        i -= 1
    l_score[q, i], l_number[q, i] = s, n
    return size + 1


@inlined
def sift(bound, code, size, b, c):
    """Put a cell on the heap of cells, the least cost on top."""
    i = size
    while i > 0 and b < bound[(i - 1) >> 1]:
        bound[i], code[i] = bound[(i - 1) >> 1], code[(i - 1) >> 1]
        i = (i - 1) >> 1
    bound[i], code[i] = b, c


@inlined
def take(bound, code, size):
    """Remove the top of a heap of `size` cells."""
    b, c = bound[size - 1], code[size - 1]
    last = size - 1
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and bound[child + 1] < bound[child]:
            child += 1
        if bound[child] >= b:
            break
        bound[i], code[i] = bound[child], code[child]
        i = child
    if last > 0:
        bound[i], code[i] = b, c


@inlined
def search(q, want, first, upcoming, kind, to, weight, edge, s_point, s_next, s_head, l_score, l_number, work):
    """Put the `want` best objects of the window on the list of `q`; how many there are.

    Cells are visited best first: the slices of each dimension by what they add at least, and from a cell on to those
    that differ by one rank in one dimension, not before its last that differs from 0, so that each comes once.
    This is the walk of TMA, from the best corner, and of CPM, outwards from the target.
    """
    bound, code, part, order, _ = work
    d, slices = edge.shape[0], edge.shape[1] - 1
    mask = len(s_next) - 1
    size = 0
    if upcoming - first <= want:
        for n in range(first, upcoming):
            slot = n & mask
            s = -cost_of(q, slot, kind, to, weight, s_point)
            if not np.isnan(s) and (np.isfinite(s) or not finite(slot, s_point)):
                size = ranked_in(s, n, q, size, want, l_score, l_number)
        return size
    for j in range(d):
        best = 0
        for i in range(slices):
            part[j, i] = least_part(q, j, i, kind, to, weight, edge)
            if part[j, i] < part[j, best]:
                best = i
        low, high = best, best + 1
        for i in range(slices):  # parts fall to the best slice and rise after it
            if high == slices or (low >= 0 and part[j, low] <= part[j, high]):
                order[j, i] = low
                low -= 1
            else:
                order[j, i] = high
                high += 1
    heap = 0
    total = part[0, order[0, 0]]
    for j in range(1, d):
        total = put(total, part[j, order[j, 0]], kind)
    top = finished(total, kind)
    sift(bound, code, heap, -np.inf if np.isnan(top) else top, 0)
    heap += 1
    while heap > 0:
        if size == want and bound[0] > -l_score[q, size - 1]:
            break
        ranks = code[0]
        take(bound, code, heap)
        heap -= 1
        # the objects of the cell
        cell, left, base, last = 0, ranks, 1, 0
        for j in range(d):
            r = left % slices
            left //= slices
            cell += order[j, r] * base
            base *= slices
            if r > 0:
                last = j
        slot = s_head[cell]
        while slot >= 0:
            s = -cost_of(q, slot, kind, to, weight, s_point)
            if not np.isnan(s) and (size < want or s >= l_score[q, size - 1]):
                if np.isfinite(s) or not finite(slot, s_point):
                    n = first + ((slot - first) & mask)
                    size = ranked_in(s, n, q, size, want, l_score, l_number)
            slot = s_next[slot]
        # the cells after it
        base = 1
        for j in range(d):
            if j >= last and (ranks // base) % slices + 1 < slices:
                left = ranks + base
                total = part[0, order[0, left % slices]]
                for other in range(1, d):
                    left //= slices
                    total = put(total, part[other, order[other, left % slices]], kind)
                top = finished(total, kind)
                sift(bound, code, heap, -np.inf if np.isnan(top) else top, ranks + base)
                heap += 1
            base *= slices
    return size


@bare
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
    steps, ends, out_query, out_first, out_id, out_score, out_rank = page
    queries, d, slices = len(l_k), edge.shape[0], edge.shape[1] - 1
    mask, rows_end = len(s_next) - 1, len(time)
    row, done, first, upcoming = state[ROW], state[DONE], state[FIRST], state[NEXT]
    listed, written, misses, wides = state[LISTS], state[OUT], state[MISSES], state[WIDES]
    shown = 0
    worst = 0
    for q in range(queries):
        worst += l_k[q]
    why = FINISHED
    while True:
        # the next step, and room for it
        now = time[row] if row < rows_end else upto
        if counts:
            now = done
            if now >= upto:
                break
        elif row == rows_end:
            break
        comes = row < rows_end and time[row] == now
        if listed + queries > len(steps) or written + worst > len(out_id):
            why = PAGE
            break
        if upcoming - first > mask:
            why = STORE
            break
        if misses > state[BUDGET] and state[MOVED] > 0:
            why = INDEX
            break
        there = comes
        if comes:
            for j in range(d):
                x = point[row, j]
                there = there and not np.isnan(x)
                # double the outermost slices, so that this happens seldom
                if x < edge[j, 0]:
                    edge[j, 0] = x - (edge[j, slices] - x)
                    why = INDEX
                elif x > edge[j, slices]:
                    edge[j, slices] = x + (x - edge[j, 0])
                    why = INDEX
            if why == INDEX:
                break
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
            to_i = 0
            for i in range(l_size[q]):
                if l_number[q, i] >= first:
                    l_score[q, to_i], l_number[q, to_i] = l_score[q, i], l_number[q, i]
                    if prunes:
                        l_beaten[q, to_i] = l_beaten[q, i]
                    to_i += 1
                elif i < l_k[q]:
                    mark[q] |= _NEW
            l_size[q] = to_i
        # who comes
        if comes:
            row += 1
        if there:
            slot = upcoming & mask
            cell = 0
            for j in range(d - 1, -1, -1):
                s_point[slot, j] = point[row - 1, j]
                cell = cell * slices + slice_of(point[row - 1, j], j, edge, guess, scale)
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
                if prunes:
                    # everyone below is older and counts one dominator more; whoever has k is out
                    new = at
                    for i in range(at, size):
                        if l_beaten[q, i] + 1 < l_k[q]:
                            l_score[q, new], l_number[q, new] = l_score[q, i], l_number[q, i]
                            l_beaten[q, new] = l_beaten[q, i] + 1
                            new += 1
                    size = new
                    for i in range(size, at, -1):
                        l_beaten[q, i] = l_beaten[q, i - 1]
                    l_beaten[q, at] = 0
                for i in range(size, at, -1):
                    l_score[q, i], l_number[q, i] = l_score[q, i - 1], l_number[q, i - 1]
                l_score[q, at], l_number[q, at] = s, upcoming - 1
                size += 1
                if size > l_most[q]:
                    # drop who has left; if that does not help, the worst
                    new = 0
                    for i in range(size):
                        if l_number[q, i] >= first:
                            l_score[q, new], l_number[q, new] = l_score[q, i], l_number[q, i]
                            if prunes:
                                l_beaten[q, new] = l_beaten[q, i]
                            new += 1
                    size = new
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
        if looks > 1:
            if looks > 32:
                looks = 0
                for q in range(queries):
                    if mark[q]:
                        touched[looks] = q
                        looks += 1
            else:
                for i in range(1, looks):
                    q = touched[i]
                    j = i
                    while j > 0 and touched[j - 1] > q:
                        touched[j] = touched[j - 1]
                        j -= 1
                    touched[j] = q
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
                if bar[q] < reach[q] and not is_wide[q]:
                    is_wide[q] = True
                    wide[wides] = q
                    wides += 1
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
                for i in range(count):
                    out_id[written + i] = s_id[l_number[q, i] & mask]
                    out_score[written + i] = l_score[q, i]
            if got > 0 or (tells == CHANGED and spoke[q]):
                spoke[q] = got > 0
                steps[listed] = now + 1 if counts else state[SEEN] + row
                ends[listed] = now + 1
                out_query[listed] = q
                written += got
                listed += 1
                out_first[listed] = written
        if tells == EVERY:
            for q in range(queries):
                got = min(l_size[q], l_k[q])
                for i in range(got):
                    out_id[written + i] = s_id[l_number[q, i] & mask]
                    out_score[written + i] = l_score[q, i]
                if got > 0 or spoke[q]:
                    spoke[q] = got > 0
                    steps[listed] = now + 1 if counts else state[SEEN] + row
                    ends[listed] = now + 1
                    out_query[listed] = q
                    written += got
                    listed += 1
                    out_first[listed] = written
    state[ROW], state[DONE], state[FIRST], state[NEXT] = row, done, first, upcoming
    state[LISTS], state[OUT], state[MISSES], state[WIDES] = listed, written, misses, wides
    state[SHOWN] += shown
    return why


@kernel
def file(store, state, cell):
    """Put all objects of the window into the cells of a new grid; `cell` has that of each, oldest first."""
    mask = len(store.next) - 1
    store.head[:] = -1
    store.tail[:] = -1
    first = state[FIRST]
    for n in range(first, state[NEXT]):
        slot = n & mask
        c = cell[n - first]
        store.cell[slot], store.next[slot] = c, -1
        if store.tail[c] >= 0:
            store.next[store.tail[c]] = slot
        else:
            store.head[c] = slot
        store.tail[c] = slot
