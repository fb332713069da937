"""The objects of a window in the cells of a grid: filing them, and finding the best of them for a query."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, kernel
from skyband.kernels.grid import cost_of, finished, finite, least_part, put
from skyband.kernels.lists import ranked_in
from skyband.kernels.watching import FIRST, NEXT


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


class Work(NamedTuple):
    """Room to work in."""

    bound: np.ndarray  # a heap of cells: the least cost ...
    code: np.ndarray  # ... and the ranks of their slices, as one number
    part: np.ndarray  # float64 (d, slices): least parts ...
    order: np.ndarray  # ... and the slices by them
    touched: np.ndarray


@inline
def sift(bound, code, size, b, c):
    """Put a cell on the heap of cells, the least cost on top."""
    i = size
    while i > 0 and b < bound[(i - 1) >> 1]:
        bound[i], code[i] = bound[(i - 1) >> 1], code[(i - 1) >> 1]
        i = (i - 1) >> 1
    bound[i], code[i] = b, c


@inline
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


@inline
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
