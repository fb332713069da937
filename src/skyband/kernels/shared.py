"""Top-k of many queries over one band, for all groups: the loop over groups, windows and rows."""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import bare, inlined, kernel
from skyband.kernels.band import FEW
from skyband.kernels.radix import falling
from skyband.kernels.select import before
from skyband.kernels.views import AFTER, NEVER, heaped, opened, sunk

# Where the group at hand stands.
AT, SIZE, YOUNG, WARM, MOST, LISTED, WRITTEN, FULL, DONE, LAST, DIES, MET, NOW, DUE, SPEAKS = range(15)
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
def begun(rows, records, old, new):
    """Open the views that the rows begin, ring by ring: those of ring r are `rows.first[:, r]`. How many there are."""
    at = 0
    for ring in range(len(old.seen)):
        at = opened(rows.time, rows.first[0, ring], rows.first[1, ring], ring, old, new, at, records, rows.pane)
    return at


@kernel
def shared(bands, marks, rows, upto, records, views, page, scratch, lazy):
    """Close the windows that end by `upto[g]`, for each group g, as long as the page has room.

    Returns the new bands, how many lists and rows are on the page, the most rows kept at once, and whether
    there is more to do. `marks` is brought up to date in place and `rows.first` moved past what was taken, so
    that the same call with a new page goes on. `scratch` is made by `roomed`. `lazy` is the part of a band that may
    gather before it is merged.
    """
    groups = len(upto)
    band, spare, kept, room, pick = scratch
    work = (
        room,
        np.empty(len(views.at) + 1, np.int64),
        np.empty(WARMEST + 1, np.int64),
        np.empty(len(records.k), np.int64),
        np.empty(len(records.k), np.int64),
        pick,
    )
    old = (bands.score, bands.time, bands.id, bands.pane)
    first, total, peak = np.empty((2, groups), np.int64), 0, 0
    now = np.zeros(15, np.int64)
    for g in range(groups):
        low, high, sure = bands.first[0, g], bands.first[1, g], marks.ranked[g]
        first[0, g] = total
        ring = g if len(views.seen) > 1 else 0
        speaks = 0
        for number in range(marks.shown.shape[0]):
            speaks += marks.shown[number, g]
        if not now[FULL] and (low < high or rows.first[0, g] < rows.first[1, g] or speaks):
            copied(old, low, high - low, band, 0)
            now[AT], now[SIZE], now[YOUNG], now[WARM], now[MOST] = rows.first[0, g], sure, high - low - sure, 0, 0
            now[DONE], now[LAST], now[SPEAKS] = marks.done[g], marks.last[g], speaks
            band, spare = advanced(
                band, spare, work, rows, g, ring, upto[g], records, views, marks, page, now, lazy
            )  # fmt: skip
            peak = max(peak, total + now[MOST] + len(bands.id) - high)
            copied(band, 0, now[SIZE] + now[YOUNG], kept, total)
            total += now[SIZE] + now[YOUNG]
            rows.first[0, g], marks.ranked[g] = now[AT], now[SIZE]
            marks.done[g], marks.last[g] = now[DONE], now[LAST]
        else:
            copied(old, low, high - low, kept, total)
            total += high - low
        if not now[FULL] and upto[g] >= marks.done[g]:
            marks.done[g], marks.last[g] = upto[g], AFTER
        first[1, g] = total
    new = Rows(kept[0][:total].copy(), kept[1][:total].copy(), kept[2][:total].copy(), kept[3][:total].copy(), first)
    return new, now[LISTED], now[WRITTEN], peak, now[FULL] > 0


