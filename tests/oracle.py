"""The definition, in plain Python, importing nothing of ours.

A row is (score, time, id): better rows are larger tuples. Where a row has no score, score is None.
"""


def top_k(rows, k, start, end):
    """Of `rows` in [start, end), the k best, best first."""
    return sorted((r for r in rows if r[0] is not None and start <= r[1] < end), reverse=True)[:k]


def windows(rows, size, slide, origin=0):
    """Numbers of the windows [origin + w * slide, origin + w * slide + size) that hold a row with a score."""
    held = set()
    for score, time, _ in rows:
        if score is not None:
            first = (time - origin - size) // slide + 1
            last = (time - origin) // slide
            held.update(range(first, last + 1))
    return sorted(held)


def sliding(rows, k, size, slide, origin=0):
    """[(window, rows)] of every window that holds a row, in order."""
    return [
        (w, top_k(rows, k, origin + w * slide, origin + w * slide + size)) for w in windows(rows, size, slide, origin)
    ]


def counting(rows, k, size, slide, seen):
    """The same for the last `size` of `seen` rows, every `slide` rows; time is the row's position."""
    found = []
    for end in range(slide, seen + 1, slide):
        best = top_k(rows, k, max(0, end - size), end)
        if best:
            found.append((end // slide, best))
    return found


def after_every_row(rows, k, size):
    """The same after each of `rows`, which come by time and id, over (time - size, time]."""
    found = []
    for step, (_, time, _) in enumerate(rows, 1):
        best = top_k(rows[:step], k, time - size + 1, time + 1)
        if best:
            found.append((step, best))
    return found


def appearances(rows, size, slide, origin=0):
    """{(window, group): number} of rows (time, group), in the order of time: groups in the order in which they appear.

    A group appears with its first row, and anew after a window that holds none of its rows.
    """
    found, last, number = {}, {}, {}
    for count, (time, group) in enumerate(rows):
        first = (time - origin - size) // slide + 1
        if group not in last or first > last[group] + 1:
            number[group] = count
        last[group] = (time - origin) // slide
        found.update({(window, group): number[group] for window in range(first, last[group] + 1)})
    return found


def minimal(rows, k, size, slide, origin, now):
    """Theorem 3.1: what is in the k best of some window that is still open, if nothing more came."""
    kept = set()
    for w in windows(rows, size, slide, origin):
        if origin + w * slide + size > now:
            kept.update(top_k(rows, k, origin + w * slide, origin + w * slide + size))
    return sorted(kept, reverse=True)


def minimal_after_every_row(rows, k, size, now):
    """What fewer than k better rows outlive, among those of (now - size, now]."""
    alive = [r for r in rows if r[0] is not None and r[1] > now - size]
    return sorted((r for r in alive if sum(b > r and b[1] >= r[1] for b in alive) < k), reverse=True)


def changes(lists):
    """[(window, kind, row, rank)] between each list and the one before; the lists may be empty."""
    found, before = [], []
    for window, rows in lists:
        found += [(window, "delete", r, i) for i, r in enumerate(before, 1) if r not in rows]
        found += [(window, "insert", r, i) for i, r in enumerate(rows, 1) if r not in before]
        before = rows
    return found


def arrivals(lists):
    """[(window, row, rank)]: each row once, at the first list that holds it."""
    found, seen = [], set()
    for window, rows in lists:
        found += [(window, r, i) for i, r in enumerate(rows, 1) if r not in seen]
        seen.update(rows)
    return found


def hashable(lists):
    """Lists as plain tuples, to compare."""
    return [(window, tuple(rows)) for window, rows in lists]


def minimal_of_many(rows, members, now):
    """Theorem 5.1 of MTopS: the union of the minimal sets of queries (k, size, slide, origin)."""
    kept = set()
    for k, size, slide, origin in members:
        kept.update(minimal(rows, k, size, slide, origin % slide, now))
    return sorted(kept, reverse=True)
