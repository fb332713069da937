"""A bad query fails when it is built, with words that name the field, the value and what to write."""

import contextlib
import copy
import dataclasses
import datetime as dt
import importlib
import inspect
import math
import pickle
import subprocess
import sys
import typing

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skyband as sb
from skyband.query.expression import parse
from skyband.runtime.score import scores
from skyband.view.policy import Adaptive, CostModel, Fixed, Sqrt


def topk(**change):
    return sb.TopK(**{"k": 10, "by": "x", "window": sb.Counting(10), **change})


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: topk(k=0), "k must be an integer from 1 to 1,000,000, got 0"),
        (lambda: topk(k=-3), "k must be .* got -3"),
        (lambda: topk(k=2.5), "k must be .* got 2.5"),
        (lambda: topk(k=True), "k must be .* got True"),
        (lambda: topk(k="10"), "k must be .* got '10'"),
        (lambda: topk(by=7), "by must be an expression .* got 7"),
        (lambda: topk(by=""), "by must be one expression such as price \\* volume, got ''"),
        (lambda: topk(by="price *"), "by must be an expression .*something is missing beside '\\*'.*got 'price \\*'"),
        (lambda: topk(window="10 minutes"), "window must be a window, got '10 minutes': write sb.Sliding"),
        (lambda: topk(window=sb.Tumbling("1 s")), 'time must name the column .* got None.*time="ts"'),
        (lambda: topk(emit="all"), "emit must be one of 'answers', 'changes', 'arrivals', got 'all'"),
        (lambda: topk(unit="h"), "unit must be one of .* got 'h'"),
        (lambda: topk(ranks=True), "ranks must be False with emit='answers', got True: write emit=\"changes\""),
        (lambda: topk(per=["a", "a"]), "per must name each column once, got \\['a', 'a'\\]"),
        (lambda: topk(per=["t"], time="t"), "per must not have the time column 't', got"),
        (lambda: topk(id=3), "id must be a non-empty text, got 3"),
        (lambda: topk(name=""), "name must be a non-empty text, got ''"),
        (lambda: sb.Sliding("1 minute", "2 minutes"), "slide must be at most size='1 minute', got '2 minutes'"),
        (lambda: sb.Sliding("0 s", "1 s"), "size must be .* above zero, got '0 s'"),
        (lambda: sb.Sliding("-1 s", "1 s"), "size must be .* above zero, got '-1 s'"),
        (lambda: sb.Sliding("1 s", "0 s"), "slide must be .* above zero, got '0 s'"),
        (lambda: sb.Sliding("10 minuets", "1 s"), "size must be a duration, got '10 minuets'"),
        (lambda: sb.Sliding("1 month", "1 day"), "months and years have no fixed length"),
        (lambda: sb.Sliding("", "1 s"), "size must be a duration, got ''"),
        (lambda: sb.Sliding("0.1 us", "1 us"), "size must be a whole number of microseconds, got '0.1 us'"),
        (lambda: sb.Sliding("999999999 weeks", "1 us"), "size must be at most 3,650,000 days, got '999999999 weeks'"),
        (lambda: sb.Sliding(600, 60), "size must be a duration, got 600"),
        (lambda: sb.Sliding("1 s", "1 s", closed="both"), "closed must be one of 'left', 'right', got 'both'"),
        (lambda: sb.Sliding("1 s", "1 s", origin="2024-13-01"), "origin must be a date or time, got '2024-13-01'"),
        (lambda: sb.Counting(0), "size must be .* got 0"),
        (lambda: sb.Counting(10, 0), "slide must be .* got 0"),
        (lambda: sb.Counting(10, 11), "slide must be at most size=10, got 11"),
        (lambda: sb.Counting("10"), "size must be .* got '10'"),
        (
            lambda: sb.run(topk(), {"x": [1]}, engine="sweeep"),
            "engine='sweeep' is unknown.*did you mean sweep",
        ),
        (lambda: sb.run(topk(), {"x": [1]}, late="soon"), "late must be a duration, got 'soon'"),
        (lambda: sb.run(topk(), {"x": [1]}, late="-1 s"), "late must be .* at least 0 s, got '-1 s'"),
        (lambda: sb.run("top 10", {"x": [1]}), "query must be .* got str: write sb.TopK"),
        (
            lambda: sb.run(topk(window=sb.Sliding("1 s", "row"), time="x"), {"x": [1]}, engine="mintopk"),
            "engine='mintopk' does not serve Sliding\\('1 s', 'row'\\): write one of sweep",
        ),
    ],
)
def test_bad_queries_say_what_to_write_instead(build, words):
    with pytest.raises(sb.QueryError, match=words) as error:
        build()
    assert isinstance(error.value, ValueError)
    assert isinstance(error.value, sb.SkybandError)


