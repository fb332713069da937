"""The band of one group: the candidates that fewer than k better ones outlive, best first (a k-skyband).

New rows are pending behind it, in order of arrival, and are merged when an answer could need them or when they have
become many. Both prunes below walk once from the best row down and remember how long the rows above it live.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel
from skyband.kernels.columns import Columns, empty_columns, reserve
from skyband.kernels.ranking import FEW, SortScratch, outranks, push_largest, sort_scratch

AGES = 512
"""Classes of ages that the approximate prune tells apart: eight for each power of two."""


class Workspace(NamedTuple):
    """Memory for the band of one group."""

    band: Columns
    pending: Columns
    spare: Columns
    order: np.ndarray  # uint32: pending rows, best first
    counts: np.ndarray  # int64: rows by pane or class of age; or a heap
    sort: SortScratch


@kernel
def make_workspace():
    """Allocate a workspace that grows as needed."""
    counts, order = np.empty(2 * AGES, np.int64), np.empty(FEW, np.uint32)
    return Workspace(empty_columns(FEW), empty_columns(FEW), empty_columns(FEW), order, counts, sort_scratch(0))


@inline
def lacks_memory(work, rows, pending):
    """Return whether `rows` rows, so many of them pending, need more memory to be merged."""
    columns = min(len(work.band.score), len(work.spare.score))
    return rows > columns or pending > len(work.order) or AGES + 4 * rows > len(work.counts)


@kernel
def with_memory(work, band, pending, rows, n):
    """Return the workspace with other columns, and memory to merge `rows` rows of which n are pending.

    Only where memory is lacking: passing a workspace on counts references to all its arrays, unless in place.
    """
    order, count, sort = work.order, work.counts, work.sort
    if n > len(order):
        order = np.empty(2 * n, np.uint32)
        sort = sort_scratch(2 * n)
    if AGES + 4 * rows > len(count):
        count = np.empty(AGES + 8 * rows, np.int64)
    return Workspace(band, pending, reserve(work.spare, 0, rows), order, count, sort)


@inplace
def prune_exact(work, head, tail, n, out, k, start, slide, origin):
    """Merge n sorted pending rows and rows [head, tail) of the band into `spare`, behind `out` others.

    A row stays if fewer than k better ones are in its pane or a later one; rows before `start` have expired. Returns
    the number of rows in `spare`. The panes of the k latest are counted where there is room for a count of each pane,
    otherwise kept in a heap. O(rows + panes), or O(rows log k).

    The minimal set of Yang et al., EDBT 2011, theorem 3.1. Erratum: it averages k * H(size / slide) rows in random
    order, with H the harmonic number, not the 2 k of theorem 3.2.
    """
    score, time, id = work.band
    new_score, new_time, new_id = work.pending
    to_score, to_time, to_id = work.spare
    order, count = work.order, work.counts
    newest = start
    for i in range(n):
        newest = max(newest, new_time[i])
    for i in range(head, tail):
        newest = max(newest, time[i])
    oldest = (start - origin) // slide
    panes = (newest - origin) // slide - oldest + 1
    counted = panes < len(count)
    if counted:
        for i in range(panes + 1):
            count[i] = 0
    later = 0  # rows so far in panes after `last`, or rows in the heap
    last = -1  # the k-th latest pane so far: what expires with it or before it goes
    i, j = head, 0
    while i < tail or j < n:
        p = order[j] if j < n else 0
        if j < n and (i == tail or outranks(new_score[p], new_id[p], score[i], id[i])):
            s, t, r = new_score[p], new_time[p], new_id[p]
            j += 1
        else:
            s, t, r = score[i], time[i], id[i]
            i += 1
        pane = t - origin - oldest if slide == 1 else (t - origin) // slide - oldest
        if pane > last and t >= start:
            if counted:
                count[pane] += 1
                later += 1
                while later >= k:
                    last += 1
                    later -= count[last]
            else:
                later = push_largest(count, later, k, pane)
                if later == k:
                    last = count[0]
            to_score[out], to_time[out], to_id[out] = s, t, r
            out += 1
    return out


@inplace
def prune_approximately(work, head, tail, n, out, k, start):
    """Merge like `prune_exact`, but keep some percent more than the minimal set: at half the cost.

    Rows that live longer are counted by class of age, an eighth of a power of two each; those in the row's own class do
    not count. The bound seldom moves, and no branch is left that a processor could mispredict.
    """
    score, time, id = work.band
    new_score, new_time, new_id = work.pending
    to_score, to_time, to_id = work.spare
    order, count = work.order, work.counts
    newest = start
    for i in range(n):
        newest = max(newest, new_time[i])
    for i in range(head, tail):
        newest = max(newest, time[i])
    count[: AGES + 1] = 0
    ages = count[AGES + 1 :]
    age = ages.view(np.float64)
    for i in range(n):
        age[i] = newest - new_time[i] + 1
    base = n - head
    for i in range(head, tail):
        age[base + i] = newest - time[i] + 1
    for i in range(base + tail):  # by the exponent and the first three bits; the latest has the last number
        ages[i] = AGES - 1 + (1023 << 3) - (ages[i] >> 49)
    i, j = head, 0
    last, later = 0, 0  # rows of a class before `last` go; rows so far of the classes after it
    for _ in range(tail - head + n):
        p, q = order[min(j, n - 1)], min(i, tail - 1)
        above = (new_score[p] > score[q]) | ((new_score[p] == score[q]) & (new_id[p] > id[q]))
        new = (j < n) & ((i == tail) | above)
        t = new_time[p] if new else time[q]
        to_score[out] = new_score[p] if new else score[q]
        to_time[out] = t
        to_id[out] = new_id[p] if new else id[q]
        its = ages[p if new else base + q]
        j += new
        i += not new
        stays = (its >= last) & (t >= start)
        count[its] += stays
        later += stays & (its > last)
        out += stays
        while later >= k:
            last += 1
            later -= count[last]
    return out
