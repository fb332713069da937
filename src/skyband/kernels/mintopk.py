"""The super-top-k list of MinTopk: ranked, with window marks, and one lower bound pointer a window.

Nodes are rows of separate columns, chained in both directions; `order` holds their numbers, best first,
in the middle of a longer array, and is all that is ever shifted. Windows that follow each other and have
the same pointer, or the same counter, are one run: rows that rise or tie move a million pointers as one.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
from skyband.kernels.shift import shift_back, shift_forth
from skyband.kernels.slide import (
    COUNT,
    DONE,
    FREE,
    NEWEST,
    NO_NODE,
    NO_ROOM,
    OLDEST,
    OUT,
    PEAK,
    ROW,
    STATE,
    crowded,
    rest,
    say,
    until,
)

HEAD = STATE  # where in `order` the list begins
SEEN = STATE + 1  # insertions so far
FULL = STATE + 2  # runs of windows with k rows or more, oldest first: from here ...
FULL_END = STATE + 3  # ... to here
PART = STATE + 4  # runs of later windows, with fewer rows
PART_END = STATE + 5
NUMBERS = STATE + 6


class Nodes(NamedTuple):
    """The objects on the list, and free nodes chained by `next`."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    start: np.ndarray  # first window in which the object is predicted to be among the k best
    end: np.ndarray  # last window it is in
    prev: np.ndarray  # int32: the next better one, -1: none
    next: np.ndarray  # int32: the next worse one


class Runs(NamedTuple):
    """The open windows, in runs."""

    bound: np.ndarray  # int32: the pointer (lbp) of a run of full windows: node of their k-th best
    reach: np.ndarray  # the run's last window
    opened: np.ndarray  # insertions before a run of other windows: their counter (tkc) is SEEN - opened
    until: np.ndarray  # the run's last window


@kernel
def advance(score, time, id, upto, k, clock, nodes, order, runs, lists, state):
    """Figure 6, by panes: close what has ended, open what begins, insert what beats a bound."""
    size, slide, origin = clock
    while True:
        row = state[ROW]
        limit = time[row] if row < len(time) else upto
        while state[COUNT] > 0 and origin + state[OLDEST] * slide + size <= limit:
            if crowded(k, lists, state):
                return NO_ROOM
            close(k, nodes, order, runs, lists, state)
        if state[COUNT] == 0:
            if crowded(0, lists, state):
                return NO_ROOM
            rest(limit, clock, lists, state)
        if row == len(time):
            return DONE
        last = (limit - origin) // slide
        if last > state[NEWEST]:
            runs.opened[state[PART_END]], runs.until[state[PART_END]] = state[SEEN], last
            state[PART_END] += 1
            state[NEWEST] = last
        stop = min(origin + state[OLDEST] * slide + size, origin + (last + 1) * slide)
        stop = until(time, row, stop)
        insert(score, time, id, stop, k, nodes, order, runs, state)
        if state[FREE] < 0:
            return NO_NODE
        tidy(order, runs, state)


@kernel
def close(k, nodes, order, runs, lists, state):
    """Give out the first k (lemma 4.4), purge their window, drop those whose last it was. O(k)."""
    window, head, free = state[OLDEST], state[HEAD], state[FREE]
    tail = head + min(k, state[COUNT])
    at = state[OUT] - head
    stays = tail
    for place in range(tail - 1, head - 1, -1):
        node = order[place]
        lists.id[at + place] = nodes.id[node]
        lists.score[at + place] = nodes.score[node]
        nodes.start[node] = window + 1
        if nodes.end[node] > window:
            stays -= 1
            order[stays] = node
        else:
            before, after = nodes.prev[node], nodes.next[node]
            if before >= 0:
                nodes.next[before] = after
            if after >= 0:
                nodes.prev[after] = before
            nodes.next[node] = free
            free = node
    state[HEAD], state[FREE] = stays, free
    state[COUNT] -= stays - head
    if state[FULL] < state[FULL_END]:
        state[FULL] += runs.reach[state[FULL]] == window
    else:
        state[PART] += runs.until[state[PART]] == window
    say(tail - head, lists, state)


