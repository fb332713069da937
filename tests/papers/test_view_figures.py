"""Yi et al., ICDE 2003: table 1, lemma 1, the cases of section 5, and figures 1, 2, 6 and 8 in shape.

The figures' pictures are not in the text: what is asserted is what the prose says of them.
"""

import itertools
import math

import numpy as np
import pytest

import skyband as sb
from skyband.kernels.walk import hits, sizes
from skyband.tables import ArrayTable
from skyband.view.index import ViewIndex
from skyband.view.model import (
    Costs,
    best_kmax,
    cost_curve,
    expected_interval,
    hitting_time,
    refill_frequencies,
    refill_frequency,
)
from skyband.view.policy import Adaptive, WorkloadStats
from skyband_lab.bench.updates import WORKLOADS, moving_window, zipf_means
from skyband_lab.reproduce.bounds import frequency_bound, survival_bound, survival_bound_drifting

TABLE_1 = [  # N, n, lower bound on Pr[Z > N], upper bound on E[N / Z]: as printed
    (100, 30, 0.9556, 1.1037),
    (1_000, 100, 0.9730, 1.2426),
    (10_000, 400, 0.9987, 1.0322),
    (100_000, 1_300, 0.9991, 1.0650),
    (1_000_000, 4_500, 0.9998, 1.0355),
]


@pytest.mark.parametrize(("rows", "n", "likely", "often"), TABLE_1)
def test_table_1(rows, n, likely, often):
    assert survival_bound(rows, n) == pytest.approx(likely, abs=6e-5)
    assert frequency_bound(rows, n) == pytest.approx(often, abs=6e-5)


@pytest.mark.parametrize(("p", "q"), [(0.25, 0.25), (0.4, 0.4), (0.3, 0.4), (0.4, 0.3), (0.1, 0.0), (0.5, 0.5)])
@pytest.mark.parametrize("n", [1, 4, 12])
def test_lemma_1_against_simulation(p, q, n):
    """The mean of so many walks that 3 % is more than four of its standard errors."""
    walks = hits(np.full(n, p), np.full(n, q), 40_000, 1)
    assert walks.mean() == pytest.approx(expected_interval(n, p, q), rel=0.03)
    assert hitting_time(np.full(n, p), np.full(n, q)) == pytest.approx(expected_interval(n, p, q))
    assert (1 / walks).mean() == pytest.approx(refill_frequency(np.full(n, p), np.full(n, q)), rel=0.03)


def test_lemma_1_from_every_position():
    """H of i, since what is left after the first j steps is a walk from j."""
    for p, q in [(0.2, 0.2), (0.2, 0.3), (0.3, 0.2)]:
        h = [expected_interval(9, p, q, i) for i in range(9)] + [0.0]
        for i in range(1, 9):
            assert h[i] == pytest.approx(1 + p * h[i + 1] + q * h[i - 1] + (1 - p - q) * h[i])
        assert h[0] == pytest.approx(1 + p * h[1] + (1 - p) * h[0])


@pytest.mark.parametrize("more", [1e-9, 1e-6, 9e-6, 2e-5, 1e-3])
def test_lemma_1_where_p_and_q_are_nearly_equal(more):
    """The closed form cancels there; the recurrence does not."""
    n, p, q = 1_000, 0.01, 0.01 * (1 + more)
    assert expected_interval(n, p, q) == pytest.approx(hitting_time(np.full(n, p), np.full(n, q)), rel=1e-7)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: expected_interval(0, 0.1, 0.1), "got n=0 and i=0"),
        (lambda: expected_interval(5, -0.1, 0.1), "p must be .* got -0.1"),
        (lambda: hitting_time([0.1], [0.1, 0.2]), "p and q must have .* got 1 and 2 numbers"),
        (lambda: refill_frequency([0.8], [0.7]), "got p=0.8 and q=0.7"),
        (lambda: survival_bound(0, 5), "rows must be .* got 0"),
        (lambda: survival_bound_drifting(100, 5, 0.4, 0.3), "p must be below q .* p=0.4 and q=0.3"),
    ],
)
def test_wrong_chances_are_told(call, words):
    with pytest.raises(sb.QueryError, match=words):
        call()


