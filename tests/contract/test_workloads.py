"""What every engine for many queries promises. Registering one is all it takes to be tested."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from skyband.engines import ENGINES, Objects, QueryFamily, build
from skyband.workload.family import families
from strategies import count_query, cuts, streams, time_query

every_engine = pytest.mark.parametrize("engine", [name for name, entry in ENGINES.items() if entry.traits.shared])
every_minimal_engine = pytest.mark.parametrize(
    "engine", [n for n, e in ENGINES.items() if e.traits.shared and e.traits.minimal]
)
few = settings(max_examples=max(settings().max_examples * 2 // 5, 1))
END = (1 << 62) - 1


@st.composite
def members(draw, most=40):
    """(k, size, slide, origin) of one to forty queries: ratios without a common measure, and many alike."""
    number = draw(st.sampled_from([1, 2, 3, 5, most]))
    found = []
    for _ in range(number):
        size = draw(st.integers(1, 12))
        found.append((draw(st.integers(1, 6)), size, draw(st.integers(1, size)), draw(st.integers(0, 11))))
    return found


def family(members, **more):
    (found,) = families([time_query(*member, **more) for member in members])
    return found


def objects(rows, group=None):
    score = np.array([r[0] for r in rows], np.float64)
    time, number = (np.array([r[i] for r in rows], np.int64) for i in (1, 2))
    return Objects(score, time, number, None if group is None else np.array(group, np.int32))


def batches(rows, cuts):
    bounds = [0, *(min(c, len(rows)) for c in cuts), len(rows)]
    return [rows[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]


def lists(answers, rows, *, empty=False):
    """{query: [(window, rows)]} of answers, which must come by end, query and group."""
    order = np.lexsort((answers.step, answers.group, answers.query, answers.end))
    assert order.tolist() == list(range(len(order)))
    known = {r[2]: r for r in rows}
    found = {}
    for a, (step, query) in enumerate(zip(answers.step.tolist(), answers.query.tolist(), strict=True)):
        low, high = answers.first[a : a + 2].tolist()
        if low < high or empty:
            best = [known[i] for i in answers.id[low:high].tolist()]
            assert answers.score[low:high].tolist() == [r[0] for r in best]
            found.setdefault(query, []).append((step, best))
    return found


def joined(parts):
    found = {}
    for part in parts:
        for query, said in part.items():
            found.setdefault(query, []).extend(said)
    return found


def fed(running, rows, cuts):
    parts = batches(rows, cuts)
    found = []
    for i, part in enumerate(parts):
        later = [r[1] for rest in parts[i + 1 :] for r in rest]
        found.append(lists(running.advance(objects(part), min(later) if later else END), rows))
    return joined(found)


def expected(members, rows):
    every = {
        q: oracle.sliding(rows, k, size, slide, origin % slide) for q, (k, size, slide, origin) in enumerate(members)
    }
    return {q: said for q, said in every.items() if said}


@every_engine
@few
@given(members(), streams(), cuts)
def test_every_query_agrees_with_the_oracle(engine, members, rows, cuts):
    assert fed(build(engine, family(members)), rows, cuts) == expected(members, rows)


@every_engine
@few
@given(members(most=7), streams())
def test_one_row_at_a_time_equals_all_at_once(engine, members, rows):
    running = build(engine, family(members))
    assert fed(running, rows, list(range(len(rows)))) == expected(members, rows)


@every_engine
@few
@given(members(), streams(), cuts)
def test_every_query_agrees_with_an_engine_of_its_own(engine, members, rows, cuts):
    found = fed(build(engine, family(members)), rows, cuts)
    for q, member in enumerate(members):
        alone = build("mintopk", QueryFamily.of(time_query(*member))).advance(objects(rows), END)
        alone = lists(_numbered(alone, q), rows)
        assert found.get(q, []) == alone.get(q, [])


def _numbered(answers, number):
    return answers._replace(query=np.full(len(answers.step), number))


@every_engine
@few
@given(members(most=9), streams(), cuts, st.integers(0, 4))
def test_a_snapshot_goes_on_as_if_nothing_had_happened(engine, members, rows, cuts, where):
    kin = family(members)
    running = build(engine, kin)
    parts, found = batches(rows, cuts), []
    for i, part in enumerate(parts):
        later = [r[1] for rest in parts[i + 1 :] for r in rest]
        found.append(lists(running.advance(objects(part), min(later) if later else END), rows))
        if i == where:
            running = build(engine, kin, resume=running.snapshot())
    assert joined(found) == expected(members, rows)


@every_engine
@few
@given(members(most=9), streams(times=st.just(0)), st.sets(st.integers(0, 40)), cuts)
def test_counting_windows_agree_with_the_oracle(engine, members, drawn, unscored, cuts):
    rows = [(None if i in unscored else s, i, i) for i, (s, _, _) in enumerate(drawn)]
    (kin,) = families([count_query(k, size, slide) for k, size, slide, _ in members])
    running = build(engine, kin)
    found = []
    for part in batches(rows, cuts):
        if part:
            ranked = [r for r in part if r[0] is not None]
            found.append(lists(running.advance(objects(ranked), np.array([part[-1][1] + 1])), rows))
    every = {q: oracle.counting(rows, k, size, slide, len(rows)) for q, (k, size, slide, _) in enumerate(members)}
    assert joined(found) == {q: said for q, said in every.items() if said}


@every_engine
@few
@given(members(most=9), streams(), st.data())
def test_groups_do_not_see_each_other(engine, members, rows, data):
    group = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    cut = data.draw(st.integers(0, len(rows)))
    running = build(engine, family(members, per="g"))
    found = {0: {}, 1: {}, 2: {}}
    for low, high in ((0, cut), (cut, len(rows))):
        upto = rows[high][1] if high < len(rows) else END
        answers = running.advance(objects(rows[low:high], group[low:high]), upto)
        lists(answers, rows)
        known = {r[2]: r for r in rows}
        for a, g in enumerate(answers.group.tolist()):
            ids = answers.id[answers.first[a] : answers.first[a + 1]].tolist()
            if ids:
                said = found[g].setdefault(int(answers.query[a]), [])
                said.append((int(answers.step[a]), [known[i] for i in ids]))
    for g, mine in found.items():
        assert mine == expected(members, [r for r, c in zip(rows, group, strict=True) if c == g])


@every_engine
@few
@given(members(most=7), streams())
def test_an_empty_list_follows_the_last_window_that_had_rows(engine, members, rows):
    answers = build(engine, family(members)).advance(objects(rows), END)
    said = lists(answers, rows, empty=True)
    for q, (_, size, slide, origin) in enumerate(members):
        held = set(oracle.windows(rows, size, slide, origin % slide))
        assert {step for step, best in said.get(q, []) if not best} == {w + 1 for w in held} - held


@every_minimal_engine
@few
@given(members(), streams(), cuts)
def test_candidates_are_exactly_the_minimal_set_of_theorem_5_1(engine, members, rows, cuts):
    running = build(engine, family(members))
    seen = []
    for part in batches(rows, cuts):
        if part:
            seen += part
            now = part[-1][1]
            running.advance(objects([r for r in part if r[1] < now]), now)
            running.advance(objects([r for r in part if r[1] == now]), now)
            kept = running.candidates()
            found = sorted(zip(kept.score.tolist(), kept.time.tolist(), kept.id.tolist(), strict=True), reverse=True)
            assert found == oracle.minimal_of_many(seen, members, now)
            assert running.peak >= len(found)


@every_engine
@few
@given(members(most=5), streams(times=st.just(0), most=60), st.data())
def test_counting_windows_of_groups_keep_their_own_positions(engine, members, drawn, data):
    group = data.draw(st.lists(st.integers(0, 2), min_size=len(drawn), max_size=len(drawn)))
    (kin,) = families([count_query(k, size, slide, per="g") for k, size, slide, _ in members])
    running = build(engine, kin)
    come, rows = [0, 0, 0], []
    for i, ((s, _, _), g) in enumerate(zip(drawn, group, strict=True)):
        rows.append((s, come[g], i))
        come[g] += 1
    cut = data.draw(st.integers(0, len(rows)))
    found = {0: {}, 1: {}, 2: {}}
    for low, high in ((0, cut), (cut, len(rows))):
        upto = np.array([sum(c == g for c in group[:high]) for g in range(3)])
        answers = running.advance(objects(rows[low:high], group[low:high]), upto)
        for a, g in enumerate(answers.group.tolist()):
            ids = answers.id[answers.first[a] : answers.first[a + 1]].tolist()
            if ids:
                found[g].setdefault(int(answers.query[a]), []).append((int(answers.step[a]), [rows[i] for i in ids]))
    for g, mine in found.items():
        own = [r for r, c in zip(rows, group, strict=True) if c == g]
        every = {q: oracle.counting(own, k, n, s, len(own)) for q, (k, n, s, _) in enumerate(members)}
        assert mine == {q: said for q, said in every.items() if said}


@pytest.mark.parametrize("engine", [name for name, entry in ENGINES.items() if entry.traits.exact])
@pytest.mark.parametrize("per", [None, "g"])
def test_every_engine_serves_workloads(engine, per):
    """Engines for one query run once for every member."""
    members = [(2, 6), (1, 4), (3, 6)]
    (kin,) = families([count_query(k, size, 1, per=per) for k, size in members])
    running, rows, found = build(engine, kin), [(float(i * 7 % 5), i, i) for i in range(30)], []
    for low, high in ((0, 7), (7, 30)):
        arrivals = objects(rows[low:high], [0] * (high - low) if per else None)
        found.append(lists(running.advance(arrivals, np.array([high])), rows))
        running = build(engine, kin, running.snapshot())
    assert joined(found) == {q: oracle.counting(rows, k, size, 1, 30) for q, (k, size) in enumerate(members)}
