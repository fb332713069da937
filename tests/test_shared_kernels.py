"""The kernels of the shared sweep that move rows eight at a time, against plain NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.engines import Objects, build
from skyband.kernels.shared.room import STRIDE, absorbed
from skyband.kernels.shared.shelf import walked, walked_to
from skyband.query import Counting
from skyband.workload.family import families


def _ranked(seed: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows best first, with ties: their scores, ids and times."""
    rng = np.random.default_rng(seed)
    score = np.sort(rng.integers(0, max(size // 3, 1), size).astype(np.float64))[::-1].copy()
    return score, rng.integers(0, 1 << 40, size), rng.integers(0, 100, size)


@given(st.integers(0, 1 << 30), st.integers(0, 70), st.integers(1, 60), st.integers(0, 101))
def test_a_walk_takes_the_first_k_that_are_young_enough(seed: int, size: int, k: int, start: int) -> None:
    score, id, time = _ranked(seed, size)
    to_score, to_id = np.zeros(k + STRIDE), np.zeros(k + STRIDE, np.int64)
    got = walked(score, id, time, 0, size, start, k, 0, to_score, to_id, 0)
    wanted = np.flatnonzero(time >= start)[:k]
    assert got == len(wanted)
    assert (to_id[:got] == id[wanted]).all()
    assert (to_score[:got] == score[wanted]).all()


@given(st.integers(0, 1 << 30), st.integers(0, 70), st.integers(1, 60), st.integers(0, 101), st.integers(-1, 24))
def test_a_walk_stops_before_a_score(seed: int, size: int, k: int, start: int, bound: int) -> None:
    score, id, time = _ranked(seed, size)
    to_score, to_id = np.zeros(k + STRIDE), np.zeros(k + STRIDE, np.int64)
    got, at = walked_to(score, id, time, 0, size, start, k, 0, to_score, to_id, 0, float(bound))
    wanted = np.flatnonzero((time >= start) & (score > bound))[:k]
    assert got == len(wanted)
    assert (to_id[:got] == id[wanted]).all()
    assert got == k or at == (score > bound).sum()


@given(st.integers(0, 1 << 30), st.integers(0, 70), st.integers(-1, 101))
def test_rows_below_the_bar_are_taken_with_their_panes(seed: int, size: int, bar: int) -> None:
    rng = np.random.default_rng(seed)
    score, id = rng.integers(0, 100, size).astype(np.float64), np.arange(size)
    time, views = np.sort(rng.integers(0, 50, size)), np.sort(rng.integers(0, 60, 9))
    room = 2 + size + 8
    to = (np.zeros(room), np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room, np.int32))
    total = absorbed(score, time, id, 0, size, float(bar), *to, 2, views, len(views))
    wanted = np.flatnonzero(score < bar)
    assert total == 2 + len(wanted)
    assert (to[2][2:total] == wanted).all()
    assert (to[3][2:total] == np.searchsorted(views, time[wanted], side="right") - 1).all()


@pytest.mark.parametrize("rising", [0.0, 0.02, 1.0])
def test_many_small_calls_keep_no_more_than_a_few_large_ones(rising: float) -> None:
    asked = [sb.TopK(k=k, by="x", window=Counting(n, s)) for k, n, s in ((20, 500, 50), (50, 900, 70), (5, 300, 10))]
    score = np.random.default_rng(0).standard_normal(6_000) + rising * np.arange(6_000)
    peaks = []
    for batch in (7, 3_000):
        engine = build("sweep", families(asked)[0])
        for low in range(0, len(score), batch):
            place = np.arange(low, min(low + batch, len(score)))
            engine.advance(Objects(score[place], place, place), np.array([place[-1] + 1]))
        peaks.append(engine.peak)
    assert peaks[0] <= peaks[1] + 128