def test_bounds_are_chances():
    assert survival_bound(100, 5) == survival_bound_drifting(1e5, 5, 0.3, 0.6) == 0.0
    assert frequency_bound(100, 5) == 20.0  # Z is at least n


def test_p_and_q_may_vary_with_the_size():
    """Section 4.6: as vectors over the positions; lemma 2: more that enter, longer until the refill."""
    rng = np.random.default_rng(0)
    p, q = rng.uniform(0.1, 0.3, 8), rng.uniform(0.1, 0.3, 8)
    walks = hits(p, q, 40_000, 2)
    assert walks.mean() == pytest.approx(hitting_time(p, q), rel=0.03)
    assert (1 / walks).mean() == pytest.approx(refill_frequency(p, q), rel=0.03)
    more = q.copy()
    more[3] += 0.1
    assert hitting_time(p, more) > hitting_time(p, q)
    assert refill_frequency(p, more) < refill_frequency(p, q)


def test_the_solver_is_above_jensen_and_below_the_bounds():
    n = 400
    often = refill_frequencies(n, 0.5, 0.5)
    assert (np.diff(often) < 0).all()
    for i in (1, 10, 100, n):
        assert often[i - 1] >= 1 / expected_interval(i, 0.5, 0.5)
    assert often[n - 1] * 10_000 < frequency_bound(10_000, n)


def test_theorem_2_needs_only_a_logarithm():
    rows = 100_000
    assert survival_bound_drifting(rows, 100 * math.log(rows), 0.3, 0.6) > 0.999
    assert expected_interval(int(10 * math.log(rows)), 0.3, 0.6) > rows**4
    walks = hits(np.full(8, 0.2), np.full(8, 0.4), 2_000, 3)
    assert (walks > 100).mean() >= survival_bound_drifting(100, 8, 0.2, 0.4)


def test_more_bad_than_good_updates_have_no_small_view():
    """Section 4.5: the interval grows only with n, so the model goes to the cap."""
    assert expected_interval(2000, 0.4, 0.3) < 2.1 * expected_interval(1000, 0.4, 0.3)
    assert best_kmax(10, 300, 0.4, 0.3, Costs(refill=1.0, update=1e-6)) == 300


def kinds(value, batches, k, steps):
    """The part of good, bad and ignorable updates for a view of k rows, kept at that size as in section 5."""
    table = ArrayTable(value.copy())
    index = ViewIndex(k, follow=True)
    index.apply(np.arange(len(value)), value)
    for ids, new in itertools.islice(batches, steps):
        at = 0
        while at < len(ids):
            before = at
            at = index.apply(ids, new, first=at, stop=k)
            table.value[ids[before:at]] = new[before:at]
            if index.size < k:  # one row is missing: the next best takes its place
                rows = table.top(k - index.size, index.bound)
                index.bound = (float(rows["score"][-1].as_py()), int(rows["id"][-1].as_py()))
                index.add_fetched(rows["id"].to_numpy(), rows["score"].to_numpy())
    return np.array(index.counts[:4], float)


@pytest.mark.parametrize("figure", [1, 2])
def test_figures_1_and_2(figure):
    """1,000 books, totals in a moving window; sales by a Poisson law of mean 50, or of means that follow Zipf's law.

    As the prose says: good and bad updates are equally likely, and rare; they become more likely with the size of
    the view at first and less likely in the end; ignorable ones fall from about 1 to 0.
    """
    mean = 50.0 if figure == 1 else zipf_means(1000)
    good, bad, ignorable = {}, {}, {}
    for k in (10, 100, 400, 990):
        value, batches = moving_window(1000, seed=4, mean=mean)
        start = ViewIndex(k, follow=True)
        start.apply(np.arange(1000), value)
        first = np.array(start.counts[:4], float)
        counts = kinds(value, batches, k, 40) - first
        total = 40 * 1000
        ignorable[k], _, good[k], bad[k] = counts / total
        assert good[k] == pytest.approx(bad[k], rel=0.05, abs=0.001)
    assert ignorable[10] > 0.97
    assert ignorable[990] < 0.05
    assert ignorable[10] > ignorable[100] > ignorable[400] > ignorable[990]
    assert bad[10] < bad[100]
    assert bad[400] > bad[990]
    assert max(bad.values()) < 0.15


