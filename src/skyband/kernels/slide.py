"""What kernels driven by closing windows share: the numbers they keep, the lists they fill, their panes."""

from skyband.kernels._jit import kernel

# What a kernel leaves in `state` between two calls.
OLDEST = 0  # the oldest window that is still open
NEWEST = 1  # the newest window that has been opened
COUNT = 2  # objects kept now
PEAK = 3  # objects kept at once, at most
SPOKE = 4  # 1: the window before the oldest had rows, so an empty one must be told
FREE = 5  # first of the chained free nodes, -1: none
ROW = 6  # the next arrival
LISTS = 7  # lists given out in this round
OUT = 8  # rows in those lists
STATE = 9

# Why a kernel came back.
DONE = 0
NO_NODE = 1
NO_ROOM = 2


@kernel
def crowded(k, lists, state):
    """Whether one more list may find no room."""
    return state[LISTS] + 1 >= len(lists.first) or state[OUT] + k > len(lists.id)


@kernel
def say(rows, lists, state):
    """Note that the oldest window's list, of `rows` rows, has been written; go to the next window."""
    at = state[LISTS]
    lists.step[at] = state[OLDEST]
    lists.first[at] = state[OUT]
    state[OUT] += rows
    lists.first[at + 1] = state[OUT]
    state[LISTS] = at + 1
    state[OLDEST] += 1
    state[SPOKE] = rows > 0


@kernel
def rest(limit, clock, lists, state):
    """With nothing kept: tell the first empty window, skip the others that end by `limit`."""
    size, slide, origin = clock
    if state[SPOKE] and origin + state[OLDEST] * slide + size <= limit:
        say(0, lists, state)
    state[OLDEST] = max(state[OLDEST], (limit - origin - size) // slide + 1)


@kernel
def until(time, row, stop):
    """The first row from `row` on whose time is `stop` or later. O(log distance)."""
    low, step = row, 1
    while low + step < len(time) and time[low + step - 1] < stop:
        low += step
        step *= 2
    high = min(len(time), low + step)
    while low < high:
        mid = (low + high) // 2
        if time[mid] < stop:
            low = mid + 1
        else:
            high = mid
    return low
