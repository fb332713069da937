"""Names of columns and of metrics that Spark takes for something else."""

import pyarrow as pa
import pytest
from streams import answers, collected, counted, write_batches
from test_top_k import asked, closed, cut, plain, trades

import skyband as sb
from skyband.tables import Memory

pytestmark = pytest.mark.spark
WINDOW = sb.Sliding("2 minutes", "30 seconds")
DOTTED = {"ts": "event.time", "id": "row.id", "price": "price.in.euro", "symbol": "a`b.c"}


def dotted(batches):
    return [batch.rename_columns([DOTTED[name] for name in batch.column_names]) for batch in batches]


def asked_dotted(**change):
    names = {"time": "event.time", "id": "row.id", "by": "`price.in.euro` * 2"}
    return sb.TopK(**{"k": 3, "window": WINDOW, **names, **change})


def test_any_column_may_have_a_dot_in_its_name(spark, tmp_path):
    """Time, id, score, group and what is only carried along; batches, streams and leaderboards."""
    batches = dotted(cut(trades(200, seed=3), 3, seed=1))
    write_batches(tmp_path / "in", batches)
    whole, stored = pa.concat_tables(batches), spark.read.parquet(str(tmp_path / "in"))
    queries = {
        "payload": asked_dotted(id=None),
        "group": asked_dotted(per="a`b.c", emit="changes"),
        "leaderboard": asked_dotted(of="a`b.c", by="sum(`price.in.euro`)", id=None),
        "counting": asked_dotted(window=sb.Counting(30, 10), per="a`b.c"),
    }
    for name, query in queries.items():
        got = stored.transform(sb.spark.top_k(query)).toArrow()
        want = sb.run(query, whole)
        shown = [c for c in want.column_names if query.id is not None or query.of or "." not in c]  # ties go by hash
        assert got.column_names == want.column_names
        assert plain(got.select(shown)) == plain(want.select(shown)), name
    got, _ = answers(
        spark, tmp_path / "in", sb.spark.top_k(queries["group"]), watermark="0 seconds", time="`event.time`"
    )
    end = max(row["event.time"] for row in whole.to_pylist())
    want = sb.run(queries["group"], iter(batches))
    assert plain(got) == plain(want.filter(pa.array([row["window_end"] <= end for row in want.to_pylist()])))


def test_a_join_and_commands_take_names_with_dots(spark, tmp_path):
    batches = dotted(cut(trades(120, seed=3), 1, seed=1))
    write_batches(tmp_path / "in", batches)
    stored = spark.read.parquet(str(tmp_path / "in"))
    table = Memory({"symbol": ["S0", "S1", "S2"], "the.weight": [1.0, 2.0, 3.0]}, key="symbol")
    join = sb.Join(table, on="a`b.c", columns={"the.weight": "double"}, refresh=sb.Refresh(budget=5, spare=3))
    query = asked_dotted(by="`price.in.euro` + `the.weight`", join=join)
    names = ["window_end", "rank", "score", "row.id", "the.weight"]
    got = stored.transform(sb.spark.top_k(query)).toArrow().select(names)
    assert plain(got) == plain(sb.run(query, pa.concat_tables(batches)).select(names))
    stream = spark.readStream.schema(stored.schema).parquet(str(tmp_path / "in"))
    commands = spark.readStream.schema("action string, name string, `event.time` timestamp").json(str(tmp_path / "in"))
    both = sb.spark.with_commands(stream, commands.filter("action IS NOT NULL")).withWatermark(
        "`event.time`", "0 seconds"
    )
    workload = sb.Workload([asked_dotted(name="one")], max_k=5, finest="10 s")
    assert both.transform(sb.spark.top_k(workload)).columns[-3:] == ["row.id", "price.in.euro", "a`b.c"]


@pytest.mark.parametrize("name", ["RANK", "Window_End", "SCORE"])
def test_a_name_that_differs_in_case_only_is_refused_at_once(spark, name):
    rows = spark.range(3).selectExpr("timestamp_seconds(id) AS ts", "id", f"id AS {name}")
    query = sb.TopK(k=1, by="id", window=sb.Tumbling("1 minute"), time="ts", id="id")
    with pytest.raises(sb.SchemaError, match=rf"'{name.lower()}' and '{name}'.*prefix="):
        rows.transform(sb.spark.top_k(query))
    mine = sb.TopK(k=1, by="id", window=sb.Tumbling("1 minute"), time="ts", id="id", prefix="sb_")
    assert rows.transform(sb.spark.top_k(mine)).collect()[0][name] == 2
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert rows.transform(sb.spark.top_k(query)).collect()[0][name] == 2
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_two_in_one_stream_have_metrics_of_their_own(spark, tmp_path):
    batches = cut(trades(200, seed=3), 2, seed=1)
    write_batches(tmp_path / "in", batches)
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    rows = spark.readStream.schema(schema).parquet(str(tmp_path / "in")).withWatermark("ts", "0 seconds")
    named, other = asked(window=WINDOW, name="three"), asked(window=WINDOW, k=1)
    both = rows.transform(sb.spark.top_k(named)).unionByName(rows.transform(sb.spark.top_k(other, metric="one")))
    progress = []
    got = collected(both, tmp_path / "checkpoint", progress=progress)
    want = [closed(sb.run(query, pa.concat_tables(batches)), batches, 0, query) for query in (named, other)]
    assert plain(got) == plain(pa.concat_tables(want))
    assert counted(progress, "skyband three")["rows"] == counted(progress, "one")["rows"] == 200
    with pytest.raises(sb.QueryError, match="metric must be a non-empty string, got ''"):
        sb.spark.top_k(named, metric="")
