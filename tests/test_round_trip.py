"""What a language can say of a query is read back as the same query; what it cannot say is refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive_score
import skyband as sb

NAMES = st.one_of(
    st.sampled_from(["x", "ts", "a b", "select", "Größe", "x`y", "order", "_w", "rn", "1a", "a.b", "window_start",
                     "yes", "null", "1:30", "~", "it's", 'a"b', "a\\b", "a--b", "a\nb", "a,b)", "${X}", "total",
                     "count", "#x"]),
    st.text(min_size=1, max_size=6),
)  # fmt: skip
NUMBERS = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: x != 0)


@st.composite
def scores(draw):
    """Expressions over columns of any name, distances and weighted sums."""
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    kind = draw(st.sampled_from(["expression", "expression", "distance", "weighted"]))
    if kind == "weighted":
        return sb.weighted({name: draw(NUMBERS) for name in names})
    if kind == "distance":
        weights = [abs(draw(NUMBERS)) for _ in names] if draw(st.booleans()) else None
        metric = draw(st.sampled_from(["euclidean", "manhattan", "chebyshev"]))
        return sb.distance(names, [draw(NUMBERS) for _ in names], metric=metric, weights=weights)
    return naive_score.text(draw(expressions(names)))


def expressions(names, depth=2):
    columns = {"numbers": names, "texts": names, "flags": names, "times": names}
    return naive_score.trees(columns, depth=depth)


@st.composite
def windows(draw):
    size = draw(st.integers(1, 10**13))
    kind = draw(st.sampled_from(["slide", "slide", "tumble", "row", "count"]))
    if kind == "count":
        size = min(size, 10**9)
        return sb.Counting(size, draw(st.integers(1, size)))
    slide = draw(st.integers(1, size)) if kind == "slide" else size
    return sb.Sliding(
        f"{size} us",
        "row" if kind == "row" else f"{slide} us",
        origin=draw(st.sampled_from(["0 s", "1 us", "7 s", "1 day"])),
        closed=draw(st.sampled_from(["left", "right"])),
    )


@st.composite
def queries(draw):
    """Any query without a join."""
    window = draw(windows())
    given = {
        "k": draw(st.integers(1, 10**6)),
        "name": draw(st.none() | NAMES),
        "ascending": draw(st.none() | st.booleans()),
        "prefix": draw(st.sampled_from(["", "", "sb_"])),
        "unit": draw(st.sampled_from([None, None, "ms"])),
        "version": draw(st.none() | NAMES),
    }
    time = None if isinstance(window, sb.Counting) else draw(NAMES)
    columns = draw(st.lists(NAMES.filter(lambda name: name != time), unique=True, max_size=4))
    if draw(st.integers(0, 3)) == 0 and columns and isinstance(window, sb.Sliding) and window.kind == "slide":
        function = draw(st.sampled_from(["sum", "avg", "mean", "min", "max", "count"]))
        inside = "*" if function == "count" else naive_score.text(draw(expressions(columns)))
        cut = draw(st.integers(0, len(columns) - 1))
        given |= {
            "by": f"{function}({inside})",
            "of": columns[cut:],
            "per": columns[:cut],
            "window": window,
            "time": time,
        }
        if draw(st.booleans()):
            given |= {"window": None, "time": None}
        return sb.TopK(**given)
    emit = draw(st.sampled_from(["answers", "answers", "changes", "arrivals"]))
    return sb.TopK(
        **given,
        by=draw(scores()),
        window=window,
        time=time,
        per=columns,
        id=draw(st.none() | NAMES),
        emit=emit,
        ranks=emit == "changes" and draw(st.booleans()),
    )


@st.composite
def simple_queries(draw):
    """Queries of the kind that SQL and RSP-QL can say."""
    time = draw(NAMES)
    names = st.sampled_from(["a", "b", "mentions", "n_1"])
    return sb.TopK(
        k=draw(st.integers(1, 10**6)),
        by=naive_score.text(draw(expressions(draw(st.lists(names, min_size=1, max_size=3, unique=True)), depth=3))),
        window=sb.Sliding("9 minutes", "3 minutes", closed=draw(st.sampled_from(["left", "right"]))),
        time=time,
        name=draw(st.none() | NAMES),
        ascending=draw(st.booleans()),
    )


def written(write, query):
    """The query as a text; or None, and why it cannot be said."""
    try:
        return write(query), ""
    except sb.QueryError as error:
        return None, str(error)


@given(st.one_of(queries(), simple_queries()))
def test_yaml_is_read_back(query):
    text, why = written(sb.to_yaml, query)
    assert text is None or sb.parse(text, language="yaml").query == query
    assert text is not None or "${" in why


@given(st.one_of(queries(), simple_queries()))
def test_sql_is_read_back(query):
    text, why = written(sb.to_sql, query)
    if text is None:
        assert any(says in why for says in ("to be written in SQL", "cannot be written in SQL"))
        return
    found = sb.parse(text, language="sql")
    assert found.query == query
    assert sb.parse(sb.to_sql(found), language="sql") == found


@given(st.one_of(queries(), simple_queries()))
def test_rspql_is_read_back(query):
    text, _ = written(sb.to_rspql, query)
    if text is None:
        return
    found = sb.parse(text, language="rspql", time=query.time)
    assert found.query.by.tree == query.by.tree
    fields = ("k", "window", "time", "name", "ascending", "per", "of", "emit")
    assert [getattr(found.query, field) for field in fields] == [getattr(query, field) for field in fields]
    assert sb.parse(sb.to_rspql(found), language="rspql", time=query.time) == found


def test_scores_of_points_have_a_form_in_yaml_and_in_no_other_language():
    for by in (
        sb.weighted({"a": 2, "b": -1}),
        sb.distance(["x", "y"], to=(3, math.pi), metric="manhattan", weights=[1, 1e300]),
    ):
        query = sb.TopK(k=1, by=by, window=sb.Tumbling("1 minute"), time="ts")
        assert sb.parse(sb.to_yaml(query)).query == query
        right = sb.TopK(k=1, by=by, window=sb.Tumbling("1 minute", closed="right"), time="time")
        for write, asked in ((sb.to_sql, query), (sb.to_rspql, right)):
            with pytest.raises(sb.QueryError, match="to_yaml"):
                write(asked)


@pytest.mark.parametrize(
    "by",
    [
        "{distance: {columns: [x]}}", "{distance: {columns: [x], to: 3}}", "{distance: {columns: [x], to: [a]}}",
        "{distance: {columns: [x, y], to: [3]}}", "{distance: {columns: [x], to: [3], metric: far}}", "{weighted: {}}",
        "{weighted: [a]}", "{weighted: {a: 0}}", "{weighted: {a: x}}", "{near: {a: 1}}", "{}",
        "{weighted: {a: 1}, distance: {columns: [x], to: [1]}}", "{distance: {columns: [x], to: [1], weights: [-1]}}",
    ],
)  # fmt: skip
def test_a_score_of_points_that_makes_no_sense_is_refused_at_its_place(by):
    with pytest.raises(sb.ParseError) as caught:
        sb.parse(f"k: 1\nby: {by}\nwindow: {{rows: 3}}")
    assert caught.value.line == 2
