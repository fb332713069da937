"""Leaderboards: the k best keys of every window by their totals, all groups and windows in one call.

A cell is a key within a group. Its total over a window is folded from two halves that only grow: `front`, the
totals from each pane up to a fixed boundary, computed once when windows cross it, and `back`, the panes since. So
a pane costs O(1) to enter and O(1) to leave, and what a window's total is folded from depends on the window alone.

Beside the totals stands a view (Yi et al., ICDE 2003): of each group the cells that rank at or before a bound,
between k and most of them. Only when fewer than k are left are all cells of the group looked at again.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inline, kernel
from skyband.kernels.totals import _before, _merge, _score, best

STEP, LOW, HIGH, SPLIT, EPOCH = range(5)  # numbers of a board's `marks`
NO_BOUND = 2


class Entries(NamedTuple):
    """Partial totals by pane: all that windows still need, in the order of panes."""

    pane: np.ndarray  # where it begins
    cell: np.ndarray
    ints: np.ndarray
    floats: np.ndarray
    following: np.ndarray  # in front: the cell's next entry there, -1 if none
    front_ints: np.ndarray  # in front: the total from this entry on
    front_floats: np.ndarray


class Cells(NamedTuple):
    """What is known of each cell."""

    group: np.ndarray
    tie: np.ndarray
    missing: np.ndarray  # 1 if its key is missing, which then ranks after all others of its score
    beside: np.ndarray  # another cell of its group, -1 at the last
    present: np.ndarray  # entries in the window
    head: np.ndarray  # its first entry in front, -1 if none
    behind: np.ndarray  # how many entries back has
    back_ints: np.ndarray
    back_floats: np.ndarray
    score: np.ndarray
    place: np.ndarray  # in its group's view, -1 if outside
    told: np.ndarray  # whether it was in a list since it was last absent
    dirty: np.ndarray


class Boards(NamedTuple):
    """What is known of each group."""

    first: np.ndarray  # one of its cells
    near: np.ndarray  # cells that rank at or before the bound, one row for each group
    size: np.ndarray
    bound_score: np.ndarray
    bound_tie: np.ndarray
    bound_missing: np.ndarray  # as of the cell at the bound; NO_BOUND: all cells are inside
    board: np.ndarray  # its last list
    listed: np.ndarray  # how long that is
    stale: np.ndarray  # whether it must be made again
    shown: np.ndarray  # whether its last list had rows


@inline
def _flip(entries, cells, low, high, boundary):
    """Fold the entries before `boundary` from the end on, the others into back. Where the first of those is."""
    pane, cell, ints, floats, following, front_ints, front_floats = entries
    head, behind, back_ints, back_floats = cells.head, cells.behind, cells.back_ints, cells.back_floats
    for e in range(low, high):
        c = cell[e]
        head[c], behind[c] = -1, 0
    split = low
    while split < high and pane[split] < boundary:
        split += 1
    for e in range(split - 1, low - 1, -1):
        c = cell[e]
        front_ints[e] = ints[e]
        front_floats[e] = floats[e]
        if head[c] >= 0:
            _merge(front_ints, front_floats, e, front_ints, front_floats, head[c])
        following[e] = head[c]
        head[c] = e
    for e in range(split, high):
        _add(cell[e], e, ints, floats, behind, back_ints, back_floats)
    return split


@inline
def _add(c, e, ints, floats, behind, back_ints, back_floats):
    """Let back have entry `e`."""
    if behind[c]:
        _merge(back_ints, back_floats, c, ints, floats, e)
    else:
        back_ints[c] = ints[e]
        back_floats[c] = floats[e]
    behind[c] += 1


@kernel
def refill(cells, boards, g, keep):
    """Look at all cells of a group again, for its view: all of them if there is room, else the `keep` best."""
    score, tie, missing, beside, place = cells.score, cells.tie, cells.missing, cells.beside, cells.place
    count = 0
    c = boards.first[g]
    while c >= 0:
        count += not np.isnan(score[c])
        c = beside[c]
    ranked = np.empty(count, np.int32)
    count = 0
    c = boards.first[g]
    while c >= 0:
        place[c] = -1
        if not np.isnan(score[c]):
            ranked[count] = c
            count += 1
        c = beside[c]
    room = boards.near.shape[1]
    if count >= room:
        ranked = best(ranked, score, tie, missing, keep)
        count = len(ranked)
        last = ranked[count - 1]
        boards.bound_score[g], boards.bound_tie[g], boards.bound_missing[g] = score[last], tie[last], missing[last]
    else:
        boards.bound_score[g], boards.bound_missing[g] = -np.inf, NO_BOUND
    for i in range(count):
        boards.near[g, i] = ranked[i]
        place[ranked[i]] = i
    boards.size[g] = count


@kernel
def _shrink(cells, boards, g, keep):
    """A full view keeps its best."""
    score, tie, missing, place = cells.score, cells.tie, cells.missing, cells.place
    members = boards.near[g, : boards.size[g]]
    ranked = best(members, score, tie, missing, keep)
    for c in members:
        place[c] = -1
    for i in range(len(ranked)):
        boards.near[g, i] = ranked[i]
        place[ranked[i]] = i
    boards.size[g] = len(ranked)
    last = ranked[-1]
    boards.bound_score[g], boards.bound_tie[g], boards.bound_missing[g] = score[last], tie[last], missing[last]


@inline
def _moved(c, g, inside, near, sizes, place, stale):
    """Let a cell with a new total into its group's view, or out of it; how many are in it then."""
    at = place[c]
    if at >= 0:
        stale[g] = True
        if not inside:  # bad: the last takes its place
            sizes[g] -= 1
            last = near[g, sizes[g]]
            near[g, at] = last
            place[last] = at
            place[c] = -1
    elif inside:
        stale[g] = True
        near[g, sizes[g]] = c
        place[c] = sizes[g]
        sizes[g] += 1
    return sizes[g]


