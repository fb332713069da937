"""Runs of rows whose scores only fall or only rise, with emit="arrivals": many steps at once."""

import numpy as np

from skyband.kernels._jit import inplace
from skyband.kernels.row_band import R
from skyband.kernels.search import end_of_rise, lower_bound, next_reaching

RUN = 8  # rows; shorter runs are processed row by row
_STRETCH = 1024  # steps at a time


@inplace
def append_falling(rows, low, high, band, head):
    """Put the falling rows [low, high) behind the band, which moves towards its head. Return the new head."""
    score, time, id, _ = rows
    band_score, band_time, band_id = band
    more = high - low
    for i in range(head, len(band_score)):
        band_score[i - more], band_time[i - more], band_id[i - more] = band_score[i], band_time[i], band_id[i]
    start, source = np.uint64(len(band_score) - more), np.uint64(low)
    for i in range(np.uint64(more)):
        band_score[start + np.uint64(i)] = score[source + np.uint64(i)]
    for i in range(np.uint64(more)):
        band_time[start + np.uint64(i)] = time[source + np.uint64(i)]
    for i in range(np.uint64(more)):
        band_id[start + np.uint64(i)] = id[source + np.uint64(i)] << 1
    return head - more


@inplace
def replace_expired(rows, stop, upto, shape, band, threshold, answers, state):
    """Do the steps at which the best row expires and the next in rank enters the answer, for counting windows.

    That is so while times rise down the band, and new rows stay below the threshold. Returns how many rows left; the
    next row and the fill of the answer buffer are updated.
    """
    score, time, _, _ = rows
    band_score, band_time, band_id = band
    step, first, out_id, out_score, out_rank = answers.step, answers.first, answers.id, answers.score, answers.rank
    at, head, listed, written = state[R.row], state[R.head], state[R.lists], state[R.rows]
    k, size, left, free, one = shape.k, shape.size, 0, True, np.uint64(1)
    most = min(state[R.above] - k, len(step) - listed, len(out_id) - written - shape.most)
    known = head  # times rise up to this row
    while free and left < most:
        here = head + left
        many = min(_STRETCH, most - left)
        known = end_of_rise(band_time, known, here + many + k) - 1
        free = known == here + many + k - 1
        many = lower_bound(band_time, upto - size, here, here + max(known - here - k + 1, 0)) - here
        if many == 0:
            break
        to = lower_bound(time, band_time[here + many - 1] + size + 1, at, stop)
        at = next_reaching(score, threshold, at, to)
        if at < to:
            free, many = False, lower_bound(band_time, time[at] - size, here, here + many) - here
        low, line, out = np.uint64(here), np.uint64(listed), np.uint64(written)
        new = low + np.uint64(k)  # k older ones were before it all the time: it was not reported
        for i in range(np.uint64(many)):
            step[line + np.uint64(i)] = band_time[low + np.uint64(i)] + size + 1  # also its end, where rows are counted
        for i in range(np.uint64(many)):
            first[line + np.uint64(i) + one] = np.int64(out + np.uint64(i) + one)
        for i in range(np.uint64(many)):
            out_id[out + np.uint64(i)] = band_id[new + np.uint64(i)] >> 1
        for i in range(np.uint64(many)):
            out_score[out + np.uint64(i)] = band_score[new + np.uint64(i)]
        for i in range(np.uint64(many)):
            out_rank[out + np.uint64(i)] = k
        listed += many
        written += many
        left += many
    if left > 0:
        for i in range(head + left, head + left + k):
            band_id[i] |= 1
    state[R.row], state[R.lists], state[R.rows] = at, listed, written
    return left


@inplace
def replace_expired_by_time(rows, stop, shape, band, threshold, answers, state):
    """Do the same for windows by time: a step is at the first row that comes after some have expired."""
    score, time, _, _ = rows
    band_score, band_time, band_id = band
    at, head, above, listed, written = state[R.row], state[R.head], state[R.above], state[R.lists], state[R.rows]
    k, size, left, known = shape.k, shape.size, 0, head
    while left < above - k and listed < len(answers.step) and written + shape.most <= len(answers.id):
        here = head + left
        while known < here + k and band_time[known + 1] >= band_time[known]:
            known += 1
        if known < here + k:  # the best is not the oldest
            break
        to = lower_bound(time, band_time[here] + size, at, stop)
        if to == stop:
            break
        at = next_reaching(score, threshold, at, to + 1)
        if at <= to:
            break
        low = here + 1  # the best of those that stay
        while low < head + above - k and band_time[low] <= time[to] - size:
            low += 1
        while known < low + k - 1 and band_time[known + 1] >= band_time[known]:
            known += 1
        if known < low + k - 1 or band_time[low] <= time[to] - size:
            at = to  # its step is still to come
            break
        before = written
        for i in range(max(here + k, low), low + k):
            if not band_id[i] & 1:
                band_id[i] |= 1
                answers.id[written], answers.score[written] = band_id[i] >> 1, band_score[i]
                answers.rank[written] = i - low + 1
                written += 1
        if written > before:
            answers.step[listed], answers.end[listed] = state[R.seen] + at, time[to] + 1
            listed += 1
            answers.first[listed] = written
        left = low - head
    state[R.row], state[R.lists], state[R.rows] = at, listed, written
    return left


@inplace
def take_rising(rows, stop, shape, band, answers, state):
    """Report the rows up to `stop`, each the best when it comes, and make the last k of them the band.

    All others are beaten by k later ones.
    """
    score, time, id, _ = rows
    band_score, band_time, band_id = band
    step, end, first, out_id, out_score = answers.step, answers.end, answers.first, answers.id, answers.score
    at, listed, written, seen = state[R.row], state[R.lists], state[R.rows], state[R.seen]
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
        answers.rank[out + np.uint64(i)] = 1
    head = len(band_score) - shape.k
    for j in range(shape.k):
        i = stop - 1 - j
        band_score[head + j], band_time[head + j], band_id[head + j] = score[i], time[i], (id[i] << 1) | 1
    state[R.row], state[R.lists], state[R.rows] = stop, listed + stop - at, written + stop - at
