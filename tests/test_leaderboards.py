"""Keys ranked by their totals over windows, against a naive recount of every window."""

import dataclasses
import datetime as dt
import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from pipelines import Line
from skyband.operators.plan import plan
from skyband.runtime.ids import id_numbers
from skyband.windows import MIN_TIME

TOTALS = {
    "count(*)": lambda xs: float(len(xs)),
    "count(x)": lambda xs: float(sum(x is not None for x in xs)),
    "sum(x)": lambda xs: _of_some(xs, lambda ys: float(sum(map(Fraction, ys)))),
    "max(x)": lambda xs: _of_some(xs, lambda ys: float(max(ys))),
    "min(x)": lambda xs: _of_some(xs, lambda ys: float(min(ys))),
    "mean(x)": lambda xs: _of_some(xs, lambda ys: float(sum(map(Fraction, ys))) / len(ys)),
}


def _of_some(values, total):
    some = [v for v in values if v is not None]
    return total(some) if some else None


def board(by, k=2, size=6, slide=2, **more):
    window = sb.Sliding(f"{size} us", f"{slide} us", origin=f"{more.pop('origin', 0)} us")
    return sb.TopK(k=k, of="p", by=by, window=window, time="t", unit="us", **more)


def naive(rows, by, k, size, slide, *, origin=0, ascending=False, per=False):
    """Every window's list, counted again from its rows: (start, group, rank, score, key)."""
    out = []
    if not rows:
        return out
    times = [t for t, _, _, _ in rows]
    first = (min(times) - origin - size) // slide
    last = (max(times) - origin) // slide
    counted = [(t, g) for t, g, _, x in rows if x is not None or by.startswith("count")]
    place = oracle.appearances(counted, size, slide, origin)
    for w in range(first, last + 1):
        start = origin + w * slide
        groups = sorted({g for v, g in place if v == w}, key=lambda g, w=w: place[w, g]) if per else [None]
        for g in groups:
            inside = {}
            for t, group, p, x in rows:
                if start <= t < start + size and (not per or group == g):
                    inside.setdefault(p, []).append(x)
            ranked = [(TOTALS[by](xs), p) for p, xs in inside.items()]
            ranked = [(-s if ascending else s, p) for s, p in ranked if s is not None]
            for rank, (s, p) in enumerate(sorted(ranked, reverse=True)[:k], 1):
                out.append((start, g, rank, -s if ascending else s, p))
    return out


WHOLE = pa.int64()


def table(rows, kind=WHOLE):
    columns = list(zip(*rows, strict=True)) or [[], [], [], []]
    kinds = (pa.int64(), pa.string(), pa.int64(), kind)
    return pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], names=["t", "g", "p", "x"])


def told(answers, *, per=False):
    columns = ["window_start", *(["g"] if per else []), "rank", "score", "p"]
    lines = [tuple(row.values()) for row in answers.select(columns).to_pylist()]
    return lines if per else [(a, None, *rest) for a, *rest in lines]


rows = st.lists(
    st.tuples(st.integers(0, 25), st.sampled_from("ab"), st.integers(0, 6), st.none() | st.integers(-3, 5)), max_size=40
).map(lambda found: sorted(found, key=lambda r: r[0]))
shapes = st.tuples(st.integers(1, 4), st.integers(1, 9)).flatmap(
    lambda found: st.tuples(st.just(found[0]), st.just(found[1]), st.integers(1, found[1]))
)


@settings(max_examples=60)
@given(rows, shapes, st.sampled_from(sorted(TOTALS)), st.booleans(), st.booleans(), st.integers(0, 3))
def test_every_window_agrees_with_a_recount(rows, shape, by, ascending, per, origin):
    k, size, slide = shape
    query = board(by, k, size, slide, ascending=ascending, per=["g"] if per else [], origin=origin)
    answers = told(sb.run(query, table(rows)), per=per)
    assert answers == naive(rows, by, k, size, slide, origin=origin % slide, ascending=ascending, per=per)


