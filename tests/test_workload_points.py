"""Many queries about points in a workload: they share a grid, and answer as each would alone."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from pipelines import FamilyLine
from skyband.engines import FamilyMember, QueryFamily
from skyband.engines.registry import FEW_POINT_QUERIES as FEW
from skyband.workload.family import families
from skyband.workload.workload import queries_of

WINDOWS = {"rows": sb.Counting(60), "time": sb.Sliding("150 us", "row")}
MANY = FEW + 3


def stream(n, seed=5):
    """Points on a coarse lattice, so that many are equally far; some lack a coordinate; several rows a moment."""
    rng = np.random.default_rng(seed)
    x = rng.random(n).round(1)
    x[rng.random(n) < 0.03] = np.nan
    columns = {"t": np.sort(rng.integers(0, 2 * n, n)), "x": x, "y": rng.random(n).round(1)}
    return pa.table({**columns, "g": rng.choice(["a", "b", "c"], n)})


def asked(emit, window, make="distance", count=MANY, seed=8, **more):
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        a, b = rng.random(2).round(2).tolist()
        by = sb.distance(["x", "y"], to=(a, b)) if make == "distance" else sb.weighted({"x": a + 0.1, "y": -b - 0.1})
        found.append(sb.TopK(1 + number % 5, by, window, "t", unit="us", emit=emit, name=f"no {number}", **more))
    return found


def of(told, name):
    mine = told.filter(pa.array(np.array(told["query"].cast(pa.string())) == name))
    return mine.drop_columns(["query"]).to_pylist()


def shared(queries, engine="sweep"):
    return [family.points for family in queries_of(sb.Workload(queries)).families(engine)]


@pytest.mark.parametrize("emit", ["arrivals", "changes", "answers"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=list(WINDOWS))
@pytest.mark.parametrize(
    ("make", "more"),
    [("distance", {}), ("weighted", {"ascending": True}), ("weighted", {"per": ["g"]}), ("distance", {"per": ["g"]})],
)
def test_as_one_run_for_each(emit, window, make, more):
    queries, rows = asked(emit, window, make, **more), stream(300)
    assert shared(queries) == [True]
    told = sb.run(queries, rows)
    ends = told["window_end"].cast(pa.int64()).to_numpy()
    assert (np.diff(ends) >= 0).all()
    for query in queries:
        assert of(told, query.name) == sb.run(query, rows).to_pylist()


def engines_with(points):
    """The exact engines of the papers that share a grid in this way."""
    traits = {name: entry.traits for name, entry in sb.ENGINES.items()}
    return [name for name, own in traits.items() if own.points == points and own.exact and not own.shared]


@pytest.mark.parametrize("engine", engines_with("grid"))
def test_the_grids_of_the_papers(engine):
    queries, rows = asked("changes", sb.Counting(40), count=6), stream(200)
    assert shared(queries, engine) == [True]
    told = sb.run(queries, rows, engine=engine)
    for query in queries:
        assert of(told, query.name) == sb.run(query, rows).to_pylist()


@pytest.mark.parametrize("engine", engines_with("watched"))
@pytest.mark.parametrize("more", [{}, {"per": ["g"]}])
def test_the_filters_of_the_paper_share_a_grid_and_a_buffer(engine, more):
    queries, rows = asked("arrivals", sb.Counting(40), count=5, **more), stream(200)
    assert shared(queries, engine) == [True]
    assert "one buffer for all" in str(sb.explain(queries, engine=engine))
    told = sb.run(queries, rows, engine=engine, options={"buffer": 10, "slices": 3})
    for query in queries:
        assert of(told, query.name) == sb.run(query, rows).to_pylist()
    assert not any(shared(asked("changes", sb.Counting(40)), engine))
    (family,) = queries_of(sb.Workload(queries)).families(engine)
    line = FamilyLine(family, rows.schema, engine, options={"buffer": 10})
    parts = []
    for at in range(0, 200, 40):
        parts.append(line.push(rows.slice(at, 40)))
        line = line.restored()
    assert sorted(map(str, pa.concat_tables(parts).to_pylist())) == sorted(map(str, told.to_pylist()))


def test_options_choose_the_grid():
    queries, rows = asked("arrivals", sb.Counting(40)), stream(200)
    told = sb.run(queries, rows)
    for options in ({"grid": "uniform", "slices": 3}, {"index": False}):
        assert sb.run(queries, rows, options=options) == told
    with pytest.raises(sb.QueryError, match="no option 'slice': did you mean slices"):
        sb.run(queries, rows, options={"slice": 3})
    with pytest.raises(sb.QueryError, match="no option 'slices' for queries that share no grid"):
        sb.run(queries[:2], rows, options={"slices": 3})


def test_a_grid_beside_other_families():
    window = sb.Counting(50)
    plain = [sb.TopK(2, by, window, "t", unit="us", emit="changes", name=by) for by in ("x", "y - x")]
    far = sb.TopK(
        1, sb.distance(["x"], to=[0]), window, "t", unit="us", emit="changes", name="farthest", ascending=False
    )
    queries, rows = [plain[0], *asked("changes", window), plain[1], far], stream(200)
    assert sorted(shared(queries)) == [False, False, False, True]
    told = sb.run(queries, rows)
    for query in queries:
        assert of(told, query.name) == sb.run(query, rows).to_pylist()


def test_few_are_each_alone_and_explain_says_so():
    queries = asked("arrivals", sb.Counting(10))
    assert "they share one grid" in str(sb.explain(queries))
    assert "heavy" not in str(sb.explain(queries))
    assert "heavy: up to k rows a query" in str(sb.explain(asked("answers", sb.Counting(10))))
    few = str(sb.explain(queries[:FEW]))
    assert "grid" not in few
    assert "after every row: on an engine of its own" in few
    assert "by distance(['x', 'y'], to=" in few


def test_what_does_not_share_a_grid():
    queries = asked("arrivals", sb.Counting(10), count=2 * MANY)
    mixed = [
        *queries[:MANY],
        *(sb.TopK(1, q.by, sb.Counting(11), emit="arrivals", name=q.name) for q in queries[MANY:]),
    ]
    assert shared(mixed) == [True, True]
    assert not any(shared(asked("arrivals", sb.Counting(10, 2))))
    workload = sb.Workload(queries[1:MANY])
    workload.add(queries[0], active=(5, None))
    assert sorted(f.points for f in queries_of(workload).families()) == [False, True]


@settings(max_examples=20)
@given(
    st.sampled_from(["answers", "changes", "arrivals"]),
    st.sampled_from(list(WINDOWS)),
    st.sampled_from([{}, {"per": ["g"]}]),
    st.integers(0, 120),
)
def test_a_saved_family_goes_on_elsewhere(emit, window, more, cut):
    (family,) = families(asked(emit, WINDOWS[window], count=4, **more), few=0)
    rows = stream(120, seed=cut)
    parts, resumed, line = [], [], None
    for number, run in enumerate((parts, resumed)):
        line = FamilyLine(family, rows.schema)
        run.append(line.push(rows.slice(0, cut)))
        if number:
            saved = line.snapshot()
            told = json.loads(json.dumps([member.as_json() for member in family.members]))
            again = QueryFamily(family.query, tuple(FamilyMember.from_json(one) for one in told), points=True)
            assert again == family
            line = FamilyLine(again, rows.schema).restored(saved)
        run += [line.push(rows.slice(cut)), line.finish()]
    assert pa.concat_tables(resumed).to_pylist() == pa.concat_tables(parts).to_pylist()


class TestComeAndGo:
    """Queries that join a grid while the stream runs are exact from the next row on."""

    @pytest.mark.parametrize("window", WINDOWS.values(), ids=list(WINDOWS))
    @pytest.mark.parametrize("more", [{}, {"per": ["g"]}])
    def test_whoever_comes_is_exact_at_once(self, window, more):
        queries, rows = asked("answers", window, count=MANY + 1, **more), stream(300)
        late = queries.pop()
        workload = sb.Workload(queries)
        parts = sb.stream(workload, iter([rows.slice(at, 50) for at in range(0, 300, 50)]))
        told = [next(parts), next(parts)]
        assert workload.add(late).exact_from is None
        workload.remove("no 3")
        told += [next(parts), next(parts)]
        assert workload.update("no 4", k=7).exact_from is None
        told += [*parts]
        before, after = pa.concat_tables(told[:2]), pa.concat_tables(told[2:])
        mine, alone = of(after, late.name), sb.run(late, rows).to_pylist()
        assert not of(before, late.name)
        for group in {r["g"] for r in alone} if more else {None}:
            got, true = ([r for r in found if group in (None, r["g"])] for found in (mine, alone))
            first = got[0]["window_end"]
            assert got == [r for r in true if r["window_end"] >= first]
            early = [g for g in rows["g"].to_pylist()[:100] if group in (None, g)]
            # with time windows, rows of the newest moment wait for others of it
            later = [r["t"] for r in rows.to_pylist()[100:] if group in (None, r["g"])]
            assert first == len(early) + 1 if window.counts else first <= later[0]
        assert of(before, "no 3")
        assert not of(after, "no 3")
        whole = pa.concat_tables(told)
        wide = sb.TopK(7, queries[4].by, window, "t", unit="us", **more)
        if not more:
            assert of(whole, "no 5") == sb.run(queries[5], rows).to_pylist()
            assert of(whole, "no 4")[-20:] == sb.run(wide, rows).to_pylist()[-20:]
        else:
            assert sorted(map(str, of(whole, "no 5"))) == sorted(map(str, sb.run(queries[5], rows).to_pylist()))

    def test_arrivals_are_told_once_through_all_changes(self):
        queries, rows = asked("arrivals", sb.Counting(60)), stream(400)
        workload = sb.Workload(queries)
        parts = sb.stream(workload, iter([rows.slice(at, 40) for at in range(0, 400, 40)]))
        told = [next(parts)]
        for number in (2, 0, 9):
            workload.remove(f"no {number}")
            told.append(next(parts))
        workload.update("no 5", k=8)
        told += [*parts]
        whole = pa.concat_tables(told)
        assert of(whole, "no 7") == sb.run(queries[7], rows).to_pylist()
        mine = [(r["t"], r["x"], r["y"], r["g"]) for r in of(whole, "no 5")]
        known = {tuple(r.values()): 0 for r in rows.select(["t", "x", "y", "g"]).to_pylist()}
        assert len(set(mine)) == len(mine) or len(known) < rows.num_rows

    def test_all_may_leave_and_others_come(self):
        queries, rows = asked("changes", sb.Counting(60)), stream(300)
        workload = sb.Workload(queries)
        parts = sb.stream(workload, iter([rows.slice(at, 100) for at in range(0, 300, 100)]))
        next(parts)
        for query in queries:
            workload.remove(query.name)
        workload.add(queries[0])
        inserted = of(next(parts), "no 0")
        first = [r for r in inserted if r["window_end"] == 101]
        best = sb.run(queries[0], rows.slice(0, 101)).to_pylist()
        alive = {}
        for r in best:
            key = (r["t"], r["x"], r["y"], r["g"])
            alive[key] = alive.get(key, 0) + (1 if r["_change_type"] == "insert" else -1)
        assert sorted((r["t"], r["x"], r["y"], r["g"]) for r in first) == sorted(
            key for key, times in alive.items() for _ in range(times)
        )


def test_a_list_after_every_row_is_as_fast_as_its_parts():
    """Queries that nobody can change give what is new, not whole lists."""
    rng = np.random.default_rng(1)
    rows = {"x": rng.random(20_000)}
    queries = [sb.TopK(k, "x", sb.Counting(n), emit="arrivals", name=f"{k} of {n}") for k in (1, 5) for n in (10, 500)]
    told = sb.run(queries, rows)
    running = sb.run(sb.Workload(queries), rows)
    assert told.to_pylist() == running.to_pylist()
    for query in queries:
        assert of(told, query.name) == sb.run(query, rows).to_pylist()


def test_a_query_after_every_row_may_change_and_leave():
    query = sb.TopK(2, "x", sb.Sliding("10 s", "row"), "t", unit="s", name="a")
    workload = sb.Workload([query])
    parts = sb.stream(workload, iter([{"t": [i, i + 1], "x": [i, i + 1]} for i in range(0, 40, 2)]))
    next(parts)
    told = workload.update("a", k=3)
    assert told.exact_from == 1
    rows = [row for part in parts for row in part.to_pylist()]
    assert {row["rank"] for row in rows} == {1, 2, 3}
    assert {row["rank"] for row in rows if row["window_start"] < 1} == {1, 2}
    workload.remove("a")
