"""The loop over groups."""

import numpy as np

from skyband.kernels._jit import inplace, kernel
from skyband.kernels.ranking import FEW
from skyband.kernels.shared.close import closed, warmed
from skyband.kernels.shared.merge import folded, inserted, merged
from skyband.kernels.shared.room import (
    AHEAD,
    ANEW,
    AT,
    BINNED,
    CALM,
    COUNTED,
    DEAD,
    DIES,
    DONE,
    DUE,
    EVEN,
    EXACT,
    FOLD,
    FULL,
    GONE,
    KEPT,
    LAST,
    LATELY,
    LISTED,
    LIT,
    MERGE,
    MOST,
    NOTHING,
    NOW,
    RAW,
    SEEN,
    SIEVED,
    SIGHT,
    SIZE,
    SPEAKS,
    STATE,
    THIN,
    TIRED,
    WARM,
    WARMEST,
    WIDER,
    WRITTEN,
    YOUNG,
    Rows,
    absorbed,
    columns,
    copied,
    gleaned,
    sighted,
    workroom,
)  # fmt: skip
from skyband.kernels.shared.shelf import shelved
from skyband.kernels.shared.thin import bordered, parted, reaching, sorted_in, thinned
from skyband.kernels.views import AFTER, NEVER, Views, fewer, longer, matched, reviewed

_REST = 16  # merges after one that could not be done without, before it is tried again


@kernel
def shared(bands, marks, rows, upto, records, views, page, scratch, lazy, short):
    """Close the windows that end by `upto[g]`, for each group g, as long as the page has room.

    Returns the new bands, how many lists and rows are on the page, the most rows kept at once, and whether
    there is more to do. `marks` is brought up to date in place and `rows.first` moved past what was taken, so
    that the same call with a new page goes on. `scratch` is made by `roomed`. `lazy` is the part of a band that may
    gather before rows are let go; bands of less than `short` rows are ranked as a whole then.
    """
    groups, queries = len(upto), len(records.k)
    band, spare, low_rows, kept, room, shelves = scratch
    hot, found = columns(WARMEST + 1), np.empty(AHEAD + 1, np.int64)
    leaves = 1
    while leaves < queries:
        leaves *= 2
    matches = (
        np.empty(2 * leaves, np.int64),
        np.empty(2 * leaves, np.int64),
        np.empty(2 * leaves, np.int64),
        np.empty(2 * leaves, np.int64),
    )
    sight = sighted(2 * queries + 1024)
    old = (bands.score, bands.time, bands.id, bands.pane)
    first, total, peak = np.empty((2, groups), np.int64), 0, 0
    at, end, k = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    seen, all_views = np.empty((2, groups), np.int64), 0
    now, gate = np.zeros(STATE, np.int64), np.empty(2)
    for g in range(groups):
        low, high, sure = bands.first[0, g], bands.first[1, g], marks.ranked[g]
        first[0, g], seen[0, g] = total, all_views
        base, views_here = views.first[0, g], views.first[1, g] - views.first[0, g]
        speaks = 0
        for number in range(marks.shown.shape[0]):
            speaks += marks.shown[number, g]
        if not now[FULL] and (low < high or rows.first[0, g] < rows.first[1, g] or speaks):
            copied(old, low, sure, band, 0)
            copied(old, low + sure, high - low - sure, low_rows, 0)
            if views_here + queries >= len(sight[0]):
                sight = sighted(2 * (views_here + queries))
            now[DIES] = NEVER
            for v in range(views_here):
                sight[0][v], sight[1][v], sight[2][v] = views.at[base + v], views.end[base + v], views.k[base + v]
                now[DIES] = max(now[DIES], views.end[base + v])
            now[AT], now[SIZE], now[YOUNG], now[WARM], now[MOST] = rows.first[0, g], sure, high - low - sure, 0, 0
            now[DONE], now[LAST], now[SPEAKS], now[SEEN] = marks.done[g], marks.last[g], speaks, marks.seen[g]
            now[SIGHT], now[DEAD], now[BINNED], now[TIRED] = views_here, 0, -1, 0
            now[RAW], now[LIT], now[COUNTED] = rows.first[0, g], 0, -1
            gate[0], gate[1] = marks.bar[0, g], marks.bar[1, g]
            now[LATELY], now[KEPT], now[EXACT] = marks.kept[0, g], marks.kept[1, g], marks.kept[2, g]
            now[SIEVED] = min(sure, now[KEPT])
            now[EVEN] = gapless(rows.time, rows.first[0, g], rows.first[1, g])
            band, spare, sight = advanced(
                band, spare, low_rows, room, hot, found, shelves, matches, sight, rows, g, upto[g], records, marks,
                page, now, gate, lazy, short,
            )  # fmt: skip
            peak = max(peak, total + now[MOST] + len(bands.id) - high)
            copied(band, 0, now[SIZE], kept, total)
            copied(low_rows, 0, now[YOUNG], kept, total + now[SIZE])
            total += now[SIZE] + now[YOUNG]
            rows.first[0, g], marks.ranked[g] = now[AT], now[SIZE]
            marks.bar[0, g], marks.bar[1, g] = gate[0], gate[1]
            marks.kept[0, g], marks.kept[1, g], marks.kept[2, g] = now[LATELY], now[KEPT], now[EXACT]
            marks.done[g], marks.last[g], marks.seen[g] = now[DONE], now[LAST], now[SEEN]
            views_here = now[SIGHT] if now[SIZE] + now[YOUNG] > 0 else 0
            if all_views + views_here > len(at):
                larger = 2 * (all_views + views_here)
                at, end, k = longer(at, larger), longer(end, larger), longer(k, larger)
            for v in range(views_here):
                at[all_views + v], end[all_views + v], k[all_views + v] = sight[0][v], sight[1][v], sight[2][v]
        else:
            copied(old, low, high - low, kept, total)
            total += high - low
            if all_views + views_here > len(at):
                larger = 2 * (all_views + views_here)
                at, end, k = longer(at, larger), longer(end, larger), longer(k, larger)
            for v in range(views_here):
                at[all_views + v], end[all_views + v], k[all_views + v] = (
                    views.at[base + v],
                    views.end[base + v],
                    views.k[base + v],
                )
        if not now[FULL] and upto[g] >= marks.done[g]:
            marks.done[g], marks.last[g] = upto[g], AFTER
        all_views += views_here
        first[1, g], seen[1, g] = total, all_views
    new = Rows(kept[0][:total].copy(), kept[1][:total].copy(), kept[2][:total].copy(), kept[3][:total].copy(), first)
    sights = Views(at[:all_views].copy(), end[:all_views].copy(), k[:all_views].copy(), seen)
    return new, sights, now[LISTED], now[WRITTEN], peak, now[FULL] > 0