@settings(max_examples=40)
@given(rows, shapes, st.sampled_from(sorted(TOTALS)), st.lists(st.integers(0, 40), max_size=4), st.booleans())
def test_batches_and_restarts_change_nothing(rows, shape, by, cuts, restart):
    k, size, slide = shape
    for emit in ("answers", "changes", "arrivals"):
        query = board(by, k, size, slide, per=["g"], emit=emit)
        whole = table(rows)
        expected = sb.run(query, whole)
        line = Line(query, whole.schema)
        found, bounds = [], [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
        for low, high in zip(bounds, bounds[1:], strict=False):
            found.append(line.push(whole.slice(low, high - low)))
            if restart:
                line = line.restored()
        found.append(line.finish())
        got = pa.concat_tables(found)
        if emit == "arrivals" or per_order_matters(rows, bounds):
            assert sorted(map(str, got.to_pylist())) == sorted(map(str, expected.to_pylist()))
        else:
            assert got.equals(expected)


def per_order_matters(rows, bounds):
    """Groups that fall silent are forgotten by a restart, and come back in another place."""
    return len({g for _, g, _, _ in rows}) > 1 and len(bounds) > 2


@settings(max_examples=40)
@given(rows, shapes, st.sampled_from(["sum(x)", "count(*)", "mean(x)"]), st.booleans())
def test_changes_lead_from_each_list_to_the_next(rows, shape, by, ranks):
    k, size, slide = shape
    answers = sb.run(board(by, k, size, slide), table(rows)).to_pylist()
    lists = {}
    for row in answers:
        lists.setdefault(row["window_start"], {})[row["p"]] = (row["score"], row["rank"] if ranks else None)
    changes = sb.run(board(by, k, size, slide, emit="changes", ranks=ranks), table(rows)).to_pylist()
    kept = {}
    steps = sorted({c["window_start"] for c in changes} | set(lists))
    newest = max((r[0] for r in rows), default=0)
    for start in steps:
        for change in (c for c in changes if c["window_start"] == start):
            kind, p = change["_change_type"], change["p"]
            value = (change["score"], change["rank"] if ranks else None)
            if kind in ("insert", "update_postimage"):
                assert kind == "update_postimage" or p not in kept
                kept[p] = value
            else:
                assert kept[p] == value
                if kind == "delete":
                    del kept[p]
        if start + size <= newest or start in lists:
            assert kept == lists.get(start, {})


def test_whole_numbers_and_decimals_are_exact():
    big = 2**62
    rows = table([(0, "a", 1, big), (0, "a", 1, big), (1, "a", 1, -big), (1, "a", 1, -big + 7), (1, "a", 2, 6)])
    assert told(sb.run(board("sum(x)", size=2, slide=2), rows)) == [(0, None, 1, 7.0, 1), (0, None, 2, 6.0, 2)]
    assert sb.run(board("sum(x)", 1, 1, 1), rows)["score"].to_pylist()[0] == float(2**63)
    digits = [Decimal("99999999999999999999999999999999.99"), Decimal("-99999999999999999999999999999999.98")]
    cents = [(0, "a", 1, digits[0]), (0, "a", 1, digits[1]), (0, "a", 2, Decimal("-0.03"))]
    money = table(cents, pa.decimal128(38, 2))
    assert told(sb.run(board("sum(x)", size=2, slide=2), money)) == [(0, None, 1, 0.01, 1), (0, None, 2, -0.03, 2)]
    huge = table([(0, "a", 1, digits[0]), (0, "a", 2, digits[1])], pa.decimal128(38, 2))
    assert sb.run(board("sum(x)", size=2, slide=2), huge)["score"].to_pylist() == pytest.approx(
        [1e32, -1e32], rel=3e-16
    )
    unsigned = table([(0, "a", 1, 2**64 - 1), (0, "a", 1, 1)], pa.uint64())
    assert sb.run(board("sum(x)", size=2, slide=2), unsigned)["score"].to_pylist() == [2.0**64]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 20), st.floats(min_value=-1e100, max_value=1e100)), min_size=1, max_size=25))
def test_doubles_are_summed_without_drift(found):
    """The rounding of every window's sum is within that of the exact sum; what has left the window leaves no trace."""
    rows = sorted((t, "a", 0, x) for t, x in found)
    answers = told(sb.run(board("sum(x)", 1, 7, 2), table(rows, pa.float64())))
    for start, _, _, score, _ in answers:
        inside = [x for t, _, _, x in rows if start <= t < start + 7]
        assert math.isclose(score, math.fsum(inside), rel_tol=1e-15, abs_tol=1e-30 * sum(map(abs, inside)))


