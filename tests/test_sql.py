"""SQL as Flink has it: read, answered, written, or refused with the place and what to write."""

import contextlib
import datetime as dt
import math
import random
import re

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.lang import load
from skyband.tables import Memory

FLINK = """\
SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (
    PARTITION BY window_start, window_end, symbol
    ORDER BY price*volume DESC) AS rn
  FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTES))
) WHERE rn <= 10"""
HOP = sb.Sliding("10 minutes", "1 minute")
ELSEWHERE = sb.Join(Memory({"u": ["a"], "f": [1.0]}, "u"), on="u", columns=["f"])
QUERY = sb.TopK(k=10, by="price*volume", window=HOP, time="ts", per="symbol")


def asked(text):
    return sb.parse(text).query


def test_the_form_that_flink_users_know():
    assert asked(FLINK) == QUERY
    assert sb.parse(FLINK).source == "trades"
    assert sb.parse(FLINK).columns is None
    assert asked(" ".join(FLINK.split())) == QUERY
    assert asked("-- the largest\n" + FLINK.lower().replace("'1' minute", "'60' second") + ";") == QUERY


def test_qualify():
    window = "FROM TABLE(TUMBLE(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' HOUR)) WHERE price > 0"
    over = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price ASC)"
    query = sb.TopK(
        k=3, by="CASE WHEN price > 0 THEN price END", window=sb.Tumbling("1 hour"), time="ts", ascending=True
    )
    assert asked(f"SELECT * {window} QUALIFY {over} <= 3") == query
    assert asked(f"SELECT *, {over} AS rn {window} QUALIFY rn < 4") == query
    assert sb.parse(f"SELECT price, {over} AS rn {window} QUALIFY rn < 4").columns == (
        ("price", "price"),
        ("rank", "rn"),
    )


def test_with_and_the_names_of_arguments():
    text = """WITH big AS (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY abs(x) DESC, `t s` DESC, no DESC) rn
      FROM HOP(DATA => TABLE a.trades, TIMECOL => DESCRIPTOR(`t s`), SIZE => INTERVAL 1 HOUR,
               SLIDE => INTERVAL '0.5' SECOND, OFFSET => INTERVAL '0.1' SECOND))
    SELECT rn AS place, symbol FROM big WHERE 1 = rn"""
    with pytest.raises(sb.ParseError, match="line 5, column 47: this must be a limit on the rank: write rn <= 10"):
        sb.parse(text)
    found = sb.parse(text.replace("1 = rn", "rn = 1"))
    window = sb.Sliding("1 hour", "500 ms", origin="100 ms")
    assert found.query == sb.TopK(k=1, by="abs(x)", window=window, time="t s", id="no", name="big")
    assert found.source == "a.trades"
    assert found.columns == (("rank", "place"), ("symbol", "symbol"))


def test_columns_may_be_called_first_and_last():
    for name in ("last", "first", "nulls"):
        for order in (f"{name} DESC", f"{name} DESC NULLS LAST", f"-{name} DESC, ts DESC"):
            assert asked(FLINK.replace("price*volume DESC", order)).by.text == order.split(" DESC")[0]


def test_ways_to_say_k():
    for limit, k in [("rn < 3", 2), ("5 >= rn", 5), ("5 > rn", 4), ("rn BETWEEN 1 AND 7", 7), ("rn = 1", 1)]:
        assert asked(FLINK.replace("rn <= 10", limit)).k == k


ROWS = pa.table(
    {
        "ts": [dt.datetime(2024, 1, 1, 0, m) for m in (0, 1, 2, 3, 11, 12)],
        "symbol": ["A", "B", "A", "B", "A", "B"],
        "price": [1.0, 5.0, 3.0, 2.0, 4.0, 9.0],
        "volume": [9, 1, 2, 2, 1, 0],
    }
)


def test_a_statement_is_answered_like_its_query():
    assert sb.run(sb.parse(FLINK), ROWS) == sb.run(QUERY, ROWS)
    assert str(sb.explain(sb.parse(FLINK))) == str(sb.explain(QUERY))
    streamed = pa.concat_tables(sb.stream(sb.parse(FLINK), iter([ROWS])))
    assert streamed.num_rows == sb.run(QUERY, ROWS).num_rows


