"""The k best rows of each pane and group, of rows in any order."""

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.select import kth_largest


@kernel
def best_rows(score, time, id, code, codes, k):
    """Mark the k best rows of each code: by score, then time, then id. O(n), more only for ties at the k-th.

    Rows that agree with the k-th in all three are marked too: which of them counts is not for one partition to say.
    """
    keep = np.ones(len(score), np.bool_)
    first = np.zeros(codes + 1, np.int64)
    for c in code:
        first[c + 1] += 1
    for c in range(codes):
        first[c + 1] += first[c]
    order = np.empty(len(code), np.int64)
    at = first[:-1].copy()
    for i in range(len(code)):
        order[at[code[i]]] = i
        at[code[i]] += 1
    for c in range(codes):
        low, high = first[c], first[c + 1]
        if high - low > k:
            run = np.empty(high - low, np.float64)
            for j in range(low, high):
                run[j - low] = score[order[j]]
            bar = kth_largest(run, high - low, k)
            above = 0
            for j in range(low, high):
                above += score[order[j]] > bar
                keep[order[j]] = score[order[j]] >= bar
            latest(score, time, id, order[low:high], bar, k - above, keep)
    return keep


@kernel
def latest(score, time, id, order, bar, places, keep):
    """Of the rows with score `bar`, keep only those with the largest time and id, as many as there are places."""
    tied = np.empty(len(order), np.int64)
    n = 0
    for i in order:
        if score[i] == bar:
            tied[n] = i
            n += 1
    if n <= places:
        return
    rank = np.argsort(id[tied[:n]], kind="mergesort")  # by id, then stably by time: the best come last
    rank = rank[np.argsort(time[tied[:n]][rank], kind="mergesort")]
    last = tied[rank[n - places]]
    for j in range(n - places):
        i = tied[rank[j]]
        if time[i] != time[last] or id[i] != id[last]:
            keep[i] = False
