"""`sweep` after every row where scores fall or rise for long: such stretches are taken many rows at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.engines import Objects, QueryFamily, build, sweep_each_row
from skyband.kernels import row_steps
from strategies import count_query, stretches, time_query
from test_sweep_each_row import END, expected, said

emits = st.sampled_from(["arrivals", "arrivals", "changes", "answers"])
sizes = st.one_of(st.integers(1, 20), st.integers(20, 120))
deep = st.sampled_from([1, 2, 3, 5, 9, 17, 30])
parts = st.lists(st.tuples(st.integers(0, 360), st.booleans(), st.booleans()), max_size=5)
steps = st.lists(st.integers(0, 4), min_size=1, max_size=5)


def moments(rows, between):
    """Times that rise by what is drawn, over and over: many at one moment, or some far apart."""
    return np.cumsum(np.resize(between, rows))


def fed(query, score, time, group, parts, room, *, counts):
    """What is told of each group if the stream comes in `parts`; after some the engine is restarted, or tidied up."""
    groups = int(group.max()) + 1
    found, low = [[] for _ in range(groups)], 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep_each_row, "_MIN_BUFFER_ROWS", room)
        patch.setattr(sweep_each_row, "MAX_BUFFER_ROWS", 4 * room)
        running = build("sweep", QueryFamily.of(query))
        for high, restart, tidy in [*sorted((min(p[0], len(score)), *p[1:]) for p in parts), (len(score), 0, 0)]:
            here = np.arange(low, high)
            if counts:
                here = here[~np.isnan(score[here])]
            come = np.array([(group[:high] == g).sum() for g in range(groups)])
            upto = come if counts else (int(time[high]) if high < len(score) else END)
            given = Objects(score[here], time[here], here, group[here] if groups > 1 else None)
            answers = running.advance(given, upto)
            for one, g in zip(said(answers, range(len(score))), answers.group.tolist(), strict=True):
                found[g].append(one)
            low = high
            if tidy:
                running.candidates()
            if restart:
                running = build("sweep", QueryFamily.of(query), resume=running.snapshot())
    return found


@given(stretches(), deep, sizes, emits, parts, st.sampled_from([1, 7, 4096]))
def test_counting_windows(score, k, size, emit, parts, room):
    score, time = np.array(score), np.arange(len(score))
    query = count_query(k, size, 1, emit=emit)
    found = fed(query, score, time, np.zeros(len(score), np.int32), parts, room, counts=True)
    assert found == [expected(score, time, k, size, emit, steps=len(score))]


@given(stretches(), deep, sizes, emits, parts, steps, st.sampled_from([1, 7, 4096]))
def test_windows_by_time(score, k, size, emit, parts, between, room):
    score, time = np.array(score), moments(len(score), between)
    query = time_query(k, size, 0, emit=emit)
    found = fed(query, score, time, np.zeros(len(score), np.int32), parts, room, counts=False)
    assert found == [expected(score, time, k, size, emit, steps=None)]


@given(st.lists(stretches(most=30), min_size=2, max_size=3), deep, sizes, parts, steps, st.booleans(), st.data())
def test_groups(scores, k, size, parts, between, counts, data):
    rows = sum(map(len, scores))
    group = np.repeat(np.arange(len(scores), dtype=np.int32), [len(s) for s in scores])
    if data.draw(st.booleans()):  # side by side rather than one after the other
        group = group[np.random.default_rng(rows).permutation(rows)]
    score, position = np.empty(rows), np.empty(rows, np.int64)
    for g, mine in enumerate(scores):
        score[group == g], position[group == g] = mine, np.arange(len(mine))
    time = position if counts else moments(rows, between)
    make = (
        (lambda **more: count_query(k, size, 1, **more)) if counts else (lambda **more: time_query(k, size, 0, **more))
    )
    found = fed(make(emit="arrivals", per="g"), score, time, group, parts, 7, counts=counts)
    for g in range(len(scores)):
        here = np.flatnonzero(group == g)
        want = expected(score[here], time[here], k, size, "arrivals", steps=len(here) if counts else None)
        assert found[g] == [(step, [(here[i], rank) for i, rank in rows]) for step, rows in want]


@pytest.mark.parametrize("stream", ["falls", "rises", "up and down", "falls with steps", "falls, with a spike"])
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("k", [1, 9, 81])
def test_stretches_longer_than_the_window(stream, counts, k):
    """Far more rows than the oracle can look at, and a batch ends within the stretch."""
    number = np.arange(30_000)
    score = {
        "falls": -number,
        "rises": number,
        "up and down": np.abs(number % 14_000 - 7_000),
        "falls with steps": -(number // 3),
        "falls, with a spike": np.where(number % 9_001 == 9_000, 1, -number),
    }[stream].astype(float)
    time = number if counts else number // 2
    query = count_query(k, 4_000, 1, emit="arrivals") if counts else time_query(k, 4_000, 0, emit="arrivals")
    found = []
    for engine in ("sweep", "strict"):
        running, told = build(engine, QueryFamily.of(query)), []
        for low, high in ((0, 5_000), (5_000, 5_001), (5_001, 26_000), (26_000, 30_000)):
            rows = slice(low, high)
            given = Objects(score[rows], time[rows], number[rows])
            answers = running.advance(given, np.array([high]) if counts else int(time[high - 1]))
            steps, ends = (np.repeat(column, np.diff(answers.first)) for column in (answers.step, answers.end))
            told.append(np.stack([steps, ends, answers.id, answers.rank]))
        found.append(np.concatenate(told, axis=1))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("k", [3, 20])
@pytest.mark.parametrize("sign", [1, -1])
def test_stretches_of_every_length(sign, k, counts):
    """Between rows in random order: above all of them, or below."""
    rng = np.random.default_rng(k)
    for length in range(1, 60):
        parts = [rng.random(40) for _ in range(8)]
        parts[1::2] = (sign * (rng.random() + np.arange(length) / 9) for _ in range(4))
        score = np.concatenate(parts)
        number, found = np.arange(len(score)), []
        query = count_query(k, 60, 1, emit="arrivals") if counts else time_query(k, 60, 0, emit="arrivals")
        for engine in ("sweep", "strict"):
            given = Objects(score, number, number)
            answers = build(engine, QueryFamily.of(query)).advance(
                given, np.array([len(score)]) if counts else len(score)
            )
            found.append(said(answers, number))
        assert found[0] == found[1], length


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("seed", range(40))
def test_stretches_of_any_kind(seed, counts):
    rng = np.random.default_rng([seed, counts])
    rows, k, size = int(rng.integers(100, 700)), int(rng.choice([1, 2, 3, 5, 9, 20])), int(rng.integers(1, 200))
    found, at = [], 0.0
    while sum(map(len, found)) < rows:
        many = int(rng.integers(1, rng.choice([5, 40, 300])))
        ways = (rng.random(many), rng.integers(0, 3, many), rng.standard_normal(many) * rng.choice([0.1, 10]))
        found.append(at + np.cumsum(rng.choice([-1, 1]) * ways[rng.integers(3)]))
        at = found[-1][-1] + (rng.standard_normal() * 50 if rng.random() < 0.4 else 0)
    score = np.concatenate(found)[:rows]
    if rng.random() < 0.3:
        score[rng.random(rows) < rng.choice([0.003, 0.05])] = np.nan
    time = np.arange(rows) if counts else np.sort(rng.integers(0, rng.choice([20, 500, 5000]), rows))
    query = count_query(k, size, 1, emit="arrivals") if counts else time_query(k, size, 0, emit="arrivals")
    parts = [(int(cut), rng.random() < 0.5, rng.random() < 0.5) for cut in rng.integers(0, rows, rng.integers(0, 5))]
    told = fed(query, score, time, np.zeros(rows, np.int32), parts, int(rng.choice([7, 4096])), counts=counts)
    assert told == [expected(score, time, k, size, "arrivals", steps=rows if counts else None)]


@pytest.mark.parametrize("counts", [True, False])
def test_a_falling_stream_keeps_the_window_and_no_more(counts):
    number = np.arange(50_000)
    query = count_query(9, 4_000, 1, emit="arrivals") if counts else time_query(9, 4_000, 0, emit="arrivals")
    running = build("sweep", QueryFamily.of(query))
    for low in range(0, len(number), 10_000):
        rows = number[low : low + 10_000]
        running.advance(Objects(-rows.astype(float), rows, rows), np.array([low + 10_000]) if counts else low + 9_999)
    assert len(running.candidates().id) == 4_000
    assert running.peak <= 1.5 * 4_000 + row_steps._LEAST
