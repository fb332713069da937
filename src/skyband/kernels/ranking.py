"""The order of rows: by score, then by id; the larger ranks first. Sorts, heaps and shifts that follow it."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel

FEW = 64
"""Rows up to which insertion is the fastest sort."""
_WIDE = 4096  # rows from which on digits of 11 bits pay for their larger histogram


@inline
def outranks(score, id, other_score, other_id):
    """Return whether the first row ranks before the second."""
    return score > other_score or (score == other_score and id > other_id)


@inline
def place_of(score, id, scores, ids, low, high):
    """Return the first index of ranked columns, from `low` on, that does not outrank (score, id). O(log n)."""
    while low < high:
        middle = (low + high) >> 1
        if outranks(scores[middle], ids[middle], score, id):
            low = middle + 1
        else:
            high = middle
    return low


@inline
def place_in(score, id, scores, ids, order, low, high):
    """Return the same where `order` lists the rows, best first. O(log n)."""
    while low < high:
        middle = (low + high) >> 1
        if outranks(scores[order[middle]], ids[order[middle]], score, id):
            low = middle + 1
        else:
            high = middle
    return low


@inline
def push_largest(heap, size, k, value):
    """Put a value into a heap of the k largest, the smallest on top. Return its new size. O(log k)."""
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


# Unsigned indexes: with signed ones, which may count from the end, LLVM moves one value at a time.


@inplace
def shift_right(order, low, high):
    """Move order[low:high] one place to the right."""
    one = np.uint64(1)
    for place in range(np.uint64(high), np.uint64(low), -1):
        order[np.uint64(place)] = order[np.uint64(place) - one]


@inplace
def shift_left(order, low, high):
    """Move order[low + 1 : high + 1] one place to the left."""
    one = np.uint64(1)
    for place in range(np.uint64(low), np.uint64(high)):
        order[np.uint64(place)] = order[np.uint64(place) + one]


class SortScratch(NamedTuple):
    """Memory for `sort_by_score`."""

    key: np.ndarray  # uint64
    other_key: np.ndarray
    row: np.ndarray  # uint32
    other_row: np.ndarray
    histogram: np.ndarray  # int64


@kernel
def sort_scratch(rows):
    """Allocate memory to sort so many rows."""
    return SortScratch(
        np.empty(rows, np.uint64),
        np.empty(rows, np.uint64),
        np.empty(rows, np.uint32),
        np.empty(rows, np.uint32),
        np.empty(1 << 11, np.int64),
    )


@inplace
def sort_by_score(score, low, n, order, scratch):
    """Fill `order` with the offsets of the n scores from `low` on, best first; of equal scores the later one first.

    Insertion for few rows. Else radix sort by the upper half of the bits, which tells nearly all scores apart, then
    insertion; where that moves too much, radix sort by all bits. O(n).
    """
    if n <= FEW:
        for i in range(n):
            j = i
            while j > 0 and score[low + order[j - 1]] <= score[low + i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
        return
    key, other_key, row, other_row, histogram = scratch
    _fill_keys(score, low, n, key, row)
    bits = 11 if n >= _WIDE else 8
    lowest = 31 if bits == 11 else 32  # the upper half
    while True:
        for shift in range(lowest, 64, bits):
            if _scatter(key, row, other_key, other_row, n, shift, bits, histogram):
                key, other_key, row, other_row = other_key, key, other_row, row
        if lowest == 0 or _insert(key, row, n):
            break
        lowest = 0
    for i in range(n):
        order[i] = row[i]


@inplace
def _fill_keys(score, low, n, key, row):
    """Make keys that fall as scores rise, from the last row back: a stable sort puts the later of equals first."""
    flipped, sign = key.view(np.float64), np.uint64(1 << 63)
    for i in range(n):
        flipped[i] = 0.0 - score[low + n - 1 - i]  # also makes one zero of the two
        row[i] = n - 1 - i
    for i in range(n):
        key[i] = ~key[i] if key[i] & sign else key[i] | sign


@inplace
def _scatter(key, row, to_key, to_row, n, shift, bits, histogram):
    """Sort stably by the digit at `shift`. Return False, and move nothing, if all rows have the same one."""
    places, mask = np.uint64(shift), np.uint64((1 << bits) - 1)
    for digit in range(1 << bits):
        histogram[digit] = 0
    for i in range(n):
        histogram[(key[i] >> places) & mask] += 1
    if histogram[(key[0] >> places) & mask] == n:
        return False
    total = 0
    for digit in range(1 << bits):
        total, histogram[digit] = total + histogram[digit], total
    for i in range(n):
        digit = (key[i] >> places) & mask
        at = np.uint64(histogram[digit])
        histogram[digit] += 1
        to_key[at], to_row[at] = key[i], row[i]
    return True


@inplace
def _insert(key, row, n):
    """Sort by insertion what is nearly sorted. Return False after 4 n moves."""
    moves = 0
    for i in range(1, n):
        mine, its_row, j = key[i], row[i], i
        if key[i - 1] <= mine:
            continue
        while j > 0 and key[j - 1] > mine:
            key[j], row[j] = key[j - 1], row[j - 1]
            j -= 1
        key[j], row[j] = mine, its_row
        moves += i - j
        if moves > 4 * n:
            return False
    return True
