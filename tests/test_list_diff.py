"""The difference of two ranked lists, against the definition."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyband.kernels.diff import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, diff

keys = st.lists(st.integers(-3, 12), unique=True, max_size=12)
lists = st.lists(st.tuples(st.integers(0, 2), keys.map(lambda ids: [(id, id % 4) for id in ids])), max_size=8)


def naive(rounds, ranks):
    """Of each change its list, kind, id, score and rank."""
    last = {}
    for a, (g, new) in enumerate(rounds):
        old = last.get(g, [])
        ids, before = [id for id, _ in new], {id: (rank, score) for rank, (id, score) in enumerate(old, 1)}
        yield from ((a, DELETE, id, score, rank) for rank, (id, score) in enumerate(old, 1) if id not in ids)
        for rank, (id, score) in enumerate(new, 1):
            if id in before and (before[id][1] != score or (ranks and before[id][0] != rank)):
                yield a, UPDATE_BEFORE, id, before[id][1], before[id][0]
                yield a, UPDATE_AFTER, id, score, rank
        yield from ((a, INSERT, id, score, rank) for rank, (id, score) in enumerate(new, 1) if id not in before)
        last[g] = new


@given(lists, st.booleans(), st.booleans())
def test_diff_agrees_with_the_definition(rounds, ranks, rescored):
    if rescored:  # the same key with another score from list to list
        rounds = [(g, [(id, score + a % 2) for id, score in rows]) for a, (g, rows) in enumerate(rounds)]
    rows = [row for _, part in rounds for row in part]
    ids, scores = np.array([id for id, _ in rows], np.int64), np.array([float(score) for _, score in rows])
    first = np.cumsum([0, *(len(part) for _, part in rounds)])
    group, last = np.array([g for g, _ in rounds], np.int32), np.zeros((2, 3), np.int64)
    which, kind, place, rank = diff(ids, scores, first, group, last, ranks)
    found = zip(which, kind, ids[place], scores[place], rank, strict=True)
    assert list(found) == list(naive(rounds, ranks))


def test_long_lists_with_no_row_in_common():
    n = 20_000
    ids, first = np.arange(2 * n), np.array([0, n, 2 * n])
    last = np.zeros((2, 1), np.int64)
    _, kind, _, _ = diff(ids, -ids.astype(float), first, np.zeros(2, np.int32), last, False)
    assert np.bincount(kind).tolist() == [n, 0, 0, 2 * n]
