"""The super-top-k list of MinTopk: ranked, with window marks, and one lower bound pointer a window.

Nodes are rows of separate columns, chained in both directions; `order` holds their numbers, best first,
in the middle of a longer array, and is the only thing that is ever shifted. Windows live in rings whose
length is a power of two.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import kernel
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
FULL = STATE + 1  # the first open window that has fewer than k rows; those before it have a pointer
SEEN = STATE + 2  # insertions so far
NUMBERS = STATE + 3


class Nodes(NamedTuple):
    """The objects on the list, and free nodes chained by `next`."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    start: np.ndarray  # first window in which the object is predicted to be among the k best
    end: np.ndarray  # last window it is in
    prev: np.ndarray  # int32: the next better one, -1: none
    next: np.ndarray  # int32: the next worse one


class Windows(NamedTuple):
    """Rings over the open windows."""

    bound: np.ndarray  # int32: node of the k-th best (lbp), once there are k
    opened: np.ndarray  # insertions before the window: its counter (tkc) is SEEN - opened


@kernel
def advance(score, time, id, upto, k, clock, nodes, order, windows, lists, state):
    """Figure 6, by panes: close what has ended, open what begins, insert what beats a bound."""
    size, slide, origin = clock
    ring = len(windows.opened) - 1
    while True:
        row = state[ROW]
        limit = time[row] if row < len(time) else upto
        while state[COUNT] > 0 and origin + state[OLDEST] * slide + size <= limit:
            if crowded(k, lists, state):
                return NO_ROOM
            close(k, nodes, order, lists, state)
        if state[COUNT] == 0:
            if crowded(0, lists, state):
                return NO_ROOM
            rest(limit, clock, lists, state)
        state[FULL] = max(state[FULL], state[OLDEST])
        if row == len(time):
            return DONE
        last = (limit - origin) // slide
        for window in range(max(state[NEWEST] + 1, state[OLDEST]), last + 1):
            windows.opened[window & ring] = state[SEEN]
        state[NEWEST] = last
        stop = min(origin + state[OLDEST] * slide + size, origin + (last + 1) * slide)
        stop = until(time, row, stop)
        insert(score, time, id, stop, k, nodes, order, windows, state)
        if state[ROW] < stop:
            return NO_NODE


@kernel
def close(k, nodes, order, lists, state):
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
    say(tail - head, lists, state)


@kernel
def insert(score, time, id, stop, k, nodes, order, windows, state):
    """Put the rows up to `stop`, all of one pane, on the list; those that enter no window are passed by.

    Every full window that a row enters gives up its worst. O(log c + windows) for a list of c, and one
    comparison for a row that enters none. All in one function: numba counts references to every array at
    every call, which would cost as much as the work.
    """
    scores, ids, ends, prev, next = nodes.score, nodes.id, nodes.end, nodes.prev, nodes.next
    bounds, ring = windows.bound, len(windows.bound) - 1
    oldest, last, full, seen = state[OLDEST], state[NEWEST], state[FULL], state[SEEN]
    head, count, free, row = state[HEAD], state[COUNT], state[FREE], state[ROW]
    while row < stop:
        if full > last:
            # the newest window is full and its bound the least of all (lemma 4.2): the end of the list
            bound = scores[order[head + count - 1]]
            while row < stop and score[row] < bound:
                row += 1
            if row == stop:
                break
        if free < 0:
            break
        new, node = score[row], free
        window, high = oldest, full
        while window < high:  # the first full window it enters: bounds fall with the window number
            mid = (window + high) >> 1
            if scores[bounds[mid & ring]] <= new:  # equal scores: the later row wins
                high = mid
            else:
                window = mid + 1
        free = next[node]
        scores[node], nodes.time[node], ids[node] = new, time[row], id[row]
        nodes.start[node], ends[node] = window, last
        place = find(new, id[row], head, head + count, scores, ids, order)
        before = order[place - 1] if place > head else -1
        after = order[place] if place < head + count else -1
        prev[node], next[node] = before, after
        if before >= 0:
            next[before] = node
        if after >= 0:
            prev[after] = node

        waits = True  # its place in `order` is made when it is known who goes
        while window < full:  # oldest first, or a pointer could stop at a row that its window has lost
            worst = bounds[window & ring]
            before = prev[worst]
            bounds[window & ring] = before
            nodes.start[worst] = window + 1
            if ends[worst] == window:
                after = next[worst]
                next[before] = after
                if after >= 0:
                    prev[after] = before
                next[worst] = free
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
            window += 1
        if waits:
            if head == 0 or head + count == len(order):  # back to the middle: each side has room for many
                middle = (len(order) - count) // 2
                order[middle : middle + count] = order[head : head + count].copy()
                place += middle - head
                head = middle
            if place - head < head + count - place:
                head -= 1
                place -= 1
                shift_forth(order, head, place)
            else:
                shift_back(order, place, head + count)
            order[place] = node
            count += 1
            state[PEAK] = max(state[PEAK], count)
        seen += 1
        row += 1
        while full <= last and seen - windows.opened[full & ring] == k:
            # a window with exactly k rows holds the worst of the list
            bounds[full & ring] = order[head + count - 1]
            full += 1
    state[FULL], state[SEEN] = full, seen
    state[HEAD], state[COUNT], state[FREE], state[ROW] = head, count, free, row


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


@kernel
def shift_back(order, low, high):
    """Move `order[low:high]` one place back."""
    one = np.uint64(1)  # with signed places LLVM would move single words
    for place in range(np.uint64(high), np.uint64(low), -1):
        order[np.uint64(place)] = order[np.uint64(place) - one]


@kernel
def shift_forth(order, low, high):
    """Move `order[low + 1 : high + 1]` one place forth."""
    one = np.uint64(1)
    for place in range(np.uint64(low), np.uint64(high)):
        order[np.uint64(place)] = order[np.uint64(place) + one]
