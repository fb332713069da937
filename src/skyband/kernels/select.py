"""The k best of a run of rows, in one pass that looks closely at few of them."""

import numpy as np

from skyband.kernels._jit import inlined, kernel

BLOCK = 64  # rows compared at once, without a branch


@kernel
def best_of(score, low, high, k, kept, place):
    """Put the k best of `score[low:high]` into `kept`, their places into `place`; return how many.

    `kept` and `place` hold at least 2 k. What comes out is in the rows' order, from the last to the first:
    walking backwards makes "larger than the k-th" right for ties too, since the later of two equals wins.
    O(high - low) comparisons, most of them branch-free, and O(k log(rows / k)) moves in random order.
    """
    room = 2 * k
    size = min(room, high - low)
    at = high - size
    for i in range(size):
        kept[i] = score[high - 1 - i]
        place[i] = high - 1 - i
    if size <= k:
        return size
    size, bar = cut(kept, place, size, k)
    while at > low:
        floor = max(low, at - BLOCK)
        hits = 0
        for i in range(floor, at):
            hits += score[i] > bar
        if hits > 0:
            for i in range(at - 1, floor - 1, -1):
                if score[i] > bar:
                    kept[size] = score[i]
                    place[size] = i
                    size += 1
                    if size == room:
                        size, bar = cut(kept, place, size, k)
        at = floor
    if size > k:
        size, bar = cut(kept, place, size, k)
    return size


@kernel
def cut(kept, place, size, k):
    """Keep the k best of the first `size`, in their order, of equals the first ones; and the k-th score."""
    bar = kth_largest(kept, size, k)
    equals = k
    for i in range(size):
        equals -= kept[i] > bar
    new = 0
    for i in range(size):
        s = kept[i]
        kept[new] = s
        place[new] = place[i]
        new += s > bar or (s == bar and equals > 0)
        equals -= s == bar
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


@inlined
def before(values, bound, low, high):
    """How far `values[low:high]`, which rise, stay below `bound`: gallop, then halve. O(log distance)."""
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
