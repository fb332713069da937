"""What every engine promises. Registering an engine is all it takes to be tested."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from skyband.engines import ENGINES, Objects, QueryFamily, build
from strategies import count_query, cuts, shapes, streams, time_query

EXACT = [name for name, entry in ENGINES.items() if entry.traits.exact]
MINIMAL = [name for name, entry in ENGINES.items() if entry.traits.minimal]
every_exact_engine = pytest.mark.parametrize("engine", EXACT)
every_minimal_engine = pytest.mark.parametrize("engine", MINIMAL)
every_exact_row_engine = pytest.mark.parametrize(
    "engine", [name for name in EXACT if ENGINES[name].traits.windows & {"row", "every row"}]
)
END = (1 << 62) - 1


def objects(rows, group=None):
    score = np.array([np.nan if r[0] is None else r[0] for r in rows], np.float64)
    time, number = (np.array([r[i] for r in rows], np.int64) for i in (1, 2))
    return Objects(score, time, number, None if group is None else np.array(group, np.int32))


def batches(rows, cuts):
    bounds = [0, *(min(c, len(rows)) for c in cuts), len(rows)]
    return [rows[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]


def lists(answers, rows):
    """An engine's answers as the oracle writes them; empty lists are left out."""
    known = {r[2]: r for r in rows}
    found = []
    for a, step in enumerate(answers.step.tolist()):
        low, high = answers.first[a : a + 2].tolist()
        if low < high:
            best = [known[i] for i in answers.id[low:high].tolist()]
            assert answers.score[low:high].tolist() == [r[0] for r in best]
            found.append((step, best))
    return found


def fed(running, rows, cuts):
    """All answers of an engine that is given `rows` in batches, then the end."""
    found = []
    parts = batches(rows, cuts)
    for i, part in enumerate(parts):
        later = [r[1] for rest in parts[i + 1 :] for r in rest]
        found += lists(running.advance(objects(part), min(later) if later else END), rows)
    return found


def served(engine, shape):
    """The shape, with slide 0 (after every row) for an engine that serves no windows that slide."""
    k, size, slide = shape
    return k, size, slide if "slide" in ENGINES[engine].traits.windows else 0


def expected(rows, k, size, slide, origin=0):
    """The oracle's lists, for slide 0 those after every row."""
    return oracle.sliding(rows, k, size, slide, origin) if slide else oracle.after_every_row(rows, k, size)


@every_exact_engine
@given(shapes(), streams(), st.integers(0, 11))
def test_every_window_agrees_with_the_oracle(engine, shape, rows, origin):
    k, size, slide = served(engine, shape)
    running = build(engine, QueryFamily.of(time_query(k, size, slide, origin)))
    assert fed(running, rows, []) == expected(rows, k, size, slide, origin % slide if slide else 0)


@every_exact_engine
@given(shapes(), streams(), cuts)
def test_batches_do_not_matter(engine, shape, rows, cuts):
    k, size, slide = served(engine, shape)
    running = build(engine, QueryFamily.of(time_query(k, size, slide)))
    assert fed(running, rows, cuts) == expected(rows, k, size, slide)


@every_exact_engine
@given(shapes(), streams())
def test_one_row_at_a_time_equals_all_at_once(engine, shape, rows):
    k, size, slide = served(engine, shape)
    running = build(engine, QueryFamily.of(time_query(k, size, slide)))
    assert fed(running, rows, list(range(len(rows)))) == expected(rows, k, size, slide)


@every_exact_engine
@given(shapes(), streams(), cuts, st.integers(0, 4))
def test_a_snapshot_goes_on_as_if_nothing_had_happened(engine, shape, rows, cuts, where):
    k, size, slide = served(engine, shape)
    query = time_query(k, size, slide)
    running = build(engine, QueryFamily.of(query))
    found = []
    parts = batches(rows, cuts)
    for i, part in enumerate(parts):
        later = [r[1] for rest in parts[i + 1 :] for r in rest]
        found += lists(running.advance(objects(part), min(later) if later else END), rows)
        if i == where:
            running = build(engine, QueryFamily.of(query), resume=running.snapshot())
    assert found == expected(rows, k, size, slide)