@kernel
def insert(score, time, id, stop, k, nodes, order, runs, state):
    """Put rows up to `stop`, all of one pane, on the list, while there is room.

    Every full window that a row enters gives up its worst. O(log c + windows) for a list of c, and one
    comparison for a row that enters none. All in one function: numba counts references to every array at
    every call, which would cost as much as the work.
    """
    scores, ids, ends, prev, succ = nodes.score, nodes.id, nodes.end, nodes.prev, nodes.next
    bounds, reach = runs.bound, runs.reach
    full, full_end, part, part_end = state[FULL], state[FULL_END], state[PART], state[PART_END]
    head, count, free, row = state[HEAD], state[COUNT], state[FREE], state[ROW]
    while row < stop:
        if part == part_end:
            # the newest window is full and its bound the least of all (lemma 4.2): the end of the list
            bound = scores[order[head + count - 1]]
            while row < stop and score[row] < bound:
                row += 1
            if row == stop:
                break
        if free < 0 or head == 0 or head + count == len(order) or full_end == len(bounds):
            break
        new, node = score[row], free
        run, high = full, full_end
        while run < high:  # the first full windows it enters: bounds fall with the window number
            mid = (run + high) >> 1
            if scores[bounds[mid]] <= new:  # equal scores: the later row wins
                high = mid
            else:
                run = mid + 1
        free = succ[node]
        scores[node], nodes.time[node], ids[node] = new, time[row], id[row]
        nodes.start[node] = reach[run - 1] + 1 if run > full else state[OLDEST]
        ends[node] = state[NEWEST]
        place = find(new, id[row], head, head + count, scores, ids, order)
        before = order[place - 1] if place > head else -1
        after = order[place] if place < head + count else -1
        prev[node], succ[node] = before, after
        if before >= 0:
            succ[before] = node
        if after >= 0:
            prev[after] = node

        waits = True  # its place in `order` is made when it is known who goes
        first = to = run
        while run < full_end:  # oldest first, or a pointer could stop at a row that its windows have lost
            worst, window = bounds[run], reach[run]
            before = prev[worst]
            if to == first or bounds[to - 1] != before:
                bounds[to] = before
                to += 1
            reach[to - 1] = window
            nodes.start[worst] = window + 1
            if ends[worst] == window:
                after = succ[worst]
                succ[before] = after
                if after >= 0:
                    prev[after] = before
                succ[worst] = free
                free = worst
                gone = find(scores[worst], ids[worst], place, head + count, scores, ids, order)
                if waits:  # one in, one out: only what lies between them moves
                    shift_back(order, place, gone)
                    order[place] = node
                    waits = False
                else:
                    count -= 1
                    if gone - head < head + count - gone:
                        shift_back(order, head, gone)
                        head += 1
                    else:
                        shift_forth(order, gone, head + count)
            run += 1
        full_end = to
        if waits:
            if place - head < head + count - place:
                head -= 1
                place -= 1
                shift_forth(order, head, place)
            else:
                shift_back(order, place, head + count)
            order[place] = node
            count += 1
            state[PEAK] = max(state[PEAK], count)
        state[SEEN] += 1
        row += 1
        if part < part_end and state[SEEN] - runs.opened[part] == k:
            worst = order[head + count - 1]  # windows with exactly k rows hold the worst of the list
            if full == full_end or bounds[full_end - 1] != worst:
                bounds[full_end] = worst
                full_end += 1
            reach[full_end - 1] = runs.until[part]
            part += 1
    state[FULL], state[FULL_END], state[PART] = full, full_end, part
    state[HEAD], state[COUNT], state[FREE], state[ROW] = head, count, free, row


@kernel
def tidy(order, runs, state):
    """Make room where there is none: the list to the middle, runs to the front. Rare: O(1) amortised."""
    head, count = state[HEAD], state[COUNT]
    if head == 0 or head + count == len(order):
        state[HEAD] = (len(order) - count) // 2
        order[state[HEAD] : state[HEAD] + count] = order[head : head + count].copy()
    if state[FULL_END] == len(runs.reach):
        count = state[FULL_END] - state[FULL]
        runs.bound[:count] = runs.bound[state[FULL] :].copy()
        runs.reach[:count] = runs.reach[state[FULL] :].copy()
        state[FULL], state[FULL_END] = 0, count
    if state[PART_END] == len(runs.until):
        count = state[PART_END] - state[PART]
        runs.opened[:count] = runs.opened[state[PART] :].copy()
        runs.until[:count] = runs.until[state[PART] :].copy()
        state[PART], state[PART_END] = 0, count


@kernel
def find(score, id, low, high, scores, ids, order):
    """The first place from `low` on that does not rank above (score, id). O(log c)."""
    while low < high:
        mid = (low + high) >> 1
        other = scores[order[mid]]
        if other > score or (other == score and ids[order[mid]] > id):
            low = mid + 1
        else:
            high = mid
    return low
