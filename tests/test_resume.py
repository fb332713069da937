"""A stream that is resumed from a snapshot goes on as if it had never stopped."""

import dataclasses
import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.runtime import result
from skyband.runtime.snapshot import dump
from skyband.tables import History, Memory

TIMED = {"time": "t", "unit": "us"}
SLIDING = sb.Sliding("7 us", "3 us")
USERS = History(
    {"g": ["a", "b", "c", "a", "b"], "at": [0, 0, 0, 9, 15], "y": [1.0, 2.0, 3.0, 9.0, 0.0]},
    key="g",
    time="at",
    unit="us",
)
JOIN = sb.Join(USERS, on="g", columns={"y": "double"}, refresh=sb.Refresh(budget=1, spare=2))

CHANGES = {"t": [0, 5, 5, 11, 19], "g": ["a", "b", "a", "c", "a"], "y": [1.0, 2.0, 3.0, 4.0, 0.0]}


def kinds():
    """Queries of every kind, by name."""
    one = {"k": 2, "by": "x", "window": SLIDING, **TIMED}
    counting = {**one, "window": sb.Counting(4, 2), "time": None, "unit": None}
    return {
        "answers": sb.TopK(**one),
        "changes per group": sb.TopK(**one, emit="changes", per="g", id="n"),
        "arrivals": sb.TopK(**one, emit="arrivals", per="g"),
        "every row": sb.TopK(**{**one, "window": sb.Sliding("5 us", "row")}, emit="changes"),
        "counting per group": sb.TopK(**counting, per="g"),
        "every counted row": sb.TopK(**{**counting, "window": sb.Counting(3)}, emit="arrivals"),
        "distance": sb.TopK(**{**one, "by": sb.distance(["x"], to=[2.0])}),
        "leaderboard": sb.TopK(**{**one, "by": "sum(x)"}, of="g"),
        "all time": sb.TopK(k=2, by="mean(x)", of="g", emit="changes"),
        "join": sb.TopK(**{**one, "by": "x + y"}, join=JOIN),
        "pushed join": sb.TopK(
            **{**one, "by": "x + y"}, join=sb.Join(on="g", columns={"y": "double"}, changes=CHANGES)
        ),
        "join of aggregates": sb.TopK(
            **{**one, "by": "total + y"}, join=dataclasses.replace(JOIN, aggregates={"total": "sum(x)"}), per="g"
        ),
        "list": [
            sb.TopK(**one, emit="changes", name="a"),
            sb.TopK(**{**one, "k": 3, "window": sb.Sliding("9 us", "2 us")}, emit="changes", name="b"),
            sb.TopK(**{**one, "by": "-x"}, emit="changes", per="g", name="c"),
        ],
        "counting list": [sb.TopK(**counting, name="a"), sb.TopK(**{**counting, "by": "-x"}, per="g", name="b")],
        "list with joins": [
            sb.TopK(**one, name="a"),
            sb.TopK(**{**one, "by": "x + y"}, join=JOIN, name="b"),
            sb.TopK(**{**one, "by": "y", "k": 1}, join=JOIN, name="c"),
        ],
    }


rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 5).map(float)),
        st.one_of(st.none(), st.integers(0, 30)),
        st.sampled_from(["a", "b", "c", None]),
    ),
    max_size=30,
)