def test_the_three_cases_of_section_5():
    """Each runs against a real sort; sales and ups and downs lose no more rows than they win."""
    for name, make in WORKLOADS.items():
        rows = 3_000
        value, batches = make(rows, seed=1)
        table = ArrayTable(value.copy())
        view = sb.View(table, 20, "value", kmax=60)
        for ids, new in itertools.islice(batches, 20):
            table.value[ids] = new  # of an id that comes twice the last value stays
            last = np.unique(ids[::-1], return_index=True)[1]
            assert len(last) <= rows
            view.apply({"id": ids, "value": new})
        best = table.top(20)
        found = view.read()
        assert found["id"].to_pylist() == best["id"].to_pylist(), name
        assert found["score"].to_pylist() == best["score"].to_pylist(), name
        assert view.stats.bad <= 1.1 * view.stats.good + 60, name


def test_figure_6():
    """N 1 M, k 100: very dear at kmax = k, orders of magnitude cheaper near the root of N, then slowly dearer."""
    refill = 0.5
    kmax, cost = cost_curve(100, 20_000, 0.05, 0.05, Costs(refill=refill, update=1e-6))
    best = int(kmax[np.argmin(cost)])
    assert 500 < best < 5_000  # on the order of the root of N
    assert cost[0] > 1_000 * cost.min()
    assert cost[-1] > cost.min()
    assert cost[1000 - 100] < 20 * cost.min()


@pytest.mark.parametrize(("p", "q"), [(0.4, 0.4), (0.3, 0.4)])
def test_figure_8(p, q):
    """N 10,000, k 10: from the same start kmax comes to a small range, lower where the walk tends to its origin.

    Costs as measured in section 6: a refill costs as much as about N updates.
    """
    policy, k, rows = Adaptive(share=1, watch=False), 10, 10_000
    kmax = policy.initial_kmax(k, rows)
    assert kmax == 251
    track, updates, least = [], 0.0, kmax
    size = kmax
    for seed in range(3_000):
        made, size, low = walk_on(size, k, kmax, p, q, seed)
        updates, least = updates + made, min(least, low)
        stats = WorkloadStats(k, kmax, rows, size, least, int(updates), 0, 0, 1.0, 1 / rows)
        if size < k:
            kmax = policy.kmax_on_refill(stats)
            size, least, updates = kmax, kmax, 0.0
        else:
            smaller, updates = policy.kmax_between_refills(stats)
            least -= kmax - smaller
            kmax, size = smaller, min(size, smaller)
        track.append(kmax)
    late = np.array(track[500:])
    if p == q:  # E[Z] = n (n + 1) / 2p = N at n = 89
        assert 60 < np.median(late) < 180
        assert late.max() < 400
    else:  # a logarithm is enough
        assert np.median(late) < 50
    assert late.min() >= k


def walk_on(size, k, kmax, p, q, seed):
    """So many updates from `size` on; the walk of `sizes` begins at its kmax."""
    made, low = 0, size
    rng = np.random.default_rng(seed)
    steps = rng.random(200)
    for x in steps:
        made += 1
        if x < p:
            size -= 1
            low = min(low, size)
            if size < k:
                break
        elif x < p + q and size < kmax:
            size += 1
    return made, size, low


def test_a_simulated_view_agrees_with_the_model():
    """Refills of a walk between k and kmax, as often as lemma 1 says."""
    made = [sizes(1 << 40, 10, 30, seed, 0.2, 0.25)[0] for seed in range(3000)]
    assert np.mean(made) == pytest.approx(expected_interval(21, 0.2, 0.25), rel=0.06)
    assert math.isfinite(expected_interval(21, 0.2, 0.25))
