"""A top-k' view: a hash table of its rows beside their ranking, and one pass over a batch of changes.

Rows stand in numbered places. `order` lists the places best first; `slots` finds the place of an id by linear
probing. `bound` is the rank at or before which every row of the table is in the view.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inlined, kernel

SIZE, FREE, IGNORABLE, NEUTRAL, GOOD, BAD, STALE, LEAST, COUNT = range(9)  # numbers of a view's `marks`
NO_VERSION = -(1 << 63)
_LOWEST_ID = -(1 << 63)


class Rows(NamedTuple):
    """The rows of a view, by place."""

    id: np.ndarray
    score: np.ndarray
    version: np.ndarray
    row: np.ndarray  # where its other columns are found
    order: np.ndarray  # places, best first
    free: np.ndarray  # places that hold no row
    slots: np.ndarray  # places by the hash of their id, -1 where free


class Seen(NamedTuple):
    """The newest version of every id that a change spoke of since the table was last asked; empty: not needed."""

    id: np.ndarray
    version: np.ndarray  # NO_VERSION where free


@inlined
def _home(id, mask):
    """Where the search for an id begins."""
    h = np.uint64(id) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(h >> np.uint64(24)) & mask


@inlined
def _find(id, ids, slots, mask):
    """The slot that holds `id`, or the free one where it would be."""
    at = _home(id, mask)
    while slots[at] >= 0 and ids[slots[at]] != id:
        at = (at + 1) & mask
    return at


@inlined
def _rank(score, id, rows_score, rows_id, order, size):
    """How many rows rank before (score, id)."""
    low, high = 0, size
    while low < high:
        mid = (low + high) >> 1
        e = order[mid]
        if rows_score[e] > score or (rows_score[e] == score and rows_id[e] > id):
            low = mid + 1
        else:
            high = mid
    return low


@inlined
def _unslot(at, ids, slots, mask):
    """Free a slot; those after it move up where their search would now stop short."""
    hole = at
    at = (at + 1) & mask
    while slots[at] >= 0:
        home = _home(ids[slots[at]], mask)
        if ((at - home) & mask) >= ((at - hole) & mask):
            slots[hole] = slots[at]
            hole = at
        at = (at + 1) & mask
    slots[hole] = -1


@inlined
def _newer(id, version, again, seen_id, seen_version):
    """Whether no newer version of `id` was seen; if so, this one is remembered. `again`: the same one counts too."""
    mask = len(seen_id) - 1
    at = _home(id, mask)
    while seen_version[at] != NO_VERSION and seen_id[at] != id:
        at = (at + 1) & mask
    if seen_version[at] != NO_VERSION and (seen_version[at] > version or (seen_version[at] == version and not again)):
        return False
    seen_id[at], seen_version[at] = id, version
    return True


@kernel
def remember(id, version, seen_id, seen_version):
    """Put versions into a table with room for them."""
    for i in range(len(id)):
        _newer(id[i], version[i], False, seen_id, seen_version)


@kernel
def apply(ids, score, version, rows, seen, marks, bound_score, bound_id, shape):
    """Take changes from `shape[0]` on; stop where the view falls below `shape[1]` rows. Where it stopped.

    A change is an id and its new score; NaN: the row is gone, or has no score. `shape` is (first, stop below, most
    rows, whether the bound follows the lowest row kept, whether only ids outside the view count, whether these
    changes were taken before, first row number).
    O(1) for a change that can be ignored, O(log k') and a move of k' places at most for others.
    """
    first, stop, most, follow, fresh, again, base = shape
    row_id, row_score, row_version, row_row, order, free, slots = rows
    seen_id, seen_version = seen
    mask = len(slots) - 1
    size, spare, least = marks[SIZE], marks[FREE], marks[LEAST]
    limit, limit_id = bound_score[0], bound_id[0]
    ignorable, neutral, good, bad, stale = 0, 0, 0, 0, 0
    versions = len(seen_id) > 0
    i = first
    while i < len(ids):
        id, s = ids[i], score[i]
        if versions and not _newer(id, version[i], again, seen_id, seen_version):
            stale += 1
            i += 1
            continue
        at = _find(id, row_id, slots, mask)
        e = slots[at]
        inside = s > limit or (s == limit and id >= limit_id)  # false for NaN
        if e < 0:
            if not inside:
                ignorable += 1
                i += 1
                continue
            good += 1
            full = size == most
            if full:  # the lowest makes room, and what ranks below the next is no longer known
                last = order[size - 1]
                if s < row_score[last] or (s == row_score[last] and id < row_id[last]):
                    limit, limit_id = row_score[last], row_id[last]
                    i += 1
                    continue
                size -= 1
                _unslot(_find(row_id[last], row_id, slots, mask), row_id, slots, mask)
                free[spare] = last
                spare += 1
                at = _find(id, row_id, slots, mask)
            spare -= 1
            e = free[spare]
            row_id[e], row_score[e], row_row[e] = id, s, base + i
            row_version[e] = version[i] if versions else NO_VERSION
            slots[at] = e
            where = _rank(s, id, row_score, row_id, order, size)
            for j in range(size, where, -1):
                order[j] = order[j - 1]
            order[where] = e
            size += 1
            if full:
                limit, limit_id = row_score[order[size - 1]], row_id[order[size - 1]]
        elif fresh:
            ignorable += 1
        elif inside:
            neutral += 1
            row_row[e] = base + i
            if versions:
                row_version[e] = version[i]
            old = row_score[e]
            if s != old:
                was = _rank(old, id, row_score, row_id, order, size)
                if s > old:
                    where = _rank(s, id, row_score, row_id, order, was)
                    for j in range(was, where, -1):
                        order[j] = order[j - 1]
                    order[where] = e
                else:
                    low, high = was + 1, size
                    while low < high:
                        mid = (low + high) >> 1
                        f = order[mid]
                        if row_score[f] > s or (row_score[f] == s and row_id[f] > id):
                            low = mid + 1
                        else:
                            high = mid
                    for j in range(was, low - 1):
                        order[j] = order[j + 1]
                    order[low - 1] = e
                row_score[e] = s
                if follow:
                    limit, limit_id = row_score[order[size - 1]], row_id[order[size - 1]]
        else:
            bad += 1
            was = _rank(row_score[e], id, row_score, row_id, order, size)
            for j in range(was, size - 1):
                order[j] = order[j + 1]
            size -= 1
            _unslot(at, row_id, slots, mask)
            free[spare] = e
            spare += 1
            least = min(least, size)
            open_ended = limit > -np.inf or limit_id > _LOWEST_ID  # rows of the table may rank below the bound
            if follow and open_ended and size > 0:
                limit, limit_id = row_score[order[size - 1]], row_id[order[size - 1]]
            if size < stop and open_ended:
                i += 1
                break
        i += 1
    marks[SIZE], marks[FREE], marks[LEAST] = size, spare, least
    marks[IGNORABLE] += ignorable
    marks[NEUTRAL] += neutral
    marks[GOOD] += good
    marks[BAD] += bad
    marks[STALE] += stale
    bound_score[0], bound_id[0] = limit, limit_id
    return i


@kernel
def cut(rows, marks, bound_score, bound_id, most):
    """Drop all rows after the first `most`."""
    row_id, row_score, _, _, order, free, slots = rows
    mask = len(slots) - 1
    while marks[SIZE] > most:
        marks[SIZE] -= 1
        e = order[marks[SIZE]]
        _unslot(_find(row_id[e], row_id, slots, mask), row_id, slots, mask)
        free[marks[FREE]] = e
        marks[FREE] += 1
        last = order[marks[SIZE] - 1]
        bound_score[0], bound_id[0] = row_score[last], row_id[last]


@kernel
def place(ids, rows, marks):
    """Build the ranking's hash table from rows that stand in places 0, 1, 2, ..., best first."""
    row_id, _, _, _, order, free, slots = rows
    mask = len(slots) - 1
    slots[:] = -1
    for e in range(len(ids)):
        slots[_find(ids[e], row_id, slots, mask)] = e
        order[e] = e
    room = len(free)
    marks[FREE] = 0
    for e in range(room - 1, len(ids) - 1, -1):
        free[marks[FREE]] = e
        marks[FREE] += 1
    marks[SIZE] = len(ids)
