"""What `skyband bench view` compares on Spark is the same task: all ways give the same totals."""

import pytest

from skyband_lab.bench.boards import WAYS
from skyband_lab.bench.spark import Case, trades, write_files

pytestmark = pytest.mark.spark


def test_all_ways_to_a_leaderboard_agree(spark, tmp_path):
    write_files(tmp_path / "in", trades(12_000, 20, rate=20), 12_000)
    told = {}
    for way, made in WAYS.items():
        step = made(Case(way, 2, 5, 20, 12_000, 12_000))
        rows = spark.read.parquet(str(tmp_path / "in")).transform(step).toArrow().to_pylist()
        if way == "skyband":
            told[way] = sorted((row["window_end"], row["rank"], row["score"]) for row in rows)
        else:
            told[way] = sorted((row["again"]["end"], row["pos"] + 1, float(row["col"]["total"])) for row in rows)
    assert len(told["skyband"]) >= 5 * 8
    assert told["two-step"] == told["skyband"]
    assert told["two-step with panes"] == told["skyband"]
