"""The loop over windows and rows of one group: rows come in, windows close, answers go out."""

import numpy as np

from skyband.kernels._jit import inline, inplace
from skyband.kernels.ranking import FEW
from skyband.kernels.search import lower_bound
from skyband.kernels.shared.levels import walk, walk_above
from skyband.kernels.shared.memory import (
    INSERT,
    LEVELS,
    LOWEST,
    MAX_PROMOTED,
    NOTHING,
    PROMOTED,
    PRUNE,
    RESET,
    SEARCHED,
    STRIDE,
    THRESHOLD,
    VIEWS,
    S,
    pane_of,
)
from skyband.kernels.shared.views import UNLIMITED, add_view, replay
from skyband.kernels.simd import LANES, mask_ge

_ENOUGH = 64  # promoted rows that are worth an insertion


@inplace
def close_windows(work, views, source, g, upto):
    """Take rows and close windows until all is done, the answer buffer is full, or something else has to be done.

    `levels` have the ranked rows; `pending` is in the order of arrival, and so are the rows since `unread`. Those of
    them that reach the threshold are promoted.
    """
    state, scores, time = work.state, work.scores, source.rows.time
    first, stop = source.rows.first[0, g], source.rows.first[1, g]
    state[S.needs] = NOTHING
    state[S.searched], state[S.found], state[S.next_found] = state[S.row], 0, 0
    while True:
        q, end = work.ending.query[1], work.ending.key[1]
        cut = stop
        if end <= upto and state[S.row] < stop and time[stop - 1] >= end:
            cut = lower_bound(time, end, state[S.row], stop)
        _take_rows(work, views, source, cut, stop)
        total = _candidates(state)
        state[S.peak] = max(state[S.peak], total)
        if state[S.row] > first:
            state[S.seen] = time[state[S.row] - 1]
        if state[S.needs] == VIEWS:
            break
        if state[S.needs] == INSERT or state[S.row] < cut or end > upto:
            state[S.now] = min(end, upto + 1)
            if state[S.needs] == INSERT:
                if state[S.row] < state[S.pays_from] or state[S.pays_from] <= 0:  # so many so soon: not worth ranking
                    state[S.needs] = RESET
            elif state[S.row] < cut:
                state[S.needs] = PRUNE
            break
        if end > state[S.expiry] and total > 0:
            _drop_all(state, scores)
            total = 0
        start = end - source.queries.size[q]
        active = _is_active(source, q, g, start)
        if active and total > 0 and _lacks_room(source, q, total, state):
            _stop_at(state, end, q)
            break
        got = _answer(work, views, source, start, source.queries.k[q], total) if active and total > 0 else 0
        if state[S.needs] == RESET:
            state[S.now] = end
            break
        if active and (got > 0 or source.marks.shown[source.queries.number[q], g]):
            # an empty list says that the window has become empty
            if state[S.lists] == len(source.answers.step):
                _stop_at(state, end, q)
                break
            _write_list(source, q, g, end, got, state)
        state[S.closed], state[S.closed_queries] = end, q + 1
        empty = total == 0 or start > state[S.seen]
        after = _next_end(source, q, g, end, upto, stop, state) if empty else end + source.queries.slide[q]
        replay(work.ending, q, after)


@inline
def _stop_at(state, end, q):
    """Note that there is no room for the answer of query q to the window that ends here."""
    state[S.full], state[S.now], state[S.closed], state[S.closed_queries] = 1, end, end, q


@inline
def _candidates(state):
    fresh = state[S.row] - state[S.unread] - state[S.unread_gaps]
    return state[S.ranked] + state[S.pending] - state[S.gaps] + state[S.promoted] + fresh


@inline
def _drop_all(state, scores):
    """Forget all rows: no window that holds one is open."""
    state[S.ranked] = state[S.pending] = state[S.gaps] = state[S.promoted] = state[S.unread_gaps] = 0
    state[S.views] = state[S.found] = state[S.next_found] = state[S.kept] = state[S.minimal] = state[S.pruned] = 0
    state[S.unread] = state[S.searched] = state[S.row]
    state[S.classified] = state[S.counted] = -1
    state[S.limit], scores[THRESHOLD] = FEW, np.inf


# ------------------------------------------------------------ rows come in


