"""sb.run and sb.stream against the oracle: order, lateness, groups, ties, what goes out."""

import json
import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from pipelines import Line
from skyband.runtime.batch import PreparedBatch, ReorderBuffer, concat_batches
from strategies import count_query, cuts, ids, scores, shapes, time_query

maybe = st.one_of(st.none(), st.just(float("nan")), scores)
drawn = st.lists(st.tuples(maybe, st.integers(0, 30), ids), max_size=40)


def known(x):
    return None if x is None or math.isnan(x) else x


def columns(rows):
    """Rows (score, time, id) as a batch; n is the arrival number."""
    return pa.table(
        {
            "x": pa.array([r[0] for r in rows], pa.float64()),
            "t": pa.array([r[1] for r in rows], pa.int64()),
            "i": pa.array([r[2] for r in rows], pa.int64()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )


def listed(table, size, slide, origin=0):
    """A table of answers as the oracle writes them, each row as (score, time, arrival)."""
    found = {}
    for row in table.to_pylist():
        if slide:
            window = (row["window_start"] - origin) // slide
            assert row["window_end"] == row["window_start"] + size
            assert row["window_start"] == window * slide + origin
        else:
            window = row["window_end"]
        ranked = found.setdefault(window, [])
        ranked.append((row["score"], row["t"], row["n"]))
        assert row["rank"] == len(ranked)
        assert row["score"] == row["x"]
    return list(found.items())


def ordered(rows, *, by_id=False):
    """Rows as the oracle needs them: ids in the place of arrivals where they break ties."""
    return [(known(x), t, (i, n) if by_id else n) for n, (x, t, i) in enumerate(rows)]


@given(shapes(), drawn, st.integers(0, 11))
def test_a_finite_source_in_any_order_has_no_late_rows(shape, rows, origin):
    k, size, slide = shape
    table, counts = sb.run(time_query(k, size, slide, origin), columns(rows), stats=True)
    assert listed(table, size, slide, origin % slide) == oracle.sliding(ordered(rows), k, size, slide, origin % slide)
    assert counts.rows == len(rows)
    assert counts.without_score == sum(known(x) is None for x, _, _ in rows)
    assert counts.late_rows == 0
    assert json.loads(table.schema.metadata[b"skyband"]) == counts.as_dict()


@given(shapes(), drawn)
def test_ties_go_to_the_larger_id_where_there_is_one(shape, rows):
    k, size, slide = shape
    table = sb.run(time_query(k, size, slide, id="i"), columns(rows))
    expected = [
        (w, [(x, t, n) for x, t, (_, n) in best])
        for w, best in oracle.sliding(ordered(rows, by_id=True), k, size, slide)
    ]
    assert listed(table, size, slide) == expected


@given(shapes(), drawn)
def test_ascending_turns_the_scores_but_not_the_ties(shape, rows):
    k, size, slide = shape
    table = sb.run(time_query(k, size, slide, ascending=True), columns(rows))
    turned = [(None if x is None else -x, t, n) for x, t, n in ordered(rows)]
    expected = [(w, [(-x, t, n) for x, t, n in best]) for w, best in oracle.sliding(turned, k, size, slide)]
    assert listed(table, size, slide) == expected


def by_hand(rows, cuts, size, slide, late):
    """Which rows count when they come in batches: the definition of lateness, in plain Python."""
    edges = sorted({s for w in range(-50, 60) for s in (w * slide, w * slide + size)})
    bounds = [0, *(min(c, len(rows)) for c in cuts), len(rows)]
    watermark, kept, newest = None, [], None
    for low, high in zip(bounds, bounds[1:], strict=False):
        batch = rows[low:high]
        for row in batch:
            pane_end = min(e for e in edges if e > row[1])
            if watermark is None or pane_end > watermark:
                kept.append(row)
        if batch:
            newest = max(r[1] for r in batch) if newest is None else max(newest, *(r[1] for r in batch))
            watermark = newest - late
    return kept


@given(shapes(), drawn, cuts, st.integers(0, 8))
def test_an_iterator_drops_and_counts_what_comes_too_late(shape, rows, cuts, late):
    k, size, slide = shape
    table = columns(rows)
    bounds = [0, *(min(c, len(rows)) for c in cuts), len(rows)]
    parts = [table.slice(a, b - a) for a, b in zip(bounds, bounds[1:], strict=False)]
    answers, counts = sb.run(time_query(k, size, slide), iter(parts), late=f"{late} us", stats=True)
    kept = by_hand(ordered(rows), cuts, size, slide, late)
    assert listed(answers, size, slide) == oracle.sliding(kept, k, size, slide)
    assert counts.late_rows == len(rows) - len(kept)


@given(shapes(), drawn, cuts)
def test_within_the_lateness_order_and_batches_do_not_matter(shape, rows, cuts):
    k, size, slide = shape
    query = time_query(k, size, slide)
    parts, table = [], columns(rows)
    for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        parts.append(table.slice(low, max(0, min(high, len(rows)) - low)))
    assert sb.run(query, iter(parts), late="30 us").equals(sb.run(query, table))


@given(shapes(), st.lists(maybe, max_size=40), cuts, st.sampled_from(["answers", "changes", "arrivals"]))
def test_counting_windows(shape, xs, cuts, emit):
    k, size, slide = shape
    table = columns([(x, 0, 0) for x in xs])
    bounds = [0, *(min(c, len(xs)) for c in cuts), len(xs)]
    parts = [table.slice(a, b - a) for a, b in zip(bounds, bounds[1:], strict=False)]
    answers = sb.run(count_query(k, size, slide, emit=emit), iter(parts))
    rows = [(known(x), n, n) for n, x in enumerate(xs)]
    expected = oracle.counting(rows, k, size, slide, len(xs))
    got = [(r["window_end"] // slide, (r["x"], r["n"], r["n"]), r["rank"]) for r in answers.to_pylist()]
    if emit == "answers":
        assert got == [(w, r, i) for w, best in expected for i, r in enumerate(best, 1)]
        assert all(r["window_start"] == max(0, r["window_end"] - size) for r in answers.to_pylist())
    elif emit == "arrivals":
        assert got == oracle.arrivals(expected)
    else:
        kinds = answers["_change_type"].to_pylist()
        every = [
            (e, oracle.top_k(rows, k, max(0, e * slide - size), e * slide)) for e in range(1, len(xs) // slide + 1)
        ]
        assert [(w, c, r, i) for (w, r, i), c in zip(got, kinds, strict=True)] == oracle.changes(every)
        assert answers["step"].to_pylist() == [w for w, _, _ in got]


@given(shapes(), drawn, st.booleans())
def test_changes_lead_from_each_list_to_the_next(shape, rows, ranks):
    k, size, slide = shape
    query = time_query(k, size, slide, emit="changes", ranks=ranks)
    changes = sb.run(query, columns(rows)).to_pylist()
    lists = {}
    for row in sb.run(time_query(k, size, slide), columns(rows)).to_pylist():
        lists.setdefault(row["window_end"], []).append(row["n"])
    board = {}
    for end in sorted({r["window_end"] for r in changes}):
        mine = [r for r in changes if r["window_end"] == end]
        order = ["delete", "update_preimage", "update_postimage", "insert"]
        kinds = [r["_change_type"] for r in mine]
        assert kinds == sorted(kinds, key=lambda c: (c == "insert", c != "delete")), order
        for row in mine:
            kind = row["_change_type"]
            if kind in ("delete", "update_preimage"):
                assert board[row["n"]] == row["rank"] or not ranks
                del board[row["n"]]
            else:
                board[row["n"]] = row["rank"]
        expected = {n: i for i, n in enumerate(lists.get(end, []), 1)}
        assert board == expected if ranks else set(board) == set(expected)
    assert set(lists) >= {r["window_end"] for r in changes if r["_change_type"] == "insert"}
    newest = max((t for _, t, _ in rows), default=0)
    assert all(r["window_end"] <= newest for r in changes if r["window_end"] not in lists), "the end deletes nothing"


ENDED = {
    "one query": time_query(2, 4, 2, emit="changes", ranks=True),
    "closed on the right": sb.TopK(
        k=2, by="x", window=sb.Sliding("4 us", "2 us", closed="right"), time="t", unit="us", emit="changes"
    ),
    "groups": time_query(2, 4, 2, emit="changes", per="i"),
    "workload": [time_query(2, 4, 2, emit="changes", per="i"), time_query(1, 3, 3, emit="changes")],
    "leaderboard": sb.TopK(
        k=2, of="n", by="sum(x)", window=sb.Sliding("4 us", "2 us"), time="t", unit="us", emit="changes", per="i"
    ),
}


@pytest.mark.parametrize("name", ENDED)
@settings(max_examples=25)
@given(rows=st.lists(st.tuples(scores, st.integers(0, 30), st.integers(0, 2)), min_size=1, max_size=12))
def test_deletes_come_at_the_same_step_however_late_the_watermark_is(name, rows):
    query = ENDED[name]
    whole = columns(sorted(rows, key=lambda row: row[1]))
    single = [whole.slice(at, 1) for at in range(whole.num_rows)]

    def changes(source, **options):
        return sorted(map(str, sb.run(query, source, **options).to_pylist()))

    expected = changes(whole)
    assert changes([whole]) == expected, "the end closes all windows"
    assert changes(single) == expected, "the watermark closes nearly all windows"
    assert changes(single, late="1 s") == expected, "the end closes all windows, after many batches"
    assert changes([(batch, 0) for batch in single]) == expected, "the source's watermark stays behind"


@given(shapes(), drawn)
def test_arrivals_name_each_row_once(shape, rows):
    k, size, slide = shape
    table = sb.run(time_query(k, size, slide, emit="arrivals"), columns(rows))
    expected = oracle.arrivals(oracle.sliding(ordered(rows), k, size, slide))
    got = [(r["window_start"] // slide, (r["score"], r["t"], r["n"]), r["rank"]) for r in table.to_pylist()]
    assert got == expected


@given(
    shapes(),
    st.lists(st.tuples(maybe, st.integers(0, 30), st.sampled_from(["a", "b", None])), max_size=40),
    cuts,
)
@pytest.mark.parametrize("engine", ["sweep", "mintopk"])
def test_groups_have_answers_of_their_own(engine, shape, rows, cuts):
    k, size, slide = shape
    table = columns([(x, t, 0) for x, t, _ in rows]).append_column("g", pa.array([g for *_, g in rows], pa.string()))
    parts = [table.slice(a, max(0, b - a)) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    answers = sb.run(time_query(k, size, slide, per="g"), iter(parts), late="30 us", engine=engine)
    assert answers.column_names[:4] == ["window_start", "window_end", "g", "rank"]
    for group in ("a", "b", None):
        mine = pa.Table.from_pylist([r for r in answers.to_pylist() if r["g"] == group], answers.schema)
        own = [(known(x), t, n) for n, (x, t, g) in enumerate(rows) if g == group]
        assert listed(mine, size, slide) == oracle.sliding(own, k, size, slide)


@given(st.integers(1, 4), st.integers(1, 12), drawn, cuts)
def test_after_every_row(k, size, rows, cuts):
    query = time_query(k, size, 0)
    parts, table = [], columns(rows)
    for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        parts.append(table.slice(low, max(0, min(high, len(rows)) - low)))
    answers, counts = sb.run(query, iter(parts), late="30 us", stats=True)
    in_time = sorted(ordered(rows), key=lambda r: (r[1], r[2]))
    expected = [r for _, best in oracle.after_every_row(in_time, k, size) for r in best]
    assert [(r["score"], r["t"], r["n"]) for r in answers.to_pylist()] == expected
    assert counts.without_score == sum(known(x) is None for x, _, _ in rows)


def test_windows_closed_on_the_right():
    query = sb.TopK(k=3, by="x", window=sb.Sliding("4 us", "2 us", closed="right"), time="t", unit="us")
    answers = sb.run(query, {"x": [1.0, 2.0, 3.0], "t": [2, 3, 4]}).to_pylist()
    found = {}
    for row in answers:
        assert row["window_start"] < row["t"] <= row["window_end"]
        found.setdefault((row["window_start"], row["window_end"]), []).append(row["t"])
    assert found == {(-2, 2): [2], (0, 4): [4, 3, 2], (2, 6): [4, 3]}


def test_a_watermark_of_the_sources_own():
    query = time_query(1, 10, 10)
    batches = [({"x": [1.0], "t": [5]}, 0), ({"x": [2.0], "t": [3]}, 20), ({"x": [9.0], "t": [15]}, 20)]
    tables = list(sb.stream(query, iter(batches)))
    assert [t["x"].to_pylist() for t in tables] == [[2.0]], "the row at 15 came after the watermark 20"


def test_rows_from_the_far_future_are_dropped_before_they_move_time():
    query = time_query(2, 10, 10)
    batches = [{"x": [1.0], "t": [5]}, {"x": [7.0, 2.0], "t": [10**15, 8]}, {"x": [3.0], "t": [9]}]
    answers, counts = sb.run(query, iter(batches), ahead="1 ms", late="5 us", stats=True)
    assert answers["x"].to_pylist() == [3.0, 2.0]
    assert (counts.ahead, counts.late_rows) == (1, 0)


def test_null_times_are_dropped_and_counted():
    answers, counts = sb.run(time_query(5, 10, 10), {"x": [1.0, 2.0], "t": [None, 3]}, stats=True)
    assert answers["x"].to_pylist() == [2.0]
    assert counts.without_time == 1


def test_no_rows_give_an_empty_table_with_all_columns():
    for emit in ("answers", "changes", "arrivals"):
        table = sb.run(
            time_query(5, 10, 10, emit=emit, per="g"),
            pa.table({"x": [0.5], "t": [1], "g": ["a"]}).slice(0, 0),
        )
        assert table.num_rows == 0
        full = sb.run(time_query(5, 10, 10, emit=emit, per="g"), {"x": [0.5], "t": [1], "g": ["a"]})
        assert table.schema.equals(full.schema)
    with pytest.raises(sb.SourceError, match="no batch"):
        sb.run(time_query(5, 10, 10), iter([]))


def test_stream_yields_as_windows_close():
    query = count_query(1, 4, 2)
    seen = []

    def source():
        for i in range(4):
            seen.append(i)
            yield {"x": [float(i)]}

    for n, table in enumerate(sb.stream(query, source())):
        assert table.num_rows == 1
        assert len(seen) == 2 * (n + 1), "each answer comes out before the next batch is asked for"


def test_many_batches_of_an_open_pane_are_thinned_out(monkeypatch):
    monkeypatch.setattr("skyband.runtime.batch._MAX_ROWS", 50)
    monkeypatch.setattr("skyband.runtime.pipeline._SPARE_ROWS", 50)
    rng = np.random.default_rng(3)
    x, t = np.round(rng.random(2000), 2), rng.integers(0, 100, 2000)
    table = pa.table({"x": x, "t": t, "g": rng.integers(0, 2, 2000)})
    query = time_query(3, 100, 50, per="g")
    line = Line(query, table.schema, "sweep")
    for low in range(0, 2000, 20):
        line.push(table.slice(low, 20), watermark=0)
        assert len(line.runner.buffer) < 200
        assert len(line.pipeline.rows) < 500
    assert line.finish().equals(sb.run(query, table))


def test_batches_follow_each_other_and_only_what_overlaps_is_merged():
    def batch(times, ids):
        time, tie = np.array(times), np.array(ids)
        return PreparedBatch(tie + 10, time, tie.astype(float), tie)

    def released(batches):
        buffer = ReorderBuffer()
        buffer.runs = [one.sorted() for one in batches]
        return buffer.release(1 << 60)

    rng = np.random.default_rng(5)
    for _ in range(300):
        batches = []
        for low in np.cumsum(rng.integers(0, 4, rng.integers(1, 6))):
            times = np.sort(low + rng.integers(0, 4, rng.integers(1, 5)))
            batches.append(batch(times.tolist(), rng.integers(0, 9, len(times)).tolist()))
        found = released(batches)
        assert all(a.time[-1] < b.time[0] for a, b in pairwise(found))
        together, whole = concat_batches(found), concat_batches(batches).sorted()
        assert (together.time == whole.time).all()
        assert (together.row_id == whole.row_id).all()
    three = [batch([1, 2, 2], [1, 2, 3]), batch([2, 3, 4], [1, 5, 6]), batch([5], [7])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("skyband.runtime.batch._RUN_SIZES", (0,))  # small ones would be merged at once
        assert [p.time.tolist() for p in released(three)] == [[1], [2, 2, 2], [3, 4], [5]]


@pytest.mark.parametrize(
    "window", [sb.Sliding("10 us", "5 us"), sb.Sliding("10 us", "row"), sb.Counting(4, 2)], ids=str
)
def test_window_group_and_rank_are_a_key_of_the_answers(window):
    rng = np.random.default_rng(2)
    rows = [{"x": rng.random(20), "t": np.arange(20) + 20 * n, "g": rng.integers(0, 3, 20)} for n in range(5)]
    found = sb.run(sb.TopK(k=3, by="x", window=window, time="t", unit="us", per="g"), iter(rows))
    keys = found.select(["window_start", "window_end", "g", "rank"]).to_pylist()
    assert len(keys) > 50
    assert len({tuple(key.values()) for key in keys}) == len(keys)


def test_a_stream_can_be_closed_before_its_source_ends():
    source = iter([{"x": [1.0, 2.0]}] * 3)
    with sb.stream(sb.TopK(k=1, by="x", window=sb.Counting(2, 2)), source) as answers:
        assert next(answers)["score"].to_pylist() == [2.0]
    assert next(answers, None) is None
    assert (len(list(source)), answers.stats.rows) == (2, 2)
