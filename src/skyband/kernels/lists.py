"""Ranked lists of many queries, a row each, best first; objects are known by rising numbers."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline


class Lists(NamedTuple):
    """What each query keeps, a row each, best first."""

    score: np.ndarray  # float64 (queries, room)
    number: np.ndarray  # int64 (queries, room)
    beaten: np.ndarray  # int32 (queries, room): by how many later ones
    size: np.ndarray
    k: np.ndarray
    fill: np.ndarray  # how many a list made anew has
    most: np.ndarray  # beyond this ...
    cut: np.ndarray  # ... it is cut back to this
    whole: np.ndarray  # bool: nobody else is in the window, but for those that k later ones beat


@inline
def ranked(q, at, size, s, n, k, prunes, l_score, l_number, l_beaten):
    """Put (s, n), the newest, at place `at` of a list; its new size. Those below may have k that beat them now."""
    if prunes:
        new = at
        for i in range(at, size):
            if l_beaten[q, i] + 1 < k:
                l_score[q, new], l_number[q, new] = l_score[q, i], l_number[q, i]
                l_beaten[q, new] = l_beaten[q, i] + 1
                new += 1
        size = new
        for i in range(size, at, -1):
            l_beaten[q, i] = l_beaten[q, i - 1]
        l_beaten[q, at] = 0
    for i in range(size, at, -1):
        l_score[q, i], l_number[q, i] = l_score[q, i - 1], l_number[q, i - 1]
    l_score[q, at], l_number[q, at] = s, n
    return size + 1


@inline
def alive(q, size, first, prunes, l_score, l_number, l_beaten):
    """Drop from a list who has left the window; its new size."""
    new = 0
    for i in range(size):
        if l_number[q, i] >= first:
            l_score[q, new], l_number[q, new] = l_score[q, i], l_number[q, i]
            if prunes:
                l_beaten[q, new] = l_beaten[q, i]
            new += 1
    return new


@inline
def copied(q, count, written, mask, l_score, l_number, s_id, out_id, out_score):
    """Write the first of a list on the page."""
    for i in range(count):
        out_id[written + i] = s_id[l_number[q, i] & mask]
        out_score[written + i] = l_score[q, i]


@inline
def ranked_in(s, n, q, size, want, l_score, l_number):
    """Put (s, n) on a list that keeps the `want` best; its new size. O(want)."""
    if size == want:
        if l_score[q, size - 1] > s or (l_score[q, size - 1] == s and l_number[q, size - 1] > n):
            return size
        size -= 1
    i = size
    while i > 0 and (l_score[q, i - 1] < s or (l_score[q, i - 1] == s and l_number[q, i - 1] < n)):
        l_score[q, i], l_number[q, i] = l_score[q, i - 1], l_number[q, i - 1]
        i -= 1
    l_score[q, i], l_number[q, i] = s, n
    return size + 1
