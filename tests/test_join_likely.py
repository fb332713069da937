"""Our own refresh policy: what it leaves out, whom it trusts, and what it learns from."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.kernels.likely import spared
from skyband.operators.lookup_join.policies import NAMED_POLICIES, Candidates, Likely
from skyband.operators.lookup_join.replica import Replica

SLIDE = 10


def plainly_spared(stale, worlds, weight, later, k, budget, hit):
    """The same by the definition: every loss from whole answers."""
    n = len(stale)

    def best(score):
        return sorted(range(n), key=lambda i: (-score[i], i))[:k]

    ideal = sum((2.0 ** (k - r) - 1) / np.log2(r + 2) for r in range(min(k, n)))

    def worth(score, true):
        gain = {i: 2.0 ** (k - r) - 1 for r, i in enumerate(best(true))}
        return sum(gain[i] / np.log2(r + 2) / ideal + hit for r, i in enumerate(best(score)) if i in gain)

    kept, loss, mixed = list(range(n)), np.zeros(n), worlds.copy()
    fresh: set[int] = set()
    while len(kept) > budget:
        gone = -1
        for i in reversed(kept):
            if gone < 0 or loss[i] < loss[gone] - 1e-12:
                gone = i
        if gone not in fresh:
            without = mixed.copy()
            without[:, gone] = stale[gone]
            lost = [worth(a, true) - worth(b, true) for a, b, true in zip(mixed, without, worlds, strict=True)]
            loss[gone] = later[gone] + weight[gone] * np.mean(lost)
            fresh.add(gone)
            continue
        kept.remove(gone)
        mixed[:, gone] = stale[gone]
        fresh.clear()
    return kept, loss


@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 6), st.integers(0, 10_000))
def test_what_is_left_out_costs_least(n, k, budget, seed):
    rng = np.random.default_rng(seed)
    k = min(k, n)
    stale = np.sort(rng.integers(0, 6, n).astype(float))[::-1].copy()
    worlds = np.where(rng.random((8, n)) < 0.5, stale, rng.integers(0, 6, (8, n)).astype(float))
    weight, later = 1 + rng.integers(0, 3, n) / 4, rng.integers(0, 3, n) / 64
    keep = np.ones(n, np.bool_)
    loss = spared(stale, worlds, weight, later, k, budget, 1 / k, keep)
    kept, want = plainly_spared(stale, worlds, weight, later, k, budget, 1 / k)
    assert np.flatnonzero(keep).tolist() == kept
    assert loss[keep] == pytest.approx(want[keep], abs=1e-9)


def read(replica, codes, values, now):
    replica.update(np.asarray(codes), np.asarray(codes), pa.table({"y": np.asarray(values, float)}), now)


def learned(*, last, keys=12, rounds=20):
    """A replica of keys whose values last a slide, or do not."""
    rng = np.random.default_rng(1)
    replica = Replica(("y",), SLIDE)
    replica.make_room(keys)
    values = rng.random(keys)
    for step in range(rounds):
        values = np.where(rng.random(keys) < last, values, rng.random(keys))
        read(replica, np.arange(keys), values, step * SLIDE)
    return replica, values, (rounds - 1) * SLIDE


def candidates(replica, now, k, listed, stays=None):
    value = replica.value["y"]
    ids = np.argsort(-value, kind="stable")
    time = np.full(len(ids), now) if stays is None else np.where(np.isin(ids, stays), now, now - 100)
    return Candidates(
        ids,
        value[ids],
        np.isin(np.arange(len(ids)), listed),
        time,
        np.ones(len(ids), np.int64),
        k,
        2 * SLIDE,
        SLIDE,
        lambda drawn: drawn["y"],
        ids,
    )


def test_where_nothing_lasts_it_reads_the_list_from_the_top_and_then_the_rest():
    replica, _, now = learned(last=0.0)
    assert replica.lasts() < 0.1
    found = candidates(replica, now + SLIDE, 2, listed=[0, 1, 2, 4])
    top = NAMED_POLICIES["top"](found, replica, 6, now + SLIDE)
    assert Likely()(found, replica, 6, now + SLIDE).tolist() == [*top.tolist(), *found.id[[3, 5]].tolist()]
    few = Likely()(found, replica, 3, now + SLIDE)  # below 2 k there is more to know than the list
    assert len(few) == 3


def test_where_values_last_it_does_without_what_was_just_read():
    replica, values, now = learned(last=0.9)
    assert replica.lasts() > 0.5
    later = now + 5 * SLIDE
    best = np.argsort(-values)[:4]
    read(replica, np.sort(best), values[np.sort(best)], later)
    chosen = Likely()(candidates(replica, later, 2, listed=range(12)), replica, 5, later)
    assert len(chosen) == 5
    assert not set(chosen.tolist()) & set(best.tolist())


def test_what_this_answer_can_do_without_goes_to_the_next_one():
    replica, _, now = learned(last=0.9)
    later = now + 5 * SLIDE
    stays = np.array([3, 5, 8])
    found = candidates(replica, later, 1, listed=range(12), stays=stays)
    settled = Candidates(**{**found.__dict__, "rescore": lambda _: np.repeat(found.score[:, None], 512, axis=1)})
    chosen = Likely()(settled, replica, 3, later)  # no world has another answer
    assert set(chosen.tolist()) == set(stays.tolist())


@pytest.mark.parametrize("k", [12, 15, 20])
def test_a_long_answer_does_not_draw_a_small_budget_from_its_top(k):
    replica, values, now = learned(last=0.8, keys=30)
    later = now + 5 * SLIDE
    first = np.arange(30) < 5  # above all others whatever is read, so only their order is open
    ids = np.argsort(-(values + first), kind="stable")
    found = Candidates.of(
        id=ids,
        score=(values + first)[ids],
        k=k,
        time=np.full(30, later),
        size=2 * SLIDE,
        slide=SLIDE,
        rescore=lambda drawn: drawn["y"] + first[ids][:, None],
        tie=ids,
    )
    chosen = Likely()(found, replica, 7, later)
    assert set(ids[:5].tolist()) <= set(chosen.tolist())
    nearer = Likely(hit=200.0)(found, replica, 7, later)  # who wants precision gets the border
    assert len(set(ids[:5].tolist()) & set(nearer.tolist())) <= 1


def test_the_record_tells_what_lasts():
    replica, values, now = learned(last=0.7, keys=50)
    assert replica.lasting(np.arange(50)).mean() == pytest.approx(0.7, abs=0.08)
    assert (replica.stale(np.arange(50), now) == 0).all()  # read at this moment
    assert replica.stale(np.arange(50), now + SLIDE).mean() == pytest.approx(0.3, abs=0.08)
    rate = replica.usual_rate()
    for step in range(1, 10):
        read(replica, np.arange(50), values + step, now + step * SLIDE)
    assert replica.usual_rate() > rate
