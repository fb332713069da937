"""Difference of ranked lists: the rows that were deleted, updated and inserted from one list of a group to the next."""

import numpy as np

from skyband.kernels._jit import inline, kernel

DELETE, UPDATE_BEFORE, UPDATE_AFTER, INSERT = range(4)  # in the order of output


@kernel
def diff(ids, scores, first, group, last, ranks):
    """Compare each list with the previous one of its group.

    `ids` and `scores` hold the rows of all lists, list `a` from `first[a]` to `first[a + 1]`. The previous list of
    group g is at `last[0, g]` to `last[1, g]`, which is updated. A row that is in both lists is an update if its score
    changed or, with `ranks`, its rank. Returns for each change its list, its kind, the index of its row and its rank.

    Cost: O(rows of both lists). Rows are looked up in a hash table unless they moved together with their neighbours.
    """
    out, size = np.empty((4, 16), np.int64), 0
    longest = 0
    for a in range(len(group)):
        longest = max(longest, first[a + 1] - first[a])
    old_of, table = np.empty(longest, np.int64), np.empty(4 * longest + 1, np.int64)
    for a in range(len(group)):
        g = group[a]
        old, old_end, new, new_end = last[0, g], last[1, g], first[a], first[a + 1]
        need = size + new_end - new + old_end - old
        if need > out.shape[1]:
            longer = np.empty((4, 2 * need), np.int64)
            longer[:, :size] = out[:, :size]
            out = longer
        old_of[: new_end - new] = -1
        mask, shift = -1, new - old
        for i in range(old, old_end):
            j = i + shift
            if not (new <= j < new_end and ids[j] == ids[i]):
                if mask < 0:
                    mask = _index(ids, new, new_end, table)
                j = _find(ids, i, table, mask)
            if j < 0:
                size = _append(out, size, a, DELETE, i, i - old)
            else:
                old_of[j - new], shift = i, j - i
        for j in range(new, new_end):
            i = old_of[j - new]
            if i >= 0 and (scores[i] != scores[j] or (ranks and i - old != j - new)):
                size = _append(out, size, a, UPDATE_BEFORE, i, i - old)
                size = _append(out, size, a, UPDATE_AFTER, j, j - new)
        for j in range(new, new_end):
            if old_of[j - new] < 0:
                size = _append(out, size, a, INSERT, j, j - new)
        last[0, g], last[1, g] = new, new_end
    return out[:, :size]


@inline
def _append(out, size, which, kind, row, rank):
    out[0, size], out[1, size], out[2, size], out[3, size] = which, kind, row, rank + 1
    return size + 1


@inline
def _slot(id, mask):
    return np.int64((np.uint64(id) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(24)) & mask


@inline
def _index(ids, low, high, table):
    """Put rows [low, high) into a hash table of at least twice their number; its mask."""
    size = 1
    while size < 2 * (high - low):
        size *= 2
    table[:size] = -1
    for j in range(low, high):
        at = _slot(ids[j], size - 1)
        while table[at] >= 0:
            at = (at + 1) & (size - 1)
        table[at] = j
    return size - 1


@inline
def _find(ids, i, table, mask):
    """Index of the row with the id of row i, -1 if it is not in the table."""
    at = _slot(ids[i], mask)
    while table[at] >= 0 and ids[table[at]] != ids[i]:
        at = (at + 1) & mask
    return table[at]
