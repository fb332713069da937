"""Every kind of source gives the same answers, and every type of payload survives."""

import datetime as dt
import decimal
import gzip
import json
import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.runtime import source as sources
from skyband.runtime.schema import TimeType
from skyband.runtime.source import open_source

QUERY = sb.TopK(k=2, by="price * volume", window=sb.Sliding("2 minutes", "1 minute"), time="ts")
START = dt.datetime(2024, 1, 1, 12, 0)


def trades(n=200, seed=1):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": pa.array([START + dt.timedelta(seconds=int(s)) for s in np.sort(rng.integers(0, 600, n))]),
            "price": np.round(rng.random(n) * 10, 1),
            "volume": rng.integers(1, 9, n),
            "symbol": rng.choice(["A", "B", "C"], n),
        }
    )


@pytest.fixture(scope="module")
def expected():
    return sb.run(QUERY, trades())


def test_frames_tables_and_dicts(expected):
    table = trades()
    for source in (
        table,
        table.to_batches()[0],
        table.to_pydict(),
        table.to_pandas(),
        pl.from_arrow(table),
        pl.from_arrow(table).lazy(),
        pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=17)),
        table.to_batches(max_chunksize=17),
        (b for b in table.to_batches(max_chunksize=17)),
    ):
        got = sb.run(QUERY, source)
        assert got.select(["window_end", "rank", "score"]).equals(expected.select(["window_end", "rank", "score"]))
        assert got["symbol"].to_pylist() == expected["symbol"].to_pylist()


def test_files_and_folders(tmp_path, expected):
    table = trades()
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=30)
    assert sb.run(QUERY, tmp_path / "a.parquet").equals(expected)
    assert sb.run(QUERY, str(tmp_path / "a.parquet")).equals(expected)
    many = tmp_path / "many" / "deep"
    many.mkdir(parents=True)
    (many / "_SUCCESS").touch()
    for i in range(4):
        pq.write_table(table.slice(50 * i, 50), many / f"{i}.parquet")
    assert sb.run(QUERY, tmp_path / "many").equals(expected)
    pa.csv.write_csv(table, tmp_path / "a.csv")
    with gzip.open(tmp_path / "a.csv.gz", "wb") as file:
        file.write((tmp_path / "a.csv").read_bytes())
    rows = [{**r, "ts": r["ts"].isoformat(sep=" ")} for r in table.to_pylist()]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name in ("a.csv", "a.csv.gz", "a.jsonl"):
        got = sb.run(QUERY, tmp_path / name)
        assert got["score"].equals(expected["score"]), name
        assert got["symbol"].to_pylist() == expected["symbol"].to_pylist()


def test_sources_that_cannot_be_read(tmp_path):
    with pytest.raises(sb.SourceError, match="does not exist"):
        sb.run(QUERY, tmp_path / "nothing.parquet")
    (tmp_path / "a.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(sb.SourceError, match="cannot be read"):
        sb.run(QUERY, tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("x\n1\n")
    with pytest.raises(sb.SourceError, match="files of one kind"):
        sb.run(QUERY, tmp_path)
    with pytest.raises(sb.SourceError, match="files of one kind"):
        sb.run(QUERY, _touched(tmp_path / "c.xlsx"))
    with pytest.raises(sb.SourceError, match="cannot be read: give a path"):
        sb.run(QUERY, 7)
    with pytest.raises(sb.SourceError, match="equal length"):
        sb.run(QUERY, {"a": [1, 2], "b": [1]})


def _touched(path):
    path.touch()
    return path


def test_files_out_of_order_are_ordered_first(tmp_path, monkeypatch):
    table = trades().append_column("n", pa.array(range(200)))
    shuffled = table.take(pa.array(np.random.default_rng(2).permutation(200)))
    query = sb.TopK(k=2, by="price * volume", window=QUERY.window, time="ts", id="n")
    wanted = sb.run(query, table)
    pq.write_table(shuffled, tmp_path / "a.parquet", row_group_size=30)
    assert sb.run(query, tmp_path / "a.parquet").equals(wanted)
    assert sb.run(query, shuffled).equals(wanted)
    assert pa.concat_tables(sb.stream(query, shuffled)).equals(wanted.replace_schema_metadata(None))
    monkeypatch.setattr(sources, "MEMORY", 1000)  # far less than the file: through a temporary folder
    monkeypatch.setattr(sources.in_time_order, "__defaults__", (1000,))
    read = open_source(tmp_path / "a.parquet", 30)
    kind = TimeType.of(query, read.schema.field("ts").type)
    spilled = sources.in_time_order(read, "ts", kind)
    times = pa.concat_tables([t for t, _ in spilled.batches()])["ts"].to_pylist()
    assert times == sorted(times)
    assert len(times) == 200
    assert sb.run(query, tmp_path / "a.parquet").equals(wanted)


def every_type(n=6):
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "ts": pa.array([START + dt.timedelta(seconds=i) for i in range(n)], pa.timestamp("us", "Europe/Zurich")),
            "x": pa.array(rng.random(n)),
            "big": pa.array([2**53 + 1, None, -(2**63), 2**63 - 1, 0, 1], pa.int64()),
            "unsigned": pa.array([2**64 - 1] * n, pa.uint64()),
            "text": pa.array(["ä", None, "", "日本", "a\n", "x"]),
            "large": pa.array(["y"] * n, pa.large_string()),
            "view": pa.array(["z" * 20] * n, pa.string_view()),
            "bytes": pa.array([b"\0", None, b"", b"\xff", b"a", b"b"]),
            "flag": pa.array([True, None, False, True, False, True]),
            "decimal": pa.array([decimal.Decimal("1.10")] * n, pa.decimal128(20, 2)),
            "date": pa.array([dt.date(2024, 1, 1)] * n),
            "clock": pa.array([dt.time(1, 2, 3)] * n, pa.time64("us")),
            "span": pa.array([dt.timedelta(seconds=5)] * n, pa.duration("ms")),
            "nanos": pa.array([1_700_000_000_000_000_001] * n, pa.timestamp("ns")),
            "list": pa.array([[1, None], None, [], [3], [4, 5], [6]]),
            "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, *[{"a": 3, "b": None}] * 3]),
            "map": pa.array([[("k", 1)], None, [], [("a", None)], [], []], pa.map_(pa.string(), pa.int64())),
            "code": pa.array(["u", "v", None, "u", "v", "u"]).dictionary_encode(),
            "nothing": pa.nulls(n),
            "half": pa.array(np.arange(n, dtype=np.float16)),
        }
    )


