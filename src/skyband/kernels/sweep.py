"""Top-k over sliding windows for all groups at once: the loop over groups, windows and rows."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, kernel
from skyband.kernels.band import (
    AGES,
    FEW,
    MANY,
    appended,
    columns,
    copied,
    crowded,
    merged,
    put_in_front,
    roomy,
    roughly_merged,
    shifted,
    workroom,
)
from skyband.kernels.select import before, best_few, best_of, rises

NEVER, FOREVER = -(1 << 62), 1 << 62  # before all time, and after
# Where the group at hand stands: its place in the rows, its band, the page, the window that closes next.
AT, HEAD, SIZE, YOUNG, BASE, MOST, LISTED, WRITTEN, FULL, END, CUT, DONE, STEP, SHOWN, DUE = range(15)
# What has to be done before it goes on.
NOTHING, MERGE, ROOM = range(3)
_RISING, _NEAR = 64, 8  # so many fresh rows go into the band one by one where no more than so many others are better


class Rows(NamedTuple):
    """Columns ordered by group; those of group g are first[0, g] to first[1, g]."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    first: np.ndarray


class Shape(NamedTuple):
    """The query as numbers; slide 0 means after every row."""

    k: int
    size: int
    slide: int
    origin: int


class Marks(NamedTuple):
    """What each group remembers besides its band."""

    done: np.ndarray  # int64: windows that end by then are closed
    step: np.ndarray  # int64: windows closed, for those after every row: rows seen
    shown: np.ndarray  # bool: its last answer had rows
    ranked: np.ndarray  # int64: so many rows of its band are ranked; those behind came since the last merge


@kernel
def sweep(bands, marks, rows, upto, shape, page):
    """Close the windows that end by `upto[g]`, for each group g, as long as the page has room.

    Returns the new bands, how many lists and rows are on the page, the most rows kept at once, and whether
    there is more to do. `marks` is brought up to date in place and `rows.first` moved past what was taken, so
    that the same call with a new page goes on.
    """
    hand = (columns(FEW), columns(FEW), columns(2 * FEW))
    pick = (np.empty(0, np.float64), np.empty(0, np.int64))
    work = (np.empty(FEW, np.int64), np.empty(8 * FEW, np.int64))
    old = (bands.score, bands.time, bands.id)
    kept, first, total, peak = columns(max(len(bands.id), FEW)), np.empty((2, len(upto)), np.int64), 0, 0
    now = np.zeros(15, np.int64)
    for g in range(len(upto)):
        low, high, sure = bands.first[0, g], bands.first[1, g], marks.ranked[g]
        first[0, g] = total
        if not now[FULL] and (low < high or rows.first[0, g] < rows.first[1, g] or marks.shown[g]):
            hand = loaded(hand, old, low, high, sure)
            now[AT], now[HEAD], now[SIZE], now[YOUNG], now[MOST] = (
                rows.first[0, g],
                0,
                sure,
                high - low - sure,
                0,
            )
            now[END], now[DONE], now[STEP], now[SHOWN] = NEVER, marks.done[g], marks.step[g], marks.shown[g]
            hand, pick, work = advanced(hand, pick, work, rows, g, upto[g], shape, page, now)
            peak = max(peak, total + now[MOST] + len(bands.id) - high)
            ranks = now[SIZE] - now[HEAD]
            kept = roomy(kept, total, ranks + now[YOUNG])
            copied(hand[0], now[HEAD], ranks, kept, total)
            copied(hand[2], 0, now[YOUNG], kept, total + ranks)
            total += ranks + now[YOUNG]
            rows.first[0, g], marks.ranked[g] = now[AT], ranks
            marks.done[g], marks.step[g], marks.shown[g] = now[DONE], now[STEP], now[SHOWN] > 0
        else:
            kept = roomy(kept, total, high - low)
            copied(old, low, high - low, kept, total)
            total += high - low
        if not now[FULL]:
            marks.done[g] = max(marks.done[g], upto[g])
        first[1, g] = total
    new = Rows(kept[0][:total], kept[1][:total], kept[2][:total], first)
    return new, now[LISTED], now[WRITTEN], peak, now[FULL] > 0