@pytest.mark.parametrize(
    "text",
    [
        "reflect('java.lang.System', 'exit', 1)", "java_method('a', 'b')", "read_csv('/etc/passwd')", "(SELECT 1)",
        "x; DROP TABLE t", "x OVER ()", "count(*)", "sum(x)", "rand()", "now()", "a.b", "x[0]", "*", "x AS y", "@x",
        "cast(x AS string)", "to_json(x)", "getenv('HOME')", "x || y", "'text'", "x = 1", "nullif(x, 1)", "1e999",
        "lambda x: x", "__import__('os')", "pg_sleep(9)", "x IN (SELECT 1)", "EXISTS (SELECT 1)", "round(x, y)",
        "hour(1)", "CASE WHEN x THEN 1 ELSE 'a' END", "-" * 2000 + "x", "(" * 500 + "x" + ")" * 500,
    ],
)  # fmt: skip
def test_nothing_but_the_safe_grammar_is_let_in(text):
    with pytest.raises(sb.QueryError):
        parse(text)


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_a_query_error(text):
    with contextlib.suppress(sb.QueryError):
        assert parse(text).tree


TABLE = pa.table(
    {
        "a": pa.array([1.5, -2.0, None, 0.0, math.nan, math.inf, -math.inf], pa.float64()),
        "b": pa.array([3, 0, 1, None, 5, 7, 2], pa.int32()),
        "f": pa.array([True, False, None, True, True, False, True]),
        "s": ["x", "12.5", " 3 ", None, "1e3", "-", "4"],
        "ts": pa.array([dt.datetime(2024, 2, 29, 23, 59, 58)] * 7, pa.timestamp("us", "Asia/Tokyo")),
        "d": pa.array(["x", "y", "x", None, "x", "y", "x"]).dictionary_encode(),
    }
)
N, I = None, math.inf


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b", [4.5, -2, N, N, N, N, N]),
        ("a * b", [4.5, -0.0, N, N, N, N, N]),
        ("b / a", [2, -0.0, N, N, N, 0, -0.0]),
        ("a / 0", [N] * 7),
        ("1 / 0", [N] * 7),
        ("a % 2", [1.5, -0.0, N, 0, N, N, N]),
        ("5 % 3", [2] * 7),
        ("a - a", [0, 0, N, 0, N, N, N]),
        ("-a", [-1.5, 2, N, -0.0, N, -I, I]),
        ("abs(a)", [1.5, 2, N, 0, N, I, I]),
        ("sqrt(a)", [math.sqrt(1.5), N, N, 0, N, N, N]),
        ("ln(a)", [math.log(1.5), N, N, N, N, N, N]),
        ("exp(a * 1000)", [N, 0, N, 1, N, N, N]),
        ("1e300 * 1e300", [N] * 7),
        ("exp(a)", [math.exp(1.5), math.exp(-2), N, 1, N, N, 0]),
        ("power(a, 2)", [2.25, 4, N, 0, N, N, N]),
        ("power(a, 0.5)", [math.sqrt(1.5), N, N, 0, N, N, N]),
        ("least(a, b)", [1.5, -2, 1, 0, 5, 7, -I]),
        ("greatest(a, b, 1)", [3, 1, 1, 1, 5, I, 2]),
        ("coalesce(a, b, -1)", [1.5, -2, 1, 0, 5, I, -I]),
        ("round(a)", [2, -2, N, 0, N, N, N]),
        ("round(b / 8, 1)", [0.4, 0, 0.1, N, 0.6, 0.9, 0.3]),
        ("round(b * 10, -1)", [30, 0, 10, N, 50, 70, 20]),
        ("CAST(a AS INT)", [1, -2, N, 0, N, I, -I]),
        ("CAST(s AS DOUBLE)", [N, 12.5, 3, N, 1000, N, 4]),
        ("f + 1", [2, 1, N, 2, 2, 1, 2]),
        ("CASE WHEN a > 1 THEN b WHEN a IS NULL THEN 7 ELSE -b END", [3, -0.0, 7, N, 7, 7, -2]),
        ("CASE d WHEN 'x' THEN 1 ELSE 0 END", [1, 0, 1, 0, 1, 0, 1]),
        ("CASE WHEN d <> 'x' THEN 1 END", [N, 1, N, N, N, 1, N]),
        ("CASE WHEN d IN ('x', 'z') AND NOT f THEN 1 ELSE 2 END", [2, 2, 2, 2, 2, 2, 2]),
        ("CASE WHEN f THEN 1 ELSE 0 END", [1, 0, 0, 1, 1, 0, 1]),
        ("IF(b BETWEEN 1 AND 3, 1, 0)", [1, 0, 1, 0, 0, 0, 1]),
        ("year(ts) * 10000 + month(ts) * 100 + day(ts)", [20240229] * 7),
        ("hour(ts) * 10000 + minute(ts) * 100 + second(ts)", [235958] * 7),
        ("extract(quarter FROM ts) + week(ts)", [10] * 7),
        ("NULL", [N] * 7),
        ("3", [3] * 7),
        ("`b` + 1.5e1", [18, 15, 16, N, 20, 22, 17]),
    ],
)
def test_the_grammar_computes_as_documented(text, expected):
    got = scores(parse(text), TABLE)
    want = np.array([math.nan if e is None else e for e in expected], np.float64)
    np.testing.assert_array_equal(got, want)


