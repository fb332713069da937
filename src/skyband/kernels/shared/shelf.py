"""Answers: a walk down the ranked rows, past those that are too old."""

import numpy as np

from skyband.kernels._jit import inplace
from skyband.kernels.shared.room import SHELVES, STRIDE
from skyband.kernels.simd import LANES, compress, mask_ge, mask_gt, popcount

_SHORT = 256  # ranked rows of which one shelf will do


@inplace
def shelved(score, id, time, size, to_score, to_id, to_time, oldest, first, now, shortest, longest):
    """Put the ranked rows on shelves, each with rows of a shorter time than the one before. O(size).

    The times go down from the longest window to the shortest in equal steps, by their ratio: a window that
    ends after `now` then walks past few rows before its start.
    """
    oldest[0], first[0], first[1] = -(1 << 62), 0, size
    for i in range(size):
        to_score[i], to_id[i], to_time[i] = score[i], id[i], time[i]
    for shelf in range(1, SHELVES):
        oldest[shelf], first[shelf + 1] = 1 << 62, size
    if size < _SHORT or shortest >= longest:
        return
    step = (shortest / longest) ** (1.0 / SHELVES)
    span = np.float64(longest)
    for shelf in range(1, SHELVES):
        low, high = first[shelf - 1], first[shelf]
        if 2 * high - low + LANES > len(to_id):
            return
        span *= step
        bound = np.int64(now - np.int64(span))
        out = picked(to_score, to_id, to_time, low, high, bound, high)
        oldest[shelf], first[shelf + 1] = bound, out
        for after in range(shelf + 1, SHELVES):
            first[after + 1] = out


@inplace
def picked(score, id, time, low, high, bound, at):
    """Copy the rows from `low` to `high` that are not before `bound` to `at`, behind them; where they end."""
    row, stop, out = np.uint64(low), np.uint64(high), np.uint64(at)
    while row + np.uint64(LANES) <= stop:
        mask = mask_ge(time, row, bound)
        compress(mask, score, row, score, out)
        compress(mask, id, row, id, out)
        compress(mask, time, row, time, out)
        out += popcount(mask)
        row += np.uint64(LANES)
    while row < stop:
        score[out], id[out], time[out] = score[row], id[row], time[row]
        out += np.uint64(time[out] >= bound)
        row += np.uint64(1)
    return np.int64(out)


@inplace
def walked(score, id, time, low, high, start, k, got, to_score, to_id, at):
    """Add the rows from `low` to `high` that are not before `start` to a list of `got`, up to k; how many it has then.

    Without a branch that depends on a row: up to STRIDE rows behind the list are written over.
    """
    row, stop, want = np.uint64(low), np.uint64(high), np.uint64(k)
    out, begin = np.uint64(got), np.uint64(at)
    while row + np.uint64(STRIDE) <= stop and out < want:
        for _ in range(STRIDE // LANES):
            mask = mask_ge(time, row, start)
            compress(mask, score, row, to_score, begin + out)
            compress(mask, id, row, to_id, begin + out)
            out += popcount(mask)
            row += np.uint64(LANES)
    while row < stop and out < want:
        to_score[begin + out] = score[row]
        to_id[begin + out] = id[row]
        out += np.uint64(time[row] >= start)
        row += np.uint64(1)
    return min(np.int64(out), k)


@inplace
def walked_to(score, id, time, low, high, start, k, got, to_score, to_id, at, bound):
    """As `walked`, but no further than rows above `bound`; also where it came to.

    The rows are ranked: where the last of some is above the bound, all of them are. A guess of that is nearly always
    right, so that the next rows need not wait until these are counted.
    """
    row, stop, want = np.uint64(low), np.uint64(high), np.uint64(k)
    out, begin = np.uint64(got), np.uint64(at)
    while row + np.uint64(STRIDE) <= stop and out < want and score[row + np.uint64(STRIDE - 1)] > bound:
        for _ in range(STRIDE // LANES):
            mask = mask_ge(time, row, start)
            compress(mask, score, row, to_score, begin + out)
            compress(mask, id, row, to_id, begin + out)
            out += popcount(mask)
            row += np.uint64(LANES)
    while row + np.uint64(LANES) <= stop and out < want:
        above = mask_gt(score, row, bound)
        mask = mask_ge(time, row, start) & above
        compress(mask, score, row, to_score, begin + out)
        compress(mask, id, row, to_id, begin + out)
        out += popcount(mask)
        row += popcount(above)
        if above != np.uint64((1 << LANES) - 1):
            return min(np.int64(out), k), np.int64(row)
    while row < stop and out < want and score[row] > bound:
        to_score[begin + out] = score[row]
        to_id[begin + out] = id[row]
        out += np.uint64(time[row] >= start)
        row += np.uint64(1)
    return min(np.int64(out), k), np.int64(row)