@pytest.mark.parametrize("batch", [6, 1, 4])
def test_payload_of_every_type_survives(batch):
    table = every_type()
    query = sb.TopK(k=6, by="x", window=sb.Tumbling("1 minute"), time="ts")
    answers = sb.run(query, iter(table.slice(i, batch) for i in range(0, 6, batch)), late="1 minute")
    best = np.argsort(-table["x"].to_numpy())
    for name in table.column_names:
        assert answers.schema.field(name).type == table.schema.field(name).type, name
        values = table[name].to_pylist()
        assert answers[name].to_pylist() == [values[i] for i in best], name
    assert answers.schema.field("window_start").type == table.schema.field("ts").type


@pytest.mark.parametrize(
    ("kind", "unit", "ticks"),
    [
        (pa.timestamp("s"), None, [0, 60, 61]),
        (pa.timestamp("ms", "UTC"), None, [0, 60_000, 61_000]),
        (pa.timestamp("ns"), None, [0, 60_000_000_000, 61_000_000_000]),
        (pa.date32(), None, [0, 1, 2]),
        (pa.date64(), None, [0, 86_400_000, 86_400_000]),
        (pa.int64(), "s", [0, 60, 61]),
        (pa.int32(), "ms", [0, 60_000, 61_000]),
        (pa.uint64(), "ns", [0, 60_000_000_000, 61_000_000_000]),
    ],
)
def test_windows_have_the_type_of_the_time(kind, unit, ticks):
    size = "1 day" if pa.types.is_date(kind) else "1 minute"
    table = pa.table(
        {
            "t": pa.array(ticks, pa.int64()).cast(pa.int32() if kind == pa.date32() else pa.int64()).cast(kind),
            "x": [1, 2, 3],
        }
    )
    query = sb.TopK(k=1, by="x", window=sb.Tumbling(size), time="t", unit=unit)
    answers = sb.run(query, table)
    assert answers.schema.field("window_end").type == kind
    assert answers["window_start"][0].as_py() == table["t"][0].as_py()
    assert answers["x"].to_pylist()[-1] == 3


def test_times_that_cannot_be_used():
    def run(column, size="1 minute", **more):
        return sb.run(sb.TopK(k=1, by="x", window=sb.Tumbling(size), time="t", **more), {"t": column, "x": [1]})

    with pytest.raises(sb.SchemaError, match='say what it counts, such as unit="s"'):
        run([5])
    with pytest.raises(sb.SchemaError, match="no time: give a timestamp"):
        run(["2024-01-01"])
    with pytest.raises(sb.SourceError, match="finer than a microsecond"):
        run(pa.array([1], pa.timestamp("ns")))
    with pytest.raises(sb.SchemaError, match="size must be a multiple of 1 d"):
        run(pa.array([1], pa.date32()))
    with pytest.raises(sb.SchemaError, match="size must be a multiple of 1 s"):
        run([5], size="1500 ms", unit="s")


