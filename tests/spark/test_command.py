"""`skyband run` from end to end: a file in, answers out, and the address of the page before Spark has started."""

import json
import re
import urllib.error
import urllib.request

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import skyband as sb
from skyband.cli import app

PIPELINE = """
name: leaders
source: {{kind: parquet, path: {folder}/in, schema: "ts timestamp, n bigint, x double"}}
watermark: {{column: ts, delay: 1 second}}
query: {{k: 3, by: x, window: 1 minute/10 seconds, time: ts, id: n}}
sink: {{kind: parquet, path: {folder}/out}}
checkpoint: {folder}/state
trigger: {{available_now: true}}
"""


def invoked(spark, *arguments):
    """A command in the session of the tests, whose settings stay."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        return CliRunner().invoke(app, list(arguments))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.spark
def test_a_pipeline_file_runs_and_says_where_to_look_first(spark, tmp_path):
    rng = np.random.default_rng(5)
    second = np.sort(rng.integers(0, 300, 2000))
    rows = {
        "ts": pa.array(1_704_189_600_000_000 + second * 1_000_000, pa.timestamp("us", "UTC")),
        "n": np.arange(2000),
        "x": rng.random(2000),
    }
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "in" / "rows.parquet")
    (tmp_path / "p.yaml").write_text(PIPELINE.format(folder=tmp_path), encoding="utf-8")
    done = invoked(spark, "run", str(tmp_path / "p.yaml"), "--dashboard", "--port", "0", "--json")
    assert done.exit_code == 0, done.output
    said = done.stderr.splitlines()
    assert said[0].startswith("dashboard: http://127.0.0.1:")
    assert said[1].startswith("starting Spark for leaders")
    last = [json.loads(line) for line in done.stdout.splitlines()][-1]
    assert last["rows"] == 2000
    assert 1_000 < last["state_bytes"] < 200_000, "what the query keeps, not what RocksDB has allocated"
    query = sb.TopK(k=3, by="x", window=sb.Sliding("1 minute", "10 seconds"), time="ts", id="n")
    closed = int(second.max()) - 1  # the watermark: later windows stay open
    expected = [
        (row["window_end"].timestamp(), row["rank"], row["n"])
        for row in sb.run(query, pa.table(rows)).to_pylist()
        if row["window_end"].timestamp() <= 1_704_189_600 + closed
    ]
    found = pq.read_table(tmp_path / "out").to_pylist()
    assert sorted((row["window_end"].timestamp(), row["rank"], row["n"]) for row in found) == sorted(expected)
    with pytest.raises(urllib.error.URLError):  # with the run the page has gone
        urllib.request.urlopen(re.search(r"http://\S+", said[0])[0], timeout=5)  # noqa: S310 - our own address
    changed = PIPELINE.format(folder=tmp_path).replace("k: 3", "k: 4")
    (tmp_path / "p.yaml").write_text(changed, encoding="utf-8")
    done = invoked(spark, "run", str(tmp_path / "p.yaml"))
    assert done.exit_code == 4, "the state is of another query, and no row has to come to see it"
    assert "k was '3' and is '4'" in done.output
    assert "max_k=" in done.output
