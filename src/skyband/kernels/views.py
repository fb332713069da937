"""Views: what the open windows of many queries see of one stream, in the order in which they begin.

A view is a window of one query that holds a row. Rows know the last view that had begun when they came (their
pane), so a row is in a window if its pane is the window's view or a later one. Of the windows of a query that
begin between two rows only the last is a view: it sees the same rows as those before it, for longer.
"""

from typing import NamedTuple

import numpy as np

from skyband.kernels._jit import inlined, kernel

NEVER = -(1 << 62)  # before all time
AFTER = 1 << 62  # after all time


class Records(NamedTuple):
    """The queries as columns, in their order."""

    k: np.ndarray
    size: np.ndarray
    slide: np.ndarray
    origin: np.ndarray
    low: np.ndarray  # windows that begin before this are not answered ...
    high: np.ndarray  # ... nor those that begin here or later
    moment: np.ndarray  # which row of `since` also says from where on a group's windows are answered ...
    until: np.ndarray  # ... and which one says where that ends; 0: none
    number: np.ndarray  # the query's number, under which its answers go out


class Views(NamedTuple):
    """The views, oldest first; those of ring r are first[0, r] to first[1, r]."""

    at: np.ndarray  # int64: time of the first row in it
    end: np.ndarray  # int64: where its window ends
    k: np.ndarray  # int64
    record: np.ndarray  # int64: whose window it is
    first: np.ndarray  # int64, 2 rows
    seen: np.ndarray  # int64: time of the last row that each ring has met


@kernel
def opened(time, low, high, ring, old, new, at, records, pane):
    """Open the views that rows [low, high) begin; put the pane of each row into `pane`, counted within its ring.

    The ring's views go from `old` to `new`, from place `at` on; how far it comes is returned. O(rows + views log q).
    """
    begins, heap = new.first[0], np.empty(len(records.k), np.int64)
    to_at, to_end, to_k, to_record = new.at, new.end, new.k, new.record
    begins[ring] = at
    base = at
    for v in range(old.first[0, ring], old.first[1, ring]):
        to_at[at], to_end[at], to_k[at], to_record[at] = old.at[v], old.end[v], old.k[v], old.record[v]
        at += 1
    seen = old.seen[ring]
    if low < high:
        k, size, slide, origin, least, most = (
            records.k,
            records.size,
            records.slide,
            records.origin,
            records.low,
            records.high,
        )
        start = np.empty(len(k), np.int64)  # of the next window of each query
        for q in range(len(k)):
            since = max(seen + 1, least[q])
            start[q] = origin[q] - (origin[q] - since) // slide[q] * slide[q]
            if start[q] >= most[q]:
                start[q] = AFTER
            heap[q] = q
        heaped(heap, start)
        upcoming = start[heap[0]] if len(heap) > 0 else AFTER
        for i in range(low, high):
            t = time[i]
            while t >= upcoming:
                q = heap[0]
                begin = origin[q] + (min(t, most[q] - 1) - origin[q]) // slide[q] * slide[q]
                if begin + size[q] > t:
                    to_at[at], to_end[at], to_k[at], to_record[at] = t, begin + size[q], k[q], q
                    at += 1
                start[q] = begin + slide[q] if begin + slide[q] < most[q] else AFTER
                sunk(heap, start)
                upcoming = start[heap[0]]
            pane[i] = at - base - 1
        seen = max(seen, time[high - 1])
    new.first[1, ring], new.seen[ring] = at, seen
    return at


@inlined
def heaped(heap, key):
    """Order a heap of numbers by their keys, least on top, of equals the least number. O(n)."""
    for low in range(len(heap) // 2 - 1, -1, -1):
        sunk_from(heap, key, low)


@inlined
def sunk(heap, key):
    """Let the top, whose key has grown, sink to its place. O(log n)."""
    sunk_from(heap, key, 0)


@inlined
def sunk_from(heap, key, place):
    """Let what is at `place` sink to where nothing below it is less."""
    at, size = place, len(heap)
    moved = heap[at]
    bound = key[moved]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        low = heap[child]
        if child + 1 < size:
            other = heap[child + 1]
            if key[other] < key[low] or (key[other] == key[low] and other < low):
                low = other
                child += 1
        if key[low] > bound or (key[low] == bound and low > moved):
            break
        heap[at] = low
        at = child
    heap[at] = moved
