"""MinTopk: the super-top-k list, ranked, with the windows of each object and one lower bound pointer per window.

Nodes are rows of separate columns, chained in both directions; `order` holds their numbers, best first, in the middle
of a longer array, and is all that is ever shifted. Consecutive windows with the same pointer, or the same counter, are
one run: rows that rise or tie move a million pointers as one.

Yang et al., "An Optimal Strategy for Monitoring Top-k Queries in Streaming Windows", EDBT 2011, section 4 and figure 6.
Errata: figure 6 does not run as printed (a new window's pointer is set to an object that is not in it, an object below
it is placed and never counted, no line sets the marks). Read here as: count rows per window, give a window its pointer
when it has k rows, visit windows oldest first, set start and end marks on insertion. Lemma 4.5 is false as stated;
moving a pointer by one is right when windows are visited oldest first and the dropped object is removed.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inplace, kernel
from skyband.kernels.ranking import place_in, shift_left, shift_right
from skyband.kernels.search import lower_bound
from skyband.kernels.slide import DONE, NO_NODE, NO_ROOM, S, close_oldest, lacks_room, skip_empty


class MinTopkSlots(NamedTuple):
    """Slots behind those that slide kernels share."""

    head: int = len(S)  # where in `order` the list begins
    seen: int = len(S) + 1  # insertions so far
    full: int = len(S) + 2  # runs of windows with k rows or more, oldest first: from here ...
    full_end: int = len(S) + 3  # ... to here
    part: int = len(S) + 4  # runs of later windows, with fewer rows: from here ...
    part_end: int = len(S) + 5  # ... to here
    size: int = len(S) + 6  # of the state


M = MinTopkSlots()


class MinTopkNodes(NamedTuple):
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

    bound: np.ndarray  # int32: pointer (lbp) of a run of full windows: node of their k-th best
    reach: np.ndarray  # the run's last window
    opened: np.ndarray  # insertions before a run of other windows: their counter (tkc) is seen - opened
    until: np.ndarray  # the run's last window


@kernel
def advance(arrivals, upto, k, assigner, nodes, order, runs, answers, state):
    """Close the windows that have ended, open those that begin, insert what beats a bound (figure 6, by panes)."""
    size, slide, origin = assigner
    time = arrivals.time
    while True:
        row = state[S.row]
        limit = time[row] if row < len(time) else upto
        while state[S.candidates] > 0 and origin + state[S.oldest] * slide + size <= limit:
            if lacks_room(k, answers, state):
                return NO_ROOM
            _close(k, nodes, order, runs, answers, state)
        if state[S.candidates] == 0:
            if lacks_room(0, answers, state):
                return NO_ROOM
            skip_empty(limit, assigner, answers, state)
        if row == len(time):
            return DONE
        last = (limit - origin) // slide
        if last > state[S.newest]:
            runs.opened[state[M.part_end]], runs.until[state[M.part_end]] = state[M.seen], last
            state[M.part_end] += 1
            state[S.newest] = last
        stop = min(origin + state[S.oldest] * slide + size, origin + (last + 1) * slide)
        _insert(arrivals, lower_bound(time, stop, row, len(time)), k, nodes, order, runs, state)
        if state[S.free] < 0:
            return NO_NODE
        _compact(order, runs, state)


@inplace
def _close(k, nodes, order, runs, answers, state):
    """Give out the first k (lemma 4.4), and drop those whose last window it was. O(k)."""
    window, head, free = state[S.oldest], state[M.head], state[S.free]
    tail = head + min(k, state[S.candidates])
    at = state[S.rows] - head
    stays = tail
    for place in range(tail - 1, head - 1, -1):
        node = order[place]
        answers.id[at + place] = nodes.id[node]
        answers.score[at + place] = nodes.score[node]
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
    state[M.head], state[S.free] = stays, free
    state[S.candidates] -= stays - head
    if state[M.full] < state[M.full_end]:
        state[M.full] += runs.reach[state[M.full]] == window
    else:
        state[M.part] += runs.until[state[M.part]] == window
    close_oldest(tail - head, answers, state)


@inplace
def _insert(arrivals, stop, k, nodes, order, runs, state):
    """Put rows up to `stop`, all of one pane, on the list, while there is room.

    Every full window that a row enters gives up its worst. O(log c + windows) for a list of c, and one comparison for
    a row that enters none.
    """
    score, time, id = arrivals
    scores, ids, ends, prev, succ = nodes.score, nodes.id, nodes.end, nodes.prev, nodes.next
    bounds, reach = runs.bound, runs.reach
    full, full_end, part, part_end = state[M.full], state[M.full_end], state[M.part], state[M.part_end]
    head, count, free, row = state[M.head], state[S.candidates], state[S.free], state[S.row]
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
            middle = (run + high) >> 1
            if scores[bounds[middle]] <= new:  # equal scores: the later row wins
                high = middle
            else:
                run = middle + 1
        free = succ[node]
        scores[node], nodes.time[node], ids[node] = new, time[row], id[row]
        nodes.start[node] = reach[run - 1] + 1 if run > full else state[S.oldest]
        ends[node] = state[S.newest]
        place = place_in(new, id[row], scores, ids, order, head, head + count)
        before = order[place - 1] if place > head else -1
        after = order[place] if place < head + count else -1
        prev[node], succ[node] = before, after
        if before >= 0:
            succ[before] = node
        if after >= 0:
            prev[after] = node
        unplaced = True  # its place in `order` is made when it is known who leaves
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
                gone = place_in(scores[worst], ids[worst], scores, ids, order, place, head + count)
                if unplaced:  # one in, one out: only what lies between them moves
                    shift_right(order, place, gone)
                    order[place] = node
                    unplaced = False
                else:
                    count -= 1
                    if gone - head < head + count - gone:
                        shift_right(order, head, gone)
                        head += 1
                    else:
                        shift_left(order, gone, head + count)
            run += 1
        full_end = to
        if unplaced:
            if place - head < head + count - place:
                head -= 1
                place -= 1
                shift_left(order, head, place)
            else:
                shift_right(order, place, head + count)
            order[place] = node
            count += 1
            state[S.peak] = max(state[S.peak], count)
        state[M.seen] += 1
        row += 1
        if part < part_end and state[M.seen] - runs.opened[part] == k:
            worst = order[head + count - 1]  # windows with exactly k rows hold the worst of the list
            if full == full_end or bounds[full_end - 1] != worst:
                bounds[full_end] = worst
                full_end += 1
            reach[full_end - 1] = runs.until[part]
            part += 1
    state[M.full], state[M.full_end], state[M.part] = full, full_end, part
    state[M.head], state[S.candidates], state[S.free], state[S.row] = head, count, free, row


@kernel
def _compact(order, runs, state):
    """Move the list to the middle, and runs to the front, where there is no more room. O(1) amortised."""
    head, count = state[M.head], state[S.candidates]
    if head == 0 or head + count == len(order):
        state[M.head] = (len(order) - count) // 2
        order[state[M.head] : state[M.head] + count] = order[head : head + count].copy()
    if state[M.full_end] == len(runs.reach):
        count = state[M.full_end] - state[M.full]
        runs.bound[:count] = runs.bound[state[M.full] :].copy()
        runs.reach[:count] = runs.reach[state[M.full] :].copy()
        state[M.full], state[M.full_end] = 0, count
    if state[M.part_end] == len(runs.until):
        count = state[M.part_end] - state[M.part]
        runs.opened[:count] = runs.opened[state[M.part] :].copy()
        runs.until[:count] = runs.until[state[M.part] :].copy()
        state[M.part], state[M.part_end] = 0, count