@kernel
def advanced(
    band, spare, low, room, hot, found, shelves, matches, sight, rows, g, upto, records, marks, page, now, gate,
    lazy, short
):  # fmt: skip
    """One group: close its windows, and rank rows or let go of them whenever the loop that does so asks for it."""
    ending, ends, starting, starts = matches
    leaves = len(ending) >> 1
    k, size, slide, origin, least, most, _, _, _ = records
    total = now[SIZE] + now[YOUNG]
    # where the next window of each query ends; with nothing kept, the first that holds a row
    idle = total == 0 and now[SPEAKS] == 0
    earliest = rows.time[now[AT]] if now[AT] < rows.first[1, g] else AFTER
    if now[DONE] == NEVER:
        for i in range(now[SIZE]):
            earliest = min(earliest, band[1][i])
        for i in range(now[YOUNG]):
            earliest = min(earliest, low[1][i])
    for q in range(len(k)):
        since = now[DONE] if q < now[LAST] else now[DONE] - 1
        if idle or now[DONE] == NEVER:
            since = max(since, earliest)
        ends[leaves + q] = origin[q] + size[q] + ((since - origin[q] - size[q]) // slide[q] + 1) * slide[q]
        since = max(now[SEEN] + 1, least[q])
        begin = origin[q] - (origin[q] - since) // slide[q] * slide[q]
        starts[leaves + q] = begin if begin < most[q] else AFTER
    for q in range(len(k), leaves):
        ends[leaves + q] = starts[leaves + q] = AFTER
    matched(ending, ends, leaves)
    matched(starting, starts, leaves)
    shortest, longest, rarest = size.min(), size.max(), slide.max()
    now[NOW] = now[DONE]
    now[DUE] = rekindled(low, hot, now, gate)
    changed, more = True, True
    while True:
        due = now[DUE]
        if due != WIDER:
            now[YOUNG], now[BINNED] = gathered(rows, low, room, sight, now, gate)
            if due == THIN and (now[SIZE] + now[YOUNG] < short or now[TIRED] > 0):
                due, now[TIRED] = MERGE, max(now[TIRED] - 1, 0)
            raised = now[NOW] >= now[LATELY] + rarest and due in (FOLD, THIN)
            if raised:  # by now every query has answered
                gate[0], gate[1], now[LATELY] = max(gate[0], lowered(band[0], now[SIZE], gate[1])), np.inf, now[NOW]
            if due == ANEW:
                due, gate[0] = MERGE, np.inf
            if due == THIN:
                much = 16 * (now[SIZE] + now[WARM]) > 17 * now[SIEVED]
                if raised or much or now[COUNTED] < 0 or now[SIGHT] > sight[7][0]:
                    now[SIZE] = folded(band, now[SIZE], hot, now[WARM], spare, sight, now[SIGHT], now[NOW])
                    band, spare = spare, band
                    now[WARM], now[COUNTED], now[SIEVED], changed = 0, now[SIGHT], now[SIZE], True
                above = now[SIZE]
                lessened(band, spare, low, room, sight, now, gate)
                changed = changed or now[SIZE] < above
                due = now[DUE]
                if due == MERGE:  # it was in vain, and so it would be the next time
                    now[TIRED] = _REST
            if due != THIN and now[WARM] > 0:
                counted(hot, sight, now)
                now[SIZE] = inserted(band, now[SIZE], hot, now[WARM], spare, room.order)
                band, spare = spare, band
                now[WARM], changed = 0, True
            if due == MERGE:
                copied(low, 0, now[YOUNG], band, now[SIZE])
                now[SIZE], now[SIGHT] = merged(band, now[SIZE], now[YOUNG], spare, room, sight, now[SIGHT], now[NOW])
                band, spare, changed = spare, band, True
                now[YOUNG], now[BINNED], now[COUNTED], now[KEPT], now[EXACT] = 0, -1, -1, now[SIZE], now[SIZE]
                now[SIEVED] = now[SIZE]
        if not more:
            return band, spare, sight
        if now[SIGHT] + len(k) >= len(sight[0]):
            wider = sighted(2 * (now[SIGHT] + len(k)))
            for v in range(now[SIGHT]):
                wider[0][v], wider[1][v], wider[2][v] = sight[0][v], sight[1][v], sight[2][v]
            sight = wider
            now[COUNTED] = -1
        now[CALM] = now[AT] + max(FEW, int(lazy * now[SIZE])) // 2  # so far on, another merge has paid
        limit = now[KEPT] + max(FEW, int(lazy * now[KEPT]))
        if changed:
            shelved(
                band[0], band[2], band[1], now[SIZE], shelves.score, shelves.id, shelves.time, shelves.oldest,
                shelves.first, now[NOW], shortest, longest,
            )  # fmt: skip
            changed = False
        closed(low, hot, found, shelves, matches, sight, rows, g, upto, records, marks, page, now, gate, limit)
        more = now[DUE] != NOTHING


@inplace
def gapless(time, low, high):
    """Whether each time from `low` to `high` is one more than that before it, as row numbers are."""
    odd = 0
    for i in range(low + 1, high):
        odd += int(time[i] - time[i - 1] != 1)
    return odd == 0


@inplace
def counted(hot, sight, now):
    """Count the fresh rows that are ranked with the others, if these are counted; views that are new have none."""
    if now[COUNTED] < 0:
        return
    count = sight[3]
    for v in range(now[COUNTED], now[SIGHT]):
        count[v] = 0
    for j in range(now[WARM]):
        count[hot[3][j]] += 1
    now[COUNTED] = now[SIGHT]


@inplace
def lowered(score, size, floor):
    """A score below all answers, which came down to `floor`, and below some ranked rows more: they vary a little."""
    if floor == np.inf:
        return floor
    above = reaching(score, size, floor)
    place = above + above // 8 + FEW
    return score[place] if place < size else -np.inf


@inplace
def gathered(rows, low, room, sight, now, gate):
    """Take over the rows that came and need no rank; how many `low` has then, and of how many the kind is known."""
    score, time, id, _, _ = rows
    size, binned = now[YOUNG], now[BINNED]
    if now[DEAD] > 0:
        size, binned = gleaned(*low, room.kind, size, binned)
        now[DEAD] = 0
    size = absorbed(score, time, id, now[RAW], now[AT], gate[0], *low, size, sight[0], now[SIGHT])
    now[RAW], now[LIT] = now[AT], 0
    return size, binned


@inplace
def rekindled(low, hot, now, gate):
    """Rank the fresh rows that reach the gate; what is due then."""
    count = 0
    for i in range(now[YOUNG]):
        count += low[0][i] >= gate[0]
    if count > WARMEST:
        gate[0] = np.inf
        return MERGE
    for i in range(now[YOUNG] if count > 0 else 0):
        if low[0][i] >= gate[0]:
            now[WARM] = warmed(*hot, now[WARM], low[0][i], low[1][i], low[2][i], low[3][i])
            low[3][i] = GONE
            now[DEAD] += 1
    return NOTHING


@kernel
def lessened(band, spare, low, room, sight, now, gate):
    """Let go of rows without ranking those below the gate. A merge is due if hardly any goes."""
    kind, edges, tally = room.kind, room.edges, room.tally
    at, end, k, seen, place, step_end, step_k, fewest = sight
    for v in range(now[COUNTED], now[SIGHT]):
        seen[v] = 0
    now[COUNTED] = now[SIGHT]
    young = now[YOUNG]
    now[SIZE], now[YOUNG] = parted(band, now[SIZE], gate[0], low, young, spare)
    if now[YOUNG] > young:
        now[BINNED] = -1
        for v in range(now[SIGHT]):
            seen[v] = 0
        tallied(band[3], now[SIZE], seen)
    if now[BINNED] < 0:
        bordered(low[0], now[YOUNG], edges)
        now[BINNED] = 0
    sorted_in(low[0], now[BINNED], now[YOUNG], edges, kind)
    now[YOUNG] = thinned(*low, now[YOUNG], kind, now[SIGHT], end, k, now[NOW], seen, place, tally)
    now[BINNED] = now[YOUNG]
    if now[SIGHT] > fewest[0]:
        tallied(low[3], now[YOUNG], seen)
        now[SIGHT] = fewer(at, end, k, now[SIGHT], seen, place, step_end, step_k, now[NOW])
        renumbered(band[3], now[SIZE], place)
        renumbered(low[3], now[YOUNG], place)
        fewest[0] = now[SIGHT] + now[SIGHT] // 4 + FEW
        now[COUNTED] = -1
    now[KEPT] = now[SIZE] + now[YOUNG] + now[WARM]
    if 5 * now[KEPT] > 7 * now[EXACT] + FEW:
        now[DUE] = MERGE


@inplace
def tallied(pane, size, count):
    """Count rows by their pane."""
    for i in range(size):
        count[max(pane[i], 0)] += 1


@inplace
def renumbered(pane, size, place):
    """Give panes the numbers that their views have now."""
    for i in range(size):
        pane[i] = place[pane[i]]


@kernel
def settled(bands, marks, views):
    """The bands merged and pruned: exactly the minimal set of each group. `marks` is brought up to date."""
    groups, longest, wide = len(marks.done), 0, 0
    for g in range(groups):
        longest = max(longest, bands.first[1, g] - bands.first[0, g])
        wide = max(wide, views.first[1, g] - views.first[0, g])
    band, spare, room, sight = columns(longest), columns(longest), workroom(longest), sighted(wide)
    old = (bands.score, bands.time, bands.id, bands.pane)
    kept, first, total = columns(len(bands.id)), np.empty((2, groups), np.int64), 0
    at, end, k = np.empty_like(views.at), np.empty_like(views.at), np.empty_like(views.at)
    seen, all_views = np.empty((2, groups), np.int64), 0
    for g in range(groups):
        low, high, sure = bands.first[0, g], bands.first[1, g], marks.ranked[g]
        first[0, g], seen[0, g] = total, all_views
        if low < high:
            base, wide = views.first[0, g], views.first[1, g] - views.first[0, g]
            for v in range(wide):
                sight[0][v], sight[1][v], sight[2][v] = views.at[base + v], views.end[base + v], views.k[base + v]
            copied(old, low, high - low, band, 0)
            size, wide = merged(band, sure, high - low - sure, spare, room, sight, wide, marks.done[g] + 1)
            copied(spare, 0, size, kept, total)
            for v in range(wide):
                at[all_views + v], end[all_views + v], k[all_views + v] = sight[0][v], sight[1][v], sight[2][v]
            total += size
            all_views += wide
            marks.ranked[g] = marks.kept[1, g] = marks.kept[2, g] = size
        first[1, g], seen[1, g] = total, all_views
    new = Rows(kept[0][:total], kept[1][:total], kept[2][:total], kept[3][:total], first)
    return new, Views(at[:all_views], end[:all_views], k[:all_views], seen)


@kernel
def looked(bands, marks, records):
    """The views of all groups anew, from the rows they keep: for when queries have left. The panes are set in place."""
    groups = len(marks.done)
    at, end, k = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    seen, total = np.empty((2, groups), np.int64), 0
    for g in range(groups):
        low, high = bands.first[0, g], bands.first[1, g]
        seen[0, g] = total
        order = np.argsort(bands.id[low:high])
        new_at, new_end, new_k, pane = reviewed(bands.time[low:high][order], records, marks.done[g])
        for i in range(high - low):
            bands.pane[low + order[i]] = pane[i]
        if total + len(new_at) > len(at):
            larger = 2 * (total + len(new_at))
            at, end, k = longer(at, larger), longer(end, larger), longer(k, larger)
        for v in range(len(new_at)):
            at[total + v], end[total + v], k[total + v] = new_at[v], new_end[v], new_k[v]
        total += len(new_at)
        seen[1, g] = total
    return Views(at[:total].copy(), end[:total].copy(), k[:total].copy(), seen)
