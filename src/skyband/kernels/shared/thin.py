"""Rows below every answer: they need no rank, only to be few."""

import numpy as np

from skyband.kernels._jit import bare, inlined, kernel
from skyband.kernels.shared.room import KINDS, copied

_SAMPLE = 1024
_DROP = np.uint8(255)  # in place of its kind: the row goes


@kernel
def parted(band, size, bar, low, young, spare):
    """Put the ranked rows below `bar` among those that are not ranked, all in the order in which they came.

    Returns how many rows stay ranked, and how many are not. `spare` is written over.
    """
    score, _, id, _ = band
    above, over = 0, size
    while above < over:
        mid = (above + over) >> 1
        if score[mid] >= bar:
            above = mid + 1
        else:
            over = mid
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


@inlined
def taken_over(rows, row, to, at):
    """Copy one row."""
    to[0][at], to[1][at], to[2][at], to[3][at] = rows[0][row], rows[1][row], rows[2][row], rows[3][row]


@kernel
def bordered(score, size, edges):
    """Where the kinds of scores begin, by a sample: about as many rows in each."""
    if size == 0:
        return
    step = max(1, size // _SAMPLE)
    sample = score[:size:step].copy()
    sample.sort()
    for kind in range(KINDS - 1):
        edges[kind] = sample[(kind + 1) * len(sample) // KINDS]


@bare
def sorted_in(score, low, high, edges, kind):
    """Find the kind of each score from `low` to `high`: how many edges are not above it."""
    row = np.uint64(low)
    for _ in range(high - low):
        s, found = score[row], np.uint64(0)
        half = np.uint64(KINDS // 2)
        while half > np.uint64(0):
            found += half * np.uint64(s >= edges[found + half - np.uint64(1)])
            half >>= np.uint64(1)
        kind[row] = found
        row += np.uint64(1)


@bare
def thinned(score, time, id, pane, size, kind, wants, views, k, count, most, shelf):
    """Let go of unranked rows that no view can want; how many stay.

    From the newest pane back: rows of a better kind, and all ranked rows (`count` by pane), outdo a row in each view
    that sees it, so it goes once they are as many as the largest k of these views. Keeps more than is needed: of
    rows of one kind it does not know the better. `wants` is the first view that the ranked rows leave in want.
    O(rows + views).
    """
    largest = 0
    for v in range(views):
        largest = max(largest, k[v])
        most[v] = largest
    for i in range(KINDS + 1):
        shelf[i] = 0
    above, floor, better = 0, 0, 0  # ranked rows, the least kind that stays, rows of a better one
    newest = views
    last = size
    while last > 0:
        seen, begin = pane[last - 1], last - 1
        while begin > 0 and pane[begin - 1] == seen:
            begin -= 1
        if seen < wants:
            for i in range(begin, last):
                kind[np.uint64(i)] = _DROP
            last = begin
            continue
        while newest > seen:
            newest -= 1
            above += count[newest]
        for i in range(begin, last):  # a view sees all rows of its pane
            mine = np.int64(kind[np.uint64(i)])
            shelf[mine] += 1
            better += int(mine > floor)
        while floor < KINDS and above + better >= most[newest]:
            floor += 1
            better -= shelf[floor]
        for i in range(begin, last):  # no branch: nobody can tell which rows stay
            row = np.uint64(i)
            kind[row] = kind[row] if np.int64(kind[row]) >= floor else _DROP
        last = begin
    out = np.uint64(0)
    for i in range(size):
        row = np.uint64(i)
        score[out], time[out], id[out], pane[out], kind[out] = score[row], time[row], id[row], pane[row], kind[row]
        out += np.uint64(kind[row] != _DROP)
    return np.int64(out)
