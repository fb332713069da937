"""The predicted top-k lists of PreTopk: one heap of references for every open window.

Objects are rows of separate columns with a count of the heaps that refer to them. Heaps lie
one after the other, k places each, worst first, in a ring over the windows whose length is a power of two.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.slide import (
    COUNT,
    DONE,
    FREE,
    NEWEST,
    NO_NODE,
    NO_ROOM,
    OLDEST,
    OUT,
    PEAK,
    ROW,
    crowded,
    rest,
    say,
    until,
)


class Nodes(NamedTuple):
    """The objects referred to, and free nodes chained by `refs`."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    refs: np.ndarray  # int64: in how many lists the object is; of a free node -1 - the next free one


@kernel
def advance(score, time, id, upto, k, clock, nodes, heaps, sizes, lists, state):
    """Close what has ended, open what begins, insert what beats the worst of a window."""
    size, slide, origin = clock
    ring = len(sizes) - 1
    while True:
        row = state[ROW]
        limit = time[row] if row < len(time) else upto
        while state[COUNT] > 0 and origin + state[OLDEST] * slide + size <= limit:
            if crowded(k, lists, state):
                return NO_ROOM
            close(k, heaps, sizes, nodes, lists, state)
        if state[COUNT] == 0:
            if crowded(0, lists, state):
                return NO_ROOM
            rest(limit, clock, lists, state)
        if row == len(time):
            return DONE
        last = (limit - origin) // slide
        for window in range(max(state[NEWEST] + 1, state[OLDEST]), last + 1):
            sizes[window & ring] = 0
        state[NEWEST] = last
        stop = min(origin + state[OLDEST] * slide + size, origin + (last + 1) * slide)
        stop = until(time, row, stop)
        insert(score, time, id, stop, k, nodes, heaps, sizes, state)
        if state[ROW] < stop:
            return NO_NODE


@kernel
def close(k, heaps, sizes, nodes, lists, state):
    """Give out the oldest window's heap, best first, and forget it. O(k log k)."""
    slot = state[OLDEST] & (len(sizes) - 1)
    scores, ids, refs, free = nodes.score, nodes.id, nodes.refs, state[FREE]
    rows = sizes[slot]
    for size in range(rows - 1, -1, -1):
        node = heaps[slot * k]
        lists.id[state[OUT] + size] = ids[node]
        lists.score[state[OUT] + size] = scores[node]
        sift_down(heaps[slot * k + size], heaps, slot * k, size, scores, ids)
        refs[node] -= 1
        if refs[node] == 0:
            refs[node] = -1 - free
            free = node
            state[COUNT] -= 1
    state[FREE] = free
    say(rows, lists, state)


@kernel
def insert(score, time, id, stop, k, nodes, heaps, sizes, state):
    """Put the rows up to `stop`, all of one pane, into the heap of every window they enter, newest first.

    O(windows * log k), and one comparison for a row that enters none. One function for all the rows: numba
    counts references to every array at every call.
    """
    scores, ids, refs, ring = nodes.score, nodes.id, nodes.refs, len(sizes) - 1
    oldest, last, count, free, row = state[OLDEST], state[NEWEST], state[COUNT], state[FREE], state[ROW]
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
                sift_up(node, heaps, base, size, scores, ids)
                sizes[slot] = size + 1
            else:
                worst = heaps[base]
                if scores[worst] > new:  # equal scores: the later row wins
                    break  # older windows have bounds at least as high
                sift_down(node, heaps, base, size, scores, ids)
                refs[worst] -= 1
                if refs[worst] == 0:
                    refs[worst] = -1 - free
                    free = worst
                    count -= 1
            window -= 1
        refs[node] = last - window
        state[PEAK] = max(state[PEAK], count)
        row += 1
    state[COUNT], state[FREE], state[ROW] = count, free, row


@kernel
def sift_up(node, heaps, base, hole, scores, ids):
    """Put a node into the heap at `base`, from the free place `hole` at its end. O(log k)."""
    score = scores[node]
    while hole > 0:
        place = base + ((hole - 1) >> 1)
        parent = heaps[place]
        if scores[parent] < score or (scores[parent] == score and ids[parent] < ids[node]):
            break
        heaps[base + hole] = parent
        hole = place - base
    heaps[base + hole] = node


@kernel
def sift_down(node, heaps, base, size, scores, ids):
    """Put a node in place of the worst of the heap at `base`. O(log k)."""
    score = scores[node]
    hole, at = 0, 1
    while at < size:
        child = heaps[base + at]
        if at + 1 < size:
            other = heaps[base + at + 1]
            if scores[other] < scores[child] or (scores[other] == scores[child] and ids[other] < ids[child]):
                child = other
                at += 1
        if score < scores[child] or (score == scores[child] and ids[node] < ids[child]):
            break
        heaps[base + hole] = child
        hole, at = at, 2 * at + 1
    heaps[base + hole] = node
