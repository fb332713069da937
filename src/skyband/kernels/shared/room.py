"""What the kernels of the shared sweep work on: columns, marks, pages, and room for them."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel
from skyband.kernels.ranking import FEW, SortScratch, sort_scratch
from skyband.kernels.simd import LANES, compress, mask_ge, popcount
from skyband.kernels.views import AFTER, STEPS

# Where the group at hand stands.
AT, SIZE, YOUNG, WARM, MOST, LISTED, WRITTEN, FULL, DONE, LAST, DIES, SIGHT, NOW, DUE, SPEAKS, SEEN = range(16)
DEAD, KEPT, EXACT, BINNED, CALM, LATELY, RAW, LIT, COUNTED, SIEVED, TIRED, EVEN, STATE = range(16, 29)
NOTHING, MERGE, FOLD, THIN, WIDER, ANEW = range(6)  # what is due
WARMEST = 256  # fresh rows that are kept ranked, at most
STRIDE = 16  # rows of the band looked at between two looks at how many were found
GONE = -2  # the pane of a row that has moved to the ranked ones
KINDS = 128  # of scores among the rows that are not ranked
SHELVES = 6  # copies of the ranked rows, each without the oldest of the one before
AHEAD = 512  # rows in which those that reach the gate are looked for at once


class Rows(NamedTuple):
    """Columns ordered by group; those of group g are first[0, g] to first[1, g]."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    pane: np.ndarray  # int32: the last view that had begun when the row came, counted from the ring's first
    first: np.ndarray


class Marks(NamedTuple):
    """What each group remembers besides its band."""

    done: np.ndarray  # int64: windows that end before this are closed ...
    last: np.ndarray  # int64: ... and so are those that end here, of the records before this one
    seen: np.ndarray  # int64: the time of its last row
    ranked: np.ndarray  # int64: so many rows of its band are ranked; those behind are in the order of their arrival
    bar: (
        np.ndarray
    )  # float64, 2 rows: rows below this score need no rank; the lowest that an answer reached of late ...
    kept: (
        np.ndarray
    )  # int64, 3 rows: ... since then; how many stayed when rows were last let go, and of the minimal set
    shown: np.ndarray  # bool, a row for every number: the last answer had rows
    since: np.ndarray  # int64, a row for every moment: positions before this are unknown to who came then


class Room(NamedTuple):
    """Room to work in."""

    order: np.ndarray  # places, best first
    fresh: np.ndarray
    sort: SortScratch
    tally: np.ndarray
    kind: np.ndarray  # int32: of what kind the score of a row is that is not ranked
    edges: np.ndarray  # float64: where the kinds of scores begin


class Shelves(NamedTuple):
    """The ranked rows that are young enough, several times over: the walk down one meets few that are too old."""

    score: np.ndarray
    id: np.ndarray
    time: np.ndarray
    oldest: np.ndarray  # int64: rows before this are not on it ...
    first: np.ndarray  # int64: ... and where it begins; one longer


@kernel
def roomed(longest, total):
    """Room to work in: for the longest band with its rows, and for all bands. Made once, since new memory is dear."""
    longest += 2 * FEW
    shelves = Shelves(
        np.empty(5 * longest, np.float64),
        np.empty(5 * longest, np.int64),
        np.empty(5 * longest, np.int64),
        np.empty(SHELVES, np.int64),
        np.empty(SHELVES + 1, np.int64),
    )
    return columns(longest), columns(longest), columns(longest), columns(total), workroom(longest), shelves


@kernel
def sighted(views):
    """Room for views (at, end, k), and for counts, places and steps to make them fewer; and when to do so next."""
    views += 1
    return (
        np.empty(views, np.int64),
        np.empty(views, np.int64),
        np.empty(views, np.int64),
        np.empty(views, np.int64),
        np.empty(views, np.int64),
        np.empty(STEPS, np.int64),
        np.empty(STEPS, np.int64),
        np.zeros(1, np.int64),
    )


@kernel
def workroom(size):
    """Room to rank `size` rows."""
    return Room(
        np.empty(size, np.uint32),
        np.empty(size, np.uint32),
        sort_scratch(size),
        np.empty(2048, np.int64),
        np.empty(size, np.int32),
        np.empty(KINDS + KINDS // LANES, np.float64),
    )


@kernel
def columns(size):
    """Room for `size` rows."""
    return (
        np.empty(size, np.float64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int32),
    )


@inplace
def copied(rows, low, size, to, at):
    """Copy `size` rows from `low` on to `at`."""
    score, time, id, pane = rows
    to_score, to_time, to_id, to_pane = to
    for i in range(size):
        to_score[at + i] = score[low + i]
        to_time[at + i] = time[low + i]
        to_id[at + i] = id[low + i]
        to_pane[at + i] = pane[low + i]


@inplace
def gleaned(score, time, id, pane, kind, size, binned):
    """Close the gaps that rows left which have moved on; how many rows there are then, and how many of the first."""
    out, before = np.uint64(0), binned
    for i in range(size):
        row = np.uint64(i)
        if i < binned:
            before -= np.int64(pane[row] == GONE)
        score[out], time[out], id[out], pane[out], kind[out] = score[row], time[row], id[row], pane[row], kind[row]
        out += np.uint64(pane[row] != GONE)
    return np.int64(out), before


@inplace
def absorbed(score, time, id, begin, stop, bar, to_score, to_time, to_id, to_pane, size, view_at, views):
    """Put the rows from `begin` to `stop` that do not reach the bar behind `size` others; how many there are then."""
    row, last, out = np.uint64(begin), np.uint64(stop), np.uint64(size)
    every = np.uint64((1 << LANES) - 1)
    while row + np.uint64(LANES) <= last:
        mask = mask_ge(score, row, bar) ^ every
        compress(mask, score, row, to_score, out)
        compress(mask, time, row, to_time, out)
        compress(mask, id, row, to_id, out)
        out += popcount(mask)
        row += np.uint64(LANES)
    while row < last:
        to_score[out], to_time[out], to_id[out] = score[row], time[row], id[row]
        out += np.uint64(score[row] < bar)
        row += np.uint64(1)
    i, end = size, np.int64(out)
    if i < end:
        pane = seen(view_at, views, to_time[i])
    while i < end:
        after = view_at[pane + 1] if pane + 1 < views else AFTER
        while i < end and to_time[i] < after:
            to_pane[i] = pane
            i += 1
        pane += 1
    return end


@inline
def seen(view_at, views, time):
    """The last view that had begun at this time; -1: none."""
    pane, over = 0, views
    while pane < over:
        mid = (pane + over) >> 1
        if view_at[mid] <= time:
            pane = mid + 1
        else:
            over = mid
    return pane - 1