def test_select_picks_and_names_the_columns():
    text = FLINK.replace("SELECT * FROM", "SELECT symbol, rn AS place, window_end, worth FROM")
    text = text.replace("SELECT *,", "SELECT *, price*volume AS worth,")
    answers = sb.run(sb.parse(text), ROWS)
    whole = sb.run(QUERY, ROWS)
    assert answers.column_names == ["symbol", "place", "window_end", "worth"]
    assert answers["place"] == whole["rank"]
    assert answers["worth"] == whole["score"]
    with pytest.raises(sb.SchemaError, match="SELECT names column 'prize', which the answer does not have"):
        sb.run(sb.parse(FLINK.replace("SELECT * FROM", "SELECT prize FROM")), ROWS)


def test_rows_that_where_leaves_out_are_never_ranked():
    text = FLINK.replace("MINUTES))\n", "MINUTES)) WHERE symbol <> 'A' AND (volume > 0)\n")
    kept = sb.run(sb.parse(text), ROWS)
    assert set(kept["symbol"].to_pylist()) == {"B"}
    assert 9.0 not in kept["price"].to_pylist()


@st.composite
def trades(draw):
    """Rows of which no two have both score and time in common: SQL leaves such ties open."""
    rows = draw(st.lists(st.tuples(st.integers(0, 40), st.sampled_from("AB"), st.integers(0, 5)), max_size=15))
    return [(minute, symbol, price, 100 + number) for number, (minute, symbol, price) in enumerate(rows)]


@given(trades(), st.integers(1, 3))
@settings(max_examples=25)
def test_the_answers_are_those_of_a_database(rows, k):
    """DuckDB, over windows that a join makes of the rows, since it has no window table functions."""
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    start = dt.datetime(2024, 1, 1)
    source = pa.table(
        {
            "ts": pa.array([start + dt.timedelta(minutes=m) for m in columns[0]], pa.timestamp("us")),
            "symbol": pa.array(columns[1], pa.string()),
            "price": pa.array(columns[2], pa.float64()),
            "volume": pa.array(columns[3], pa.int64()),
        }
    )
    order = "ORDER BY price * (volume % 3) DESC, ts DESC, volume DESC"
    ranked = f"""SELECT symbol, window_end, rn, volume FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, symbol {order}) AS rn
      FROM {{}} WHERE price > 1) WHERE rn <= {k}"""  # noqa: S608 - k is a number
    made = """(SELECT *, time_bucket(INTERVAL 5 MINUTE, ts) - to_minutes(5 * n::INT) AS window_start,
      window_start + INTERVAL 20 MINUTE AS window_end FROM source, range(4) AS steps(n))"""
    window = "TABLE(HOP(TABLE source, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '20' MINUTE))"
    with duckdb.connect() as database:
        database.register("source", source)
        theirs = database.execute(ranked.format(made)).fetchall()
    ours = sb.run(sb.parse(ranked.format(window)), source)
    assert sorted(tuple(row.values()) for row in ours.to_pylist()) == sorted(theirs)


