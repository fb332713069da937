"""The band of one group: what fewer than k better rows outlive.

Three columns (score, time, id) hold it, best first. New rows gather behind it, in the order in which they
came, and are merged in when an answer could need them or when they have become many.
"""

import numpy as np

from skyband.kernels._jit import inlined, kernel

FEW = 64


@kernel
def ranked(score, n, order):
    """Fill `order` with the places of the first n scores, best first; of equals the later one.

    Radix sort, a byte at a time: O(n), for more than a few.
    """
    for i in range(n):  # from the last to the first, so that a stable sort puts the later of equals first
        order[i] = n - 1 - i
    key = falling_bits(score, n)
    place, other_key, other = order, np.empty_like(key), np.empty(n, np.int64)
    count = np.zeros((8, 256), np.int64)
    for i in range(n):
        bits = key[i]
        for digit in range(8):
            count[digit, (bits >> np.uint64(8 * digit)) & np.uint64(255)] += 1
    for digit in range(8):
        shift = np.uint64(8 * digit)
        if count[digit, (key[0] >> shift) & np.uint64(255)] == n:
            continue  # all alike
        total = 0
        for value in range(256):
            total, count[digit, value] = total + count[digit, value], total
        for i in range(n):
            value = (key[i] >> shift) & np.uint64(255)
            at = count[digit, value]
            count[digit, value] = at + 1
            other_key[at] = key[i]
            other[at] = place[i]
        key, other_key = other_key, key
        place, other = other, place
    for i in range(n):
        order[i] = place[i]


@kernel
def falling_bits(score, n):
    """Unsigned numbers that fall as the scores rise, from the last score to the first."""
    flipped = np.empty(n, np.float64)
    for i in range(n):
        flipped[i] = 0.0 - score[n - 1 - i]  # also makes one zero of the two
    key = flipped.view(np.uint64)
    sign = np.uint64(1 << 63)
    for i in range(n):
        key[i] = ~key[i] if key[i] & sign else key[i] | sign
    return key


@inlined
def merged(
    score,
    time,
    id,
    head,
    size,
    new_score,
    new_time,
    new_id,
    n,
    order,
    to_score,
    to_time,
    to_id,
    start,
    shape,
    count,
):
    """Merge the first n new rows into rows [head, size): the minimal set, from place 0 on. How many stay.

    One walk from the best row down, by way of the `to` columns. A row stays while fewer than k of those
    before it outlive it; rows before `start` have expired. Which k of them live longest is counted
    per pane where `count` has room for all panes; otherwise `count` is a heap of the k latest.
    """
    k, origin, slide = shape.k, shape.origin, max(shape.slide, 1)
    if n <= FEW:
        for i in range(n):  # insertion sort; of equals the later one first
            j = i
            while j > 0 and new_score[order[j - 1]] <= new_score[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
    else:
        ranked(new_score, n, order)
    newest = new_time[n - 1] if n > 0 else start
    for i in range(head, size):
        newest = max(newest, time[i])
    oldest = (start - origin) // slide
    panes = (newest - origin) // slide - oldest + 1
    counting = panes < len(count)
    if counting:
        for i in range(panes + 1):
            count[i] = 0
    lasting = 0  # rows so far in panes after `bar`, or rows in the heap
    bar = -1  # the k-th latest pane so far: what expires with it or before it is out
    i, j, out = head, 0, 0
    while i < size or j < n:
        if j < n and (i == size or new_score[order[j]] >= score[i]):  # new rows are later: they win ties
            p = order[j]
            s, t, r = new_score[p], new_time[p], new_id[p]
            j += 1
        else:
            s, t, r = score[i], time[i], id[i]
            i += 1
        pane = (t - origin) // slide - oldest
        if pane > bar and t >= start:
            if counting:
                count[pane] += 1
                lasting += 1
                while lasting >= k:
                    bar += 1
                    lasting -= count[bar]
            else:
                lasting = push_latest(count, lasting, k, pane)
                if lasting == k:
                    bar = count[0]
            to_score[out] = s
            to_time[out] = t
            to_id[out] = r
            out += 1
    for i in range(out):
        score[i], time[i], id[i] = to_score[i], to_time[i], to_id[i]
    return out


@inlined
def push_latest(heap, size, k, value):
    """Put `value` into a heap that keeps the k largest, smallest on top; the heap's new size. O(log k)."""
    if size < k:
        at = size
        while at > 0 and heap[(at - 1) >> 1] > value:
            heap[at] = heap[(at - 1) >> 1]
            at = (at - 1) >> 1
        heap[at] = value
        return size + 1
    if value <= heap[0]:
        return size
    at = 0
    while True:
        child = 2 * at + 1
        if child >= k:
            break
        if child + 1 < k and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = value
    return size


@inlined
def crowded(size, fresh, room, order, count):
    """Whether `merged` lacks room for `size` rows in all, `fresh` of them new."""
    return size > room or fresh > len(order) or 4 * size + FEW > len(count)


@kernel
def workroom(size, fresh):
    """An order, and counts or a heap, with room for `merged`."""
    return np.empty(2 * fresh + FEW, np.int64), np.empty(8 * size + FEW, np.int64)


@kernel
def columns(size):
    """Room for `size` rows."""
    return (np.empty(size, np.float64), np.empty(size, np.int64), np.empty(size, np.int64))


@kernel
def roomy(rows, used, more):
    """`rows`, or longer copies that have room for `more` behind the first `used`."""
    if used + more <= len(rows[0]):
        return rows
    longer = columns(max(used + more, 2 * len(rows[0])))
    copied(rows, 0, used, longer, 0)
    return longer


@kernel
def copied(rows, low, size, to, at):
    """Copy `size` rows from `low` on to `at`."""
    score, time, id = rows
    to_score, to_time, to_id = to
    for i in range(size):
        to_score[at + i] = score[low + i]
        to_time[at + i] = time[low + i]
        to_id[at + i] = id[low + i]
