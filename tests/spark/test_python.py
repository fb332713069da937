"""Workers on this machine run a Python that has skyband, whatever `python3` on the PATH is."""

import os
import subprocess
import sys
import venv

import pytest

pytestmark = pytest.mark.spark

RUN = """
import os, sys
from pyspark.sql import SparkSession
import skyband as sb

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.sparkContext.pythonExec == "python3"
rows = spark.range(5).selectExpr("timestamp_seconds(id) AS ts", "id AS x")
step = sb.spark.top_k(sb.TopK(k=2, by="x", window=sb.Tumbling("1 minute"), time="ts", id="x"))
print([row["x"] for row in rows.transform(step).orderBy("rank").collect()])
os.environ["PYSPARK_PYTHON"] = spark.sparkContext.pythonExec = sys.argv[1]
try:
    rows.transform(step)
except ImportError as error:
    print(error)
"""


def test_workers_run_our_python_unless_another_is_chosen(tmp_path):
    """Without PYSPARK_PYTHON it is set; a wrong one is named before anything starts."""
    venv.create(tmp_path / "other", symlinks=True)
    other = tmp_path / "other" / "bin" / "python3"
    assert other.exists()
    env = {k: v for k, v in os.environ.items() if k not in ("PYSPARK_PYTHON", "PYTHONPATH", "VIRTUAL_ENV")}
    env |= {"PATH": f"{other.parent}{os.pathsep}{env['PATH']}"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(other)], env=env, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers, refused = done.stdout.splitlines()[-2:]
    assert answers == "[4, 3]"
    assert "PYSPARK_PYTHON" in refused
    assert str(other) in refused
    assert f"PYSPARK_PYTHON={sys.executable}" in refused