@inline
def _take_rows(work, views, source, cut, stop):
    """Take the rows before `cut`, up to the limit of candidates: open windows, promote rows."""
    state, time = work.state, source.rows.time
    while state[S.row] < cut and state[S.needs] == NOTHING:
        row = state[S.row]
        if time[row] >= work.starting.key[1]:
            if state[S.views] + len(source.queries.k) >= len(views.at):
                state[S.needs] = VIEWS
                continue
            _open_windows(work, views, source.queries, time[row])
        if state[S.views] == 0:  # no window sees it, nor any before it
            state[S.row] = state[S.unread] = row + 1
            continue
        n = min(cut - row, state[S.limit] - _candidates(state))
        if n <= 0:
            break
        if time[row + n - 1] >= work.starting.key[1]:
            n = lower_bound(time, work.starting.key[1], row, row + n) - row
        _promote_rows(work, source.rows, row + n, stop)


@inline
def _open_windows(work, views, queries, time):
    """Add the views of windows that have begun at this time."""
    state, starting = work.state, work.starting
    while time >= starting.key[1]:
        q, begin = starting.query[1], starting.key[1]
        size, slide, origin, high = queries.size[q], queries.slide[q], queries.origin[q], queries.high[q]
        if time - begin >= slide:  # only the last one that has begun
            begin = origin + (min(time, high - 1) - origin) // slide * slide
        if begin + size > time:
            state[S.views] = add_view(views, state[S.views], time, begin + size, queries.k[q])
            state[S.expiry] = max(state[S.expiry], begin + size)
        after = begin + slide
        replay(starting, q, after if after < high else UNLIMITED)


@inline
def _promote_rows(work, rows, goal, stop):
    """Take the rows before `goal`, and promote those that reach the threshold; fewer if too many are promoted."""
    state, found = work.state, work.found
    while True:
        if state[S.next_found] == state[S.found]:
            low = max(state[S.searched], state[S.row])
            if low >= goal:
                break
            state[S.searched] = min(low + SEARCHED, stop)
            state[S.found] = _search(rows.score, low, state[S.searched], work.scores[THRESHOLD], found)
            state[S.next_found] = 0
            continue
        i = int(found[state[S.next_found]])
        if i >= goal:
            break
        if state[S.promoted] == MAX_PROMOTED or (state[S.promoted] >= _ENOUGH and 0 < state[S.pays_from] <= i):
            goal, state[S.needs] = i, INSERT
            break
        state[S.promoted] = promote(
            work.promoted, state[S.promoted], rows.score[i], rows.time[i], rows.id[i], state[S.views] - 1
        )
        state[S.unread_gaps] += 1
        state[S.next_found] += 1
    state[S.row] = goal


@inplace
def _search(score, low, high, threshold, found):
    """Fill `found` with the rows from `low` to `high` that reach the threshold. Return their number."""
    row, stop, out = np.uint64(low), np.uint64(high), np.uint64(0)
    while row < stop:
        if row + np.uint64(LANES) <= stop and mask_ge(score, row, threshold) == np.uint64(0):  # mostly
            row += np.uint64(LANES)
            continue
        for _ in range(min(np.uint64(LANES), stop - row)):
            found[out] = row
            out += np.uint64(score[row] >= threshold)
            row += np.uint64(1)
    return np.int64(out)


@inplace
def promote(promoted, n, score, time, id, pane):
    """Insert a row into n promoted ones, before its equals. Return their number."""
    to_score, to_time, to_id, to_pane = promoted
    j = n
    while j > 0 and to_score[j - 1] <= score:
        to_score[j], to_time[j], to_id[j], to_pane[j] = to_score[j - 1], to_time[j - 1], to_id[j - 1], to_pane[j - 1]
        j -= 1
    to_score[j], to_time[j], to_id[j], to_pane[j] = score, time, id, pane
    return n + 1


# ------------------------------------------------------------ windows close


@inline
def _is_active(source, q, g, start):
    """Return whether query q answers a window of this group that starts here."""
    queries, since = source.queries, source.marks.since
    active = queries.low[q] <= start < queries.high[q]
    if queries.moment[q] > 0 or queries.until[q] > 0:
        active &= queries.moment[q] == 0 or max(start, 0) >= since[queries.moment[q], g]
        active &= queries.until[q] == 0 or max(start, 0) < since[queries.until[q], g]
    return active


@inline
def _lacks_room(source, q, total, state):
    answers = source.answers
    rows = state[S.rows] + min(source.queries.k[q], total) + STRIDE
    return state[S.lists] == len(answers.step) or rows > len(answers.id)


