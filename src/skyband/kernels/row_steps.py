"""Top-k after every row: the loop over the rows of one group, which looks closely at few of them.

No answer changes while no row reaches the threshold and none of the k best expires, so rows below it are skipped. When
fewer than k rows of the band are above it, the skipped rows that fewer than k later ones beat become pending; pending
rows enter the band if they reach the answer, and the threshold falls.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, inplace
from skyband.kernels.band import Workspace
from skyband.kernels.columns import MAX_TIME, MIN_TIME
from skyband.kernels.row_band import BEST, THRESHOLD, R, count_reaching, drop_expired, insert, unbeaten
from skyband.kernels.row_runs import RUN, append_falling, replace_expired, replace_expired_by_time, take_rising
from skyband.kernels.search import end_of_rise, is_falling, lower_bound, next_reaching

ANSWERS, CHANGES, ARRIVALS = range(3)  # emit every list, those that differ from the one before, or each row once
FINISHED, ANSWERS_FULL, MEMORY, MERGE, GO, AGAIN = range(6)  # why the loop returns, or what it does next
_LEAST = 16  # so many more rows than after the last merge may be kept in any case
_SELDOM = 63  # steps from one look for a run to the next where there are none
_WIDE = 8  # the band may have so many times more to spare where rows enter or leave it all the time


class RowShape(NamedTuple):
    """The query as numbers."""

    k: int
    size: int
    spare: int  # so many more than k rows are above the threshold when it is set
    counts: bool  # a step for every position; otherwise for every row
    emit: int
    most: int  # rows of an answer, at most


class RowWorkspace(NamedTuple):
    """Memory for one group."""

    space: Workspace
    heap: np.ndarray  # the k best scores after a row
    picked: np.ndarray  # rows that become pending
    entered: np.ndarray  # skipped rows that have entered the band


@inline
def most_rows(merged):
    """Return how many rows may be kept before the next merge, if the last one left so many."""
    return merged + max(np.int64(_LEAST), merged >> 1)


@inplace
def run_steps(work, rows, stop, upto, shape, answers, state, real):
    """Take the rows up to `stop`, a step for each, or for each position before `upto`. Return why it stopped."""
    for slot in (R.filled, R.next_run):
        state[slot] = state[R.row]
    state[R.pause], state[R.misses], state[R.spare], state[R.edge_time] = 0, 0, shape.spare, MIN_TIME
    why = GO
    while why in (GO, AGAIN):
        if state[R.gather] and not _gather(work, rows, shape, state, real):
            return MEMORY
        if not state[R.begun]:
            why = _prepare(work, rows, stop, upto, shape, answers, state, real)
            if why == GO:
                why = _begin_step(work, rows, stop, upto, shape, answers, state, real)
            if why != GO:
                continue
        if state[R.above] < shape.k and real[THRESHOLD] > -np.inf:
            why = _refill(work, shape, state, real)
            if why != GO:
                continue
        _report(work.space.band, shape, answers, state)
    if why == FINISHED:
        if shape.counts:
            state[R.done] = max(state[R.done], upto)
        elif state[R.skipped] < stop:
            state[R.done] = rows.time[stop - 1] + 1
    return why


@inline
def _gather(work, rows, shape, state, real):
    """Let the skipped rows that fewer than k later ones beat be pending. Return False if there is no room."""
    score, time, _, _ = rows
    band, at = work.space.band, state[R.row]
    end, head = len(band.score), state[R.head]
    low = lower_bound(time, state[R.now] - shape.size + 1, state[R.skipped], at)
    count, more = end - head, at - low
    fresh = state[R.above] < shape.k and state[R.entered] == 0 and state[R.pending] == 0
    if fresh and low < at and not np.isnan(score[low]) and (count == 0 or score[low] < band.score[end - 1]):
        if is_falling(score, low, at):  # they go behind the band
            if count < shape.k or count <= more:
                if head < more:
                    state[R.need] = more
                    return False
                head = append_falling(rows, low, at, band, head)
                state[R.head], state[R.merged] = head, min(state[R.merged], count) + more
                state[R.oldest], low = min(state[R.oldest], time[low]), at
                state[R.peak] = max(state[R.peak], end - head)
            above = end - head
            state[R.skipped], state[R.gather], state[R.pause], state[R.above] = low, 0, 0, above
            real[THRESHOLD] = band.score[end - 1] if above >= shape.k else -np.inf
            return True
    state[R.need] = 0
    if not make_pending(work, rows, low, shape.k, state, real):
        return False
    state[R.entered], state[R.gather] = 0, 0
    state[R.peak] = max(state[R.peak], end - head + state[R.pending])
    return True


@inplace
def make_pending(work, rows, low, k, state, real):
    """Let the unbeaten rows from `low` to the next row be pending. Return False if there is no room."""
    score, time, id, _ = rows
    to, n, at = work.space.pending, state[R.pending], state[R.row]
    found = unbeaten(score, low, at, k, work.heap, 0, work.entered, state[R.entered], work.picked)
    if found < 0 or n + found > len(to.score):
        return False
    for j in range(found):
        i = work.picked[found - 1 - j]
        to.score[n], to.time[n], to.id[n] = score[i], time[i], id[i] << 1
        real[BEST] = max(real[BEST], score[i])
        n += 1
    state[R.pending], state[R.skipped] = n, at
    return True


@inline
def _prepare(work, rows, stop, upto, shape, answers, state, real):
    """Raise the threshold, drop rows, process runs and skip rows: all that can be done before the next step."""
    score, time, _, _ = rows
    band, k, size, emit, spare = work.space.band, shape.k, shape.size, shape.emit, state[R.spare]
    at, end, head = state[R.row], len(band.score), state[R.head]
    if state[R.entered] == len(work.entered):
        state[R.gather] = 1
        return AGAIN
    if state[R.above] > k + 2 * spare and at < stop and score[at] >= real[THRESHOLD]:
        if band.score[head + k + spare - 1] > real[THRESHOLD]:  # it may rise, and should when rows reach it
            real[THRESHOLD] = band.score[head + k + spare - 1]
            state[R.above] = count_reaching(band.score, head, k + spare, real[THRESHOLD])
    if end - head + state[R.pending] > most_rows(state[R.merged]):
        _drop_outlived(band, k, state)
        head = state[R.head]
        if 2 * (end - head + state[R.pending]) > most_rows(state[R.merged]) + k:
            return MERGE
    due = state[R.oldest] + size
    above, free = state[R.above], min(len(answers.step) - state[R.lists], len(answers.id) - state[R.rows] - shape.most)
    rises = emit == ARRIVALS and above >= k and state[R.next_run] <= at < stop
    if rises and time[at] < due and score[at] >= band.score[head]:
        run = end_of_rise(score, at, lower_bound(time, min(due, time[at] + size), at, min(stop, at + free)))
        state[R.next_run] = run
        if run - at >= max(k, RUN) and k <= end:
            take_rising(rows, run, shape, band, answers, state)
            state[R.skipped], state[R.entered], state[R.pending], real[BEST] = run, 0, 0, -np.inf
            state[R.head], state[R.above], state[R.merged], state[R.peak] = end - k, k, k, max(state[R.peak], k)
            real[THRESHOLD], state[R.oldest] = band.score[end - 1], band.time[end - 1]
            state[R.now], state[R.done] = time[run - 1], time[run - 1] + 1
            return AGAIN
    if emit != ANSWERS and at < stop and not score[at] >= real[THRESHOLD] and time[at] < due:
        if due != state[R.edge_time]:
            edge = at
            if shape.counts:  # where no position is missing it is there
                edge = min(at + due - time[at] - 1, stop - 1)
                if time[edge] >= due:
                    edge = at
            state[R.edge], state[R.edge_time] = lower_bound(time, due, edge, stop), due
        at = next_reaching(score, real[THRESHOLD], at, state[R.edge])
        state[R.row] = at
    if emit == ARRIVALS and above >= k + RUN and (at == stop or time[at] >= due) and not state[R.lost]:
        return _replace_expired(work, rows, stop, upto, shape, answers, state, real)
    return GO


@inline
def _drop_outlived(band, k, state):
    """Drop what all of the k best outlive: where scores rise, that is all the rest."""
    score, time, id = band
    head, end = state[R.head], len(score)
    if end - head <= k:
        return
    oldest, to, left = MAX_TIME, end, state[R.above]
    for i in range(head, head + k):
        oldest = min(oldest, time[i])
    for i in range(end - 1, head - 1, -1):
        if i < head + k or time[i] > oldest:
            to -= 1
            score[to], time[to], id[to] = score[i], time[i], id[i]
        else:
            left -= i - head < state[R.above]
    state[R.head], state[R.above] = to, left


@inline
def _replace_expired(work, rows, stop, upto, shape, answers, state, real):
    """Do many steps at once where the best are the oldest, if that was of use lately."""
    state[R.pause] -= 1
    if state[R.pause] >= 0:
        return GO
    band, head = work.space.band, state[R.head]
    if shape.counts:
        left = replace_expired(rows, stop, upto, shape, band, real[THRESHOLD], answers, state)
    else:
        left = replace_expired_by_time(rows, stop, shape, band, real[THRESHOLD], answers, state)
    state[R.misses] = min(2 * state[R.misses] + 1, _SELDOM) if left < RUN else 0
    state[R.pause] = state[R.misses]
    if left == 0:
        return GO
    now = band.time[head + left - 1] + shape.size if shape.counts else rows.time[state[R.row] - 1]
    state[R.head], state[R.above] = head + left, state[R.above] - left
    state[R.oldest], state[R.now], state[R.done] = band.time[head + left], now, now + 1
    return AGAIN


@inline
def _begin_step(work, rows, stop, upto, shape, answers, state, real):
    """Find the next step; drop the rows that expire in it, and insert the row that comes if it is good enough."""
    score, time, id, _ = rows
    band, at, head, k = work.space.band, state[R.row], state[R.head], shape.k
    due, now = state[R.oldest] + shape.size, time[at] if at < stop else MAX_TIME
    if shape.counts:
        if shape.emit != ANSWERS or (head == len(band.score) and not state[R.nonempty]):  # nothing changes in between
            now = min(now, max(due, state[R.done]))
        else:
            now = state[R.done]
        if now >= upto:
            return FINISHED
    elif at == stop:
        return FINISHED
    if state[R.lists] == len(answers.step) or state[R.rows] + shape.most > len(answers.id):
        return ANSWERS_FULL
    if head == 0:
        state[R.need] = 1
        return MEMORY
    gone, rank = 0, k
    if due <= now:
        head, oldest, gone, above = drop_expired(band, head, state[R.above], k, now - shape.size)
        state[R.head], state[R.oldest], state[R.above] = head, oldest, above
        gone += k * state[R.lost]
        state[R.lost] = 0
    if at < stop and time[at] == now:
        s = score[at]
        if s >= real[THRESHOLD]:  # never so without a score
            rank = insert(band, head, head + state[R.above], s, now, id[at] << 1)
            work.entered[state[R.entered]] = at
            state[R.entered] += 1
            state[R.head], state[R.above], state[R.oldest] = head - 1, state[R.above] + 1, min(state[R.oldest], now)
            state[R.peak] = max(state[R.peak], len(band.score) - head + 1 + state[R.pending])
        state[R.row] = at + 1
    state[R.now], state[R.gone], state[R.rank], state[R.begun] = now, gone, rank, 1
    return GO


@inline
def _refill(work, shape, state, real):
    """Let pending rows that reach the answer into the band, and lower the threshold."""
    if state[R.skipped] < state[R.row]:
        state[R.gather] = 1
        return AGAIN
    score, k, head, n, spare, at = (
        work.space.band.score, shape.k, state[R.head], state[R.pending], state[R.spare], state[R.row]
    )  # fmt: skip
    # soon again: the best leave one by one, and rows had better be looked through by the dozen
    if at - state[R.filled] < 2 * spare:
        spare = min(2 * spare, _WIDE * shape.spare)
    else:
        spare = max(shape.spare, spare >> 1)
    state[R.spare], state[R.filled] = spare, at
    count = len(score) - head
    if n > 0 and (count < k or real[BEST] >= score[head + k - 1]):
        bound = score[head + min(k + spare, count) - 1] if count >= k else -np.inf
        few = 0
        for i in range(n):
            few += work.space.pending.score[i] >= bound
        if count < k or few > max(8, count >> 3):
            return MERGE
        if head < few:
            state[R.need] = few
            return MEMORY
        _promote(work, count_reaching(score, head, min(k + spare, count), bound), bound, shape, state, real)
        head = state[R.head]
        count = len(score) - head
    if count < k:
        real[THRESHOLD], state[R.above] = -np.inf, count
    else:
        real[THRESHOLD] = score[head + min(k + spare, count) - 1]
        if state[R.pending] > 0:
            real[THRESHOLD] = max(real[THRESHOLD], np.nextafter(real[BEST], np.inf))
        state[R.above] = count_reaching(score, head, k, real[THRESHOLD])
    return GO


@inline
def _promote(work, above, bound, shape, state, real):
    """Insert the pending rows that reach `bound` and have not expired among the first `above` rows of the band."""
    band, head, left, best = work.space.band, state[R.head], 0, -np.inf
    score, time, id = work.space.pending
    for i in range(state[R.pending]):
        s, t, r = score[i], time[i], id[i]
        if s < bound:
            score[left], time[left], id[left] = s, t, r
            best = max(best, s)
            left += 1
        elif t > state[R.now] - shape.size:
            insert(band, head, head + above, s, t, r)
            head -= 1
            above += 1
            state[R.oldest] = min(state[R.oldest], t)
    state[R.head], state[R.pending], real[BEST] = head, left, best


@inline
def _report(band, shape, answers, state):
    """Write what this step emits, and end it."""
    score, _, id = band
    k, head, gone, rank, written = shape.k, state[R.head], state[R.gone], state[R.rank], state[R.rows]
    size, got, now = min(k, len(score) - head), 0, state[R.now]
    state[R.begun], state[R.done] = 0, now + 1
    if shape.emit == ARRIVALS:
        if rank < k and rank < k - gone:  # the row that came; those before the k-th were reported
            i = head + rank
            id[i] |= 1
            answers.id[written], answers.score[written], answers.rank[written] = id[i] >> 1, score[i], rank + 1
            got = 1
        for i in range(head + max(k - gone, 0), head + size):
            if not id[i] & 1:
                id[i] |= 1
                answers.id[written + got], answers.score[written + got] = id[i] >> 1, score[i]
                answers.rank[written + got] = i - head + 1
                got += 1
        emits = got > 0
    else:
        emits = (size > 0 or state[R.nonempty] > 0) and (shape.emit == ANSWERS or gone > 0 or rank < k)
        if emits:
            got = size
            for i in range(got):
                answers.id[written + i] = id[head + i] >> 1
                answers.score[written + i] = score[head + i]
            state[R.nonempty] = got > 0
    if emits:
        listed = state[R.lists]
        answers.end[listed] = now + 1
        answers.step[listed] = now + 1 if shape.counts else state[R.seen] + state[R.row]
        answers.first[listed + 1] = written + got
        state[R.lists], state[R.rows] = listed + 1, written + got
