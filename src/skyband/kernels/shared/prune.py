"""Dropping pending rows: they are below every answer and need no rank, only to be few."""

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel
from skyband.kernels.search import first_below
from skyband.kernels.shared.memory import CLASSES, copy_band
from skyband.kernels.simd import LANES, compress, mask_ge, mask_le, popcount

_CHUNK = 16  # rows that are handled together
_SAMPLE = 1024
_DROP = np.int32(255)  # instead of its class: the row goes


@kernel
def demote(band, ranked, threshold, pending, n, spare):
    """Move the ranked rows below the threshold to the n pending ones, all in the order of arrival.

    Returns how many rows stay ranked, and how many are pending. `spare` is overwritten.
    """
    above = first_below(band.score, threshold, 0, ranked)
    moved = ranked - above
    if moved == 0:
        return ranked, n
    copy_band(pending, 0, n, spare, 0)
    order = np.argsort(band.id[above:ranked])
    _merge_by_id(band, above, order, spare, n, pending)
    return above, moved + n


@inplace
def _merge_by_id(rows, low, order, others, n, to):
    """Merge rows from `low` on, in this order, and n others by their ids."""
    i = j = 0
    for at in range(len(order) + n):
        if j == n or (i < len(order) and rows.id[low + order[i]] < others.id[j]):
            copy_band(rows, low + order[i], 1, to, at)
            i += 1
        else:
            copy_band(others, j, 1, to, at)
            j += 1


@kernel
def set_classes(score, size, edges):
    """Find where the classes of scores begin, by a sample: about as many rows in each.

    Behind them, every LANES-th edge again, to look there first. The last class has no end.
    """
    if size == 0:
        return
    step = max(1, size // _SAMPLE)
    sample = score[:size:step].copy()
    sample.sort()
    for number in range(CLASSES - 1):
        edges[number] = sample[(number + 1) * len(sample) // CLASSES]
    edges[CLASSES - 1] = np.nan
    for part in range(CLASSES // LANES):
        edges[CLASSES + part] = edges[part * LANES + LANES - 1]


@inplace
def classify(score, low, high, edges, score_class):
    """Find the class of each score from `low` to `high`: the number of edges that are not above it."""
    for i in range(low, high):
        s, part = score[np.uint64(i)], np.uint64(0)
        for lane in range(CLASSES // LANES // LANES):
            part += popcount(mask_le(edges, np.uint64(CLASSES + lane * LANES), s))
        part *= np.uint64(LANES)
        score_class[np.uint64(i)] = part + popcount(mask_le(edges, part, s))


@inline
def _raise_floor(tally, floor, better, need):
    """Raise the lowest class that stays while enough rows are of a better one. Return it, and their number."""
    while floor < CLASSES and better >= need:
        floor += 1
        better -= tally[floor]
    return floor, better


@inplace
def prune_pending(pending, size, scratch, work, views, now):
    """Drop pending rows that no view can need. Return how many stay.

    All ranked rows (`count` by pane) are better, so a view needs only what these leave of its k. From the newest back:
    later rows of a better class, and those of its own pane, outrank a row in each view that sees it, so it goes once
    they are as many as any of these needs. Keeps more than is needed: rows of one class are not compared, nor, where
    panes are short, those of one chunk. Views that end before `now` need nothing. O(rows + views).
    """
    pane, score_class, tally = pending.pane, scratch.score_class, scratch.tally
    needs = work.place
    _count_needs(work, views, now)
    for i in range(CLASSES + 1):
        tally[i] = 0
    floor, better = 0, 0  # the lowest class that stays, rows of a better one
    last, begin = size, 0
    while last > 0:
        low = max(0, last - _CHUNK)
        need = needs[pane[last - 1]] if pane[last - 1] >= 0 else 0
        if need <= 0:  # nor does any view before it
            begin = last
            break
        whole = pane[low] == pane[last - 1]
        if whole:  # a view sees all rows of a pane or none: those before a row in it count too
            while low > 0 and pane[low - 1] == pane[last - 1]:
                low -= 1
        else:
            floor, better = _raise_floor(tally, floor, better, need)
        for i in range(low, last):
            mine = int(score_class[np.uint64(i)])
            tally[np.uint64(mine)] += 1
            better += int(mine > floor)
        if whole:
            floor, better = _raise_floor(tally, floor, better, need)
        least = np.int32(floor)
        for i in range(low, last):  # no branch: it could not be predicted
            row = np.uint64(i)
            score_class[row] = score_class[row] if score_class[row] >= least else _DROP
        last = low
    return _copy_kept(pending, score_class, begin, size)


@inplace
def _count_needs(work, n, now):
    """Fill `place` with the most rows that the view or any before it needs besides the ranked ones."""
    _, end, k = work.views
    most = above = 0
    for v in range(n):
        above += work.pane_rows[v]
    for v in range(n):
        k[v] &= -np.int64(end[v] >= now)  # a test would be a branch
        most = max(most, k[v] - above)
        work.place[v] = most
        above -= work.pane_rows[v]


@inplace
def _copy_kept(pending, score_class, begin, size):
    """Move the rows from `begin` on that stay to the front. Return their number."""
    score, time, id, pane = pending
    row, stop, out = np.uint64(begin), np.uint64(size), np.uint64(0)
    every = np.uint64((1 << LANES) - 1)
    while row + np.uint64(LANES) <= stop:
        mask = mask_ge(score_class, row, _DROP) ^ every
        compress(mask, score, row, score, out)
        compress(mask, time, row, time, out)
        compress(mask, id, row, id, out)
        compress(mask, pane, row, pane, out)
        compress(mask, score_class, row, score_class, out)
        out += popcount(mask)
        row += np.uint64(LANES)
    while row < stop:
        stays = np.uint64(score_class[row] != _DROP)
        score[out], time[out], id[out], pane[out] = score[row], time[row], id[row], pane[row]
        score_class[out] = score_class[row]
        out += stays
        row += np.uint64(1)
    return np.int64(out)
