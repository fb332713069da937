"""Eight rows at a time: compare them with a bound, and copy those that pass, without a branch.

A mask has a bit for each of eight rows, the lowest for the first. `_vector` has versions of a few instructions each for
processors with AVX-512; these plain loops give the same results.
"""

import numpy as np

from skyband.kernels import LANES as LANES  # noqa: PLC0414 - kernels import it from here
from skyband.kernels._jit import simd


@simd
def mask_ge(column, row, bound):
    """Return the mask of values that are at least `bound`."""
    mask = np.uint64(0)
    for i in range(LANES):
        mask |= np.uint64(column[row + np.uint64(i)] >= bound) << np.uint64(i)
    return mask


@simd
def mask_gt(column, row, bound):
    """Return the mask of values above `bound`."""
    mask = np.uint64(0)
    for i in range(LANES):
        mask |= np.uint64(column[row + np.uint64(i)] > bound) << np.uint64(i)
    return mask


@simd
def mask_le(column, row, bound):
    """Return the mask of values that are at most `bound`."""
    mask = np.uint64(0)
    for i in range(LANES):
        mask |= np.uint64(column[row + np.uint64(i)] <= bound) << np.uint64(i)
    return mask


@simd
def compress(mask, column, row, to, at):
    """Copy the values of a mask to `at` and after it, in order. Up to eight values there are overwritten."""
    out = np.uint64(at)
    for i in range(LANES):
        value = column[row + np.uint64(i)]
        to[out] = value
        out += (mask >> np.uint64(i)) & np.uint64(1)


@simd
def popcount(mask):
    """Count the rows of a mask."""
    count = np.uint64(0)
    for i in range(LANES):
        count += (mask >> np.uint64(i)) & np.uint64(1)
    return count
