"""Joins on real streams, with a real service; a restart keeps the replica."""

import contextlib
import threading
from dataclasses import replace
from typing import Annotated

import pyarrow as pa
import pytest
from streams import answers, counted, write_batches
from test_join_buckets import START, asked, clicks, remote
from test_top_k import SECOND, closed, cut, plain

import skyband as sb
from joins import refreshed
from servers import free_port, wait_for
from skyband.tables import Http

pytestmark = pytest.mark.spark


@contextlib.contextmanager
def service(followers):
    """GET /users?ids=u1,u2 gives their followers; what was asked for is written down."""
    import uvicorn
    from fastapi import FastAPI, Header, HTTPException

    app, seen = FastAPI(), []

    @app.get("/users")
    def users(ids: str, authorization: Annotated[str, Header()] = ""):
        if authorization != "Bearer hush":
            raise HTTPException(401)
        seen.extend(ids.split(","))
        return [{"user": u, "followers": followers[u]} for u in ids.split(",") if u in followers]

    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(port)
    try:
        yield f"http://127.0.0.1:{port}/users", seen
    finally:
        server.should_exit = True
        thread.join(10)


def test_a_stream_joins_a_service_and_a_restart_keeps_the_replica(spark, tmp_path, monkeypatch):
    monkeypatch.setenv("SKYBAND_TOKEN", "hush")  # local workers have the environment of this process
    followers = {f"u{i}": float(i) for i in range(12)}
    batches = cut(clicks(200), 4, seed=1)
    write_batches(tmp_path / "in", batches[:2])
    with service(followers) as (url, seen):
        table = Http(url, key="user", headers={"Authorization": "Bearer ${SKYBAND_TOKEN:-hush}"})
        query = asked(table, sb.Tumbling("1 minute"), budget=20, policy="never", by="x + followers", spare=9)
        fresh = replace(query, join=refreshed(query.join, policy="top", budget=sb.Budget(20)))
        got, progress = answers(spark, tmp_path / "in", sb.spark.top_k(fresh), watermark="30 seconds")
        known = counted(progress)
        assert known["made"] == len(seen) > 0
        assert known["failed"] == known["overdue"] == 0
        assert set(got["staleness"].to_pylist()) == {0.0}
        want = closed(sb.run(fresh, iter(batches[:2]), late="30 seconds"), batches[:2], 30, query)
        assert got.column_names == want.column_names
        assert plain(got) == plain(want)
        read = set(seen)
    # the service is gone, and the stream starts again: what was read before still serves
    write_batches(tmp_path / "in", batches[2:], first=2)
    step = sb.spark.top_k(
        replace(fresh, join=replace(refreshed(fresh.join, deadline="300 ms"), calls=sb.Calls(retries=0)))
    )
    more, progress = answers(spark, tmp_path / "in", step, watermark="30 seconds")
    assert set(more["user"].to_pylist()) <= read
    assert more["followers"].to_pylist() == [followers[u] for u in more["user"].to_pylist()]
    assert max(more["staleness"].to_pylist()) >= 60
    known = counted(progress)
    assert known["failed"] > 0
    assert known["made"] == known["failed"] + known["overdue"]  # a busy machine refuses a call late


def test_pushed_changes_are_a_second_stream(spark, tmp_path):
    batches = cut(clicks(200, disorder=0), 3, seed=1)
    past = remote()._rows.append_column("ts", pa.array(remote()._time, pa.timestamp("us", "UTC")))
    changes = past.select(["user", "followers", "ts"]).sort_by([("ts", "ascending")])
    write_batches(tmp_path / "in", batches)
    write_batches(tmp_path / "changes", [changes])
    pushed = spark.readStream.schema(spark.read.parquet(str(tmp_path / "changes")).schema)
    pushed = pushed.parquet(str(tmp_path / "changes")).withWatermark("ts", "30 seconds")
    query = asked(None, changes=pushed, spare=50)
    got, _ = answers(spark, tmp_path / "in", sb.spark.top_k(query), watermark="30 seconds")
    want = sb.run(replace(query, join=replace(query.join, changes=changes)), iter(batches), late="30 seconds")
    newest = min(
        max(b["ts"].cast(pa.int64()).to_pylist()[-1] for b in batches), changes["ts"].cast(pa.int64())[-1].as_py()
    )
    want = want.filter(pa.array(want["window_end"].cast(pa.int64()).to_numpy() <= newest - 30 * SECOND))
    assert got.num_rows > 10
    assert plain(got) == plain(want)
    assert newest > START * SECOND


def test_a_batch_and_what_cannot_be(spark, tmp_path):
    batches = cut(clicks(150), 2, seed=1)
    write_batches(tmp_path / "in", batches)
    query = asked(remote(), sb.Tumbling("1 minute"), policy="top", per=["city"])
    df = spark.read.parquet(str(tmp_path / "in"))
    assert plain(df.transform(sb.spark.top_k(query)).toArrow()) == plain(sb.run(query, pa.concat_tables(batches)))
    with pytest.raises(sb.QueryError, match="cannot share a stream on Spark"):
        sb.spark.top_k([query, sb.TopK(k=1, by="x", window=sb.Tumbling("1 minute"), time="ts")])
    with pytest.raises(sb.QueryError, match=r"changes must be a DataFrame .* got dict"):
        sb.spark.top_k(asked(None, changes={"user": [], "followers": [], "ts": []}))
