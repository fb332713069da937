"""Long bands of the shared sweep: rows below all answers are not ranked, and no answer can tell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.engines import Objects, build, sweep_shared
from skyband.workload.family import families

SHAPES = {
    "random": lambda rng, n: rng.random(n),
    "ties": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "walk": lambda rng, n: np.cumsum(rng.normal(size=n)),
    "rising": lambda rng, n: np.arange(n) + rng.random(n) * 30,
    "falling": lambda rng, n: -np.arange(n) + rng.random(n) * 30,
    "steps": lambda rng, n: rng.random(n) + 5 * (np.arange(n) // 150 % 3),
    "infinite": lambda rng, n: np.where(rng.random(n) < 0.1, np.inf, rng.random(n)),
}
member = st.integers(20, 400).flatmap(lambda n: st.tuples(st.integers(1, 40), st.just(n), st.integers(5, n)))


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=12)
@given(
    members=st.lists(member, min_size=1, max_size=8),
    seed=st.integers(0, 99),
    short=st.sampled_from([0, 60, 1024]),
)
def test_every_list_is_that_of_an_engine_of_its_own(shape, members, seed, short):
    family = families([sb.TopK(k=k, by="x", window=sb.Counting(n, s)) for k, n, s in members])[0]
    rng = np.random.default_rng(seed)
    score = SHAPES[shape](rng, 1_500)
    alone, minimal = build("mintopk", family), build("mtoplist", family)
    before, sweep_shared._SHORT = sweep_shared._SHORT, short
    try:
        shared, at = build("sweep", family), 0
        while at < len(score):
            place = np.arange(at, min(at + int(rng.integers(1, 700)), len(score)))
            at = int(place[-1]) + 1
            rows = Objects(score[place], place, place)
            got, want = (engine.advance(rows, np.array([at])) for engine in (shared, alone))
            for name in ("end", "query", "first", "id", "score"):
                assert getattr(got, name).tolist() == getattr(want, name).tolist()
            minimal.advance(rows, np.array([at]))
            if rng.random() < 0.2:
                again = build("sweep", family, shared.snapshot())
                assert again.candidates().id.tolist() == minimal.candidates().id.tolist()
                shared = again if rng.random() < 0.5 else shared
    finally:
        sweep_shared._SHORT = before


def test_lists_that_do_not_fit_on_a_page_go_on_on_the_next(monkeypatch):
    monkeypatch.setattr(sweep_shared, "_MAX_BUFFER_ROWS", 100)  # or one list
    family = families([sb.TopK(k=k, by="x", window=sb.Counting(700, s)) for k, s in ((3, 7), (41, 31), (90, 11))])[0]
    score, place = np.random.default_rng(0).random(3_000), np.arange(3_000)
    want = build("mintopk", family).advance(Objects(score, place, place), np.array([3_000]))
    got = build("sweep", family).advance(Objects(score, place, place), np.array([3_000]))
    for name in ("end", "query", "first", "id", "score"):
        assert getattr(got, name).tolist() == getattr(want, name).tolist()


def test_what_waits_unranked_stays_within_bounds():
    family = families([sb.TopK(k=k, by="x", window=sb.Counting(20_000, 500)) for k in (5, 50, 100)])[0]
    score = np.random.default_rng(0).random(60_000)
    engine = build("sweep", family)
    for low in range(0, len(score), 7_000):
        place = np.arange(low, min(low + 7_000, len(score)))
        engine.advance(Objects(score[place], place, place), np.array([int(place[-1]) + 1]))
    assert engine.peak < 1.9 * len(engine.candidates().id) + 128
