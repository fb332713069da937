"""Top-k over sliding windows, for all groups: the loop over groups, windows and panes.

A row outside the k best of its own pane can be in no answer, so each pane is scanned for its k best, which are then
pending. They are merged into the band when an answer could need them, or when they are a third of it.

Cost: one comparison for nearly every row, O(log k) for the others, O(k) an answer.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace, kernel
from skyband.kernels.band import (
    AGES,
    lacks_memory,
    make_workspace,
    prune_approximately,
    prune_exact,
    with_memory,
)
from skyband.kernels.columns import MAX_TIME, MIN_TIME, Columns, copy_rows, empty_columns, reserve
from skyband.kernels.ranking import FEW, sort_by_score
from skyband.kernels.search import lower_bound
from skyband.kernels.select import looks_rising, select_best, select_few, selection

NOTHING, MERGE, MEMORY = range(3)  # what has to be done before windows can close
_MANY = 1024  # rows from which on the approximate prune is the faster one, if there are more panes than AGES / 4
_PROMOTED, _NEAR = 64, 8  # so many pending rows are promoted one by one where no more than so many others are better


class Rows(NamedTuple):
    """Columns ordered by group; those of group g are first[0, g] to first[1, g]."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    first: np.ndarray


class Shape(NamedTuple):
    """The query as numbers."""

    k: int
    size: int
    slide: int
    origin: int


class Marks(NamedTuple):
    """What is stored of each group besides its band."""

    done: np.ndarray  # int64: windows that end by then are closed
    step: np.ndarray  # int64: not used
    shown: np.ndarray  # bool: its last answer had rows
    ranked: np.ndarray  # int64: rows of its band that are ranked; those behind are pending


class SweepSlots(NamedTuple):
    """Slots of the state of the group at work."""

    row: int = 0  # the next row
    head: int = 1  # the band is from here ...
    tail: int = 2  # ... to here
    pending: int = 3  # pending rows
    merged: int = 4  # rows that the last merge left
    peak: int = 5  # candidates at once, at most
    lists: int = 6  # lists in the answer buffer
    rows: int = 7  # rows in the answer buffer
    full: int = 8  # whether the answer buffer is full
    end: int = 9  # end of the window that closes next, MIN_TIME: not known yet
    rows_end: int = 10  # its rows come before this one
    closed: int = 11  # windows that end by then are closed
    nonempty: int = 12  # whether the last answer had rows
    needs: int = 13  # what has to be done first
    live: int = 14  # so many rows at the head of the band have not expired ...
    live_until: int = 15  # ... in windows that start by then


S = SweepSlots()


@kernel
def sweep(bands, marks, rows, upto, shape, answers):
    """Close the windows that end by `upto[g]`, for each group g, while there is room for answers.

    Returns the new bands, the lists and rows in the answer buffer, the most candidates at once, and whether there is
    more to do. `marks` and `rows.first` are updated, so that the same call with another buffer continues.
    """
    work, picked = make_workspace(), selection(0)
    kept, first, total, peak = empty_columns(max(len(bands.id), FEW)), np.empty((2, len(upto)), np.int64), 0, 0
    state, best, old = np.zeros(len(S), np.int64), np.empty(1), Columns(bands.score, bands.time, bands.id)
    for g in range(len(upto)):
        low, high, ranked = bands.first[0, g], bands.first[1, g], marks.ranked[g]
        first[0, g] = total
        if not state[S.full] and (low < high or rows.first[0, g] < rows.first[1, g] or marks.shown[g]):
            n = high - low - ranked
            if _lacks_room(work, ranked, n):
                work = _with_room(work, ranked, n)
            _load(work, old, low, ranked, n, state, best)
            state[S.row], state[S.closed], state[S.nonempty] = rows.first[0, g], marks.done[g], marks.shown[g]
            while True:
                _close_windows(work, picked, rows, g, upto[g], shape, answers, state, best)
                if state[S.needs] == NOTHING:
                    break
                work, picked = _grow(work, picked, min(shape.k, rows.first[1, g] - state[S.row]), shape.k, state)
            peak = max(peak, total + state[S.peak] + len(bands.id) - high)
            ranked, n = state[S.tail] - state[S.head], state[S.pending]
            if total + ranked + n > len(kept.score):
                kept = reserve(kept, total, ranked + n)
            _store(work, kept, total, state)
            total += ranked + n
            rows.first[0, g], marks.ranked[g] = state[S.row], ranked
            marks.done[g], marks.shown[g] = state[S.closed], state[S.nonempty] > 0
        else:
            if total + high - low > len(kept.score):
                kept = reserve(kept, total, high - low)
            copy_rows(old, low, high - low, kept, total)
            total += high - low
        if not state[S.full]:
            marks.done[g] = max(marks.done[g], upto[g])
        first[1, g] = total
    new = Rows(kept.score[:total], kept.time[:total], kept.id[:total], first)
    return new, state[S.lists], state[S.rows], peak, state[S.full] > 0


