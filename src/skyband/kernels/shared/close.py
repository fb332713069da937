"""The loop over windows and rows: rows come in, windows close, answers go out."""

import numpy as np

from skyband.kernels._jit import bare, inlined, kernel
from skyband.kernels.band import FEW
from skyband.kernels.shared.room import (
    AT,
    BINNED,
    CALM,
    DEAD,
    DIES,
    DONE,
    DUE,
    EXACT,
    FOLD,
    FULL,
    KEPT,
    LAST,
    LISTED,
    MERGE,
    MOST,
    NOTHING,
    NOW,
    SEEN,
    SHELVES,
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
)  # fmt: skip
from skyband.kernels.shared.shelf import walked
from skyband.kernels.views import AFTER, noted, sunk

_FOLDS = 64  # ranked fresh rows that are worth a merge


@kernel
def closed(low, hot, shelves, heaps, sight, rows, g, upto, records, marks, page, now, gate, limit):
    """Take rows and close windows until all is done, the page is full, or something is due.

    `shelves` are ranked, `low` is in the order of arrival; `hot` are the places of those rows of `low` that reach the
    gate, best first. Every array has a name of its own here: reading them out of tuples counts references.
    """
    ks, lengths, slides, origins, least, most, moments, untils, numbers = records
    row_score, row_time, row_id, _, _ = rows
    shelf_score, shelf_id, shelf_pane, oldest, shelf_first = shelves
    low_score, low_time, low_id, low_pane = low
    view_at, view_end, view_k, _, _, _, _, _ = sight
    heap, ends, starting, starts = heaps
    lists, first, out_id, out_score = page
    shown, since = marks.shown, marks.since
    at, size, young, warm, peak, dead = now[AT], now[SIZE], now[YOUNG], now[WARM], now[MOST], now[DEAD]
    listed, written, done, last, dies, views = now[LISTED], now[WRITTEN], now[DONE], now[LAST], now[DIES], now[SIGHT]
    speaks, bar, lowest, stop, calm = now[SPEAKS], gate[0], gate[1], rows.first[1, g], now[CALM]
    now[DUE] = NOTHING
    upcoming, seen = starts[starting[0]], now[SEEN]
    while True:
        q = heap[0]
        end = ends[q]
        closing = end <= upto
        # the rows before it come in
        cut = stop
        if closing and at < stop and row_time[stop - 1] >= end:
            cut = reached(row_time, end, at, stop)
        while at < cut and size + young < limit:
            t = row_time[at]
            if t >= upcoming:  # windows have begun
                if views + len(ks) >= len(view_at):
                    now[DUE] = WIDER
                    break
                while t >= upcoming:
                    r = starting[0]
                    begin = origins[r] + (min(t, most[r] - 1) - origins[r]) // slides[r] * slides[r]
                    if begin + lengths[r] > t:
                        views = noted(view_at, view_end, view_k, views, t, begin + lengths[r], ks[r])
                        dies = max(dies, begin + lengths[r])
                    starts[r] = begin + slides[r] if begin + slides[r] < most[r] else AFTER
                    sunk(starting, starts)
                    upcoming = starts[starting[0]]
            if views == 0:  # no window sees it
                at += 1
                continue
            n = min(cut - at, limit - size - young)
            if row_time[at + n - 1] >= upcoming:
                n = reached(row_time, upcoming, at, at + n) - at
            hits = brought(
                row_score, row_time, row_id, at, n, low_score, low_time, low_id, low_pane, young, views - 1, bar
            )
            if hits > 0:
                for i in range(young, young + n):
                    s = low_score[i]
                    if s >= bar:
                        if warm == WARMEST or (warm >= _FOLDS and calm > 0 and at + i - young >= calm):
                            n, now[DUE] = i - young, FOLD
                            break
                        warm = warmed(hot, warm, low_score, s, i)
            at += n
            young += n
            if now[DUE] == FOLD:
                break
        peak = max(peak, size + young - dead)
        if at > rows.first[0, g]:
            seen = row_time[at - 1]
        if now[DUE] == FOLD:
            now[NOW] = min(end, upto + 1)
            if at < calm or calm <= 0:  # so many so soon: better to rank none until an answer asks for it
                now[DUE], bar = MERGE, np.inf
            break
        if now[DUE] == WIDER:
            break
        if at < cut:
            now[DUE], now[NOW] = THIN, min(end, upto + 1)
            break
        if not closing:
            break
        if end > dies and size + young > 0:  # nothing is alive
            size = young = dead = warm = views = 0
            limit, bar = FEW, np.inf
            now[KEPT] = now[EXACT] = 0
            now[BINNED] = -1
        k, number = ks[q], numbers[q]
        start = end - lengths[q]
        told = least[q] <= start < most[q]
        if moments[q] > 0 or untils[q] > 0:
            told &= moments[q] == 0 or max(start, 0) >= since[moments[q], g]
            told &= untils[q] == 0 or max(start, 0) < since[untils[q], g]
        got = 0
        if told and size + young > 0:
            if listed == lists.shape[1] or written + min(k, size + young) + STRIDE > len(out_id):
                now[FULL], done, last = 1, end, q
                break
            # its first view: rows of this pane or a later one are in the window
            view, over = 0, views
            while view < over:
                mid = (view + over) >> 1
                if view_at[mid] < start:
                    view = mid + 1
                else:
                    over = mid
            shelf = 0
            while shelf + 1 < SHELVES and oldest[shelf + 1] <= view:
                shelf += 1
            begins, stops = (shelf_first[shelf], shelf_first[shelf + 1]) if size > 0 else (0, 0)
            while True:
                got, i, j = 0, begins, 0
                while got < k and j < warm:
                    h = hot[j]
                    j += 1
                    if low_pane[h] < view:
                        continue
                    s, above, over = low_score[h], i, stops  # the ranked rows before it
                    while above < over:
                        mid = (above + over) >> 1
                        if shelf_score[mid] > s:
                            above = mid + 1
                        else:
                            over = mid
                    got = walked(shelf_score, shelf_id, shelf_pane, i, above, view, k, got, out_score, out_id, written)
                    i = above
                    if got < k:
                        out_score[written + got], out_id[written + got] = s, low_id[h]
                        got += 1
                if got < k:
                    got = walked(shelf_score, shelf_id, shelf_pane, i, stops, view, k, got, out_score, out_id, written)
                floor = out_score[written + k - 1] if got == k else -np.inf
                if floor >= bar:
                    break
                # rank the fresh rows that reach the answer; where they are many, merge them
                fits, before = got == k or young - dead <= FEW, warm
                if fits:
                    for i in range(young):
                        s = low_score[i]
                        if floor <= s < bar and low_pane[i] >= -1:
                            if warm == WARMEST:
                                fits = False
                                break
                            warm = warmed(hot, warm, low_score, s, i)
                if not fits:
                    now[DUE], now[NOW], bar = MERGE, end, np.inf
                    break
                bar = floor
                if warm == before:
                    break
            if now[DUE] == MERGE:
                break
            lowest = min(lowest, floor)
        if told and (got > 0 or shown[number, g]):  # an empty list says that the window has become empty
            if listed == lists.shape[1]:
                now[FULL], done, last = 1, end, q
                break
            lists[0, listed] = (start - origins[q]) // slides[q]
            lists[1, listed] = end
            lists[2, listed] = g
            lists[3, listed] = number
            listed += 1
            written += got
            first[listed] = written
            speaks += (got > 0) - np.int64(shown[number, g])
            shown[number, g] = got > 0
        done, last = end, q + 1
        ends[q] = end + slides[q]
        if size + young == 0:  # on to where a row is
            goal = row_time[at] if at < stop else upto
            reach = origins[q] + lengths[q]
            ends[q] = max(ends[q], reach + ((goal - reach) // slides[q] + 1) * slides[q])
        sunk(heap, ends)
    now[AT], now[SIZE], now[YOUNG], now[WARM], now[MOST], now[DEAD] = at, size, young, warm, peak, dead
    now[LISTED], now[WRITTEN], now[DONE], now[LAST], now[DIES], now[SIGHT] = listed, written, done, last, dies, views
    now[SPEAKS], now[SEEN], gate[0], gate[1] = speaks, seen, bar, lowest


@inlined
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


@bare
def brought(score, time, id, low, n, to_score, to_time, to_id, to_pane, at, pane, bar):
    """Copy `n` rows from `low` on to `at`; how many of them reach the bar."""
    hits = 0
    for i in range(n):
        to_score[np.uint64(at + i)] = score[np.uint64(low + i)]
        to_time[np.uint64(at + i)] = time[np.uint64(low + i)]
        to_id[np.uint64(at + i)] = id[np.uint64(low + i)]
        to_pane[np.uint64(at + i)] = pane
        hits += score[np.uint64(low + i)] >= bar
    return hits


@inlined
def warmed(hot, warm, score, s, place):
    """Put a fresh row in its place among those that are ranked; how many there are then."""
    j = warm
    while j > 0 and score[hot[j - 1]] <= s:
        hot[j] = hot[j - 1]
        j -= 1
    hot[j] = place
    return warm + 1