def test_columns_of_the_wrong_type_say_so():
    for text, words in [
        ("s + 1", "column 's' in by must be a number, got string"),
        ("ts + 1", "'ts' in by must be a number, got timestamp.*: use a part of it, such as hour"),
        ("hour(b)", "'b' .* must be a time, got int32"),
        ("CASE WHEN b THEN 1 END", "'b' must be boolean .* got int32"),
    ]:
        with pytest.raises(sb.SchemaError, match=words):
            scores(parse(text), TABLE)


def test_a_score_can_be_a_function_of_columns():
    query = topk(by=lambda c: c["x"] * c["y"], k=1, window=sb.Counting(2, 2))
    assert sb.run(query, {"x": [2.0, 3.0], "y": [5, 1]})["score"].to_pylist() == [10.0]
    with pytest.raises(sb.SchemaError, match="a number for each of 1 rows, got shape"):
        sb.run(topk(by=lambda _: np.zeros(3)), {"x": [1.0]})
    with pytest.raises(sb.SchemaError, match=r"by=.* must return a float64 array, got"):
        sb.run(topk(by=lambda _: ["a"]), {"x": [1.0]})


def test_queries_are_values():
    one, two = (topk(per=["a"], by=" price*volume ") for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.k = 3
    assert sb.Sliding(dt.timedelta(minutes=10), "1 min") == sb.Sliding("600 s", "60000 ms")
    assert sb.Sliding("4 s", "2 s", origin="1970-01-01T00:00:03") == sb.Sliding("4 s", "2 s", origin="1 s")
    assert sb.Sliding("4 s", "2 s", origin=dt.date(1970, 1, 2)).origin == dt.timedelta(0)
    assert repr(sb.Sliding("90 minutes", "30 s", origin="1 s", closed="right")) == (
        "Sliding('90 min', '30 s', origin='1 s', closed='right')"
    )


def test_explain_names_the_engine_and_what_it_keeps():
    told = sb.explain(sb.TopK(k=10, by="x", window=sb.Sliding("1 hour", "1 minute"), time="ts", per="s"))
    assert told.engine == "sweep"
    assert "about 47 rows per s in random order (k * H(60)), at most 600" in str(told)
    assert "id= makes them agree" in str(told)
    heavy = sb.explain(sb.TopK(k=10, by="x", window=sb.Sliding("1 hour", "row"), time="ts"))
    assert "k rows for every row" in str(heavy)
    assert "every row of the window" in str(sb.explain(topk(), engine="recompute"))


def test_the_door_is_pinned():
    assert sorted(sb.__all__) == [
        "AllTime", "Budget", "Calls", "Counting", "ENGINES", "Join", "ParseError", "QueryError", "Refresh",
        "SchemaError", "SinkError", "SkybandError", "Sliding", "SnapshotError", "SourceError", "TableError",
        "TopK", "Tumbling", "View", "Workload", "compare", "distance", "evaluate", "explain", "parse", "run",
        "stream", "to_rspql", "to_sql", "to_yaml", "warm", "weighted",
    ]  # fmt: skip
    assert all(getattr(sb, name).__doc__ for name in sb.__all__)


def test_import_is_light():
    heavy = {
        "numba", "pyspark", "sqlglot", "yaml", "pandas", "polars", "duckdb", "sqlalchemy", "httpx", "redis", "fastapi",
        "uvicorn", "typer", "rich", "pyarrow.dataset", "pyarrow.parquet",
    }  # fmt: skip
    code = "import sys, skyband; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert heavy & loaded == set()
    assert len({name for name in loaded if name.startswith("skyband.")}) < 60


def test_a_broken_score_is_told_by_the_error_alone(caplog):
    with pytest.raises(sb.QueryError, match="COMMAND is not allowed"):
        sb.TopK(k=1, by="SHOW anything", window=sb.Counting(3))
    assert not caplog.records
    import sqlglot

    sqlglot.parse_one("SHOW anything else", read="spark")
    assert caplog.records, "what others ask of sqlglot is theirs"


def test_tumbling_windows_are_sliding_windows():
    tumbling, sliding = sb.Tumbling("1 hour", origin="5 minutes"), sb.Sliding("1 hour", "1 hour", origin="5 minutes")
    assert tumbling == sliding
    assert hash(tumbling) == hash(sliding)
    assert isinstance(tumbling, sb.Sliding)
    assert isinstance(tumbling, sb.Tumbling)
    assert tumbling != sb.Tumbling("1 hour")
    assert copy.deepcopy(tumbling) == sliding


def test_window_fields_are_lengths_of_time():
    window = sb.Sliding("10 minutes", "90 s", origin="100 s")
    assert (window.size, window.slide, window.origin) == tuple(dt.timedelta(seconds=n) for n in (600, 90, 10))
    assert sb.Sliding("1 hour", "row").slide == "row"
    assert (sb.Counting(10).size, sb.Counting(10).slide) == (10, 1)


@pytest.mark.parametrize(
    ("value", "change", "want"),
    [
        (sb.Sliding("1 hour", "1 minute", origin="5 s"), {"slide": "2 minutes"},
         sb.Sliding("1 hour", "2 minutes", origin="5 s")),
        (sb.Sliding("1 hour", "row"), {"size": "2 hours"}, sb.Sliding("2 hours", "row")),
        (sb.Tumbling("1 hour", closed="right"), {"size": "2 hours"}, sb.Tumbling("2 hours", closed="right")),
        (sb.Counting(10, 2), {"size": 20}, sb.Counting(20, 2)),
        (sb.Budget(7), {"save": 3}, sb.Budget(7, save=3)),
        (sb.Refresh("top", budget=7), {"budget": 8}, sb.Refresh("top", budget=8)),
        (sb.Calls(batch=7), {"retries": 0}, sb.Calls(batch=7, retries=0)),
        (sb.Join(on="u", columns={"y": "long"}, changes={}, aggregates={"n": "count(*)"}), {"on": "v"},
         sb.Join(on="v", columns={"y": "long"}, changes={}, aggregates={"n": "count(*)"})),
        (sb.Join(on="u", columns={"y": "long", "z": "date"}, changes={}), {"columns": ["z"]},
         sb.Join(on="u", columns={"z": "date"}, changes={})),
        (sb.distance(["x"], to=[3]), {"to": [4]}, sb.distance(["x"], to=[4])),
        (sb.weighted({"x": 3}), {"weights": [4]}, sb.weighted({"x": 4})),
        (topk(), {"k": 3}, topk(k=3)),
        (sb.TopK(k=1, of="p", by="count(*)"), {"k": 3}, sb.TopK(k=3, of="p", by="count(*)")),
    ],
)  # fmt: skip
def test_values_can_be_replaced(value, change, want):
    assert dataclasses.replace(value, **change) == want
    assert dataclasses.replace(value) == value


def public_values():
    """A value of every public dataclass: what users write, and what they are given."""
    by = sb.parse("{k: 1, by: x, window: 1 minute, time: t}")
    _, counts = sb.run(topk(), {"x": [1.0]}, stats=True)
    users = sb.tables.Memory({"u": [1], "y": [5.0]}, key="u")
    join = sb.Join(users, on="u", columns=["y"], aggregates={"n": "count(*)"})
    joined = sb.TopK(k=1, by="n + y", window=sb.Tumbling("1 s"), time="t", unit="s", join=join)
    found, join_counts = sb.run(joined, {"t": [0], "u": [1]}, stats=True)
    with sb.View(sb.tables.ArrayTable(np.array([5.0, 9.0])), k=1, by="value", kmax=2) as view:
        view_counts = view.stats
    return [
        sb.Sliding("1 hour", "1 minute"), sb.Tumbling("1 hour"), sb.Counting(10, 2), sb.AllTime(), sb.Budget(7),
        sb.Refresh("top"), sb.Calls(batch=7), join, join.aggregates[0], sb.distance(["x"], to=[3]),
        sb.weighted({"x": 3}), topk(), topk(by="x").by, by, sb.explain(topk()), counts, join_counts,
        sb.Workload([topk()]).add(topk(name="b")), sb.evaluate(found, found, "u", 1), view_counts,
        sb.ENGINES["sweep"], sb.ENGINES["sweep"].traits,
        Fixed(2), Sqrt(), Adaptive(), CostModel(),
    ]  # fmt: skip


def test_every_public_value_can_be_replaced():
    values = public_values()
    written = {value for name in sb.__all__ if dataclasses.is_dataclass(value := getattr(sb, name))}
    assert written <= {type(value) for value in values}
    for value in values:
        assert repr(dataclasses.replace(value)) == repr(value)
        first = next((field.name for field in dataclasses.fields(value) if field.init), None)
        if first is not None:
            assert repr(dataclasses.replace(value, **{first: getattr(value, first)})) == repr(value)


@pytest.mark.parametrize(
    ("made", "option", "kind"),
    [
        (sb.TopK, "emit", "query.topk.Emit"), (sb.TopK, "unit", "query.topk.Unit"),
        (sb.Sliding, "closed", "query.window.Closed"), (sb.Tumbling, "closed", "query.window.Closed"),
        (sb.Join, "each", "query.join.Each"), (sb.Refresh, "policy", "query.join.Policy"),
        (sb.Refresh, "unlisted", "query.join.Unlisted"), (sb.distance, "metric", "query.points.Metric"),
        (sb.View, "kmax", "view.policy.KmaxName"), (sb.parse, "language", "lang.parse.Language"),
    ],
)  # fmt: skip
def test_string_options_are_literal_types(made, option, kind):
    module, name = f"skyband.{kind}".rsplit(".", 1)
    assert name in inspect.signature(made).parameters[option].annotation.split(" | ")
    assert typing.get_origin(getattr(importlib.import_module(module), name)) is typing.Literal


def public_names(made):
    return {name for name in dir(made) if not name.startswith("_")}


def test_users_see_of_workloads_streams_and_views_what_they_need():
    mapping = {"get", "items", "keys", "values"}
    assert public_names(sb.Workload([topk()])) == {"add", "remove", "update", *mapping}
    stream = sb.stream(topk(), iter([]))
    assert public_names(stream) == {"candidates", "close", "snapshot", "stats"}
    with sb.View(sb.tables.ArrayTable(np.array([5.0, 9.0])), k=1, by="value", kmax=2) as view:
        fields = {"table", "k", "by", "columns", "ascending", "ordered", "version"}
        reading = {"read", "top", "changes", "stats", "kmax", "size", "complete", "refill_error"}
        changing = {"apply", "follow", "catch_up", "forget", "refill", "wait_for_refill", "save", "restore", "close"}
        deprecated = {"trouble", "settle", "told"}
        assert public_names(view) == fields | reading | changing | deprecated


def test_fingerprints_of_windows_stay_as_they_are_in_checkpoints():
    assert str(sb.Tumbling("1 hour")) == "Sliding('1 h', '1 h')"
    assert str(sb.Sliding("90 s", "row")) == "Sliding('90 s', 'row')"
    assert str(sb.Counting(5)) == "Counting(size=5, slide=1)"
    assert str(sb.TopK(k=1, of="p", by="count(*)").window) == "None"
