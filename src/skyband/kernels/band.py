"""The band of one group: what fewer than k better rows outlive.

Three columns (score, time, id) hold it, best first. New rows gather behind it, in the order in which they
came, and are merged in when an answer could need them or when they have become many.
"""

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel

FEW = 64
MANY = 1024  # rows from which on a band is pruned roughly, where it has more panes than AGES / 4
AGES = 512  # kinds of ages: eight for each power of two


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
    lowest = 4 if n > FEW else 0  # the upper half of the bits tells nearly all scores apart, unless they are alike
    while True:
        count[:] = 0
        for i in range(n):
            bits = key[i]
            for digit in range(lowest, 8):
                count[digit, (bits >> np.uint64(8 * digit)) & np.uint64(255)] += 1
        for digit in range(lowest, 8):
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
        if lowest == 0 or tidied(key, place, n):
            break
        lowest = 0
    for i in range(n):
        order[i] = place[i]


@kernel
def tidied(key, place, n):
    """Insertion sort of what is nearly in order. Gives up after n moves: False."""
    moves = 0
    for i in range(1, n):
        mine, its = key[i], place[i]
        j = i
        while j > 0 and key[j - 1] > mine:
            key[j], place[j] = key[j - 1], place[j - 1]
            j -= 1
        key[j], place[j] = mine, its
        moves += i - j
        if moves > n:
            return False
    return True


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


@inline
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
    newest = start
    for i in range(n):
        newest = max(newest, new_time[i])
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


@kernel
def roughly_merged(band, head, size, fresh, n, order, spare, start, k, count):
    """Merge like `merged`, but keep some percent more than the minimal set: at half its price.

    Where the rows are afterwards is returned.

    How many better rows outlive a row is counted by kinds of ages, an eighth of a power of two each: of those of
    its own kind none counts. That seldom moves the bar, and no branch is left that a processor could mispredict.
    """
    score, time, id = band
    new_score, new_time, new_id = fresh
    to_score, to_time, to_id = spare
    ranked(new_score, n, order)
    for j in range(n):  # behind the old rows, best first
        p, at = order[j], size + 1 + j
        score[at], time[at], id[at] = new_score[p], new_time[p], new_id[p]
    # a row behind either end, so that the walk need not look where it is
    score[size], time[size], score[size + 1 + n] = -np.inf, start, np.nan
    newest = start
    for i in range(head, size + 1 + n):
        newest = max(newest, time[i])
    count[: AGES + 1] = 0
    kind = count[AGES + 1 :]
    age = kind.view(np.float64)
    for i in range(head, size + 1 + n):
        age[i - head] = newest - time[i] + 1
    for i in range(head, size + 1 + n):  # by the exponent and the first three bits; the latest has the last number
        kind[i - head] = AGES - 1 + (1023 << 3) - (kind[i - head] >> 49)
    i, j, out = head, size + 1, 0
    bar = 0  # what is of a kind before it is out
    lasting = 0  # rows so far of the kinds after it
    for _ in range(size - head + n):
        new = score[j] >= score[i]  # new rows are later: they win ties
        at = j if new else i
        j += new
        i += not new
        to_score[out], to_time[out], to_id[out] = score[at], time[at], id[at]
        its = kind[at - head]
        stays = (its >= bar) & (time[at] >= start)
        count[its] += stays
        lasting += stays & (its > bar)
        out += stays
        while lasting >= k:
            bar += 1
            lasting -= count[bar]
    gap = min(FEW, len(score) - out)  # room before them: what an answer inserts moves only what is better
    copied(spare, 0, out, band, gap)
    return gap, gap + out


@inplace
def put_in_front(score, time, id, head, new_score, new_time, new_id, n, bar, few, order):
    """Merge those `few` of n new rows that reach the bar into the band, which begins `few` places behind `head`.

    Of the band only the rows that are better than the last of them move. O(n + few^2 + moves).
    """
    size = 0
    for i in range(n):  # insertion sort; of equals the later one first
        if new_score[i] >= bar:
            j = size
            while j > 0 and new_score[order[j - 1]] <= new_score[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
            size += 1
    at, row = np.uint64(head), np.uint64(head + few)
    for j in range(few):
        new = np.uint64(order[j])
        while score[row] > new_score[new]:  # ends: the last one is no worse than the bar, which a row of the band has
            score[at], time[at], id[at] = score[row], time[row], id[row]
            at += np.uint64(1)
            row += np.uint64(1)
        score[at], time[at], id[at] = new_score[new], new_time[new], new_id[new]
        at += np.uint64(1)


@inplace
def appended(score, time, id, size, new_score, new_time, new_id, low, n):
    """Copy n new rows from `low` on behind `size` others."""
    at, row = np.uint64(size), np.uint64(low)
    for i in range(n):
        score[at + np.uint64(i)] = new_score[row + np.uint64(i)]
    for i in range(n):
        time[at + np.uint64(i)] = new_time[row + np.uint64(i)]
    for i in range(n):
        id[at + np.uint64(i)] = new_id[row + np.uint64(i)]


@inplace
def shifted(score, time, id, head, size):
    """Move the rows from `head` on to the front; there is room for all of them before it."""
    appended(score, time, id, 0, score, time, id, head, size - head)


@inline
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


@inline
def crowded(score, head, size, n, order, to_score, count):
    """Whether `merged`, or `roughly_merged`, lacks room."""
    total = size - head + n
    return size + n + 2 > len(score) or total > len(to_score) or n > len(order) or 4 * total + FEW > len(count)


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
    for i in range(size):
        to_time[at + i] = time[low + i]
    for i in range(size):
        to_id[at + i] = id[low + i]