@kernel
def advanced(band, spare, work, rows, g, ring, upto, records, views, marks, page, now, lazy):
    """One group: close its windows, and merge its fresh rows whenever the loop that does so asks for it."""
    room, count, hot, heap, ends, pick = work
    k, size, slide, origin, _, _, _, _, _ = records
    low, total = views.first[0, ring], now[SIZE] + now[YOUNG]
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
        heap[q] = q
    heaped(heap, ends)
    # when all that is kept will have expired
    newest = np.int64(-1)
    now[DUE], now[NOW] = 0, now[DONE]
    for i in range(total):
        newest = max(newest, band[3][i])
        now[DUE] = max(now[DUE], i >= now[SIZE] and band[0][i] == np.inf)  # the gate is not above it
    now[DIES], now[MET] = NEVER, 0
    while now[MET] <= newest:
        now[DIES] = max(now[DIES], views.end[low + now[MET]])
        now[MET] += 1
    gate = np.full(1, np.inf)  # fresh rows of this score and above are ranked: at first none
    while True:
        if now[DUE]:
            now[SIZE] = merged(band, now[SIZE], now[YOUNG], spare, room, count, views, ring, now[NOW])
            band, spare = spare, band
            now[YOUNG], now[WARM], gate[0] = 0, 0, np.inf
        limit = max(FEW, int(lazy * now[SIZE]))
        closed(band, hot, heap, ends, pick, rows, g, ring, upto, records, views, marks, page, now, gate, limit)
        if now[DUE] == 0:
            return band, spare


@kernel
def closed(band, hot, heap, ends, pick, rows, g, ring, upto, records, views, marks, page, now, gate, limit):
    """Take rows and close windows until all is done, the page is full, or a merge is due.

    Fresh rows lie behind the ranked ones. Every array has a name of its own here: reading them out of tuples
    counts references.
    """
    ks, lengths, slides, origins, least, most, moments, untils, numbers = records
    row_score, row_time, row_id, row_pane, _ = rows
    score, time, id, pane = band
    view_at, view_end = views.at, views.end
    lists, first, out_id, out_score = page
    shown, since = marks.shown, marks.since
    low, high = views.first[0, ring], views.first[1, ring]
    at, size, total, warm, peak = now[AT], now[SIZE], now[SIZE] + now[YOUNG], now[WARM], now[MOST]
    listed, written, done, last, dies, met = now[LISTED], now[WRITTEN], now[DONE], now[LAST], now[DIES], now[MET]
    speaks, bar, stop, room = now[SPEAKS], gate[0], rows.first[1, g], now[SIZE] + limit
    now[DUE] = 0
    while True:
        q = heap[0]
        end = ends[q]
        closing = end <= upto
        # the rows before it come in
        cut = stop
        if closing and at < stop and row_time[stop - 1] >= end:
            cut = before(row_time, end, at, stop)
        while at < cut and total < room:
            s = row_score[at]
            score[total], time[total], id[total], pane[total] = s, row_time[at], row_id[at], row_pane[at]
            if s >= bar:
                if warm == WARMEST:
                    break
                warm = warmed(hot, warm, score, s, total)
            total += 1
            at += 1
        peak = max(peak, total)
        if total > size:
            newest = pane[total - 1]
            while met <= newest:
                dies = max(dies, view_end[low + met])
                met += 1
        if at < cut:
            now[DUE], now[NOW] = 1, min(end, upto + 1)
            break
        if not closing:
            break
        if end > dies and total > 0:  # nothing is alive
            size = total = warm = 0
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
            view, over = low, high
            while view < over:
                mid = (view + over) >> 1
                if view_at[mid] < start:
                    view = mid + 1
                else:
                    over = mid
            view -= low
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
                    now[DUE], now[NOW] = 1, end
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
    now[LISTED], now[WRITTEN], now[DONE], now[LAST], now[DIES], now[MET] = listed, written, done, last, dies, met
    now[SPEAKS], gate[0] = speaks, bar


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
def merged(band, size, young, spare, room, count, views, ring, now):
    """Merge the fresh rows into the ranked ones, into `spare`: the minimal set for windows that end by `now` or later.

    One walk from the best row down. A view wants a row while fewer than its k better ones are in it. Views
    want in turn: a row that the first view still in want sees is kept (theorem 5.1); which one that is only moves on.
    O(rows + views).
    """
    score, time, id, pane = band
    to_score, to_time, to_id, to_pane = spare
    order = room[0]
    view_end, view_k = views.end, views.k
    low, views_here = views.first[0, ring], views.first[1, ring] - views.first[0, ring]
    ranking(score, size, young, room)
    for v in range(views_here):
        count[v] = 0
    wants, held = 0, 0  # the first view in want, and how many of the rows so far it sees
    while wants < views_here and view_end[low + wants] < now:
        wants += 1
    out = 0
    for i in range(size + young):
        if wants == views_here:
            break
        row = order[i]
        seen = np.int64(pane[row])
        to_score[out], to_time[out], to_id[out], to_pane[out] = score[row], time[row], id[row], pane[row]
        if seen >= wants:
            out += 1
            count[seen] += 1
            held += 1
            while wants < views_here and (held >= view_k[low + wants] or view_end[low + wants] < now):
                held -= count[wants]
                wants += 1
    return out


