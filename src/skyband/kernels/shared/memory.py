"""What the kernels of the shared sweep work on: rows, what groups remember, memory, and the state of a group."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inplace, kernel
from skyband.kernels.answers import AnswerBuffer
from skyband.kernels.ranking import FEW, SortScratch, sort_scratch
from skyband.kernels.search import lower_bound
from skyband.kernels.shared.views import UNLIMITED, Records, Tournament, empty_tournament
from skyband.kernels.simd import LANES, compress, mask_ge, popcount

NOTHING, MERGE, INSERT, PRUNE, VIEWS, RESET = range(6)
"""What has to be done before windows can close: nothing; rank all pending rows; insert the promoted ones; drop rows;
make room for views; rank all, and promote none until an answer needs some."""
THRESHOLD, LOWEST = range(2)
"""Slots of `scores`: pending rows below the threshold need no rank; the lowest score that an answer reached since."""
MAX_PROMOTED = 256
STRIDE = 16
"""Rows of the band that are copied between two looks at how many were found."""
PROMOTED = -2
"""The pane of a pending row that was promoted."""
CLASSES = 128
"""Classes of scores of pending rows."""
LEVELS = 6
"""Copies of the ranked rows, each without the oldest of the one before."""
SEARCHED = 512
"""Rows that are searched at once for those that reach the threshold."""


class SharedRows(NamedTuple):
    """Columns ordered by group; those of group g are first[0, g] to first[1, g]."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    pane: np.ndarray  # int32: the last view that had begun when the row came
    first: np.ndarray


class SharedMarks(NamedTuple):
    """What is stored of each group besides its band."""

    done: np.ndarray  # int64: windows that end before this are closed ...
    last: np.ndarray  # int64: ... and so are those that end here, of the queries before this one
    seen: np.ndarray  # int64: the time of its last row
    ranked: np.ndarray  # int64: rows of its band that are ranked; those behind are pending, in the order of arrival
    bar: np.ndarray  # float64, 2 rows: see THRESHOLD and LOWEST
    kept: np.ndarray  # int64, 3 rows: the slots `raised`, `kept` and `minimal`
    shown: np.ndarray  # bool, a row for every number: the last answer had rows
    since: np.ndarray  # int64, a row for every moment: positions before this are unknown to queries added then


class SharedSlots(NamedTuple):
    """Slots of the state of the group at work."""

    row: int = 0  # the next row
    ranked: int = 1  # ranked rows of the band
    pending: int = 2  # pending rows, those that were promoted included
    promoted: int = 3  # promoted rows
    gaps: int = 4  # pending rows that were promoted
    unread: int = 5  # the first row that is neither pending nor dropped
    unread_gaps: int = 6  # rows since then that were promoted
    peak: int = 7  # candidates at once, at most
    lists: int = 8  # lists in the answer buffer
    rows: int = 9  # rows in the answer buffer
    full: int = 10  # whether the answer buffer is full
    closed: int = 11  # windows that end before this are closed ...
    closed_queries: int = 12  # ... and those that end here, of the queries before this one
    now: int = 13  # windows that are still to close end by then or later
    expiry: int = 14  # no window with a row ends later
    seen: int = 15  # the time of the last row
    shown: int = 16  # queries whose last answer had rows
    needs: int = 17  # what has to be done first
    views: int = 18  # views
    counted: int = 19  # views whose ranked rows are counted; -1: none
    classified: int = 20  # pending rows whose class is known; -1: there are no classes
    kept: int = 21  # candidates that were left when some were last dropped ...
    minimal: int = 22  # ... when that left the minimal set ...
    pruned: int = 23  # ... and ranked rows when those were last pruned
    raised: int = 24  # when the threshold was last raised
    patience: int = 25  # merges before pending rows are pruned again, which did not pay
    pays_from: int = 26  # from this row on another insertion pays
    limit: int = 27  # candidates from which on some are dropped
    searched: int = 28  # rows before this were searched for those that reach the threshold ...
    found: int = 29  # ... so many of them do ...
    next_found: int = 30  # ... and this one is the next


S = SharedSlots()


