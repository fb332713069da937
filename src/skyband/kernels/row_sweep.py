"""Top-k after every row, for all groups: memory for their bands, and the merges of pending rows."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inplace, kernel
from skyband.kernels.band import (
    Workspace,
    lacks_memory,
    make_workspace,
    prune_approximately,
    prune_exact,
    with_memory,
)
from skyband.kernels.columns import MAX_TIME, MIN_TIME, Columns, copy_rows, empty_columns, reserve
from skyband.kernels.ranking import FEW, sort_by_score
from skyband.kernels.row_band import BEST, THRESHOLD, R
from skyband.kernels.row_steps import (
    ANSWERS_FULL,
    FINISHED,
    MEMORY,
    MERGE,
    RowWorkspace,
    make_pending,
    most_rows,
    run_steps,
)
from skyband.kernels.search import first_below, is_falling, lower_bound

_DEEP = 16  # an exact prune is as fast for a smaller k
_ENTERED = 1024  # rows that may enter the band before the skipped rows are looked through


class RowBands(NamedTuple):
    """The candidates, group by group: those of group g are first[0, g] to first[1, g], ranked before pending ones."""

    score: np.ndarray
    time: np.ndarray
    mark: np.ndarray  # twice the id, and one more if the row was reported
    first: np.ndarray


class RowMarks(NamedTuple):
    """What is stored of each group besides its band."""

    done: np.ndarray  # int64: steps before this moment are done
    step: np.ndarray  # int64: rows seen
    shown: np.ndarray  # bool: its last list had rows
    ranked: np.ndarray  # int64: rows of its band that are ranked
    base: np.ndarray  # int64: rows that the last merge left
    bar: np.ndarray  # float64: every row that scores as much is in the ranked part
    lost: np.ndarray  # bool: some of its k best were dropped since its last step


@kernel
def sweep_rows(bands, marks, rows, upto, shape, answers, listed, written):
    """Take the rows of each group, while the answer buffer has room behind `listed` lists and `written` rows.

    Returns the new bands, how many lists of each group were written, how many rows are in the buffer, the most
    candidates at once, and whether there is more to do. `marks` and `rows.first` are updated, so that the same call
    with a longer buffer continues.
    """
    most = min(shape.k, len(rows.id) + len(bands.mark))
    heap, picked, entered = np.empty(most), np.empty(FEW, np.int64), np.empty(_ENTERED, np.int64)
    work, old = RowWorkspace(make_workspace(), heap, picked, entered), Columns(bands.score, bands.time, bands.mark)
    kept, first, total, peak = empty_columns(max(len(bands.mark), FEW)), np.empty((2, len(upto)), np.int64), 0, 0
    state, real = np.zeros(len(R), np.int64), np.zeros(2)
    state[R.lists], state[R.rows] = listed, written
    lists, why = np.zeros(len(upto), np.int64), FINISHED
    for g in range(len(upto)):
        low, high, at, stop = bands.first[0, g], bands.first[1, g], rows.first[0, g], rows.first[1, g]
        first[0, g] = total
        if why != ANSWERS_FULL and (at < stop or (shape.counts and marks.done[g] < upto[g])):
            if _lacks_room(work, marks.ranked[g], high - low):
                work = _with_room(work, marks.ranked[g], high - low)
            _load(work, old, low, high, marks, g, shape, state, real)
            _begin(marks, g, at, shape, state)
            why, before = MEMORY, state[R.lists]
            while why not in (FINISHED, ANSWERS_FULL):
                why = run_steps(work, rows, stop, upto[g], shape, answers, state, real)
                if why == MERGE:
                    if _lacks_memory(work, state):
                        work = _with_memory(work, state)
                    _merge(work, shape, state[R.now] - shape.size, False, state, real)
                elif why == MEMORY:
                    work = _grow(work, state)
            lists[g] = state[R.lists] - before
            while not _gather_rest(work, rows, shape, state, real):
                work = _grow(work, state)
            if state[R.need]:
                if _lacks_memory(work, state):
                    work = _with_memory(work, state)
                cutoff = state[R.done] - 1 - shape.size if shape.counts else MIN_TIME
                _merge(work, shape, cutoff, False, state, real)
            size = _size(work, state)
            peak = max(peak, total + state[R.peak] + len(bands.mark) - high)
            if total + size > len(kept.score):
                kept = reserve(kept, total, size)
            _store(work, kept, total, marks, g, state, real)
            rows.first[0, g] = state[R.row]
            total += size
        else:
            if total + high - low > len(kept.score):
                kept = reserve(kept, total, high - low)
            copy_rows(old, low, high - low, kept, total)
            total += high - low
        if why != ANSWERS_FULL:
            marks.done[g] = max(marks.done[g], upto[g])
        first[1, g] = total
    new = RowBands(kept.score[:total], kept.time[:total], kept.id[:total], first)
    return new, lists, state[R.rows], peak, why == ANSWERS_FULL


# Attributes of a workspace are read in place only: elsewhere that counts references to all arrays of the tuple.


@inplace
def _lacks_room(work, ranked, rows):
    """Return whether a band of so many rows, the first of them ranked, finds no room."""
    space = work.space
    return ranked + FEW > len(space.band.score) or rows - ranked > len(space.pending.score)


@kernel
def _with_room(work, ranked, rows):
    """Return a workspace with room for a band of so many rows, the first of them ranked."""
    return _with_columns(work, empty_columns(2 * ranked + FEW), empty_columns(2 * rows), work.picked)


@inplace
def _load(work, rows, low, high, marks, g, shape, state, real):
    """Copy the band rows[low:high] of a group into the workspace, which has room for it."""
    band, pending, ranked = work.space.band, work.space.pending, marks.ranked[g]
    head, n = len(band.score) - ranked, high - low - ranked
    copy_rows(rows, low, ranked, band, head)
    copy_rows(rows, low + ranked, n, pending, 0)
    state[R.head], state[R.pending], state[R.peak] = head, n, high - low
    real[THRESHOLD], real[BEST] = marks.bar[g], -np.inf
    for i in range(n):
        real[BEST] = max(real[BEST], pending.score[i])
    _measure(band, shape.k, state, real)


@inplace
def _begin(marks, g, at, shape, state):
    """Set the state of a group whose band was loaded, before its first row `at`."""
    state[R.row], state[R.skipped], state[R.begun], state[R.entered], state[R.gather] = at, at, 0, 0, 0
    state[R.merged], state[R.seen], state[R.done] = marks.base[g], marks.step[g] - at, marks.done[g]
    state[R.now] = marks.done[g] - 1 if shape.counts else MIN_TIME
    state[R.nonempty], state[R.lost] = marks.shown[g], marks.lost[g]
    if marks.lost[g]:
        state[R.oldest] = MIN_TIME  # the next step finds out


@inplace
def _gather_rest(work, rows, shape, state, real):
    """Look through the rows that were skipped, before they are forgotten. Return False if there is no room.

    Pending rows that fall behind the band are ranked as they are. `need` is set if the rest has to be merged.
    """
    low = lower_bound(rows.time, state[R.done] - shape.size, state[R.skipped], state[R.row])
    state[R.need] = 0
    if not make_pending(work, rows, low, shape.k, state, real):
        return False
    band, score = work.space.band, work.space.pending.score
    n, size = state[R.pending], len(band.score) - state[R.head]
    state[R.peak] = max(state[R.peak], size + n)
    state[R.above] = 0  # pending rows that are ranked
    if 0 < n and (size == 0 or score[0] < band.score[-1]) and is_falling(score, 0, n):
        state[R.above], state[R.merged] = n, min(state[R.merged], size) + n
    state[R.need] = size + n > most_rows(state[R.merged])
    return True


@inplace
def _size(work, state):
    """Return the number of rows in the workspace."""
    return len(work.space.band.score) - state[R.head] + state[R.pending]


@inplace
def _store(work, to, at, marks, g, state, real):
    """Copy the band of a group and its pending rows from the workspace to `at`."""
    band = work.space.band
    size, ranked = len(band.score) - state[R.head], state[R.above] if not state[R.need] else 0
    copy_rows(band, state[R.head], size, to, at)
    copy_rows(work.space.pending, 0, state[R.pending], to, at + size)
    marks.ranked[g], marks.base[g], marks.bar[g] = size + ranked, state[R.merged], real[THRESHOLD]
    marks.done[g], marks.step[g] = state[R.done], state[R.seen] + state[R.row]
    marks.shown[g], marks.lost[g] = state[R.nonempty] > 0, state[R.lost] > 0


@inplace
def _measure(band, k, state, real):
    """Count the rows that reach the threshold, and find the oldest time of the first k."""
    head, end = state[R.head], len(band.score)
    state[R.oldest] = MAX_TIME
    for i in range(head, min(head + k, end)):
        state[R.oldest] = min(state[R.oldest], band.time[i])
    state[R.above] = first_below(band.score, real[THRESHOLD], head, end) - head


@kernel
def _with_columns(work, band, pending, picked):
    space = work.space
    space = Workspace(band, pending, space.spare, space.order, space.counts, space.sort)
    return RowWorkspace(space, work.heap, picked, work.entered)


@kernel
def _grow(work, state):
    """Make room at the head of the band, or for pending rows and for picking them."""
    band, need = work.space.band, state[R.need]
    if need > 0:
        size = len(band.score) - state[R.head]
        longer = empty_columns(2 * (size + need) + FEW)
        copy_rows(band, state[R.head], size, longer, len(longer.score) - size)
        state[R.head] = len(longer.score) - size
        return _with_columns(work, longer, work.space.pending, work.picked)
    more = 2 * len(work.picked)
    pending = reserve(work.space.pending, state[R.pending], more)
    return _with_columns(work, band, pending, np.empty(more, np.int64))


@inplace
def _lacks_memory(work, state):
    """Return whether there is too little memory to merge the band, and to have some room before it afterwards."""
    rows = len(work.space.band.score) - state[R.head] + state[R.pending]
    return lacks_memory(work.space, rows + FEW, state[R.pending])


@kernel
def _with_memory(work, state):
    """Return the workspace with memory to merge what it holds, and room for the result."""
    band, n = work.space.band, state[R.pending]
    rows = len(band.score) - state[R.head] + n
    if len(band.score) < rows + FEW:
        state[R.need] = rows + FEW
        work = _grow(work, state)
    space = with_memory(work.space, work.space.band, work.space.pending, rows + FEW, n)
    return RowWorkspace(space, work.heap, work.picked, work.entered)


@inplace
def _merge(work, shape, cutoff, exact, state, real):
    """Merge pending rows into the band, and drop what has expired or what k better ones outlive.

    Where the whole band ranks before the pending rows, as when scores fall, these end no career in it: they go behind
    it, unless the result has to be `exact`.
    """
    space, n, head, k, out = work.space, state[R.pending], state[R.head], shape.k, 0
    band, to, end = space.band, space.spare, len(space.band.score)
    sort_by_score(space.pending.score, 0, n, space.order, space.sort)
    if not exact and n > 0 and head < end and real[BEST] < band.score[end - 1]:
        for i in range(head, end):
            to.score[out], to.time[out], to.id[out] = band.score[i], band.time[i], band.id[i]
            out += band.time[i] > cutoff
        head = end
    if not exact and k >= _DEEP and n > 0 and head < end:
        out = prune_approximately(space, head, end, n, out, k, cutoff + 1)
    else:
        out = prune_exact(space, head, end, n, out, k, cutoff + 1, 1, 0)
    copy_rows(to, 0, out, band, end - out)
    state[R.head], state[R.pending], state[R.merged], real[BEST] = end - out, 0, out, -np.inf
    _measure(band, k, state, real)


@kernel
def settle_rows(bands, marks, shape):
    """Merge and prune all bands: exactly what fewer than k better rows outlive. `marks` is updated."""
    none = np.empty(0, np.int64)
    work, old = RowWorkspace(make_workspace(), np.empty(0), none, none), Columns(bands.score, bands.time, bands.mark)
    kept, first, total = empty_columns(len(bands.mark)), np.empty((2, len(marks.done)), np.int64), 0
    state, real = np.zeros(len(R), np.int64), np.zeros(2)
    for g in range(len(marks.done)):
        low, high = bands.first[0, g], bands.first[1, g]
        first[0, g] = total
        if low < high:
            if _lacks_room(work, marks.ranked[g], high - low):
                work = _with_room(work, marks.ranked[g], high - low)
            _load(work, old, low, high, marks, g, shape, state, real)
            cutoff = marks.done[g] - 1 - shape.size
            marks.lost[g] |= state[R.oldest] <= cutoff
            _begin(marks, g, 0, shape, state)
            if _lacks_memory(work, state):
                work = _with_memory(work, state)
            _merge(work, shape, cutoff, True, state, real)
            state[R.need] = 1  # nothing is pending
            _store(work, kept, total, marks, g, state, real)
            total += state[R.merged]
        first[1, g] = total
    return RowBands(kept.score[:total], kept.time[:total], kept.id[:total], first)
