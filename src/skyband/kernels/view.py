"""A top-k' view: a set of rows found by a hash of their id, ranked only when somebody reads it.

Rows stand in numbered places. `bound` is the rank at or before which every row of the table is in the view: it alone
decides what a change means, so the ranking can wait. `order` lists the places best first as of the last `rank`; those
that have changed since are marked and listed in `touched`. Two bits for every id that was let in turn nearly all others
away with one look at memory that stays in the nearest cache, many changes at a time.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel
from skyband.kernels.sieve import BLOCK, NONE, let_in, lowest, same, sift, suspected

# numbers of a view's `marks`
SIZE, FREE, IGNORABLE, NEUTRAL, GOOD, BAD, STALE, LEAST, ORDERED, TOUCHED, LEFT = range(11)
LEVEL, PEAK, DRAW, LOW, COUNT = range(11, 16)
NO_VERSION = -(1 << 63)
_LOWEST_ID = -(1 << 63)
_DIRTY, _ALIVE = 1, 2
_ONE = np.uint64(1)


class Rows(NamedTuple):
    """The rows of a view, by place."""

    id: np.ndarray
    score: np.ndarray
    row: np.ndarray  # where its other columns are found
    order: np.ndarray  # places, best first, as of the last `rank`
    free: np.ndarray  # places that hold no row
    slots: np.ndarray  # places by the hash of their id, -1 where free
    state: np.ndarray  # whether a place holds a row, and whether it has changed since the last `rank`
    touched: np.ndarray  # the places that have
    words: np.ndarray  # with bits for each id that was let in, and for some that have left


class Seen(NamedTuple):
    """The newest version of every id that a change spoke of, and what it said; empty: not needed."""

    id: np.ndarray
    version: np.ndarray  # NO_VERSION where free
    score: np.ndarray
    row: np.ndarray  # where its other columns are found


@inline
def _home(id, mask):
    """Where the search for an id begins."""
    h = np.uint64(id) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(h >> np.uint64(24)) & mask


@inline
def _find(id, ids, slots, mask):
    """The slot that holds `id`, or the free one where it would be."""
    at = _home(id, mask)
    while slots[at] >= 0 and ids[slots[at]] != id:
        at = (at + 1) & mask
    return at


@inline
def _before(e, f, score, id):
    """Whether place e ranks before place f."""
    return score[e] > score[f] or (score[e] == score[f] and id[e] > id[f])


@kernel
def rank(rows, marks):
    """Bring `order` up to date: sort what has changed, merge it with what has not. O(k' + changed * log changed)."""
    row_id, row_score, _, order, _, _, state, touched, _ = rows
    count = 0
    for i in range(marks[TOUCHED]):
        e = touched[i]
        if state[e] & _ALIVE:
            touched[count] = e
            count += 1
        else:
            state[e] = 0
    if marks[TOUCHED] == 0:
        return
    new = touched[:count]
    if count > 1:
        by = np.argsort(-row_score[new], kind="mergesort")
        new = new[by]
        low = 0
        for i in range(1, count + 1):  # equal scores: the larger id first
            if i == count or row_score[new[i]] != row_score[new[low]]:
                if i - low > 1:
                    run = new[low:i].copy()
                    ids = np.argsort(row_id[run], kind="mergesort")  # the lowest number there is has no opposite
                    new[low:i] = run[ids[::-1]]
                low = i
    else:
        new = new.copy()
    kept = 0
    for i in range(marks[ORDERED]):
        e = order[i]
        if state[e] == _ALIVE:
            order[kept] = e
            kept += 1
    at = kept + count - 1
    i, j = kept - 1, count - 1
    while j >= 0:  # from the lowest up, so that no second list is needed
        if i >= 0 and _before(new[j], order[i], row_score, row_id):
            order[at] = order[i]
            i -= 1
        else:
            order[at] = new[j]
            j -= 1
        at -= 1
    for e in new:
        state[e] = _ALIVE
    marks[ORDERED], marks[TOUCHED] = kept + count, 0


@kernel
def _refresh_bits(rows, marks):
    """Forget the bits of ids that have left."""
    rows.words[:] = 0
    for e in range(len(rows.id)):
        if rows.state[e] & _ALIVE:
            let_in(rows.id[e], rows.words)
    marks[LEFT] = 0


@inline
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


@inline
def _told(id, seen_id, seen_version):
    """Where the newest version of `id` is noted, or the free place where it would be."""
    mask = len(seen_id) - 1
    at = _home(id, mask)
    while seen_version[at] != NO_VERSION and seen_id[at] != id:
        at = (at + 1) & mask
    return at


@kernel
def remember(id, version, score, row, seen):
    """Put versions, each of another id, into a table with room for them."""
    seen_id, seen_version, seen_score, seen_row = seen
    for i in range(len(id)):
        at = _told(id[i], seen_id, seen_version)
        seen_id[at], seen_version[at], seen_score[at], seen_row[at] = id[i], version[i], score[i], row[i]


@inline
def _bounded(limit, limit_id):
    """Whether some row may rank below the bound."""
    return limit > -np.inf or limit_id > _LOWEST_ID


@kernel
def apply(ids, score, version, rows, seen, marks, bound_score, bound_id, shape):
    """Take changes from `shape[0]` on; stop where the view falls below `shape[1]` rows. Where it stopped.

    A change is an id and its new score; NaN: the row is gone, or has no score. `shape` is (first, stop below, most
    rows, rows kept of a view that is full, whether the bound follows the lowest row kept, whether only ids outside the
    view count, whether these changes were taken before, first row number). With `seen`, changes count only if they are
    newer than what is known of their id; and of rows outside the view only those that no change spoke of, for what the
    table holds may be older or younger than the stream. O(1) a change.
    """
    i, stop, most, keep, follow, fresh, again, base = shape
    old = max(most // 4, 16)  # so many ids may have left before their bits are forgotten
    more = True
    while more:
        limit, limit_id = bound_score[0], bound_id[0]
        asked = (i, stop if _bounded(limit, limit_id) else 0, most, old, follow, fresh, again, base)
        i, more = _taken(ids, score, version, rows, seen, marks, limit, limit_id, asked)
        if not more:
            break
        if marks[SIZE] > most:  # the lowest go, and what ranks below the rest is no longer known
            cut(rows, marks, bound_score, bound_id, keep)
        if follow and marks[SIZE] > 0 and _bounded(bound_score[0], bound_id[0]):
            rank(rows, marks)
            last = rows.order[marks[SIZE] - 1]
            bound_score[0], bound_id[0] = rows.score[last], rows.id[last]
        if marks[LEFT] > old:
            _refresh_bits(rows, marks)
        more = marks[SIZE] >= stop or not _bounded(bound_score[0], bound_id[0])
    return i


@inplace
def _taken(ids, score, version, rows, seen, marks, limit, limit_id, shape):
    """Take changes up to one after which there is more to do: how far it came, and whether there is.

    Without `seen`, blocks of changes are sifted first, and only the suspects are taken one by one. The bound stays
    where it is, so what was none of them can become one in one way alone: a change before it let its id in.
    """
    first, stop, most, old, follow, fresh, again, base = shape
    row_id, row_score, row_row, _, free, slots, state, touched, words = rows
    seen_id, seen_version, seen_score, seen_row = seen
    mask = len(slots) - 1
    size, spare, least, changed, left = marks[SIZE], marks[FREE], marks[LEAST], marks[TOUCHED], marks[LEFT]
    # the walk of the size, as if no row made room
    level, peak, draw, low = marks[LEVEL], marks[PEAK], marks[DRAW], marks[LOW]
    neutral, good, bad, stale = 0, 0, 0, 0
    versions = len(seen_id) > 0
    block = edge = first  # changes from `block` to `edge` have been sifted
    suspects = NONE
    after = first
    more = False
    while after < len(ids) and not more:
        i = after
        if not versions:
            if not suspects and edge < len(ids):
                block, suspects = sift(ids, score, edge, limit, words)
                edge = min(block + BLOCK, len(ids))
            if not suspects:
                after = len(ids)
                break
            i = block + lowest(suspects)
            suspects &= suspects - _ONE
        after = i + 1
        id, s = ids[i], score[i]
        if versions:
            told = _told(id, seen_id, seen_version)
            known = seen_version[told] != NO_VERSION
            if known and not again and (fresh or seen_version[told] >= version[i]):
                stale += 1
                continue
            if not fresh and not again:
                seen_id[told], seen_version[told], seen_score[told], seen_row[told] = id, version[i], s, base + i
        inside = s > limit or (s == limit and id >= limit_id)  # false for NaN
        if not inside and not suspected(id, words):
            continue
        at = _find(id, row_id, slots, mask)
        e = np.int64(slots[at])
        if e < 0:
            if not inside:
                continue
            good += 1
            level += 1
            peak = max(peak, level)
            spare -= 1
            e = np.int64(free[spare])
            row_id[e], row_score[e], row_row[e] = id, s, base + i
            slots[at] = e
            let_in(id, words)
            if not versions:
                suspects |= same(ids, block, after - block, id)
            size += 1
            if not state[e] & _DIRTY:
                touched[changed] = e
                changed += 1
            state[e] = _ALIVE | _DIRTY
        elif fresh:
            pass
        elif inside:
            neutral += 1
            row_row[e] = base + i
            if s != row_score[e]:
                row_score[e] = s
                if not state[e] & _DIRTY:
                    touched[changed] = e
                    changed += 1
                    state[e] |= _DIRTY
        else:
            bad += 1
            level -= 1
            draw = max(draw, peak - level)
            low = min(low, level)
            size -= 1
            _unslot(at, row_id, slots, mask)
            free[spare] = e
            spare += 1
            if not state[e] & _DIRTY:
                touched[changed] = e
                changed += 1
            state[e] = _DIRTY
            left += 1
            least = min(least, size)
        more = follow or size > most or left > old or size < stop
    marks[SIZE], marks[FREE], marks[LEAST], marks[TOUCHED], marks[LEFT] = size, spare, least, changed, left
    marks[LEVEL], marks[PEAK], marks[DRAW], marks[LOW] = level, peak, draw, low
    marks[IGNORABLE] += after - first - neutral - good - bad - stale
    marks[NEUTRAL] += neutral
    marks[GOOD] += good
    marks[BAD] += bad
    marks[STALE] += stale
    return after, more


@kernel
def cut(rows, marks, bound_score, bound_id, most):
    """Drop all rows after the first `most`, without ranking them. O(k')."""
    size, changed = marks[SIZE], marks[TOUCHED]
    if size <= most:
        return
    row_id, row_score, _, _, free, slots, state, touched, _ = rows
    place, score, found = np.empty(size, np.int64), np.empty(size), 0
    for e in range(len(row_id)):
        if state[e] & _ALIVE:
            place[found], score[found] = e, row_score[e]
            found += 1
    lowest = np.partition(score, size - most)[size - most]
    tied, above = np.empty(size, np.int64), 0
    equal = 0
    for i in range(size):
        above += score[i] > lowest
        if score[i] == lowest:
            tied[equal] = row_id[place[i]]
            equal += 1
    last = np.sort(tied[:equal])[equal - (most - above)]
    mask = len(slots) - 1
    for i in range(size):
        e = place[i]
        if score[i] > lowest or (score[i] == lowest and row_id[e] >= last):
            continue
        _unslot(_find(row_id[e], row_id, slots, mask), row_id, slots, mask)
        free[marks[FREE]] = e
        marks[FREE] += 1
        if not state[e] & _DIRTY:
            touched[changed] = e
            changed += 1
        state[e] = _DIRTY
    marks[LEFT] += size - most
    marks[SIZE], marks[TOUCHED] = most, changed
    bound_score[0], bound_id[0] = lowest, last


@kernel
def place(ids, rows, marks):
    """Build all the rest from rows that stand in places 0, 1, 2, ..., best first."""
    row_id, _, _, order, free, slots, state, _, _ = rows
    mask = len(slots) - 1
    slots[:] = -1
    state[:] = 0
    for e in range(len(ids)):
        slots[_find(ids[e], row_id, slots, mask)] = e
        order[e] = e
        state[e] = _ALIVE
    marks[FREE] = 0
    for e in range(len(free) - 1, len(ids) - 1, -1):
        free[marks[FREE]] = e
        marks[FREE] += 1
    marks[SIZE], marks[ORDERED], marks[TOUCHED] = len(ids), len(ids), 0
    _refresh_bits(rows, marks)
