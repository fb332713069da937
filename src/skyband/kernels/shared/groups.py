"""The loop over groups."""

import numpy as np

from skyband.kernels._jit import inplace, kernel
from skyband.kernels.columns import MIN_TIME
from skyband.kernels.ranking import FEW
from skyband.kernels.search import first_below
from skyband.kernels.shared.close import close_windows, promote
from skyband.kernels.shared.levels import fill_levels
from skyband.kernels.shared.memory import (
    INSERT,
    LOWEST,
    MAX_PROMOTED,
    MERGE,
    NOTHING,
    PROMOTED,
    PRUNE,
    RESET,
    THRESHOLD,
    VIEWS,
    BandRows,
    S,
    SharedRows,
    append_below,
    close_gaps,
    copy_band,
    empty_band,
    merge_scratch,
    shared_work,
)
from skyband.kernels.shared.merge import count_panes, insert_promoted, merge_pending, prune_ranked, renumber
from skyband.kernels.shared.prune import classify, demote, prune_pending, set_classes
from skyband.kernels.shared.views import (
    UNLIMITED,
    ViewColumns,
    Views,
    copy_views,
    empty_views,
    find_views,
    merge_views,
    play_all,
    reserve_views,
    view_work,
)

_PATIENCE = 16  # merges after a prune that did not pay, before the next one


@kernel
def sweep_shared(bands, views, source, upto, scratch, lazy, short):
    """Close the windows that end by `upto[g]`, for each group g, while there is room for answers.

    Returns the new bands and views, the lists and rows in the answer buffer, the most candidates at once, and whether
    there is more to do. `marks` and `rows.first` are updated, so that the same call with another buffer continues.
    `lazy` is the part of a band that may be pending before rows are dropped; bands of less than `short` rows are
    ranked as a whole then.
    """
    rows, marks, queries = source.rows, source.marks, len(source.queries.k)
    band, spare, kept = scratch.band, scratch.spare, scratch.kept
    work, work_views = shared_work(scratch, queries), view_work(empty_views(2 * queries + 1024))
    state, pending = work.state, work.pending
    old, old_views = BandRows(bands.score, bands.time, bands.id, bands.pane), ViewColumns(views.at, views.end, views.k)
    first, total, peak = np.empty((2, len(upto)), np.int64), 0, 0
    kept_views, first_view, total_views = empty_views(64), np.empty((2, len(upto)), np.int64), 0
    for g in range(len(upto)):
        low, high, low_view = bands.first[0, g], bands.first[1, g], views.first[0, g]
        n, shown = views.first[1, g] - low_view, _count_shown(marks.shown, g)
        first[0, g], first_view[0, g] = total, total_views
        if not state[S.full] and (low < high or rows.first[0, g] < rows.first[1, g] or shown > 0):
            if n + queries >= len(work_views.views.at):
                work_views = view_work(empty_views(2 * (n + queries)))
            copy_views(old_views, low_view, n, work_views.views, 0)
            copy_band(old, low, marks.ranked[g], band, 0)
            copy_band(old, low + marks.ranked[g], high - low - marks.ranked[g], pending, 0)
            _load(work, work_views.views, n, source, g, high - low, shown)
            band, spare, work_views = _advance_group(band, spare, work, work_views, source, g, upto[g], lazy, short)
            peak = max(peak, total + state[S.peak] + len(bands.id) - high)
            copy_band(band, 0, state[S.ranked], kept, total)
            copy_band(pending, 0, state[S.pending], kept, total + state[S.ranked])
            total += state[S.ranked] + state[S.pending]
            _store(work, source, g)
            n = state[S.views] if state[S.ranked] + state[S.pending] > 0 else 0
            kept_views = reserve_views(kept_views, total_views, n)
            copy_views(work_views.views, 0, n, kept_views, total_views)
        else:
            copy_band(old, low, high - low, kept, total)
            total += high - low
            kept_views = reserve_views(kept_views, total_views, n)
            copy_views(old_views, low_view, n, kept_views, total_views)
        if not state[S.full] and upto[g] >= marks.done[g]:
            marks.done[g], marks.last[g] = upto[g], UNLIMITED
        total_views += n
        first[1, g], first_view[1, g] = total, total_views
    new, new_views = _copy_used(kept, total, first), _copy_used_views(kept_views, total_views, first_view)
    return new, new_views, state[S.lists], state[S.rows], peak, state[S.full] > 0


@kernel
def _copy_used(kept, n, first):
    score, time, id, pane = kept
    return SharedRows(score[:n].copy(), time[:n].copy(), id[:n].copy(), pane[:n].copy(), first)


