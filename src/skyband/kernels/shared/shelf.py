"""Answers: a walk down the ranked rows, past those that are too old."""

import numpy as np

from skyband.kernels._jit import bare
from skyband.kernels.band import FEW
from skyband.kernels.shared.room import SHELVES, STRIDE

_SHORT = 256  # ranked rows of which one shelf will do


@bare
def shelved(score, id, pane, size, to_score, to_id, to_pane, oldest, first, sample):
    """Put the ranked rows on shelves, each with about 7 of 10 of the one before, the youngest. O(size)."""
    oldest[0], first[0], first[1] = 0, 0, size
    for i in range(size):
        to_score[i], to_id[i], to_pane[i] = score[i], id[i], pane[i]
    for shelf in range(1, SHELVES):
        oldest[shelf], first[shelf + 1] = 1 << 62, size
    if size < _SHORT:
        return
    some = FEW
    for i in range(some):
        value, j = np.int64(pane[i * size // some]), i
        while j > 0 and sample[j - 1] > value:
            sample[j] = sample[j - 1]
            j -= 1
        sample[j] = value
    part = some
    for shelf in range(1, SHELVES):
        part = part * 7 // 10
        low, high = first[shelf - 1], first[shelf]
        if 2 * high - low > len(to_id):
            return
        bound, out = sample[some - part], np.uint64(high)
        for i in range(low, high):
            row = np.uint64(i)
            to_score[out], to_id[out], to_pane[out] = to_score[row], to_id[row], to_pane[row]
            out += np.uint64(to_pane[row] >= bound)
        oldest[shelf], first[shelf + 1] = bound, np.int64(out)
        for after in range(shelf + 1, SHELVES):
            first[after + 1] = np.int64(out)


@bare
def walked(score, id, pane, low, high, view, k, got, to_score, to_id, at):
    """Add the rows from `low` to `high` of this view or a later one to a list of `got`, up to k; how many it has then.

    Without a branch that depends on a row: up to STRIDE rows behind the list are written over.
    """
    row, stop, want = np.uint64(low), np.uint64(high), np.uint64(k)
    out, begin = np.uint64(got), np.uint64(at)
    while row + np.uint64(STRIDE) <= stop and out < want:
        for _ in range(STRIDE):
            to_score[begin + out] = score[row]
            to_id[begin + out] = id[row]
            out += np.uint64(pane[row] >= view)
            row += np.uint64(1)
    while row < stop and out < want:
        to_score[begin + out] = score[row]
        to_id[begin + out] = id[row]
        out += np.uint64(pane[row] >= view)
        row += np.uint64(1)
    return min(np.int64(out), k)
