"""Stretches of rows whose scores only fall or only rise: they go into the list, and out of it, many at a time."""

import numpy as np

from skyband.kernels._jit import inline, inplace
from skyband.kernels.front import passed, reached

STRETCH = 1024  # steps done at a time
SHORT = 8  # rows compared at once; fewer are taken one by one


@inline
def broken(column, low, high):
    """The first place after `low` that is less than the one before it; `high` if there is none. O(rows up to it)."""
    at, here, one = low + 1, np.uint64(low + 1), np.uint64(1)
    while at + SHORT <= high:
        breaks, here = 0, np.uint64(at)
        for i in range(SHORT):
            breaks += not column[here + np.uint64(i)] >= column[here + np.uint64(i) - one]
        if breaks > 0:
            break
        at += SHORT
    while at < high and column[at] >= column[at - 1]:
        at += 1
    return at


@inline
def falls(score, low, high):
    """Whether each of these rows scores less than the one before it. O(rows up to the first that does not)."""
    at, here, one = low + 1, np.uint64(low + 1), np.uint64(1)
    while at + SHORT <= high:
        breaks, here = 0, np.uint64(at)
        for i in range(SHORT):
            breaks += not score[here + np.uint64(i)] < score[here + np.uint64(i) - one]
        if breaks > 0:
            break
        at += SHORT
    while at < high and score[at] < score[at - 1]:
        at += 1
    return at >= high


@inplace
def appended(rows, low, high, ranked, head):
    """Put the falling rows [low, high) behind the list, which gives way at its front; the new head."""
    score, time, id = rows
    l_score, l_time, l_mark = ranked
    to, more = head - (high - low), high - low
    for i in range(head, len(l_score)):
        l_score[i - more], l_time[i - more], l_mark[i - more] = l_score[i], l_time[i], l_mark[i]
    start, source = np.uint64(len(l_score) - more), np.uint64(low)
    for i in range(np.uint64(more)):
        l_score[start + np.uint64(i)] = score[source + np.uint64(i)]
    for i in range(np.uint64(more)):
        l_time[start + np.uint64(i)] = time[source + np.uint64(i)]
    for i in range(np.uint64(more)):
        l_mark[start + np.uint64(i)] = id[source + np.uint64(i)] << 1
    return to


@inplace
def relieved(rows, at, stop, upto, shape, ranked, head, sure, bar, page, listed, written):
    """Do the steps at which the best of the list expires and the next in rank gets in, for counting windows.

    That is so while times rise down the list, and rows that come stay below the bar. Returns how many rows left, the
    next row, and the lists and rows on the page.
    """
    score, time, _ = rows
    l_score, l_time, l_mark = ranked
    step, _, _, _, first, out_id, out_score, out_rank = page  # where positions are counted, steps and ends are the same
    k, size, left, free, one = shape.k, shape.size, 0, True, np.uint64(1)
    most = min(sure - k, len(step) - listed, len(out_id) - written - shape.most)
    known = head  # times rise up to this place
    while free and left < most:
        here = head + left
        many = min(STRETCH, most - left)
        known = broken(l_time, known, here + many + k) - 1
        free = known == here + many + k - 1
        many = reached(l_time, upto - size, here, here + max(known - here - k + 1, 0)) - here
        if many == 0:
            break
        to = reached(time, l_time[here + many - 1] + size + 1, at, stop)
        at = passed(score, bar, at, to)
        if at < to:
            free, many = False, reached(l_time, time[at] - size, here, here + many) - here
        low, line, out = np.uint64(here), np.uint64(listed), np.uint64(written)
        new = low + np.uint64(k)  # k older ones have been before it all the time: it has not been told
        for i in range(np.uint64(many)):
            step[line + np.uint64(i)] = l_time[low + np.uint64(i)] + size + 1
        for i in range(np.uint64(many)):
            first[line + np.uint64(i) + one] = np.int64(out + np.uint64(i) + one)
        for i in range(np.uint64(many)):
            out_id[out + np.uint64(i)] = l_mark[new + np.uint64(i)] >> 1
        for i in range(np.uint64(many)):
            out_score[out + np.uint64(i)] = l_score[new + np.uint64(i)]
        for i in range(np.uint64(many)):
            out_rank[out + np.uint64(i)] = k
        listed += many
        written += many
        left += many
    if left > 0:
        for i in range(head + left, head + left + k):
            l_mark[i] |= 1
    return left, at, listed, written


@inplace
def relieved_by_time(rows, at, stop, seen, shape, ranked, head, sure, bar, page, listed, written):
    """The same for windows by time: a step is at the first row that comes after some have expired."""
    score, time, _ = rows
    l_score, l_time, l_mark = ranked
    step, end, _, _, first, out_id, out_score, out_rank = page
    k, size, left, known = shape.k, shape.size, 0, head
    while left < sure - k and listed < len(step) and written + shape.most <= len(out_id):
        here = head + left
        while known < here + k and l_time[known + 1] >= l_time[known]:
            known += 1
        if known < here + k:  # the best is not the oldest
            break
        to = reached(time, l_time[here] + size, at, stop)
        if to == stop:
            break
        at = passed(score, bar, at, to + 1)
        if at <= to:
            break
        low = here + 1  # the best of those that stay
        while low < head + sure - k and l_time[low] <= time[to] - size:
            low += 1
        while known < low + k - 1 and l_time[known + 1] >= l_time[known]:
            known += 1
        if known < low + k - 1 or l_time[low] <= time[to] - size:
            at = to  # its step is still to come
            break
        before = written
        for i in range(max(here + k, low), low + k):
            if not l_mark[i] & 1:
                l_mark[i] |= 1
                out_id[written], out_score[written], out_rank[written] = l_mark[i] >> 1, l_score[i], i - low + 1
                written += 1
        if written > before:
            step[listed], end[listed] = seen + at, time[to] + 1
            listed += 1
            first[listed] = written
        left = low - head
    return left, at, listed, written


@inplace
def risen(rows, at, stop, seen, shape, ranked, page, listed, written):
    """Tell of the rows [at, stop), each the best when it comes, and make the last k of them the list.

    All others are beaten by k later ones. Returns the lists and rows on the page.
    """
    score, time, id = rows
    l_score, l_time, l_mark = ranked
    step, end, _, _, first, out_id, out_score, out_rank = page
    low, line, out, one = np.uint64(at), np.uint64(listed), np.uint64(written), np.uint64(1)
    many = np.uint64(stop - at)
    if shape.counts:
        for i in range(many):
            step[line + np.uint64(i)] = time[low + np.uint64(i)] + 1
    else:
        for i in range(many):
            end[line + np.uint64(i)] = time[low + np.uint64(i)] + 1
        for i in range(many):
            step[line + np.uint64(i)] = seen + np.int64(low + np.uint64(i) + one)
    for i in range(many):
        first[line + np.uint64(i) + one] = np.int64(out + np.uint64(i) + one)
    for i in range(many):
        out_id[out + np.uint64(i)] = id[low + np.uint64(i)]
    for i in range(many):
        out_score[out + np.uint64(i)] = score[low + np.uint64(i)]
    for i in range(many):
        out_rank[out + np.uint64(i)] = 1
    head = len(l_score) - shape.k
    for j in range(shape.k):
        i = stop - 1 - j
        l_score[head + j], l_time[head + j], l_mark[head + j] = score[i], time[i], (id[i] << 1) | 1
    return listed + stop - at, written + stop - at