# Attributes of a workspace are read in place only: elsewhere that counts references to all arrays of the tuple.


@inplace
def _lacks_room(work, ranked, n):
    return ranked > len(work.band.score) or n > len(work.pending.score)


@kernel
def _with_room(work, ranked, n):
    """Return a workspace with room for a band of `ranked` rows and n pending ones."""
    return with_memory(work, reserve(work.band, 0, ranked), reserve(work.pending, 0, n), ranked + n, n)


@inplace
def _load(work, rows, low, ranked, n, state, best):
    """Copy the band of a group, `ranked` rows from `low` on and n pending ones behind them, into the workspace."""
    copy_rows(rows, low, ranked, work.band, 0)
    copy_rows(rows, low + ranked, n, work.pending, 0)
    best[0] = -np.inf
    for i in range(n):
        best[0] = max(best[0], work.pending.score[i])
    state[S.head], state[S.tail], state[S.merged], state[S.pending] = 0, ranked, ranked, n
    state[S.peak], state[S.needs] = 0, NOTHING
    state[S.end] = state[S.live_until] = MIN_TIME


@inplace
def _store(work, to, at, state):
    """Copy the band of a group and its pending rows from the workspace to `at`."""
    ranked = state[S.tail] - state[S.head]
    copy_rows(work.band, state[S.head], ranked, to, at)
    copy_rows(work.pending, 0, state[S.pending], to, at + ranked)


