"""Many queries from end to end: each answers as if it were alone, also when queries come and go."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from pipelines import FamilyLine
from skyband.engines import FamilyMember, QueryFamily
from skyband.operators.plan import open_workload
from skyband.workload.family import families
from strategies import count_query, streams, time_query

few = settings(max_examples=max(settings().max_examples * 3 // 10, 1))
NO_TEXT = pa.array([], pa.string())
shape = st.integers(1, 12).flatmap(
    lambda size: st.tuples(st.integers(1, 5), st.just(size), st.integers(1, size), st.integers(0, 5))
)


def table(rows, groups=None):
    columns = {"t": [r[1] for r in rows], "x": [r[0] for r in rows], "i": [r[2] for r in rows]}
    if groups is not None:
        columns["g"] = groups
    kinds = {"t": pa.int64(), "x": pa.float64(), "i": pa.int64(), "g": pa.string()}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})


def of(answers, name):
    """The rows of one query, without the column that names it."""
    found = answers.filter(pa.array([q == name for q in answers["query"].to_pylist()], pa.bool_()))
    return found.drop_columns(["query"]).to_pylist()


@pytest.mark.parametrize("emit", ["answers", "changes", "arrivals"])
@few
@given(members=st.lists(shape, min_size=1, max_size=12), rows=streams(most=30), data=st.data())
def test_each_query_answers_as_if_alone(emit, members, rows, data):
    groups = data.draw(st.lists(st.sampled_from("abc"), min_size=len(rows), max_size=len(rows)))
    ranks = emit == "changes" and data.draw(st.booleans())
    queries = [time_query(*m, id="i", per="g", emit=emit, ranks=ranks) for m in members]
    source = table(rows, groups)
    together = sb.run(queries, source)
    for number, query in enumerate(queries):
        # the order of groups in one window counts the windows of all queries
        found, alone = (
            sorted(each, key=lambda r: (r["window_end"], r["g"]))
            for each in (of(together, f"q{number}"), sb.run(query, source).to_pylist())
        )
        assert found == alone


@few
@given(members=st.lists(shape, min_size=1, max_size=8), rows=streams(times=st.just(0)), data=st.data())
def test_counting_queries_answer_as_if_alone(members, rows, data):
    groups = data.draw(st.lists(st.sampled_from("ab"), min_size=len(rows), max_size=len(rows)))
    emit = data.draw(st.sampled_from(["answers", "changes", "arrivals"]))
    queries = [count_query(k, size, slide, per="g", emit=emit) for k, size, slide, _ in members]
    source = table(rows, groups)
    together = sb.run(queries, source)
    for number, query in enumerate(queries):
        assert of(together, f"q{number}") == sb.run(query, source).to_pylist()


@few
@given(
    members=st.lists(shape, min_size=1, max_size=5), rows=streams(most=30, all_time=False), seed=st.integers(0, 9)
)  # lateness has a limit
def test_rows_in_any_order_within_the_lateness_come_out_the_same(members, rows, seed):
    queries = [time_query(*m, id="i") for m in members]
    times = [r[1] for r in rows]
    late = max(times, default=0) - min(times, default=0)
    mixed = np.random.default_rng(seed).permutation(len(rows))
    batches = [table([rows[i] for i in part]) for part in np.array_split(mixed, 3)]
    found = sb.run(queries, iter(batches), late=f"{late} us")
    whole = sb.run(queries, table(rows))
    assert found.to_pylist() == whole.to_pylist()


@pytest.mark.parametrize("beside", [[], [sb.TopK(k=1, by="-x", window=sb.Tumbling("1 s"), time="t", unit="s")]])
def test_lists_of_one_end_come_in_the_order_of_the_queries_whichever_side_is_closed(beside):
    windows = {"right": sb.Tumbling("4 s", closed="right"), "left": sb.Tumbling("4 s")}
    queries = [sb.TopK(k=1, by="x", window=w, time="t", unit="s", name=name) for name, w in windows.items()]
    rows = {"t": [2, 7], "x": [1, 1]}
    for source in (rows, [rows]):
        found = sb.run([*queries, *beside], source)
        lists = zip(found["window_end"].to_pylist(), found["query"].to_pylist(), strict=True)
        assert [each for each in lists if each[1] in windows] == [(4, "right"), (4, "left"), (8, "right"), (8, "left")]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.timestamp("s")], ids=str)
def test_families_over_days(kind):
    days = pa.array([0, 1, 4], pa.int32()).cast(pa.date32()).cast(kind)
    windows = {"a": sb.Tumbling("2 days"), "b": sb.Tumbling("2 days", closed="right")}
    queries = [sb.TopK(k=1, by="x", window=w, time="day", name=name) for name, w in windows.items()]
    queries.append(sb.TopK(k=1, by="-x", window=windows["a"], time="day", name="c"))
    found = sb.run(queries, {"day": days, "x": [1, 2, 3]})
    assert found["query"].to_pylist() == ["b", "a", "b", "c", "b", "a", "c"]


def test_families_split_by_score_and_groups_and_columns_are_the_union():
    queries = [
        sb.TopK(k=1, by="x", window=sb.Tumbling("4 s"), time="t", unit="s", name="all"),
        sb.TopK(k=2, by="x", window=sb.Sliding("8 s", "4 s"), time="t", unit="s", name="long"),
        sb.TopK(k=1, by="-x", window=sb.Tumbling("4 s"), time="t", unit="s", name="least"),
        sb.TopK(k=1, by="x", window=sb.Tumbling("4 s"), time="t", unit="s", per="g", name="each"),
    ]
    source = {"t": [0, 1, 2, 5], "x": [3.0, 9.0, 4.0, 1.0], "g": ["a", "b", "a", "a"]}
    found = sb.run(queries, source)
    assert found.column_names == ["query", "window_start", "window_end", "g", "rank", "score", "t", "x"]
    first = [r for r in found.to_pylist() if r["window_start"] == 0 and r["window_end"] == 4]
    assert [(r["query"], r["g"], r["x"]) for r in first] == [
        ("all", None, 9.0),
        ("least", None, 3.0),
        ("each", "a", 4.0),
        ("each", "b", 9.0),
    ]
    said = str(sb.explain(queries))
    assert "4 queries in 3 families" in said
    assert "by x: all, long" in said
    assert "by x per g: each" in said


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ({"emit": "changes"}, {}, "emit"),
        ({"window": sb.Tumbling("5 us"), "time": "t", "unit": "us"}, {}, "the kind of window"),
        ({"prefix": "sb_"}, {}, "prefix"),
        ({"name": "same"}, {"name": "same"}, "name"),
    ],
)
def test_what_is_no_workload_says_how_to_split_it(one, other, word):
    queries = [sb.TopK(**{"k": 1, "by": "x", "window": sb.Counting(3), **more}) for more in (one, other)]
    with pytest.raises(sb.QueryError, match=word):
        sb.run(queries, {"x": [1]})


def test_an_unknown_engine_and_an_empty_workload_are_refused():
    with pytest.raises(sb.QueryError, match="sweep"):
        sb.run([count_query(1, 2, 1)], {"x": [1]}, engine="swepe")
    with pytest.raises(sb.QueryError, match="no query"):
        sb.run([], {"x": [1]})


# ---------------------------------------------------------------- queries that come and go


def one_by_one(rows):
    return iter([table([row]) for row in rows])


@few
@given(
    st.lists(shape, min_size=1, max_size=4),
    st.lists(st.tuples(shape, st.integers(0, 30)), min_size=1, max_size=4),
    streams(most=30),
)
def test_a_query_that_comes_late_is_exact_from_its_first_full_window_on(members, comers, rows):
    workload = sb.Workload([time_query(*m) for m in members])
    answers = sb.stream(workload, one_by_one(rows))
    told, found = {}, []
    for step, said in enumerate(answers):
        found += said.to_pylist()
        for number, (member, when) in enumerate(comers):
            if f"late{number}" not in told and step >= when:
                told[f"late{number}"] = workload.add(time_query(*member, name=f"late{number}")).exact_from
    for number, member in enumerate(members):
        assert _lists(found, f"q{number}") == _oracle(rows, member)
    for number, (member, _) in enumerate(comers):
        name = f"late{number}"
        if name in told:
            assert _lists(found, name) == [
                (start, best) for start, best in _oracle(rows, member) if told[name] is None or start >= told[name]
            ]


def _lists(found, name):
    lists = {}
    for row in found:
        if row["query"] == name:
            lists.setdefault(row["window_start"], []).append((row["x"], row["t"], row["i"]))
    return sorted(lists.items())


def _oracle(rows, member):
    k, size, slide, origin = member
    return [(origin % slide + w * slide, best) for w, best in oracle.sliding(rows, k, size, slide, origin % slide)]


@few
@given(st.lists(shape, min_size=2, max_size=5), streams(most=30), st.integers(0, 20), st.data())
def test_one_that_leaves_is_silent_and_the_others_go_on(members, rows, when, data):
    gone = data.draw(st.integers(0, len(members) - 1))
    workload = sb.Workload([time_query(*m) for m in members])
    found, left = [], None
    answers = sb.stream(workload, one_by_one(rows))
    for step, said in enumerate(answers):
        found += said.to_pylist()
        if step == when and left is None:
            workload.remove(f"q{gone}")
            left = len(found)
    for number, member in enumerate(members):
        if number != gone or left is None:
            assert _lists(found, f"q{number}") == _oracle(rows, member)
    if left is not None:
        assert all(row["query"] != f"q{gone}" for row in found[left:])


def test_leaving_frees_what_only_that_query_needed():
    rng = np.random.default_rng(0)
    rows = pa.table({"t": np.arange(3000), "x": rng.random(3000), "i": np.arange(3000)})
    small, large = time_query(2, 100, 50), time_query(300, 2000, 50, name="large")
    workload = sb.Workload([small, large])
    answers = sb.stream(workload, iter([rows.slice(0, 2500), rows.slice(2500, 100), rows.slice(2600)]))
    next(answers)
    before = answers.candidates
    workload.remove("large")
    assert before > 300
    assert answers.candidates < 20
    assert set(next(answers)["query"].to_pylist()) == {"q0"}


@few
@given(shape, streams(most=30), st.integers(0, 15), st.integers(1, 8))
def test_a_changed_k_holds_from_the_first_full_window_on(member, rows, when, k):
    workload = sb.Workload([time_query(*member), time_query(1, 3, 2)])
    found, told, changed = [], None, False
    for step, said in enumerate(sb.stream(workload, one_by_one(rows))):
        found += said.to_pylist()
        if step == when:
            told, changed = workload.update("q0", k=k).exact_from, True
            last = said["window_end"].to_pylist()[-1]
    old, new = dict(_oracle(rows, member)), dict(_oracle(rows, (k, *member[1:])))
    size = member[1]
    for start, best in _lists(found, "q0"):
        if not changed or start + size <= last:
            assert best == old[start]
        elif told is None or start >= told:
            assert best == new[start]
        else:
            assert best in (old[start], new[start])
    assert [start for start, _ in _lists(found, "q0")] == list(old)


def test_counting_queries_come_and_grow_while_rows_are_counted():
    rows = {"x": [float(x) for x in np.random.default_rng(3).permutation(60)]}
    batches = [{"x": rows["x"][i : i + 10]} for i in range(0, 60, 10)]
    workload = sb.Workload([count_query(2, 10, 5)])
    answers = sb.stream(workload, iter(batches))
    found = next(answers).to_pylist()
    assert workload.add(count_query(3, 20, 10, name="new")) == sb.workload.workload.Admission("new", 10)
    found += next(answers).to_pylist()
    assert workload.update("q0", k=4).exact_from == 20
    for said in answers:
        found += said.to_pylist()
    best = {}
    for row in found:
        best.setdefault((row["query"], row["window_start"], row["window_end"]), []).append(row["x"])
    assert {end for name, _, end in best if name == "new"} == {30, 40, 50, 60}
    for (name, start, end), scores in best.items():
        k = 3 if name == "new" else 2 if start < 20 else 4
        assert scores == sorted(rows["x"][start:end], reverse=True)[:k]


def test_activation_bounds_the_windows_that_are_answered():
    rows = table([(float(i % 7), i, i) for i in range(40)])
    workload = sb.Workload([time_query(1, 5, 5)])
    workload.add(time_query(2, 6, 3, name="some"), active=(10, 30))
    found = of(sb.run(workload, rows), "some")
    assert {(r["window_start"], r["window_end"]) for r in found} == {(s, s + 6) for s in (12, 15, 18, 21, 24)}


def test_a_new_score_makes_a_family_of_its_own():
    rows = [(float(i % 7), i, i) for i in range(40)]
    workload = sb.Workload([time_query(1, 4, 4)])
    answers = sb.stream(workload, iter([table(rows[:20]), table(rows[20:])]))
    next(answers)
    told = workload.add(sb.TopK(k=1, by="-x", window=sb.Tumbling("4 us"), time="t", unit="us", name="least"))
    assert told.exact_from == 20
    found = [r for said in answers for r in of(said, "least")]
    assert [(r["window_start"], r["x"]) for r in found] == [
        (s, min(x for x, t, _ in rows if s <= t < s + 4)) for s in (20, 24, 28, 32, 36)
    ]


@few
@given(
    st.lists(shape, min_size=1, max_size=5),
    streams(most=30),
    st.integers(0, 30),
    st.sampled_from(["answers", "changes", "arrivals"]),
)
def test_a_saved_family_goes_on_elsewhere(members, rows, cut, emit):
    (family,) = families([time_query(*m, emit=emit, per="g") for m in members])
    source = table(rows, ["ab"[i % 2] for i in range(len(rows))])
    straight = FamilyLine(family, source.schema)
    whole = [straight.push(source.slice(0, cut)), straight.push(source.slice(cut)), straight.finish()]
    line = FamilyLine(family, source.schema)
    parts = [line.push(source.slice(0, cut))]
    saved = line.snapshot()
    told = json.loads(json.dumps([m.as_json() for m in family.members]))
    again = QueryFamily(family.query, tuple(FamilyMember.from_json(m) for m in told))
    assert again == family
    resumed = FamilyLine(again, source.schema).restored(saved)
    parts += [resumed.push(source.slice(cut)), resumed.finish()]
    assert pa.concat_tables(parts).to_pylist() == pa.concat_tables(whole).to_pylist()


# ---------------------------------------------------------------- what can go wrong


def asked(k=1, by="x", size="4 us", slide="2 us", **more):
    return sb.TopK(k=k, by=by, window=sb.Sliding(size, slide), time="t", unit="us", **more)


def running(queries, engine="auto", batches=10, **more):
    """A workload and its stream, two batches of ten rows on."""
    rows = table([(float(i * 7 % 11), i, i) for i in range(10 * batches)])
    workload = sb.Workload(queries, **more)
    answers = sb.stream(workload, iter([rows.slice(10 * i, 10) for i in range(batches)]), engine=engine)
    next(answers)
    next(answers)
    return workload, answers


def test_names_are_looked_up_as_in_any_mapping():
    workload = sb.Workload([asked(name="a")])
    assert "a" in workload
    assert "b" not in workload
    assert workload.get("b") is None
    with pytest.raises(sb.QueryError, match=r"name='b'.* there are: a"):
        workload["b"]


@pytest.mark.parametrize("wrong", [asked(), 5, None])
def test_what_is_no_list_of_queries_says_so(wrong):
    with pytest.raises(sb.QueryError, match="queries must be a list"):
        sb.Workload(wrong)


def test_explain_refuses_what_a_run_refuses():
    with pytest.raises(sb.QueryError, match="the workload has no query"):
        sb.explain([])
    for tasks in (0, -1, "2", True):
        with pytest.raises(sb.QueryError, match=f"tasks must be .* got {tasks!r}"):
            sb.explain([asked()], tasks=tasks)


@pytest.mark.parametrize(
    ("active", "why"),
    [
        ((5, 3), "active must end after"),
        ((0, 3), "active must contain a whole window"),
        (("noon", None), "active must .* got 'noon'"),
        ((True, None), "active must .* got True"),
        (5, "active must .* got 5"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(active, why):
    workload = sb.Workload([asked(name="a")])
    with pytest.raises(sb.QueryError, match=why):
        workload.add(asked(name="b"), active=active)
    with pytest.raises(sb.QueryError, match=why):
        workload.update("a", active=active)
    assert list(workload) == ["a"]


def test_counting_windows_are_bounded_by_positions():
    workload = sb.Workload([count_query(1, 4, 2)])
    with pytest.raises(sb.QueryError, match="active must have positions"):
        workload.add(count_query(1, 4, 2, name="b"), active=("2024-01-01", None))
    workload.add(count_query(1, 4, 2, name="b"), active=(0, 7))
    found = of(sb.run(workload, {"x": [float(i) for i in range(12)]}), "b")
    assert [(r["window_start"], r["window_end"]) for r in found] == [(0, 2), (0, 4), (2, 6)]


@pytest.mark.parametrize(("unit", "per"), [("s", 1), ("ms", 1000), ("us", 1), ("ns", 1000)])
def test_bounds_count_as_the_time_column_does(unit, per):
    size = {"s": "1 s", "ms": "1 s", "us": "1 us", "ns": "1 us"}[unit]
    workload = sb.Workload([sb.TopK(k=1, by="x", window=sb.Tumbling(size), time="t", unit=unit)])
    workload.add(replace(workload["q0"], name="some"), active=(3 * per, 6 * per))
    found = of(sb.run(workload, {"t": [per * i for i in range(9)], "x": [1.0] * 9}), "some")
    assert [r["window_start"] for r in found] == [3 * per, 4 * per, 5 * per]


def test_the_message_has_the_names_of_the_queries():
    workload = sb.Workload([asked(name="calm")])
    with pytest.raises(sb.QueryError, match="'answers' in calm; 'changes' in loud"):
        workload.add(asked(name="loud", emit="changes"))


@pytest.mark.parametrize("engine", ["mintopk", "strict"])
def test_an_engine_that_does_not_serve_a_query_is_refused(engine):
    window = sb.Sliding("4 us", "row" if engine == "mintopk" else "2 us")
    query = sb.TopK(k=1, by="x", window=window, time="t", unit="us")
    with pytest.raises(sb.QueryError, match=f"engine='{engine}' does not serve"):
        sb.run([query], table([(1.0, 0, 0)]), engine=engine)


@pytest.mark.parametrize("engine", ["mtoplist", "mtopband", "mintopk"])
def test_engines_whose_queries_stay_say_so_and_go_on(engine):
    workload, answers = running([asked(3, name="a"), asked(2, name="b")], engine)
    refused = pytest.raises(sb.QueryError, match=f"come and go.*engine='{engine}'")
    for change in ({"k": 1}, {"k": 9}, {"window": sb.Tumbling("2 us")}, {"active": (50, 90)}):
        with refused:
            workload.update("a", **change)
    with refused:
        workload.add(asked(1, name="c"))
    if engine != "mintopk":  # of single engines, one can leave
        with refused:
            workload.remove("b")
    assert workload["a"].k == 3
    assert list(workload) == ["a", "b"]
    found = [row for said in answers for row in said.to_pylist()]
    rows = [(float(i * 7 % 11), i, i) for i in range(100)]
    assert _lists(found, "a") == [(s, best) for s, best in _oracle(rows, (3, 4, 2, 0)) if s + 4 > 20 - 1]


@pytest.mark.parametrize("engine", ["mtoplist", "mintopk"])
def test_a_counting_query_of_another_score_is_refused_before_anything_changes(engine):
    workload = sb.Workload([count_query(2, 4, 2, name="a")])
    answers = sb.stream(workload, iter([{"x": [1.0] * 10, "i": [0] * 10}] * 5), engine=engine)
    next(answers)
    with pytest.raises(sb.QueryError, match="come and go"):
        workload.add(sb.TopK(k=1, by="-x", window=sb.Counting(4, 2), name="b"))
    assert {row["query"] for said in answers for row in said.to_pylist()} == {"a"}


def test_a_query_that_does_not_fit_the_columns_leaves_the_stream_as_it_was():
    rows = [{"t": list(range(10 * i, 10 * i + 10)), "x": [float(j) for j in range(10)]} for i in range(5)]
    query = sb.TopK(k=1, by="x", window=sb.Sliding("10 s", "5 s"), time="t", unit="s", name="a")
    workload = sb.Workload([query])
    answers = sb.stream(workload, iter(rows))
    next(answers)
    fine = sb.Sliding("1500 ms", "500 ms")
    for wrong in (
        lambda: workload.add(replace(query, window=fine, name="b")),
        lambda: workload.update("a", window=fine),
        lambda: workload.add(replace(query, by=sb.TopK(k=1, by="y", window=fine, time="t").by, name="b")),
    ):
        with pytest.raises(sb.SchemaError):
            wrong()
    assert list(workload) == ["a"]
    workload.add(replace(query, k=2, name="c"))
    assert {row["query"] for said in answers for row in said.to_pylist()} == {"a", "c"}


def test_all_may_leave_before_the_first_batch():
    workload = sb.Workload([asked(name="a")])
    answers = sb.stream(workload, iter([table([(1.0, 0, 0)])]))
    workload.remove("a")
    with pytest.raises(sb.QueryError, match="the workload has no query"):
        next(answers)


def test_those_who_come_after_all_have_left_agree_with_them():
    workload, _ = running([asked(name="a")])
    workload.remove("a")
    with pytest.raises(sb.QueryError, match="the kind of window"):
        workload.add(count_query(1, 4, 2))


def test_rows_that_came_while_nobody_asked_are_not_there():
    workload = sb.Workload([asked(name="a")])
    pipeline = open_workload(workload, table([]).schema, "sweep", sorted_input=True)  # a file: rows need not wait

    def push(*times):
        return [row for found in pipeline.push(table([(1.0, t, t) for t in times])) for row in found.to_pylist()]

    push(*range(5))
    workload.remove("a")
    push(5, 6, 8)
    assert workload.add(asked(9, size="2 us", slide="1 us", name="b")).exact_from == 9
    found = push(8, 9, 10) + [row for answers in pipeline.finish() for row in answers.to_pylist()]
    assert {r["window_start"] for r in found} == {9, 10}


def test_counts_do_not_go_back_when_a_family_ends():
    workload, answers = running([asked(name="a"), asked(name="b", by="-x")])
    before = answers.stats.as_dict()
    workload.remove("b")
    assert answers.stats.as_dict() == before
    workload.add(asked(name="c", by="2 * x"))
    workload.remove("a")
    next(answers)
    after = answers.stats.as_dict()
    assert after["rows"] == before["rows"] + 10
    assert after["windows"] > before["windows"]


@few
@given(
    rows=st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab")), max_size=40),
    comers=st.lists(st.tuples(shape, st.sampled_from(["x", "-x"]), st.integers(0, 8)), min_size=1, max_size=4),
    grouped=st.booleans(),
)
def test_a_counting_query_that_comes_late_is_exact_in_every_group(rows, comers, grouped):
    """Also one of a score that was not asked for before: its family has met no row."""
    more = {"per": "g"} if grouped else {}
    workload = sb.Workload([sb.TopK(k=1, by="x", window=sb.Counting(3, 2), **more)])
    parts, seen, found = [rows[i : i + 5] for i in range(0, len(rows), 5)], {}, []

    def batches():
        for number, part in enumerate([*parts, []]):
            for at, ((k, size, slide, _), by, when) in enumerate(comers):
                if when == number:
                    query = sb.TopK(k=k, by=by, window=sb.Counting(size, slide), name=f"late{at}", **more)
                    workload.add(query)
                    before = [g if grouped else "" for part in parts[:number] for _, g in part]
                    seen[f"late{at}"] = {g: before.count(g) for g in before}
            yield pa.table(
                {"x": pa.array([float(x) for x, _ in part], pa.float64()), "g": [g for _, g in part] or NO_TEXT}
            )

    for said in sb.stream(workload, batches()):
        found += said.to_pylist()
    got = {}
    for row in found:
        got.setdefault((row["query"], row["g"] if grouped else "", row["window_end"]), []).append(row["x"])
    for at, ((k, size, slide, _), by, _) in enumerate(comers):
        name = f"late{at}"
        for group in {"a", "b"} if grouped else {""}:
            mine = [float(x) for x, g in rows if not grouped or g == group]
            want = {
                end: sorted(mine[max(0, end - size) : end], reverse=by == "x")[:k]
                for end in range(slide, len(mine) + 1, slide)
                if name in seen and max(0, end - size) >= seen[name].get(group, 0)
            }
            assert {end: best for (n, g, end), best in got.items() if (n, g) == (name, group)} == want


# ---------------------------------------------------------------- bounds that change


def starts(found, name):
    return sorted({row["window_start"] for row in found if row["query"] == name})


@pytest.mark.parametrize(
    ("active", "then", "want"),
    [
        ((None, 40), (None, 60), range(0, 57, 2)),  # longer
        ((None, 60), (None, 40), range(0, 37, 2)),  # shorter
        (None, (30, 50), [*range(0, 16, 2), *range(30, 47, 2)]),  # later
        ((50, None), (None, None), [*range(20, 97, 2)]),  # sooner than was meant
    ],
)
def test_bounds_may_change_while_the_stream_runs(active, then, want):
    workload = sb.Workload([asked(name="other")])
    workload.add(asked(2, name="a"), active=active)
    rows = [(float(i * 7 % 11), i, i) for i in range(100)]
    answers = sb.stream(workload, iter([table(rows[i : i + 10]) for i in range(0, 100, 10)]))
    found = [row for _ in range(2) for row in next(answers).to_pylist()]
    workload.update("a", active=then)
    found += [row for said in answers for row in said.to_pylist()]
    some = set(starts(found, "a")) - {-2, 98, 96, 18}  # at the ends, and where windows were open
    assert some == set(want) - {96, 18}
    lists = dict(_oracle(rows, (2, 4, 2, 0)))
    assert all(best == lists[start] for start, best in _lists(found, "a"))


def test_another_window_keeps_the_bounds():
    workload, answers = running([asked(name="other")])
    workload.add(asked(2, name="a"), active=(30, 50))
    workload.update("a", window=sb.Tumbling("5 us"))
    found = [row for said in answers for row in said.to_pylist()]
    assert starts(found, "a") == [30, 35, 40, 45]


def test_what_was_shown_before_a_pause_is_deleted_after_it():
    workload = sb.Workload([asked(name="a", emit="changes", per="g"), asked(name="other", emit="changes", per="g")])
    parts = [(0, "a"), (3, "b"), (60, "b"), (90, "b")]
    answers = sb.stream(workload, iter([table([(1.0, t, t)], [g]) for t, g in parts]))
    kinds = ("query", "g", "_change_type")
    found = [r for r in next(answers).to_pylist() if r["query"] == "a"]
    assert [(r["i"], r["_change_type"]) for r in found] == [(0, "insert")]
    workload.update("a", active=(40, None))
    found = [r for said in answers for r in said.to_pylist() if tuple(map(r.get, kinds)) == ("a", "a", "delete")]
    assert [(r["i"], r["window_start"]) for r in found] == [(0, 40)]


@few
@given(shape, streams(most=30), st.lists(st.tuples(st.integers(0, 12), st.integers(1, 8)), max_size=6))
def test_a_smaller_k_holds_at_once_however_often_it_changed(member, rows, changes):
    workload = sb.Workload([time_query(*member), time_query(1, 3, 2)])
    found, k = [], member[0]
    for step, said in enumerate(sb.stream(workload, one_by_one(rows))):
        found += [(row["window_end"], row["rank"], k) for row in said.to_pylist() if row["query"] == "q0"]
        for when, wanted in changes:
            if when == step:
                workload.update("q0", k=wanted)
                k = wanted
    assert all(rank <= most for _, rank, most in found)


def after_each_row(rows, k, size):
    """[(step, list)] of a group, empty lists too; rows are (score, time, n), ordered by time."""
    return [
        (step, oracle.top_k(rows[:step], k, time - size + 1, time + 1)) for step, (_, time, _) in enumerate(rows, 1)
    ]


@pytest.mark.parametrize("emit", ["answers", "changes", "arrivals"])
@few
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0, 1, 1, 2, 7]), st.sampled_from("ab")), max_size=40),
    updates=st.dictionaries(st.integers(1, 12), st.integers(1, 5), min_size=1, max_size=3),
    k=st.integers(1, 5),
    size=st.integers(1, 10),
)
def test_after_every_row_a_changed_k_loses_no_answer(emit, rows, updates, k, size):
    times = np.cumsum([gap for _, gap, _ in rows]).tolist()
    data = pa.table(
        {
            "t": pa.array(times, pa.int64()),
            "x": pa.array([float(x) for x, _, _ in rows], pa.float64()),
            "i": pa.array(range(len(rows)), pa.int64()),
            "g": pa.array([g for _, _, g in rows], pa.string()),
        }
    )
    workload = sb.Workload([time_query(k, size, 0, per="g", emit=emit, name="a")])
    wanted = [(-1, -100, k)]  # (newest time when k changed, where windows with the new k begin, k)

    def batches():
        for number, low in enumerate(range(0, len(rows), 3)):
            if number in updates:
                begin = workload.update("a", k=updates[number]).exact_from
                wanted.append((times[low - 1], -100 if begin is None else begin, updates[number]))
            yield data.slice(low, 3)

    found = sb.run(workload, batches()).to_pylist() if rows else []
    for group in "ab":
        mine = [(float(x), t, n) for n, ((x, _, g), t) in enumerate(zip(rows, times, strict=True)) if g == group]
        lists = []
        for at, (_, time, _) in enumerate(mine):
            # rows of the newest moment waited when k changed; a k holds from its first window on
            held = [k for newest, begin, k in wanted if time >= newest and time - size >= begin]
            lists.append(after_each_row(mine, held[-1], size)[at])
        got = [r for r in found if r["g"] == group]
        if emit == "answers":
            want = [(r, rank) for _, best in lists for rank, r in enumerate(best, 1)]
            assert [((r["x"], r["t"], r["i"]), r["rank"]) for r in got] == want
        elif emit == "changes":
            shown = [(r["step"], r["_change_type"], (r["x"], r["t"], r["i"]), r["rank"]) for r in got]
            assert shown == oracle.changes(lists)
        else:
            assert [((r["x"], r["t"], r["i"]), r["rank"]) for r in got] == [a[1:] for a in oracle.arrivals(lists)]


def test_a_query_whose_bounds_have_passed_may_still_be_updated():
    def asked(name, k):
        return sb.TopK(k=k, by="x", window=sb.Tumbling("3 s"), time="t", unit="s", name=name)

    workload = sb.Workload([asked("a", 1)], max_k=9, finest="1 s")
    batches = [({"t": [100], "x": [1]}, 110), ({"t": [113], "x": [1]}, 120), {"t": [130], "x": [1]}]
    answers = sb.stream(workload, iter(batches))
    next(answers)
    workload.add(asked("b", 1), active=(18, 66))
    next(answers)
    assert workload.update("b", k=2).exact_from == 120
    assert {name for said in answers for name in said["query"].to_pylist()} == {"a"}


def test_late_rows_are_counted_over_families_that_come_and_go():
    def one(by):
        return sb.TopK(k=1, by=by, window=sb.Tumbling("2 s"), time="t", unit="s", name=by)

    def batches():
        yield {"t": [1, 9], "x": [1, 1], "y": [1, 1]}
        yield {"t": [3], "x": [1], "y": [1]}
        workload.add(one("y"))
        workload.remove("x")
        yield {"t": [19, 4], "x": [1, 1], "y": [1, 1]}
        yield {"t": [5, 6], "x": [1, 1], "y": [1, 1]}

    workload = sb.Workload([one("x")])
    with sb.stream(workload, batches()) as stream:
        for _ in stream:
            pass
        assert stream.stats.late_rows == 4