@kernel
def close(entries, cells, boards, marks, upto, clock, shape):
    """Close every window that ends by `upto`. Entries before `marks[LOW]` are no longer needed afterwards.

    `clock` is (size, slide, origin), `shape` (k, how many a refilled view keeps, kind and unit of the total, sign
    of the order, arrivals only). Returns the lists: (step, end, group, first), cells and scores, and ranks.
    """
    size, slide, origin = clock
    k, keep, kind, unit, sign, arrivals = shape
    pane, cell, ints, floats = entries.pane, entries.cell, entries.ints, entries.floats
    following, front_ints, front_floats = entries.following, entries.front_ints, entries.front_floats
    group, tie, missing, present = cells.group, cells.tie, cells.missing, cells.present
    head, behind = cells.head, cells.behind
    back_ints, back_floats, score = cells.back_ints, cells.back_floats, cells.score
    place, told, dirty = cells.place, cells.told, cells.dirty
    near, sizes = boards.near, boards.size
    bound_score, bound_tie, bound_missing = boards.bound_score, boards.bound_tie, boards.bound_missing
    board, listed, stale, shown = boards.board, boards.listed, boards.stale, boards.shown
    sum_ints, sum_floats = np.zeros((1, ints.shape[1]), np.int64), np.zeros((1, floats.shape[1]))
    ratio = -(-size // slide)
    total, groups, room = len(pane), len(sizes), near.shape[1]
    w, low, high, split, epoch = marks[STEP], marks[LOW], marks[HIGH], marks[SPLIT], marks[EPOCH]
    lists, rows = 0, 0
    out_lists = np.empty((4, 16), np.int64)
    out_rows = np.empty((3, 64), np.int64)
    out_scores = np.empty(64)
    touched = np.empty(16, np.int32)
    alive = False
    for g in range(groups):
        alive = alive or shown[g]
    while True:
        if low == high and not alive:  # nothing in the window: on to the first that holds an entry
            if high == total:
                break
            w = max(w, (pane[high] - origin - size) // slide + 1)
        start = origin + w * slide
        end = start + size
        if end > upto:
            break
        # -- what leaves and what enters; windows cross a boundary every `ratio` of them
        count = 0
        gone, come = low, high
        while gone < high and pane[gone] < start:
            gone += 1
        while come < total and pane[come] < end:
            come += 1
        if count + (gone - low) + (come - high) > len(touched):
            touched = np.empty(2 * ((gone - low) + (come - high)), np.int32)
        turning = w // ratio != epoch
        for e in range(low, gone):
            c = cell[e]
            present[c] -= 1
            if not turning:
                head[c] = following[e]
            if turning and present[c] == 0:
                head[c], behind[c] = -1, 0
            if not dirty[c]:
                dirty[c] = True
                touched[count] = c
                count += 1
        for e in range(high, come):
            c = cell[e]
            present[c] += 1
            if not turning:
                _add(c, e, ints, floats, behind, back_ints, back_floats)
            if not dirty[c]:
                dirty[c] = True
                touched[count] = c
                count += 1
        low, high = gone, come
        if turning:
            epoch = w // ratio
            split = _flip(entries, cells, low, high, origin + epoch * ratio * slide + size)
        # -- new totals of the cells concerned, and their groups' views
        for i in range(count):
            c = touched[i]
            dirty[c] = False
            g = group[c]
            new = np.nan
            if present[c] == 0:
                told[c] = False
            else:
                if head[c] >= 0:
                    sum_ints[0] = front_ints[head[c]]
                    sum_floats[0] = front_floats[head[c]]
                    if behind[c]:
                        _merge(sum_ints, sum_floats, 0, back_ints, back_floats, c)
                else:
                    sum_ints[0] = back_ints[c]
                    sum_floats[0] = back_floats[c]
                new = sign * _score(sum_ints, sum_floats, 0, kind, unit)
            if new == score[c]:
                continue
            score[c] = new
            inside = not np.isnan(new) and not _before(
                bound_score[g], bound_tie[g], bound_missing[g], new, tie[c], missing[c]
            )
            if _moved(c, g, inside, near, sizes, place, stale) == room:
                _shrink(cells, boards, g, keep)
        # -- the lists
        if lists + groups > out_lists.shape[1]:
            more = np.empty((4, 2 * (lists + groups)), np.int64)
            more[:, :lists] = out_lists[:, :lists]
            out_lists = more
        alive = False
        for g in range(groups):
            if stale[g]:
                if sizes[g] < k and bound_missing[g] != NO_BOUND:
                    refill(cells, boards, g, keep)
                ranked = best(near[g, : sizes[g]], score, tie, missing, k)
                listed[g] = len(ranked)
                board[g, : len(ranked)] = ranked
                stale[g] = False
            if listed[g] == 0 and not shown[g]:
                continue
            shown[g] = listed[g] > 0
            alive = alive or shown[g]
            if rows + listed[g] > len(out_scores):
                wide = 2 * (rows + listed[g])
                more = np.empty((3, wide), np.int64)
                more[:, :rows] = out_rows[:, :rows]
                out_rows = more
                longer = np.empty(wide)
                longer[:rows] = out_scores[:rows]
                out_scores = longer
            before = rows
            for r in range(listed[g]):
                c = board[g, r]
                if arrivals and told[c]:
                    continue
                told[c] = True
                out_rows[0, rows], out_rows[1, rows] = c, r + 1
                out_scores[rows] = score[c]
                rows += 1
            if arrivals and rows == before:
                continue
            out_lists[0, lists], out_lists[1, lists], out_lists[2, lists] = w, end, g
            out_lists[3, lists] = before
            lists += 1
        w += 1
    marks[STEP], marks[LOW], marks[HIGH], marks[SPLIT], marks[EPOCH] = w, low, high, split, epoch
    return out_lists[:, :lists], out_rows[:2, :rows], out_scores[:rows]


@kernel
def grow(cell, ints, floats, cells, boards, shape):
    """Add to the totals of all time; the lists of the groups in which something of their view has changed. O(cells).

    Without a cell, all groups are looked at.

    `shape` as for `close`. Returns the groups, where their lists begin, and of each line cell, score and rank.
    """
    k, keep, kind, unit, sign, arrivals = shape
    group, tie, missing, behind = cells.group, cells.tie, cells.missing, cells.behind
    score, told = cells.score, cells.told
    back_ints, back_floats, place = cells.back_ints, cells.back_floats, cells.place
    near, sizes, stale = boards.near, boards.size, boards.stale
    bound_score, bound_tie, bound_missing = boards.bound_score, boards.bound_tie, boards.bound_missing
    room = near.shape[1]
    for e in range(len(cell)):
        c = cell[e]
        g = group[c]
        _add(c, e, ints, floats, behind, back_ints, back_floats)
        behind[c] = 1
        new = sign * _score(back_ints, back_floats, c, kind, unit)
        if new == score[c]:
            continue
        score[c] = new
        inside = not np.isnan(new) and not _before(
            bound_score[g], bound_tie[g], bound_missing[g], new, tie[c], missing[c]
        )
        if _moved(c, g, inside, near, sizes, place, stale) == room:
            _shrink(cells, boards, g, keep)
    # the groups of these cells, or all of them if there is none
    concerned = np.unique(group[cell]) if len(cell) else np.arange(len(sizes)).astype(np.int32)
    count = 0
    for g in concerned:
        count += stale[g]
    groups, first = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    most = count * min(k, room)
    out, scores, rows = np.empty((2, most), np.int64), np.empty(most), 0
    count = 0
    for g in concerned:
        if not stale[g]:
            continue
        stale[g] = False
        if sizes[g] < k and bound_missing[g] != NO_BOUND:
            refill(cells, boards, g, keep)
        ranked = best(near[g, : sizes[g]], score, tie, missing, k)
        for r in range(len(ranked)):
            c = ranked[r]
            if arrivals and told[c]:
                continue
            told[c] = True
            out[0, rows], out[1, rows], scores[rows] = c, r + 1, score[c]
            rows += 1
        groups[count], first[count + 1] = g, rows
        count += 1
    return groups, first, out[:, :rows], scores[:rows]


@kernel
def resume(entries, cells, boards, marks, clock, shape):
    """Rebuild totals and views from the entries of the window that `marks` says was closed last."""
    size, slide, origin = clock
    keep, kind, unit, sign = shape[1], shape[2], shape[3], shape[4]
    cell, ints, floats = entries.cell, entries.ints, entries.floats
    front_ints, front_floats = entries.front_ints, entries.front_floats
    head, behind, back_ints, back_floats = cells.head, cells.behind, cells.back_ints, cells.back_floats
    low, high = marks[LOW], marks[HIGH]
    sum_ints, sum_floats = np.zeros((1, ints.shape[1]), np.int64), np.zeros((1, floats.shape[1]))
    ratio = -(-size // slide)
    if high > low:
        marks[SPLIT] = _flip(entries, cells, low, high, origin + marks[EPOCH] * ratio * slide + size)
    for e in range(low, high):
        cells.present[cell[e]] += 1
    for e in range(low, high):
        c = cell[e]
        if head[c] >= 0:
            sum_ints[0] = front_ints[head[c]]
            sum_floats[0] = front_floats[head[c]]
            if behind[c]:
                _merge(sum_ints, sum_floats, 0, back_ints, back_floats, c)
        else:
            sum_ints[0] = back_ints[c]
            sum_floats[0] = back_floats[c]
        cells.score[c] = sign * _score(sum_ints, sum_floats, 0, kind, unit)
    for g in range(len(boards.size)):
        refill(cells, boards, g, keep)
        boards.stale[g] = True
