"""Ranking rows, and dropping those that no view needs."""

import numpy as np

from skyband.kernels._jit import inline, inplace
from skyband.kernels.ranking import FEW, sort_by_score
from skyband.kernels.search import first_not_above
from skyband.kernels.shared.views import UNLIMITED, merge_views


@inplace
def merge_pending(band, ranked, pending, spare, scratch, work, n, now):
    """Merge the pending rows behind the ranked ones into `spare`, and keep the minimal set.

    It is that for windows that end by `now` or later. One walk from the best row down. A view needs a row while fewer
    than its k better ones are in it. Views are served in turn: a row that the first view in need sees is kept (theorem
    5.1); which one that is only moves on. Returns the number of rows, and of views. O(rows + views).
    """
    k, count, order = work.views.k, work.pane_rows, scratch.order
    _rank(band.score, ranked, pending, scratch)
    _reset_counts(work, n, now)
    needy, held, out = _first_in_need(k), 0, np.uint64(0)
    for i in range(ranked + pending):
        out, needy, held = _keep_if_needed(band, order[i], spare, out, k, count, needy, held)
    if n > work.limit[0]:  # not every time: few have come
        n = merge_views(work, n, now)
        renumber(spare.pane, np.int64(out), work.place)
        work.limit[0] = n + n // 4 + FEW
    return np.int64(out), n


@inplace
def prune_ranked(band, ranked, promoted, n, spare, work, views, now):
    """Merge n promoted rows and the ranked ones into `spare`, and keep what views need. Return the number of rows.

    O(rows + views).
    """
    k, count = work.views.k, work.pane_rows
    _reset_counts(work, views, now)
    needy, held, out, i = _first_in_need(k), 0, np.uint64(0), 0
    for j in range(n):
        above = first_not_above(band.score, promoted.score[j], i, ranked)
        for row in range(i, above):
            out, needy, held = _keep_if_needed(band, np.uint64(row), spare, out, k, count, needy, held)
        out, needy, held = _keep_if_needed(promoted, np.uint64(j), spare, out, k, count, needy, held)
        i = above
    for row in range(i, ranked):
        out, needy, held = _keep_if_needed(band, np.uint64(row), spare, out, k, count, needy, held)
    return np.int64(out)


@inline
def _keep_if_needed(rows, row, to, out, k, count, needy, held):
    """Copy a row if the first view in need sees it; no branch depends on that.

    `held` of the rows so far are in that view. Returns the next place, the first view in need, and its rows.
    """
    pane = rows.pane[row]
    keep = pane >= needy
    to.score[out], to.time[out], to.id[out], to.pane[out] = rows.score[row], rows.time[row], rows.id[row], pane
    out += np.uint64(keep)
    count[np.uint32(max(pane, 0))] += keep  # -1: no view sees it, and it is not kept
    held += keep
    while held >= k[needy]:
        held -= count[needy]
        needy += 1
    return out, needy, held


@inline
def _first_in_need(k):
    view = 0
    while k[view] == 0:
        view += 1
    return view


@inplace
def _reset_counts(work, n, now):
    """Start a walk: no view has a row yet, and those that end before `now` need none."""
    _, end, k = work.views
    for v in range(n):
        work.pane_rows[v] = 0
        if end[v] < now:
            k[v] = 0
    k[n] = UNLIMITED  # so that a search for a view ends


@inplace
def count_panes(pane, size, count):
    """Count rows by their pane."""
    for i in range(size):
        count[max(pane[i], 0)] += 1


@inplace
def renumber(pane, size, place):
    """Give panes the numbers that their views have now."""
    for i in range(size):
        pane[i] = place[pane[i]]


@inplace
def insert_promoted(band, ranked, promoted, n, spare, place):
    """Merge n promoted rows and the ranked ones into `spare`. Return the number of rows."""
    above = 0
    for j in range(n):
        above = first_not_above(band.score, promoted.score[j], above, ranked)
        place[j] = above
    _copy_with(band.score, ranked, promoted.score, n, place, spare.score)
    _copy_with(band.time, ranked, promoted.time, n, place, spare.time)
    _copy_with(band.id, ranked, promoted.id, n, place, spare.id)
    _copy_with(band.pane, ranked, promoted.pane, n, place, spare.pane)
    return ranked + n


@inplace
def _copy_with(column, size, new, n, place, to):
    """Copy a column, with n new values at their places."""
    i = 0
    for j in range(n):
        above = int(place[j])
        for row in range(i, above):
            to[row + j] = column[row]
        to[above + j] = new[j]
        i = above
    for row in range(i, size):
        to[row + n] = column[row]


@inplace
def _rank(score, ranked, pending, scratch):
    """Fill `order` with the ranked rows and the pending ones behind them, best first, of equals the later one.

    The two runs are merged from both ends at once: two chains of comparisons that need not wait for each other.
    """
    order, new = scratch.order, scratch.pending_order
    sort_by_score(score, ranked, pending, new, scratch.sort)
    new_score = scratch.sort.key.view(np.float64)
    for j in range(pending):
        new_score[j] = score[ranked + new[j]]
    i = j = at = 0 * ranked
    last, last_new = ranked - 1, pending - 1
    end = ranked + pending - 1
    for _ in range(min(ranked, pending) // 2):  # so many steps exhaust neither run from either end
        later = np.int64(new_score[j] >= score[i])  # pending rows are later: they win ties
        order[at] = i + later * (ranked + new[j] - i)
        i += 1 - later
        j += later
        at += 1
        worse = np.int64(score[last] > new_score[last_new])
        order[end] = last + worse * (ranked + new[last_new] - last)
        last_new -= worse
        last -= 1 - worse
        end -= 1
    while i <= last and j <= last_new:
        later = np.int64(new_score[j] >= score[i])
        order[at] = i + later * (ranked + new[j] - i)
        i += 1 - later
        j += later
        at += 1
    while i <= last:
        order[at] = i
        i += 1
        at += 1
    while j <= last_new:
        order[at] = ranked + new[j]
        j += 1
        at += 1
