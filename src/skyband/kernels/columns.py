"""Columns of rows: copies with more room, their groups."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inplace, kernel

MIN_TIME, MAX_TIME = -(1 << 62), (1 << 62) - 1
"""Before and after all times, as in `skyband.windows`."""


class Columns(NamedTuple):
    """Candidates of one group."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray


@kernel
def empty_columns(size):
    """Allocate room for so many rows."""
    return Columns(np.empty(size, np.float64), np.empty(size, np.int64), np.empty(size, np.int64))


@kernel
def reserve(rows, used, more):
    """Return `rows`, or longer copies with room for `more` rows after the first `used`."""
    if used + more <= len(rows.score):
        return rows
    longer = empty_columns(max(used + more, 2 * len(rows.score)))
    copy_rows(rows, 0, used, longer, 0)
    return longer


@inplace
def copy_rows(rows, low, size, to, at):
    """Copy `size` rows from `low` on to `at`."""
    score, time, id = rows
    to_score, to_time, to_id = to
    for i in range(size):
        to_score[at + i] = score[low + i]
    for i in range(size):
        to_time[at + i] = time[low + i]
    for i in range(size):
        to_id[at + i] = id[low + i]


# ------------------------------------------------------------ groups


@kernel
def number_rows(group, count):
    """Number the rows within their groups, from `count` on, which is updated."""
    number = np.empty(len(group), np.int64)
    for i in range(len(group)):
        number[i] = count[group[i]]
        count[group[i]] += 1
    return number


@kernel
def partition_by_group(rows, group, groups, to):
    """Copy rows group by group, in their order within each. Return where each group begins and ends."""
    score, time, id = rows
    to_score, to_time, to_id = to
    first = np.zeros((2, groups), np.int64)
    for g in group:
        first[1, g] += 1
    total = 0
    for g in range(groups):
        first[0, g] = total
        total += first[1, g]
        first[1, g] = first[0, g]
    for i in range(len(group)):
        at = first[1, group[i]]
        to_score[at], to_time[at], to_id[at] = score[i], time[i], id[i]
        first[1, group[i]] = at + 1
    return first


@kernel
def first_seen(code, codes):
    """Return the first index of each of the numbers below `codes`, or the length of `code`."""
    place = np.full(codes, len(code), np.int64)
    for i in range(len(code) - 1, -1, -1):
        place[code[i]] = i
    return place


class Windows(NamedTuple):
    """Windows of several queries; slide 0: one after every row."""

    size: np.ndarray
    slide: np.ndarray
    origin: np.ndarray


@kernel
def number_runs(group, time, run, last, owner, count, windows):
    """Number the runs of rows: rows of a group, in order of time, with no empty window of all queries between two.

    `run` and `last` have the run (-1: none) and the time of the last row of each group, and are updated. `owner` has
    the group of each of the `count` runs, and room for one more per row. Returns the run of each row, and the count.
    """
    size, slide, origin = windows
    number = np.empty(len(group), np.int32)
    longest = size.max() if len(size) else 0
    for i in range(len(group)):
        g, t = group[i], time[i]
        r = run[g]
        ended = r < 0
        if not ended and len(size) > 0 and t - last[g] >= longest:
            ended = True
            for w in range(len(size)):
                end = last[g] + size[w]
                if slide[w] > 0:  # of the first window that does not hold the last row
                    end = origin[w] + ((last[g] - origin[w]) // slide[w] + 1) * slide[w] + size[w]
                ended = ended and end <= t
        if ended:
            r = count
            run[g], owner[r] = r, g
            count += 1
        last[g] = t
        number[i] = r
    return number, count
