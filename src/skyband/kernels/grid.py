"""A grid over points in d dimensions: which cell a point is in, what a cell can score, and who watches it.

A score is minus a cost. A cost is put together from one part a dimension, by adding or by taking the largest. Every
step of that rounds the same way for a point and for the edge of its cell, so a cell's least cost is never above that
of a point in it: no tolerance is needed.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, kernel

SUM, EUCLIDEAN, MANHATTAN, CHEBYSHEV = range(4)  # how parts become a cost


class Aims(NamedTuple):
    """What each query asks: a target and weights, or weights alone."""

    to: np.ndarray  # float64 (queries, d)
    weight: np.ndarray  # float64 (queries, d)


class Grid(NamedTuple):
    """Cuts of each dimension. Cell numbers count through the slices of the first dimension first."""

    edge: np.ndarray  # float64 (d, slices + 1): a slice is [edge, next edge); the outermost ones hold all that was seen
    guess: np.ndarray  # int64 (d, buckets): where to begin looking for the slice of a value
    scale: np.ndarray  # float64 (d, 2): the least value, and buckets for each unit


@inline
def slice_of(x, j, edge, guess, scale):
    """The slice of a value. O(1) unless the cuts are very uneven."""
    last = edge.shape[1] - 2
    i = 0
    if x >= edge[j, last]:  # infinities too
        i = last
    elif x > scale[j, 0]:
        i = guess[j, min(int((x - scale[j, 0]) * scale[j, 1]), guess.shape[1] - 1)]
    while i > 0 and x < edge[j, i]:
        i -= 1
    while i < last and x >= edge[j, i + 1]:
        i += 1
    return i


@inline
def cost_of(q, p, kind, to, weight, point):
    """What point `p` costs query `q`."""
    total = 0.0
    for j in range(point.shape[1]):
        if kind == SUM:
            part = -(weight[q, j] * point[p, j])
        else:
            part = weight[q, j] * abs(point[p, j] - to[q, j])
            if kind == EUCLIDEAN:
                part *= part
        if j == 0:
            total = part
        elif kind == CHEBYSHEV:
            total = max(total, part)
        else:
            total += part
    return np.sqrt(total) if kind == EUCLIDEAN else total


@inline
def least_part(q, j, i, kind, to, weight, edge):
    """The least that slice `i` of a dimension adds to a cost."""
    low, high, w = edge[j, i], edge[j, i + 1], weight[q, j]
    if kind == SUM:
        return -(w * (high if w > 0.0 else low))
    t = to[q, j]
    part = 0.0
    if t < low:
        part = w * (low - t)
    elif t > high:
        part = w * (t - high)
    return part * part if kind == EUCLIDEAN else part


@inline
def put(total, part, kind):
    """A cost with one part more."""
    return max(total, part) if kind == CHEBYSHEV else total + part


@inline
def finished(total, kind):
    """The cost that all parts make."""
    return np.sqrt(total) if kind == EUCLIDEAN else total


@inline
def finite(p, point):
    """Whether every coordinate is: then an infinite cost is an overflow, and no score."""
    for j in range(point.shape[1]):
        if not np.isfinite(point[p, j]):
            return False
    return True


@kernel
def watch(kind, aims, grid, bar):
    """Which queries watch which cell: those that could find a score of at least their bar in it.

    Returns for each cell where its queries begin, the queries, and which of them would watch more than half of the
    cells: these are listed nowhere and must be shown everything. O(cells watched) a query, after O(d slices).
    """
    to, weight = aims
    edge = grid.edge
    d, slices = edge.shape[0], edge.shape[1] - 1
    cells = slices**d
    first = np.zeros(cells + 1, np.int64)
    room = 1024
    pair = np.empty((2, room), np.int64)
    size = 0
    part = np.empty((d, slices))
    low, high, at = np.empty(d, np.int64), np.empty(d, np.int64), np.empty(d, np.int64)
    best = np.empty(d)
    wide = np.ones(len(bar), np.bool_)
    for q in range(len(bar)):
        if bar[q] == -np.inf:
            continue
        began = size
        limit = -bar[q]
        for j in range(d):
            best[j] = np.inf
            for i in range(slices):
                part[j, i] = least_part(q, j, i, kind, to, weight, edge)
                best[j] = min(best[j], part[j, i])
        for j in range(d):  # the box around all cells that can be good enough
            low[j], high[j] = slices, -1
            for i in range(slices):
                cost = part[0, i] if j == 0 else best[0]
                for other in range(1, d):
                    cost = put(cost, part[j, i] if other == j else best[other], kind)
                if not finished(cost, kind) > limit:
                    low[j], high[j] = min(low[j], i), i
        # the cells of the box, the last dimension outermost
        j = d - 1
        at[j] = low[j] - 1
        while j < d:
            at[j] += 1
            if at[j] > high[j]:
                j += 1
                continue
            if j > 0:
                j -= 1
                at[j] = low[j] - 1
                continue
            cost = part[0, at[0]]
            for other in range(1, d):
                cost = put(cost, part[other, at[other]], kind)
            if finished(cost, kind) > limit:
                continue
            cell = at[d - 1]
            for other in range(d - 2, -1, -1):
                cell = cell * slices + at[other]
            if size == room:
                room *= 2
                longer = np.empty((2, room), np.int64)
                longer[:, :size] = pair
                pair = longer
            pair[0, size], pair[1, size] = cell, q
            size += 1
        wide[q] = 2 * (size - began) > cells
        if wide[q]:
            size = began
    for i in range(size):
        first[pair[0, i] + 1] += 1
    for cell in range(cells):
        first[cell + 1] += first[cell]
    query = np.empty(size, np.int32)
    fill = first[:-1].copy()
    for i in range(size):
        cell = pair[0, i]
        query[fill[cell]] = pair[1, i]
        fill[cell] += 1
    return first, query, wide


@kernel
def cells_of(point, grid):
    """The cell of each point. Values outside the outermost edges belong to the outermost slices."""
    edge, guess, scale = grid
    d, slices = edge.shape[0], edge.shape[1] - 1
    cell = np.empty(len(point), np.int32)
    for p in range(len(point)):
        c = 0
        for j in range(d - 1, -1, -1):
            c = c * slices + slice_of(point[p, j], j, edge, guess, scale)
        cell[p] = c
    return cell