@kernel
def _copy_used_views(kept, n, first):
    at, end, k = kept
    return Views(at[:n].copy(), end[:n].copy(), k[:n].copy(), first)


@inplace
def _count_shown(shown, g):
    """Count the queries whose last answer had rows."""
    count = 0
    for number in range(len(shown)):
        count += shown[number, g]
    return count


@inplace
def _load(work, views, n, source, g, candidates, shown):
    """Set the state to what is stored of a group with n views."""
    state, marks, first = work.state, source.marks, source.rows.first
    state[S.row] = state[S.unread] = first[0, g]
    state[S.ranked], state[S.pending] = marks.ranked[g], candidates - marks.ranked[g]
    state[S.promoted] = state[S.gaps] = state[S.unread_gaps] = state[S.peak] = state[S.patience] = 0
    state[S.closed], state[S.closed_queries], state[S.seen] = marks.done[g], marks.last[g], marks.seen[g]
    state[S.shown], state[S.views], state[S.counted], state[S.classified] = shown, n, -1, -1
    state[S.raised], state[S.kept], state[S.minimal] = marks.kept[0, g], marks.kept[1, g], marks.kept[2, g]
    state[S.pruned] = min(state[S.ranked], state[S.kept])
    state[S.expiry] = MIN_TIME
    for v in range(n):
        state[S.expiry] = max(state[S.expiry], views.end[v])
    work.scores[THRESHOLD], work.scores[LOWEST] = marks.bar[0, g], marks.bar[1, g]


@inplace
def _store(work, source, g):
    """Store what has to be remembered of a group."""
    state, marks = work.state, source.marks
    source.rows.first[0, g], marks.ranked[g] = state[S.row], state[S.ranked]
    marks.done[g], marks.last[g], marks.seen[g] = state[S.closed], state[S.closed_queries], state[S.seen]
    marks.kept[0, g], marks.kept[1, g], marks.kept[2, g] = state[S.raised], state[S.kept], state[S.minimal]
    marks.bar[0, g], marks.bar[1, g] = work.scores[THRESHOLD], work.scores[LOWEST]


@kernel
def _advance_group(band, spare, work, views, source, g, upto, lazy, short):
    """Close the windows of one group, and rank or drop rows whenever that has to be done first."""
    state, queries = work.state, len(source.queries.k)
    _schedule(band, work, source, g)
    state[S.now] = state[S.closed]
    state[S.needs] = _promote_pending(work)
    shortest, longest, slowest = source.queries.size.min(), source.queries.size.max(), source.queries.slide.max()
    changed, more = True, True
    while True:
        if state[S.needs] != VIEWS:
            needs, raised = _next_step(band, work, views, source.rows, slowest, short)
            if needs == PRUNE:
                if raised or _has_grown(work, views):
                    state[S.ranked] = prune_ranked(
                        band, state[S.ranked], work.promoted, state[S.promoted], spare, views, state[S.views],
                        state[S.now],
                    )  # fmt: skip
                    band, spare, changed = spare, band, True
                    state[S.promoted], state[S.counted], state[S.pruned] = 0, state[S.views], state[S.ranked]
                before = state[S.ranked]
                needs = _prune(band, spare, work, views)
                changed = changed or state[S.ranked] < before
            if needs != PRUNE and state[S.promoted] > 0:
                _count_promoted(work, views)
                n = state[S.promoted]
                state[S.ranked] = insert_promoted(band, state[S.ranked], work.promoted, n, spare, work.merge.order)
                band, spare, changed = spare, band, True
                state[S.promoted] = 0
            if needs == MERGE:
                _merge(band, spare, work, views)
                band, spare, changed = spare, band, True
        if not more:
            return band, spare, views
        if state[S.views] + queries >= len(views.views.at):
            views = view_work(reserve_views(views.views, state[S.views], state[S.views] + 2 * queries))
            state[S.counted] = -1
        state[S.pays_from] = state[S.row] + max(FEW, int(lazy * state[S.ranked])) // 2
        state[S.limit] = state[S.kept] + max(FEW, int(lazy * state[S.kept]))
        if changed:
            fill_levels(band, state[S.ranked], work.levels, state[S.now], shortest, longest)
            changed = False
        close_windows(work, views.views, source, g, upto)
        more = state[S.needs] != NOTHING


