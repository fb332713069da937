"""Small loops over columns of rows: are they in order, and which number has each in its group."""

import numpy as np

from skyband.kernels._jit import kernel


@kernel
def in_order(time, id):
    """Whether rows come by time, and at equal times by id. One pass."""
    for i in range(1, len(time)):
        if time[i] < time[i - 1] or (time[i] == time[i - 1] and id[i] < id[i - 1]):
            return False
    return True


@kernel
def rises(time):
    """Whether times never go back. One pass, a block at a time without a branch."""
    for low in range(0, len(time) - 1, 256):
        back = 0
        for i in range(low, min(low + 256, len(time) - 1)):
            back += time[i + 1] < time[i]
        if back:
            return False
    return True


@kernel
def bounds(time):
    """The least and the largest of some times, of which there is at least one. One pass."""
    low, high = time[0], time[0]
    for t in time:
        low, high = min(low, t), max(high, t)
    return low, high


@kernel
def numbered(group, count):
    """The number of each row within its group, from `count` on, which is brought up to date."""
    number = np.empty(len(group), np.int64)
    for i in range(len(group)):
        number[i] = count[group[i]]
        count[group[i]] += 1
    return number


@kernel
def by_group(score, time, id, group, groups, to_score, to_time, to_id):
    """Put the rows into the `to` columns group by group, in their order within each. Two passes.

    Where each group begins and ends is returned.
    """
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
    """Where each of the numbers below `codes` first stands in `code`; its length where it does not."""
    place = np.full(codes, len(code), np.int64)
    for i in range(len(code) - 1, -1, -1):
        place[code[i]] = i
    return place


@kernel
def run_numbers(group, time, run, last, owner, count, size, slide, origin):
    """The number of each row's run: rows of a group, in the order of time, with no empty window between two of them.

    `run` and `last` have the run and the time of the last row of each group, -1 for the run of a new one; `owner` has
    the group of each of `count` runs, and room for as many more as there are rows. They are brought up to date. `size`,
    `slide` and `origin` are those of all windows that must be empty; slide 0: a window after every row. One pass.
    """
    number = np.empty(len(group), np.int32)
    longest = size.max() if len(size) else 0
    for i in range(len(group)):
        g, t = group[i], time[i]
        r = run[g]
        over = r < 0
        if not over and len(size) > 0 and t - last[g] >= longest:
            over = True
            for w in range(len(size)):
                end = last[g] + size[w]
                if slide[w] > 0:  # of the first window that does not hold the last row
                    end = origin[w] + ((last[g] - origin[w]) // slide[w] + 1) * slide[w] + size[w]
                over = over and end <= t
        if over:
            r = count
            run[g], owner[r] = r, g
            count += 1
        last[g] = t
        number[i] = r
    return number, count