@kernel
def _grow(work, picked, more, k, state):
    """Make room for `more` pending rows, to merge what there is, and to select the k best of a pane."""
    tail, n = state[S.tail], state[S.pending]
    band = reserve(work.band, tail, n + max(FEW, tail // 2))
    pending = reserve(work.pending, n, more + max(FEW, tail // 3))
    if more == k and len(picked.row) == 0:
        picked = selection(k)
    return with_memory(work, band, pending, tail - state[S.head] + n, n), picked


@inplace
def _close_windows(work, picked, rows, g, upto, shape, answers, state, best):
    """Close windows of one group until its rows end, the answer buffer is full, or more memory is needed.

    `best` holds the best score of the pending rows.
    """
    if state[S.needs] == MEMORY:
        state[S.needs] = NOTHING
    while True:
        if state[S.needs] == MERGE:
            if lacks_memory(work, state[S.tail] - state[S.head] + state[S.pending], state[S.pending]):
                return
            _merge(work, shape, state, best)
        if state[S.end] == MIN_TIME and not _next_window(rows, g, upto, shape, answers, state):
            return
        _take_panes(work, picked, rows, shape, state, best)
        if state[S.needs] == MERGE:
            continue
        if state[S.needs] == MEMORY or state[S.end] > upto:
            return
        _drop_expired(work.band, shape, state)
        if _promote(work, shape, state, best):
            if state[S.needs] == MEMORY:
                return
            continue
        _answer(work.band, g, shape, answers, state)


@inplace
def _merge(work, shape, state, best):
    """Merge the pending rows into the band, which is the minimal set afterwards, or little more."""
    k, size, slide, origin = shape
    head, tail, n, start = state[S.head], state[S.tail], state[S.pending], state[S.end] - size
    sort_by_score(work.pending.score, 0, n, work.order, work.sort)
    if tail - head + n > _MANY and 4 * (size // slide) > AGES and 0 < n and head < tail:
        out = prune_approximately(work, head, tail, n, 0, k, start)
        gap = min(FEW, len(work.band.score) - out)  # room at the head, for rows that are promoted
    else:
        out, gap = prune_exact(work, head, tail, n, 0, k, start, slide, origin), 0
    copy_rows(work.spare, 0, out, work.band, gap)
    state[S.head], state[S.tail], state[S.pending], state[S.merged] = gap, gap + out, 0, out
    state[S.peak] = max(state[S.peak], out)
    state[S.live_until], state[S.needs], best[0] = MIN_TIME, NOTHING, -np.inf


@inline
def _opening(time, shape):
    """Return the start of the first window that ends after `time`."""
    return shape.origin + ((time - shape.origin - shape.size) // shape.slide + 1) * shape.slide


@inline
def _next_window(rows, g, upto, shape, answers, state):
    """Find the window that closes next, and its rows. Return False if there is none, or no room for its answer."""
    row, stop, count = state[S.row], rows.first[1, g], state[S.tail] - state[S.head] + state[S.pending]
    start = _opening(state[S.closed], shape)
    if count == 0 and not state[S.nonempty]:  # no candidates: skip to the next row
        if row == stop:
            return False
        start = max(start, _opening(rows.time[row], shape))
    end, rows_end = start + shape.size, stop
    if row < stop and rows.time[stop - 1] >= end:
        rows_end = lower_bound(rows.time, end, row, stop)
    need = state[S.rows] + min(shape.k, count + rows_end - row)
    if end <= upto and (state[S.lists] == len(answers.step) or need > len(answers.id)):
        state[S.full], state[S.closed] = 1, end - shape.slide
        return False
    state[S.end], state[S.rows_end] = end, rows_end
    return True


@inline
def _take_panes(work, picked, rows, shape, state, best):
    """Let the k best rows of each pane before the end of the window be pending.

    Where scores fall, each row ranks last and no other beats it: rows go behind the band at once.
    """
    k, size, slide, origin = shape
    score, time, id, _ = rows
    band_score, band_time, band_id = work.band
    new_score, new_time, new_id = work.pending
    row, rows_end, head, tail, n = state[S.row], state[S.rows_end], state[S.head], state[S.tail], state[S.pending]
    start, merged, peak, top, needs = state[S.end] - size, state[S.merged], state[S.peak], best[0], NOTHING
    while row < rows_end and needs == NOTHING:
        upper = row + 1
        if upper < rows_end:
            upper = lower_bound(time, origin + ((time[row] - origin) // slide + 1) * slide, row, rows_end)
        found, many = upper - row, upper - row > k
        if n + min(found, k) > len(new_id) or (many and len(picked.row) == 0):
            needs = MEMORY
            break
        if 4 * min(found, k) > tail - head:  # drop what has expired before adding much
            old, tail, state[S.live_until] = tail, head, MIN_TIME
            for i in range(head, old):
                t = band_time[i]
                band_score[tail], band_time[tail], band_id[tail] = band_score[i], t, band_id[i]
                tail += t >= start
        last_first = False
        if many and k <= FEW // 8 and (found <= 4 * FEW or not looks_rising(score, row, upper)):
            found, last_first = select_few(score, row, upper, k, picked), True
        elif many:
            found = select_best(score, row, upper, k, picked)
            last_first = picked.row[0] > picked.row[found - 1]
        if n == 0 and tail + found > len(band_id) and 2 * head >= tail:  # move to where rows have expired
            _append(work.band, 0, work.band, head, tail - head)
            head, tail = 0, tail - head
        falling, last = n == 0 and 0 < tail - head and tail + found <= len(band_id), np.inf
        if falling:
            last = band_score[tail - 1]
        for j in range(found if falling else 0):
            s = score[picked.row[found - 1 - j if last_first else j] if many else row + j]
            if not s < last:
                falling = False
                break
            last = s
        if falling:
            state[S.live_until] = MIN_TIME
        if falling and not many:
            _append(work.band, tail, rows, row, found)
            tail, found = tail + found, 0
        for j in range(found):
            i = picked.row[found - 1 - j if last_first else j] if many else row + j
            s = score[i]
            if falling:
                band_score[tail], band_time[tail], band_id[tail] = s, time[i], id[i]
                tail += 1
            else:
                new_score[n], new_time[n], new_id[n] = s, time[i], id[i]
                top = max(top, s)
                n += 1
        count = tail - head + n
        if upper - row > 32 * count:  # a merge costs nothing beside the scan: never keep more than it leaves
            needs = MERGE
        else:
            peak = max(peak, count)
            if count > merged + max(FEW // 8, merged // 3):
                needs = MERGE
        row = upper
    state[S.row], state[S.head], state[S.tail], state[S.pending], state[S.peak] = row, head, tail, n, peak
    state[S.needs], best[0] = needs, top


@inplace
def _append(to, at, rows, low, n):
    """Copy n rows from `low` on to `at`, which may lie before them in the same columns."""
    begin, row = np.uint64(at), np.uint64(low)
    for i in range(n):
        to.score[begin + np.uint64(i)] = rows.score[row + np.uint64(i)]
    for i in range(n):
        to.time[begin + np.uint64(i)] = rows.time[row + np.uint64(i)]
    for i in range(n):
        to.id[begin + np.uint64(i)] = rows.id[row + np.uint64(i)]


@inline
def _drop_expired(band, shape, state):
    """Drop expired rows until the first k of the band are in the window."""
    start, head, tail, k = state[S.end] - shape.size, state[S.head], state[S.tail], shape.k
    if state[S.live_until] >= start:
        return
    while head < tail and band.time[head] < start:  # where scores fall, the best are the oldest
        head += 1
    front, live, until = np.uint64(head), min(k, tail - head), MAX_TIME
    for j in range(live):
        until = min(until, band.time[front + np.uint64(j)])
    if until < start:
        i, live, until = head, 0, MAX_TIME
        while i < tail and live < k:
            t = band.time[i]
            live += t >= start
            until = min(until, t if t >= start else MAX_TIME)
            i += 1
        if live < i - head:
            j = i
            while i > head:
                i -= 1
                t = band.time[i]
                if t >= start:
                    j -= 1
                    band.score[j], band.time[j], band.id[j] = band.score[i], t, band.id[i]
            head = j
    state[S.head], state[S.live], state[S.live_until] = head, live, until


@inline
def _promote(work, shape, state, best):
    """Put the pending rows that reach the answer into the band. Return False if none does.

    A few are inserted and the others stay pending; where they are many, a merge is needed.
    """
    k, n, head, tail = shape.k, state[S.pending], state[S.head], state[S.tail]
    if n == 0:
        return False
    band_score, band_time, band_id = work.band
    got = min(state[S.live], k)
    if tail - head >= k and got == k and best[0] < band_score[head + k - 1]:
        return False
    state[S.needs] = MERGE
    if tail - head < k:
        return True
    bound = band_score[head + got - 1] if got == k else -np.inf
    few, least = 0, np.inf
    for i in range(n):
        s = work.pending.score[i]
        few += s >= bound
        least = min(least, s if s >= bound else np.inf)
    # where scores rise they go in before nearly all others, which costs next to nothing
    rising = 4 < few <= _PROMOTED and tail - head > _NEAR and least >= band_score[head + _NEAR]
    # where the answer is a small part of the band, only that part is merged
    partly = 4 < few <= min(_PROMOTED, len(work.order)) and not rising and got == k and 2 * (k + few) < tail - head
    if tail - head + few > state[S.merged] + max(FEW // 8, state[S.merged] // 3):
        return True
    if few > 4 and not (rising or partly):
        return True
    state[S.needs] = MEMORY
    if (rising or partly) and head < few:  # room at the head of the band
        gap = max(FEW, (tail - head) // 2)
        if tail - head + gap + few > len(band_id):
            return True
        for i in range(tail - 1, head - 1, -1):
            j = i - head + gap
            band_score[j], band_time[j], band_id[j] = band_score[i], band_time[i], band_id[i]
        state[S.head], state[S.tail] = gap, tail - head + gap
    if state[S.tail] + few > len(band_id):
        return True
    state[S.needs] = NOTHING
    if partly:
        _merge_head(work, n, few, bound, state)
    _insert_promoted(work, bound, partly, state, best)
    return True


@inplace
def _merge_head(work, n, few, bound, state):
    """Merge those `few` of n pending rows that reach `bound` into the head of the band. O(n + few^2 + moves)."""
    score, time, id = work.band
    new_score, new_time, new_id = work.pending
    order, size = work.order, 0
    for i in range(n):
        if new_score[i] >= bound:
            j = size
            while j > 0 and new_score[order[j - 1]] <= new_score[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
            size += 1
    row = np.uint64(state[S.head])
    state[S.head] -= few
    at = np.uint64(state[S.head])
    for j in range(few):
        new = np.uint64(order[j])
        while score[row] > new_score[new]:  # ends: the last one reaches the bound, which a row of the band has
            score[at], time[at], id[at] = score[row], time[row], id[row]
            at += np.uint64(1)
            row += np.uint64(1)
        score[at], time[at], id[at] = new_score[new], new_time[new], new_id[new]
        at += np.uint64(1)


@inline
def _insert_promoted(work, bound, done, state, best):
    """Insert the pending rows that reach `bound` into the band, unless that is done; the others move together."""
    score, time, id = work.band
    new_score, new_time, new_id = work.pending
    head, tail, left, top = state[S.head], state[S.tail], 0, -np.inf
    for i in range(state[S.pending]):
        s, t, r = new_score[i], new_time[i], new_id[i]
        if s < bound:
            new_score[left], new_time[left], new_id[left] = s, t, r
            top = max(top, s)
            left += 1
            continue
        state[S.live] += 1
        state[S.live_until] = min(state[S.live_until], t)
        if done:
            continue
        if head > 0:  # what is better moves: less than an answer
            head -= 1
            j = head
            while j + 1 < tail and score[j + 1] > s:
                score[j], time[j], id[j] = score[j + 1], time[j + 1], id[j + 1]
                j += 1
        else:
            j = tail
            tail += 1
            while j > head and score[j - 1] <= s:
                score[j], time[j], id[j] = score[j - 1], time[j - 1], id[j - 1]
                j -= 1
        score[j], time[j], id[j] = s, t, r
    state[S.head], state[S.tail], state[S.pending], best[0] = head, tail, left, top


@inline
def _answer(band, g, shape, answers, state):
    """Write the first k rows of the band as the answer of the window, and close it."""
    head, listed, written, got = state[S.head], state[S.lists], state[S.rows], min(state[S.live], shape.k)
    for i in range(got):
        answers.score[written + i] = band.score[head + i]
    for i in range(got):
        answers.id[written + i] = band.id[head + i]
    if got > 0 or state[S.nonempty]:  # an empty list shows that the window has become empty
        answers.step[listed] = (state[S.end] - shape.size - shape.origin) // shape.slide
        answers.end[listed], answers.group[listed] = state[S.end], g
        answers.first[listed + 1] = written + got
        state[S.lists], state[S.rows], state[S.nonempty] = listed + 1, written + got, got > 0
    if got == 0:
        state[S.head], state[S.tail], state[S.live_until] = 0, 0, MIN_TIME
    state[S.closed], state[S.end] = state[S.end], MIN_TIME


@kernel
def settle(bands, marks, shape):
    """Merge and prune all bands: exactly the minimal set of each group. `marks` is updated."""
    work, old = make_workspace(), Columns(bands.score, bands.time, bands.id)
    state, best = np.empty(len(S), np.int64), np.empty(1)
    kept, first, total = empty_columns(len(bands.id)), np.empty((2, len(marks.done)), np.int64), 0
    for g in range(len(marks.done)):
        low, high, ranked = bands.first[0, g], bands.first[1, g], marks.ranked[g]
        first[0, g] = total
        if low < high:
            n = high - low - ranked
            work = _with_room(work, ranked, n)
            _load(work, old, low, ranked, n, state, best)
            sort_by_score(work.pending.score, 0, n, work.order, work.sort)
            start = _opening(marks.done[g], shape)
            size = prune_exact(work, 0, ranked, n, 0, shape.k, start, shape.slide, shape.origin)
            copy_rows(work.spare, 0, size, kept, total)
            total += size
            marks.ranked[g] = size
        first[1, g] = total
    return Rows(kept.score[:total], kept.time[:total], kept.id[:total], first)
