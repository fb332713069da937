"""The loop over windows and rows: rows come in, windows close, answers go out."""

import numpy as np

from skyband.kernels._jit import inline, inplace
from skyband.kernels.ranking import FEW
from skyband.kernels.shared.room import (
    AHEAD,
    ANEW,
    AT,
    BINNED,
    CALM,
    COUNTED,
    DEAD,
    DIES,
    DONE,
    DUE,
    EVEN,
    EXACT,
    FOLD,
    FULL,
    GONE,
    KEPT,
    LAST,
    LISTED,
    LIT,
    MOST,
    NOTHING,
    NOW,
    RAW,
    SEEN,
    SHELVES,
    SIEVED,
    SIGHT,
    SIZE,
    SPEAKS,
    STRIDE,
    THIN,
    WARM,
    WARMEST,
    WIDER,
    WRITTEN,
    YOUNG,
    seen,
)  # fmt: skip
from skyband.kernels.shared.shelf import walked, walked_to
from skyband.kernels.simd import LANES, mask_ge
from skyband.kernels.views import AFTER, noted, rematched

_FOLDS = 64  # ranked fresh rows that are worth a merge


@inplace
def closed(low, hot, found, shelves, matches, sight, rows, g, upto, records, marks, page, now, gate, limit):
    """Take rows and close windows until all is done, the page is full, or something is due.

    `shelves` are ranked, `low` is in the order of arrival, and so are the rows since `RAW`, which nobody has touched
    yet. `hot` are those of them that reach the gate, best first; they are in `low` no more.
    """
    ks, lengths, slides, origins, least, most, moments, untils, numbers = records
    row_score, row_time, row_id, _, row_first = rows
    shelf_score, shelf_id, shelf_time, oldest, shelf_first = shelves
    low_score, low_time, low_id, low_pane = low
    hot_score, hot_time, hot_id, hot_pane = hot
    view_at, view_end, view_k, _, _, _, _, _ = sight
    ending, ends, starting, starts = matches
    leaves = len(ending) >> 1
    out_step, out_end, out_group, out_query, first, out_id, out_score, _ = page
    shown, since = marks.shown, marks.since
    at, size, young, warm, peak, dead = now[AT], now[SIZE], now[YOUNG], now[WARM], now[MOST], now[DEAD]
    listed, written, done, last, dies, views = now[LISTED], now[WRITTEN], now[DONE], now[LAST], now[DIES], now[SIGHT]
    speaks, bar, lowest, calm = now[SPEAKS], gate[0], gate[1], now[CALM]
    raw, lit, begins_at, stop = now[RAW], now[LIT], row_first[0, g], row_first[1, g]
    # hot rows of those up to `sought`: `next_found` of `all_found` come next
    sought, next_found, all_found = at, 0, 0
    # times without gaps need not be looked up: the memory they are in is far
    even, zero = now[EVEN] > 0, row_time[stop - 1] - (stop - 1) if stop > begins_at else 0
    now[DUE] = NOTHING
    upcoming, latest = starts[1], now[SEEN]
    while True:
        q, end = ending[1], ends[1]
        closing = end <= upto
        # the rows before it come in
        cut = stop
        if closing and at < stop and timed(row_time, stop - 1, even, zero) >= end:
            cut = max(at, end - zero) if even else reached(row_time, end, at, stop)
        while at < cut:
            t = timed(row_time, at, even, zero)
            if t >= upcoming:  # windows have begun
                if views + len(ks) >= len(view_at):
                    now[DUE] = WIDER
                    break
                while t >= upcoming:
                    r, begin = starting[1], upcoming
                    if t - begin >= slides[r]:  # only the last one that has begun
                        begin = origins[r] + (min(t, most[r] - 1) - origins[r]) // slides[r] * slides[r]
                    if begin + lengths[r] > t:
                        views = noted(view_at, view_end, view_k, views, t, begin + lengths[r], ks[r])
                        dies = max(dies, begin + lengths[r])
                    after = begin + slides[r]
                    rematched(starting, starts, leaves, r, after if after < most[r] else AFTER)
                    upcoming = starts[1]
            if views == 0:  # no window sees it, nor any before it
                at += 1
                raw = at
                continue
            n = min(cut - at, limit - (size + young - dead + warm + at - raw - lit))
            if n <= 0:
                break
            if timed(row_time, at + n - 1, even, zero) >= upcoming:
                n = upcoming - zero - at if even else reached(row_time, upcoming, at, at + n) - at
            goal = at + n
            while True:  # those that reach the gate are ranked
                if next_found == all_found:
                    sought = max(sought, at)
                    if sought >= goal:
                        break
                    ahead = min(sought + AHEAD, stop)
                    all_found, next_found = looked_for(row_score, sought, ahead, bar, found), 0
                    sought = ahead
                    continue
                i = int(found[next_found])
                if i >= goal:
                    break
                if warm == WARMEST or (warm >= _FOLDS and calm > 0 and i >= calm):
                    goal, now[DUE] = i, FOLD
                    break
                warm = warmed(
                    hot_score, hot_time, hot_id, hot_pane, warm, row_score[i], row_time[i], row_id[i], views - 1
                )
                lit += 1
                next_found += 1
            at = goal
            if now[DUE] == FOLD:
                break
        total = size + young - dead + warm + at - raw - lit
        peak = max(peak, total)
        if at > begins_at:
            latest = timed(row_time, at - 1, even, zero)
        if now[DUE] == FOLD:
            now[NOW] = min(end, upto + 1)
            if at < calm or calm <= 0:  # so many so soon: better to rank none until an answer asks for it
                now[DUE] = ANEW
            break
        if now[DUE] == WIDER:
            break
        if at < cut:
            now[DUE], now[NOW] = THIN, min(end, upto + 1)
            break
        if not closing:
            now[NOW] = upto + 1
            break
        if end > dies and total > 0:  # nothing is alive
            size = young = dead = warm = lit = views = total = 0
            raw = sought = at
            next_found = all_found = 0
            limit, bar = FEW, np.inf
            now[KEPT] = now[EXACT] = now[SIEVED] = 0
            now[BINNED] = now[COUNTED] = -1
        k, number = ks[q], numbers[q]
        start = end - lengths[q]
        told = least[q] <= start < most[q]
        if moments[q] > 0 or untils[q] > 0:
            told &= moments[q] == 0 or max(start, 0) >= since[moments[q], g]
            told &= untils[q] == 0 or max(start, 0) < since[untils[q], g]
        got = 0
        if told and total > 0:
            if listed == len(out_step) or written + min(k, total) + STRIDE > len(out_id):
                now[FULL], now[NOW], done, last = 1, end, end, q
                break
            shelf = 0
            while shelf + 1 < SHELVES and oldest[shelf + 1] <= start:
                shelf += 1
            begins, stops = (shelf_first[shelf], shelf_first[shelf + 1]) if size > 0 else (0, 0)
            while True:
                got, i, j = 0, begins, 0
                while got < k and j < warm:
                    if hot_time[j] >= start:
                        got, i = walked_to(
                            shelf_score, shelf_id, shelf_time, i, stops, start, k, got, out_score, out_id, written,
                            hot_score[j],
                        )  # fmt: skip
                        if got < k:
                            out_score[written + got], out_id[written + got] = hot_score[j], hot_id[j]
                            got += 1
                    j += 1
                if got < k:
                    got = walked(shelf_score, shelf_id, shelf_time, i, stops, start, k, got, out_score, out_id, written)
                floor = out_score[written + k - 1] if got == k else -np.inf
                if floor >= bar:
                    break
                # rank the fresh rows that reach the answer; where they are many, merge them
                more = WARMEST + 1
                if got == k or total - size - warm <= FEW:
                    more = between(low_score, low_pane, young, floor, bar)
                    more += between_rows(row_score, raw, at, floor, bar)
                if warm + more > WARMEST:
                    now[DUE], now[NOW] = ANEW, end
                    break
                if more > 0:
                    for i in range(young):
                        if floor <= low_score[i] < bar and low_pane[i] != GONE:
                            warm = warmed(
                                hot_score, hot_time, hot_id, hot_pane, warm, low_score[i], low_time[i], low_id[i],
                                low_pane[i],
                            )  # fmt: skip
                            low_pane[i] = GONE
                            dead += 1
                    for i in range(raw, at):
                        if floor <= row_score[i] < bar:
                            warm = warmed(
                                hot_score, hot_time, hot_id, hot_pane, warm, row_score[i], row_time[i], row_id[i],
                                seen(view_at, views, row_time[i]),
                            )  # fmt: skip
                            lit += 1
                bar, sought, next_found, all_found = floor, at, 0, 0
                if more == 0:
                    break
            if now[DUE] == ANEW:
                break
            lowest = min(lowest, floor)
        if told and (got > 0 or shown[number, g]):  # an empty list says that the window has become empty
            if listed == len(out_step):
                now[FULL], now[NOW], done, last = 1, end, end, q
                break
            out_step[listed] = (start - origins[q]) // slides[q]
            out_end[listed] = end
            out_group[listed] = g
            out_query[listed] = number
            listed += 1
            written += got
            first[listed] = written
            speaks += (got > 0) - np.int64(shown[number, g])
            shown[number, g] = got > 0
        done, last = end, q + 1
        after = end + slides[q]
        if total == 0 or start > latest:  # it holds no row: on to where one is
            goal = timed(row_time, at, even, zero) if at < stop else upto
            whole = origins[q] + lengths[q]
            if shown[number, g] and start < least[q]:  # it has yet to say so, in its first window that is told
                goal = min(goal, whole - (origins[q] - least[q]) // slides[q] * slides[q] - 1)
            after = max(after, whole + ((goal - whole) // slides[q] + 1) * slides[q])
        rematched(ending, ends, leaves, q, after)
    now[AT], now[SIZE], now[YOUNG], now[WARM], now[MOST], now[DEAD] = at, size, young, warm, peak, dead
    now[LISTED], now[WRITTEN], now[DONE], now[LAST], now[DIES], now[SIGHT] = listed, written, done, last, dies, views
    now[SPEAKS], now[SEEN], gate[0], gate[1] = speaks, latest, bar, lowest
    now[RAW], now[LIT] = raw, lit


@inline
def timed(time, row, even, zero):
    """The time of a row."""
    return zero + row if even else time[row]


@inline
def reached(time, goal, low, high):
    """The first place from `low` on that is not before `goal`: near, as a rule. O(log distance)."""
    step, below = 8, low
    while below + step < high and time[below + step] < goal:
        below += step
        step += step
    above = min(below + step, high)
    while below < above:
        mid = (below + above) >> 1
        if time[mid] < goal:
            below = mid + 1
        else:
            above = mid
    return below


@inplace
def looked_for(score, low, high, bar, found):
    """Fill `found` with the rows from `low` to `high` that reach the bar; how many there are."""
    row, stop, out = np.uint64(low), np.uint64(high), np.uint64(0)
    while row < stop:
        if row + np.uint64(LANES) <= stop and mask_ge(score, row, bar) == np.uint64(0):  # few do
            row += np.uint64(LANES)
            continue
        for _ in range(min(np.uint64(LANES), stop - row)):
            found[out] = row
            out += np.uint64(score[row] >= bar)
            row += np.uint64(1)
    return np.int64(out)


@inplace
def between_rows(score, low, high, floor, bar):
    """How many rows from `low` to `high` reach the floor and not the bar."""
    count = 0
    for i in range(low, high):
        count += int((score[i] >= floor) & (score[i] < bar))
    return count


@inplace
def between(score, pane, size, floor, bar):
    """As `between_rows`, for rows that may have moved on."""
    count = 0
    for i in range(size):
        count += int((score[i] >= floor) & (score[i] < bar) & (pane[i] != GONE))
    return count


@inplace
def warmed(hot_score, hot_time, hot_id, hot_pane, warm, score, time, id, pane):
    """Put a fresh row in its place among those that are ranked; how many there are then."""
    j = warm
    while j > 0 and hot_score[j - 1] <= score:
        hot_score[j], hot_time[j], hot_id[j], hot_pane[j] = (
            hot_score[j - 1],
            hot_time[j - 1],
            hot_id[j - 1],
            hot_pane[j - 1],
        )
        j -= 1
    hot_score[j], hot_time[j], hot_id[j], hot_pane[j] = score, time, id, pane
    return warm + 1