@kernel
def advanced(hand, pick, work, rows, g, upto, shape, page, now):
    """One group: close its windows, and make room when the loop that does so runs out of it."""
    band, spare, fresh = hand
    best = np.full(1, -np.inf)  # the best fresh score
    for i in range(now[YOUNG]):
        best[0] = max(best[0], fresh[0][i])
    now[DUE], now[BASE] = NOTHING, now[SIZE]
    while True:
        closed(band, spare, fresh, pick, work, rows, g, upto, shape, page, now, best)
        if now[DUE] == NOTHING:
            return (band, spare, fresh), pick, work
        rest, total = min(shape.k, rows.first[1, g] - now[AT]), now[SIZE] - now[HEAD] + now[YOUNG]
        band = roomy(band, now[SIZE], now[YOUNG] + 2 + max(FEW, now[SIZE] // 2))
        spare = roomy(spare, 0, total)
        work = workroom(total, now[YOUNG])
        fresh = roomy(fresh, now[YOUNG], rest + max(FEW, now[SIZE] // 3))
        if rest == shape.k and len(pick[0]) == 0:
            pick = (np.empty(2 * shape.k, np.float64), np.empty(2 * shape.k, np.int64))


@kernel
def closed(band, spare, fresh, pick, work, rows, g, upto, shape, page, now, best):
    """Close windows until the rows end, the page is full, or more room is due.

    Every array has a name of its own here, and next to nothing that takes arrays is called: reading them out
    of tuples, handing them on or giving a name to another of them counts references, which costs more than all
    the rest.
    """
    k, length, slide, origin = shape
    score, time, id, _ = rows
    band_score, band_time, band_id = band
    spare_score, spare_time, spare_id = spare
    fresh_score, fresh_time, fresh_id = fresh
    pick_score, pick_place = pick
    order, count = work
    out_step, out_end, out_group, _, first, out_id, out_score, _ = page
    at, head, size, young, base, most = now[AT], now[HEAD], now[SIZE], now[YOUNG], now[BASE], now[MOST]
    listed, written, end, cut, done, step = (
        now[LISTED],
        now[WRITTEN],
        now[END],
        now[CUT],
        now[DONE],
        now[STEP],
    )
    shown, due, top, stop = now[SHOWN] > 0, now[DUE], best[0], rows.first[1, g]
    soon, clear = NEVER, 0  # the first `clear` rows of the band are alive as long as no window starts after `soon`
    if due == ROOM:
        due = NOTHING
    while True:
        # merge the fresh rows into the band, which is the minimal set afterwards
        if due == MERGE:
            if crowded(band_score, head, size, young, order, spare_score, count):
                break
            if size - head + young > MANY and 4 * (length // max(slide, 1)) > AGES:
                head, size = roughly_merged(band, head, size, fresh, young, order, spare, end - length, k, count)
            else:
                size = merged(
                    band_score, band_time, band_id, head, size, fresh_score, fresh_time, fresh_id, young, order,
                    spare_score, spare_time, spare_id, end - length, shape, count,
                )  # fmt: skip
                head = 0
            young, base, top, soon, due = 0, size - head, -np.inf, NEVER, NOTHING
            most = max(most, base)
        # which window closes next, and which rows come before that
        if end == NEVER:
            if slide > 0:
                start = opens(done, shape)
                if size == head and young == 0 and not shown:  # nothing is alive: on to where a row is
                    if at == stop:
                        break
                    start = max(start, opens(time[at], shape))
                end = start + length
                cut = before(time, end, at, stop) if at < stop and time[stop - 1] >= end else stop
            elif at < stop:
                end, cut = time[at] + 1, at + 1
                step += 1
            else:
                break
            most_rows = written + min(k, size - head + young + cut - at)
            if (slide == 0 or end <= upto) and (listed == len(out_step) or most_rows > len(out_id)):
                now[FULL] = 1  # undo: the next page begins with this window
                if slide > 0:
                    done = end - slide
                else:
                    step -= 1
                end = NEVER
                break
        start = end - length
        # of the rows before it, the k best of each pane gather
        while at < cut and due == NOTHING:
            upper = at + 1
            if slide > 0 and upper < cut:
                upper = before(time, origin + ((time[at] - origin) // slide + 1) * slide, at, cut)
            many = upper - at > k
            if young + min(upper - at, k) > len(fresh_id) or (many and len(pick_place) == 0):
                due = ROOM
                break
            if 4 * min(upper - at, k) > size - head:  # drop what has expired before adding much
                old, size, soon = size, head, NEVER
                for i in range(head, old):
                    t = band_time[i]
                    band_score[size], band_time[size], band_id[size] = band_score[i], t, band_id[i]
                    size += t >= start
            found, back = upper - at, False
            if many and k <= FEW // 8 and (found <= 4 * FEW or not rises(score, at, upper)):
                found, back = best_few(score, at, upper, k, pick_score, pick_place), True
            elif many:
                found = best_of(score, at, upper, k, pick_score, pick_place)
                back = pick_place[0] > pick_place[found - 1]
            # where scores fall, each row ranks last and is beaten by none: no merge is needed
            if young == 0 and size + found > len(band_id) and 2 * head >= size:  # back to where rows have expired
                shifted(band_score, band_time, band_id, head, size)
                head, size = 0, size - head
            falling, last = young == 0 and 0 < size - head and size + found <= len(band_id), np.inf
            if falling:
                last = band_score[size - 1]
            for j in range(found if falling else 0):
                s = score[pick_place[found - 1 - j if back else j] if many else at + j]
                if not s < last:
                    falling = False
                    break
                last = s
            if falling and not many:
                appended(band_score, band_time, band_id, size, score, time, id, at, found)
                size, soon, found = size + found, NEVER, 0
            for j in range(found):
                i = pick_place[found - 1 - j if back else j] if many else at + j
                s = score[i]
                if falling:
                    band_score[size], band_time[size], band_id[size] = s, time[i], id[i]
                    size, soon = size + 1, NEVER
                elif not np.isnan(s):  # otherwise a step without an object
                    fresh_score[young], fresh_time[young], fresh_id[young] = s, time[i], id[i]
                    top = max(top, s)
                    young += 1
            total = size - head + young
            if upper - at > 32 * total:  # beside the scan a merge is nothing: never keep more than it leaves
                due = MERGE
            else:
                most = max(most, total)
                if total > base + max(FEW // 8, base // 3):
                    due = MERGE
            at = upper
        if due == MERGE:
            continue
        if due == ROOM or (slide > 0 and end > upto):
            break
        # the answer: the first rows of the band, once what has expired among them is out
        if soon < start:
            while head < size and band_time[head] < start:  # where scores fall, the best are the oldest
                head += 1
            front, clear, soon = np.uint64(head), min(k, size - head), FOREVER
            for j in range(clear):
                soon = min(soon, band_time[front + np.uint64(j)])
        if soon < start:
            i, clear, soon = head, 0, FOREVER
            while i < size and clear < k:
                t = band_time[i]
                clear += t >= start
                soon = min(soon, t if t >= start else FOREVER)
                i += 1
            if clear < i - head:
                j = i
                while i > head:
                    i -= 1
                    t = band_time[i]
                    if t >= start:
                        j -= 1
                        band_score[j], band_time[j], band_id[j] = band_score[i], t, band_id[i]
                head = j
        if young > 0 and size - head < k:
            due = MERGE
            continue
        got = min(clear, k)
        if young > 0 and (got < k or top >= band_score[head + got - 1]):
            # a few fresh rows reach the answer: put them into the band, and let the others wait
            bar = band_score[head + got - 1] if got == k else -np.inf
            few, least = 0, np.inf
            for i in range(young):
                few += fresh_score[i] >= bar
                least = min(least, fresh_score[i] if fresh_score[i] >= bar else np.inf)
            # where scores rise they go in before nearly all others, which costs next to nothing
            rising = 4 < few <= _RISING and size - head > _NEAR and least >= band_score[head + _NEAR]
            # where the answer is a small part of the band, only that part is merged
            partly = 4 < few <= min(_RISING, len(order)) and not rising and got == k and 2 * (k + few) < size - head
            if size - head + few > base + max(FEW // 8, base // 3) or (few > 4 and not (rising or partly)):
                due = MERGE
                continue
            if (rising or partly) and head < few:  # room in front of the band
                gap = max(FEW, (size - head) // 2)
                if size - head + gap + few > len(band_id):
                    due = ROOM
                    break
                for i in range(size - 1, head - 1, -1):
                    j = i - head + gap
                    band_score[j], band_time[j], band_id[j] = band_score[i], band_time[i], band_id[i]
                head, size = gap, size - head + gap
            if size + few > len(band_id):
                due = ROOM
                break
            if partly:
                head -= few
                put_in_front(
                    band_score, band_time, band_id, head, fresh_score, fresh_time, fresh_id, young, bar, few, order
                )
            left, top = 0, -np.inf
            for i in range(young):
                s, t, r = fresh_score[i], fresh_time[i], fresh_id[i]
                if s >= bar and partly:  # it is there already
                    clear += 1
                    soon = min(soon, t)
                elif s >= bar:
                    if head > 0:  # what is better makes room: less than an answer
                        head -= 1
                        j = head
                        while j + 1 < size and band_score[j + 1] > s:
                            band_score[j], band_time[j], band_id[j] = (
                                band_score[j + 1],
                                band_time[j + 1],
                                band_id[j + 1],
                            )
                            j += 1
                    else:
                        j = size
                        size += 1
                        while j > head and band_score[j - 1] <= s:
                            band_score[j], band_time[j], band_id[j] = (
                                band_score[j - 1],
                                band_time[j - 1],
                                band_id[j - 1],
                            )
                            j -= 1
                    band_score[j], band_time[j], band_id[j] = s, t, r
                    clear += 1
                    soon = min(soon, t)
                else:
                    fresh_score[left], fresh_time[left], fresh_id[left] = s, t, r
                    top = max(top, s)
                    left += 1
            young = left
            continue
        for i in range(got):
            out_score[written + i] = band_score[head + i]
        for i in range(got):
            out_id[written + i] = band_id[head + i]
        if got > 0 or shown:  # an empty list says that the window has become empty
            out_step[listed] = (start - origin) // slide if slide > 0 else step
            out_end[listed] = end
            out_group[listed] = g
            listed += 1
            written += got
            first[listed] = written
            shown = got > 0
        if got == 0:
            head, size, soon = 0, 0, NEVER
        done, end = end, NEVER
    now[AT], now[HEAD], now[SIZE], now[YOUNG], now[BASE], now[MOST] = at, head, size, young, base, most
    now[LISTED], now[WRITTEN], now[END], now[CUT], now[DONE], now[STEP] = (
        listed,
        written,
        end,
        cut,
        done,
        step,
    )
    now[SHOWN], now[DUE], best[0] = shown, due, top


@inline
def opens(time, shape):
    """Where the first window begins that ends after `time`."""
    return shape.origin + ((time - shape.origin - shape.size) // shape.slide + 1) * shape.slide


@kernel
def loaded(hand, rows, low, high, size):
    """Take the band `rows[low:high]` in hand, of which `size` rows are ranked."""
    band, fresh = roomy(hand[0], 0, size), roomy(hand[2], 0, high - low - size)
    copied(rows, low, size, band, 0)
    copied(rows, low + size, high - low - size, fresh, 0)
    return (band, hand[1], fresh)


@kernel
def settled(bands, marks, shape):
    """The bands merged and pruned: exactly the minimal set of each group. `marks` is brought up to date."""
    hand = (columns(FEW), columns(FEW), columns(FEW))
    order, count = workroom(FEW, FEW)
    old = (bands.score, bands.time, bands.id)
    kept, first, total = columns(len(bands.id)), np.empty((2, len(marks.done)), np.int64), 0
    for g in range(len(marks.done)):
        low, high, sure = bands.first[0, g], bands.first[1, g], marks.ranked[g]
        first[0, g] = total
        if low < high:
            hand = loaded(hand, old, low, high, sure)
            new, fresh = high - low - sure, hand[2]
            band, spare = roomy(hand[0], sure, new + 2), roomy(hand[1], 0, high - low)
            if crowded(band[0], 0, sure, new, order, spare[0], count):
                order, count = workroom(high - low, new)
            start = opens(marks.done[g], shape) if shape.slide > 0 else marks.done[g] - shape.size
            score, time, id = band
            new_score, new_time, new_id = fresh
            to_score, to_time, to_id = spare
            size = merged(
                score, time, id, 0, sure, new_score, new_time, new_id, new, order,
                to_score, to_time, to_id, start, shape, count,
            )  # fmt: skip
            copied(band, 0, size, kept, total)
            total += size
            marks.ranked[g] = size
            hand = (band, spare, fresh)
        first[1, g] = total
    return Rows(kept[0][:total], kept[1][:total], kept[2][:total], first)
