"""SAP: partitions of the window, each with its k best; of the one that expires, what may still matter.

Rows lie in order of arrival; a partition is a run of them, and a list holds row indexes, best first. Of two equal
scores the later row ranks first.

Zhu et al., "SAP: Improving Continuous Top-K Queries over Streaming Data", TKDE 2017. Here meaningful rows are a ranked
array instead of a tree, the unit is the pane, and lengths of partitions are bounded by parts of the window.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inplace, kernel
from skyband.kernels.ranking import SortScratch, outranks, sort_by_score, sort_scratch
from skyband.kernels.row_band import unbeaten
from skyband.kernels.search import lower_bound
from skyband.kernels.select import Selection, select_best, selection
from skyband.kernels.slide import DONE, NO_NODE, NO_ROOM, S, close_oldest, lacks_room, skip_empty

SLOTS = 64
"""Partitions there is room for, in a ring."""


class SapSlots(NamedTuple):
    """Slots behind those that slide kernels share."""

    taken: int = len(S)  # rows that are in a partition
    first: int = len(S) + 1  # slot of the oldest partition
    parts: int = len(S) + 2  # how many there are
    built: int = len(S) + 3  # meaningful rows of the oldest one, which expires; -1: it does not yet
    sealed: int = len(S) + 4  # whether the newest takes no more rows
    builds: int = len(S) + 5  # how often meaningful rows were looked for
    made: int = len(S) + 6  # partitions made so far
    prior: int = len(S) + 7  # scores of the pane before
    size: int = len(S) + 8  # of the state


P = SapSlots()


class Partitions(NamedTuple):
    """The partitions, by slot."""

    low: np.ndarray  # index of the first row
    high: np.ndarray  # one past the last
    pane: np.ndarray  # the last pane it has rows of
    panes: np.ndarray  # how many panes it has rows of
    best: np.ndarray  # int64 (SLOTS, k): its k best rows
    size: np.ndarray  # how many those are
    prior: np.ndarray  # float64 (k): scores of the best of the pane before, best first


class PartitionRule(NamedTuple):
    """When a partition ends, in panes."""

    least: int  # never before
    most: int  # always then
    drop: float  # in between, when scores fall by so many standard errors; infinite: never


class SapScratch(NamedTuple):
    """Memory for the k best of a pane."""

    picked: Selection
    unit: np.ndarray  # the k best of the pane, best first
    merged: np.ndarray
    order: np.ndarray
    heads: np.ndarray  # how far the list of each partition was read
    sort: SortScratch


@kernel
def advance(arrivals, upto, k, assigner, rule, parts, front, answers, state):
    """Close the windows that have ended, then take the rows of one pane, until there are none."""
    size, slide, origin = assigner
    score, time, _ = arrivals
    scratch = SapScratch(
        selection(k), np.empty(k, np.int64), np.empty(k, np.int64),
        np.empty(k, np.uint32), np.empty(SLOTS, np.int64), sort_scratch(k),
    )  # fmt: skip
    while True:
        row = state[P.taken]
        limit = time[row] if row < len(time) else upto
        while state[P.parts] > 0 and origin + state[S.oldest] * slide + size <= limit:
            if lacks_room(k, answers, state):
                return NO_ROOM
            start = origin + state[S.oldest] * slide
            if state[P.built] < 0 and time[parts.low[state[P.first]]] < start:
                if not _find_meaningful(arrivals, start, k, parts, front, scratch.heads, state):
                    return NO_NODE
            _answer(arrivals, start, k, parts, front, scratch.heads, answers, state)
            _expire(time, start + slide, parts, state)
        if state[P.parts] == 0:
            if lacks_room(0, answers, state):
                return NO_ROOM
            skip_empty(limit, assigner, answers, state)
        if row == len(time):
            return DONE
        pane = (limit - origin) // slide
        stop = min(origin + state[S.oldest] * slide + size, origin + (pane + 1) * slide)
        stop = lower_bound(time, stop, row, len(time))
        found = _rank_pane(score, row, stop, k, scratch)
        _add_pane(score, row, pane, found, k, rule, scratch, parts, state)
        parts.high[(state[P.first] + state[P.parts] - 1) % SLOTS] = state[P.taken] = stop


@kernel
def _rank_pane(score, low, high, k, scratch):
    """Put the k best of rows [low, high) into `unit`, best first. Return how many there are."""
    best, row, n = scratch.picked.score, scratch.picked.row, high - low
    if n > k:
        n = select_best(score, low, high, k, scratch.picked)
        if row[0] > row[n - 1]:
            row[:n] = row[:n][::-1].copy()
        for i in range(n):
            best[i] = score[row[i]]
    else:
        for i in range(n):
            best[i], row[i] = score[low + i], low + i
    sort_by_score(best, 0, n, scratch.order, scratch.sort)
    for i in range(n):
        scratch.unit[i] = row[scratch.order[i]]
    return n


@inplace
def _add_pane(score, low, pane, found, k, rule, scratch, parts, state):
    """Add the rows of a pane, from `low` on, to the newest partition, or begin a new one with them."""
    unit, merged = scratch.unit, scratch.merged
    slot = (state[P.first] + state[P.parts] - 1) % SLOTS
    if state[P.parts] == 0 or state[P.sealed] or _ends(score, pane, rule, unit, found, parts, slot, state):
        slot = (state[P.first] + state[P.parts]) % SLOTS
        state[P.parts] += 1
        state[P.sealed] = 0
        state[P.made] += 1
        parts.low[slot], parts.pane[slot], parts.panes[slot], parts.size[slot] = low, pane, 1, found
        for i in range(found):
            parts.best[slot, i] = unit[i]
    else:
        parts.panes[slot] += pane > parts.pane[slot]
        parts.pane[slot] = pane
        old, i, j, n = parts.best[slot], 0, 0, 0
        while n < k and (i < parts.size[slot] or j < found):
            if j < found and (i == parts.size[slot] or score[unit[j]] >= score[old[i]]):
                merged[n] = unit[j]
                j += 1
            else:
                merged[n] = old[i]
                i += 1
            n += 1
        for i in range(n):
            old[i] = merged[i]
        parts.size[slot] = n
    state[P.prior] = found
    for i in range(found):
        parts.prior[i] = score[unit[i]]


@inplace
def _ends(score, pane, rule, unit, found, parts, slot, state):
    """Return whether a partition ends before this pane: it is long, or the pane's best are worse than those before.

    Where scores fall, what is behind the best of a partition matters as soon as those expire: it had better be in a
    partition of its own. Wilcoxon's rank sum, in its normal approximation.
    """
    if pane == parts.pane[slot] or parts.panes[slot] < rule.least:
        return False
    if parts.panes[slot] >= rule.most:
        return True
    n, better, i = state[P.prior], 0, 0
    for j in range(found):  # pairs in which this pane's row is the better one
        while i < n and parts.prior[i] >= score[unit[j]]:
            i += 1
        better += n - i
    return n * found / 2.0 - better > rule.drop * np.sqrt(n * found * (n + found + 1) / 12.0)


@kernel
def _find_meaningful(arrivals, start, k, parts, front, heads, state):
    """Rank the rows of the oldest partition, which begins to expire, that fewer than k later ones beat.

    One scan back, above the k best of all later partitions. Returns False if `front` has no room.
    """
    score, time, _ = arrivals
    first, count = state[P.first], state[P.parts]
    later, size = np.empty(k), 0
    heads[:count] = 0
    while size < k:
        top = _next_best(score, time, start, 1, parts, front, heads, state)
        if top < 0:
            break
        later[size] = score[parts.best[(first + top) % SLOTS, heads[top]]]
        heads[top] += 1
        size += 1
    later[:size] = later[:size][::-1].copy()  # rising: a heap
    low, none = lower_bound(time, start, parts.low[first], parts.high[first]), np.empty(0, np.int64)
    found = unbeaten(score, low, parts.high[first], k, later, size, none, 0, front)
    if found < 0:
        return False
    rows, values, order = front[:found][::-1].copy(), np.empty(found), np.empty(found, np.uint32)
    for i in range(found):
        values[i] = score[rows[i]]
    sort_by_score(values, 0, found, order, sort_scratch(found))
    for i in range(found):
        front[i] = rows[order[i]]
    state[P.built] = found
    state[P.builds] += 1
    if count == 1:
        state[P.sealed] = 1
    return True


@inplace
def _next_best(score, time, start, least, parts, front, heads, state):
    """Return which partition, from number `least` on, has the best unread row; -1: none has any."""
    best, top, its = -1, -np.inf, -1
    for p in range(least, state[P.parts]):
        slot = (state[P.first] + p) % SLOTS
        if p == 0 and state[P.built] >= 0:
            while heads[0] < state[P.built] and time[front[heads[0]]] < start:
                heads[0] += 1
            if heads[0] == state[P.built]:
                continue
            row = front[heads[0]]
        else:
            if heads[p] == parts.size[slot]:
                continue
            row = parts.best[slot, heads[p]]
        if its < 0 or outranks(score[row], row, top, its):
            best, top, its = p, score[row], row
    return best


@inplace
def _answer(arrivals, start, k, parts, front, heads, answers, state):
    """Write the k best of all partitions: their lists are ranked, so only their heads are compared.

    O(k * partitions).
    """
    score, time, id = arrivals
    at, n = state[S.rows], 0
    for p in range(state[P.parts]):
        heads[p] = 0
    while n < k:
        p = _next_best(score, time, start, 0, parts, front, heads, state)
        if p < 0:
            break
        slot = (state[P.first] + p) % SLOTS
        row = front[heads[0]] if p == 0 and state[P.built] >= 0 else parts.best[slot, heads[p]]
        heads[p] += 1
        answers.id[at + n], answers.score[at + n] = id[row], score[row]
        n += 1
    close_oldest(n, answers, state)
    if state[P.built] > 0 and heads[0] > n:  # more than an answer was skipped, most of it expired
        kept = 0
        for i in range(state[P.built]):
            row = front[i]
            front[kept] = row
            kept += time[row] >= start
        state[P.built] = kept


@inplace
def _expire(time, start, parts, state):
    """Forget the partitions of which no row is in the next window."""
    while state[P.parts] > 0 and time[parts.high[state[P.first]] - 1] < start:
        state[P.first] = (state[P.first] + 1) % SLOTS
        state[P.parts] -= 1
        state[P.built] = -1
    if state[P.parts] == 0:
        state[P.sealed] = 0
