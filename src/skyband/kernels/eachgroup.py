"""Top-k after every row for all groups at once: room for their bands, and the merges of what waits."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.band import FEW, columns, copied, push_latest, ranked, roomy
from skyband.kernels.eachrow import (
    AT,
    BAR,
    BASE,
    BEST,
    DONE,
    FINISHED,
    HEAD,
    KNOWN,
    LISTED,
    LOST,
    MERGE,
    NEED,
    NOW,
    OLDEST,
    PAGE,
    PEAK,
    PHASE,
    RAW,
    ROOM,
    SEEN,
    SHOWN,
    STATE,
    SURE,
    WRITTEN,
    YOUNG,
    held,
    most_of,
    stepped,
)
from skyband.kernels.front import FAR
from skyband.kernels.runs import falls

SPANS = 1024  # parts of the window that a rough walk tells apart, if that is more than two for k rows
DEEP = 16  # a heap for a smaller k is as quick
LOG = 1024  # rows that may enter the list before those passed over are taken in hand


class Bands(NamedTuple):
    """What is kept, group by group: of group g first[0, g] to first[1, g], the ranked list before those that wait."""

    score: np.ndarray
    time: np.ndarray
    mark: np.ndarray  # twice the id, and one more if the row has been told
    first: np.ndarray


class Marks(NamedTuple):
    """What each group remembers besides."""

    done: np.ndarray  # int64: steps before this moment are done
    step: np.ndarray  # int64: how many rows it has seen
    shown: np.ndarray  # bool: its last list had rows
    ranked: np.ndarray  # int64: so many of its rows are ranked
    base: np.ndarray  # int64: so many rows were left by the last merge
    bar: np.ndarray  # float64: whoever scores as much is in the ranked list
    lost: np.ndarray  # bool: some of its k best have left the window since its last step


@kernel
def advanced(bands, marks, rows, upto, shape, page, listed, written):
    """Take the rows of each group, as long as the page has room behind the lists and rows that are on it.

    Returns the new bands, how many lists of each group were put on the page, how many rows are on it, the most rows
    kept at once, and whether there is more to do. `marks` is brought up to date in place and `rows.first` moved past
    what was taken, so that the same call with a longer page goes on.
    """
    hand = (columns(FEW), columns(FEW), columns(FEW))
    most = min(shape.k, len(rows.id) + len(bands.mark))
    work = (np.empty(most, np.float64), np.empty(FEW, np.int64), np.empty(LOG, np.int64))
    spare = (np.empty(FEW, np.int64), np.empty(most, np.int64), np.empty(SPANS, np.int64))
    arrived = (rows.score, rows.time, rows.id)
    old = (bands.score, bands.time, bands.mark)
    kept, first, total, peak = columns(max(len(bands.mark), FEW)), np.empty((2, len(upto)), np.int64), 0, 0
    num, real = np.zeros(STATE, np.int64), np.zeros(2, np.float64)
    num[LISTED], num[WRITTEN] = listed, written
    lists, why = np.zeros(len(upto), np.int64), FINISHED
    for g in range(len(upto)):
        low, high, sure = bands.first[0, g], bands.first[1, g], marks.ranked[g]
        at, stop = rows.first[0, g], rows.first[1, g]
        first[0, g] = total
        if why != PAGE and (at < stop or (shape.counts and marks.done[g] < upto[g])):
            hand = loaded(hand, old, low, high, sure, shape.k, marks.bar[g], num, real)
            num[AT], num[RAW], num[BASE], num[SEEN] = at, at, marks.base[g], marks.step[g] - at
            num[DONE], num[SHOWN], num[NOW] = marks.done[g], marks.shown[g], marks.done[g] - 1 if shape.counts else -FAR
            num[PHASE], num[PEAK], num[LOST], num[KNOWN] = 0, high - low, marks.lost[g], 0
            if marks.lost[g]:
                num[OLDEST] = -FAR  # the next step finds out
            why, before = ROOM, num[LISTED]
            while why not in (FINISHED, PAGE):
                why = stepped(arrived, stop, upto[g], shape, hand[0], hand[1], work, page, num, real)
                if why == MERGE:
                    hand, spare = merged(hand, spare, shape, num[NOW] - shape.size, num, real, False)
                elif why == ROOM:
                    hand, work = grown(hand, work, num)
            lists[g] = num[LISTED] - before
            while not held(arrived, shape, hand[1], work, num, real):
                hand, work = grown(hand, work, num)
            size = len(hand[0][0]) - num[HEAD]
            peak = max(peak, total + max(num[PEAK], size + num[YOUNG]) + len(bands.mark) - high)
            if 0 < num[YOUNG] and (size == 0 or hand[1][0][0] < hand[0][0][-1]) and falls(hand[1][0], 0, num[YOUNG]):
                behind, num[BASE] = num[YOUNG], min(num[BASE], size) + num[YOUNG]  # they are ranked as they are
            else:
                behind = 0
            if size + num[YOUNG] > most_of(num[BASE]):
                hand, spare = merged(
                    hand, spare, shape, num[DONE] - 1 - shape.size if shape.counts else -FAR, num, real, False
                )
                size = num[BASE]
            kept = roomy(kept, total, size + num[YOUNG])
            copied(hand[0], num[HEAD], size, kept, total)
            copied(hand[1], 0, num[YOUNG], kept, total + size)
            total += size + num[YOUNG]
            rows.first[0, g], marks.ranked[g], marks.base[g], marks.bar[g] = (
                num[AT],
                size + behind,
                num[BASE],
                real[BAR],
            )
            marks.done[g], marks.step[g], marks.shown[g] = num[DONE], num[SEEN] + num[AT], num[SHOWN] > 0
            marks.lost[g] = num[LOST] > 0
        else:
            kept = roomy(kept, total, high - low)
            copied(old, low, high - low, kept, total)
            total += high - low
        if why != PAGE:
            marks.done[g] = max(marks.done[g], upto[g])
        first[1, g] = total
    new = Bands(kept[0][:total], kept[1][:total], kept[2][:total], first)
    return new, lists, num[WRITTEN], peak, why == PAGE


@kernel
def loaded(hand, rows, low, high, size, k, bar, num, real):
    """Take the band `rows[low:high]` in hand, of which `size` rows are ranked."""
    band, young = hand[0], roomy(hand[1], 0, high - low - size)
    if len(band[0]) < size + FEW:
        band = columns(2 * size + FEW)
    head = len(band[0]) - size
    copied(rows, low, size, band, head)
    copied(rows, low + size, high - low - size, young, 0)
    num[HEAD], num[YOUNG], real[BAR], real[BEST] = head, high - low - size, bar, -np.inf
    for i in range(num[YOUNG]):
        real[BEST] = max(real[BEST], young[0][i])
    measured(band, k, num, real)
    return (band, young, hand[2])


@kernel
def measured(band, k, num, real):
    """How many of the list reach the bar, and a time that none of its first k is before."""
    score, time, _ = band
    low, high = num[HEAD], len(score)
    num[OLDEST] = FAR
    for i in range(low, min(low + k, high)):
        num[OLDEST] = min(num[OLDEST], time[i])
    while low < high:
        middle = (low + high) >> 1
        if score[middle] >= real[BAR]:
            low = middle + 1
        else:
            high = middle
    num[SURE] = low - num[HEAD]


@kernel
def grown(hand, work, num):
    """More room in front of the list, behind those that wait, and for picking among rows."""
    band, young, spare = hand
    size = len(band[0]) - num[HEAD]
    if num[NEED] > 0:
        longer = columns(2 * (size + num[NEED]) + FEW)
        copied(band, num[HEAD], size, longer, len(longer[0]) - size)
        num[HEAD] = len(longer[0]) - size
        return (longer, young, spare), work
    more = 2 * len(work[1])
    return (band, roomy(young, num[YOUNG], more), spare), (work[0], np.empty(more, np.int64), work[2])


@kernel
def merged(hand, spare, shape, cutoff, num, real, whole):
    """Merge those that wait into the list and drop what has left the window, or k better ones outlive.

    Where all of the list rank before those that wait, as when scores fall, these end no career in it: they go behind
    it, unless the `whole` list is to be minimal.
    """
    band, young, to = hand
    n, head, end = num[YOUNG], num[HEAD], len(band[0])
    order, latest, ages = spare
    if len(order) < n:
        order = np.empty(2 * n, np.int64)
    sort(young[0], n, order)
    to = roomy(to, 0, end - head + n)
    out = 0
    if not whole and n > 0 and head < end and real[BEST] < band[0][end - 1]:
        out, head = lived(band, head, to, cutoff), end
    if not whole and shape.k >= DEEP and 2 * shape.size <= SPANS * shape.k and n > 0 and head < end:
        out = roughly_walked(band, head, young, n, order, to, out, ages, shape, cutoff)
    else:
        out = walked(band, head, young, n, order, to, out, latest, shape.k, cutoff)
    if end < out + FEW:
        band = columns(2 * out + FEW)
        end = len(band[0])
    copied(to, 0, out, band, end - out)
    num[HEAD], num[YOUNG], num[BASE], real[BEST] = end - out, 0, out, -np.inf
    measured(band, shape.k, num, real)
    return (band, young, to), (order, latest, ages)


@kernel
def sort(score, n, order):
    """Fill `order` with the places of the first n scores, best first; of equals the later one."""
    if n > FEW:
        falling = 1
        while falling < n and score[falling] < score[falling - 1]:
            falling += 1
        if falling < n:
            ranked(score, n, order)
        else:  # in order as they came
            for i in range(n):
                order[i] = i
        return
    for i in range(n):
        j = i
        while j > 0 and score[order[j - 1]] <= score[i]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@kernel
def lived(band, head, to, cutoff):
    """Put into `to` what is after `cutoff`; how many."""
    score, time, mark = band
    to_score, to_time, to_mark = to
    out = 0
    for i in range(head, len(score)):
        to_score[out], to_time[out], to_mark[out] = score[i], time[i], mark[i]
        out += time[i] > cutoff
    return out


@kernel
def walked(band, head, young, n, order, to, out, latest, k, cutoff):
    """From the best down, put what fewer than k better ones outlive and is after `cutoff` behind `out` others."""
    score, time, mark = band
    y_score, y_time, y_mark = young
    to_score, to_time, to_mark = to
    i, j, full = head, 0, 0
    while i < len(score) or j < n:
        p = order[j] if j < n else 0
        if j < n and (i == len(score) or y_score[p] > score[i] or (y_score[p] == score[i] and y_mark[p] > mark[i])):
            s, t, m = y_score[p], y_time[p], y_mark[p]
            j += 1
        else:
            s, t, m = score[i], time[i], mark[i]
            i += 1
        if t > cutoff and (full < k or t > latest[0]):
            full = push_latest(latest, full, k, t)
            to_score[out], to_time[out], to_mark[out] = s, t, m
            out += 1
    return out


@kernel
def roughly_walked(band, head, young, n, order, to, out, count, shape, cutoff):
    """The same but for some that could go, and quicker for a large k: rows are counted by the part of the window.

    Of two rows in one part none is taken to outlive the other. There must be rows of either kind.
    """
    score, time, mark = band
    y_score, y_time, y_mark = young
    to_score, to_time, to_mark = to
    k, end, i, j = shape.k, len(score), head, 0
    newest = cutoff
    for p in range(n):
        newest = max(newest, y_time[p])
    for p in range(head, end):
        newest = max(newest, time[p])
    first = max(cutoff, newest - shape.size)
    scale = SPANS / (shape.size + 1.0)
    count[:] = 0
    bar, lasting = 0, 0  # what is in a part before the bar is out; rows so far in the parts after it
    for _ in range(end - head + n):
        p, q = order[min(j, n - 1)], min(i, end - 1)
        over = (y_score[p] > score[q]) | ((y_score[p] == score[q]) & (y_mark[p] > mark[q]))
        new = (j < n) & ((i == end) | over)
        t = y_time[p] if new else time[q]
        to_score[out] = y_score[p] if new else score[q]
        to_time[out] = t
        to_mark[out] = y_mark[p] if new else mark[q]
        j += new
        i += not new
        part = int(max(t - first, 0) * scale)
        stays = (t > cutoff) & (part >= bar)
        count[part] += stays
        lasting += stays & (part > bar)
        out += stays
        while lasting >= k:
            bar += 1
            lasting -= count[bar]
    return out


@kernel
def settled(bands, marks, shape):
    """The bands merged and pruned: exactly what fewer than k better rows outlive. `marks` is brought up to date."""
    hand = (columns(FEW), columns(FEW), columns(FEW))
    spare = (np.empty(FEW, np.int64), np.empty(min(shape.k, len(bands.mark)), np.int64), np.empty(SPANS, np.int64))
    old = (bands.score, bands.time, bands.mark)
    kept, first, total = columns(len(bands.mark)), np.empty((2, len(marks.done)), np.int64), 0
    num, real = np.zeros(STATE, np.int64), np.zeros(2, np.float64)
    for g in range(len(marks.done)):
        low, high = bands.first[0, g], bands.first[1, g]
        first[0, g] = total
        if low < high:
            hand = loaded(hand, old, low, high, marks.ranked[g], shape.k, marks.bar[g], num, real)
            cutoff = marks.done[g] - 1 - shape.size
            marks.lost[g] |= num[OLDEST] <= cutoff
            hand, spare = merged(hand, spare, shape, cutoff, num, real, True)
            size = num[BASE]
            copied(hand[0], num[HEAD], size, kept, total)
            total += size
            marks.ranked[g], marks.base[g] = size, size
        first[1, g] = total
    return Bands(kept[0][:total], kept[1][:total], kept[2][:total], first)
