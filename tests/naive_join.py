"""A join so plain that it is evidently right: every window anew, from all rows, with the remote side at hand."""


def top_k(rows, remote, score, *, k, size, slide, each="key"):
    """[(window, [(score, user, time)])]: rows are (time, user, x) in order; remote(user, now) gives a list of values.

    Arrivals of one user are one object, the newest; with each="row" every row is one.
    """
    if not rows:
        return []
    found = []
    first = (min(t for t, *_ in rows) - size) // slide + 1
    last = max(t for t, *_ in rows) // slide
    for w in range(first, last + 1):
        start, end = w * slide, w * slide + size
        inside = [(n, *row) for n, row in enumerate(rows) if start <= row[0] < end]
        newest = {}
        for n, time, user, x in inside:
            newest[n if each == "row" else user] = (n, time, user, x)
        objects = []
        for n, time, user, x in newest.values():
            for part, y in enumerate(remote(user, end)):
                objects.append((score(x, y), n, -part, user, time))
        best = sorted(objects, reverse=True)[:k]
        if best:
            found.append((w, [(s, user, time) for s, _, _, user, time in best]))
    return found


def counted(rows, remote, score, *, k, size, slide):
    """The same where the score uses how often a user came in the window; ties by user, the larger first."""
    found = []
    first = (min(t for t, *_ in rows) - size) // slide + 1
    for w in range(first, max(t for t, *_ in rows) // slide + 1):
        start, end = w * slide, w * slide + size
        counts = {}
        for time, user, _ in rows:
            if start <= time < end:
                counts[user] = counts.get(user, 0) + 1
        objects = [(score(c, y), user) for user, c in counts.items() for y in remote(user, end)]
        if objects:
            found.append((w, sorted(objects, reverse=True)[:k]))
    return found