def test_infinities_and_missing_values():
    rows = table([(0, "a", 1, math.inf), (0, "a", 1, -math.inf), (0, "a", 2, math.inf), (1, "a", 2, 1.0)], pa.float64())
    assert told(sb.run(board("sum(x)", size=2, slide=2), rows)) == [(0, None, 1, math.inf, 2)]
    nothing = table([(0, "a", 1, None), (0, "a", 2, None)])
    answers, counts = sb.run(board("sum(x)", size=2, slide=2), nothing, stats=True)
    assert (answers.num_rows, counts.without_score) == (0, 2)
    assert told(sb.run(board("count(x)", size=2, slide=2), nothing)) == [(0, None, 1, 0.0, 2), (0, None, 2, 0.0, 1)]


def test_a_key_may_be_missing_or_several_columns():
    rows = {"t": [0, 0, 1], "p": [None, "x", None], "q": [1, 1, 1]}
    both = sb.TopK(k=3, of=["p", "q"], by="count(*)", window=sb.Tumbling("2 us"), time="t", unit="us")
    assert [(r["score"], r["p"], r["q"]) for r in sb.run(both, rows).to_pylist()] == [(2.0, None, 1), (1.0, "x", 1)]


def test_ties_go_to_the_larger_key():
    names = ["pear", "fig", "plum"]
    rows = {"t": [0, 0, 0], "p": names}
    answers = sb.run(board("count(*)", 3, 2, 2), rows)["p"].to_pylist()
    number = dict(zip(names, id_numbers(pa.chunked_array([names]), "p").tolist(), strict=True))
    assert answers == sorted(names, key=number.get, reverse=True)


def test_late_rows_are_dropped_and_counted():
    query = board("sum(x)", 1, 2, 2)
    batches = [table([(5, "a", 1, 1)]), table([(1, "a", 1, 9), (4, "a", 1, 2)]), table([(9, "a", 1, 1)])]
    answers, counts = sb.run(query, iter(batches), stats=True)
    assert told(answers) == [(4, None, 1, 3.0, 1), (8, None, 1, 1.0, 1)]
    assert counts.late_rows == 1


def test_partial_totals_made_elsewhere_give_the_same_answers():
    """As on Spark: each partition folds its own rows; the totals meet in any order."""
    rng = np.random.default_rng(5)
    whole = table(sorted((int(t), "ab"[g], int(p), int(x)) for t, g, p, x in rng.integers(0, [90, 2, 30, 9], (800, 4))))
    query = board("sum(x)", 4, 20, 6, per=["g"])
    line, spec = Line(query, whole.schema), plan(query)
    for part in (3, 0, 2, 1):
        combiner = spec.combiner(1)
        combiner.add(whole.take(pa.array(np.arange(part, whole.num_rows, 4))))
        assert sum(t.num_rows for t in line.pipeline.accept({"rows": list(combiner.drain(0))}, MIN_TIME)) == 0
    order = [("window_start", "ascending"), ("g", "ascending"), ("rank", "ascending")]
    assert line.finish().sort_by(order).equals(sb.run(query, whole).sort_by(order))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"by": "x"}, "by must be an aggregate, got 'x'"),
        ({"by": "sum(x) + 1"}, "by must be an aggregate, got 'sum(x) + 1'"),
        ({"by": "sum(distinct x)"}, "got 'sum(distinct x)': write it without DISTINCT"),
        ({"by": "sum(reflect('a'))"}, "REFLECT is not allowed"),
        ({"by": "sum()"}, "by must be an aggregate, got 'sum()'"),
        ({"by": "count(x) filter (where x)"}, "by must be an aggregate, got 'count(x) filter"),
        ({"by": "count(x) IS NULL OR (x)"}, "by must be an aggregate, got 'count(x) IS"),
        ({"window": sb.Counting(10)}, "window must be in time and have a slide with of=, got Counting"),
        ({"window": sb.Sliding("1 s", "row")}, "window must be in time and have a slide with of=, got Sliding"),
        ({"of": ["p", "p"]}, "of must name each column once, got ['p', 'p']"),
        ({"per": ["p"]}, "of must name other columns than per, got ['p']"),
        ({"id": "x"}, "id must be left out with of="),
        ({"of": 5}, "of must be the name of a column or a list of names, got 5"),
        ({"of": None}, "by must be a score of rows unless of= names the keys to rank, got 'sum(x)'"),
        ({"per": 5}, "per must be the name of a column or a list of names, got 5"),
        ({"prefix": 5}, "prefix must be a text, got 5"),
        ({"ascending": "no"}, "ascending must be True or False, got 'no'"),
    ],
)
def test_bad_leaderboards_say_what_to_write(change, words):
    good = {"k": 1, "of": "p", "by": "sum(x)", "window": sb.Tumbling("1 s"), "time": "t"}
    with pytest.raises(sb.QueryError, match=re.escape(words)):
        sb.TopK(**{**good, **change})


