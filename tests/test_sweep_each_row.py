"""`sweep` after every row: long streams of every shape against the definition, step by step."""

import numpy as np
import pytest

import oracle
from skyband.engines import Objects, QueryFamily, build
from skyband.engines.sweep_each_row import SweepEachRow
from strategies import count_query, time_query

END = (1 << 62) - 1


def drawn(rng, rows):
    """Scores of some shape, perhaps with many ties, gaps and infinities; NaN is a row without a score."""
    shape = rng.integers(7)
    if shape == 0:
        score = rng.random(rows)
    elif shape == 1:
        score = np.cumsum(rng.standard_normal(rows))
    elif shape == 2:
        score = np.cumsum(rng.integers(-1, 2, rows)).astype(float)
    elif shape == 3:
        score = np.sort(rng.random(rows))
    elif shape == 4:
        score = np.sort(rng.random(rows))[::-1].copy()
    elif shape == 5:
        score = np.sin(np.arange(rows) / rng.integers(3, 60)) + rng.random(rows) * 0.1
    else:
        score = rng.integers(0, 3, rows).astype(float)
    if rng.random() < 0.3:
        score[rng.random(rows) < rng.choice([0.05, 0.5])] = np.nan
    if rng.random() < 0.2:
        score[rng.random(rows) < 0.02] = np.inf
        score[rng.random(rows) < 0.02] = -np.inf
    return score


def expected(score, time, k, size, emit, *, steps):
    """[(step, [(id, rank), ...])]: each list, each that differs from the one before, or each row once."""
    rows = [
        (None if np.isnan(s) else s, t, i) for i, (s, t) in enumerate(zip(score.tolist(), time.tolist(), strict=True))
    ]
    if steps is None:
        found = dict(oracle.after_every_row(rows, k, size))
        steps = len(rows)
    else:
        found = dict(oracle.counting(rows, k, size, 1, steps))
    out, before, seen = [], [], set()
    for step in range(1, steps + 1):
        ids = [r[2] for r in found.get(step, [])]
        ranks = list(enumerate(ids, 1))
        if emit == "arrivals":
            new = [(i, rank) for rank, i in ranks if i not in seen]
            seen.update(ids)
            if new:
                out.append((step, new))
        elif (ids or before) and (emit == "answers" or ids != before):
            out.append((step, [(i, rank) for rank, i in ranks]))
        before = ids
    return out


def said(answers, number):
    """The same of what an engine said; `number` turns its ids into the rows' numbers."""
    out = []
    for a, step in enumerate(answers.step.tolist()):
        low, high = answers.first[a : a + 2].tolist()
        ranks = answers.rank[low:high].tolist() if answers.rank is not None else range(1, high - low + 1)
        out.append((step, list(zip([number[i] for i in answers.id[low:high].tolist()], ranks, strict=True))))
    return out


def cut(rng, rows):
    """Where batches end: one row each, a few, or all at once."""
    many = rng.choice([1, 3, 30])
    return [*range(1, rows, 7), rows] if many == 30 else sorted({*rng.integers(0, rows + 1, many).tolist(), rows})


@pytest.mark.parametrize("emit", ["answers", "changes", "arrivals"])
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("seed", range(30))
def test_every_step_agrees_with_the_definition(emit, counts, seed):
    rng = np.random.default_rng([seed, counts, len(emit)])
    rows, k, size = int(rng.integers(1, 500)), int(rng.integers(1, 12)), int(rng.integers(1, 150))
    score = drawn(rng, rows)
    time = np.arange(rows) if counts else np.sort(rng.integers(0, rng.choice([20, 500, 5000]), rows))
    query = count_query(k, size, 1, emit=emit) if counts else time_query(k, size, 0, emit=emit)
    running, found, low = build("sweep", QueryFamily.of(query)), [], 0
    assert isinstance(running, SweepEachRow)
    for high in cut(rng, rows):
        given = slice(low, high)
        here = np.flatnonzero(~np.isnan(score[given])) + low if counts else np.arange(low, high)
        upto = np.array([high]) if counts else (int(time[high]) if high < rows else END)
        found += said(running.advance(Objects(score[here], time[here], here), upto), range(rows))
        low = high
        what = rng.integers(6)
        if what == 0:
            running = build("sweep", QueryFamily.of(query), resume=running.snapshot())
        elif what == 1 and high:
            now = high - 1 if counts else int(time[high - 1])
            alive = [
                (s, t, i)
                for i, (s, t) in enumerate(zip(score[:high].tolist(), time[:high].tolist(), strict=True))
                if not np.isnan(s)
            ]
            kept = running.candidates()
            minimal = oracle.minimal_after_every_row(alive, k, size, now)
            if counts or (high < rows and time[high] == now):
                assert kept.id.tolist() == [r[2] for r in minimal]
            else:  # time has gone on, and some may have left since
                assert set(kept.id.tolist()) <= {r[2] for r in minimal}
    assert found == expected(score, time, k, size, emit, steps=rows if counts else None)


