"""The page on Spark does what it says."""

import re
from pathlib import Path

import pytest
from streams import write_batches
from test_top_k import trades

pytestmark = pytest.mark.spark


def test_the_blocks_of_the_page_run(spark, tmp_path, capsys):
    write_batches(tmp_path / "in", [trades(200, seed=1)])
    page = Path(__file__).parents[2] / "docs" / "spark.md"
    blocks = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    names = {name: str(tmp_path / name) for name in ("out", "checkpoint")} | {"folder": str(tmp_path / "in")}
    exec("\n".join(blocks), {"spark": spark, **names})  # noqa: S102 - our own page
    assert "window_start" in capsys.readouterr().out
    written = spark.read.parquet(names["out"])
    assert 0 < written.count() < 60
