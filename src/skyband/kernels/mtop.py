"""What the kernels of MTopBand and MTopList share: the objects that are kept, and the views that keep them."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline

# What a kernel leaves in `state` between two calls.
COUNT, PEAK, FREE, HEAD, TAIL, ROW, STATE = range(7)
BLOCK = 64  # views whose least bound is known


class Nodes(NamedTuple):
    """The objects, one copy of each; free nodes are chained by `next`."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    pane: np.ndarray  # int64: number of the newest view when it came: it is in that one and all before it
    refs: np.ndarray  # int32: in the lists of so many views
    prev: np.ndarray  # int32: the next better one, -1: none
    next: np.ndarray  # int32: the next worse one


class Predicted(NamedTuple):
    """The views by place, oldest first."""

    k: np.ndarray  # int64: how many rows it wants; 0: closed
    held: np.ndarray  # int64: how many it has
    bound: np.ndarray  # float64: a row must not be below this to enter; -inf: any may
    least: np.ndarray  # float64: the least bound of each block of views, or less


@inline
def taken(score, time, id, newest, nodes, state):
    """A free node, filled; it is in no view yet."""
    node = state[FREE]
    state[FREE] = nodes.next[node]
    nodes.score[node], nodes.time[node], nodes.id[node], nodes.pane[node] = score, time, id, newest
    nodes.refs[node] = 0
    state[COUNT] += 1
    state[PEAK] = max(state[PEAK], state[COUNT])
    return node


@inline
def freed(node, nodes, state):
    """Chain a node that no view holds any more."""
    nodes.next[node] = state[FREE]
    state[FREE] = node
    state[COUNT] -= 1


@inline
def takers(new, views, which):
    """Put the places of the views that take a row of this score into `which`; how many there are."""
    ks, _, bounds, least = views
    found = 0
    for block in range(len(least)):
        if new < least[block]:
            continue
        for v in range(block * BLOCK, min((block + 1) * BLOCK, len(ks))):
            if new >= bounds[v] and ks[v] > 0:
                which[found] = v
                found += 1
    return found


@inline
def rebounded(views, which, found):
    """The bounds of these views have risen: so may have the least of their blocks."""
    block = -1
    for i in range(found):
        if which[i] // BLOCK > block:
            block = which[i] // BLOCK
            views.least[block] = lowest(views.bound, block, len(views.k))


@inline
def lowest(bound, block, views):
    """The least bound of a block of views."""
    least = np.inf
    for v in range(block * BLOCK, min((block + 1) * BLOCK, views)):
        least = min(least, bound[v])
    return least