@pytest.mark.parametrize("emit", ["answers", "changes", "arrivals"])
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_groups_do_not_see_each_other(emit, counts, seed):
    rng = np.random.default_rng([seed, counts, len(emit)])
    rows, groups, k, size = 600, 5, int(rng.integers(1, 5)), int(rng.integers(1, 60))
    group = rng.integers(0, groups, rows).astype(np.int32)
    score = np.empty(rows)
    for g in range(groups):
        score[group == g] = drawn(rng, int((group == g).sum()))
    position = np.empty(rows, np.int64)
    for g in range(groups):
        position[group == g] = np.arange((group == g).sum())
    time = position if counts else np.sort(rng.integers(0, 700, rows))
    query = count_query(k, size, 1, emit=emit, per="g") if counts else time_query(k, size, 0, emit=emit, per="g")
    running, found, low = build("sweep", QueryFamily.of(query)), {g: [] for g in range(groups)}, 0
    for high in cut(rng, rows):
        here = np.arange(low, high)
        if counts:
            here = here[~np.isnan(score[here])]
        come = np.array([(group[:high] == g).sum() for g in range(groups)])
        upto = come if counts else (int(time[high]) if high < rows else END)
        answers = running.advance(Objects(score[here], time[here], here, group[here]), upto)
        order = np.lexsort((answers.step, answers.group, answers.end))
        assert order.tolist() == list(range(len(order)))
        for one, g in zip(said(answers, position.tolist()), answers.group.tolist(), strict=True):
            found[g].append(one)
        low = high
        if rng.random() < 0.3:
            running = build("sweep", QueryFamily.of(query), resume=running.snapshot())
        if rng.random() < 0.3:
            running.candidates()
    for g in range(groups):
        mine = group == g
        assert found[g] == expected(score[mine], time[mine], k, size, emit, steps=int(mine.sum()) if counts else None)


def test_what_is_kept_stays_near_the_minimal_set():
    rng = np.random.default_rng(5)
    for score in (rng.random(200_000), np.cumsum(rng.standard_normal(200_000)), np.arange(200_000.0)):
        query = count_query(9, 5_000, 1, emit="arrivals")
        running, number = build("sweep", QueryFamily.of(query)), np.arange(len(score))
        minimal = 0
        for low in range(0, len(score), 10_000):
            rows = slice(low, low + 10_000)
            running.advance(Objects(score[rows], number[rows], number[rows]), np.array([low + 10_000]))
            held = running.kept_counts()[0]
            minimal = max(
                minimal, len(build("sweep", QueryFamily.of(query), resume=running.snapshot()).candidates().id)
            )
            assert held <= 2 * minimal + 16
        assert running.peak <= 2.5 * minimal + 16


@pytest.mark.parametrize("stream", ["random", "walk", "sensor-like"])
@pytest.mark.parametrize("k", [1, 9, 81])
def test_long_streams_agree_with_the_strict_engine(stream, k):
    """Windows far larger than the oracle can look at, in batches of uneven size."""
    rng = np.random.default_rng(k)
    score = rng.random(60_000) if stream == "random" else np.cumsum(rng.standard_normal(60_000))
    if stream == "sensor-like":
        score = np.round(
            np.sin(np.arange(60_000) / 3_000) * 20 + rng.integers(0, 9, 60_000) + rng.normal(0, 1, 60_000), 1
        )
    number, found = np.arange(len(score)), []
    for engine in ("sweep", "strict"):
        running, told = build(engine, QueryFamily.of(count_query(k, 10_000, 1, emit="arrivals"))), []
        for low, high in ((0, 100), (100, 25_000), (25_000, 25_001), (25_001, 60_000)):
            rows = slice(low, high)
            answers = running.advance(Objects(score[rows], number[rows], number[rows]), np.array([high]))
            steps = np.repeat(answers.step, np.diff(answers.first))
            told.append(np.stack([steps, answers.id, answers.rank]))
        found.append(np.concatenate(told, axis=1))
    np.testing.assert_array_equal(*found)
