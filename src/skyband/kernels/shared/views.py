"""Views: what the open windows of many queries see of one group, in the order in which they begin.

A view is a window of one query that holds a row. Rows store the last view that had begun when they came (their pane),
so a row is in a window if its pane is the window's view or a later one. Of the windows of a query that begin between
two rows only the last is a view: it sees the same rows as those before it, for longer. Of views between which no row
is kept, only those remain that need more rows, or for longer, than all others there.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel
from skyband.kernels.columns import MIN_TIME

UNLIMITED = 1 << 62
"""More than any time, number of rows, or number of queries."""
_STEPS = 64  # views between two rows, at most; further ones are merged, which keeps more rows than needed


class Records(NamedTuple):
    """The queries as columns, in their order."""

    k: np.ndarray
    size: np.ndarray
    slide: np.ndarray
    origin: np.ndarray
    low: np.ndarray  # windows that begin before this are not answered ...
    high: np.ndarray  # ... nor those that begin here or later
    moment: np.ndarray  # row of `since` that also says from where on a group's windows are answered ...
    until: np.ndarray  # ... and the one that says where that ends; 0: none
    number: np.ndarray  # the query's number, under which its answers go out


class Views(NamedTuple):
    """The views, oldest first; those of group g are first[0, g] to first[1, g]."""

    at: np.ndarray  # int64: time of the first row in it
    end: np.ndarray  # int64: where its window ends
    k: np.ndarray  # int64
    first: np.ndarray  # int64, 2 rows


class ViewColumns(NamedTuple):
    """The views of one group."""

    at: np.ndarray
    end: np.ndarray
    k: np.ndarray


class ViewWork(NamedTuple):
    """The views of the group at work, and memory to count their rows and to merge them."""

    views: ViewColumns
    pane_rows: np.ndarray  # how many rows of each pane
    place: np.ndarray  # numbers of the views after a merge
    steps: ViewColumns  # those between two rows
    limit: np.ndarray  # from so many views on they are merged


@kernel
def empty_views(size):
    """Allocate room for so many views."""
    return ViewColumns(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64))


@kernel
def reserve_views(views, used, more):
    """Return `views`, or longer copies with room for `more` views after the first `used`."""
    if used + more <= len(views.at):
        return views
    longer = empty_views(2 * (used + more))
    copy_views(views, 0, used, longer, 0)
    return longer


@inplace
def copy_views(views, low, size, to, at):
    """Copy `size` views from `low` on to `at`."""
    for v in range(size):
        to.at[at + v], to.end[at + v], to.k[at + v] = views.at[low + v], views.end[low + v], views.k[low + v]


@kernel
def view_work(views):
    """Allocate memory to work on these views, one of which may be a sentinel."""
    size = len(views.at)
    limit = np.zeros(1, np.int64)
    return ViewWork(views, np.empty(size, np.int64), np.empty(size, np.int64), empty_views(_STEPS), limit)


@inline
def add_view(views, n, time, end, k):
    """Add a view, unless another one of the same row needs as much for as long. Return the number of views."""
    last = n - 1
    if last >= 0 and views.at[last] == time:
        if views.k[last] >= k and views.end[last] >= end:
            return n
        if views.k[last] <= k and views.end[last] <= end:
            views.k[last], views.end[last] = k, end
            return n
    views.at[n], views.end[n], views.k[n] = time, end, k
    return n + 1


@inplace
def merge_views(work, n, now):
    """Keep of the n views between two kept rows only those that no other there covers. Return their number.

    `count[v]` are the rows kept of pane v; `place[v]` becomes its number afterwards. Views that end before `now`
    are dropped. O(n), with few steps between two rows.
    """
    views, count, place, between, _ = work
    at, end, k = views
    to = begin = 0
    for v in range(n):
        if count[v] == 0 and v < n - 1:
            continue
        if begin == v:
            if end[v] >= now and k[v] > 0:
                at[to], end[to], k[to] = at[v], end[v], k[v]
                to += 1
        else:
            time, steps = at[v], 0  # a staircase: the longest first, then those that need more
            for u in range(begin, v + 1):
                if end[u] >= now and k[u] > 0:
                    steps = _add_step(between, steps, end[u], k[u])
            for step in range(steps):
                at[to], end[to], k[to] = time, between.end[step], between.k[step]
                to += 1
        place[v] = to - 1
        begin = v + 1
    return to


@inplace
def _add_step(between, steps, new_end, new_k):
    """Add a view to a staircase, whose ends fall and whose k rise, unless a step covers it. Return its steps."""
    _, end, k = between
    at = steps  # behind all that end later
    while at > 0 and end[at - 1] < new_end:
        at -= 1
    if at > 0 and k[at - 1] >= new_k:
        return steps
    if at > 0 and end[at - 1] == new_end:
        at -= 1
    covered = at
    while covered < steps and k[covered] <= new_k:
        covered += 1
    if covered == at:
        if steps == _STEPS:  # no room: the next one, or the last, also covers it
            if at < steps:
                end[at] = new_end
            else:
                k[at - 1] = new_k
            return steps
        for i in range(steps, at, -1):
            end[i], k[i] = end[i - 1], k[i - 1]
        steps += 1
    elif covered > at + 1:
        for i in range(covered, steps):
            end[i - covered + at + 1], k[i - covered + at + 1] = end[i], k[i]
        steps -= covered - at - 1
    end[at], k[at] = new_end, new_k
    return steps


@kernel
def find_views(time, queries, closed):
    """Return the views of rows with these ascending times, as if all had just come; their number; and the panes.

    For when queries have left, since views that theirs covered are missing. O(rows * queries).
    """
    views, n, before = empty_views(64), 0, MIN_TIME
    pane = np.empty(len(time), np.int32)
    for i in range(len(time)):
        t = time[i]
        if t > before or i == 0:
            views = reserve_views(views, n, len(queries.k))
            for q in range(len(queries.k)):
                origin, slide = queries.origin[q], queries.slide[q]
                begin = origin + (min(t, queries.high[q] - 1) - origin) // slide * slide
                if begin > before and begin >= queries.low[q] and begin + queries.size[q] > max(t, closed):
                    n = add_view(views, n, t, begin + queries.size[q], queries.k[q])
            before = t
        pane[i] = n - 1
    return views, n, pane


class Tournament(NamedTuple):
    """A tree whose leaves are the queries. The one with the smallest key, of equals the first, wins: it is at 1."""

    query: np.ndarray
    key: np.ndarray


@kernel
def empty_tournament(queries):
    """Allocate a tree for so many queries."""
    leaves = 1
    while leaves < queries:
        leaves *= 2
    return Tournament(np.empty(2 * leaves, np.int64), np.empty(2 * leaves, np.int64))


@inline
def play_all(tree):
    """Find the winner from the keys of all leaves. O(n)."""
    query, key = tree
    leaves = len(key) >> 1
    for q in range(leaves):
        query[leaves + q] = q
    for place in range(leaves - 1, 0, -1):
        left, right = 2 * place, 2 * place + 1
        winner = right if key[right] < key[left] else left
        query[place], key[place] = query[winner], key[winner]


@inline
def replay(tree, q, new):
    """Give leaf q another key, and play its matches again. O(log n), without a branch that depends on a key."""
    query, key = tree
    place, winner, smallest = np.uint64((len(key) >> 1) + q), q, new
    key[place] = new
    while place > np.uint64(1):
        other = place ^ np.uint64(1)
        first = np.int64(place & np.uint64(1))  # whether the other comes first: it wins if equal
        change = (key[other] - smallest - first) >> 63  # all bits if it wins, or none: a test would become a branch
        winner ^= (winner ^ query[other]) & change
        smallest ^= (smallest ^ key[other]) & change
        place >>= np.uint64(1)
        query[place], key[place] = winner, smallest
