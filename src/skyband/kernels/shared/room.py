"""What the kernels of the shared sweep work on: columns, marks, pages, and room for them."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.band import FEW
from skyband.kernels.views import STEPS

# Where the group at hand stands.
AT, SIZE, YOUNG, WARM, MOST, LISTED, WRITTEN, FULL, DONE, LAST, DIES, SIGHT, NOW, DUE, SPEAKS, SEEN = range(16)
DEAD, KEPT, EXACT, BINNED, CALM, LATELY, STATE = range(16, 23)
NOTHING, MERGE, FOLD, THIN, WIDER = range(5)  # what is due
WARMEST = 256  # fresh rows that are kept ranked, at most
STRIDE = 16  # rows of the band looked at between two looks at how many were found
GONE = -2  # the pane of a row that has moved to the ranked ones
KINDS = 128  # of scores among the rows that are not ranked
SHELVES = 5  # copies of the ranked rows, each without the oldest of the one before


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


class Page(NamedTuple):
    """Room for answers: for each list its step, end, group and number, where it begins, and its rows."""

    lists: np.ndarray  # int64, 4 rows
    first: np.ndarray  # int64, one longer
    id: np.ndarray
    score: np.ndarray


class Room(NamedTuple):
    """Room to work in."""

    order: np.ndarray  # places, best first
    fresh: np.ndarray
    keys: np.ndarray
    other_keys: np.ndarray
    other: np.ndarray
    tally: np.ndarray
    kind: np.ndarray  # uint8: of what kind the score of a row is that is not ranked
    edges: np.ndarray  # float64: where the kinds of scores begin
    sample: np.ndarray  # int64: some panes


class Shelves(NamedTuple):
    """The ranked rows that are young enough, several times over: the walk down one meets few that are too old."""

    score: np.ndarray
    id: np.ndarray
    pane: np.ndarray
    oldest: np.ndarray  # int64: the first pane of each shelf ...
    first: np.ndarray  # int64: ... and where it begins; one longer


@kernel
def roomed(longest, total):
    """Room to work in: for the longest band with its rows, and for all bands. Made once, since new memory is dear."""
    longest += 2 * FEW
    shelves = Shelves(
        np.empty(4 * longest, np.float64),
        np.empty(4 * longest, np.int64),
        np.empty(4 * longest, np.int32),
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
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.uint32),
        np.empty(2048, np.int64),
        np.empty(size, np.uint8),
        np.empty(KINDS, np.float64),
        np.empty(FEW, np.int64),
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


@kernel
def copied(rows, low, size, to, at):
    """Copy `size` rows from `low` on to `at`."""
    score, time, id, pane = rows
    to_score, to_time, to_id, to_pane = to
    for i in range(size):
        to_score[at + i] = score[low + i]
        to_time[at + i] = time[low + i]
        to_id[at + i] = id[low + i]
        to_pane[at + i] = pane[low + i]


@kernel
def gleaned(rows, size, to, at):
    """Copy the first `size` rows, without those that have moved on, to `at`; how many there are."""
    score, time, id, pane = rows
    to_score, to_time, to_id, to_pane = to
    out = at
    for i in range(size):
        if pane[i] != GONE:
            to_score[out], to_time[out], to_id[out], to_pane[out] = score[i], time[i], id[i], pane[i]
            out += 1
    return out - at
