"""Joins in the operator without a JVM: saved and loaded between every two batches, against sb.run."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from bucketed import packed, streamed
from test_buckets import LATE
from test_top_k import SECOND, closed, cut, plain

import skyband as sb
from joins import join_of
from naive_join import Asked, Read, Service, judge
from skyband.operators.plan import plan_operators
from skyband.spark.bucket import Bucket
from skyband.spark.pack import broadcast
from skyband.tables import History, Http, SqlTable

START = 1_700_000_000
USERS = 12
NOBODY = pa.table({"user": pa.array([], pa.int64()), "y": pa.array([], pa.int64())})


def spec_of(*queries):
    """The one operator of queries."""
    return plan_operators(queries[0] if len(queries) == 1 else queries)[1][0]


def clicks(n=300, seed=3, disorder=60):
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, 600, n)) + rng.integers(-disorder, 1, n)
    return pa.table(
        {
            "ts": pa.array((at + START) * SECOND, pa.timestamp("us", "UTC")),
            "id": pa.array(rng.permutation(n)),
            "user": pa.array([f"u{u}" for u in rng.integers(0, USERS, n)], mask=rng.random(n) < 0.05),
            "x": pa.array(np.round(rng.random(n) * 5, 1)),
            "city": pa.array([f"c{u}" for u in rng.integers(0, 2, n)]),
        }
    )


def remote(seed=1):
    """Followers that change about once a minute."""
    rng = np.random.default_rng(seed)
    user, at = (grid.ravel() for grid in np.meshgrid(np.arange(USERS), START - 60 + 60 * np.arange(13)))
    rows = {"user": [f"u{u}" for u in user], "at": at, "followers": np.round(rng.random(len(user)) * 9, 1)}
    return History(rows, key="user", time="at", unit="s")


def asked(table, window=None, **change):
    names = ("k", "per", "by", "name", "emit")
    mine = {name: change.pop(name) for name in names if name in change}
    join = join_of(
        table, **{"on": "user", "columns": {"followers": "double"}, "budget": 3, "deadline": "1 minute"} | change
    )
    window = window or sb.Sliding("2 minutes", "30 seconds")
    return sb.TopK(**{"k": 3, "by": "x + followers", "window": window, "time": "ts", "id": "id", "join": join, **mine})


JOINS = {
    "a value a row": {"policy": "border", "spare": 2},
    "our own policy": {"policy": "likely", "spare": 2, "budget": sb.Budget(2, save=4)},
    "a value over the window": {"by": "clicks + followers", "aggregates": {"clicks": "count(*)"}, "policy": "top"},
    "every row": {"each": "row", "policy": "top"},
    "groups": {"per": ["city"], "policy": "top", "spare": 3},
    "a small replica": {"policy": "top", "replica_size": 5},
}


@pytest.mark.parametrize("name", JOINS)
def test_one_query(name):
    query = asked(remote(), **JOINS[name])
    batches = cut(clicks(), 5, seed=1)
    got, counts = streamed(spec_of(query), batches, LATE)
    want, told = sb.run(query, iter(batches), late=f"{LATE} seconds", stats=True)
    want = closed(want, batches, LATE, query)
    assert got.column_names == want.column_names
    assert plain(got) == plain(want)
    assert got.num_rows > 30
    assert (counts["rows"], counts["late_rows"]) == (told.rows, told.late_rows)
    assert 0 < counts["without_key"] <= told.without_key  # some rows are still buffered
    first = want.filter(pa.compute.equal(want["rank"], 1)).to_pylist()
    if not query.per:
        assert counts["made"] == sum(row["lookups"]["made"] for row in first) > 0


SHARED = {  # what is asked of one replica: the arguments of a join, and of a query
    "groups": [({"spare": 0}, {"per": ["city"]})],
    "groups of rows": [({"spare": 1, "each": "row", "unlisted": "ignore"}, {"per": ["city"]})],
    "three queries": [
        ({"spare": 0}, {"by": "x + 2 * y"}),
        ({"spare": 2, "each": "row"}, {"by": "y - x", "k": 2}),
        ({"spare": 1, "aggregates": {"n": "count(*)"}}, {"by": "3 * n + y"}),
    ],
}
TRUE = {
    "x + y": lambda row, y, _: None if y is None else row["x"] + y,
    "x + 2 * y": lambda row, y, _: None if y is None else row["x"] + 2 * y,
    "y - x": lambda row, y, _: None if y is None else y - row["x"],
    "3 * n + y": lambda _, y, n: None if y is None else 3 * n + y,
}


@pytest.mark.parametrize("pushed", [False, True])
@pytest.mark.parametrize("name", SHARED)
def test_rows_are_what_their_status_says(name, pushed):
    rng = np.random.default_rng(5)
    start = START - START % 60
    rows = [
        {"t": int(t), "user": int(u), "x": int(x), "city": int(c)}
        for t, u, x, c in zip(
            np.sort(rng.integers(0, 300, 150)), *rng.integers(0, [[15], [20], [3]], (3, 150)), strict=True
        )
    ]
    value = rng.integers(0, 20, (15, 400))
    service = Service(
        lambda user, moment: [int(value[user, moment // 30])] if (user + moment // 60) % 5 else [], start=start
    )
    told = [
        (t - 30, u, int(value[u, t // 30]) if (u + t // 60) % 5 else None) for t in range(0, 300, 30) for u in range(15)
    ]
    usual = {"on": "user", "columns": {"y": "long"}, "budget": 6, "policy": "top", "deadline": "1 minute"}
    queries, asked_ = [], []
    for join, query in SHARED[name]:
        given = {
            "k": 3,
            "by": "x + y",
            "window": sb.Sliding("60 seconds", "20 seconds"),
            "time": "ts",
            "id": "id",
            **query,
        }
        queries.append(sb.TopK(**given, join=join_of(None if pushed else service, **usual, **join, initial=NOBODY)))
        truth = {
            "each": join.get("each", "key"),
            "counted": "aggregates" in join,
            "per": "city" if "per" in query else None,
        }
        asked_.append(Asked(given["k"], 60, 20, TRUE[given["by"]], **truth))
    stream = pa.table(
        {
            "ts": pa.array([(row["t"] + start) * SECOND for row in rows], pa.timestamp("us", "UTC")),
            "id": pa.array(range(len(rows))),
            **{column: pa.array([row[column] for row in rows]) for column in ("user", "x", "city")},
        }
    )
    changes = pa.table(
        {
            "user": pa.array([u for _, u, _ in told]),
            "y": pa.array([y for *_, y in told], pa.int64()),
            "ts": pa.array([(t + start) * SECOND for t, *_ in told], pa.timestamp("us", "UTC")),
        }
    )
    many = None if len(queries) == 1 else dict(sb.Workload(queries).items())
    changes = broadcast("changes", changes, [0]) if pushed else ()
    found, counts = streamed(spec_of(*queries), cut(stream, 6, seed=1), LATE, changes)
    said = found.to_pylist()
    for row in said:
        for column, mine in (("ts", "t"), ("window_start", "window_start"), ("window_end", "window_end")):
            row[mine] = None if row[column] is None else round(row[column].timestamp()) - start
    log = [Read(t + 1, t, u, (y,), pushed=True) for t, u, y in told] if pushed else service.log
    for n, one in enumerate(asked_):
        one.log = log
        mine = [row for row in said if many is None or row["query"] == list(many)[n]]
        assert judge(one, rows, mine, counts["incomplete"], until=rows[-1]["t"] - LATE) == []
    assert counts["made"] == len(service.sent)
    assert {"exact", "approximate"} <= set(found["status"].to_pylist())


def test_a_workload_shares_one_replica_and_one_budget():
    table = remote()
    queries = [
        asked(table, policy="top"),
        asked(table, sb.Sliding("100 seconds", "20 seconds"), policy="border", k=2, name="short"),
        asked(table, per=["city"], policy="top", k=1),
        asked(table, by="clicks + followers", aggregates={"clicks": "count(*)"}, policy="top", k=1),
    ]
    batches = cut(clicks(), 4, seed=1)
    got, counts = streamed(spec_of(*queries), batches, LATE)
    want, told = sb.run(queries, iter(batches), late=f"{LATE} seconds", stats=True)
    want = closed(want, batches, LATE, queries[0])
    assert got.column_names == want.column_names
    assert plain(got) == plain(want)
    assert 0 < counts["made"] <= told.made
    moments = {(row["window_end"], row["lookups"]["made"]) for row in want.to_pylist()}
    assert all(made <= 3 for _, made in moments)
    assert len(moments) == len({end for end, _ in moments}), "one round of look-ups for all windows that end together"


def test_a_replica_may_start_from_a_file(tmp_path):
    import pyarrow.parquet as pq

    path = str(tmp_path / "start.parquet")
    pq.write_table(pa.table({"user": [f"u{u}" for u in range(USERS)], "followers": [1.0] * USERS}), path)
    table, batches = remote(), cut(clicks(), 3, seed=1)
    queries = [asked(table, policy="never", initial=path), asked(table, policy="never", initial=path, k=1, name="one")]
    sent = pickle.dumps(spec_of(*queries))
    got, _ = streamed(pickle.loads(sent), batches, LATE)  # noqa: S301 - what we have just written
    want = closed(sb.run(queries, iter(batches), late=f"{LATE} seconds"), batches, LATE, queries[0])
    assert plain(got) == plain(want)
    assert set(got["followers"].to_pylist()) == {1.0}


def test_a_state_of_another_join_is_refused():
    from skyband.spark.state import check, fingerprint

    def identity(**change):
        spec = spec_of(asked(remote(), **change))
        return fingerprint(spec.query, 1, spec.fingerprint())

    header = {"query": identity()}
    with pytest.raises(sb.SnapshotError, match="join was"):
        check(header, identity(spare=4))
    check(header, identity(budget=1, policy="top", deadline="1 second"))


def test_keys_that_no_one_needs_leave_the_state():
    table = History({"user": ["u0"], "at": [0], "followers": [1.0]}, key="user", time="at", unit="s")
    query = asked(
        table, sb.Tumbling("30 seconds"), budget=1, policy="top", by="x + coalesce(followers, 0)", initial=None
    )
    n = 400
    rows = pa.table(
        {
            "ts": pa.array((START + np.arange(n)) * SECOND, pa.timestamp("us", "UTC")),
            "id": pa.array(np.arange(n)),
            "user": pa.array([f"v{i}" for i in range(n)]),
            "x": pa.array(np.ones(n)),
            "city": pa.array(["c"] * n),
        }
    )
    spec, state = spec_of(query), None
    for at in range(0, n, 50):
        bucket = Bucket(spec, rows.schema)
        if state is not None:
            bucket.restore(state)
        bucket.advance(packed(spec, rows.slice(at, 50))[0], (START + at + 49) * SECOND)
        state = bucket.snapshot()
    assert state["0/operator/keys"].num_rows < 120, "of 400 keys, those of open windows and those that were read"


def test_what_travels_is_an_address_and_no_secret(monkeypatch):
    monkeypatch.setenv("SKYBAND_TOKEN", "hush-hush")
    table = Http("http://localhost/users", key="user", headers={"Authorization": "Bearer ${SKYBAND_TOKEN}"})
    table._client = object()
    sent = pickle.dumps(spec_of(asked(table)))
    assert b"hush" not in sent
    assert pickle.loads(sent).query.join.table._client is None  # noqa: S301 - what we have just written
    engine = pytest.importorskip("sqlalchemy").create_engine("sqlite://")
    with pytest.raises(sb.QueryError, match=r"table must be able to travel .* got SqlTable .* open engine"):
        spec_of(asked(SqlTable(engine, "users", key="user")))