@inline
def _answer(work, views, source, start, k, total):
    """Write the k best rows since `start` behind the answers. Return their number.

    Pending rows that reach the answer are promoted. Where they are many, all rows have to be ranked first: RESET.
    """
    state, scores, levels, rows = work.state, work.scores, work.levels, source.rows
    answer, at = (source.answers.score, source.answers.id), state[S.rows]
    level = 0
    while level + 1 < LEVELS and levels.oldest[level + 1] <= start:
        level += 1
    low, high = (levels.first[level], levels.first[level + 1]) if state[S.ranked] > 0 else (0, 0)
    while True:
        got = _walk_both(work.promoted, state[S.promoted], levels, low, high, start, k, answer, at)
        floor = answer[0][at + k - 1] if got == k else -np.inf
        if floor >= scores[THRESHOLD]:
            break
        more = MAX_PROMOTED + 1
        if got == k or total - state[S.ranked] - state[S.promoted] <= FEW:
            more = _count_pending(work.pending, state[S.pending], floor, scores[THRESHOLD])
            more += _count_rows(rows.score, state[S.unread], state[S.row], floor, scores[THRESHOLD])
        if state[S.promoted] + more > MAX_PROMOTED:
            state[S.needs] = RESET
            break
        if more > 0:
            _promote_between(work, views, rows, floor, scores[THRESHOLD])
        scores[THRESHOLD] = floor
        state[S.searched], state[S.found], state[S.next_found] = state[S.row], 0, 0
        if more == 0:
            break
    if state[S.needs] != RESET:
        scores[LOWEST] = min(scores[LOWEST], floor)
    return got


@inplace
def _walk_both(promoted, n, levels, low, high, start, k, answer, at):
    """Write the k best of n promoted rows and a level, since `start`. Return their number."""
    got, i, j = 0, low, 0
    while got < k and j < n:
        if promoted.time[j] >= start:
            got, i = walk_above(levels, i, high, start, k, got, answer, at, promoted.score[j])
            if got < k:
                answer[0][at + got], answer[1][at + got] = promoted.score[j], promoted.id[j]
                got += 1
        j += 1
    return walk(levels, i, high, start, k, got, answer, at) if got < k else got


@inplace
def _count_rows(score, low, high, floor, threshold):
    """Count the rows from `low` to `high` that reach the floor and not the threshold."""
    count = 0
    for i in range(low, high):
        count += int((score[i] >= floor) & (score[i] < threshold))
    return count


@inplace
def _count_pending(pending, size, floor, threshold):
    """Count the pending rows that reach the floor and not the threshold, and were not promoted."""
    score, _, _, pane = pending
    count = 0
    for i in range(size):
        count += int((score[i] >= floor) & (score[i] < threshold) & (pane[i] != PROMOTED))
    return count


@inplace
def _promote_between(work, views, rows, floor, threshold):
    """Promote the rows that reach the floor and not the threshold."""
    state, n = work.state, work.state[S.promoted]
    score, time, id, pane = work.pending
    for i in range(state[S.pending]):
        if floor <= score[i] < threshold and pane[i] != PROMOTED:
            n = promote(work.promoted, n, score[i], time[i], id[i], pane[i])
            pane[i] = PROMOTED
            state[S.gaps] += 1
    for i in range(state[S.unread], state[S.row]):
        if floor <= rows.score[i] < threshold:
            its = pane_of(views, state[S.views], rows.time[i])
            n = promote(work.promoted, n, rows.score[i], rows.time[i], rows.id[i], its)
            state[S.unread_gaps] += 1
    state[S.promoted] = n


@inline
def _write_list(source, q, g, end, got, state):
    """Add a list of `got` rows, which were written, to the answers."""
    answers, queries, shown = source.answers, source.queries, source.marks.shown
    listed, number = state[S.lists], queries.number[q]
    answers.step[listed] = (end - queries.size[q] - queries.origin[q]) // queries.slide[q]
    answers.end[listed], answers.group[listed], answers.query[listed] = end, g, number
    state[S.lists] += 1
    state[S.rows] += got
    answers.first[listed + 1] = state[S.rows]
    state[S.shown] += (got > 0) - np.int64(shown[number, g])
    shown[number, g] = got > 0


@inline
def _next_end(source, q, g, end, upto, stop, state):
    """Return the end of the next window of query q that holds a row or must be answered; this one holds none."""
    queries, rows = source.queries, source.rows
    size, slide, origin = queries.size[q], queries.slide[q], queries.origin[q]
    goal = rows.time[state[S.row]] if state[S.row] < stop else upto
    whole = origin + size
    if source.marks.shown[queries.number[q], g] and end - size < queries.low[q]:
        # an empty list is due, in its first window that is answered
        goal = min(goal, whole - (origin - queries.low[q]) // slide * slide - 1)
    return max(end + slide, whole + ((goal - whole) // slide + 1) * slide)