@pytest.mark.parametrize(
    ("old", "new", "at", "says"),
    [
        ("HOP(", "CUMULATE(", "CUMULATE(", "CUMULATE windows are not supported: use HOP or TUMBLE"),
        ("HOP(", "SESSION(", "SESSION(", "SESSION windows are not supported: use HOP or TUMBLE"),
        ("TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' MINUTES))", "trades", "FROM (",
         "this must read a window of a stream: write FROM"),
        ("TABLE trades,", "trades,", "trades, DESC", "the first argument must be the stream: write TABLE and its"),
        ("DESCRIPTOR(ts)", "ts", "ts, INTERVAL", "the second argument must name the column of the event time:"),
        ("'10' MINUTES", "'10' MONTHS", "MONTHS))", "the unit must be of a fixed length, got MONTHS: write one"),
        ("INTERVAL '10' MINUTES", "10", "10))", "write INTERVAL '10' MINUTE"),
        ("'10' MINUTES", "'10 MINUTES'", "INTERVAL '10 M", "an interval must have one number and one unit: write"),
        (", INTERVAL '10' MINUTES", "", "))\n", "HOP must have SIZE: write HOP(TABLE trades, DESCRIPTOR(ts),"),
        ("'10' MINUTES", "'10' SECONDS", "INTERVAL '10'", "slide must be at most size='10 seconds', got '1 minute'"),
        ("'10' MINUTES", "'10' MINUTES, INTERVAL '1' DAY, 5", "5))", "HOP does not take this argument"),
        ("ROW_NUMBER()", "RANK()", "RANK()", "RANK() is not supported: equal scores never share a rank,"),
        ("window_end, ", "", "ROW_NUMBER", "would be ranked together: write PARTITION BY window_start, window_end"),
        ("symbol\n", "lower(symbol)\n", "lower(", "LOWER(symbol) must be a plain column: write symbol"),
        ("ORDER BY price*volume DESC", "", "ROW_NUMBER", "write ORDER BY price DESC in OVER (...)"),
        ("price*volume", "sum(price)", "sum(", "SUM is not allowed in a score"),
        ("price*volume", "price*", "price*", "something is missing beside '*'. Line 1, Col: 6), got 'price*'"),
        ("price*volume DESC", "price*volume DESC DESC", "DESC) AS", "this is not SQL: expecting )"),
        (" DESC)", " DESC, price DESC)", "price DESC)", "ties must go by the later ts, then by one id: write ORDER"),
        (" DESC)", " DESC, ts ASC)", "ts ASC", "ties must go by the later ts, then by one id: write ORDER"),
        (" DESC)", " DESC NULLS FIRST)", "NULLS", "NULLS FIRST is not supported, a row without a score is"),
        (" AS rn", "", "ROW_NUMBER", "the rank must have a name: write ROW_NUMBER() OVER (...) AS"),
        ("SELECT *,", "SELECT price + 1 AS p,", "price + 1", "this must be a column, the rank or the score, got"),
        ("rn <= 10", "rn <= 10 AND price > 3", "rn <=", "further conditions go into the WHERE of the inner SELECT"),
        ("rn <= 10", "price <= 10", "price <=", "this must be a limit on the rank: write rn <= 10"),
        ("rn <= 10", "rn <= ten", "rn <=", "this must be a limit on the rank: write rn <= 10"),
        ("rn <= 10", "rn <= 0", "ROW_NUMBER", "k must be an integer"),
        ("WHERE rn <= 10", "", "", "there must be a limit: write WHERE rn <= 10"),
        ("rn <= 10", "rn <= 10 LIMIT 5", "LIMIT", "LIMIT is not supported here: write WHERE rn <= 10"),
        ("rn <= 10", "rn <= 10 ORDER BY rn", "ORDER BY rn", "ORDER BY is not supported here: rows are ordered by"),
        ("MINUTES))\n", "MINUTES)) GROUP BY symbol\n", "GROUP BY", "write GROUP BY window_start, window_end, product"),
        ("MINUTES))\n", "MINUTES)) JOIN users USING (id)\n", "JOIN", "JOIN is not supported here: streams are"),
        ("SELECT * FROM", "SELECT DISTINCT symbol FROM", "DISTINCT", "DISTINCT is not supported here: equal rows"),
        ("SELECT * FROM", "SELECT t.symbol FROM", "t.symbol", "t.symbol must be a plain column: write symbol"),
        ("SELECT * FROM", "DELETE FROM", "DELETE", "this must be a SELECT: write SELECT * FROM (SELECT *,"),
        ("rn <= 10", "rn <= 10; SELECT 1", "SELECT * FROM", "this must be one statement, got more: write one"),
        ("MINUTES))\n", "MINUTES)\n", "10", "this is not SQL: expecting )"),
        ("'10'", "'10", "'10 MINUTES", "this quote or comment is never closed"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_refused_at_its_place(old, new, at, says):
    assert old in FLINK
    text = FLINK.replace(old, new, 1)
    with pytest.raises(sb.ParseError) as caught:
        sb.parse(text, language="sql")
    assert says in str(caught.value)
    there = text.splitlines(keepends=True)[caught.value.line - 1][caught.value.column - 1 :]
    assert there.startswith(at), f"{caught.value} points at {there!r}"
    assert at or not there


def test_in_a_pipeline_file_the_places_are_those_of_the_file():
    head = "source: {kind: parquet, path: x, schema: 'ts timestamp, symbol string, price double, volume int'}\n"
    head += "watermark: 1 s\nsql: |\n"
    file = head + "\n".join("    " + line for line in FLINK.splitlines())
    assert load(file).queries == (QUERY,)
    with pytest.raises(sb.ParseError, match="line 8, column 18: CUMULATE windows are not supported") as caught:
        load(file.replace("HOP(", "CUMULATE("))
    assert file.splitlines()[caught.value.line - 1][caught.value.column - 1 :].startswith("TABLE(HOP"[6:])
    with pytest.raises(sb.ParseError, match=r"sql names column 'prize', which source\.schema does not have"):
        load(file.replace("price*volume", "prize"))


names = st.sampled_from(["ts", "symbol", "a b", "select", "Größe", "x`y", "order", "_w", "rn", "1a", "a.b"])
scores = st.sampled_from(
    ["price*volume", "price", "(a + b) / 2", "CASE WHEN s = 'x, y)' THEN 1 ELSE -z END", "`a b` + least(1, c)",
     "coalesce(x, 0)", "- x", "power(a, 2)", "hour(`select`)", "IF(a > 1, b, c)"]
)  # fmt: skip


@st.composite
def queries(draw):
    """Any query that SQL can say."""
    size = draw(st.integers(1, 10**13))
    slide = draw(st.one_of(st.just(size), st.integers(1, size)))
    time = draw(names)
    return sb.TopK(
        k=draw(st.integers(1, 10**6)),
        by=draw(scores),
        window=sb.Sliding(f"{size} us", f"{slide} us", origin=draw(st.sampled_from(["0 s", "1 us", "7 s", "1 day"]))),
        time=time,
        per=draw(st.lists(names.filter(lambda n: n != time), unique=True, max_size=3)),
        id=draw(st.none() | names),
        name=draw(st.none() | names),
        ascending=draw(st.booleans()),
    )


@given(queries(), names.filter(lambda n: "." not in n))
@settings(max_examples=60)
def test_a_query_survives_sql(query, table):
    text = sb.to_sql(query, table=table)
    found = sb.parse(text)
    assert found.query == query
    assert found.source == table
    assert sb.parse(sb.to_sql(found)) == found
    assert sb.parse(" ".join(text.split()), language="sql") == found


def test_a_column_may_be_called_over():
    asked = sb.parse(FLINK.replace("SELECT * FROM (", "SELECT price, OVER FROM (", 1))
    assert asked.query == sb.parse(FLINK).query


def test_what_sql_cannot_say_is_refused():
    for change, says in [
        ({"window": sb.Counting(5)}, r"window must slide in time .*sb\.to_yaml.* got Counting"),
        ({"window": sb.Sliding("1 s", "row")}, "window must slide in time .* got Sliding"),
        ({"window": sb.Tumbling("1 s", closed="right")}, "closed must be 'left' .* got 'right'"),
        ({"emit": "changes"}, "emit must be 'answers' to be written in SQL .* got 'changes'"),
        ({"join": ELSEWHERE, "by": "x * f"}, "a join or triples cannot be written in SQL: use sb.to_rspql"),
        ({"by": lambda c: c["x"]}, "by must be an expression .* got <function"),
    ]:
        query = sb.TopK(**{"k": 1, "by": "x", "window": HOP, "time": "ts", **change})
        with pytest.raises(sb.QueryError, match=says):
            sb.to_sql(query)
    commented = sb.TopK(k=1, by="price -- the best\n * 2", window=HOP, time="ts")
    assert asked(sb.to_sql(commented)).by.text == "price * 2"


@given(
    st.integers(0, len(FLINK)),
    st.integers(0, 12),
    st.sampled_from(["", "(", ")", "'", "*", ",", "SELECT", "--", "`", ";"]),
)
@settings(max_examples=60)
def test_a_damaged_text_is_a_statement_or_a_telling_error(at, gone, put):
    with contextlib.suppress(sb.ParseError):
        assert sb.parse(FLINK[:at] + put + FLINK[at + gone :], language="sql").query.k


@given(st.text(max_size=40))
def test_any_text_is_a_statement_or_a_query_error(text):
    for language in ("sql", "yaml"):
        with contextlib.suppress(sb.ParseError):
            assert sb.parse(text, language=language).query


BOARD = """SELECT window_start, window_end, product, c FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY c DESC) AS rn
  FROM (
    SELECT window_start, window_end, product, COUNT(*) AS c
    FROM TABLE(TUMBLE(TABLE sales, DESCRIPTOR(ts), INTERVAL '10' MINUTES))
    GROUP BY window_start, window_end, product
  )
) WHERE rn <= 3"""


def sales():
    rng, n = random.Random(3), 400
    return pa.table(
        {
            "ts": pa.array(sorted(rng.randrange(3_600_000_000) for _ in range(n)), pa.timestamp("us")),
            "product": [rng.choice("abcdefg") for _ in range(n)],
            "shop": [rng.choice(["x", "y", None]) for _ in range(n)],
            "price": [rng.choice([None, 1.0, 2.5, -3.0, math.nan, 7.0]) for _ in range(n)],
        }
    )


@pytest.mark.parametrize("order", ["DESC", "ASC"])
@pytest.mark.parametrize(
    "total", ["COUNT(*)", "COUNT(price)", "SUM(price)", "AVG(price)", "MIN(price)", "MAX(price)", "SUM(price * 2 - 1)"]
)
def test_group_by_is_a_leaderboard(total, order):
    rows = sales()
    text = BOARD.replace("COUNT(*)", total).replace("c DESC", f"c {order}")
    got = sb.run(sb.parse(text), rows)
    query = sb.TopK(
        k=3, by=total.lower(), of="product", window=sb.Tumbling("10 minutes"), time="ts", ascending=order == "ASC"
    )
    want = sb.run(query, rows)
    assert got.num_rows == 18
    assert got.to_pydict() == {
        **{name: want[name].to_pylist() for name in ("window_start", "window_end", "product")},
        "c": want["score"].to_pylist(),
    }
    assert sb.parse(sb.to_sql(query)).query == query


def test_group_by_keeps_other_keys_as_groups_and_conditions_below_the_total():
    rows = sales()
    grouped = BOARD.replace("end, product", "end, shop, product").replace("_end ORDER", "_end, shop ORDER")
    text = grouped.replace("COUNT(*)", "SUM(price)").replace("MINUTES))", "MINUTES)) WHERE price > 0")
    got = sb.run(sb.parse(text), rows)
    expected = [p is not None and p > 0 for p in rows["price"].to_pylist()]
    query = sb.TopK(k=3, by="sum(price)", of="product", per="shop", window=sb.Tumbling("10 minutes"), time="ts")
    want = sb.run(query, rows.filter(pa.array(expected)))
    shown = list(zip(*(got[name].to_pylist() for name in ("window_start", "shop", "product", "c")), strict=True))
    assert sorted(map(str, shown)) == sorted(
        map(str, zip(*(want[name].to_pylist() for name in ("window_start", "shop", "product", "score")), strict=True))
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("GROUP BY window_start, window_end, product", "GROUP BY product", "GROUP BY window_start, window_end, prod"),
        ("GROUP BY window_start, window_end, product", "GROUP BY window_start, window_end", "write GROUP BY"),
        ("GROUP BY window_start, window_end, product", "GROUP BY ALL", "name the columns of the keys"),
        ("GROUP BY window_start, window_end, product", "", "GROUP BY window_start, window_end, product"),
        ("end, product\n", "end, ROLLUP(product)\n", "ROLLUP (product) must be a plain column: write symbol"),
        ("end, product\n", "end, product, lower(shop)\n", "LOWER(shop) must be a plain column: write symbol"),
        ("end, product\n", "end, product HAVING COUNT(*) > 1\n", "HAVING is not supported here: filter the answer"),
        ("COUNT(*)", "COUNT(DISTINCT shop)", "COUNT(DISTINCT shop): DISTINCT is not supported: leave it"),
        ("COUNT(*)", "STDDEV(price)", "the total must be COUNT(*), COUNT(x), SUM(x), AVG(x),"),
        ("COUNT(*)", "COUNT(*) + 1", "the total must be COUNT(*), COUNT(x), SUM(x), AVG(x),"),
        ("COUNT(*)", "COUNT(*) FILTER (WHERE price > 1)", "the total must be COUNT(*), COUNT(x), SUM(x), AVG(x),"),
        ("COUNT(*) AS c", "COUNT(*) AS c, SUM(price) AS s", "leave this out"),
        ("COUNT(*) AS c", "COUNT(*) AS c, shop", "shop must be in GROUP BY: there are: window_start,"),
        ("ORDER BY c DESC", "ORDER BY c DESC, product DESC", "ORDER BY must have the total alone: equal totals are"),
        ("ORDER BY c DESC", "ORDER BY c * 2 DESC", "write ORDER BY c"),
    ],
)  # fmt: skip
def test_other_group_by_is_refused_with_what_to_write(old, new, says):
    assert old in BOARD
    with pytest.raises(sb.ParseError, match=re.escape(says)):
        sb.parse(BOARD.replace(old, new))


def test_a_quote_in_a_text_is_doubled():
    rows = {"x": [1.0, 2.0], "s": ["it's", "other"]}
    for text in ("'it''s'", "'it\\'s'"):
        query = sb.TopK(k=2, by=f"CASE WHEN s = {text} THEN x END", window=sb.Counting(2, 2))
        assert sb.run(query, rows)["score"].to_pylist() == [1.0]
