"""Answers: a walk down the ranked rows that skips those before the window."""

import numpy as np

from skyband.kernels._jit import inplace
from skyband.kernels.columns import MIN_TIME
from skyband.kernels.shared.memory import LEVELS, STRIDE
from skyband.kernels.shared.views import UNLIMITED
from skyband.kernels.simd import LANES, compress, mask_ge, mask_gt, popcount

_SHORT = 256  # ranked rows for which one level is enough


@inplace
def fill_levels(band, size, levels, now, shortest, longest):
    """Copy the ranked rows to the levels, each with rows of a shorter time than the one before. O(size).

    The times go down from the longest window to the shortest in equal ratios: a window that ends after `now` then
    skips few rows before its start.
    """
    score, id, time, oldest, first = levels
    oldest[0], first[0], first[1] = MIN_TIME, 0, size
    for i in range(size):
        score[i], id[i], time[i] = band.score[i], band.id[i], band.time[i]
    for level in range(1, LEVELS):
        oldest[level], first[level + 1] = UNLIMITED, size
    if size < _SHORT or shortest >= longest:
        return
    ratio = (shortest / longest) ** (1.0 / LEVELS)
    span = np.float64(longest)
    for level in range(1, LEVELS):
        low, high = first[level - 1], first[level]
        if 2 * high - low + LANES > len(id):
            return
        span *= ratio
        bound = np.int64(now - np.int64(span))
        end = _append_since(levels, low, high, bound)
        oldest[level] = bound
        for after in range(level, LEVELS):
            first[after + 1] = end


@inplace
def _append_since(levels, low, high, bound):
    """Copy the rows from `low` to `high` that are not before `bound` to where they end. Return the new end."""
    score, id, time, _, _ = levels
    row, stop, out = np.uint64(low), np.uint64(high), np.uint64(high)
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
def walk(levels, low, high, start, k, got, answer, at):
    """Append rows from `low` to `high` that are not before `start` to a list of `got`, up to k. Return its length.

    No branch depends on a row: up to STRIDE rows behind the list are overwritten.
    """
    score, id, time, _, _ = levels
    to_score, to_id = answer
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
def walk_above(levels, low, high, start, k, got, answer, at, bound):
    """Walk as long as scores are above `bound`. Also return the row after the last one.

    Where the last of several ranked rows is above the bound, all of them are. That is predicted well, so that the
    next rows need not wait until these are counted.
    """
    score, id, time, _, _ = levels
    to_score, to_id = answer
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
