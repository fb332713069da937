"""Scores, ids, groups and keys at the limits of their types, with NULL and NaN, against the oracle."""

import math
from collections import defaultdict

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import oracle
import skyband as sb
from strategies import FAR, cuts, edges, shapes, time_query

times = st.one_of(st.integers(0, 30), st.sampled_from([-FAR, -FAR + 1, FAR - 1, FAR]))


@st.composite
def tables(draw):
    """A table whose score x, id i and group g have edge values of any type."""
    size = draw(st.integers(0, 25))
    columns = {}
    for name in ("x", "i", "g"):
        kind = draw(st.sampled_from([*edges] if name != "i" else [kind for kind in edges if pa.types.is_integer(kind)]))
        columns[name] = pa.array(draw(st.lists(edges[kind], min_size=size, max_size=size)), kind)
    columns["t"] = pa.array(draw(st.lists(times, min_size=size, max_size=size)), pa.int64())
    return pa.table({**columns, "n": pa.array(range(size), pa.int64())})


def is_missing(value):
    return value is None or value != value  # noqa: PLR0124 - NaN


def ranked(table, sign=1):
    """{group: rows (score, time, id, n)}, as the oracle needs them; scores are float64."""
    found = defaultdict(list)
    for row in table.to_pylist():
        score = None if is_missing(row["x"]) else sign * float(row["x"])
        group = "NaN" if row["g"] is not None and is_missing(row["g"]) else row["g"]
        found[group].append((score, row["t"], (row["i"] is not None, row["i"] or 0, row["n"])))
    return found


def of_answers(answers, slide, group=None):
    """{(group, window): [n]} of answers."""
    found = defaultdict(list)
    for row in answers.to_pylist():
        mine = None if group is None else row[group]
        mine = "NaN" if mine is not None and is_missing(mine) else mine
        found[mine, row["window_start"] // slide].append(row["n"])
    return dict(found)


def expected(rows, k, size, slide):
    return {
        (group, window): [row[2][2] for row in best]
        for group, mine in rows.items()
        for window, best in oracle.sliding(mine, k, size, slide)
    }


def batches_of(table, bounds):
    ends = [0, *(min(cut, table.num_rows) for cut in bounds), table.num_rows]
    return [table.slice(low, high - low) for low, high in zip(ends, ends[1:], strict=False)]


@given(tables(), shapes(), st.booleans())
def test_one_query_and_a_workload(table, shape, ascending):
    k, size, slide = shape
    everyone = {None: [row for rows in ranked(table, -1 if ascending else 1).values() for row in rows]}
    one = time_query(k, size, slide, id="i", ascending=ascending)
    answers, counts = sb.run(one, table, stats=True)
    assert of_answers(answers, slide) == expected(everyone, k, size, slide)
    assert counts.without_score == sum(map(is_missing, table["x"].to_pylist()))
    both = sb.run([one, time_query(k + 1, size, slide, id="i", ascending=ascending)], table)
    second = both.filter(pa.compute.equal(both["query"].cast(pa.string()), "q1"))
    assert of_answers(second, slide) == expected(everyone, k + 1, size, slide)


@given(tables(), shapes(), cuts)
def test_groups_in_batches(table, shape, bounds):
    k, size, slide = shape
    ordered = table.sort_by([("t", "ascending")])  # or rows would be late
    answers = sb.run(time_query(k, size, slide, id="i", per="g"), batches_of(ordered, bounds))
    assert of_answers(answers, slide, "g") == expected(ranked(table), k, size, slide)


@given(tables(), shapes(), st.sampled_from(["count(*)", "max(x)", "min(x)"]))
def test_leaderboards(table, shape, by):
    k, size, slide = shape
    held = {}
    for group, rows in ranked(table).items():
        for window in oracle.windows([(1.0, *row[1:]) for row in rows], size, slide):
            mine = [row[0] for row in rows if window * slide <= row[1] < window * slide + size]
            known = [score for score in mine if score is not None]
            total = len(mine) if by == "count(*)" else None if not known else (max if "max" in by else min)(known)
            if total is not None:
                held.setdefault(window, {})[group] = total
    window = sb.Sliding(f"{size} us", f"{slide} us")
    answers = sb.run(sb.TopK(k=k, by=by, of="g", window=window, time="t", unit="us"), table)
    found = defaultdict(dict)
    for row in answers.to_pylist():
        group = "NaN" if row["g"] is not None and is_missing(row["g"]) else row["g"]
        assert row["score"] == held[row["window_start"] // slide][group]
        found[row["window_start"] // slide][group] = row["score"]
    assert set(found) == set(held)
    for window, totals in found.items():
        assert sorted(totals.values(), reverse=True) == sorted(held[window].values(), reverse=True)[:k]


def test_minus_zero_ties_with_zero_and_nan_is_no_score():
    rows = {"t": [0, 0, 0, 0], "x": [0.0, -0.0, math.nan, None], "n": [0, 1, 2, 3]}
    answers, counts = sb.run(sb.TopK(k=9, by="x", window=sb.Tumbling("1 s"), time="t", unit="s"), rows, stats=True)
    assert (answers["n"].to_pylist(), counts.without_score) == ([1, 0], 2)


def test_a_score_without_columns_counts_late_rows_and_those_without_a_time():
    query = sb.TopK(k=1, by="1", window=sb.Tumbling("4 s"), time="t", unit="s")
    batches = [({"t": [10]}, 12), {"t": [3, 13]}, {"t": [None, 14, 17]}]
    answers, counts = sb.run(query, batches, stats=True)
    assert answers["t"].to_pylist() == [10, 14, 17]
    assert (counts.late_rows, counts.without_time) == (1, 1)
