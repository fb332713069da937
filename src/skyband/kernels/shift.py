"""Moves a run of numbers by one place, many at once."""

import numpy as np

from skyband.kernels._jit import kernel

# Places are unsigned: with signed ones, which may count from the end, LLVM moves one number at a time.


@kernel
def shift_back(order, low, high):
    """Move `order[low:high]` one place back."""
    one = np.uint64(1)
    for place in range(np.uint64(high), np.uint64(low), -1):
        order[np.uint64(place)] = order[np.uint64(place) - one]


@kernel
def shift_forth(order, low, high):
    """Move `order[low + 1 : high + 1]` one place forth."""
    one = np.uint64(1)
    for place in range(np.uint64(low), np.uint64(high)):
        order[np.uint64(place)] = order[np.uint64(place) + one]
