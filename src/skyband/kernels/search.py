"""Searches in columns: for a time, for a score that reaches a bound, for the end of a sorted run."""

import numpy as np

from skyband.kernels._jit import inline

_BLOCK, _NEAR = 128, 8  # rows compared at once, without a branch; rows compared one by one before that


@inline
def lower_bound(values, bound, low, high):
    """Return the first index in [low, high) whose value is at least `bound`; values rise. O(log distance)."""
    if low < high:
        guess = low + bound - values[low]  # row numbers have no gaps
        if low < guess < high and values[guess - 1] < bound <= values[guess]:
            return guess
    step = 1
    while low + step <= high and values[low + step - 1] < bound:
        low += step
        step += step
    end = min(low + step, high)
    while low < end:
        middle = (low + end) >> 1
        if values[middle] < bound:
            low = middle + 1
        else:
            end = middle
    return low


@inline
def first_below(values, bound, low, high):
    """Return the first index in [low, high) whose value is below `bound`; values fall. O(log n)."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] >= bound:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def first_not_above(values, bound, low, high):
    """Return the first index in [low, high) whose value is at most `bound`; values fall. O(log n)."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] > bound:
            low = middle + 1
        else:
            high = middle
    return low


# Indexes in blocks are unsigned: signed ones may count from the end, and are compared one by one.


@inline
def _reaches(values, low, rows, bound):
    count, first = 0, np.uint64(low)
    for i in range(rows):
        count += values[first + np.uint64(i)] >= bound
    return count > 0


@inline
def _exceeds(values, low, rows, bound):
    count, first = 0, np.uint64(low)
    for i in range(rows):
        count += values[first + np.uint64(i)] > bound
    return count > 0


@inline
def next_reaching(score, bound, at, stop):
    """Return the first index from `at` on that scores at least `bound`, or `stop`. O(rows), mostly branch-free."""
    near = min(at + _NEAR, stop)
    while at < near and not score[at] >= bound:
        at += 1
    if at == near:
        while at + _BLOCK <= stop and not _reaches(score, at, _BLOCK, bound):
            at += _BLOCK
        while at + _NEAR <= stop and not _reaches(score, at, _NEAR, bound):
            at += _NEAR
        while at < stop and not score[at] >= bound:
            at += 1
    return at


@inline
def last_exceeding(score, bound, at, stop):
    """Return one more than the last index before `at` that scores above `bound`, or `stop` if there is none."""
    near = max(at - _NEAR, stop)
    while at > near and not score[at - 1] > bound:
        at -= 1
    if at == near:
        while at - _BLOCK >= stop and not _exceeds(score, at - _BLOCK, _BLOCK, bound):
            at -= _BLOCK
        while at - _NEAR >= stop and not _exceeds(score, at - _NEAR, _NEAR, bound):
            at -= _NEAR
        while at > stop and not score[at - 1] > bound:
            at -= 1
    return at


@inline
def end_of_rise(values, low, high):
    """Return the first index after `low` whose value is below the one before it, or `high`. O(distance)."""
    at, one = low + 1, np.uint64(1)
    while at + _NEAR <= high:
        breaks, here = 0, np.uint64(at)
        for i in range(_NEAR):
            breaks += not values[here + np.uint64(i)] >= values[here + np.uint64(i) - one]
        if breaks > 0:
            break
        at += _NEAR
    while at < high and values[at] >= values[at - 1]:
        at += 1
    return at


@inline
def is_falling(values, low, high):
    """Return whether each value of [low, high) is below the one before it. O(distance to the first that is not)."""
    at, one = low + 1, np.uint64(1)
    while at + _NEAR <= high:
        breaks, here = 0, np.uint64(at)
        for i in range(_NEAR):
            breaks += not values[here + np.uint64(i)] < values[here + np.uint64(i) - one]
        if breaks > 0:
            break
        at += _NEAR
    while at < high and values[at] < values[at - 1]:
        at += 1
    return at >= high
