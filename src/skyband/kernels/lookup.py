"""Sixty-four ids at a time, looked up in tables so small that they stay in registers.

An id has one bit in each table: a byte of its hash and four bits of the next one say where. An id whose bits are not
all set was never noted. Where the processor has an instruction that looks up 64 bytes at once (AVX-512 VBMI), `_vector`
uses it; elsewhere larger tables in memory are the faster way.
A mask has a bit for each of 64 rows, the lowest for the first.
"""

import numpy as np

from skyband.kernels._jit import inlined, vectorized

ROWS = 64
TABLES = 3
BYTES = 512  # of a table
MULTIPLIER = 0xD6E8FEB86659FD93
_TIMES = np.uint64(MULTIPLIER)
LOWEST = 32  # bit of the hash from which on it is used, a byte for each table and one more
_ONE = np.uint64(1)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)  # shifted by n, its six highest bits are another number for each n
_PLACE = np.array(sorted(range(64), key=lambda n: (0x03F79D71B4CB0A89 << n) % (1 << 64) >> 58), np.int64)


@inlined
def _spot(hashed, table):
    """Which byte, and which bit of it, stands for an id in one of the tables."""
    here = (hashed >> np.uint64(LOWEST + 8 * table)) & np.uint64(255)
    more = (hashed >> np.uint64(LOWEST + 8 * (table + 1))) & np.uint64(15)
    at = np.uint64(BYTES * table) + (more >> np.uint64(3)) * np.uint64(256) + here
    return at, np.uint8(1) << np.uint8(more & np.uint64(7))


@inlined
def note(id, tables):
    """Set the bits of an id."""
    hashed = np.uint64(id) * _TIMES
    for t in range(TABLES):
        at, mine = _spot(hashed, t)
        tables[at] |= mine


@vectorized
def noted(ids, row, tables):
    """Which of 64 ids have all their bits set."""
    mask = np.uint64(0)
    for i in range(ROWS):
        hashed = np.uint64(ids[row + np.uint64(i)]) * _TIMES
        every = True
        for t in range(TABLES):
            at, mine = _spot(hashed, t)
            every &= tables[at] & mine != 0
        mask |= np.uint64(every) << np.uint64(i)
    return mask


@vectorized
def reached(column, row, bound):
    """Which of 64 values are not below the bound."""
    mask = np.uint64(0)
    for i in range(ROWS):
        mask |= np.uint64(column[row + np.uint64(i)] >= bound) << np.uint64(i)
    return mask


@vectorized
def equal(column, row, value):
    """Which of 64 values are this one."""
    mask = np.uint64(0)
    for i in range(ROWS):
        mask |= np.uint64(column[row + np.uint64(i)] == value) << np.uint64(i)
    return mask


@vectorized
def lowest(mask):
    """The number of the lowest bit that is set."""
    return _PLACE[((mask & (~mask + _ONE)) * _DE_BRUIJN) >> np.uint64(58)]