@every_exact_engine
@given(shapes(), streams(times=st.just(0)), st.sets(st.integers(0, 40)), cuts)
def test_counting_windows_agree_with_the_oracle(engine, shape, drawn, unscored, cuts):
    k, size, slide = served(engine, shape)
    slide = slide or 1
    rows = [(None if i in unscored else s, i, i) for i, (s, _, _) in enumerate(drawn)]
    running = build(engine, QueryFamily.of(count_query(k, size, slide)))
    found = []
    for part in batches(rows, cuts):
        if part:
            ranked = [r for r in part if r[0] is not None]
            found += lists(running.advance(objects(ranked), np.array([part[-1][1] + 1])), rows)
    assert found == oracle.counting(rows, k, size, slide, len(rows))


@every_exact_engine
@given(shapes(), streams(times=st.just(0)), st.sets(st.integers(0, 40)), cuts)
def test_each_row_arrives_once_when_it_is_first_among_the_best(engine, shape, drawn, unscored, cuts):
    """An engine may leave to the emitter to find out what is new, or say so by giving ranks."""
    k, size, slide = served(engine, shape)
    slide = slide or 1
    rows = [(None if i in unscored else s, i, i) for i, (s, _, _) in enumerate(drawn)]
    running = build(engine, QueryFamily.of(count_query(k, size, slide, emit="arrivals")))
    found, whole = [], []
    for part in batches(rows, cuts):
        if part:
            ranked = [r for r in part if r[0] is not None]
            answers = running.advance(objects(ranked), np.array([part[-1][1] + 1]))
            if answers.rank is None:
                whole += lists(answers, rows)
            else:
                steps = np.repeat(answers.step, np.diff(answers.first)).tolist()
                found += zip(steps, [rows[i] for i in answers.id.tolist()], answers.rank.tolist(), strict=True)
    found += oracle.arrivals(whole)
    assert found == oracle.arrivals(oracle.counting(rows, k, size, slide, len(rows)))


@every_exact_engine
@given(shapes(), streams(), st.data())
def test_groups_do_not_see_each_other(engine, shape, rows, data):
    k, size, slide = served(engine, shape)
    group = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    cut = data.draw(st.integers(0, len(rows)))
    running = build(engine, QueryFamily.of(time_query(k, size, slide, per="g")))
    found = {0: [], 1: [], 2: []}
    for low, high in ((0, cut), (cut, len(rows))):
        upto = rows[high][1] if high < len(rows) else END
        answers = running.advance(objects(rows[low:high], group[low:high]), upto)
        order = np.lexsort((answers.step, answers.group, answers.end))
        assert order.tolist() == list(range(len(order))), "lists come by end, group and step"
        known = {r[2]: r for r in rows}
        for a, g in enumerate(answers.group.tolist()):
            ids = answers.id[answers.first[a] : answers.first[a + 1]].tolist()
            if ids:
                found[g].append((int(answers.step[a]), [known[i] for i in ids]))
    for g, mine in found.items():
        assert mine == expected([r for r, c in zip(rows, group, strict=True) if c == g], k, size, slide)


@every_exact_engine
@given(shapes(), streams(), st.data())
def test_forgetting_groups_that_are_not_active_changes_no_answer(engine, shape, rows, data):
    k, size, slide = served(engine, shape)
    group = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    places = sorted(data.draw(st.sets(st.integers(0, len(rows)), max_size=3)))
    running, codes = build(engine, QueryFamily.of(time_query(k, size, slide, per="g"))), {}
    found, known = {0: [], 1: [], 2: []}, {r[2]: r for r in rows}
    for low, high in zip([0, *places], [*places, len(rows)], strict=True):
        now = [codes.setdefault(g, len(codes)) for g in group[low:high]]
        answers = running.advance(objects(rows[low:high], now), rows[high][1] if high < len(rows) else END)
        names = {code: g for g, code in codes.items()}
        for a, code in enumerate(answers.group.tolist()):
            ids = answers.id[answers.first[a] : answers.first[a + 1]].tolist()
            if ids:
                found[names[code]].append([known[i] for i in ids])
        assert set(running.candidates().id.tolist()) <= set(running.live_ids().tolist())
        keep = running.active_groups()
        assert np.isin(running.candidates().group, keep).all()
        running.keep_groups(keep)
        codes = {names[code]: new for new, code in enumerate(keep.tolist())}
    for g, mine in found.items():
        own = [r for r, c in zip(rows, group, strict=True) if c == g]
        assert mine == [best for _, best in expected(own, k, size, slide)]


