"""Recompute, PreTopk, MinTopk and SAP against the definition, cut into batches, saved and resumed."""

import random
from collections import Counter

import numpy as np
import pytest

from skyband.engines import QueryFamily, build
from skyband.engines.composite import PerGroup
from skyband.engines.mintopk import MinTopk
from skyband.engines.pretopk import PreTopk
from skyband.engines.protocol import Objects
from skyband.engines.recompute import Recompute
from skyband.engines.sap import SAP
from skyband.errors import QueryError
from skyband.kernels.mintopk import M
from skyband.kernels.slide import S
from skyband.query import Counting, Sliding, TopK
from skyband.windows import WindowAssigner
from strategies import count_query

INF = float("inf")
SLIDING = [Recompute, PreTopk, MinTopk, SAP]
MINIMAL = [PreTopk, MinTopk]
# (size, slide): multiples, none, tumbling, after every tick
SHAPES = [(12, 4), (10, 4), (7, 3), (5, 5), (6, 1), (16, 2)]

sliding_engines = pytest.mark.parametrize("engine", SLIDING)
minimal_engines = pytest.mark.parametrize("engine", MINIMAL)
seeds = pytest.mark.parametrize("seed", range(40))


def sliding(size, slide, k, **more):
    window = Sliding(f"{size} us", f"{slide} us", **more)
    return TopK(k=k, by="x", window=window, time="t")


def counting(size, slide, k):
    return TopK(k=k, by="x", window=Counting(size, slide))


def stream(rng, query, rows=60):
    """(score, time, id), with ties, infinities, and a gap now and then."""
    gaps = [0, 0, 1, 1, 2, 3, 30] if not query.window.counts else [1, 1, 1, 1, 2, 9]
    scores = [0.0, -0.0, 1.0, 2.0, 3.0, INF, -INF]
    time, made = rng.randrange(-20, 20) if not query.window.counts else -1, []
    for number in range(rows):
        time += rng.choice(gaps)
        time = max(time, 0) if query.window.counts else time
        made.append((rng.choice(scores), time, 3 * number + 7))
    return made


def expected(rows, clock, k, upto):
    """Every list in order: (step, end, ids), straight from the definition."""
    lists, spoke = [], False
    if not rows:
        return lists
    window = clock.first(rows[0][1])
    while clock.end(window) <= upto:
        start, end = clock.start(window), clock.end(window)
        best = sorted(((s, i) for s, t, i in rows if start <= t < end), reverse=True)[:k]
        if best or spoke:
            lists.append((window, end, [i for _, i in best]))
        spoke = bool(best)
        window += 1
    return lists


def minimal(rows, clock, k, upto):
    """Whoever is among the k best so far of some window still open, best first."""
    kept = set()
    for window in range(clock.first(upto), clock.last(upto) + 1):
        inside = [(s, i) for s, t, i in rows if clock.start(window) <= t < clock.end(window)]
        kept |= set(sorted(inside, reverse=True)[:k])
    return [i for _, i in sorted(kept, reverse=True)]


def objects(rows, group=None):
    score, time, id = (list(c) for c in zip(*rows, strict=True)) if rows else ([], [], [])
    codes = None if group is None else np.array(group, np.int32)
    return Objects(np.array(score, float), np.array(time, np.int64), np.array(id, np.int64), codes)


def lists(answers):
    ids = [answers.id[a:b].tolist() for a, b in zip(answers.first[:-1], answers.first[1:], strict=True)]
    return list(zip(answers.step.tolist(), answers.end.tolist(), ids, strict=True))


def batches(rng, rows, query):
    """(rows, upto) in pieces that mind no pane; the last goes far beyond the stream."""
    at, upto = 0, rows[0][1]
    while at < len(rows):
        n = rng.choice([0, 1, 1, 2, 5, 40, len(rows)])
        batch, rest = rows[at : at + n], rows[at + n :]
        low = max([upto, *(t + query.window.counts for _, t, _ in batch)])
        upto = rng.randint(low, rest[0][1] if rest else low + rng.choice([0, 3, 100]))
        yield batch, np.array([upto]) if query.window.counts else upto
        at += n