def batches_of(rows, cuts):
    table = pa.table(
        {
            "x": pa.array([row[0] for row in rows], pa.float64()),
            "t": pa.array([row[1] for row in rows], pa.int64()),
            "g": pa.array([row[2] for row in rows], pa.string()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    return [table.slice(low, high - low) for low, high in itertools.pairwise(bounds)]


def counts(stream):
    found = stream.stats.as_dict()
    return {name: value for name, value in found.items() if name not in ("peak_candidates", "last_error")}


def whole(query, batches, **options):
    stream = sb.stream(query, iter(batches), **options)
    return [row for table in stream for row in table.to_pylist()], counts(stream)


def in_two(query, batches, cut, **options):
    """The answers of a stream that stops after `cut` batches, and of another that goes on from its snapshot."""
    saved = []

    def first():
        yield from batches[:cut]
        saved.append(stream.snapshot())

    stream = sb.stream(query, first(), **options)
    found = []
    while not saved:  # the source takes the snapshot as it ends; what comes after that is not wanted
        table = next(stream, None)
        if not saved:
            found += table.to_pylist()
    resumed = sb.stream(query, iter(batches[cut:]), resume=saved[0], **options)
    found += [row for table in resumed for row in table.to_pylist()]
    return found, counts(resumed)


@pytest.mark.parametrize("kind", kinds())
@settings(max_examples=25)
@given(rows, st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 5), st.sampled_from(["0 s", "8 us"]))
def test_a_resumed_stream_goes_on_as_if_it_had_never_stopped(kind, rows, cuts, cut, late):
    batches = batches_of(rows, cuts)
    query = kinds()[kind]
    assert repr(in_two(query, batches, min(cut, len(batches)), late=late)) == repr(whole(query, batches, late=late))


@pytest.mark.parametrize("kind", ["answers", "leaderboard", "list"])
def test_answers_not_yet_asked_for_are_part_of_the_snapshot(kind, monkeypatch):
    monkeypatch.setattr(result, "STEP_ROWS", 8)
    query, batches = kinds()[kind], batches_of([(float(n % 5), n, "abc"[n % 3]) for n in range(60)], [50])
    stream = sb.stream(query, iter(batches))
    first = next(stream).to_pylist()
    saved = stream.snapshot()
    assert 0 < stream.stats.rows < 60
    resumed = sb.stream(query, iter(batches[1:]), resume=saved)
    found = first + [row for table in resumed for row in table.to_pylist()]
    assert found == whole(query, batches)[0]
    assert first + [row for table in stream for row in table.to_pylist()] == found


def test_taking_a_snapshot_leaves_the_stream_as_it_is():
    batches = batches_of([(float(n * 7 % 11), n // 2, "abc"[n % 3]) for n in range(60)], [20, 40])
    for query in kinds().values():
        stream, found = sb.stream(query, iter(batches)), []
        for table in stream:
            found += table.to_pylist()
            if stream.stats.rows < 60:
                stream.snapshot()
        assert found == whole(query, batches)[0]


def test_a_workload_whose_queries_came_and_went_goes_on():
    query = kinds()["answers"]
    batches = batches_of([(float(n * 7 % 11), n, "abc"[n % 3]) for n in range(60)], [20, 40])

    def changed(workload):
        workload.add(dataclasses.replace(query, k=4, name="more"))
        workload.add(dataclasses.replace(query, by="-x", name="least"), active=(None, "1970-01-01T00:00:00.000050"))
        workload.remove("q0")
        workload.update("more", k=3)

    def run(*, resume):
        workload = sb.Workload([query, dataclasses.replace(query, k=1, per="g", name="groups")])
        stream, found = sb.stream(workload, iter(batches)), []
        for table in stream:
            if "more" not in workload:
                changed(workload)
            found += table.to_pylist()
            if resume and stream.stats.rows == 40:
                saved = stream.snapshot()
                again = sb.Workload([dataclasses.replace(one, name=name) for name, one in workload.items()])
                rest = sb.stream(again, iter(batches[2:]), resume=saved)
                found += next(rest).to_pylist()
                admission = again.add(dataclasses.replace(query, k=2, name="late"))
                return found + [row for table in rest for row in table.to_pylist()], admission
            if "more" in workload and stream.stats.rows == 60 and "late" not in workload:
                admission = workload.add(dataclasses.replace(query, k=2, name="late"))
        return found, admission

    assert run(resume=True) == run(resume=False)


def test_a_snapshot_before_the_first_row_starts_anew():
    query = kinds()["answers"]
    saved = sb.stream(query, iter([])).snapshot()
    batches = batches_of([(1.0, 1, "a"), (2.0, 20, "a")], [1])
    resumed = sb.stream(query, iter(batches), resume=saved)
    assert [table.to_pylist() for table in resumed] == [t.to_pylist() for t in sb.stream(query, iter(batches))]


def test_the_columns_of_a_text_are_selected_in_a_resumed_stream():
    asked = sb.parse(
        "SELECT window_end, x FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        "ORDER BY x DESC) AS r FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(t), INTERVAL '5' SECOND))) WHERE r <= 1"
    )
    rows = [{"t": [second * 1_000_000], "x": [second % 4]} for second in range(20)]
    rows = [pa.table({"t": pa.array(row["t"], pa.timestamp("us")), "x": row["x"]}) for row in rows]
    stream = sb.stream(asked, iter(rows))
    found = next(stream).to_pylist()
    resumed = sb.stream(asked, iter(rows[stream.stats.rows :]), resume=stream.snapshot())
    assert found + [row for table in resumed for row in table.to_pylist()] == sb.run(asked, iter(rows)).to_pylist()


def test_a_finite_source_in_order_is_resumed_with_the_rows_after_it():
    query = kinds()["answers"]
    table = pa.table({"x": [float(n * 7 % 11) for n in range(40)], "t": range(40)})
    stream = sb.stream(query, table)
    assert next(stream).num_rows
    saved = stream.snapshot()
    with pytest.raises(sb.SourceError, match=r"not be older .* late="):
        list(sb.stream(query, table, resume=saved))
    assert sum(answers.num_rows for answers in sb.stream(query, {"x": [1.0], "t": [99]}, resume=saved))


# ---------------------------------------------------------------- what can go wrong


def saved_of(query):
    stream = sb.stream(query, iter(batches_of([(1.0, 1, "a"), (2.0, 20, "b")], [1])))
    next(stream)
    return stream.snapshot()


CHANGED = [
    ("answers", "k", lambda query: dataclasses.replace(query, k=3), "k was '2' and is '3'"),
    ("answers", "by", lambda query: dataclasses.replace(query, by="-x"), "by was 'x' and is '-x'"),
    ("answers", "window", lambda query: dataclasses.replace(query, window=sb.Tumbling("7 us")), "window was .*7 us"),
    ("leaderboard", "of", lambda query: dataclasses.replace(query, of="n"), "of was 'g' and is 'n'"),
    ("join", "join", lambda query: dataclasses.replace(query, join=dataclasses.replace(JOIN, each="row")), "join was "),
    ("list", "queries", lambda queries: queries[:2], "queries was 'a, b, c' and is 'a, b'"),
    ("list", "a query", lambda queries: [dataclasses.replace(queries[0], k=9), *queries[1:]], "a.k was '2' and is '9'"),
    ("list", "kind", sb.Workload, "kind was 'a list of queries' and is 'a workload"),
    ("answers", "many", lambda query: [query], "queries was None and is 'q0'"),
]


@pytest.mark.parametrize(
    ("kind", "change", "message"), [(c[0], c[2], c[3]) for c in CHANGED], ids=[c[1] for c in CHANGED]
)
def test_a_snapshot_of_another_query_is_refused(kind, change, message):
    query = kinds()[kind]
    with pytest.raises(sb.SnapshotError, match=f"resume must be .*{message}.* leave resume= out"):
        sb.stream(change(query), iter([]), resume=saved_of(query))


def test_the_engine_is_that_of_the_snapshot():
    query = kinds()["answers"]
    stream = sb.stream(query, iter([{"x": [1.0], "t": [1]}, {"x": [2.0], "t": [20]}]), engine="mintopk")
    next(stream)
    saved = stream.snapshot()
    rest = [{"x": [0.5], "t": [40]}]
    assert next(sb.stream(query, iter(rest), resume=saved)).num_rows
    assert next(sb.stream(query, iter(rest), resume=saved, engine="mintopk")).num_rows
    with pytest.raises(sb.SnapshotError, match="engine was 'mintopk' and is 'sap'"):
        sb.stream(query, iter(rest), resume=saved, engine="sap")


def test_what_is_no_snapshot_of_a_stream_is_refused():
    query = kinds()["answers"]
    saved = saved_of(query)
    with pytest.raises(sb.SnapshotError, match=r"resume must be the bytes .* got str"):
        sb.stream(query, iter([]), resume="state")
    for damaged in (b"", saved[:-40], saved[:200] + bytes([saved[200] ^ 1]) + saved[201:]):
        with pytest.raises(sb.SnapshotError, match="resume must be an undamaged snapshot"):
            sb.stream(query, iter([]), resume=damaged)
    with pytest.raises(sb.SnapshotError, match="got the state of a view"):
        sb.stream(query, iter([]), resume=dump({}, {"query": {}}))


def test_a_stream_that_has_ended_has_no_snapshot():
    stream = sb.stream(kinds()["answers"], {"x": [1.0], "t": [1]})
    list(stream)
    with pytest.raises(sb.SnapshotError, match="before the source ends"):
        stream.snapshot()


def test_a_workload_that_runs_elsewhere_keeps_its_numbers():
    query = kinds()["answers"]
    workload = sb.Workload([query, dataclasses.replace(query, k=1, name="one")])
    stream = sb.stream(workload, iter(batches_of([(1.0, 1, "a"), (2.0, 20, "b")], [1])))
    next(stream)
    workload.remove("q0")
    saved = stream.snapshot()
    other = sb.Workload([dataclasses.replace(query, k=1, name="one")])
    running = sb.stream(other, iter(batches_of([(1.0, 1, "a"), (2.0, 20, "b")], [1])))
    next(running)
    with pytest.raises(sb.SnapshotError, match="workload must run in no other stream"):
        sb.stream(other, iter([]), resume=saved)


def test_a_table_of_memory_is_looked_up_again_after_a_snapshot():
    table = Memory({"g": ["a"], "y": [1.0]}, key="g")
    join = sb.Join(table, on="g", columns={"y": "double"}, refresh=sb.Refresh("all", budget=5))
    query = sb.TopK(k=1, by="x + y", window=sb.Tumbling("5 us"), join=join, **TIMED)
    stream = sb.stream(query, iter([{"t": [1], "g": ["a"], "x": [1.0]}, {"t": [6], "g": ["a"], "x": [1.0]}]))
    assert next(stream)["score"].to_pylist() == [2.0]
    saved = stream.snapshot()
    changed = dataclasses.replace(join, table=Memory({"g": ["a"], "y": [7.0]}, key="g"))
    rest = sb.stream(
        dataclasses.replace(query, join=changed), iter([{"t": [12], "g": ["a"], "x": [1.0]}]), resume=saved
    )
    assert next(rest)["score"].to_pylist() == [8.0]
    assert rest.stats.rows == 3
