"""Top-k of many queries over one band, for all groups: the loop over groups, windows and rows."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import bare, inlined, kernel
from skyband.kernels.band import FEW
from skyband.kernels.radix import falling
from skyband.kernels.select import before
from skyband.kernels.views import AFTER, NEVER, STEPS, Views, fewer, heaped, longer, noted, reviewed, sunk

# Where the group at hand stands.
AT, SIZE, YOUNG, WARM, MOST, LISTED, WRITTEN, FULL, DONE, LAST, DIES, SIGHT, NOW, DUE, SPEAKS, SEEN = range(16)
NOTHING, MERGE, ROOM = range(3)  # what is due
WARMEST = 256  # fresh rows that are kept ranked, at most
STRIDE = 16  # rows of the band looked at between two looks at how many were found


class Rows(NamedTuple):
    """Columns ordered by group; those of group g are first[0, g] to first[1, g]."""

    score: np.ndarray
    time: np.ndarray
    id: np.ndarray
    pane: np.ndarray  # int32: the last view that had begun when the row came, counted from the ring's first
    first: np.ndarray


class Marks(NamedTuple):
    """What each group remembers besides its band."""

    done: np.ndarray  # int64: windows that end before this are closed ...
    last: np.ndarray  # int64: ... and so are those that end here, of the records before this one
    seen: np.ndarray  # int64: the time of its last row
    ranked: np.ndarray  # int64: so many rows of its band are ranked; those behind came since the last merge
    shown: np.ndarray  # bool, a row for every number: the last answer had rows
    since: np.ndarray  # int64, a row for every moment: positions before this are unknown to who came then


class Page(NamedTuple):
    """Room for answers: for each list its step, end, group and number, where it begins, and its rows."""

    lists: np.ndarray  # int64, 4 rows
    first: np.ndarray  # int64, one longer
    id: np.ndarray
    score: np.ndarray


@kernel
def shared(bands, marks, rows, upto, records, views, page, scratch, lazy):
    """Close the windows that end by `upto[g]`, for each group g, as long as the page has room.

    Returns the new bands, how many lists and rows are on the page, the most rows kept at once, and whether
    there is more to do. `marks` is brought up to date in place and `rows.first` moved past what was taken, so
    that the same call with a new page goes on. `scratch` is made by `roomed`. `lazy` is the part of a band that may
    gather before it is merged.
    """
    groups, queries = len(upto), len(records.k)
    band, spare, kept, room, pick = scratch
    hot = np.empty(WARMEST + 1, np.int64)
    heaps = (
        np.empty(queries, np.int64),
        np.empty(queries, np.int64),
        np.empty(queries, np.int64),
        np.empty(queries, np.int64),
    )
    sight = sighted(2 * queries + 1024)
    old = (bands.score, bands.time, bands.id, bands.pane)
    first, total, peak = np.empty((2, groups), np.int64), 0, 0
    at, end, k = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    seen, all_views = np.empty((2, groups), np.int64), 0
    now = np.zeros(16, np.int64)
    for g in range(groups):
        low, high, sure = bands.first[0, g], bands.first[1, g], marks.ranked[g]
        first[0, g], seen[0, g] = total, all_views
        base, views_here = views.first[0, g], views.first[1, g] - views.first[0, g]
        speaks = 0
        for number in range(marks.shown.shape[0]):
            speaks += marks.shown[number, g]
        if not now[FULL] and (low < high or rows.first[0, g] < rows.first[1, g] or speaks):
            copied(old, low, high - low, band, 0)
            if views_here + queries >= len(sight[0]):
                sight = sighted(2 * (views_here + queries))
            now[DIES] = NEVER
            for v in range(views_here):
                sight[0][v], sight[1][v], sight[2][v] = views.at[base + v], views.end[base + v], views.k[base + v]
                now[DIES] = max(now[DIES], views.end[base + v])
            now[AT], now[SIZE], now[YOUNG], now[WARM], now[MOST] = rows.first[0, g], sure, high - low - sure, 0, 0
            now[DONE], now[LAST], now[SPEAKS], now[SEEN] = marks.done[g], marks.last[g], speaks, marks.seen[g]
            now[SIGHT] = views_here
            band, spare, sight = advanced(
                band, spare, room, hot, pick, heaps, sight, rows, g, upto[g], records, marks, page, now, lazy
            )  # fmt: skip
            peak = max(peak, total + now[MOST] + len(bands.id) - high)
            copied(band, 0, now[SIZE] + now[YOUNG], kept, total)
            total += now[SIZE] + now[YOUNG]
            rows.first[0, g], marks.ranked[g] = now[AT], now[SIZE]
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
def advanced(band, spare, room, hot, pick, heaps, sight, rows, g, upto, records, marks, page, now, lazy):
    """One group: close its windows, and merge its fresh rows whenever the loop that does so asks for it."""
    heap, ends, starting, starts = heaps
    k, size, slide, origin, least, most, _, _, _ = records
    total = now[SIZE] + now[YOUNG]
    # where the next window of each query ends; with nothing kept, the first that holds a row
    idle = total == 0 and now[SPEAKS] == 0
    earliest = rows.time[now[AT]] if now[AT] < rows.first[1, g] else AFTER
    if now[DONE] == NEVER:
        for i in range(total):
            earliest = min(earliest, band[1][i])
    for q in range(len(k)):
        since = now[DONE] if q < now[LAST] else now[DONE] - 1
        if idle or now[DONE] == NEVER:
            since = max(since, earliest)
        ends[q] = origin[q] + size[q] + ((since - origin[q] - size[q]) // slide[q] + 1) * slide[q]
        since = max(now[SEEN] + 1, least[q])
        starts[q] = origin[q] - (origin[q] - since) // slide[q] * slide[q]
        if starts[q] >= most[q]:
            starts[q] = AFTER
        heap[q] = starting[q] = q
    heaped(heap, ends)
    heaped(starting, starts)
    now[DUE], now[NOW] = NOTHING, now[DONE]
    for i in range(now[SIZE], total):
        if band[0][i] == np.inf:  # the gate is not above it
            now[DUE] = MERGE
    gate = np.full(1, np.inf)  # fresh rows of this score and above are ranked: at first none
    while True:
        if now[DUE] == MERGE:
            now[SIZE], now[SIGHT] = merged(band, now[SIZE], now[YOUNG], spare, room, sight, now[SIGHT], now[NOW])
            band, spare = spare, band
            now[YOUNG], now[WARM], gate[0] = 0, 0, np.inf
        if now[SIGHT] + len(k) >= len(sight[0]):
            wider = sighted(2 * (now[SIGHT] + len(k)))
            for v in range(now[SIGHT]):
                wider[0][v], wider[1][v], wider[2][v] = sight[0][v], sight[1][v], sight[2][v]
            sight = wider
        limit = max(FEW, int(lazy * now[SIZE]))
        closed(band, hot, pick, heaps, sight, rows, g, upto, records, marks, page, now, gate, limit)
        if now[DUE] == NOTHING:
            return band, spare, sight


@kernel
def closed(band, hot, pick, heaps, sight, rows, g, upto, records, marks, page, now, gate, limit):
    """Take rows and close windows until all is done, the page is full, or a merge is due.

    Fresh rows lie behind the ranked ones. Every array has a name of its own here: reading them out of tuples
    counts references.
    """
    ks, lengths, slides, origins, least, most, moments, untils, numbers = records
    row_score, row_time, row_id, _, _ = rows
    score, time, id, pane = band
    view_at, view_end, view_k, _, _, _, _, _ = sight
    heap, ends, starting, starts = heaps
    lists, first, out_id, out_score = page
    shown, since = marks.shown, marks.since
    at, size, total, warm, peak = now[AT], now[SIZE], now[SIZE] + now[YOUNG], now[WARM], now[MOST]
    listed, written, done, last, dies, views = now[LISTED], now[WRITTEN], now[DONE], now[LAST], now[DIES], now[SIGHT]
    speaks, bar, stop, room = now[SPEAKS], gate[0], rows.first[1, g], now[SIZE] + limit
    now[DUE] = NOTHING
    upcoming, seen = starts[starting[0]], now[SEEN]
    while True:
        q = heap[0]
        end = ends[q]
        closing = end <= upto
        # the rows before it come in
        cut = stop
        if closing and at < stop and row_time[stop - 1] >= end:
            cut = before(row_time, end, at, stop)
        while at < cut and total < room:
            s, t = row_score[at], row_time[at]
            if t >= upcoming:  # windows have begun
                if views + len(ks) >= len(view_at):
                    now[DUE] = ROOM
                    break
                while t >= upcoming:
                    r = starting[0]
                    begin = origins[r] + (min(t, most[r] - 1) - origins[r]) // slides[r] * slides[r]
                    if begin + lengths[r] > t:
                        views = noted(view_at, view_end, view_k, views, t, begin + lengths[r], ks[r])
                        dies = max(dies, begin + lengths[r])
                    starts[r] = begin + slides[r] if begin + slides[r] < most[r] else AFTER
                    sunk(starting, starts)
                    upcoming = starts[starting[0]]
            if views == 0:  # no window sees it
                at += 1
                continue
            score[total], time[total], id[total], pane[total] = s, t, row_id[at], views - 1
            if s >= bar:
                if warm == WARMEST:
                    break
                warm = warmed(hot, warm, score, s, total)
            total += 1
            at += 1
        peak = max(peak, total)
        if at > rows.first[0, g]:
            seen = row_time[at - 1]
        if now[DUE] == ROOM:
            break
        if at < cut:
            now[DUE], now[NOW] = MERGE, min(end, upto + 1)
            break
        if not closing:
            break
        if end > dies and total > 0:  # nothing is alive
            size = total = warm = views = 0
            room, bar = limit, np.inf
        k, number = ks[q], numbers[q]
        start = end - lengths[q]
        told = least[q] <= start < most[q]
        if moments[q] > 0 or untils[q] > 0:
            told &= moments[q] == 0 or max(start, 0) >= since[moments[q], g]
            told &= untils[q] == 0 or max(start, 0) < since[untils[q], g]
        got = 0
        if told and total > 0:
            if listed == lists.shape[1] or written + min(k, total) > len(out_id):
                now[FULL], done, last = 1, end, q
                break
            # its first view: rows of this pane or a later one are in the window
            view, over = 0, views
            while view < over:
                mid = (view + over) >> 1
                if view_at[mid] < start:
                    view = mid + 1
                else:
                    over = mid
            got = picked(pane, size, view, k, pick)
            floor = score[pick[got - 1]] if got == k else -np.inf
            if total > size and floor < bar:
                # rank the fresh rows that reach the answer; where they are many, merge them
                fits = got == k or total - size <= FEW
                if fits:
                    for i in range(size, total):
                        s = score[i]
                        if floor <= s < bar:
                            if warm == WARMEST:
                                fits = False
                                break
                            warm = warmed(hot, warm, score, s, i)
                    bar = floor
                if not fits:
                    now[DUE], now[NOW] = MERGE, end
                    break
            i = out = 0
            for j in range(warm):
                h = hot[j]
                s = score[h]
                if s < floor:
                    break
                if pane[h] < view:
                    continue
                above, over = i, got  # the ranked rows before it
                while above < over:
                    mid = (above + over) >> 1
                    if score[pick[mid]] > s:
                        above = mid + 1
                    else:
                        over = mid
                rest = min(k - out, above - i)
                gathered(pick, i, rest, score, id, out_score, out_id, written + out)
                out += rest
                i += rest
                if out == k:
                    break
                out_id[written + out] = id[h]
                out_score[written + out] = s
                out += 1
            rest = min(k - out, got - i)
            gathered(pick, i, rest, score, id, out_score, out_id, written + out)
            got = out + rest
        if told and (got > 0 or shown[number, g]):  # an empty list says that the window has become empty
            if listed == lists.shape[1]:
                now[FULL], done, last = 1, end, q
                break
            lists[0, listed] = (start - origins[q]) // slides[q]
            lists[1, listed] = end
            lists[2, listed] = g
            lists[3, listed] = number
            listed += 1
            written += got
            first[listed] = written
            speaks += (got > 0) - np.int64(shown[number, g])
            shown[number, g] = got > 0
        done, last = end, q + 1
        ends[q] = end + slides[q]
        if total == 0:  # on to where a row is
            goal = row_time[at] if at < stop else upto
            reach = origins[q] + lengths[q]
            ends[q] = max(ends[q], reach + ((goal - reach) // slides[q] + 1) * slides[q])
        sunk(heap, ends)
    now[AT], now[SIZE], now[YOUNG], now[WARM], now[MOST] = at, size, total - size, warm, peak
    now[LISTED], now[WRITTEN], now[DONE], now[LAST], now[DIES], now[SIGHT] = listed, written, done, last, dies, views
    now[SPEAKS], now[SEEN], gate[0] = speaks, seen, bar


@inlined
def warmed(hot, warm, score, s, place):
    """Put a fresh row in its place among those that are ranked; how many there are then."""
    j = warm
    while j > 0 and score[hot[j - 1]] <= s:
        hot[j] = hot[j - 1]
        j -= 1
    hot[j] = place
    return warm + 1


@bare
def picked(pane, size, view, k, pick):
    """Put the places of the first k of `size` rows in a window into `pick`; how many there are.

    Without a branch that depends on a row; places are unsigned, which spares a test each.
    """
    got, at, one = np.uint64(0), np.uint64(0), np.uint64(1)
    end, want = np.uint64(size), np.uint64(k)
    while at + np.uint64(STRIDE) <= end and got < want:
        for _ in range(STRIDE):
            pick[got] = at
            got += np.uint64(pane[at] >= view)
            at += one
    while at < end and got < want:
        pick[got] = at
        got += np.uint64(pane[at] >= view)
        at += one
    return min(np.int64(got), k)


@bare
def gathered(pick, low, size, score, id, to_score, to_id, at):
    """Copy `size` of the picked rows, from `low` on, to `at`."""
    place, to = np.uint64(low), np.uint64(at)
    for _ in range(size):
        row = pick[place]
        to_score[to] = score[row]
        to_id[to] = id[row]
        place += np.uint64(1)
        to += np.uint64(1)


@kernel
def merged(band, size, young, spare, room, sight, views, now):
    """Merge the fresh rows into the ranked ones, into `spare`: the minimal set for windows that end by `now` or later.

    One walk from the best row down. A view wants a row while fewer than its k better ones are in it. Views
    want in turn: a row that the first view still in want sees is kept (theorem 5.1); which one that is only moves on.
    Returns how many rows stay, and how many views. O(rows + views).
    """
    score, time, id, pane = band
    to_score, to_time, to_id, to_pane = spare
    at, end, k, count, place, step_end, step_k, fewest = sight
    order = room[0]
    ranking(score, size, young, room)
    for v in range(views):
        count[v] = 0
        if end[v] < now:
            k[v] = 0
    k[views] = AFTER  # no end to look for
    out = sifted(score, time, id, pane, order, size + young, to_score, to_time, to_id, to_pane, k, count)
    if views > fewest[0]:  # not every time: few have come
        views = fewer(at, end, k, views, count, place, step_end, step_k, now)
        for i in range(out):
            to_pane[i] = place[to_pane[i]]
        fewest[0] = views + views // 4 + FEW
    return out, views


@bare
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


@bare
def ranking(score, size, young, room):
    """The places of `size` ranked rows and the `young` ones behind them, best first, of equals the later one.

    The two runs are merged from both ends at once: two chains of comparisons that need not wait for each other.
    """
    order, fresh, keys, other_keys, other, count = room
    falling(score, size, young, fresh, keys, other, other_keys, count)
    sorted_score = keys.view(np.float64)
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
            marks.ranked[g] = size
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


@kernel
def roomed(longest, total):
    """Room to work in: for the longest band with its rows, and for all bands. Made once, since new memory is dear."""
    pick = np.empty(longest + 2 * FEW + STRIDE, np.uint32)
    longest += 2 * FEW
    return columns(longest), columns(longest), columns(total), workroom(longest), pick


@kernel
def sighted(views):
    """Room for views (at, end, k), and for counts, places and steps to make them fewer; and when to do so next."""
    views += 1
    return (
        np.empty(views, np.int64),
        np.empty(views, np.int64),
        np.empty(views, np.int64),
        np.empty(views, np.int64),
        np.empty(views, np.int64),
        np.empty(STEPS, np.int64),
        np.empty(STEPS, np.int64),
        np.zeros(1, np.int64),
    )


@kernel
def workroom(size):
    """Room to rank `size` rows."""
    return (
        np.empty(size, np.uint32),
        np.empty(size, np.uint32),
        np.empty(size, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.uint32),
        np.empty(2048, np.int64),
    )


@kernel
def columns(size):
    """Room for `size` rows."""
    return (
        np.empty(size, np.float64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int32),
    )


@kernel
def copied(rows, low, size, to, at):
    """Copy `size` rows from `low` on to `at`."""
    score, time, id, pane = rows
    to_score, to_time, to_id, to_pane = to
    for i in range(size):
        to_score[at + i] = score[low + i]
        to_time[at + i] = time[low + i]
        to_id[at + i] = id[low + i]
        to_pane[at + i] = pane[low + i]
