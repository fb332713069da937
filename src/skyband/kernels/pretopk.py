"""The predicted top-k lists of PreTopk: one heap of references for every open window.

Objects are rows of separate columns with a count of the heaps that refer to them. Heaps are rows of a
matrix, worst first, and a ring over the windows: its length is a power of two.
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
            close(heaps, sizes, nodes, lists, state)
        if state[COUNT] == 0:
            if crowded(0, lists, state):
                return NO_ROOM
            rest(limit, clock, lists, state)
        if row == len(time):
            return DONE
        last = (limit - origin) // slide
        for window in range(max(state[NEWEST] + 1, state[OLDEST]), last + 1):
            sizes[window & ring] = 0
        state[NEWEST] = max(state[NEWEST], last)
        stop = min(origin + state[OLDEST] * slide + size, origin + (last + 1) * slide)
        stop = until(time, row, stop)
        newest = last & ring
        while row < stop:
            if sizes[newest] == k:
                # a later window holds a part of the rows, so the newest has the least bound (lemma 4.2)
                bound = nodes.score[heaps[newest, 0]]
                while row < stop and score[row] < bound:
                    row += 1
                if row == stop:
                    break
            if state[FREE] < 0:
                state[ROW] = row
                return NO_NODE
            insert(score[row], time[row], id[row], k, nodes, heaps, sizes, state)
            row += 1
        state[ROW] = row


@kernel
def close(heaps, sizes, nodes, lists, state):
    """Give out the oldest window's heap, best first, and forget it. O(k log k)."""
    slot = state[OLDEST] & (len(sizes) - 1)
    heap, size = heaps[slot], sizes[slot]
    for at in range(state[OUT] + size - 1, state[OUT] - 1, -1):
        node = heap[0]
        lists.id[at] = nodes.id[node]
        lists.score[at] = nodes.score[node]
        sizes[slot] -= 1
        sift_down(heap[sizes[slot]], heap, sizes[slot], nodes)
        let_go(node, nodes, state)
    say(size, lists, state)


@kernel
def insert(score, time, id, k, nodes, heaps, sizes, state):
    """Put an object into the list of every window it enters, newest first. O(windows * log k)."""
    ring = len(sizes) - 1
    node = state[FREE]
    state[FREE] = -1 - nodes.refs[node]
    state[COUNT] += 1
    nodes.score[node], nodes.time[node], nodes.id[node], nodes.refs[node] = score, time, id, 0
    for window in range(state[NEWEST], state[OLDEST] - 1, -1):
        slot = window & ring
        heap, size = heaps[slot], sizes[slot]
        if size < k:
            sift_up(node, heap, size, nodes)
            sizes[slot] = size + 1
        elif nodes.score[heap[0]] <= score:  # equal scores: the later object wins
            worst = heap[0]
            sift_down(node, heap, size, nodes)
            let_go(worst, nodes, state)
        else:
            break  # older windows have bounds at least as high
        nodes.refs[node] += 1
    state[PEAK] = max(state[PEAK], state[COUNT])


@kernel
def let_go(node, nodes, state):
    """One list less refers to the node; the last one frees it."""
    nodes.refs[node] -= 1
    if nodes.refs[node] == 0:
        nodes.refs[node] = -1 - state[FREE]
        state[FREE] = node
        state[COUNT] -= 1


@kernel
def below(a, b, nodes):
    """Whether node `a` ranks below node `b`."""
    if nodes.score[a] == nodes.score[b]:
        return nodes.id[a] < nodes.id[b]
    return nodes.score[a] < nodes.score[b]


@kernel
def sift_up(node, heap, hole, nodes):
    """Put a node into the heap, from the free place `hole` at its end. O(log k)."""
    while hole > 0:
        parent = (hole - 1) >> 1
        if below(heap[parent], node, nodes):
            break
        heap[hole] = heap[parent]
        hole = parent
    heap[hole] = node


@kernel
def sift_down(node, heap, size, nodes):
    """Put a node in place of the heap's worst. O(log k)."""
    hole, child = 0, 1
    while child < size:
        if child + 1 < size and below(heap[child + 1], heap[child], nodes):
            child += 1
        if below(node, heap[child], nodes):
            break
        heap[hole] = heap[child]
        hole, child = child, 2 * child + 1
    heap[hole] = node
