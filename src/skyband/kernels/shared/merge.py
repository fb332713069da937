"""Ranking rows and letting go of those that no view wants."""

import numpy as np

from skyband.kernels._jit import inplace
from skyband.kernels.ranking import FEW, sort_by_score
from skyband.kernels.views import AFTER, fewer


@inplace
def merged(band, size, young, spare, room, sight, views, now):
    """Merge the fresh rows behind the ranked ones into them, into `spare`: the minimal set.

    It is that for windows that end by `now` or later. One walk from the best row down. A view wants a row while fewer
    than its k better ones are in it. Views want in turn: a row that the first view still in want sees is kept (theorem
    5.1); which one that is only moves on. Returns how many rows stay, and how many views. O(rows + views).
    """
    score, time, id, pane = band
    to_score, to_time, to_id, to_pane = spare
    at, end, k, count, place, step_end, step_k, fewest = sight
    order = room.order
    ranking(score, size, young, order, room.fresh, room.sort)
    opened(end, k, count, views, now)
    out = sifted(score, time, id, pane, order, size + young, to_score, to_time, to_id, to_pane, k, count)
    if views > fewest[0]:  # not every time: few have come
        views = fewer(at, end, k, views, count, place, step_end, step_k, now)
        for i in range(out):
            to_pane[i] = place[to_pane[i]]
        fewest[0] = views + views // 4 + FEW
    return out, views


@inplace
def folded(band, size, hot, warm, spare, sight, views, now):
    """Merge the `warm` fresh rows that are ranked into the others, into `spare`, as `merged` does.

    Returns how many rows stay. O(size + views).
    """
    score, time, id, pane = band
    hot_score, hot_time, hot_id, hot_pane = hot
    to_score, to_time, to_id, to_pane = spare
    _, end, k, count, _, _, _, _ = sight
    opened(end, k, count, views, now)
    wants = held = i = out = 0
    while k[wants] == 0:
        wants += 1
    for j in range(warm):
        s, above, over = hot_score[j], i, size  # the ranked rows above it
        while above < over:
            mid = (above + over) >> 1
            if score[mid] > s:
                above = mid + 1
            else:
                over = mid
        out, wants, held = sieved(
            score, time, id, pane, i, above, to_score, to_time, to_id, to_pane, out, k, count, wants, held
        )
        out, wants, held = sieved(
            hot_score, hot_time, hot_id, hot_pane, j, j + 1, to_score, to_time, to_id, to_pane, out, k, count, wants,
            held,
        )  # fmt: skip
        i = above
    out, _, _ = sieved(score, time, id, pane, i, size, to_score, to_time, to_id, to_pane, out, k, count, wants, held)
    return out


@inplace
def inserted(band, size, hot, warm, spare, place):
    """Merge the `warm` fresh rows that are ranked into the others, into `spare`; none goes. How many there are then."""
    score, time, id, pane = band
    hot_score, hot_time, hot_id, hot_pane = hot
    to_score, to_time, to_id, to_pane = spare
    above = 0
    for j in range(warm):  # how many ranked rows are above it
        over = size
        while above < over:
            mid = (above + over) >> 1
            if score[mid] > hot_score[j]:
                above = mid + 1
            else:
                over = mid
        place[j] = above
    spread(score, size, hot_score, warm, place, to_score)
    spread(time, size, hot_time, warm, place, to_time)
    spread(id, size, hot_id, warm, place, to_id)
    spread(pane, size, hot_pane, warm, place, to_pane)
    return size + warm


@inplace
def spread(column, size, new, more, place, to):
    """Copy a column, with new values where their place is."""
    i = 0
    for j in range(more):
        above = int(place[j])
        for row in range(i, above):
            to[row + j] = column[row]
        to[above + j] = new[j]
        i = above
    for row in range(i, size):
        to[row + more] = column[row]


@inplace
def opened(end, k, count, views, now):
    """Begin a walk: no view has a row yet, and those that end before `now` want none."""
    for v in range(views):
        count[v] = 0
        if end[v] < now:
            k[v] = 0
    k[views] = AFTER  # no end to look for


@inplace
def sifted(score, time, id, pane, order, size, to_score, to_time, to_id, to_pane, k, count):
    """Copy the rows that a view wants, in their order; how many there are. No branch depends on a row."""
    wants, held, out = 0, 0, np.uint64(0)  # the first view in want, and how many of the rows so far it sees
    while k[wants] == 0:
        wants += 1
    for i in range(size):
        row = order[i]
        seen = pane[row]
        keep = seen >= wants
        to_score[out], to_time[out], to_id[out], to_pane[out] = score[row], time[row], id[row], seen
        out += np.uint64(keep)
        count[np.uint32(max(seen, 0))] += keep  # -1: no view sees it, and it is not kept
        held += keep
        while held >= k[wants]:
            held -= count[wants]
            wants += 1
    return np.int64(out)


@inplace
def sieved(score, time, id, pane, low, high, to_score, to_time, to_id, to_pane, at, k, count, wants, held):
    """As `sifted`, for ranked rows from `low` to `high`, from where an earlier call came to; where this one does."""
    row, out = np.uint64(low), np.uint64(at)
    for _ in range(high - low):
        seen = pane[row]
        keep = seen >= wants
        to_score[out], to_time[out], to_id[out], to_pane[out] = score[row], time[row], id[row], seen
        out += np.uint64(keep)
        row += np.uint64(1)
        count[np.uint32(max(seen, 0))] += keep
        held += keep
        while held >= k[wants]:
            held -= count[wants]
            wants += 1
    return np.int64(out), wants, held


@inplace
def ranking(score, size, young, order, fresh, scratch):
    """The places of `size` ranked rows and the `young` ones behind them, best first, of equals the later one.

    The two runs are merged from both ends at once: two chains of comparisons that need not wait for each other.
    """
    sort_by_score(score, size, young, fresh, scratch)
    sorted_score = scratch.key.view(np.float64)
    for j in range(young):
        sorted_score[j] = score[size + fresh[j]]
    i = j = at = 0 * size
    last, back = size - 1, young - 1
    end = size + young - 1
    half = min(size, young)  # so many steps exhaust neither run from either end
    for _ in range(half // 2):
        later = np.int64(sorted_score[j] >= score[i])  # fresh rows are later: they win ties
        order[at] = i + later * (size + fresh[j] - i)
        i += 1 - later
        j += later
        at += 1
        worse = np.int64(score[last] > sorted_score[back])
        order[end] = last + worse * (size + fresh[back] - last)
        back -= worse
        last -= 1 - worse
        end -= 1
    while i <= last and j <= back:
        later = np.int64(sorted_score[j] >= score[i])
        order[at] = i + later * (size + fresh[j] - i)
        i += 1 - later
        j += later
        at += 1
    while i <= last:
        order[at] = i
        i += 1
        at += 1
    while j <= back:
        order[at] = size + fresh[j]
        j += 1
        at += 1