@bare
def ranking(score, size, young, room):
    """The places of `size` ranked rows and the `young` ones behind them, best first, of equals the later one."""
    order, fresh, keys, other_keys, other, count = room
    falling(score, size, young, fresh, keys, other, other_keys, count)
    i, j, at = np.uint64(0), np.uint64(0), np.uint64(0)
    one, last, ends, base = np.uint64(1), np.uint64(size), np.uint64(young), np.uint64(size)
    while i < last and j < ends:  # fresh rows are later: they win ties
        new = base + np.uint64(fresh[j])
        later = np.uint64(score[new] >= score[i])
        order[at] = i + later * (new - i)
        i += one - later
        j += later
        at += one
    while i < last:
        order[at] = i
        i += one
        at += one
    while j < ends:
        order[at] = base + np.uint64(fresh[j])
        j += one
        at += one


@kernel
def settled(bands, marks, views):
    """The bands merged and pruned: exactly the minimal set of each group. `marks` is brought up to date."""
    groups, longest = len(marks.done), 0
    for g in range(groups):
        longest = max(longest, bands.first[1, g] - bands.first[0, g])
    band, spare, room = columns(longest), columns(longest), workroom(longest)
    count = np.empty(len(views.at) + 1, np.int64)
    old = (bands.score, bands.time, bands.id, bands.pane)
    kept, first, total = columns(len(bands.id)), np.empty((2, groups), np.int64), 0
    for g in range(groups):
        low, high, sure = bands.first[0, g], bands.first[1, g], marks.ranked[g]
        first[0, g] = total
        if low < high:
            copied(old, low, high - low, band, 0)
            ring = g if len(views.seen) > 1 else 0
            size = merged(band, sure, high - low - sure, spare, room, count, views, ring, marks.done[g] + 1)
            copied(spare, 0, size, kept, total)
            total += size
            marks.ranked[g] = size
        first[1, g] = total
    return Rows(kept[0][:total], kept[1][:total], kept[2][:total], kept[3][:total], first)


@kernel
def trimmed(bands, views, done):
    """Forget the oldest views of each ring, up to the first that ends after `done`; rows count from there on."""
    rings, to = len(views.seen), 0
    gone = np.zeros(rings, np.int64)
    for r in range(rings):
        v, high = views.first[0, r], views.first[1, r]
        while v < high and views.end[v] <= done[r]:
            v += 1
        gone[r] = v - views.first[0, r]
        views.first[0, r] = to
        for old in range(v, high):
            views.at[to], views.end[to] = views.at[old], views.end[old]
            views.k[to], views.record[to] = views.k[old], views.record[old]
            to += 1
        views.first[1, r] = to
    for g in range(bands.first.shape[1]):
        less = gone[g if rings > 1 else 0]
        for i in range(bands.first[0, g], bands.first[1, g]):
            bands.pane[i] = max(bands.pane[i] - less, -1)
    return to


@kernel
def roomed(longest, total):
    """Room to work in: for the longest band with its rows, and for all bands. Made once, since new memory is dear."""
    pick = np.empty(longest + 2 * FEW + STRIDE, np.uint32)
    longest += 2 * FEW
    return columns(longest), columns(longest), columns(total), workroom(longest), pick


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
