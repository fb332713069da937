"""The newest answers in a database, written once: SQLite and a real PostgreSQL."""

import decimal
import math

import pyarrow as pa
import pytest
import sqlalchemy as sa
from streams import answers, write_batches
from test_top_k import QUERIES, asked, cut, trades

import skyband as sb
from servers import postgres_server
from skyband.spark.sink import UpsertTable


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    with postgres_server(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/leaders.db"
    found = request.getfixturevalue("postgres")
    with opened(found).begin() as connection:
        connection.execute(sa.text("DROP TABLE IF EXISTS leaders, others, skyband_batches"))
    return found


def opened(url):
    return sa.create_engine(url, poolclass=sa.NullPool)


def stored(url):
    with opened(url).connect() as connection:
        rows = connection.execute(sa.text("SELECT * FROM leaders ORDER BY symbol, rank")).mappings().all()
    return [(r["symbol"], r["rank"], r["score"], r["id"]) for r in rows]


def newest(table):
    last = {}
    for row in table.to_pylist():
        last.setdefault(row["symbol"], []).append(row)
    return [
        (symbol, r["rank"], r["score"], r["id"])
        for symbol in sorted(last)
        for r in last[symbol]
        if r["window_end"] == max(r["window_end"] for r in last[symbol])
    ]


@pytest.mark.parametrize("emit", ["answers", "changes"])
def test_the_table_has_the_newest_list_of_each_group(url, emit):
    query = asked(**QUERIES["per group"], emit=emit, ranks=emit == "changes")
    plain = asked(**QUERIES["per group"])
    batches = cut(trades(400, seed=3), 5, seed=2)
    sink = UpsertTable(query, url)
    seen = []
    for number, said in enumerate(sb.stream(query, iter(batches))):
        assert sink.write("one", number, said)
        before = stored(url)
        assert not sink.write("one", number, said), "a batch that comes again changes nothing"
        assert stored(url) == before
        seen.append(number)
    assert len(seen) > 2
    want = sb.run(plain, iter(batches))
    assert stored(url) == newest(want)


def test_a_group_whose_window_is_empty_leaves_with_changes(url):
    query = asked(window=sb.Tumbling("1 minute"), per=["symbol"], emit="changes")
    one = trades(30, seed=1, span=50)
    later = one.set_column(0, "ts", pa.array([t.as_py().replace(year=2030) for t in one["ts"]], one["ts"].type))
    later = later.set_column(3, "symbol", pa.array(["other"] * 30))
    sink = UpsertTable(query, url)
    for number, said in enumerate(sb.stream(query, iter([one, later, later.slice(0, 0)]), late="0 seconds")):
        sink.write("one", number, said)
    assert {row[0] for row in stored(url)} == {"other"}


@pytest.mark.parametrize("url", ["nosuch://x", "no address", "postgresql+nodriver://user:secret@host/x", None])
def test_an_address_that_opens_no_database_is_told_at_once(url):
    query = sb.TopK(k=3, by="price", window=sb.Tumbling("1 minute"), time="ts")
    with pytest.raises(sb.SinkError, match=r"url=.* must be an address that SQLAlchemy knows") as told:
        sb.spark.upsert_sink(query, url)
    assert "secret" not in str(told.value)


def test_latest_is_the_same_sink():
    assert sb.spark.latest is sb.spark.upsert_sink


def test_a_table_that_does_not_fit_is_refused(url):
    query = asked(**QUERIES["per group"])
    with opened(url).begin() as connection:
        connection.execute(sa.text("CREATE TABLE leaders (symbol text)"))
    with pytest.raises(sb.SinkError, match="has no column window_start"):
        UpsertTable(query, url).write("one", 0, sb.run(query, trades(50, seed=1)))
    with pytest.raises(sb.QueryError, match=r"query must be .* emit"):
        sb.spark.upsert_sink(asked(**QUERIES["arrivals"]), url)


@pytest.mark.spark
def test_a_stream_writes_each_batch_once(spark, tmp_path):
    url = f"sqlite:///{tmp_path}/leaders.db"
    query = asked(**QUERIES["per group"])
    batches = cut(trades(300, seed=5), 3, seed=1)
    write_batches(tmp_path / "in", batches)
    step = sb.spark.top_k(query)
    answers(spark, tmp_path / "in", step, watermark="0 seconds", out=sb.spark.upsert_sink(query, url))
    first = stored(url)
    assert first
    assert len({row[0] for row in first}) == 3
    with opened(url).connect() as connection:
        (stream, batch), *others = connection.execute(sa.text("SELECT stream, batch FROM skyband_batches")).all()
    assert not others
    assert len(stream) == 36, "the id of the checkpoint"
    assert batch >= 2


@pytest.mark.spark
@pytest.mark.parametrize("emit", ["answers", "changes"])
@pytest.mark.parametrize("consumed", [1, 3])
def test_a_named_stream_with_a_new_checkpoint_starts_over(spark, tmp_path, emit, consumed):
    """Its batches are numbered from 0 again, and must not be taken for those written before."""
    url = f"sqlite:///{tmp_path}/leaders.db"
    query = asked(**QUERIES["per group"], emit=emit)
    old, new = (cut(trades(300, seed=seed), 3, seed=1) for seed in (5, 6))
    step, sink = sb.spark.top_k(query), sb.spark.upsert_sink(query, url, name="leaders")
    for name, batches in (("old", old[:consumed]), ("new", new)):
        folder = tmp_path / name
        write_batches(folder, batches)
        answers(spark, folder, step, watermark="0 seconds", checkpoint=tmp_path / f"{name} checkpoint", out=sink)
    write_batches(tmp_path / "alone", new)
    alone = f"sqlite:///{tmp_path}/alone.db"
    answers(spark, tmp_path / "alone", step, watermark="0 seconds", out=sb.spark.upsert_sink(query, alone))
    assert len({row[0] for row in stored(url)}) == 3
    assert stored(url) == stored(alone)


def test_a_batch_of_an_older_table_of_batches_is_not_written_twice(url):
    """Versions before did not note the checkpoint."""
    query = asked(**QUERIES["per group"])
    with opened(url).begin() as connection:
        connection.execute(sa.text("CREATE TABLE skyband_batches (stream VARCHAR(200) PRIMARY KEY, batch BIGINT)"))
        connection.execute(sa.text("INSERT INTO skyband_batches VALUES ('one', 7)"))
    said = sb.run(query, trades(100, seed=1))
    assert not UpsertTable(query, url).write("one", 7, said, "a")
    assert UpsertTable(query, url).write("one", 8, said, "a")
    assert not UpsertTable(query, url).write("one", 8, said, "a")
    assert not UpsertTable(query, url).write("one", 5, said, "a"), "the checkpoint was restored from a copy"
    assert UpsertTable(query, url).write("one", 0, said, "b"), "another checkpoint"
    assert UpsertTable(query, url).write("one", 1, said, "b")


def test_a_stream_may_write_into_several_tables(url):
    query = asked(**QUERIES["per group"])
    said = sb.run(query, trades(100, seed=1))
    for number in (0, 1):
        for table in ("leaders", "others"):
            sink = UpsertTable(query, url, table)
            assert sink.write("one", number, said, "a")
            assert not sink.write("one", number, said, "a")
    with opened(url).connect() as connection:
        leaders = connection.execute(sa.text("SELECT * FROM leaders")).all()
        others = connection.execute(sa.text("SELECT * FROM others")).all()
    assert leaders == others


def test_changes_build_on_an_empty_table(url):
    query = asked(**QUERIES["per group"], emit="changes")
    said = sb.run(query, trades(100, seed=1))
    assert UpsertTable(query, url).write("one", 0, said, "a")
    with pytest.raises(sb.SinkError, match=r"table='leaders' must be empty"):
        UpsertTable(query, url).write("two", 0, said, "b")
    before = stored(url)
    for stream, checkpoint in (("one", "b"), ("two", "b")):
        with pytest.raises(sb.SinkError, match="from batch 0 on, got batch 5"):
            UpsertTable(query, url).write(stream, 5, said, checkpoint)
    assert stored(url) == before


D = decimal.Decimal
GROUPS = {
    "floats": pa.array([None, math.nan, math.inf, -math.inf, 0.0, 0.1, 0.1 + 2**-54], pa.float64()),
    "texts": pa.array([None, "", "NaN", "None", "a", "A", "a ", "1", "1.0"]),
    "integers": pa.array([None, 0, 2**63 - 1, 2**63 - 2, -(2**63), 1 - 2**63], pa.int64()),
    "decimals": pa.array([None, D("12345678901234567890.1"), D("12345678901234567890.2")], pa.decimal128(38, 16)),
    "times": pa.array([None, 0, 1, -1, 1_700_000_000_000_001], pa.timestamp("us", "UTC")),
    "bytes": pa.array([None, b"", b"\0", b"a", b"\xff"]),
}


@pytest.mark.parametrize("kind", GROUPS)
@pytest.mark.parametrize("emit", ["answers", "changes"])
@pytest.mark.parametrize("database", ["sqlite", "duckdb", "postgres"])
def test_every_group_has_a_list_of_its_own(request, tmp_path, database, emit, kind):
    """Also NULL and NaN, which SQLite would store alike."""
    url = f"{database}:///{tmp_path}/leaders.db" if database != "postgres" else request.getfixturevalue("postgres")
    if database == "postgres":
        with opened(url).begin() as connection:
            connection.execute(sa.text("DROP TABLE IF EXISTS leaders, skyband_batches"))
    values = GROUPS[kind]
    rows = pa.table(
        {
            "ts": pa.array([0, 10] * len(values), pa.timestamp("s", "UTC")),
            "per": pa.chunked_array([values]).take(pa.array([i // 2 for i in range(2 * len(values))])),
            "x": pa.array([1.0 * i for i in range(2 * len(values))]),
        }
    )
    query = sb.TopK(k=2, by="x", window=sb.Sliding("4 minutes", "1 minute"), time="ts", per="per", emit=emit)
    sink = UpsertTable(query, url)
    for number, said in enumerate(sb.stream(query, [rows.slice(0, 5), rows.slice(5)])):
        sink.write("one", number, said)
    with opened(url).connect() as connection:
        found = connection.execute(sa.text("SELECT rank, x FROM leaders")).all()
    plain = sb.TopK(k=2, by="x", window=sb.Sliding("4 minutes", "1 minute"), time="ts", per="per")
    want, last = sb.run(plain, iter([rows.slice(0, 5), rows.slice(5)])).to_pylist(), {}
    for row in want:
        last.setdefault(repr(row["per"]), {}).setdefault(row["window_end"], []).append((row["rank"], row["x"]))
    assert sorted(map(tuple, found)) == sorted(line for lists in last.values() for line in lists[max(lists)])
    assert len(last) == len(values)


@pytest.mark.parametrize("emit", ["answers", "changes"])
def test_totals_of_all_time_are_kept_too(url, emit):
    query = sb.TopK(k=2, of="id", by="sum(price)", per="symbol", emit=emit)
    batches = cut(trades(200, seed=4), 4, seed=1)
    sink = UpsertTable(query, url)
    for number, said in enumerate(sb.stream(query, iter(batches))):
        sink.write("one", number, said)
    whole = sb.run(query, pa.concat_tables(batches))
    names = ("symbol", "rank", "score", "id")
    assert stored(url) == sorted(tuple(row[name] for name in names) for row in whole.to_pylist())
