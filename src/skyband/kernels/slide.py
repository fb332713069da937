"""What kernels driven by closing windows share: their state, the answers they write, windows without rows."""

from typing import NamedTuple

from skyband.kernels._jit import inplace

DONE, NO_NODE, NO_ROOM = range(3)
"""Why a kernel returns: all rows are taken, it needs more nodes, or more room for answers."""


class SlideSlots(NamedTuple):
    """Slots of the state that a kernel keeps between two calls. Those of MinTopk and SAP follow."""

    oldest: int = 0  # the oldest open window
    newest: int = 1  # the newest window that was opened
    candidates: int = 2
    peak: int = 3  # candidates at once, at most
    nonempty: int = 4  # whether the window before the oldest had rows
    free: int = 5  # first of the chained free nodes, -1: none
    row: int = 6  # the next arrival
    lists: int = 7  # lists in the answer buffer
    rows: int = 8  # rows in the answer buffer


S = SlideSlots()


class Assigner(NamedTuple):
    """Windows as numbers: window w is [origin + w * slide, origin + w * slide + size)."""

    size: int
    slide: int
    origin: int


@inplace
def lacks_room(k, answers, state):
    """Return whether an answer of k rows may find no room."""
    return state[S.lists] + 1 >= len(answers.first) or state[S.rows] + k > len(answers.id)


@inplace
def close_oldest(rows, answers, state):
    """Close the oldest window, whose answer of `rows` rows was written."""
    listed = state[S.lists]
    answers.step[listed] = state[S.oldest]
    answers.first[listed] = state[S.rows]
    state[S.rows] += rows
    answers.first[listed + 1] = state[S.rows]
    state[S.lists] = listed + 1
    state[S.oldest] += 1
    state[S.nonempty] = rows > 0


@inplace
def skip_empty(limit, assigner, answers, state):
    """Without candidates: emit the first empty window, skip the others that end by `limit`."""
    size, slide, origin = assigner
    if state[S.nonempty] and origin + state[S.oldest] * slide + size <= limit:
        close_oldest(0, answers, state)
    state[S.oldest] = max(state[S.oldest], (limit - origin - size) // slide + 1)
