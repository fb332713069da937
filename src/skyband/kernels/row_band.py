"""A band that is read after every row: ranked rows at the end of its columns, so that its head can grow and shrink.

Ids are stored twice as large, plus one if the row was reported. The band is complete down to a threshold: every row of
the window that scores as much is in it. Rows below are skipped, and few of them are ever looked at again.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace
from skyband.kernels.columns import MAX_TIME
from skyband.kernels.ranking import push_largest
from skyband.kernels.search import last_exceeding


class RowSlots(NamedTuple):
    """Slots of the state of the group at work."""

    row: int = 0  # the next row
    skipped: int = 1  # the first row that was skipped since rows were last looked through
    head: int = 2  # where the band begins
    above: int = 3  # so many of its rows reach the threshold
    pending: int = 4  # pending rows
    merged: int = 5  # rows that the last merge left
    oldest: int = 6  # no time among the first k of the band is before this
    done: int = 7  # positions before this have had their step, for counting windows
    seen: int = 8  # steps before row 0
    nonempty: int = 9  # whether the last answer had rows
    begun: int = 10  # whether the step at `now` has begun
    now: int = 11
    gone: int = 12  # rows among the first k that expired in this step
    rank: int = 13  # of the row that came in this step, k or more: not in the answer
    lists: int = 14  # lists in the answer buffer
    rows: int = 15  # rows in the answer buffer
    peak: int = 16  # candidates at once, at most
    need: int = 17  # so many rows need room at the head of the band; 0: pending rows need it
    entered: int = 18  # so many of the skipped rows have entered the band
    lost: int = 19  # whether some of the first k were dropped since the last step
    gather: int = 20  # whether the skipped rows have to be looked through
    edge: int = 21  # the first row ...
    edge_time: int = 22  # ... at this time or later
    spare: int = 23  # so many more rows than k are above the threshold when it is set
    filled: int = 24  # the row at which it was last set
    next_run: int = 25  # the row from which on it is worthwhile to look for a run that rises
    pause: int = 26  # steps until it is worthwhile to look for a run that falls ...
    misses: int = 27  # ... given so many attempts without one


R = RowSlots()
THRESHOLD, BEST = 0, 1
"""Slots of its real numbers: the threshold, and the best score of the pending rows."""


@inplace
def unbeaten(score, low, high, k, heap, size, entered, known, picked):
    """Put the indexes of score[low:high] that fewer than k later scores exceed into `picked`, the last first.

    `heap` holds the `size` best scores of rows after these. The first `known` of `entered` only count as later scores:
    they are in the band already. Returns how many there are, or -1 if `picked` has no room. One scan back: O(rows), and
    O(log k) for each that is not beaten; where scores fall, only for the first k of a run.
    """
    found, at, run_end = 0, high, high
    while at > low:
        if size == k:
            at = last_exceeding(score, heap[0], at, low)
            if at == low:
                break
            if at <= run_end:  # back to here scores fall: none of them is beaten
                run_end = at - 1
                while run_end > low and score[run_end - 1] > score[run_end]:
                    run_end -= 1
                while known > 0 and entered[known - 1] >= at:
                    known -= 1
                many = at - run_end - k  # those behind the first k of them make no difference to what is before
                if many > 0 and (known == 0 or entered[known - 1] < run_end):
                    if found + many > len(picked):
                        return -1
                    for i in range(many):
                        picked[found + i] = at - 1 - i
                    found += many
                    at -= many
        at -= 1
        s = score[at]
        if not np.isnan(s):
            while known > 0 and entered[known - 1] > at:
                known -= 1
            if known == 0 or entered[known - 1] != at:
                if found == len(picked):
                    return -1
                picked[found] = at
                found += 1
            size = push_largest(heap, size, k, s)
    return found


@inplace
def drop_expired(band, head, above, k, cutoff):
    """Drop rows whose time is `cutoff` or before, until the first k are alive.

    Returns the new head, the oldest time of those k, how many were dropped, and how many of the first `above` are left.
    Mostly it is one of them, and the next in rank is alive: then no branch is needed.
    """
    score, time, id = band
    if head + k < len(time) and time[head + k] > cutoff:
        low, one, place, late, oldest = np.uint64(head), np.uint64(1), 0, 0, time[head + k]
        for i in range(k):
            t = time[low + np.uint64(i)]
            late += t <= cutoff
            place |= i if t <= cutoff else 0  # right if there is only one
            oldest = min(oldest, t if t > cutoff else MAX_TIME)
        if late == 1:
            top = low + np.uint64(place)
            for i in range(np.uint64(place)):
                score[top - np.uint64(i)] = score[top - np.uint64(i) - one]
            for i in range(np.uint64(place)):
                time[top - np.uint64(i)] = time[top - np.uint64(i) - one]
            for i in range(np.uint64(place)):
                id[top - np.uint64(i)] = id[top - np.uint64(i) - one]
            return head + 1, oldest, 1, above - (place < above)
    alive, gone, oldest, i, last, left = 0, 0, MAX_TIME, head, head, above
    while i < len(time) and alive < k:
        t = time[i]
        if t > cutoff:
            alive += 1
            oldest = min(oldest, t)
        else:
            gone += 1
            left -= i - head < above
            last = i
        i += 1
    if gone > 0:
        to = last
        for j in range(last - 1, head - 1, -1):
            if time[j] > cutoff:
                score[to], time[to], id[to] = score[j], time[j], id[j]
                to -= 1
        head = to + 1
    return head, oldest, gone, left


@inplace
def insert(band, head, upto, s, t, r):
    """Insert a row among those from `head`, which must be above 0, to `upto`. Return its rank, from 0 on."""
    score, time, id = band
    rank, low, one = 0, np.uint64(head), np.uint64(1)
    for i in range(np.uint64(upto - head)):
        rank += score[low + np.uint64(i)] > s
    while head + rank < upto and score[head + rank] == s and id[head + rank] > r:
        rank += 1
    for i in range(low, low + np.uint64(rank)):
        score[np.uint64(i) - one] = score[np.uint64(i)]
    for i in range(low, low + np.uint64(rank)):
        time[np.uint64(i) - one] = time[np.uint64(i)]
    for i in range(low, low + np.uint64(rank)):
        id[np.uint64(i) - one] = id[np.uint64(i)]
    i = head + rank - 1
    score[i], time[i], id[i] = s, t, r
    return rank


@inline
def count_reaching(score, head, low, threshold):
    """Count the rows from `head` on that score at least `threshold`, given that the first `low` do."""
    while head + low < len(score) and score[head + low] >= threshold:
        low += 1
    return low