def test_bad_sources_and_engines_say_what_to_write():
    with pytest.raises(sb.SchemaError, match="of names column 'p'"):
        sb.run(board("count(*)"), {"t": [1], "q": [1]})
    with pytest.raises(sb.SchemaError, match="'rank', which is also the name of one of ours"):
        sb.run(
            sb.TopK(k=1, of="rank", by="count(*)", window=sb.Tumbling("1 s"), time="t", unit="s"),
            {"t": [1], "rank": [1]},
        )
    with pytest.raises(sb.QueryError, match=r"engine must be .*of=.*got 'sweep'"):
        sb.run(board("count(*)"), {"t": [1], "p": [1]}, engine="sweep")
    with pytest.raises(sb.QueryError, match=r"of=\('p',\) ranks keys, which a workload cannot share"):
        sb.run([board("count(*)"), board("sum(x)")], {"t": [1], "p": [1], "x": [1]})
    assert "ties by p" in str(sb.explain(board("count(*)")))


def test_the_peak_counts_totals_before_their_windows_close():
    query = sb.TopK(k=2, of="p", by="count(*)", window=sb.Sliding("4 s", "2 s"), time="t", unit="s")
    _, stats = sb.run(query, {"t": [1, 2, 3, 7, 20], "p": [1, 2, 3, 1, 1]}, stats=True)
    assert stats.peak_candidates >= 3


def ranked(rows, by, k, *, ascending=False):
    """The list of all time: (rank, score, key)."""
    inside = {}
    for _, _, p, x in rows:
        inside.setdefault(p, []).append(x)
    scored = [(TOTALS[by](xs), p) for p, xs in inside.items()]
    best = sorted(((-s if ascending else s, p) for s, p in scored if s is not None), reverse=True)[:k]
    return [(r, -s if ascending else s, p) for r, (s, p) in enumerate(best, 1)]


def ever(by, k=2, **more):
    return sb.TopK(k=k, of="p", by=by, **more)


@settings(max_examples=60)
@given(
    rows, st.integers(1, 4), st.sampled_from(sorted(TOTALS)), st.booleans(), st.lists(st.integers(0, 40), max_size=4)
)
def test_totals_of_all_time_agree_with_a_recount_after_every_batch(rows, k, by, ascending, cuts):
    """A list goes out when it has changed; of a finite source once, at its end."""
    whole = table(rows)
    query = ever(by, k, ascending=ascending)
    final = sb.run(query, whole)
    assert [(r["rank"], r["score"], r["p"]) for r in final.to_pylist()] == ranked(rows, by, k, ascending=ascending)
    bounds = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    line = Line(query, whole.schema, live=True)
    before = []
    for low, high in zip(bounds, bounds[1:], strict=False):
        found = line.push(whole.slice(low, high - low)).to_pylist()
        now = ranked(rows[:high], by, k, ascending=ascending)
        assert [(r["rank"], r["score"], r["p"]) for r in found] == ([] if now == before else now)
        before = now
        line = line.restored()
    assert line.finish().num_rows == 0
    assert line.pipeline.candidates() == len({p for _, _, p, x in rows if x is not None or by.startswith("count")})


