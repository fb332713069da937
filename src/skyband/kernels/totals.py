"""Totals of keys, pane by pane: folding rows into partial totals, and partial totals into those of windows.

A total is a row of whole numbers and a row of doubles. Whole numbers are added. Two doubles are a sum and what
rounding took from it; a single double is a maximum. Nothing is ever subtracted, so that doubles do not drift.
"""

import numpy as np

from skyband.kernels._jit import inline, kernel

COUNT, WHOLE, DECIMAL, REAL, EXTREME = range(5)  # what a total is made of
_LIMB = 1 << 32  # whole numbers are kept in limbs of 32 bits, whose sums cannot overflow


@inline
def _merge(ints, floats, at, more_ints, more_floats, other):
    """Add row `other` of the second total to row `at` of the first."""
    for j in range(ints.shape[1]):
        ints[at, j] += more_ints[other, j]
    if floats.shape[1] == 1:
        floats[at, 0] = max(floats[at, 0], more_floats[other, 0])
    elif floats.shape[1] == 2:
        a, b = floats[at, 0], more_floats[other, 0]
        s = a + b
        if np.isfinite(s):
            c = s - a
            low = floats[at, 1] + more_floats[other, 1] + ((a - (s - c)) + (b - c))
            high = s + low
            floats[at, 0], floats[at, 1] = high, low - (high - s)
        else:
            floats[at, 0], floats[at, 1] = s, 0.0


@kernel
def fold(code, codes, ints, floats):
    """One total for each code, its rows taken in their order. Which codes have rows, and their totals. O(rows)."""
    seen = np.zeros(codes, np.bool_)
    to_ints = np.zeros((codes, ints.shape[1]), np.int64)
    to_floats = np.zeros((codes, floats.shape[1]))
    if floats.shape[1] == 1:
        to_floats[:] = -np.inf
    for i in range(len(code)):
        c = code[i]
        seen[c] = True
        _merge(to_ints, to_floats, c, ints, floats, i)
    return seen, to_ints, to_floats


@kernel
def paired(group, key, slots, cells):
    """The number of each pair of group and key, from `cells[0]` on for new ones. `slots` is a hash table of numbers.

    `slots[0]` holds the pairs as one number each, `slots[1]` their numbers, -1 where free. Returns the numbers of
    the rows and the places of new pairs. The table must have room. O(rows).
    """
    mask = slots.shape[1] - 1
    out = np.empty(len(key), np.int32)
    fresh = np.empty(len(key), np.int64)
    count = 0
    for i in range(len(key)):
        pair = (np.int64(group[i]) << 32) | np.int64(key[i])
        at = _spread(pair) & mask
        while slots[1, at] >= 0 and slots[0, at] != pair:
            at = (at + 1) & mask
        if slots[1, at] < 0:
            slots[0, at], slots[1, at] = pair, cells[0]
            cells[0] += 1
            fresh[count] = i
            count += 1
        out[i] = slots[1, at]
    return out, fresh[:count]


@inline
def _spread(x):
    """A hash of a number, whose low bits are as good as its high ones."""
    h = np.uint64(x) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64(h >> np.uint64(20))


@inline
def _score(ints, floats, at, kind, unit):
    """A total as a double. `unit` is how many of a decimal's last digit make one; below zero asks for the mean."""
    mean = unit < 0
    unit = abs(unit)
    wide = ints.shape[1] - mean
    value = 0.0
    if kind == COUNT:
        value = float(ints[at, 0])
    elif kind == REAL:
        value = floats[at, 0] + floats[at, 1]
    elif kind == EXTREME:
        value = floats[at, 0]
    else:
        carry, low, fits = np.int64(0), np.int64(0), True
        for j in range(wide):  # limbs, least first; the last has the sign
            limb = ints[at, j] + carry
            carry = limb >> 32
            if j == 0:
                low = limb & (_LIMB - 1)
            elif j == 1:
                low = low | ((limb & (_LIMB - 1)) << 32)  # the lower 64 bits, taken with their sign
                fits = wide > 2 or limb >> 31 == low >> 63
            elif j < wide - 1:
                fits = fits and limb & (_LIMB - 1) == (low >> 63) & (_LIMB - 1)
            else:
                fits = fits and limb == low >> 63
        if fits:
            value = float(low)
        else:  # beyond 64 bits: from the largest limb down, keeping what rounding takes
            high, lost, weight = 0.0, 0.0, 1.0
            carry = np.int64(0)
            for j in range(wide):
                limb = ints[at, j] + carry
                carry = limb >> 32
                digit = float(limb if j == wide - 1 else limb & (_LIMB - 1)) * weight
                s = high + digit
                c = s - high
                lost += (high - (s - c)) + (digit - c)
                high = s
                weight *= 4294967296.0
            value = high + lost
        value = value / unit if kind == DECIMAL else value
    if mean:
        value /= float(ints[at, ints.shape[1] - 1])
    return value


@inline
def _before(score, tie, missing, other_score, other_tie, other_missing):
    """Whether the first ranks before the second. Of equal scores, a missing key comes after all others."""
    return score > other_score or (
        score == other_score and (missing < other_missing or (missing == other_missing and tie > other_tie))
    )


@inline
def _outranks(c, other, score, tie, missing):
    """Whether one cell ranks before another."""
    return _before(score[c], tie[c], missing[c], score[other], tie[other], missing[other])


@kernel
def best(cells, score, tie, missing, most):
    """The `most` best of `cells`, best first. A heap with the worst on top: O(1) for nearly every cell."""
    size = 0
    heap = np.empty(min(most, len(cells)), np.int32)
    for c in cells:
        if size < len(heap):
            at = size
            size += 1
            while at > 0:  # up
                up = (at - 1) >> 1
                if not _outranks(heap[up], c, score, tie, missing):
                    break
                heap[at] = heap[up]
                at = up
            heap[at] = c
        elif _outranks(c, heap[0], score, tie, missing):
            _down(heap, size, c, score, tie, missing)
    for last in range(size - 1, 0, -1):  # the worst goes to the end, again and again
        c = heap[last]
        heap[last] = heap[0]
        _down(heap, last, c, score, tie, missing)
    return heap


@inline
def _down(heap, size, c, score, tie, missing):
    """Put `c` in place of the top of the heap's first `size`."""
    at = 0
    while True:
        down = 2 * at + 1
        if down >= size:
            break
        if down + 1 < size and _outranks(heap[down], heap[down + 1], score, tie, missing):
            down += 1
        if not _outranks(c, heap[down], score, tie, missing):
            break
        heap[at] = heap[down]
        at = down
    heap[at] = c
