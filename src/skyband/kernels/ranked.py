"""A ranked list of objects that come one by one: the k-skyband, strict, relaxed or probabilistic.

Four columns (score, time, id, mark) hold it, best first, from `num[HEAD]` to `num[END]` of a longer array, so
that either side can give way. The first k are the top-k tree of the paper, the others its candidate tree. There
is no time tree: `num[OLDEST]` is a lower bound of the times that have to be watched, made exact when it is reached.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline
from skyband.kernels.ranking import push_largest as push_latest

FAR = 1 << 61  # after all time
# What prunes a list: counters of dominators, a walk now and then, its length; NONE: there is no list.
NONE, STRICT, RELAXED, PROBABILISTIC = range(-1, 3)
# What a list keeps in `num` ...
KIND, K, HEAD, END, OLDEST, NEWEST, LIMIT, ADDITIONAL, LEAST, NUMBERS = range(10)
# ... and in `real`.
BAR = 0  # who scores less need not be looked at
RATE = 1  # RELAXED: gamma; PROBABILISTIC: by how much of the last gap the bar gives way
CELL = 2  # width of the cells of an index over scores, 0: no index
THRESHOLD = 3  # the k-th score as the index knows it
REALS = 4
TOLD = 1  # bit of `mark`: has been reported; the bits above count dominators


class Ranked(NamedTuple):
    """The list: columns and numbers."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    mark: np.ndarray
    heap: np.ndarray  # room for the k latest times
    num: np.ndarray
    real: np.ndarray


@inline
def add(s, t, r, score, time, id, mark, heap, num, real):
    """Put (s, t, r) on the list, prune as its kind wants; its rank from 0 on. There must be room for one more.

    -1: STRICT only, k others dominate it. O(log c + objects below it), without those below for the others
    of a list of c if it is nearer to the front.
    """
    kind, k, head, end = num[KIND], num[K], num[HEAD], num[END]
    low, high = head, end
    while low < high:
        mid = (low + high) >> 1
        if score[mid] > s or (score[mid] == s and id[mid] > r):
            low = mid + 1
        else:
            high = mid
    rank = low - head
    if kind == STRICT:
        beaten = 0
        if t <= num[NEWEST]:  # it comes late, out of a buffer, or with others of the same moment
            for i in range(head, low):
                beaten += time[i] >= t
        if beaten >= k:
            rank = -1
        else:
            # everyone below counts one dominator more; whoever has k is out
            w_score, w_time, w_id, w_mark = s, t, r, beaten << 1
            i = low
            waits = True
            while i < end and waits:
                o_score, o_time, o_id, o_mark = score[i], time[i], id[i], mark[i]
                o_mark += 2 * (o_time <= t)
                score[i], time[i], id[i], mark[i] = w_score, w_time, w_id, w_mark
                i += 1
                waits = o_mark >> 1 < k
                if waits:
                    w_score, w_time, w_id, w_mark = o_score, o_time, o_id, o_mark
            if waits:
                score[end], time[end], id[end], mark[end] = w_score, w_time, w_id, w_mark
                end += 1
            else:
                to = i
                while i < end:
                    o_time, o_mark = time[i], mark[i]
                    o_mark += 2 * (o_time <= t)
                    score[to], time[to], id[to], mark[to] = score[i], o_time, id[i], o_mark
                    to += o_mark >> 1 < k
                    i += 1
                end = to
    else:
        if head > 0 and low - head < end - low:
            head -= 1
            low -= 1
            for i in range(head, low):
                score[i], time[i], id[i], mark[i] = score[i + 1], time[i + 1], id[i + 1], mark[i + 1]
        else:
            for i in range(end, low, -1):
                score[i], time[i], id[i], mark[i] = score[i - 1], time[i - 1], id[i - 1], mark[i - 1]
            end += 1
        score[low], time[low], id[low], mark[low] = s, t, r, 0
        if kind == RELAXED:
            if end - head - k >= num[LIMIT]:
                end = pruned(head, end, k, score, time, id, mark, heap)
                candidates = max(end - head - k, 0)
                num[LIMIT] = max(np.int64(np.ceil((1.0 + real[RATE]) * candidates)), k)
        elif end - head - k >= num[LIMIT] + num[ADDITIONAL]:
            if end - head - k > num[LIMIT] + num[ADDITIONAL]:
                end -= 1
            real[BAR] = score[end - 1]
    num[OLDEST] = min(num[OLDEST], t)
    num[NEWEST] = max(num[NEWEST], t)
    num[HEAD], num[END] = head, end
    return rank


@inline
def pruned(head, end, k, score, time, id, mark, heap):
    """Drop what k better objects outlive; the list's new end. One walk from the best down: O(c log k)."""
    size, to = 0, head
    for i in range(head, end):
        t = time[i]
        if size < k or t > heap[0]:
            size = push_latest(heap, size, k, t)
            if to < i:  # most are where they were
                score[to], time[to], id[to], mark[to] = score[i], t, id[i], mark[i]
            to += 1
    return to


@inline
def expire(cutoff, score, time, id, mark, num, real):
    """Take off whose time is `cutoff` or before, among those that matter; how many. O(k), or O(c) if PROBABILISTIC.

    In the other lists one that expires outside the k best is dominated by those: it is dropped when it gets there.
    """
    gone = 0
    if num[OLDEST] <= cutoff:
        head, end, k = num[HEAD], num[END], num[K]
        whole = num[KIND] == PROBABILISTIC
        oldest = FAR
        i = head
        while i < end and (whole or i < head + k):
            t = time[i]
            if t <= cutoff:
                for j in range(i, head, -1):
                    score[j], time[j], id[j], mark[j] = score[j - 1], time[j - 1], id[j - 1], mark[j - 1]
                head += 1
                gone += 1
            else:
                oldest = min(oldest, t)
            i += 1
        num[HEAD], num[OLDEST] = head, oldest
        if whole and gone > 0:
            if end - head - k < num[LEAST]:
                real[BAR] = -np.inf
            else:
                gap = score[max(end - 2, head)] - score[end - 1]
                if gap > 0.0:  # not so for two infinities
                    real[BAR] -= gone * real[RATE] * gap
    return gone


@inline
def centre(need, score, time, id, mark, num):
    """Move the list down, so that there is room for `need` more behind it. O(c), after O(c) insertions."""
    head, end = num[HEAD], num[END]
    to = (len(score) - (end - head) - need) >> 1
    num[HEAD], num[END] = to, to + end - head
    for i in range(head, end):
        score[to], time[to], id[to], mark[to] = score[i], time[i], id[i], mark[i]
        to += 1


@inline
def entry(score, num):
    """What one that leaves the buffer must score at least, lest k later ones of this filter dominate it."""
    if num[END] - num[HEAD] < num[K]:
        return -np.inf
    return np.nextafter(score[num[HEAD] + num[K] - 1], np.inf)


@inline
def reindex(score, num, real):
    """Tell the index the k-th score: when it falls, and when other cells have to be watched."""
    if real[CELL] > 0.0:
        kth = score[num[HEAD] + num[K] - 1] if num[END] - num[HEAD] >= num[K] else -np.inf
        reach = np.floor(kth / real[CELL]) * real[CELL]
        if kth < real[THRESHOLD] or reach != real[BAR]:
            real[THRESHOLD], real[BAR] = kth, reach
