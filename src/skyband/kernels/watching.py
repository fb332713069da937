"""What the loops over many queries share: rows in, who watches which cell, a page out."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline
from skyband.kernels.grid import slice_of

# What a loop leaves in `state` between two calls. Each has more of its own, from OWN on.
ROW = 0  # the next arrival
SEEN = 1  # steps before row 0, for windows by time
DONE = 2  # positions before this have had their step, for counting windows
FIRST, NEXT = 3, 4  # numbers of the oldest object that is kept, and of the next one to come
WIDES = 5  # queries that are shown every object
MISSES = 6  # objects shown in vain since the index was made
BUDGET = 7  # so many may be
MOVED = 8  # bars that changed since then
LISTS, OUT = 9, 10  # on the page
SHOWN = 11  # (object, query) pairs that met
INDEXED = 12  # times the index was made
OWN = 13
STATE = 16

_SEVERAL = 32  # queries, from which on looking at all of them is cheaper than sorting


class Rows(NamedTuple):
    """The arrivals."""

    point: np.ndarray  # float64 (rows, d); NaN: a step without an object
    time: np.ndarray
    id: np.ndarray


class Index(NamedTuple):
    """Who watches which cell."""

    first: np.ndarray
    query: np.ndarray
    wide: np.ndarray  # int32: who is shown everything
    is_wide: np.ndarray


@inline
def next_step(row, done, time, upto, counts):
    """The moment of the next step, and whether there is none."""
    if counts:
        return done, done >= upto
    return time[row] if row < len(time) else upto, row == len(time)


@inline
def outside(row, point, edge):
    """Whether a row lies outside the grid. If so its outermost slices are doubled, so that this happens seldom."""
    slices = edge.shape[1] - 1
    found = False
    for j in range(edge.shape[0]):
        x = point[row, j]
        if x < edge[j, 0]:
            edge[j, 0] = x - (edge[j, slices] - x)
            found = True
        elif x > edge[j, slices]:
            edge[j, slices] = x + (x - edge[j, 0])
            found = True
    return found


@inline
def complete(row, point):
    """Whether a row has all of its coordinates."""
    for j in range(point.shape[1]):
        if np.isnan(point[row, j]):
            return False
    return True


@inline
def placed(row, point, slot, kept, edge, guess, scale):
    """Copy a row to a slot; its cell."""
    cell, slices = 0, edge.shape[1] - 1
    for j in range(edge.shape[0] - 1, -1, -1):
        kept[slot, j] = point[row, j]
        cell = cell * slices + slice_of(point[row, j], j, edge, guess, scale)
    return cell


@inline
def widened(q, low, wides, reach, wide, is_wide):
    """Show everything to a query that must look further than its cells reach; to how many that is done now."""
    if low < reach[q] and not is_wide[q]:
        is_wide[q] = True
        wide[wides] = q
        wides += 1
    return wides


@inline
def in_order(looks, touched, mark):
    """Put the queries to look at, which have a mark, in their order; how many they are."""
    if looks > _SEVERAL:
        looks = 0
        for q in range(len(mark)):
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
    return looks


@inline
def noted(listed, written, step, end, q, steps, ends, queries, first):
    """Note on the page whose list ends at row `written`."""
    steps[listed], ends[listed], queries[listed], first[listed + 1] = step, end, q, written