def queries(rng):
    size, slide = rng.choice(SHAPES)
    k = rng.choice([1, 2, 3, 5])
    if rng.random() < 0.4:
        return counting(size, slide, k)
    return sliding(size, slide, k, closed=rng.choice(["left", "right"]), origin=f"{rng.randrange(5)} us")


@sliding_engines
@seeds
def test_agrees_with_the_definition_over_batches_and_resumes(engine, seed):
    rng = random.Random(seed)
    query = queries(rng)
    clock, rows = WindowAssigner.of(query.window), stream(rng, query)
    running, said, seen, upto, most = engine(QueryFamily.of(query)), [], [], 0, 0
    for batch, till in batches(rng, rows, query):
        upto = int(np.asarray(till).item())
        seen += batch
        answers = running.advance(objects(batch), till)
        assert answers.score.tolist() == [{i: s for s, _, i in seen}[i] for i in answers.id.tolist()]
        said += lists(answers)
        kept = running.candidates()
        assert all((s, t, i) in seen for s, t, i in zip(*kept[:3], strict=True))
        if engine in MINIMAL:
            assert kept.id.tolist() == minimal(seen, clock, query.k, upto)
        if engine is MinTopk:
            check(running, clock)
        most = max(most, len(kept.id))
        assert running.peak >= most
        if rng.random() < 0.3:
            peak = running.peak
            running = engine(QueryFamily.of(query), resume=running.snapshot())
            assert running.peak == peak
            assert running.candidates().id.tolist() == kept.id.tolist()
    assert said == expected(rows, clock, query.k, upto)


def check(engine, clock):
    """What must hold of the super-top-k list at any time."""
    state, nodes, order = engine._state, engine._nodes, engine._ranked()
    ranks = list(zip(nodes.score[order], nodes.id[order], strict=True))
    assert ranks == sorted(ranks, reverse=True)
    assert nodes.prev[order].tolist() == [-1, *order[:-1]][: len(order)]
    assert nodes.next[order].tolist() == [*order[1:], -1][: len(order)]
    assert nodes.end[order].tolist() == clock.last(nodes.time[order]).tolist()
    if not len(order):
        return
    runs, bounds, marks = engine._runs, engine.bounds(), engine.marks()
    until = [*runs.reach[state[M.full] : state[M.full_end]], *runs.until[state[M.part] : state[M.part_end]]]
    assert until == sorted(set(until))
    assert until[-1] == state[S.newest]
    counters = state[M.seen] - runs.opened[state[M.part] : state[M.part_end]]
    for window in range(state[S.oldest], state[S.newest] + 1):
        career = [id for id, start, end in marks if start <= window <= end]
        if window in bounds:
            assert len(career) == engine._k
            assert bounds[window] == career[-1]
        else:
            run = [u >= window for u in runs.until[state[M.part] : state[M.part_end]]].index(True)
            assert len(career) == counters[run] < engine._k
    assert 0 <= state[M.head] <= len(engine._order) - state[S.candidates]


@sliding_engines
def test_years_of_silence_are_skipped(engine):
    year = 365 * 86_400 * 1_000_000
    query = TopK(k=1, by="x", window=Sliding("4 ms", "1 ms"), time="t")
    running = engine(QueryFamily.of(query))
    running.advance(objects([(1.0, 500, 0)]), 501)
    ends = running.advance(objects([(2.0, 9 * year + 500, 1)]), 40 * year).end.tolist()
    assert ends == [*range(1000, 6000, 1000), *range(9 * year + 1000, 9 * year + 6000, 1000)]


@minimal_engines
@pytest.mark.parametrize("scores", [range(300), range(300, 0, -1), [0] * 300], ids=["up", "down", "level"])
def test_ordered_scores_find_room(engine, scores):
    query = counting(100, 2, 7)
    rows = [(float(s), t, t) for t, s in enumerate(scores)]
    said = lists(engine(QueryFamily.of(query)).advance(objects(rows), np.array([300])))
    assert said == expected(rows, WindowAssigner.of(query.window), 7, 300)