class BandRows(NamedTuple):
    """Candidates of one group."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    pane: np.ndarray


class MergeScratch(NamedTuple):
    """Memory to rank and to drop rows."""

    order: np.ndarray  # uint32: rows, best first
    pending_order: np.ndarray
    sort: SortScratch
    tally: np.ndarray  # rows by class
    score_class: np.ndarray  # int32: of pending rows
    edges: np.ndarray  # float64: where classes begin


class Levels(NamedTuple):
    """The ranked rows, several times: a level has no rows before `oldest`, so that a walk skips few."""

    score: np.ndarray
    id: np.ndarray
    time: np.ndarray
    oldest: np.ndarray  # int64
    first: np.ndarray  # int64: where it begins; one longer


class SharedScratch(NamedTuple):
    """Memory for the longest band, and for all of them."""

    band: BandRows
    spare: BandRows
    pending: BandRows
    kept: BandRows
    merge: MergeScratch
    levels: Levels


class SharedWork(NamedTuple):
    """The group at work, without its ranked rows and views."""

    pending: BandRows
    promoted: BandRows  # best first
    found: np.ndarray  # rows that reach the threshold
    merge: MergeScratch
    levels: Levels
    ending: Tournament  # the next end of a window of each query
    starting: Tournament  # and the next start
    state: np.ndarray
    scores: np.ndarray


class SharedSource(NamedTuple):
    """What comes in, and where answers go."""

    rows: SharedRows
    marks: SharedMarks
    queries: Records
    answers: AnswerBuffer


@kernel
def empty_band(size):
    """Allocate room for so many rows."""
    return BandRows(
        np.empty(size, np.float64), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int32)
    )


@kernel
def merge_scratch(size):
    """Allocate memory to rank so many rows."""
    return MergeScratch(
        np.empty(size, np.uint32),
        np.empty(size, np.uint32),
        sort_scratch(size),
        np.empty(CLASSES + 1, np.int64),
        np.empty(size, np.int32),
        np.empty(CLASSES + CLASSES // LANES, np.float64),
    )


@kernel
def shared_scratch(longest, total):
    """Allocate memory for the longest band with its new rows, and for all of them."""
    longest += 2 * FEW
    levels = Levels(
        np.empty(5 * longest, np.float64),
        np.empty(5 * longest, np.int64),
        np.empty(5 * longest, np.int64),
        np.empty(LEVELS, np.int64),
        np.empty(LEVELS + 1, np.int64),
    )
    band, spare, pending = empty_band(longest), empty_band(longest), empty_band(longest)
    return SharedScratch(band, spare, pending, empty_band(total), merge_scratch(longest), levels)


@kernel
def shared_work(scratch, queries):
    """Return the memory for one group after the other."""
    return SharedWork(
        scratch.pending,
        empty_band(MAX_PROMOTED + 1),
        np.empty(SEARCHED + 1, np.int64),
        scratch.merge,
        scratch.levels,
        empty_tournament(queries),
        empty_tournament(queries),
        np.zeros(len(S), np.int64),
        np.empty(2),
    )


@inplace
def copy_band(rows, low, size, to, at):
    """Copy `size` rows from `low` on to `at`."""
    for i in range(size):
        to.score[at + i] = rows.score[low + i]
        to.time[at + i] = rows.time[low + i]
        to.id[at + i] = rows.id[low + i]
        to.pane[at + i] = rows.pane[low + i]


@inplace
def close_gaps(pending, score_class, size, classified):
    """Drop pending rows that were promoted. Return the number of rows, and of those whose class is known."""
    score, time, id, pane = pending
    out, known = np.uint64(0), classified
    for i in range(size):
        row = np.uint64(i)
        if i < classified:
            known -= np.int64(pane[row] == PROMOTED)
        score[out], time[out], id[out], pane[out] = score[row], time[row], id[row], pane[row]
        score_class[out] = score_class[row]
        out += np.uint64(pane[row] != PROMOTED)
    return np.int64(out), known


@inplace
def append_below(rows, begin, stop, threshold, to, size, views, n):
    """Append the rows from `begin` to `stop` below the threshold to `size` others. Return the number of rows."""
    row, last, out = np.uint64(begin), np.uint64(stop), np.uint64(size)
    every = np.uint64((1 << LANES) - 1)
    while row + np.uint64(LANES) <= last:
        mask = mask_ge(rows.score, row, threshold) ^ every
        compress(mask, rows.score, row, to.score, out)
        compress(mask, rows.time, row, to.time, out)
        compress(mask, rows.id, row, to.id, out)
        out += popcount(mask)
        row += np.uint64(LANES)
    while row < last:
        to.score[out], to.time[out], to.id[out] = rows.score[row], rows.time[row], rows.id[row]
        out += np.uint64(rows.score[row] < threshold)
        row += np.uint64(1)
    i, end = size, np.int64(out)
    pane = pane_of(views, n, to.time[i]) if i < end else 0
    while i < end:
        after = views.at[pane + 1] if pane + 1 < n else UNLIMITED
        while i < end and to.time[i] < after:
            to.pane[i] = pane
            i += 1
        pane += 1
    return end


@inplace
def pane_of(views, n, time):
    """Return the last of n views that had begun at this time, or -1."""
    return lower_bound(views.at, time + 1, 0, n) - 1