@inplace
def _schedule(band, work, source, g):
    """Find where the next window of each query ends and starts; with no candidates, the first that holds a row."""
    state, rows, pending = work.state, source.rows, work.pending
    k, size, slide, origin, low, high, _, _, _ = source.queries
    new = state[S.closed] == MIN_TIME
    idle = state[S.ranked] + state[S.pending] == 0 and state[S.shown] == 0
    earliest = rows.time[state[S.row]] if state[S.row] < rows.first[1, g] else UNLIMITED
    if new:
        for i in range(state[S.ranked]):
            earliest = min(earliest, band.time[i])
        for i in range(state[S.pending]):
            earliest = min(earliest, pending.time[i])
    ends, starts = work.ending.key, work.starting.key
    leaves = len(ends) >> 1
    for q in range(len(k)):
        since = state[S.closed] if q < state[S.closed_queries] else state[S.closed] - 1
        if idle or new:
            since = max(since, earliest)
        ends[leaves + q] = origin[q] + size[q] + ((since - origin[q] - size[q]) // slide[q] + 1) * slide[q]
        since = max(state[S.seen] + 1, low[q])
        begin = origin[q] - (origin[q] - since) // slide[q] * slide[q]
        starts[leaves + q] = begin if begin < high[q] else UNLIMITED
    for q in range(len(k), leaves):
        ends[leaves + q] = starts[leaves + q] = UNLIMITED
    play_all(work.ending)
    play_all(work.starting)


@inplace
def _promote_pending(work):
    """Promote the pending rows that reach the threshold. Return what has to be done then."""
    state, scores = work.state, work.scores
    score, time, id, pane = work.pending
    count = 0
    for i in range(state[S.pending]):
        count += score[i] >= scores[THRESHOLD]
    if count > MAX_PROMOTED:
        scores[THRESHOLD] = np.inf
        return MERGE
    for i in range(state[S.pending] if count > 0 else 0):
        if score[i] >= scores[THRESHOLD]:
            state[S.promoted] = promote(work.promoted, state[S.promoted], score[i], time[i], id[i], pane[i])
            pane[i] = PROMOTED
            state[S.gaps] += 1
    return NOTHING


@inplace
def _next_step(band, work, views, rows, slowest, short):
    """Collect pending rows, and raise the threshold if due. Return what to do next, and whether it was raised."""
    state, scores, pending = work.state, work.scores, work.pending
    if state[S.gaps] > 0:
        state[S.pending], state[S.classified] = close_gaps(
            pending, work.merge.score_class, state[S.pending], state[S.classified]
        )
        state[S.gaps] = 0
    state[S.pending] = append_below(
        rows, state[S.unread], state[S.row], scores[THRESHOLD], pending, state[S.pending], views.views, state[S.views]
    )
    state[S.unread], state[S.unread_gaps] = state[S.row], 0
    needs = state[S.needs]
    if needs == PRUNE and (state[S.ranked] + state[S.pending] < short or state[S.patience] > 0):
        needs, state[S.patience] = MERGE, max(state[S.patience] - 1, 0)
    raised = state[S.now] >= state[S.raised] + slowest and (needs == INSERT or needs == PRUNE)  # noqa: PLR1714
    if raised:  # by now every query has answered
        floor = _below_answers(band.score, state[S.ranked], scores[LOWEST])
        scores[THRESHOLD], scores[LOWEST], state[S.raised] = max(scores[THRESHOLD], floor), np.inf, state[S.now]
    if needs == RESET:
        needs, scores[THRESHOLD] = MERGE, np.inf
    return needs, raised


@inplace
def _below_answers(score, ranked, floor):
    """Return a score below all answers, which came down to `floor`, and below some ranked rows more: answers vary."""
    if floor == np.inf:
        return floor
    above = first_below(score, floor, 0, ranked)
    place = above + above // 8 + FEW
    return score[place] if place < ranked else -np.inf


@inplace
def _has_grown(work, views):
    """Return whether pruning the ranked rows pays, or is needed because they are not counted."""
    state = work.state
    grown = 16 * (state[S.ranked] + state[S.promoted]) > 17 * state[S.pruned]
    return grown or state[S.counted] < 0 or state[S.views] > views.limit[0]


@inplace
def _count_promoted(work, views):
    """Count the promoted rows with the ranked ones, if those are counted; new views have none."""
    state, count = work.state, views.pane_rows
    if state[S.counted] < 0:
        return
    for v in range(state[S.counted], state[S.views]):
        count[v] = 0
    count_panes(work.promoted.pane, state[S.promoted], count)
    state[S.counted] = state[S.views]


@inplace
def _merge(band, spare, work, views):
    """Rank all rows into `spare`, and keep the minimal set."""
    state, n = work.state, work.state[S.pending]
    copy_band(work.pending, 0, n, band, state[S.ranked])
    size, state[S.views] = merge_pending(
        band, state[S.ranked], n, spare, work.merge, views, state[S.views], state[S.now]
    )
    state[S.ranked] = state[S.kept] = state[S.minimal] = state[S.pruned] = size
    state[S.pending], state[S.classified], state[S.counted] = 0, -1, -1


@kernel
def _prune(band, spare, work, views):
    """Drop rows without ranking those below the threshold. Return PRUNE, or MERGE if hardly any goes."""
    state, pending, count = work.state, work.pending, views.pane_rows
    for v in range(state[S.counted], state[S.views]):
        count[v] = 0
    state[S.counted] = state[S.views]
    before = state[S.pending]
    state[S.ranked], state[S.pending] = demote(
        band, state[S.ranked], work.scores[THRESHOLD], pending, state[S.pending], spare
    )
    if state[S.pending] > before:
        state[S.classified] = -1
        count[: state[S.views]] = 0
        count_panes(band.pane, state[S.ranked], count)
    if state[S.classified] < 0:
        set_classes(pending.score, state[S.pending], work.merge.edges)
        state[S.classified] = 0
    return _drop_pending(band, work, views)


@inplace
def _drop_pending(band, work, views):
    state, pending = work.state, work.pending
    classify(pending.score, state[S.classified], state[S.pending], work.merge.edges, work.merge.score_class)
    state[S.pending] = prune_pending(pending, state[S.pending], work.merge, views, state[S.views], state[S.now])
    state[S.classified] = state[S.pending]
    if state[S.views] > views.limit[0]:
        count_panes(pending.pane, state[S.pending], views.pane_rows)
        state[S.views] = merge_views(views, state[S.views], state[S.now])
        renumber(band.pane, state[S.ranked], views.place)
        renumber(pending.pane, state[S.pending], views.place)
        views.limit[0] = state[S.views] + state[S.views] // 4 + FEW
        state[S.counted] = -1
    state[S.kept] = state[S.ranked] + state[S.pending] + state[S.promoted]
    if 5 * state[S.kept] > 7 * state[S.minimal] + FEW:
        state[S.patience] = _PATIENCE
        return MERGE
    return PRUNE


@kernel
def settle_shared(bands, marks, views):
    """Return the bands merged and pruned, which is the minimal set of each group, and the views; update the marks."""
    groups, longest, most = len(marks.done), 0, 0
    for g in range(groups):
        longest = max(longest, bands.first[1, g] - bands.first[0, g])
        most = max(most, views.first[1, g] - views.first[0, g])
    band, spare, scratch, work = (
        empty_band(longest),
        empty_band(longest),
        merge_scratch(longest),
        view_work(empty_views(most + 1)),
    )
    old, old_views = BandRows(bands.score, bands.time, bands.id, bands.pane), ViewColumns(views.at, views.end, views.k)
    kept, first, total = empty_band(len(bands.id)), np.empty((2, groups), np.int64), 0
    kept_views, first_view, total_views = empty_views(len(views.at)), np.empty((2, groups), np.int64), 0
    for g in range(groups):
        low, high, ranked = bands.first[0, g], bands.first[1, g], marks.ranked[g]
        first[0, g], first_view[0, g] = total, total_views
        if low < high:
            n = views.first[1, g] - views.first[0, g]
            copy_views(old_views, views.first[0, g], n, work.views, 0)
            copy_band(old, low, high - low, band, 0)
            size, n = merge_pending(band, ranked, high - low - ranked, spare, scratch, work, n, marks.done[g] + 1)
            copy_band(spare, 0, size, kept, total)
            copy_views(work.views, 0, n, kept_views, total_views)
            total += size
            total_views += n
            marks.ranked[g] = marks.kept[1, g] = marks.kept[2, g] = size
        first[1, g], first_view[1, g] = total, total_views
    return _copy_used(kept, total, first), _copy_used_views(kept_views, total_views, first_view)


@kernel
def rebuild_views(bands, marks, queries):
    """Return the views of all groups, found again from their rows, when queries have left; set panes in place."""
    groups = len(marks.done)
    kept, first, total = empty_views(64), np.empty((2, groups), np.int64), 0
    for g in range(groups):
        low, high = bands.first[0, g], bands.first[1, g]
        first[0, g] = total
        order = np.argsort(bands.id[low:high])
        views, n, pane = find_views(bands.time[low:high][order], queries, marks.done[g])
        for i in range(high - low):
            bands.pane[low + order[i]] = pane[i]
        kept = reserve_views(kept, total, n)
        copy_views(views, 0, n, kept, total)
        total += n
        first[1, g] = total
    return _copy_used_views(kept, total, first)
