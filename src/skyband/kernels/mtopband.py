"""MTopBand: every view has its own ranked list of references to objects that are kept once."""

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.mtop import BLOCK, COUNT, FREE, HEAD, PEAK, ROW, TAIL, freed, lowest, rebounded, taken, takers

__all__ = ["COUNT", "FREE", "HEAD", "PEAK", "ROW", "TAIL", "answer", "insert", "shrink"]


@kernel
def insert(score, time, id, stop, newest, nodes, views, lists, first, state):
    """Put rows up to `stop` into every view whose worst they beat (section 5.2), while there are free nodes.

    `lists[first[v]:]` are the nodes of view v, best first; `newest` is the number of the newest view.
    """
    scores, refs = nodes.score, nodes.refs
    ks, counts, bounds, _ = views
    which = np.empty(len(ks), np.int64)
    row = state[ROW]
    while row < stop and state[FREE] >= 0:
        new = score[row]
        found = takers(new, views, which)
        if found > 0:
            node = taken(new, time[row], id[row], newest, nodes, state)
        for i in range(found):
            v = which[i]
            base, size = first[v], counts[v]
            if size == ks[v]:
                size -= 1
                worst = lists[base + size]
                refs[worst] -= 1
                if refs[worst] == 0:
                    freed(worst, nodes, state)
            low, high = base, base + size
            while low < high:  # equal scores: the later row wins
                mid = (low + high) >> 1
                if scores[lists[mid]] > new:
                    low = mid + 1
                else:
                    high = mid
            for place in range(base + size, low, -1):
                lists[place] = lists[place - 1]
            lists[low] = node
            refs[node] += 1
            counts[v] = size + 1
            if size + 1 == ks[v]:
                bounds[v] = scores[lists[base + size]]
        rebounded(views, which, found)
        row += 1
    state[ROW] = row


@kernel
def answer(view, k, nodes, lists, first, counts, ids, scores):
    """The first k of a view's list; how many there are."""
    got = min(k, counts[view])
    for i in range(got):
        node = lists[first[view] + i]
        ids[i], scores[i] = nodes.id[node], nodes.score[node]
    return got


@kernel
def shrink(view, k, nodes, views, lists, first, state):
    """Let a view want k rows only; with 0 it is closed."""
    for i in range(k, views.held[view]):
        node = lists[first[view] + i]
        nodes.refs[node] -= 1
        if nodes.refs[node] == 0:
            freed(node, nodes, state)
    views.k[view] = k
    views.held[view] = min(k, views.held[view])
    if k == 0:
        views.bound[view] = np.inf
    elif views.held[view] == k:
        views.bound[view] = nodes.score[lists[first[view] + k - 1]]
    views.least[view // BLOCK] = lowest(views.bound, view // BLOCK, len(views.k))