@seeds
def test_recompute_answers_after_every_row(seed):
    rng = random.Random(seed)
    query = TopK(k=2, by="x", window=Sliding("6 us", "row"), time="t")
    rows = [(s if rng.random() < 0.8 else np.nan, t, i) for s, t, i in stream(rng, sliding(6, 1, 2))]
    want, spoke = [], False
    for step, (_, now, _) in enumerate(rows, 1):
        inside = [(s, i) for s, t, i in rows[:step] if now - 6 < t and not np.isnan(s)]
        best = sorted(inside, reverse=True)[:2]
        if best or spoke:
            want.append((step, now + 1, [i for _, i in best]))
        spoke = bool(best)
    running, said = Recompute(QueryFamily.of(query)), []
    for batch, upto in batches(rng, rows, query):
        said += lists(running.advance(objects(batch), upto))
        running = Recompute(QueryFamily.of(query), resume=running.snapshot()) if rng.random() < 0.3 else running
    assert said == want


@sliding_engines
@seeds
def test_groups_are_served_apart_and_put_in_one_order(engine, seed):
    rng = random.Random(seed)
    query = queries(rng)
    counts, clock = query.window.counts, WindowAssigner.of(query.window)
    rows = [(*row, rng.randrange(1 + number // 15)) for number, row in enumerate(stream(rng, query))]
    if counts:  # positions are the group's own
        places = Counter()
        for number, (score, _, id, group) in enumerate(rows):
            rows[number] = (score, places[group], id, group)
            places[group] += 1
    cut = rng.randrange(len(rows))
    if not counts:
        cut = next((n for n in range(cut, len(rows)) if n and rows[n - 1][1] < rows[n][1]), 0)
    running, said, ends = PerGroup(engine, QueryFamily.of(query)), [], {}
    for at, batch in ((0, rows[:cut]), (cut, rows[cut:])):
        reach = Counter(group for *_, group in rows[: at + len(batch)])
        upto = np.array([reach[g] for g in range(1 + len(rows) // 15)])
        if not counts:
            upto = batch[-1][1] + 1 if batch else rows[0][1]
        answers = running.advance(objects([r[:3] for r in batch], [r[3] for r in batch]), upto)
        order = list(zip(answers.end.tolist(), answers.group.tolist(), answers.step.tolist(), strict=True))
        assert order == sorted(order)
        said += [(group, *one) for (_, group, _), one in zip(order, lists(answers), strict=True)]
        kept = running.candidates()
        running = PerGroup(engine, QueryFamily.of(query), running.snapshot())
        assert running.peak >= len(kept.id)
        assert running.candidates().group.tolist() == kept.group.tolist() == sorted(kept.group.tolist())
        ends = upto
    for group in range(1 + len(rows) // 15):
        own = [r[:3] for r in rows if r[3] == group]
        till = ends[group] if counts else ends
        assert [one for g, *one in said if g == group] == [list(one) for one in expected(own, clock, query.k, till)]


@pytest.mark.parametrize("partition", ["dynamic", "equal"])
@pytest.mark.parametrize("stream", ["falling", "rising", "random"])
def test_partitions_follow_the_rows(partition, stream):
    score = np.random.default_rng(3).random(20_000)
    score = {"falling": -np.arange(20_000.0), "rising": np.arange(20_000.0), "random": score}[stream]
    query, number = count_query(20, 2_000, 50), np.arange(20_000)
    running, naive = (
        build("sap", QueryFamily.of(query), options={"partition": partition}),
        build("recompute", QueryFamily.of(query)),
    )
    for low in range(0, 20_000, 1_700):
        rows = slice(low, min(low + 1_700, 20_000))
        given = Objects(score[rows], number[rows], number[rows])
        found, expected = (one.advance(given, np.array([rows.stop])) for one in (running, naive))
        np.testing.assert_array_equal(found.id, expected.id)
    made, built = running.partitions()
    panes = 20_000 // 50
    if partition == "equal":
        assert made == panes // 4  # a tenth of the 40 panes of a window
    else:  # short where scores fall, long where they do not
        assert made == panes // 2 if stream == "falling" else made < panes // 4
    assert built <= made


def test_an_unknown_partition_is_refused():
    with pytest.raises(QueryError, match=r"partition must be one of .*, got 'odd'"):
        build("sap", QueryFamily.of(count_query(1, 10, 5)), options={"partition": "odd"})
