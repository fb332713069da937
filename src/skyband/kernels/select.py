"""The k best of a run of rows, in one pass that looks closely at few of them."""

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel
from skyband.kernels.front import passed, passed_back

_RARE = 64  # rows for each of the k, after which so few get in that many are compared at once


@kernel
def best_of(score, low, high, k, kept, place):
    """Put the k best of `score[low:high]` into `kept`, their places into `place`; return how many.

    `kept` and `place` hold at least 2 k. The walk goes from the end where scores look better, so that most
    rows meet a high bar. What comes out is in the order of the walk; of equals the later one wins, whichever way
    it went. O(high - low) comparisons, most of them branch-free, and O(k log(rows / k)) moves in random order.
    """
    room = 2 * k
    size = min(room, high - low)
    if falls(score, low, high):
        for i in range(size):
            kept[i], place[i] = score[low + i], low + i
        at, bar = low + size, -np.inf
        if size > k:
            size, bar = cut(kept, place, size, k, True)
        while at < high:
            at = passed(score, bar, at, high)
            if at < high:
                kept[size], place[size] = score[at], at
                size += 1
                at += 1
                if size == room:
                    size, bar = cut(kept, place, size, k, True)
        return cut(kept, place, size, k, True)[0] if size > k else size
    for i in range(size):
        kept[i], place[i] = score[high - 1 - i], high - 1 - i
    at, bar = high - size, -np.inf
    if size > k:
        size, bar = cut(kept, place, size, k, False)
    while at > low:
        at = passed_back(score, bar, at, low)
        if at > low:
            at -= 1
            kept[size], place[size] = score[at], at
            size += 1
            if size == room:
                size, bar = cut(kept, place, size, k, False)
    return cut(kept, place, size, k, False)[0] if size > k else size


@inplace
def best_few(score, low, high, k, kept, place):
    """Like `best_of` for a small k, where scores do not rise: best first, of equals the later one.

    O(k) for each that enters, of which there are few but where scores rise.
    """
    size, bar, rare = 0, -np.inf, min(low + _RARE * k, high)
    for i in range(low, rare):
        if score[i] >= bar:  # never so for NaN
            size = put(kept, place, size, k, score[i], i)
            if size == k:
                bar = kept[k - 1]
    i = rare
    while i < high:
        i = passed(score, bar, i, high)
        if i < high:
            size = put(kept, place, size, k, score[i], i)
            if size == k:
                bar = kept[k - 1]
            i += 1
    return size


@inline
def put(kept, place, size, k, score, row):
    """Put a row among the best, before those that are not better; how many there are then."""
    size = min(size + 1, k)
    j = size - 1
    while j > 0 and kept[j - 1] <= score:
        kept[j], place[j] = kept[j - 1], place[j - 1]
        j -= 1
    kept[j], place[j] = score, row
    return size


@inplace
def falls(score, low, high):
    """Whether the first rows look better than the last: by sixteen of each."""
    ahead = 0
    for i in range(min(16, (high - low) // 2)):
        ahead += score[low + i] > score[high - 1 - i]
    return ahead > 12


@inplace
def rises(score, low, high):
    """Whether the last rows look better than the first: by sixteen of each."""
    ahead = 0
    for i in range(min(16, (high - low) // 2)):
        ahead += score[low + i] < score[high - 1 - i]
    return ahead > 12


@kernel
def cut(kept, place, size, k, last):
    """Keep the k best of the first `size`, in their order, of equals the last or the first ones; and the k-th score."""
    bar = kth_largest(kept, size, k)
    passed = 0  # equals to pass over before some are kept, if the last ones are
    equals = k
    for i in range(size):
        equals -= kept[i] > bar
        passed += kept[i] == bar
    passed = passed - equals if last else 0
    new = 0
    for i in range(size):
        s = kept[i]
        kept[new] = s
        place[new] = place[i]
        new += s > bar or (s == bar and passed <= 0 and equals > 0)
        equals -= s == bar and passed <= 0
        passed -= s == bar
    return new, bar


@kernel
def kth_largest(values, size, k):
    """The k-th largest of the first `size` values. Expected O(size), with no branch to mispredict."""
    above = values[:size].copy()
    below = np.empty(size, np.float64)
    want = k
    while True:
        a, b, c = above[0], above[size // 2], above[size - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        more = less = 0
        for i in range(size):
            v = above[i]
            above[more] = v
            more += v > pivot
            below[less] = v
            less += v < pivot
        if want <= more:
            size = more
        elif want <= size - less:
            return pivot
        else:
            want -= size - less
            above, below = below, above
            size = less


@inline
def before(values, bound, low, high):
    """How far `values[low:high]`, which rise, stay below `bound`: gallop, then halve. O(log distance)."""
    if low < high:
        guess = low + bound - values[low]  # row numbers have no gaps
        if low < guess < high and values[guess - 1] < bound <= values[guess]:
            return guess
    step = 1
    at = low
    while at + step <= high and values[at + step - 1] < bound:
        at += step
        step += step
    end = min(at + step, high)
    while at < end:
        mid = (at + end) >> 1
        if values[mid] < bound:
            at = mid + 1
        else:
            end = mid
    return at
