"""PreTopk: the predicted top-k list of every open window, as a heap of references.

Objects are rows of separate columns with a count of the heaps that refer to them. Heaps lie one after the other, k
places each, worst first, in a ring over the windows whose length is a power of two.

Yang et al., EDBT 2011, section 3.2; minimal by theorem 3.1.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inplace, kernel
from skyband.kernels.ranking import outranks
from skyband.kernels.search import lower_bound
from skyband.kernels.slide import DONE, NO_NODE, NO_ROOM, S, close_oldest, lacks_room, skip_empty


class PreTopkNodes(NamedTuple):
    """The objects referred to, and free nodes chained by `refs`."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    refs: np.ndarray  # int64: in how many lists the object is; of a free node -1 - the next free one


@kernel
def advance(arrivals, upto, k, assigner, nodes, heaps, sizes, answers, state):
    """Close the windows that have ended, open those that begin, insert what beats the worst of a window."""
    size, slide, origin = assigner
    time, ring = arrivals.time, len(sizes) - 1
    while True:
        row = state[S.row]
        limit = time[row] if row < len(time) else upto
        while state[S.candidates] > 0 and origin + state[S.oldest] * slide + size <= limit:
            if lacks_room(k, answers, state):
                return NO_ROOM
            _close(k, heaps, sizes, nodes, answers, state)
        if state[S.candidates] == 0:
            if lacks_room(0, answers, state):
                return NO_ROOM
            skip_empty(limit, assigner, answers, state)
        if row == len(time):
            return DONE
        last = (limit - origin) // slide
        for window in range(max(state[S.newest] + 1, state[S.oldest]), last + 1):
            sizes[window & ring] = 0
        state[S.newest] = last
        stop = min(origin + state[S.oldest] * slide + size, origin + (last + 1) * slide)
        stop = lower_bound(time, stop, row, len(time))
        _insert(arrivals, stop, k, nodes, heaps, sizes, state)
        if state[S.row] < stop:
            return NO_NODE


@inplace
def _close(k, heaps, sizes, nodes, answers, state):
    """Give out the oldest window's heap, best first. O(k log k)."""
    slot = state[S.oldest] & (len(sizes) - 1)
    scores, ids, refs, free = nodes.score, nodes.id, nodes.refs, state[S.free]
    rows = sizes[slot]
    for size in range(rows - 1, -1, -1):
        node = heaps[slot * k]
        answers.id[state[S.rows] + size] = ids[node]
        answers.score[state[S.rows] + size] = scores[node]
        _sift_down(heaps[slot * k + size], heaps, slot * k, size, scores, ids)
        refs[node] -= 1
        if refs[node] == 0:
            refs[node] = -1 - free
            free = node
            state[S.candidates] -= 1
    state[S.free] = free
    close_oldest(rows, answers, state)


@inplace
def _insert(arrivals, stop, k, nodes, heaps, sizes, state):
    """Put the rows up to `stop`, all of one pane, into the heap of every window they enter, newest first.

    O(windows * log k), and one comparison for a row that enters none.
    """
    score, time, id = arrivals
    scores, ids, refs, ring = nodes.score, nodes.id, nodes.refs, len(sizes) - 1
    oldest, last, count, free, row = state[S.oldest], state[S.newest], state[S.candidates], state[S.free], state[S.row]
    newest = last & ring
    while row < stop:
        if sizes[newest] == k:
            # a later window holds a part of the rows, so the newest has the least bound (lemma 4.2)
            bound = scores[heaps[newest * k]]
            while row < stop and score[row] < bound:
                row += 1
            if row == stop:
                break
        if free < 0:
            break
        node, new = free, score[row]
        free = -1 - refs[node]
        count += 1
        scores[node], nodes.time[node], ids[node] = new, time[row], id[row]
        window = last
        while window >= oldest:
            slot = window & ring
            base, size = slot * k, sizes[slot]
            if size < k:
                _sift_up(node, heaps, base, size, scores, ids)
                sizes[slot] = size + 1
            else:
                worst = heaps[base]
                if scores[worst] > new:  # equal scores: the later row wins
                    break  # older windows have bounds at least as high
                _sift_down(node, heaps, base, size, scores, ids)
                refs[worst] -= 1
                if refs[worst] == 0:
                    refs[worst] = -1 - free
                    free = worst
                    count -= 1
            window -= 1
        refs[node] = last - window
        state[S.peak] = max(state[S.peak], count)
        row += 1
    state[S.candidates], state[S.free], state[S.row] = count, free, row


@inplace
def _sift_up(node, heaps, base, hole, scores, ids):
    """Put a node into the heap at `base`, from the free place `hole` at its end. O(log k)."""
    while hole > 0:
        place = base + ((hole - 1) >> 1)
        parent = heaps[place]
        if outranks(scores[node], ids[node], scores[parent], ids[parent]):
            break
        heaps[base + hole] = parent
        hole = place - base
    heaps[base + hole] = node


@inplace
def _sift_down(node, heaps, base, size, scores, ids):
    """Put a node in place of the worst of the heap at `base`. O(log k)."""
    hole, at = 0, 1
    while at < size:
        child = heaps[base + at]
        if at + 1 < size:
            other = heaps[base + at + 1]
            if outranks(scores[child], ids[child], scores[other], ids[other]):
                child = other
                at += 1
        if outranks(scores[child], ids[child], scores[node], ids[node]):
            break
        heaps[base + hole] = child
        hole, at = at, 2 * at + 1
    heaps[base + hole] = node
