"""What entered and what left between two ranked lists of the same group."""

import numpy as np

from skyband.kernels._jit import kernel

DELETE, BEFORE, AFTER, INSERT = range(4)  # in the order in which they go out


@kernel
def changed(ids, scores, first, group, last, ranks):
    """Compare each list with its group's list before it.

    `ids` and `scores` hold the rows of the lists, list `a` from `first[a]` to `first[a + 1]`; `last[:, g]` is
    where the previous list of group g begins and ends, and is brought up to date. Both lists are ranked by the
    same order, so one walk down both finds what is in one only. Returns for each change its list, its kind, and
    the place of its row in `ids` and its rank. O(rows).
    """
    lists = len(group)
    room = 16
    out = np.empty((4, room), np.int64)
    size = 0
    for a in range(lists):
        g = group[a]
        low, high = last[0, g], last[1, g]
        need = size + 2 * (first[a + 1] - first[a] + high - low)
        if need > room:
            room = max(need, 2 * room)
            longer = np.empty((4, room), np.int64)
            longer[:, :size] = out[:, :size]
            out = longer
        for kind in (DELETE, BEFORE, INSERT):  # one pass for each kind keeps them in order
            if kind == BEFORE and not ranks:
                continue
            i, j = low, first[a]
            while i < high or j < first[a + 1]:
                if i < high and j < first[a + 1] and ids[i] == ids[j]:
                    if kind == BEFORE and i - low != j - first[a]:
                        out[0, size], out[1, size], out[2, size], out[3, size] = a, BEFORE, i, i - low + 1
                        size += 1
                        out[0, size], out[1, size], out[2, size], out[3, size] = a, AFTER, j, j - first[a] + 1
                        size += 1
                    i += 1
                    j += 1
                elif j == first[a + 1] or (
                    i < high and (scores[i] > scores[j] or (scores[i] == scores[j] and ids[i] > ids[j]))
                ):
                    if kind == DELETE:
                        out[0, size], out[1, size], out[2, size], out[3, size] = a, DELETE, i, i - low + 1
                        size += 1
                    i += 1
                else:
                    if kind == INSERT:
                        out[0, size], out[1, size], out[2, size], out[3, size] = (
                            a,
                            INSERT,
                            j,
                            j - first[a] + 1,
                        )
                        size += 1
                    j += 1
        last[0, g], last[1, g] = first[a], first[a + 1]
    return out[:, :size]