@settings(max_examples=40)
@given(rows, st.sampled_from(["sum(x)", "count(*)", "mean(x)"]), st.integers(1, 3), st.booleans())
def test_changes_and_arrivals_of_all_time(rows, by, batches, ranks):
    whole = table(rows)
    size = -(-max(len(rows), 1) // batches)
    parts = [whole.slice(at, size) for at in range(0, max(len(rows), 1), size)]
    kept, heard = {}, []
    for row in sb.run(ever(by, emit="changes", ranks=ranks, per=["g"]), iter(parts)).to_pylist():
        cell, line = (row["g"], row["p"]), row["score"]
        if row["_change_type"] in ("insert", "update_postimage"):
            assert cell not in kept
            kept[cell] = line
        else:
            assert kept.pop(cell) == line
    for g in "ab":
        mine = [r for r in rows if r[1] == g]
        assert {p: s for (h, p), s in kept.items() if h == g} == {p: s for _, s, p in ranked(mine, by, 2)}
    heard = [r["p"] for r in sb.run(ever(by, emit="arrivals"), iter(parts)).to_pylist()]
    assert len(set(heard)) == len(heard)
    assert {p for _, _, p in ranked(rows, by, 2)} <= set(heard)


def test_the_sales_of_all_time_and_ups_and_downs(real_data):
    """Cases 1 and 2 of the paper: a year of sales with returns against DuckDB; random ups and downs, in batches."""
    import duckdb

    path = real_data / "online_retail.parquet"
    answers = sb.run(sb.TopK(k=20, of="stock_code", by="sum(quantity)"), path, progress=False)
    with duckdb.connect(config={"threads": 1}) as db:
        asked = (
            "select sum(quantity)::double s, stock_code from read_parquet($path) group by all order by s desc limit 20"
        )
        best = db.sql(asked, params={"path": str(path)}).fetchall()
    assert list(zip(answers["score"].to_pylist(), answers["stock_code"].to_pylist(), strict=True)) == best
    rng = np.random.default_rng(2)
    batches = [{"p": rng.integers(0, 500, 2000), "x": rng.integers(-9, 10, 2000)} for _ in range(30)]
    stream = sb.stream(ever("sum(x)", 10), iter(batches))
    totals = np.zeros(500, np.int64)
    for batch, found in zip(batches, stream, strict=True):
        np.add.at(totals, batch["p"], batch["x"])
        order = np.lexsort((-np.arange(500), -totals))[:10]
        assert found["p"].to_pylist() == order.tolist()
        assert found["score"].to_pylist() == totals[order].tolist()


def test_totals_of_all_time_in_words():
    query = ever("sum(x)")
    assert "totals of all time" in str(sb.explain(query))
    assert sb.parse(sb.to_yaml(query)).query == query
    with pytest.raises(sb.QueryError, match="window must be a window, got None"):
        sb.TopK(k=1, by="x")
    with pytest.raises(sb.QueryError, match="time must be left out without a window, got 't'"):
        ever("sum(x)", time="t")


HOURS = """
create table windows as
with r as (select date_trunc('hour', ts) as h, {per} stock_code as k, sum(quantity) as s, count(*) as n,
           max(quantity) as high, min(quantity) as low from '{path}' group by all),
w as (select unnest(generate_series(h - interval 23 hour, h, interval 1 hour)) as w, * from r),
a as (select w, {per} k, sum(s)::double as "sum(quantity)", sum(n)::double as "count(*)",
      max(high)::double as "max(quantity)", min(low)::double as "min(quantity)",
      sum(s) / sum(n) as "mean(quantity)" from w group by all)
select a.*, tie from a join keys on a.k is not distinct from keys.k
"""
BEST = """
with b as (select w, {per} max({{'v': "{total}", 'tie': tie, 'k': k}}, 10) as best from windows group by all)
select w, {per} generate_subscripts(best, 1) as r, unnest(best, recursive := true) from b order by all
"""


@pytest.mark.parametrize("per", ["", "country"])
def test_every_window_of_the_shop_agrees_with_duckdb(real_data, per):
    """One day, every hour, over a year of sales with returns: every window, every rank, every tie."""
    import duckdb

    path = real_data / "online_retail.parquet"
    first = f"{per}," if per else ""
    with duckdb.connect(config={"threads": 1}) as db:
        keys = db.sql("select distinct stock_code as k from read_parquet($path)", params={"path": str(path)})
        keys = keys.to_arrow_table()
        db.register("keys", keys.append_column("tie", pa.array(id_numbers(keys["k"], "k"))))
        db.execute(HOURS.format(path=path, per=first))
        for total in ["sum(quantity)", "count(*)", "max(quantity)", "min(quantity)", "mean(quantity)"][
            :: 4 if per else 1
        ]:
            expected = db.sql(BEST.format(total=total, per=first)).to_arrow_table().drop_columns(["tie"])
            query = sb.TopK(
                k=10, of="stock_code", by=total, window=sb.Sliding("1 day", "1 hour"), time="ts", per=per or ()
            )
            answers = sb.run(query, path, progress=False)
            columns = ["window_start", *([per] if per else []), "rank", "score", "stock_code"]
            found = answers.select(columns).rename_columns(expected.column_names)
            found = found.sort_by([(name, "ascending") for name in expected.column_names[:-2]])
            assert found.num_rows == expected.num_rows > 70_000
            for name in expected.column_names:
                assert found[name].to_pylist() == expected[name].to_pylist(), (total, name)
            assert answers["window_start"][0].as_py() == dt.datetime(2010, 11, 30, 9)


def test_a_null_key_in_a_column_of_several_chunks_is_ranked():
    rows = pa.table({"t": [1, 2, 3, 4], "p": pa.chunked_array([["a", None], [None, "b"]]), "n": [5, 2, 5, 1]})
    query = sb.TopK(k=3, of="p", by="sum(n)", window=sb.Tumbling("10 us"), time="t", unit="us")
    answers = sb.run(query, iter([rows]))
    assert list(zip(answers["p"].to_pylist(), answers["score"].to_pylist(), strict=True)) == [
        (None, 7.0),
        ("a", 5.0),
        ("b", 1.0),
    ]


@pytest.mark.parametrize("window", [sb.Tumbling("10 s"), sb.Sliding("30 s", "10 s")], ids=str)
def test_a_key_arrives_again_only_after_a_window_without_its_rows(window):
    rng = np.random.default_rng(4)
    rows = {"t": np.sort(rng.integers(0, 400, 120)), "p": rng.integers(0, 6, 120)}
    query = sb.TopK(k=2, of="p", by="count(*)", window=window, time="t", unit="s", emit="arrivals")
    lists = {}
    for row in sb.run(dataclasses.replace(query, emit="answers"), rows).to_pylist():
        lists.setdefault((row["window_start"], row["window_end"]), []).append(row["p"])
    want, known = [], set()
    size = window.size // dt.timedelta(seconds=1)
    for end in range(10, max(end for _, end in lists) + 1, 10):
        known &= set(rows["p"][(rows["t"] >= end - size) & (rows["t"] < end)])
        ranked = lists.get((end - size, end), [])
        want += [(end, key) for key in ranked if key not in known]
        known |= set(ranked)
    assert len(want) > len(set(rows["p"])), "no key came again"
    batches = [{name: column[low : low + 7] for name, column in rows.items()} for low in range(0, 120, 7)]
    for source in (rows, iter(batches)):
        got = sb.run(query, source).select(["window_end", "p"]).to_pylist()
        assert [(row["window_end"], row["p"]) for row in got] == want


def test_keys_of_several_columns_tie_in_one_order_however_rows_come():
    """By a hash of all columns: NULL is a value like any other."""
    rows = pa.table({"a": [1, 1, 2, None, None], "b": ["x", "y", "x", "y", None]})
    query = sb.TopK(k=9, of=["a", "b"], by="count(*)")
    first = sb.run(query, rows).select(["a", "b"]).to_pylist()
    assert len(first) == 5
    assert sb.run(query, rows.take([4, 2, 0, 3, 1])).select(["a", "b"]).to_pylist() == first


@pytest.mark.parametrize("window", [None, sb.Tumbling("10 s")], ids=str)
def test_groups_of_several_columns_come_in_the_order_in_which_they_appeared(window):
    rows = {"t": [0, 1, 2, 3], "a": [1, 2, 2, 1], "b": ["x", "y", "x", "y"], "p": [5, 5, 5, 5]}
    timed = {} if window is None else {"window": window, "time": "t", "unit": "s"}
    query = sb.TopK(k=1, of="p", by="count(*)", per=["a", "b"], **timed)
    for source in (rows, [rows]):
        found = sb.run(query, source)
        assert [(row["a"], row["b"]) for row in found.to_pylist()] == [(1, "x"), (2, "y"), (2, "x"), (1, "y")]


def test_a_list_of_all_time_may_become_empty():
    """Infinities of both signs have no sum."""
    batches = [{"p": ["a"], "x": [math.inf]}, {"p": ["a"], "x": [-math.inf]}, {"p": ["b"], "x": [1.0]}]
    found = sb.run(sb.TopK(k=1, of="p", by="sum(x)", emit="changes"), batches).to_pylist()
    told = [(row["step"], row["_change_type"], row["p"]) for row in found]
    assert told == [(0, "insert", "a"), (1, "delete", "a"), (2, "insert", "b")]
