"""Partitions of the window, each with its k best; of the one that expires, what may still matter.

Rows lie in the order in which they came; a partition is a run of them, and a list holds places of rows, best first. Of
two equal scores the one at the later place ranks first.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.band import FEW, push_latest, ranked
from skyband.kernels.front import passed_back
from skyband.kernels.select import before, best_of
from skyband.kernels.slide import DONE, NO_NODE, NO_ROOM, OLDEST, OUT, STATE, crowded, rest, say, until

SLOTS = 64  # partitions there is room for, in a ring
TAKEN = STATE  # rows that are in a partition
FIRST = STATE + 1  # slot of the oldest partition
PARTS = STATE + 2  # how many there are
BUILT = STATE + 3  # the oldest one expires: so many meaningful rows it has, -1: it does not yet
SEALED = STATE + 4  # 1: the newest takes no more rows
BUILDS = STATE + 5  # how often meaningful rows were looked for
MADE = STATE + 6  # partitions made so far
PRIOR = STATE + 7  # how many scores of the pane before there are
NUMBERS = STATE + 8


class Parts(NamedTuple):
    """The partitions, by slot."""

    low: np.ndarray  # place of the first row
    high: np.ndarray  # one past the last
    pane: np.ndarray  # the last pane it has rows of
    panes: np.ndarray  # how many panes it has rows of
    best: np.ndarray  # int64 (SLOTS, k): places of its k best
    size: np.ndarray  # how many those are
    prior: np.ndarray  # float64 (k): scores of the best of the pane before, best first


class Rule(NamedTuple):
    """When a partition ends, in panes."""

    least: int  # never before
    most: int  # always then
    drop: float  # in between, when scores fall by so many standard errors; infinite: never


@kernel
def advance(score, time, id, upto, k, clock, rule, parts, front, lists, state):
    """Close what has ended, then take the rows of one pane, until there are none."""
    size, slide, origin = clock
    pick, pick_place = np.empty(2 * k), np.empty(2 * k, np.int64)
    unit, other, order, heads = (
        np.empty(k, np.int64),
        np.empty(k, np.int64),
        np.empty(k, np.int64),
        np.empty(SLOTS, np.int64),
    )
    while True:
        row = state[TAKEN]
        limit = time[row] if row < len(time) else upto
        while state[PARTS] > 0 and origin + state[OLDEST] * slide + size <= limit:
            if crowded(k, lists, state):
                return NO_ROOM
            start = origin + state[OLDEST] * slide
            if state[BUILT] < 0 and time[parts.low[state[FIRST]]] < start:
                if not meaningful(score, time, start, k, parts, front, heads, state):
                    return NO_NODE
            tell(score, time, id, start, k, parts, front, heads, lists, state)
            expire(time, start + slide, parts, state)
        if state[PARTS] == 0:
            if crowded(0, lists, state):
                return NO_ROOM
            rest(limit, clock, lists, state)
        if row == len(time):
            return DONE
        pane = (limit - origin) // slide
        stop = min(origin + state[OLDEST] * slide + size, origin + (pane + 1) * slide)
        stop = until(time, row, stop)
        found = best_unit(score, row, stop, k, pick, pick_place, unit, order)
        take(score, row, stop, pane, k, rule, unit, found, other, parts, state)
        state[TAKEN] = stop


@kernel
def best_unit(score, low, high, k, pick, place, unit, order):
    """The k best of rows [low, high) into `unit`, best first; how many."""
    n = high - low
    if n > k:
        n = best_of(score, low, high, k, pick, place)
        if place[0] > place[n - 1]:
            place[:n] = place[:n][::-1].copy()
        for i in range(n):
            pick[i] = score[place[i]]
    else:
        for i in range(n):
            pick[i], place[i] = score[low + i], low + i
    if n <= FEW:
        for i in range(n):  # insertion sort; of equals the later one first
            j = i
            while j > 0 and pick[order[j - 1]] <= pick[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
    else:
        ranked(pick, n, order)
    for i in range(n):
        unit[i] = place[order[i]]
    return n


@kernel
def take(score, low, high, pane, k, rule, unit, found, other, parts, state):
    """Add the rows of a pane to the newest partition, or begin a new one with them."""
    slot = (state[FIRST] + state[PARTS] - 1) % SLOTS
    if state[PARTS] == 0 or state[SEALED] or ends(score, pane, rule, unit, found, parts, slot, state):
        slot = (state[FIRST] + state[PARTS]) % SLOTS
        state[PARTS] += 1
        state[SEALED] = 0
        state[MADE] += 1
        parts.low[slot], parts.pane[slot], parts.panes[slot], parts.size[slot] = low, pane, 1, found
        for i in range(found):
            parts.best[slot, i] = unit[i]
    else:
        parts.panes[slot] += pane > parts.pane[slot]
        parts.pane[slot] = pane
        old, i, j, n = parts.best[slot], 0, 0, 0
        while n < k and (i < parts.size[slot] or j < found):
            if j < found and (i == parts.size[slot] or score[unit[j]] >= score[old[i]]):
                other[n] = unit[j]
                j += 1
            else:
                other[n] = old[i]
                i += 1
            n += 1
        for i in range(n):
            old[i] = other[i]
        parts.size[slot] = n
    parts.high[slot] = high
    state[PRIOR] = found
    for i in range(found):
        parts.prior[i] = score[unit[i]]


@kernel
def ends(score, pane, rule, unit, found, parts, slot, state):
    """Whether a partition ends before this pane: it is long, or the pane's best are worse than those of the one before.

    Where scores fall, what is behind the best of a partition matters as soon as those expire: better to have it in a
    partition of its own. Wilcoxon's rank sum, in its normal approximation.
    """
    if pane == parts.pane[slot] or parts.panes[slot] < rule.least:
        return False
    if parts.panes[slot] >= rule.most:
        return True
    n, better, i = state[PRIOR], 0, 0
    for j in range(found):  # pairs in which this pane's row is the better one
        while i < n and parts.prior[i] >= score[unit[j]]:
            i += 1
        better += n - i
    return n * found / 2.0 - better > rule.drop * np.sqrt(n * found * (n + found + 1) / 12.0)


@kernel
def meaningful(score, time, start, k, parts, front, heads, state):
    """The oldest partition begins to expire: those of its rows that fewer than k later ones beat, best first.

    One walk back, above the k best of all later partitions. False if `front` has no room.
    """
    first, count = state[FIRST], state[PARTS]
    later, size = np.empty(k), 0
    heads[:count] = 0
    while size < k:
        top = ahead(score, time, start, 1, parts, front, heads, state)
        if top < 0:
            break
        slot = (first + top) % SLOTS
        later[size] = score[parts.best[slot, heads[top]]]
        heads[top] += 1
        size += 1
    heap = later[:size][::-1].copy()  # rising: a heap
    whole = np.empty(k)
    whole[:size] = heap
    low, at, found = before(time, start, parts.low[first], parts.high[first]), parts.high[first], 0
    while at > low:
        if size == k:
            at = passed_back(score, whole[0], at, low)
            if at == low:
                break
        at -= 1
        if found == len(front):
            return False
        front[found] = at
        found += 1
        size = push_latest(whole, size, k, score[at])
    values, order = np.empty(found), np.empty(found, np.int64)
    rising = front[:found][::-1].copy()
    for i in range(found):
        values[i] = score[rising[i]]
    if found > 0:
        ranked(values, found, order)
    for i in range(found):
        front[i] = rising[order[i]]
    state[BUILT] = found
    state[BUILDS] += 1
    if count == 1:
        state[SEALED] = 1
    return True


@kernel
def ahead(score, time, start, least, parts, front, heads, state):
    """Which partition, from number `least` on, has the best row next; -1: none has any."""
    best, top, its = -1, -np.inf, -1
    for p in range(least, state[PARTS]):
        slot = (state[FIRST] + p) % SLOTS
        if p == 0 and state[BUILT] >= 0:
            while heads[0] < state[BUILT] and time[front[heads[0]]] < start:
                heads[0] += 1
            if heads[0] == state[BUILT]:
                continue
            place = front[heads[0]]
        else:
            if heads[p] == parts.size[slot]:
                continue
            place = parts.best[slot, heads[p]]
        if its < 0 or score[place] > top or (score[place] == top and place > its):
            best, top, its = p, score[place], place
    return best


@kernel
def tell(score, time, id, start, k, parts, front, heads, lists, state):
    """The k best of all partitions: their lists are ranked, so only their heads are compared. O(k * partitions)."""
    at, n = state[OUT], 0
    heads[: state[PARTS]] = 0
    while n < k:
        p = ahead(score, time, start, 0, parts, front, heads, state)
        if p < 0:
            break
        slot = (state[FIRST] + p) % SLOTS
        place = front[heads[0]] if p == 0 and state[BUILT] >= 0 else parts.best[slot, heads[p]]
        heads[p] += 1
        lists.id[at + n], lists.score[at + n] = id[place], score[place]
        n += 1
    say(n, lists, state)
    if state[BUILT] > 0 and heads[0] > n:  # more than an answer was passed over, most of it expired
        kept = 0
        for i in range(state[BUILT]):
            place = front[i]
            front[kept] = place
            kept += time[place] >= start
        state[BUILT] = kept


@kernel
def expire(time, start, parts, state):
    """Forget the partitions of which no row is in the next window."""
    while state[PARTS] > 0 and time[parts.high[state[FIRST]] - 1] < start:
        state[FIRST] = (state[FIRST] + 1) % SLOTS
        state[PARTS] -= 1
        state[BUILT] = -1
    if state[PARTS] == 0:
        state[SEALED] = 0
