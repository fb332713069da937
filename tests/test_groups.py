"""Groups and keys of several columns: each combination of values is one, whatever the columns' types."""

import datetime as dt
import math
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import skyband as sb

NUMBERS = [(i, j) for i in range(20) for j in range(20)]
FIRST, SECOND = ([pair[at] for pair in NUMBERS] for at in (0, 1))


def as_categories(values):
    return pd.Categorical([f"v{value}" for value in values])


def as_enum(values):
    names = [f"v{value}" for value in values]
    return pl.Series(names, dtype=pl.Enum(sorted(set(names)))).to_arrow()


def as_unsigned_indices(values):
    names = pa.array([f"v{value}" for value in range(max(values) + 1)])
    return pa.DictionaryArray.from_arrays(pa.array(values, pa.uint64()), names)


ENCODINGS = pytest.mark.parametrize("encode", [as_categories, as_enum, as_unsigned_indices, pa.array])


def groups_of(query, rows):
    answers = sb.run(query, rows)
    return answers.num_rows, len(set(zip(*(answers[name].to_pylist() for name in query.per), strict=True)))


@ENCODINGS
def test_every_combination_of_two_columns_is_a_group(encode):
    rows = {"x": np.arange(400.0), "a": encode(FIRST), "b": encode(SECOND)}
    query = sb.TopK(k=400, by="x", window=sb.Counting(400, 1), per=["a", "b"])
    assert groups_of(query, rows) == (400, 400)


@ENCODINGS
def test_every_combination_of_three_columns_is_a_group_in_every_batch(encode):
    values = [(i, j, n) for i in range(9) for j in range(9) for n in range(9)]
    columns = {name: encode([value[at] for value in values]) for at, name in enumerate("abc")}
    table = pa.Table.from_pandas(pd.DataFrame(columns)) if encode is as_categories else pa.table(columns)
    table = table.append_column("x", pa.array(np.arange(729.0)))
    query = sb.TopK(k=1, by="x", window=sb.Counting(2, 2), per=["a", "b", "c"])
    assert groups_of(query, [table.slice(0, 300), table.slice(300), table]) == (729, 729)


@ENCODINGS
def test_workloads_keep_groups_of_two_columns_apart(encode):
    rows = {"x": np.arange(400.0), "a": encode(FIRST), "b": encode(SECOND)}
    queries = [sb.TopK(k=k, by="x", window=sb.Counting(400, 1), per=["a", "b"]) for k in (1, 2)]
    assert sb.run(queries, rows).num_rows == 800


@ENCODINGS
@pytest.mark.parametrize("window", [None, sb.Tumbling("1 minute")])
def test_leaderboards_keep_keys_of_two_columns_apart(encode, window):
    rows = {"t": np.zeros(400, np.int64), "a": encode(FIRST), "b": encode(SECOND)}
    more = {} if window is None else {"window": window, "time": "t", "unit": "s"}
    counts = sb.run(sb.TopK(k=500, of=["a", "b"], by="count(*)", **more), rows)
    assert (counts.num_rows, set(counts["score"].to_pylist())) == (400, {1.0})
    counts = sb.run(sb.TopK(k=500, of="a", per="b", by="count(*)", **more), rows)
    assert (counts.num_rows, set(counts["score"].to_pylist())) == (400, {1.0})


def test_columns_of_very_many_values_make_as_many_groups_as_pairs():
    rng = np.random.default_rng(7)
    a, b = rng.integers(0, 200_000, (2, 200_000))
    assert len(set(zip(a.tolist(), b.tolist(), strict=True))) == 200_000
    rows = {"x": np.ones(200_000), "a": a, "b": b}
    query = sb.TopK(k=1, by="x", window=sb.Counting(2, 2), per=["a", "b"])
    assert sb.run(query, rows).num_rows == 0, "no group has two rows"
    totals = sb.run(sb.TopK(k=1, of=["a", "b"], by="count(*)"), rows)
    assert totals["score"].to_pylist() == [1.0]


def test_equal_values_of_a_dictionary_are_one_group():
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1]), pa.array(["a", "a", "b"]))
    query = sb.TopK(k=9, by="x", window=sb.Counting(2, 2), per="g")
    assert sb.run(query, {"x": [1.0, 2.0, 3.0, 4.0], "g": twice})["x"].to_pylist() == [2.0, 1.0]


def test_times_that_python_cannot_tell_apart_are_groups_of_their_own():
    berlin = ZoneInfo("Europe/Berlin")
    twice = [dt.datetime(2024, 10, 27, 2, 30, tzinfo=berlin, fold=fold) for fold in (0, 1)]
    moments = pa.array([moment.astimezone(dt.UTC) for moment in twice], pa.timestamp("us", "Europe/Berlin"))
    query = sb.TopK(k=9, by="x", window=sb.Counting(2, 2), per="g")
    assert sb.run(query, {"x": [1.0, 2.0], "g": moments}).num_rows == 0
    close = pa.array([1, 2, 1], pa.int64()).cast(pa.timestamp("ns"))
    assert sb.run(query, {"x": [1.0, 2.0, 3.0], "g": close})["x"].to_pylist() == [3.0, 1.0]
    far = pa.array([2**62, 2**62 + 1, 2**62], pa.int64()).cast(pa.timestamp("s"))
    assert sb.run(query, {"x": [1.0, 2.0, 3.0], "g": far})["x"].to_pylist() == [3.0, 1.0]


def test_nan_and_zero_are_one_group_each():
    query = sb.TopK(k=9, by="x", window=sb.Counting(2, 2), per=["g", "h"])
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    groups = np.array([0.0, -0.0, math.nan, other_nan])
    assert sb.run(query, {"x": [1.0, 2.0, 3.0, 4.0], "g": groups, "h": [1] * 4})["x"].to_pylist() == [
        2.0,
        1.0,
        4.0,
        3.0,
    ]
