"""Top-k after every row: the loop over the rows of one group, which looks at few of them."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace
from skyband.kernels.front import FAR, complete, expired, gathered, inserted, passed, reached
from skyband.kernels.runs import SHORT, appended, broken, falls, relieved, relieved_by_time, risen

# What goes out: every list, those that differ from the one before, or each row once.
ANSWERS, CHANGES, ARRIVALS = range(3)
# Where the group at hand stands.
AT = 0  # the next row
RAW = 1  # the first row that has been passed over and not been taken in hand yet
HEAD = 2  # where the list begins
SURE = 3  # so many of it score at least the bar
YOUNG = 4  # rows that wait
BASE = 5  # rows after the last merge
OLDEST = 6  # no time among the first k is before this
DONE = 7  # positions before this have had their step, for counting windows
SEEN = 8  # steps before row 0
SHOWN = 9  # the last list had rows
PHASE, NOW, GONE, RANK = 10, 11, 12, 13  # the step at hand
LISTED, WRITTEN = 14, 15  # what is on the page
PEAK = 16  # rows held at once, at most
NEED = 17  # so many rows there must be room for in front of the list; 0: for those that wait
KNOWN = 19  # so many of the rows passed over since have entered the list
LOST = 18  # some of the first k have been dropped since the last step
STATE = 20
BAR, BEST = 0, 1  # the bar, and the best score of those that wait
# Why the loop came back.
FINISHED, PAGE, ROOM, MERGE = range(4)
LEAST = 16  # so many more rows than after the last merge may be kept in any case
SELDOM = 63  # steps from one look for a stretch in order to the next where there are none
WIDE = 8  # the list may have so many times more to spare where rows enter or leave it all the time


class Shape(NamedTuple):
    """The query as numbers."""

    k: int
    size: int
    spare: int  # so many more than k the list has above its bar
    counts: bool  # a step for every position; otherwise for every row
    emit: int
    most: int  # rows a list can have


@inline
def most_of(base):
    """So many rows may be kept before the next merge, if the last one left `base`."""
    return base + max(np.int64(LEAST), base >> 1)


@inplace
def stepped(rows, stop, upto, shape, ranked, young, work, page, num, real):
    """Take the rows from `num[AT]` to `stop`; why it came back.

    Rows below the bar are passed over: they change no list. When fewer than k of the list are above it, those that
    fewer than k later ones beat join those that wait; these enter the list if they reach it, and the bar falls.
    """
    score, time, id = rows
    k, size, spare, counts, emit, most = shape
    l_score, l_time, l_mark = ranked
    y_score, y_time, y_mark = young
    heap, picked, entered = work
    steps, ends, _, _, first, out_id, out_score, out_rank = page
    at, raw, head, sure, waits, base = num[AT], num[RAW], num[HEAD], num[SURE], num[YOUNG], num[BASE]
    oldest, done, shown, peak, listed, written = (
        num[OLDEST],
        num[DONE],
        num[SHOWN],
        num[PEAK],
        num[LISTED],
        num[WRITTEN],
    )
    phase, now, gone, rank, bar, best = num[PHASE], num[NOW], num[GONE], num[RANK], real[BAR], real[BEST]
    end, why, known = len(l_score), FINISHED, num[KNOWN]
    grown = most_of(base)
    take = False  # what was passed over has to be taken in hand
    edge, edge_due = at, -FAR  # the first row at `edge_due` or later
    narrow, wide, filled = spare, WIDE * spare, at  # how much to spare, and where the list was last filled up to it
    unlike, pause, misses = at, 0, 0  # rows and steps until it is worth while to look for a stretch in order
    while True:
        if take:  # those that fewer than k later ones beat begin to wait
            low = reached(time, now - size + 1, raw, at)
            count = end - head
            if sure < k and known == 0 and waits == 0 and low < at and not np.isnan(score[low]):
                if (count == 0 or score[low] < l_score[end - 1]) and falls(score, low, at):  # they go behind the list
                    if count < k or count <= at - low:
                        if head < at - low:
                            why = ROOM
                            num[NEED] = at - low
                            break
                        head = appended(rows, low, at, ranked, head)
                        base = min(base, count) + at - low
                        grown, oldest, low = most_of(base), min(oldest, time[low]), at
                        peak = max(peak, end - head)
                    raw, take, pause = low, False, 0
                    sure = end - head
                    bar = l_score[end - 1] if sure >= k else -np.inf
                    continue
            found = gathered(
                score, time, id, low, at, k, entered, known, heap, picked, y_score, y_time, y_mark, waits
            )  # fmt: skip
            if found < 0:
                why = ROOM
                num[NEED] = 0
                break
            for i in range(waits, found):
                best = max(best, y_score[i])
            waits, raw, known, take = found, at, 0, False
            peak = max(peak, end - head + waits)
        if phase == 0:  # the next step: who leaves, who comes
            if known == len(entered):
                take = True
                continue
            if sure > k + 2 * spare and at < stop and score[at] >= bar and l_score[head + k + spare - 1] > bar:
                bar = l_score[head + k + spare - 1]
                sure = complete(l_score, head, k + spare, bar)  # the bar may rise, and should when rows reach it
            if end - head + waits > grown:
                if end - head > k:  # what all of the k best outlive goes at once: where scores rise, that is the rest
                    first_gone, to, left = FAR, end, sure
                    for i in range(head, head + k):
                        first_gone = min(first_gone, l_time[i])
                    for i in range(end - 1, head - 1, -1):
                        if i < head + k or l_time[i] > first_gone:
                            to -= 1
                            l_score[to], l_time[to], l_mark[to] = l_score[i], l_time[i], l_mark[i]
                        else:
                            left -= i - head < sure
                    head, sure = to, left
                if 2 * (end - head + waits) > grown + k:
                    why = MERGE
                    break
            due = oldest + size
            free = min(len(steps) - listed, len(out_id) - written - most)
            if emit == ARRIVALS and sure >= k and unlike <= at < stop and time[at] < due and score[at] >= l_score[head]:
                unlike = broken(score, at, reached(time, min(due, time[at] + size), at, min(stop, at + free)))
                if unlike - at >= max(k, SHORT) and k <= end:
                    listed, written = risen(rows, at, unlike, num[SEEN], shape, ranked, page, listed, written)
                    at, raw, known, waits, best = unlike, unlike, 0, 0, -np.inf
                    head, sure, base, grown, peak = end - k, k, k, most_of(k), max(peak, k)
                    bar, oldest, now, done = l_score[end - 1], l_time[end - 1], time[at - 1], time[at - 1] + 1
                    continue
            if emit != ANSWERS and at < stop and not score[at] >= bar and time[at] < due:
                if due != edge_due:
                    edge, edge_due = at, due
                    if counts:  # where no position is missing it is there
                        edge = min(at + due - time[at] - 1, stop - 1)
                        if time[edge] >= due:
                            edge = at
                    edge = reached(time, due, edge, stop)
                at = passed(score, bar, at, edge)
            if emit == ARRIVALS and sure >= k + SHORT and (at == stop or time[at] >= due) and not num[LOST]:
                pause -= 1
                if pause < 0:
                    if counts:
                        left, at, listed, written = relieved(
                            rows, at, stop, upto, shape, ranked, head, sure, bar, page, listed, written
                        )
                        now = l_time[head + left - 1] + size if left > 0 else now
                    else:
                        left, at, listed, written = relieved_by_time(
                            rows, at, stop, num[SEEN], shape, ranked, head, sure, bar, page, listed, written
                        )
                        now = time[at - 1] if left > 0 else now
                    misses = min(2 * misses + 1, SELDOM) if left < SHORT else 0
                    pause = misses
                    if left > 0:
                        head, sure, oldest, done = head + left, sure - left, l_time[head + left], now + 1
                        continue
            now = time[at] if at < stop else FAR
            if counts:
                if emit != ANSWERS or (head == end and not shown):  # between these nothing changes
                    now = min(now, max(due, done))
                else:
                    now = done
                if now >= upto:
                    break
            elif at == stop:
                break
            if listed == len(steps) or written + most > len(out_id):
                why = PAGE
                break
            if head == 0:
                why = ROOM
                num[NEED] = 1
                break
            gone, rank = 0, k
            if due <= now:
                head, oldest, gone, sure = expired(l_score, l_time, l_mark, head, sure, k, now - size)
                gone += k * num[LOST]
                num[LOST] = 0
            if at < stop and time[at] == now:
                s = score[at]
                if s >= bar:  # never so without a score
                    rank = inserted(l_score, l_time, l_mark, head, head + sure, s, now, id[at] << 1)
                    entered[known] = at
                    head -= 1
                    sure += 1
                    known += 1
                    oldest = min(oldest, now)
                    peak = max(peak, end - head + waits)
                at += 1
            phase = 1
        if sure < k and bar > -np.inf:  # those that wait may reach the list
            if raw < at:
                take = True
                continue
            # soon again: the best leave one by one, and rows had better be taken in hand by the dozen
            spare = min(2 * spare, wide) if at - filled < 2 * spare else max(narrow, spare >> 1)
            filled = at
            count = end - head
            if waits > 0 and (count < k or best >= l_score[head + k - 1]):
                reach = l_score[head + min(k + spare, count) - 1] if count >= k else -np.inf
                few = 0
                for i in range(waits):
                    few += y_score[i] >= reach
                if count < k or few > max(8, count >> 3):
                    why = MERGE
                    break
                if head < few:
                    why = ROOM
                    num[NEED] = few
                    break
                left, best, above = 0, -np.inf, complete(l_score, head, min(k + spare, count), reach)
                for i in range(waits):
                    s, t, m = y_score[i], y_time[i], y_mark[i]
                    if s >= reach:
                        if t > now - size:
                            inserted(l_score, l_time, l_mark, head, head + above, s, t, m)
                            head -= 1
                            above += 1
                            oldest = min(oldest, t)
                    else:
                        y_score[left], y_time[left], y_mark[left] = s, t, m
                        best = max(best, s)
                        left += 1
                waits = left
                count = end - head
            if count < k:
                bar, sure = -np.inf, count
            else:
                bar = l_score[head + min(k + spare, count) - 1]
                if waits > 0:
                    bar = max(bar, np.nextafter(best, np.inf))
                sure = complete(l_score, head, k, bar)
        # what is told
        phase, done = 0, now + 1
        told = min(k, end - head)
        got = 0
        if emit == ARRIVALS:
            if rank < k and rank < k - gone:  # the row that came; those in front of the k-th are known
                i = head + rank
                l_mark[i] |= 1
                out_id[written], out_score[written], out_rank[written] = l_mark[i] >> 1, l_score[i], rank + 1
                got = 1
            for i in range(head + max(k - gone, 0), head + told):
                if not l_mark[i] & 1:
                    l_mark[i] |= 1
                    out_id[written + got], out_score[written + got] = l_mark[i] >> 1, l_score[i]
                    out_rank[written + got] = i - head + 1
                    got += 1
            tells = got > 0
        else:
            tells = (told > 0 or shown > 0) and (emit == ANSWERS or gone > 0 or rank < k)
            if tells:
                got = told
                for i in range(got):
                    out_id[written + i] = l_mark[head + i] >> 1
                    out_score[written + i] = l_score[head + i]
                shown = got > 0
        if tells:
            ends[listed] = now + 1
            steps[listed] = now + 1 if counts else num[SEEN] + at
            written += got
            listed += 1
            first[listed] = written
    if why == FINISHED:
        if counts:
            done = max(done, upto)
        elif raw < stop:
            done = time[stop - 1] + 1
    num[AT], num[RAW], num[HEAD], num[SURE], num[YOUNG] = at, raw, head, sure, waits
    num[OLDEST], num[DONE], num[SHOWN], num[PEAK], num[LISTED], num[WRITTEN] = (
        oldest,
        done,
        shown,
        peak,
        listed,
        written,
    )
    num[PHASE], num[NOW], num[GONE], num[RANK], real[BAR], real[BEST] = phase, now, gone, rank, bar, best
    num[KNOWN], num[BASE] = known, base
    return why


@inplace
def held(rows, shape, young, work, num, real):
    """Before the rows go away, take in hand those that were passed over; whether there was room."""
    score, time, id = rows
    y_score, y_time, y_mark = young
    heap, picked, entered = work
    at, waits, best = num[AT], num[YOUNG], real[BEST]
    low = reached(time, num[DONE] - shape.size, num[RAW], at)
    num[NEED] = 0
    found = gathered(
        score, time, id, low, at, shape.k, entered, num[KNOWN], heap, picked, y_score, y_time, y_mark, waits
    )  # fmt: skip
    if found >= 0:
        for i in range(waits, found):
            best = max(best, y_score[i])
        num[YOUNG], num[RAW], real[BEST] = found, at, best
    return found >= 0
