"""Rows below every answer: they need no rank, only to be few."""

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel
from skyband.kernels.shared.room import KINDS, copied
from skyband.kernels.simd import LANES, compress, mask_ge, mask_le, popcount

CHUNK = 16  # rows that are looked at together
_SAMPLE = 1024
_DROP = np.int32(255)  # in place of its kind: the row goes


@inline
def reaching(score, size, bar):
    """How many of the ranked scores reach a bar. O(log rows)."""
    above, over = 0, size
    while above < over:
        mid = (above + over) >> 1
        if score[mid] >= bar:
            above = mid + 1
        else:
            over = mid
    return above


@kernel
def parted(band, size, bar, low, young, spare):
    """Put the ranked rows below `bar` among those that are not ranked, all in the order in which they came.

    Returns how many rows stay ranked, and how many are not. `spare` is written over.
    """
    score, _, id, _ = band
    above = reaching(score, size, bar)
    moved = size - above
    if moved == 0:
        return size, young
    copied(low, 0, young, spare, 0)
    order = np.argsort(id[above:size])
    i = j = 0
    for to in range(moved + young):
        if j == young or (i < moved and id[above + order[i]] < spare[2][j]):
            taken_over(band, above + order[i], low, to)
            i += 1
        else:
            taken_over(spare, j, low, to)
            j += 1
    return above, moved + young


@inline
def taken_over(rows, row, to, at):
    """Copy one row."""
    to[0][at], to[1][at], to[2][at], to[3][at] = rows[0][row], rows[1][row], rows[2][row], rows[3][row]


@kernel
def bordered(score, size, edges):
    """Where the kinds of scores begin, by a sample: about as many rows in each.

    Behind them, every LANES-th of them again, to look there first. The last kind has no end.
    """
    if size == 0:
        return
    step = max(1, size // _SAMPLE)
    sample = score[:size:step].copy()
    sample.sort()
    for kind in range(KINDS - 1):
        edges[kind] = sample[(kind + 1) * len(sample) // KINDS]
    edges[KINDS - 1] = np.nan
    for part in range(KINDS // LANES):
        edges[KINDS + part] = edges[part * LANES + LANES - 1]


@inplace
def sorted_in(score, low, high, edges, kind):
    """Find the kind of each score from `low` to `high`: how many edges are not above it."""
    for i in range(low, high):
        s, part = score[np.uint64(i)], np.uint64(0)
        for lane in range(KINDS // LANES // LANES):
            part += popcount(mask_le(edges, np.uint64(KINDS + lane * LANES), s))
        part *= np.uint64(LANES)
        kind[np.uint64(i)] = part + popcount(mask_le(edges, part, s))


@inline
def lifted(tally, floor, better, need):
    """Raise the least kind that stays as long as there are enough rows of a better one; how many there are then."""
    while floor < KINDS and better >= need:
        floor += 1
        better -= tally[floor]
    return floor, better


@inplace
def thinned(score, time, id, pane, size, kind, views, end, k, now, count, needs, tally):
    """Let go of unranked rows that no view can want; how many stay.

    All ranked rows (`count` by pane) are better than they, so a view needs only what these leave of its k. From the
    newest back: later rows of a better kind, and those of its own pane, outdo a row in each view that sees it, so it
    goes once they are as many as any of these needs. Keeps more than is needed: of rows of one kind, and where panes
    are short of the CHUNK beside it, it does not know the better. Views that end before `now` need nothing.
    O(rows + views).
    """
    most = above = 0
    for v in range(views):
        above += count[v]
    for v in range(views):
        k[v] &= -np.int64(end[v] >= now)  # a test would be a branch
        most = max(most, k[v] - above)
        needs[v] = most
        above -= count[v]
    for i in range(KINDS + 1):
        tally[i] = 0
    floor, better = 0, 0  # the least kind that stays, rows of a better one
    last, begin = size, 0
    while last > 0:
        low = max(0, last - CHUNK)
        need = needs[pane[last - 1]] if pane[last - 1] >= 0 else 0
        if need <= 0:  # nor does any view before it
            begin = last
            break
        whole = pane[low] == pane[last - 1]
        if whole:  # a view sees all rows of a pane or none: those before a row in it count too
            while low > 0 and pane[low - 1] == pane[last - 1]:
                low -= 1
        else:
            floor, better = lifted(tally, floor, better, need)
        for i in range(low, last):
            mine = int(kind[np.uint64(i)])
            tally[np.uint64(mine)] += 1
            better += int(mine > floor)
        if whole:
            floor, better = lifted(tally, floor, better, need)
        least = np.int32(floor)
        for i in range(low, last):  # no branch: nobody can tell which rows stay
            row = np.uint64(i)
            kind[row] = kind[row] if kind[row] >= least else _DROP
        last = low
    row, stop, out = np.uint64(begin), np.uint64(size), np.uint64(0)
    every = np.uint64((1 << LANES) - 1)
    while row + np.uint64(LANES) <= stop:
        mask = mask_ge(kind, row, _DROP) ^ every
        compress(mask, score, row, score, out)
        compress(mask, time, row, time, out)
        compress(mask, id, row, id, out)
        compress(mask, pane, row, pane, out)
        compress(mask, kind, row, kind, out)
        out += popcount(mask)
        row += np.uint64(LANES)
    while row < stop:
        stays = np.uint64(kind[row] != _DROP)
        score[out], time[out], id[out], pane[out], kind[out] = score[row], time[row], id[row], pane[row], kind[row]
        out += stays
        row += np.uint64(1)
    return np.int64(out)
