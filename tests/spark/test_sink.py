"""The newest answers in a database, written once: SQLite and a real PostgreSQL."""

import pyarrow as pa
import pytest
import sqlalchemy as sa
from streams import answers, write_batches
from test_top_k import QUERIES, asked, cut, trades

import skyband as sb
from servers import postgres_server
from skyband.spark.sink import Latest


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
        connection.execute(sa.text("DROP TABLE IF EXISTS leaders, skyband_batches"))
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
    sink = Latest(query, url)
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
    sink = Latest(query, url)
    for number, said in enumerate(sb.stream(query, iter([one, later, later.slice(0, 0)]), late="0 seconds")):
        sink.write("one", number, said)
    assert {row[0] for row in stored(url)} == {"other"}


@pytest.mark.parametrize("url", ["nosuch://x", "no address", "postgresql+nodriver://user:secret@host/x", None])
def test_an_address_that_opens_no_database_is_told_at_once(url):
    query = sb.TopK(k=3, by="price", window=sb.Tumbling("1 minute"), time="ts")
    with pytest.raises(sb.SinkError, match=r"url=.* opens no database, .*: write one that SQLAlchemy knows") as told:
        sb.spark.latest(query, url)
    assert "secret" not in str(told.value)


def test_a_table_that_does_not_fit_is_refused(url):
    query = asked(**QUERIES["per group"])
    with opened(url).begin() as connection:
        connection.execute(sa.text("CREATE TABLE leaders (symbol text)"))
    with pytest.raises(sb.SinkError, match="has no column window_start"):
        Latest(query, url).write("one", 0, sb.run(query, trades(50, seed=1)))
    with pytest.raises(sb.QueryError, match="keeps lists"):
        sb.spark.latest(asked(**QUERIES["arrivals"]), url)


@pytest.mark.spark
def test_a_stream_writes_each_batch_once(spark, tmp_path):
    url = f"sqlite:///{tmp_path}/leaders.db"
    query = asked(**QUERIES["per group"])
    batches = cut(trades(300, seed=5), 3, seed=1)
    write_batches(tmp_path / "in", batches)
    step = sb.spark.top_k(query)
    answers(spark, tmp_path / "in", step, watermark="0 seconds", out=sb.spark.latest(query, url))
    first = stored(url)
    assert first
    assert len({row[0] for row in first}) == 3
    with opened(url).connect() as connection:
        (stream, batch), *others = connection.execute(sa.text("SELECT stream, batch FROM skyband_batches")).all()
    assert not others
    assert len(stream) == 36, "the id of the checkpoint"
    assert batch >= 2
