"""Changes that are sifted in blocks mean what they mean one by one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.kernels.view import BLOCK
from skyband.view.index import ViewIndex

# far apart, next to each other, and such as differ in high bits alone
IDS = np.array([0, 1, 2, 3, -1, 7 << 44, 9 << 44, 5 << 60, (1 << 63) - 1, -(1 << 63), *range(100, 130)])
SCORES = np.array([0.0, -0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0, math.nan, math.nan, math.inf, -math.inf])


class Plain:
    """A view as section 3 of the paper tells it: a dictionary, one change at a time, sorted wherever order matters."""

    def __init__(self, kmax, follow):
        self.kmax, self.follow, self.rows, self.bound = kmax, follow, {}, None
        self.counts = dict.fromkeys(("ignorable", "neutral", "good", "bad"), 0)
        self.level = self.peak = self.draw = self.low = 0

    def take_path(self):
        path = self.draw, self.peak, self.low, self.level
        self.level = self.peak = self.draw = self.low = 0
        return path

    def limit(self):
        """Let the bound be the rank of the lowest row; none if no row can be lower."""
        lowest = self.ranked()[-1]
        self.bound = None if lowest == (-math.inf, -(1 << 63)) else lowest

    def ranked(self):
        return sorted(((s, i) for i, (s, _) in self.rows.items()), reverse=True)

    def apply(self, ids, score, first, stop, fetched, base):
        keep = self.kmax if self.follow else self.kmax - (self.kmax - min(max(stop, 1), self.kmax)) // 8
        for n in range(first, len(ids)):
            i, s = int(ids[n]), float(score[n])
            inside = not math.isnan(s) and (self.bound is None or (s, i) >= self.bound)
            there = i in self.rows
            kind = ("bad", "neutral")[inside] if there else ("ignorable", "good")[inside]
            kind = "ignorable" if there and fetched else kind
            self.counts[kind] += not fetched
            if not there and not inside:
                continue
            if kind in ("good", "neutral"):
                self.rows[i] = (s, base + n)
            if kind == "bad":
                del self.rows[i]
            self.level += 0 if fetched else {"good": 1, "bad": -1}.get(kind, 0)
            self.peak = max(self.peak, self.level)
            self.draw = max(self.draw, self.peak - self.level)
            self.low = min(self.low, self.level)
            if len(self.rows) > self.kmax:
                for _, lowest in self.ranked()[keep:]:
                    del self.rows[lowest]
                self.limit()
            if self.follow and self.bound is not None and self.rows:
                self.limit()
            if self.bound is not None and len(self.rows) < stop:
                return n + 1
        return len(ids)


def agree(index, plain):
    index._check()
    ids, score, row = index.top(len(plain.rows) + 1)
    assert list(zip(score.tolist(), ids.tolist(), strict=True)) == plain.ranked()
    assert row.tolist() == [plain.rows[i][1] for i in ids.tolist()]
    assert index.bound == plain.bound
    assert index.counts._asdict() == {**plain.counts, "stale": 0}
    assert index.take_path(1) == (1, *plain.take_path())


def batch(rng, size, busy):
    """Changes of which the part `busy` is of few ids and of scores near the bound, and the rest of rows far below."""
    near = rng.random(size) < busy
    ids = np.where(near, rng.choice(IDS, size), rng.integers(1000, 1 << 62, size))
    return ids, np.where(near, rng.choice(SCORES, size), -5.0)


@settings(max_examples=150)
@given(
    seed=st.integers(0, 1 << 32),
    kmax=st.integers(1, 12),
    stop=st.integers(0, 12),
    follow=st.booleans(),
    busy=st.sampled_from([0.02, 0.3, 1.0]),
    crowded=st.booleans(),
    sizes=st.lists(st.sampled_from([1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7]), min_size=1, max_size=5),
)
def test_blocks_mean_what_single_changes_mean(seed, kmax, stop, follow, busy, crowded, sizes):
    """Rows enter, leave and come back within a block; bounds rise; ids repeat; scores tie with the bound."""
    rng = np.random.default_rng(seed)
    index, plain, stop = ViewIndex(kmax, follow=follow), Plain(kmax, follow), min(stop, kmax)
    base = 0
    for size in sizes:
        if crowded:
            index._rows.words[:] = ~np.uint64(0)  # as if every id had been here: all are looked for
        ids, score = batch(rng, size, busy)
        at = int(rng.integers(0, size)) if rng.random() < 0.2 else 0
        while at < size:
            to = plain.apply(ids, score, at, stop, False, base)
            assert index.apply(ids, score, first=at, stop=stop, base=base) == to
            agree(index, plain)
            at = to
            if len(plain.rows) < stop and plain.bound is not None:  # a refill: the bound falls, and rows come
                index.bound = plain.bound = min(plain.bound, (min(plain.bound[0], 9.0) - 1.0, -3))
                found = batch(rng, 3, 1.0)
                plain.apply(*found, 0, 0, True, base)
                index.add_fetched(*found, base=base)
                agree(index, plain)
        base += size


@pytest.mark.parametrize("place", [0, 1, BLOCK - 2, BLOCK - 1])
@pytest.mark.parametrize("size", [BLOCK + 1, 2 * BLOCK, 2 * BLOCK - 1])
def test_a_row_that_enters_is_known_to_the_rest_of_its_block(place, size):
    """When the block was sifted its id was in nobody's list, and its later scores are far below the bound."""
    index = ViewIndex(6)
    index.apply(np.arange(10), np.arange(10.0))  # 4 to 9 stay
    index.apply(np.array([9]), np.array([np.nan]))  # and leave room
    ids, score = np.arange(100, 100 + size), np.full(size, -1.0)
    ids[place], score[place] = 50, 8.5
    ids[BLOCK - 1 if place < BLOCK - 1 else BLOCK] = 50
    index.apply(ids, score)
    assert index.counts.good == 10 + 1
    assert index.counts.bad == 1 + 1
    assert index.top(9)[0].tolist() == [8, 7, 6, 5, 4]
