"""MTopList: one ranked list of all objects, and for each view a pointer to the worst that it holds (FP_min)."""

import numpy as np

from skyband.kernels._jit import inline, kernel
from skyband.kernels.mtop import BLOCK, COUNT, FREE, HEAD, PEAK, ROW, TAIL, freed, lowest, rebounded, taken, takers
from skyband.kernels.ranking import shift_left as shift_forth
from skyband.kernels.ranking import shift_right as shift_back

__all__ = ["COUNT", "FREE", "HEAD", "PEAK", "ROW", "TAIL", "insert", "shrink", "walk"]


@kernel
def insert(score, time, id, stop, newest, nodes, views, pointer, order, base, state):
    """Put rows up to `stop` on the list where a view takes them (section 6.2), while there are free nodes.

    A full view that takes a row gives up the one at its pointer, which moves on to the next better one that the view
    sees. `base` is the number of the first view, `newest` that of the last; `order` has the nodes, best first.
    """
    scores, refs, panes, prev = nodes.score, nodes.refs, nodes.pane, nodes.prev
    ks, counts, bounds, _ = views
    which = np.empty(len(ks), np.int64)
    row = state[ROW]
    while row < stop and state[FREE] >= 0:
        found = takers(score[row], views, which)
        if found > 0:
            node = taken(score[row], time[row], id[row], newest, nodes, state)
            placed(node, nodes, order, state)
        for i in range(found):
            v = which[i]
            refs[node] += 1
            if counts[v] < ks[v]:
                counts[v] += 1
                if counts[v] == ks[v]:  # full: the pointer begins at the worst row that it sees
                    worst = state[TAIL]
                    while panes[worst] < base + v:
                        worst = prev[worst]
                    pointer[v], bounds[v] = worst, scores[worst]
                continue
            worst = pointer[v]
            better = prev[worst]
            while panes[better] < base + v:
                better = prev[better]
            pointer[v], bounds[v] = better, scores[better]
            refs[worst] -= 1
            if refs[worst] == 0:  # its career, with all its gaps, is over
                unplaced(worst, nodes, order, state)
                freed(worst, nodes, state)
        rebounded(views, which, found)
        row += 1
    state[ROW] = row


@inline
def placed(node, nodes, order, state):
    """Put a new node in its place on the list: above all of the same score."""
    at = found(nodes.score[node], nodes.id[node], nodes, order, state[COUNT] - 1)
    shift_back(order, at, state[COUNT] - 1)
    order[at] = node
    before = order[at - 1] if at > 0 else -1
    after = order[at + 1] if at + 1 < state[COUNT] else -1
    nodes.prev[node], nodes.next[node] = before, after
    if before >= 0:
        nodes.next[before] = node
    else:
        state[HEAD] = node
    if after >= 0:
        nodes.prev[after] = node
    else:
        state[TAIL] = node


@inline
def unplaced(node, nodes, order, state):
    """Take a node off the list."""
    at = found(nodes.score[node], nodes.id[node], nodes, order, state[COUNT])
    shift_forth(order, at, state[COUNT] - 1)
    before, after = nodes.prev[node], nodes.next[node]
    if before >= 0:
        nodes.next[before] = after
    else:
        state[HEAD] = after
    if after >= 0:
        nodes.prev[after] = before
    else:
        state[TAIL] = before


@inline
def found(score, id, nodes, order, size):
    """The first place that does not rank above (score, id). O(log c)."""
    low, high = 0, size
    while low < high:
        mid = (low + high) >> 1
        other = nodes.score[order[mid]]
        if other > score or (other == score and nodes.id[order[mid]] > id):
            low = mid + 1
        else:
            high = mid
    return low


@kernel
def walk(number, k, nodes, ids, scores, state):
    """The extractor's walk: the first k on the list that view `number` sees; how many there are."""
    got, node = 0, state[HEAD]
    while node >= 0 and got < k:
        if nodes.pane[node] >= number:
            ids[got], scores[got] = nodes.id[node], nodes.score[node]
            got += 1
        node = nodes.next[node]
    return got


@kernel
def shrink(view, k, base, nodes, views, pointer, order, state):
    """Let a view want k rows only; with 0 it is closed. Who is in no other view leaves the list."""
    rank, node = 0, state[HEAD]
    while rank < views.held[view]:
        after = nodes.next[node]
        if nodes.pane[node] >= base + view:
            rank += 1
            if rank == k:
                pointer[view], views.bound[view] = node, nodes.score[node]
            if rank > k:
                nodes.refs[node] -= 1
                if nodes.refs[node] == 0:
                    unplaced(node, nodes, order, state)
                    freed(node, nodes, state)
        node = after
    views.k[view] = k
    views.held[view] = min(k, views.held[view])
    if k == 0:
        views.bound[view] = np.inf
    views.least[view // BLOCK] = lowest(views.bound, view // BLOCK, len(views.k))