@every_exact_engine
@given(shapes(), streams(), st.sets(st.integers(0, 40)))
def test_an_empty_list_follows_the_last_window_that_had_rows(engine, shape, drawn, unscored):
    k, size, slide = served(engine, shape)
    if slide:
        answers = build(engine, QueryFamily.of(time_query(k, size, slide))).advance(objects(drawn), END)
        held = set(oracle.windows(drawn, size, slide))
        told = {w + 1 for w in held} - held
    else:
        rows = [(None if i in unscored else s, i, i) for i, (s, _, _) in enumerate(drawn)]
        ranked = objects([r for r in rows if r[0] is not None])
        answers = build(engine, QueryFamily.of(count_query(k, size, 1))).advance(ranked, np.array([len(rows)]))
        held = {w for w, _ in oracle.counting(rows, k, size, 1, len(rows))}
        told = {w + 1 for w in held if w < len(rows)} - held
    assert set(answers.step[np.diff(answers.first) == 0].tolist()) == told


@every_minimal_engine
@given(shapes(), streams(), cuts)
def test_candidates_are_exactly_the_minimal_set(engine, shape, rows, cuts):
    k, size, slide = served(engine, shape)
    running = build(engine, QueryFamily.of(time_query(k, size, slide)))
    seen = []
    for part in batches(rows, cuts):
        if part:
            seen += part
            now = part[-1][1]
            inside = [r for r in part if r[1] < now]
            held = [r for r in part if r[1] == now]
            running.advance(objects(inside), now)
            running.advance(objects(held), now)
            kept = running.candidates()
            found = sorted(zip(kept.score.tolist(), kept.time.tolist(), kept.id.tolist(), strict=True), reverse=True)
            if slide:
                assert found == oracle.minimal(seen, k, size, slide, 0, now)
            else:
                assert found == oracle.minimal_after_every_row(seen, k, size, now)


@every_exact_engine
@given(shapes(), streams(), cuts)
def test_candidates_never_exceed_what_the_paper_allows(engine, shape, rows, cuts):
    k, size, slide = served(engine, shape)
    running = build(engine, QueryFamily.of(time_query(k, size, slide)))
    fed(running, rows, cuts)
    kept = running.candidates()
    if ENGINES[engine].traits.minimal and slide:
        assert len(kept.id) <= k * -(-size // slide)
    assert running.peak >= len(kept.id)


@every_exact_row_engine
@given(shapes(), streams(scores=st.one_of(st.none(), st.integers(0, 5).map(float))), cuts)
def test_after_every_row_agrees_with_the_oracle(engine, shape, rows, cuts):
    k, size, _ = shape
    running = build(engine, QueryFamily.of(time_query(k, size, 0)))
    assert fed(running, rows, cuts) == oracle.after_every_row(rows, k, size)


@given(shapes(), streams(), cuts, st.integers(1, 5))
def test_sweep_turns_pages_without_losing_its_place(shape, rows, cuts, room):
    from skyband.engines import sweep, sweep_each_row

    k, size, slide = shape
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "MAX_BUFFER_ROWS", room)
        patch.setattr(sweep_each_row, "MAX_BUFFER_ROWS", room)
        assert fed(build("sweep", QueryFamily.of(time_query(k, size, slide))), rows, cuts) == oracle.sliding(
            rows, k, size, slide
        )
        running = build("sweep", QueryFamily.of(time_query(k, size, 0)))
        assert fed(running, rows, cuts) == oracle.after_every_row(rows, k, size)
