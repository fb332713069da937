"""The k best of a run of rows, in one pass that looks closely at few of them."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel
from skyband.kernels.search import last_exceeding, next_reaching

_RARE = 64  # rows for each of the k, after which so few are selected that many are compared at once


class Selection(NamedTuple):
    """Memory to select the k best rows."""

    score: np.ndarray  # 2 k
    row: np.ndarray
    above: np.ndarray
    below: np.ndarray


@kernel
def selection(k):
    """Allocate memory to select the k best rows."""
    return Selection(np.empty(2 * k), np.empty(2 * k, np.int64), np.empty(2 * k), np.empty(2 * k))


@inplace
def select_best(score, low, high, k, picked):
    """Select the k best of score[low:high]. Return how many there are.

    The scan starts at the end where scores look better, so that most rows meet a high bound, and leaves the selected
    rows in its own order; of equal scores the later row is selected either way. O(high - low) comparisons, most of them
    branch-free, and O(k log(rows / k)) moves in random order.
    """
    best, place = picked.score, picked.row
    room = 2 * k
    size = min(room, high - low)
    forward = _looks_sorted(score, low, high, 1.0)
    for i in range(size):
        row = low + i if forward else high - 1 - i
        best[i], place[i] = score[row], row
    at, bound = low + size if forward else high - size, -np.inf
    if size > k:
        size, bound = _cut(picked, size, k, forward)
    while True:
        if forward:
            at = next_reaching(score, bound, at, high)
            if at == high:
                break
            row = at
            at += 1
        else:
            at = last_exceeding(score, bound, at, low)
            if at == low:
                break
            at -= 1
            row = at
        best[size], place[size] = score[row], row
        size += 1
        if size == room:
            size, bound = _cut(picked, size, k, forward)
    return _cut(picked, size, k, forward)[0] if size > k else size


@inplace
def select_few(score, low, high, k, picked):
    """Do the same for a small k where scores do not rise: best first, of equal scores the later row.

    O(k) for each row that is selected for a while, of which there are few unless scores rise.
    """
    best, place = picked.score, picked.row
    size, bound, rare = 0, -np.inf, min(low + _RARE * k, high)
    for i in range(low, rare):
        if score[i] >= bound:  # never so for NaN
            size = _insert(best, place, size, k, score[i], i)
            if size == k:
                bound = best[k - 1]
    i = rare
    while i < high:
        i = next_reaching(score, bound, i, high)
        if i < high:
            size = _insert(best, place, size, k, score[i], i)
            if size == k:
                bound = best[k - 1]
            i += 1
    return size


@inline
def _insert(best, place, size, k, score, row):
    size = min(size + 1, k)
    j = size - 1
    while j > 0 and best[j - 1] <= score:
        best[j], place[j] = best[j - 1], place[j - 1]
        j -= 1
    best[j], place[j] = score, row
    return size


@inplace
def looks_rising(score, low, high):
    """Return whether the last rows look better than the first, by sixteen of each."""
    return _looks_sorted(score, low, high, -1.0)


@inline
def _looks_sorted(score, low, high, sign):
    ahead = 0
    for i in range(min(16, (high - low) // 2)):
        ahead += sign * score[low + i] > sign * score[high - 1 - i]
    return ahead > 12


@inplace
def _cut(picked, size, k, last):
    """Keep the k best of the first `size`, in their order, of equal ones the last or the first. Also the k-th score."""
    best, place = picked.score, picked.row
    bound = _kth_largest(best, size, k, picked.above, picked.below)
    skip = 0  # rows equal to the bound to drop before some are kept, if the last ones are
    equals = k
    for i in range(size):
        equals -= best[i] > bound
        skip += best[i] == bound
    skip = skip - equals if last else 0
    new = 0
    for i in range(size):
        s = best[i]
        best[new] = s
        place[new] = place[i]
        new += s > bound or (s == bound and skip <= 0 and equals > 0)
        equals -= s == bound and skip <= 0
        skip -= s == bound
    return new, bound


@inplace
def _kth_largest(values, size, k, above, below):
    """Return the k-th largest of the first `size` values. Quickselect without unpredictable branches, O(size)."""
    for i in range(size):
        above[i] = values[i]
    want = k
    while True:
        a, b, c = above[0], above[size // 2], above[size - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        more = less = 0
        for i in range(size):
            v = above[i]
            above[more] = v
            more += v > pivot
            below[less] = v
            less += v < pivot
        if want <= more:
            size = more
        elif want <= size - less:
            return pivot
        else:
            want -= size - less
            above, below = below, above
            size = less


# ------------------------------------------------------------ before a shuffle


@kernel
def best_of_panes(score, time, id, code, codes, k):
    """Mark the k best rows of each code (a pane of a group): by score, then time, then id.

    Rows that agree with the k-th in all three are marked too: which of them counts depends on other partitions.
    O(n), more only for ties at the k-th.
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
    longest = (first[1:] - first[:-1]).max() if codes else 0
    run, above, below = np.empty(longest), np.empty(longest), np.empty(longest)
    for c in range(codes):
        low, high = first[c], first[c + 1]
        if high - low > k:
            for j in range(low, high):
                run[j - low] = score[order[j]]
            bound = _kth_largest(run, high - low, k, above, below)
            better = 0
            for j in range(low, high):
                better += score[order[j]] > bound
                keep[order[j]] = score[order[j]] >= bound
            _keep_latest(score, time, id, order[low:high], bound, k - better, keep)
    return keep


@kernel
def _keep_latest(score, time, id, order, bound, places, keep):
    """Of the rows with score `bound`, keep those with the largest time and id, as many as there are places."""
    tied = np.empty(len(order), np.int64)
    n = 0
    for i in order:
        if score[i] == bound:
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
