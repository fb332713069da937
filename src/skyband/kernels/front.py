"""A band that is read after every row: its ranked list lies at the end of its columns, and gives way at the front.

Columns (score, time, mark) hold it, best first; a mark is twice the id, and one more if the row has been told. The
list is complete down to a bar: whoever scores as much is in it. Those below wait, and few are ever looked at again.
"""

import numpy as np

from skyband.kernels._jit import inline, inplace

FAR = 1 << 61  # after all time
BLOCK = 128  # rows compared at once, without a branch
NEAR = 8  # rows looked at one by one before that


@inline
def reached(time, moment, at, stop):
    """The first place from `at` on whose time is `moment` or later. O(log of how far that is)."""
    low, stride = at, 1
    while low < stop and time[min(low + stride, stop) - 1] < moment:
        low = min(low + stride, stop)
        stride *= 2
    high = min(low + stride, stop)
    while low < high:
        middle = (low + high) >> 1
        if time[middle] < moment:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def passed(score, bar, at, stop):
    """The first place from `at` on that scores `bar` or more. O(rows), nearly all of them without a branch."""
    near = min(at + NEAR, stop)
    while at < near and not score[at] >= bar:
        at += 1
    if at == near:
        while at + BLOCK <= stop:
            hits, low = 0, np.uint64(at)  # unsigned: a place that may count from the end is compared alone
            for i in range(BLOCK):
                hits += score[low + np.uint64(i)] >= bar
            if hits > 0:
                break
            at += BLOCK
        while at + NEAR <= stop:
            hits, low = 0, np.uint64(at)
            for i in range(NEAR):
                hits += score[low + np.uint64(i)] >= bar
            if hits > 0:
                break
            at += NEAR
        while at < stop and not score[at] >= bar:
            at += 1
    return at


@inline
def passed_back(score, bar, at, stop):
    """The last place before `at` that scores more than `bar`, plus one; `stop` if there is none from there on."""
    near = max(at - NEAR, stop)
    while at > near and not score[at - 1] > bar:
        at -= 1
    if at == near:
        while at - BLOCK >= stop:
            hits, low = 0, np.uint64(at - BLOCK)
            for i in range(BLOCK):
                hits += score[low + np.uint64(i)] > bar
            if hits > 0:
                break
            at -= BLOCK
        while at - NEAR >= stop:
            hits, low = 0, np.uint64(at - NEAR)
            for i in range(NEAR):
                hits += score[low + np.uint64(i)] > bar
            if hits > 0:
                break
            at -= NEAR
        while at > stop and not score[at - 1] > bar:
            at -= 1
    return at


@inplace
def lasting(score, low, high, k, entered, known, heap, picked):
    """Put the places of `score[low:high]` that fewer than k later ones beat into `picked`, the last first.

    The first `known` of `entered` only count as later ones: they are in the list already. Returns how many there are,
    or -1 if `picked` has no room for them. One walk back: O(rows), and O(log k) for each that is not beaten; where
    scores fall, for the first k of a stretch.
    """
    size, found, at, unlike = 0, 0, high, high
    while at > low:
        if size == k:
            at = passed_back(score, heap[0], at, low)
            if at == low:
                break
            if at <= unlike:  # back to here scores fall: none of them is beaten
                unlike = at - 1
                while unlike > low and score[unlike - 1] > score[unlike]:
                    unlike -= 1
                while known > 0 and entered[known - 1] >= at:
                    known -= 1
                many = at - unlike - k  # those behind the first k of them make no difference to what is before
                if many > 0 and (known == 0 or entered[known - 1] < unlike):
                    if found + many > len(picked):
                        found = -1
                        break
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
                    found = -1
                    break
                picked[found] = at
                found += 1
            if size < k:
                i = size
                while i > 0 and heap[(i - 1) >> 1] > s:
                    heap[i] = heap[(i - 1) >> 1]
                    i = (i - 1) >> 1
                heap[i] = s
                size += 1
            else:
                i = 0
                while 2 * i + 1 < k:
                    child = 2 * i + 1
                    if child + 1 < k and heap[child + 1] < heap[child]:
                        child += 1
                    if heap[child] >= s:
                        break
                    heap[i] = heap[child]
                    i = child
                heap[i] = s
    return found


@inplace
def gathered(score, time, id, low, high, k, entered, known, heap, picked, to_score, to_time, to_mark, size):
    """Put the `lasting` of the rows [low, high) behind `size` others: how many there are then, -1 without room."""
    found = lasting(score, low, high, k, entered, known, heap, picked)
    if found < 0 or size + found > len(to_score):
        size = -1
    else:
        for j in range(found):
            i = picked[found - 1 - j]
            to_score[size], to_time[size], to_mark[size] = score[i], time[i], id[i] << 1
            size += 1
    return size


@inplace
def expired(score, time, mark, head, sure, k, cutoff):
    """Take off whose time is `cutoff` or before, until the first k are alive.

    Returns the new head, the oldest time of those k, how many left, and how many of the first `sure` are left.
    Mostly it is one of them, and the next in rank is alive: then all of it goes without a branch.
    """
    if head + k < len(time) and time[head + k] > cutoff:
        low, one, place, late, oldest = np.uint64(head), np.uint64(1), 0, 0, time[head + k]
        for i in range(k):
            t = time[low + np.uint64(i)]
            late += t <= cutoff
            place |= i if t <= cutoff else 0  # if it is but one
            oldest = min(oldest, t if t > cutoff else FAR)
        if late == 1:
            top = low + np.uint64(place)
            for i in range(np.uint64(place)):
                score[top - np.uint64(i)] = score[top - np.uint64(i) - one]
            for i in range(np.uint64(place)):
                time[top - np.uint64(i)] = time[top - np.uint64(i) - one]
            for i in range(np.uint64(place)):
                mark[top - np.uint64(i)] = mark[top - np.uint64(i) - one]
            return head + 1, oldest, 1, sure - (place < sure)
    alive, gone, oldest, i, last, left = 0, 0, FAR, head, head, sure
    while i < len(time) and alive < k:
        t = time[i]
        if t > cutoff:
            alive += 1
            oldest = min(oldest, t)
        else:
            gone += 1
            left -= i - head < sure
            last = i
        i += 1
    if gone > 0:
        to = last
        for j in range(last - 1, head - 1, -1):
            if time[j] > cutoff:
                score[to], time[to], mark[to] = score[j], time[j], mark[j]
                to -= 1
        head = to + 1
    return head, oldest, gone, left


@inplace
def inserted(score, time, mark, head, upto, s, t, m):
    """Put a row among those from `head` to `upto`, which move forward; its rank from 0 on. `head` must be above 0."""
    rank, low, one = 0, np.uint64(head), np.uint64(1)
    for i in range(np.uint64(upto - head)):
        rank += score[low + np.uint64(i)] > s
    while head + rank < upto and score[head + rank] == s and mark[head + rank] > m:
        rank += 1
    for i in range(low, low + np.uint64(rank)):
        score[np.uint64(i) - one] = score[np.uint64(i)]
    for i in range(low, low + np.uint64(rank)):
        time[np.uint64(i) - one] = time[np.uint64(i)]
    for i in range(low, low + np.uint64(rank)):
        mark[np.uint64(i) - one] = mark[np.uint64(i)]
    i = head + rank - 1
    score[i], time[i], mark[i] = s, t, m
    return rank


@inline
def complete(score, head, low, bar):
    """How many from `head` on score `bar` or more, given that the first `low` do."""
    while head + low < len(score) and score[head + low] >= bar:
        low += 1
    return low
