"""Views: what the open windows of many queries see of one group, in the order in which they begin.

A view is a window of one query that holds a row. Rows know the last view that had begun when they came (their
pane), so a row is in a window if its pane is the window's view or a later one. Of the windows of a query that
begin between two rows only the last is a view: it sees the same rows as those before it, for longer. And of views
between which no row is kept, only those that want more, or for longer, than all others there.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel

NEVER = -(1 << 62)  # before all time
AFTER = 1 << 62  # after all time
STEPS = 64  # views between two rows, at most; further ones are put together, which keeps more than is needed


class Records(NamedTuple):
    """The queries as columns, in their order."""

    k: np.ndarray
    size: np.ndarray
    slide: np.ndarray
    origin: np.ndarray
    low: np.ndarray  # windows that begin before this are not answered ...
    high: np.ndarray  # ... nor those that begin here or later
    moment: np.ndarray  # which row of `since` also says from where on a group's windows are answered ...
    until: np.ndarray  # ... and which one says where that ends; 0: none
    number: np.ndarray  # the query's number, under which its answers go out


class Views(NamedTuple):
    """The views, oldest first; those of group g are first[0, g] to first[1, g]."""

    at: np.ndarray  # int64: time of the first row in it
    end: np.ndarray  # int64: where its window ends
    k: np.ndarray  # int64
    first: np.ndarray  # int64, 2 rows


@inline
def noted(at, end, k, views, time, ends, wants):
    """Note a new view, unless another one of the same row wants as much for as long; how many views there are then."""
    last = views - 1
    if last >= 0 and at[last] == time:
        if k[last] >= wants and end[last] >= ends:
            return views
        if k[last] <= wants and end[last] <= ends:
            k[last], end[last] = wants, ends
            return views
    at[views], end[views], k[views] = time, ends, wants
    return views + 1


@inplace
def fewer(at, end, k, views, count, place, step_end, step_k, now):
    """Keep of the views between two kept rows only those that no other there outdoes; how many there are then.

    `count[v]` are the rows kept of pane v; `place[v]` becomes its number afterwards. Views that end before `now`
    are gone. O(views), with few steps between two rows.
    """
    to = begins = 0
    for v in range(views):
        if count[v] == 0 and v < views - 1:
            continue
        if begins == v:
            if end[v] >= now and k[v] > 0:
                at[to], end[to], k[to] = at[v], end[v], k[v]
                to += 1
            place[v] = to - 1
            begins = v + 1
            continue
        time, steps = at[v], 0  # a staircase: the longest first, then those that want more
        for u in range(begins, v + 1):
            if end[u] >= now and k[u] > 0:
                steps = stepped(step_end, step_k, steps, end[u], k[u])
        for step in range(steps):
            at[to], end[to], k[to] = time, step_end[step], step_k[step]
            to += 1
        place[v] = to - 1
        begins = v + 1
    return to


@inplace
def stepped(step_end, step_k, steps, ends, wants):
    """Add a view to a staircase, whose ends fall and whose k rise, unless a step outdoes it; how many steps it has."""
    at = steps  # behind all that end later
    while at > 0 and step_end[at - 1] < ends:
        at -= 1
    if at > 0 and step_k[at - 1] >= wants:
        return steps
    if at > 0 and step_end[at - 1] == ends:
        at -= 1
    gone = at
    while gone < steps and step_k[gone] <= wants:  # it outdoes these
        gone += 1
    if gone == at:
        if steps == STEPS:  # no room: the next one, or the last, also covers it
            if at < steps:
                step_end[at] = ends
            else:
                step_k[at - 1] = wants
            return steps
        for i in range(steps, at, -1):
            step_end[i], step_k[i] = step_end[i - 1], step_k[i - 1]
        steps += 1
    elif gone > at + 1:
        for i in range(gone, steps):
            step_end[i - gone + at + 1], step_k[i - gone + at + 1] = step_end[i], step_k[i]
        steps -= gone - at - 1
    step_end[at], step_k[at] = ends, wants
    return steps


@kernel
def reviewed(time, records, done):
    """The views of rows that came at these times, which rise, as if all had just come; and the pane of each row.

    For when queries have left: views that theirs outdid are missing. O(rows * queries).
    """
    room = 64
    at, end, k = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    pane = np.empty(len(time), np.int32)
    views, before = 0, NEVER
    for i in range(len(time)):
        t = time[i]
        if t > before or i == 0:
            if views + len(records.k) > room:
                room = 2 * room + len(records.k)
                at, end, k = longer(at, room), longer(end, room), longer(k, room)
            for q in range(len(records.k)):
                origin, slide = records.origin[q], records.slide[q]
                begin = origin + (min(t, records.high[q] - 1) - origin) // slide * slide
                if begin > before and begin >= records.low[q] and begin + records.size[q] > max(t, done):
                    views = noted(at, end, k, views, t, begin + records.size[q], records.k[q])
            before = t
        pane[i] = views - 1
    return at[:views], end[:views], k[:views], pane


@kernel
def longer(column, room):
    """A copy with more room."""
    new = np.empty(room, np.int64)
    new[: len(column)] = column
    return new


@inline
def matched(tree, key, leaves):
    """Find the least of the keys from `leaves` on, of equals the first: a tournament, whose winner is at 1. O(n).

    Leaf q is at `leaves` + q; the winner of each match is above the two.
    """
    for q in range(leaves):
        tree[leaves + q] = q
    for place in range(leaves - 1, 0, -1):
        left, right = 2 * place, 2 * place + 1
        winner = right if key[right] < key[left] else left
        tree[place], key[place] = tree[winner], key[winner]


@inline
def rematched(tree, key, leaves, q, new):
    """Give leaf q another key, and play its matches again. O(log n), without a branch that depends on a key."""
    place, winner, least = np.uint64(leaves + q), q, new
    key[place] = new
    while place > np.uint64(1):
        other = place ^ np.uint64(1)
        first = np.int64(place & np.uint64(1))  # whether the other comes first: it wins if equal
        change = (key[other] - least - first) >> 63  # all bits if it wins, or none: compilers make a branch of a test
        winner ^= (winner ^ tree[other]) & change
        least ^= (least ^ key[other]) & change
        place >>= np.uint64(1)
        tree[place], key[place] = winner, least
