"""Queries that come and go by control rows: first without a JVM, then on a stream that is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from streams import write_batches
from test_top_k import SECOND, asked, cut, plain, trades

import skyband as sb
from skyband.operators.plan import plan_operators
from skyband.runtime.snapshot import dump, read
from skyband.spark.bucket import Bucket
from skyband.spark.commands import COMMAND
from skyband.spark.pack import packer
from skyband.spark.state import check, fingerprint
from skyband.windows import MIN_TIME

LATE, BEGIN = 30, 1_700_000_000
QUERIES = [
    asked(window=sb.Sliding("2 minutes", "30 seconds"), name="calm"),
    asked(window=sb.Tumbling("1 minute"), per=["symbol"], name="each"),
]
ORDERS = [  # in which batch, from when on, what; none is ahead of the rows, which would make these late
    (1, 120, {"action": "add", "name": "new", "k": 4, "size": "100 s", "slide": "20 s"}),
    (1, 100, {"action": "add", "name": "far", "k": 1, "size": "1 minute", "slide": "10 s", "like": "each"}),
    (2, 240, {"action": "remove", "name": "calm"}),
    (2, 10, {"action": "add", "name": "tardy", "k": 2, "size": "40 s", "slide": "40 s"}),
    (2, 150, {"action": "add", "name": "greedy", "k": 6, "size": "40 s", "slide": "40 s"}),
    (2, 150, {"action": "add", "name": "odd", "k": 2, "size": "45 s", "slide": "45 s"}),
    (2, 150, {"action": "paint", "name": "new"}),
    (3, 430, {"action": "update", "name": "new", "k": 2}),
    (3, 440, {"action": "remove", "name": "far"}),
]


def workload():
    return sb.Workload(QUERIES, max_k=5, finest="10 s")


def micros(seconds):
    return (BEGIN + seconds) * SECOND


def watermarks(batches):
    """The watermark with which each batch begins: what the batches before it have shown."""
    found, newest = [], MIN_TIME
    for number, batch in enumerate(batches):
        found.append(newest - LATE * SECOND if newest > MIN_TIME else MIN_TIME)
        times = [*batch["ts"].cast(pa.int64()).to_pylist(), *(micros(at) for n, at, _ in ORDERS if n == number)]
        newest = max([newest, *times])
    return found, newest


def expected(batches):
    """Each query alone over all rows, and of its answers those of the windows in which it took part."""
    began, newest = watermarks(batches)
    whole = pa.concat_tables(batches)

    def of(query, name, low, high=1 << 62):
        rows = sb.run(query, whole)
        start, end = (rows[c].cast(pa.int64()) for c in ("window_start", "window_end"))
        inside = pc.and_(pc.greater_equal(start, low), pc.less_equal(end, min(high, newest - LATE * SECOND)))
        rows = rows.filter(inside)
        rows = rows.add_column(0, "query", pa.array([name] * rows.num_rows, pa.string()))
        if "symbol" not in query.per:  # the group column of the whole workload
            rows = rows.drop_columns(["symbol"]).add_column(3, "symbol", pa.nulls(rows.num_rows, pa.string()))
        return rows

    new = sb.Sliding("100 s", "20 s")
    return pa.concat_tables(
        [
            of(QUERIES[0], "calm", MIN_TIME, micros(240)),
            of(QUERIES[1], "each", MIN_TIME),
            of(asked(window=new, k=4), "new", micros(120), first_start(micros(430), 20) + 100 * SECOND - 1),
            of(asked(window=new, k=2), "new", micros(430)),
            of(asked(window=sb.Sliding("1 minute", "10 s"), k=1, per=["symbol"]), "far", micros(100), micros(440)),
            of(asked(window=sb.Tumbling("40 s"), k=2), "tardy", began[2]),
        ]
    )


def first_start(at, slide):
    return -(-at // (slide * SECOND)) * slide * SECOND


def with_orders(batch, number):
    mine = [(at, order) for n, at, order in ORDERS if n == number]
    told = pa.table(
        {
            "ts": pa.array([micros(at) for at, _ in mine], pa.timestamp("us", "UTC")),
            COMMAND: pa.array([json.dumps(order) for _, order in mine], pa.string()),
        }
    )
    return pa.concat_tables([batch, told], promote_options="default")


def test_queries_come_and_go():
    batches = cut(trades(600, seed=3, disorder=20), 5, seed=1)
    _, specs = plan_operators(workload())
    keys = [[10 * at, 10 * at + 1] if spec.per else [10 * at] for at, spec in enumerate(specs)]
    states, said, notes, refused = {}, [], [], 0
    began, newest = watermarks(batches)
    for number, batch in enumerate([*batches, None]):
        rows = [] if batch is None else with_orders(batch, number).to_batches()
        packed = pa.Table.from_batches([*packer(specs, keys)(iter(rows))]).to_pylist() if rows else []
        for spec, mine in zip(specs, keys, strict=True):
            for key in mine:
                lines = [line for line in packed if line["bucket"] == key]
                columns = {name: [line[name] for line in lines] for name in ("input", "counts", "blob")}
                bucket = Bucket(spec, batches[0].schema)
                if key in states:
                    bucket.restore(read(states[key])[1])
                watermark = began[number] if batch is not None else newest - LATE * SECOND
                said.append(bucket.advance(columns, watermark))
                states.pop(key, None)
                if not bucket.is_idle():
                    states[key] = dump(bucket.snapshot(), {})
                notes.append(bucket.notice or "")
                refused += bucket.counters.get("refused", 0)
    assert plain(pa.concat_tables(said)) == plain(expected(batches))
    assert refused == 3
    words = "\n".join(notes)
    assert "tardy: exact from" in words
    assert "greedy: refused: k must be at most max_k=5, got 6" in words
    assert "odd: refused: size must be a multiple of finest='10 s', got '45 s'" in words
    assert "new: refused: action must be" in words
    last = read(states[0])[1]["0/operator/members"]["v"].to_pylist()
    assert sorted(json.loads(text)["name"] for text in last) == ["new", "tardy"], "who has left is forgotten"


def test_what_control_rows_need():
    with pytest.raises(sb.QueryError, match="go together"):
        sb.Workload(QUERIES, max_k=3)
    with pytest.raises(sb.QueryError, match="k must be at most max_k=2, got 3"):
        sb.Workload(QUERIES, max_k=2, finest="10 s")
    held = sb.Workload(QUERIES, max_k=9, finest="10 s")
    with pytest.raises(sb.QueryError, match="slide must be a multiple of finest='10 s', got '15 s'"):
        held.add(asked(window=sb.Sliding("30 s", "15 s")))
    assert "15" not in str(list(held))


def told(orders, queries=QUERIES[:1], sole=True):
    """What the first bucket of a workload says to orders."""
    _, (spec, *_) = plan_operators(sb.Workload(queries, max_k=5, finest="10 s"))
    bucket = commanded(replace(spec, sole=sole), [{"at": micros(0), **order} for order in orders])
    return bucket.notice or "", bucket.counters.get("refused", 0), [m.name for m in members(bucket)]


def commanded(spec, orders):
    """A bucket that got commands and no rows."""
    bucket = Bucket(spec, trades(1, seed=1).schema)
    texts = pa.table({COMMAND: [json.dumps(order) for order in orders]})
    list(bucket.pipeline.accept({"commands": [texts]}, MIN_TIME))
    return bucket


def members(bucket):
    return bucket.pipeline.runners[0].operator.family.members


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ({"action": "update", "name": "calm"}, "calm: refused: k must be given"),
        ({"action": "update", "name": "calm", "k": 2.5}, "k must be an integer from 1 to 1,000,000, got 2.5"),
        ({"action": "update", "name": "calm", "k": "two"}, "k must be an integer from 1 to 1,000,000, got 'two'"),
        ({"action": "update", "name": "calm", "k": 0}, "k must be an integer from 1 to 1,000,000, got 0"),
        (
            {"action": "update", "name": "clam", "k": 2},
            "clam: refused: name must be that of a running query, got 'clam'",
        ),
        ({"action": "remove", "name": "clam"}, "refused: name must be that of a running query, got 'clam'"),
        ({"action": "add", "k": 2, "size": "10 s", "slide": "10 s"}, "refused: name must be that of a query, got None"),
        (
            {"action": "add", "name": "calm", "k": 2, "size": "10 s", "slide": "10 s"},
            "name must not be that of a running query, got 'calm'",
        ),
        ({"action": "add", "name": "b", "k": 2, "size": "10 s"}, "b: refused: slide must be given"),
        ({"action": "add", "name": "b", "k": 2, "size": "ten", "slide": "10 s"}, "b: refused: size"),
        (
            {"action": "add", "name": "b", "like": "clam"},
            "b: refused: like must name a query",
        ),
        ({"action": "remove", "name": "calm", "at": None}, "calm: refused: the time of a command must not be NULL"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused_and_the_stream_goes_on(order, why):
    notice, refused, members = told([order, {"action": "add", "name": "good", "k": 1, "size": "10 s", "slide": "10 s"}])
    assert why in notice
    assert refused == 1
    assert members == ["calm", "good"]


def test_a_query_may_be_removed_once_and_come_back():
    back = {"action": "add", "name": "calm", "k": 1, "size": "10 s", "slide": "10 s", "at": micros(60)}
    notice, refused, members = told([{"action": "remove", "name": "calm"}, back])
    assert (refused, members) == (0, ["calm", "calm"])
    assert "calm: leaves; calm: exact from" in notice


def test_of_many_families_none_refuses_what_is_another_ones():
    assert told([{"action": "remove", "name": "each"}], QUERIES, sole=False)[:2] == ("", 0)


def test_a_query_with_bounds_keeps_them_when_it_is_updated():
    held = sb.Workload(QUERIES[:1], max_k=5, finest="10 s")
    held.add(asked(window=sb.Tumbling("10 s"), name="some"), active=(micros(0), micros(300)))
    _, (spec,) = plan_operators(held)
    again = {"action": "add", "name": "some", "k": 2, "size": "10 s", "slide": "10 s", "at": micros(50)}
    bucket = commanded(spec, [{"action": "update", "name": "some", "k": 5, "at": micros(50)}, again])
    assert bucket.counters["refused"] == 1
    assert "some: refused: name must not be that of a running query, got 'some'" in bucket.notice
    highs = [m.high for m in members(bucket) if m.name == "some"]
    assert highs == [micros(50), micros(290) + 1]


def test_a_state_knows_its_part_of_a_family():
    queries = [*QUERIES[:1], asked(window=sb.Tumbling("10 s"), name="b")]

    def identity(tasks):
        spec = plan_operators(sb.Workload(queries, max_k=5, finest="10 s"), tasks=tasks)[1][0]
        return fingerprint(spec.query, 1, spec.fingerprint())

    one, two = identity(1), identity(2)
    check({"query": one}, one)
    for was, now in ((one, two), (two, one)):
        with pytest.raises(sb.SnapshotError, match="tasks was"):
            check({"query": was}, now)


@pytest.mark.spark
def test_a_stream_with_control_rows_is_killed_and_goes_on(spark, tmp_path):
    """Twice kill -9 of driver, JVM and workers; then a run to the end."""
    batches = cut(trades(600, seed=3, disorder=20), 5, seed=1)
    write_batches(tmp_path / "in", [with_command_columns(batch, number) for number, batch in enumerate(batches)])
    folders = [str(tmp_path / name) for name in ("in", "out", "checkpoint")]
    command = [sys.executable, __file__, *folders]
    paths = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, *os.environ.get("PYTHONPATH", "").split(os.pathsep)])}
    for kills in (1, 2):
        driver = subprocess.Popen(
            command, env=env, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 90
        while driver.poll() is None and time.monotonic() < deadline:
            if len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) >= 2 * kills - 1:
                break
            time.sleep(0.05)
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    done = subprocess.run(command, env=env, check=False, capture_output=True, timeout=180, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    got = spark.read.parquet(folders[1]).toArrow()
    want = expected(batches)
    assert plain(got.select(want.column_names)) == plain(want)
    assert "new: exact from" in (tmp_path / "checkpoint.told").read_text()  # the order of the batch after the kills


FIELDS = {"action": "string", "name": "string", "k": "long", "size": "string", "slide": "string", "like": "string"}


def with_command_columns(batch, number):
    """A batch and its control rows in one file, as they come off one log."""
    mine = [(at, order) for n, at, order in ORDERS if n == number]
    told = pa.table(
        {
            "ts": pa.array([micros(at) for at, _ in mine], pa.timestamp("us", "UTC")),
            **{f: pa.array([o.get(f) for _, o in mine], pa.int64() if f == "k" else pa.string()) for f in FIELDS},
        }
    )
    return pa.concat_tables([batch, told], promote_options="default")


if __name__ == "__main__":
    from driver import SETTINGS

    from skyband.spark.session import session

    source, out, checkpoint = sys.argv[1:]
    spark = session("skyband control", "local[2]", SETTINGS)
    schema = spark.read.parquet(source).schema
    df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)
    rows = df.filter("action IS NULL").drop(*FIELDS)
    both = sb.spark.with_commands(rows, df.filter("action IS NOT NULL").select("ts", *FIELDS))
    answers = both.withWatermark("ts", f"{LATE} seconds").transform(sb.spark.top_k(workload()))
    stream = answers.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    started = stream.trigger(availableNow=True).start()
    started.awaitTermination()
    seen = [report["observedMetrics"].get("skyband") for report in started.recentProgress]
    Path(f"{checkpoint}.told").write_text("\n".join(str(row["notice"]) for row in seen if row is not None))
