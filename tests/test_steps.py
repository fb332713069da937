"""Answers come in steps of bounded size, and how they are cut changes nothing."""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.engines import ENGINES
from skyband.runtime import pipeline
from skyband.runtime import result as results
from strategies import cuts, groups, shapes, streams

FINE = sb.Sliding("1000 s", "1 us")
TWO = {"t": [0, 500_000_000], "x": [1.0, 2.0], "g": ["a", "b"]}
timed = {"time": "t", "unit": "us"}


@pytest.mark.parametrize(
    "query",
    [
        sb.TopK(k=1, by="x", window=FINE, **timed),
        sb.TopK(k=1, by="x", window=FINE, per="g", **timed),
        sb.TopK(k=1, by="max(x)", of="g", window=FINE, **timed),
        [sb.TopK(k=1, by="x", window=FINE, **timed), sb.TopK(k=1, by="x", window=sb.Sliding("10 s", "1 s"), **timed)],
    ],
    ids=["one query", "groups", "leaderboard", "workload"],
)
@pytest.mark.parametrize("source", [lambda: TWO, lambda: iter([TWO]), lambda: iter([(TWO, 10**9)])])
def test_two_rows_in_very_many_windows_are_answered_in_small_tables(query, source, monkeypatch):
    monkeypatch.setattr(results, "STEP_ROWS", 1 << 14)
    first = list(itertools.islice(sb.stream(query, source()), 3))
    assert all(0 < table.num_rows <= 1 << 15 for table in first)
    found = pa.concat_tables(first)
    assert found["window_end"].to_pylist()[:1000] == list(range(1, 1001))
    assert set(found["score"].to_pylist()) == {1.0}


def test_more_answers_than_a_table_may_have_are_refused_with_what_to_write(monkeypatch):
    monkeypatch.setattr(results, "MAX_RESULT_ROWS", 2_000_000)
    with pytest.raises(sb.QueryError, match=r"at most 2,000,000 rows .* got .* slide.*sb.stream"):
        sb.run(sb.TopK(k=1, by="x", window=FINE, **timed), TWO)


def table_of(rows, groups):
    score, time = ([row[at] for row in rows] for at in (0, 1))
    return pa.table(
        {
            "x": pa.array(score, pa.float64()),
            "t": pa.array(time, pa.int64()),
            "g": pa.array([groups[n % len(groups)] for n in range(len(rows))], pa.int64()),
        }
    )


def queries_of(k, size, slide):
    """Queries of every kind, by name."""
    window, counting = sb.Sliding(f"{size} us", f"{slide} us"), sb.Counting(size, slide)
    one = {"k": k, "by": "x", **timed}
    found = {"one": sb.TopK(**one, window=window), "counting": sb.TopK(k=k, by="x", window=counting)}
    for emit in ("answers", "changes", "arrivals"):
        found[f"groups, {emit}"] = sb.TopK(**one, window=window, per="g", emit=emit)
        found[f"rows, {emit}"] = sb.TopK(**one, window=sb.Sliding(f"{size} us", "row"), emit=emit)
        found[f"counting groups, {emit}"] = sb.TopK(k=k, by="x", window=counting, per="g", emit=emit)
        found[f"leaderboard, {emit}"] = sb.TopK(**{**one, "by": "sum(x)"}, of="g", window=window, emit=emit)
    other = sb.Sliding(f"{size + 3} us", f"{slide} us")
    found["workload"] = [
        sb.TopK(**one, window=window),
        sb.TopK(**one, window=other),
        sb.TopK(**one, window=window, per="g"),
    ]
    found["row workload"] = [
        sb.TopK(**{**one, "k": k + extra}, window=sb.Sliding(f"{size} us", "row")) for extra in (0, 1)
    ]
    return found


@pytest.mark.parametrize("name", list(queries_of(1, 1, 1)))
@settings(max_examples=max(settings().max_examples // 12, 3))
@given(shapes(), streams(), st.lists(groups, min_size=1, max_size=3), cuts, st.integers(1, 9))
def test_how_answers_are_cut_into_steps_changes_none(name, shape, rows, groups, bounds, most):
    whole = table_of(rows, groups)
    ends = [0, *(min(cut, len(rows)) for cut in bounds), len(rows)]
    batches = [whole.slice(low, high - low) for low, high in itertools.pairwise(ends)]
    query = queries_of(*shape)[name]
    for source, late in ((whole, None), (batches, "9 us")):
        want, counts = sb.run(query, source, late=late, stats=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(results, "STEP_ROWS", most)
            patch.setattr(pipeline, "_SPARE_ROWS", 0)  # rows that nobody needs are dropped after every step
            got, again = sb.run(query, source, late=late, stats=True)
        assert counts.as_dict() == again.as_dict() | {"peak_candidates": counts.peak_candidates}
        if name.startswith("counting groups"):  # groups move on their own
            assert sorted(map(repr, got.to_pylist())) == sorted(map(repr, want.to_pylist()))
        else:
            assert got.equals(want)


@pytest.mark.parametrize("engine", [name for name, entry in ENGINES.items() if entry.traits.exact])
def test_every_engine_answers_the_same_in_steps(engine, monkeypatch):
    kinds = ENGINES[engine].traits.windows
    windows = [sb.Sliding("9 us", "2 us"), sb.Sliding("9 us", "row"), sb.Counting(7, 2), sb.Counting(7)]
    rows = {"t": [n * n % 23 // 2 + n for n in range(60)], "x": [float(n * 7 % 11) for n in range(60)]}
    for window in windows:
        if not window.kinds & kinds:
            continue
        query = sb.TopK(k=3, by="x", window=window, **({} if window.counts else timed))
        want = sb.run(query, rows, engine=engine, late=None if window.counts else "20 us")
        with monkeypatch.context() as patch:
            patch.setattr(results, "STEP_ROWS", 5)
            assert sb.run(query, rows, engine=engine, late=None if window.counts else "20 us").equals(want)


def test_queries_may_come_and_go_between_the_steps_of_a_batch(monkeypatch):
    monkeypatch.setattr(results, "STEP_ROWS", 10)
    rows = [{"t": [n], "x": [float(n % 7)]} for n in range(0, 200, 5)]
    window = sb.Sliding("40 us", "10 us")

    def answered(change):
        workload = sb.Workload([sb.TopK(k=2, by="x", window=window, name="a", **timed)])
        batch = {"t": list(range(100)), "x": [float(n % 7) for n in range(100)]}
        stream = sb.stream(workload, iter([batch, *(row for row in rows if row["t"][0] >= 100)]))
        found = [next(stream)]
        if change:
            workload.add(sb.TopK(k=1, by="x", window=window, name="b", **timed))
        return pa.concat_tables([*found, *stream])

    alone, both = answered(change=False), answered(change=True)
    names = pa.compute.equal(both["query"].cast(pa.string()), "a")
    assert both.filter(names).to_pylist() == alone.to_pylist()
    mine = both.filter(pa.compute.invert(names))
    assert min(mine["window_start"].to_pylist()) >= 100, "exact from the first window after what the stream has seen"
