"""The kernels of the shared sweep that move rows eight at a time, against plain NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.engines import Objects, build
from skyband.kernels.shared.levels import walk, walk_above
from skyband.kernels.shared.memory import STRIDE, BandRows, Levels, SharedRows, append_below
from skyband.kernels.shared.views import ViewColumns
from skyband.query import Counting
from skyband.workload.family import families


def _ranked(seed: int, size: int) -> Levels:
    """One level of rows, best first, with ties."""
    rng = np.random.default_rng(seed)
    score = np.sort(rng.integers(0, max(size // 3, 1), size).astype(np.float64))[::-1].copy()
    none = np.empty(0, np.int64)
    return Levels(score, rng.integers(0, 1 << 40, size), rng.integers(0, 100, size), none, none)


@given(st.integers(0, 1 << 30), st.integers(0, 70), st.integers(1, 60), st.integers(0, 101))
def test_a_walk_takes_the_first_k_that_are_young_enough(seed: int, size: int, k: int, start: int) -> None:
    levels = _ranked(seed, size)
    score, id, time = levels[:3]
    to_score, to_id = answer = np.zeros(k + STRIDE), np.zeros(k + STRIDE, np.int64)
    got = walk(levels, 0, size, start, k, 0, answer, 0)
    wanted = np.flatnonzero(time >= start)[:k]
    assert got == len(wanted)
    assert (to_id[:got] == id[wanted]).all()
    assert (to_score[:got] == score[wanted]).all()


@given(st.integers(0, 1 << 30), st.integers(0, 70), st.integers(1, 60), st.integers(0, 101), st.integers(-1, 24))
def test_a_walk_stops_before_a_score(seed: int, size: int, k: int, start: int, bound: int) -> None:
    levels = _ranked(seed, size)
    score, id, time = levels[:3]
    _, to_id = answer = np.zeros(k + STRIDE), np.zeros(k + STRIDE, np.int64)
    got, at = walk_above(levels, 0, size, start, k, 0, answer, 0, float(bound))
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
    to = BandRows(np.zeros(room), np.zeros(room, np.int64), np.zeros(room, np.int64), np.zeros(room, np.int32))
    rows, seen = (
        SharedRows(score, time, id, np.empty(0, np.int32), np.empty((2, 0), np.int64)),
        ViewColumns(views, views, views),
    )
    total = append_below(rows, 0, size, float(bar), to, 2, seen, len(views))
    wanted = np.flatnonzero(score < bar)
    assert total == 2 + len(wanted)
    assert (to.id[2:total] == wanted).all()
    assert (to.pane[2:total] == np.searchsorted(views, time[wanted], side="right") - 1).all()


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
