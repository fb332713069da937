"""Rows that pass a test, moved together: eight at a time, without a branch.

`_vector` has the same in a few instructions, where the processor has them (AVX-512). A mask has a bit for each of eight
rows, the lowest for the first.
"""

import numpy as np

from skyband.kernels._jit import vectorized

LANES = 8
LINE = 64  # bytes of memory that come and go together: eight values


@vectorized
def reach(column, row, bound):
    """Which of eight values are not below the bound."""
    mask = np.uint64(0)
    for i in range(LANES):
        mask |= np.uint64(column[row + np.uint64(i)] >= bound) << np.uint64(i)
    return mask


@vectorized
def exceed(column, row, bound):
    """Which of eight values are above the bound."""
    mask = np.uint64(0)
    for i in range(LANES):
        mask |= np.uint64(column[row + np.uint64(i)] > bound) << np.uint64(i)
    return mask


@vectorized
def within(column, row, bound):
    """Which of eight values are not above the bound."""
    mask = np.uint64(0)
    for i in range(LANES):
        mask |= np.uint64(column[row + np.uint64(i)] <= bound) << np.uint64(i)
    return mask


@vectorized
def differ(column, row, bound):
    """Which of eight values are not the bound."""
    mask = np.uint64(0)
    for i in range(LANES):
        mask |= np.uint64(column[row + np.uint64(i)] != bound) << np.uint64(i)
    return mask


@vectorized
def pack(mask, column, row, to, at):
    """Copy those of eight values that the mask names; up to eight places are written over."""
    out = np.uint64(at)
    for i in range(LANES):
        value = column[row + np.uint64(i)]
        to[out] = value
        out += (mask >> np.uint64(i)) & np.uint64(1)


@vectorized
def stream(column, row, to, at):
    """Copy eight values."""
    for i in range(LANES):
        to[at + np.uint64(i)] = column[row + np.uint64(i)]


@vectorized
def bits(mask):
    """How many rows a mask names."""
    count = np.uint64(0)
    for i in range(LANES):
        count += (mask >> np.uint64(i)) & np.uint64(1)
    return count
