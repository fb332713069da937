"""One step an object: what expires leaves, the object comes in, who is new among the k best is told.

One loop serves every engine of `engines/arrival`: a list over the window (the band) and, unless its kind is NONE,
a list over the last rows (the filter), which decides who enters the band at once and who when it leaves the buffer.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inplace, kernel
from skyband.kernels.ranked import (
    BAR,
    END,
    FAR,
    HEAD,
    KIND,
    NONE,
    OLDEST,
    TOLD,
    add,
    centre,
    entry,
    expire,
    pruned,
    reindex,
)
from skyband.kernels.search import lower_bound as before

# What the loop leaves in `state` between two calls.
ROW = 0  # the next arrival
TAIL = 1  # the oldest row of the buffer
SEEN = 2  # steps before row 0, for windows by time
DONE = 3  # positions before this have had their step, for counting windows
SPOKE = 4  # the last list had rows
PEAK = 5  # rows held at once, at most
LISTS = 6  # lists on the page
OUT = 7  # rows in them
NEED = 8  # so many more rows the lists must have room for
STATE = 9

# Why it came back.
FINISHED, PAGE, ROOM = range(3)


class Rows(NamedTuple):
    """The rows in the buffer, then the arrivals."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    wait: np.ndarray  # the score of a row that is not in the band yet, otherwise NaN; empty without a filter


class Shape(NamedTuple):
    """The query as numbers."""

    k: int
    size: int
    span: int  # of the buffer
    counts: bool  # a step for every position; otherwise for every row
    once: bool  # tell each row once, not the whole list at every step
    most: int  # rows a list can have


@inplace
def advance(rows, upto, shape, band, screen, page, state):
    """Take the rows from `state[ROW]` on; why it stopped: all done, the page is full, or a list lacks room."""
    score, time, id, wait = rows
    k, size, span, counts, once, most = shape
    b_score, b_time, b_id, b_mark, b_heap, b_num, b_real = band
    f_score, f_time, f_id, f_mark, f_heap, f_num, f_real = screen
    steps, ends, _, _, first, out_id, out_score, out_rank = page
    row, tail, done, peak, listed, written = (
        state[ROW],
        state[TAIL],
        state[DONE],
        state[PEAK],
        state[LISTS],
        state[OUT],
    )
    rows_end = len(score)
    filtered = f_num[KIND] != NONE
    why = FINISHED
    while True:
        # pass over what changes nothing
        due = b_num[OLDEST] + size
        if once:
            if filtered:
                stop = min(due, f_num[OLDEST] + span)
                bar, least = f_real[BAR], entry(f_score, f_num)
                while row < rows_end and time[row] < stop and not score[row] >= bar:
                    cutoff = time[row] - span
                    while time[tail] <= cutoff and not wait[tail] >= least:
                        tail += 1
                    if time[tail] <= cutoff:
                        break
                    row += 1
            elif b_real[BAR] > -np.inf and row < rows_end:
                bar = b_real[BAR]
                stop = rows_end if time[rows_end - 1] < due else before(time, due, row, rows_end)
                while row < stop and not score[row] >= bar:
                    row += 1
        # the next step, and room for it
        now = time[row] if row < rows_end else FAR
        if counts:
            now = min(now, max(due, done)) if once else done
            if now >= upto:
                break
        elif row == rows_end:
            break
        comes = row < rows_end and time[row] == now
        if listed == len(steps) or written + most > len(out_id):
            why = PAGE
            break
        leave = tail
        if filtered:
            while leave < row and time[leave] <= now - span:
                leave += 1
        need = leave - tail + 1
        if b_num[END] + need > len(b_score):
            if 2 * (b_num[END] - b_num[HEAD] + need) > len(b_score):
                state[NEED] = need
                why = ROOM
                break
            centre(need, b_score, b_time, b_id, b_mark, b_num)
        if filtered and f_num[END] + 1 > len(f_score):
            if 2 * (f_num[END] - f_num[HEAD] + 1) > len(f_score):
                state[NEED] = 1
                why = ROOM
                break
            centre(1, f_score, f_time, f_id, f_mark, f_num)
        # who leaves the window, who leaves the buffer
        several = expire(now - size, b_score, b_time, b_id, b_mark, b_num, b_real) > 0
        if filtered:
            expire(now - span, f_score, f_time, f_id, f_mark, f_num, f_real)
            least = entry(f_score, f_num)
            for i in range(tail, leave):
                if wait[i] >= least and time[i] > now - size:  # after a gap it may leave both at once
                    wait[i] = np.nan
                    add(score[i], time[i], id[i], b_score, b_time, b_id, b_mark, b_heap, b_num, b_real)
                    several = True
            tail = leave
            reindex(f_score, f_num, f_real)
        # who comes
        rank = -1
        if comes:
            s = score[row]
            enters = s >= b_real[BAR]  # never so without a score
            if filtered and enters:
                enters = s >= f_real[BAR]
                if enters:
                    enters = f_num[END] - f_num[HEAD] < k or s >= f_score[f_num[HEAD] + k - 1]
                    add(s, now, id[row], f_score, f_time, f_id, f_mark, f_heap, f_num, f_real)
                    reindex(f_score, f_num, f_real)
                    if enters:
                        wait[row] = np.nan
            if enters:
                rank = add(s, now, id[row], b_score, b_time, b_id, b_mark, b_heap, b_num, b_real)
            row += 1
        done = now + 1
        # what is told
        head, count = b_num[HEAD], b_num[END] - b_num[HEAD]
        peak = max(peak, count + row - tail if filtered else count)
        got = 0
        if once:
            low, high = 0, 0
            if several:
                high = min(count, k)
            elif rank >= 0 and rank < k:
                low, high = rank, rank + 1
            for i in range(low, high):
                if not b_mark[head + i] & TOLD:
                    b_mark[head + i] |= TOLD
                    out_id[written + got] = b_id[head + i]
                    out_score[written + got] = b_score[head + i]
                    out_rank[written + got] = i + 1
                    got += 1
        else:
            got = min(count, k)
            for i in range(got):
                out_id[written + i] = b_id[head + i]
                out_score[written + i] = b_score[head + i]
        if got > 0 or (state[SPOKE] and not once):
            steps[listed] = now + 1 if counts else state[SEEN] + row
            ends[listed] = now + 1
            written += got
            listed += 1
            first[listed] = written
            state[SPOKE] = got > 0
    if why == FINISHED and counts:
        done = max(done, upto)
    state[ROW], state[TAIL], state[DONE], state[PEAK], state[LISTS], state[OUT] = (
        row,
        tail,
        done,
        peak,
        listed,
        written,
    )
    return why


@kernel
def outlasting(score, time, id, mark, k):
    """Keep, in place, what fewer than k better ones outlive, of objects that come best first; how many."""
    return pruned(0, len(score), k, score, time, id, mark, np.empty(min(k, len(score)), np.int64))