def test_naive_time_is_utc_and_zones_only_change_the_type():
    ticks = [0, 3_600_000_000]
    naive = pa.table({"t": pa.array(ticks, pa.timestamp("us")), "x": [1, 2]})
    zoned = pa.table({"t": pa.array(ticks, pa.timestamp("us", "Asia/Tokyo")), "x": [1, 2]})
    query = sb.TopK(k=1, by="x", window=sb.Tumbling("1 day"), time="t")
    starts = [sb.run(query, t)["window_start"].cast(pa.int64()).to_pylist() for t in (naive, zoned)]
    assert starts == [[0], [0]]


def test_columns_that_do_not_fit():
    rows = {"ts": [START], "price": [1.0], "volume": [2]}
    for change, words in [
        ({"time": "tz"}, "time names column 'tz', which the source does not have: did you mean ts"),
        ({"by": "pric * volume"}, "by names column 'pric'.*did you mean price"),
        ({"per": ["symbol"]}, "per names column 'symbol'"),
        ({"id": "trade"}, "id names column 'trade'"),
    ]:
        query = sb.TopK(**{"k": 1, "by": "price", "window": QUERY.window, "time": "ts", **change})
        with pytest.raises(sb.SchemaError, match=words):
            sb.run(query, rows)
    for name in ("rank", "score", "window_start", "window_end", "query", "final", "_change_type", "step"):
        with pytest.raises(sb.SchemaError, match=f"column '{name}', which is also the name of one of ours"):
            sb.run(QUERY, {**rows, name: [1]})
    query = sb.TopK(k=1, by="rank", window=QUERY.window, time="ts", prefix="sb_")
    answers = sb.run(query, {**rows, "rank": [7.0]})
    assert answers.column_names[:4] == ["sb_window_start", "sb_window_end", "sb_rank", "sb_score"]
    assert answers["rank"].to_pylist() == [7.0, 7.0]
    double = pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(sb.SchemaError, match="more than one column x"):
        sb.run(sb.TopK(k=1, by="x", window=sb.Counting(1)), double)


def test_batches_that_do_not_agree():
    query = sb.TopK(k=1, by="x", window=sb.Counting(1))
    with pytest.raises(sb.SchemaError, match="lacks column 'y'"):
        sb.run(query, iter([{"x": [1], "y": [1]}, {"x": [1]}]))
    with pytest.raises(sb.SchemaError, match="has a new column 'z'"):
        sb.run(query, iter([{"x": [1]}, {"x": [1], "z": [2]}]))
    with pytest.raises(sb.SchemaError, match="was int64 in the first batch and is double now"):
        sb.run(query, iter([{"x": [1]}, {"x": [1.5]}]))
    assert sb.run(query, iter([{"x": [1.5]}, {"x": [2]}]))["score"].to_pylist() == [1.5, 2.0]


def test_ids_of_other_types_order_by_their_hash():
    ids = ["b", "a", None, "a much longer text than thirty-two bytes of it", "zz"]
    query = sb.TopK(k=9, by="x", window=sb.Tumbling("1 s"), time="t", unit="s", id="i")
    rows = {"x": [1.0] * 5, "t": [0] * 5}
    for column in (
        ids,
        [uuid.UUID(int=i).bytes for i in range(5)],
        pa.array([decimal.Decimal(i) for i in range(5)]),
        pa.array([decimal.Decimal(i) for i in range(5)], pa.decimal128(38, 3)),
        [0.5, 1.5, 2.5, None, -0.0],
        [START + dt.timedelta(days=i) for i in range(5)],
        pa.array(["x", "y", "x", "y", "x"]).dictionary_encode(),
        [True, False, None, True, False],
    ):
        first = sb.run(query, {**rows, "i": column})["i"].to_pylist()
        backwards = (
            pa.array(column).take(pa.array([4, 3, 2, 1, 0]))
            if not isinstance(column, pa.Array)
            else column.take(pa.array([4, 3, 2, 1, 0]))
        )
        assert sb.run(query, {**rows, "i": backwards})["i"].to_pylist() == first, "arrival does not matter"
    with pytest.raises(sb.SchemaError, match=r"id .*'i'.* list"):
        sb.run(query, {**rows, "i": [[1]] * 5})


def test_groups_of_every_plain_type():
    n = 6
    for name in ("text", "flag", "big", "date", "code", "decimal", "ts"):
        table = every_type().append_column("t", pa.array(range(n)))
        query = sb.TopK(k=1, by="x", window=sb.Counting(6, 1), per=[name])
        answers = sb.run(query, table)
        assert answers.schema.field(name).type == table.schema.field(name).type
        assert answers.num_rows == n
        assert answers[name].to_pylist() == table[name].to_pylist()
    with pytest.raises(sb.SchemaError, match="columns of plain values"):
        sb.run(sb.TopK(k=1, by="x", window=sb.Counting(6, 1), per=["list"]), every_type())


def test_two_columns_make_a_group():
    frame = pd.DataFrame({"a": ["x", "x", "y", "y"] * 5, "b": [1, 2, 1, 2] * 5, "v": np.arange(20.0)})
    query = sb.TopK(k=1, by="v", window=sb.Counting(5, 5), per=["a", "b"])
    answers = sb.run(query, frame).to_pandas()
    assert sorted(zip(answers["a"], answers["b"], answers["v"], strict=True)) == [
        ("x", 1, 16.0), ("x", 2, 17.0), ("y", 1, 18.0), ("y", 2, 19.0)
    ]  # fmt: skip


def test_real_trades_agree_with_duckdb(real_data):
    duckdb = pytest.importorskip("duckdb")
    path = real_data / "es_futures_trades.parquet"
    names = pq.read_schema(path).names
    time = next(n for n in names if "time" in n or n == "ts")
    query = sb.TopK(k=5, by="price * volume", window=sb.Tumbling("1 hour"), time=time, id="seq")
    got = sb.run(query, path).select(["rank", "score", "seq"])
    wanted = duckdb.sql(
        f"SELECT price * volume AS score, seq, row_number() OVER (PARTITION BY time_bucket(INTERVAL 1 hour, {time}) "  # noqa: S608
        f"ORDER BY price * volume DESC, {time} DESC, seq DESC) AS rank, {time} AS t FROM '{path}' "
        f"QUALIFY rank <= 5 ORDER BY time_bucket(INTERVAL 1 hour, t), rank"
    )
    assert list(zip(*got.to_pydict().values(), strict=True)) == [(r, s, q) for s, q, r, _ in wanted.fetchall()]


@pytest.mark.parametrize(
    ("column", "hashes"),
    [
        # each line as Spark 4.3 gave it: SELECT xxhash64(CAST(... AS ...))
        (["hello", "", None], [-4367754540140381902, -7444071767201028348, 42]),
        (pa.array([dt.date(2024, 1, 1)]), [3242891694566951137]),
        ([True], [-6698625589789238999]),
        (pa.array([1.5], pa.float32()), [6163473420726370430]),
        ([1.5], [7738255526519901366]),
    ],
)
def test_ids_hash_as_on_spark(column, hashes):
    from skyband.runtime.ids import id_numbers

    assert id_numbers(pa.chunked_array([column]), "i").tolist() == hashes


def test_ids_of_unsigned_numbers_keep_their_order():
    from skyband.runtime.ids import id_numbers

    numbers = id_numbers(pa.chunked_array([pa.array([0, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64())]), "i")
    assert numbers.tolist() == sorted(numbers.tolist())


def test_an_empty_first_batch_says_nothing_of_types():
    query = sb.TopK(k=1, by="x", window=sb.Tumbling("1 s"), time="t", unit="s")
    assert sb.run(query, iter([{"t": [], "x": []}, {"t": [1], "x": [2.0]}]))["x"].to_pylist() == [2.0]


def test_watermarks_of_every_kind():
    query = sb.TopK(k=1, by="x", window=sb.Tumbling("1 s"), time="t")
    batch = {"t": [dt.datetime(1970, 1, 1)], "x": [1.0]}
    moment = dt.datetime(1970, 1, 1, 0, 0, 1)
    for watermark in (moment, np.datetime64(moment), moment.isoformat(), 1_000_000, np.int64(1_000_000)):
        assert next(sb.stream(query, iter([(batch, watermark)])))["x"].to_pylist() == [1.0]
    with pytest.raises(sb.SourceError, match="watermark='10 minutes' is not a moment"):
        list(sb.stream(query, iter([(batch, "10 minutes")])))


def test_rows_all_too_far_ahead_are_dropped_and_an_old_row_does_no_harm():
    query = sb.TopK(k=9, by="x", window=sb.Tumbling("1 s"), time="t", unit="s")
    now = 1_700_000_000
    batches = [{"t": [0, now, now + 1], "x": [1.0, 2.0, 3.0]}, {"t": [now + 9000], "x": [4.0]}]
    answers, counts = sb.run(query, iter(batches), ahead="1 hour", late="10 days", stats=True)
    assert answers["x"].to_pylist() == [1.0, 2.0, 3.0]
    assert counts.ahead == 1
