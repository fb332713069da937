"""Spark Connect: the same answers from a remote session, and an import without Spark itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.spark
def test_a_remote_session_says_what_sb_run_says(tmp_path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])}
    done = subprocess.run(
        [sys.executable, str(HERE / "connect.py"), str(tmp_path)],
        env=env,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.stdout.strip().endswith("connect: all as in process"), done.stderr[-3000:]


@pytest.mark.spark
def test_the_client_alone_is_enough_to_write_a_query(tmp_path):
    uv = Path(sys.prefix) / "bin" / "uv"
    if not uv.exists():
        pytest.skip("uv is not in this environment, so none can be made with pyspark-client alone")
    env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "SPARK_HOME", "PYTHONPATH")}
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv"], check=True, env=env)
    python = tmp_path / "venv" / "bin" / "python"
    needed = ["pyspark-client>=4.2,<5", "pandas<3", str(ROOT)]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *needed], check=True, env=env, timeout=300)
    code = (
        "import skyband as sb; q = sb.TopK(k=1, by='x', window=sb.Tumbling('1 minute'), time='ts'); "
        "step = sb.spark.top_k(q); import pyspark, importlib.util; "
        "assert importlib.util.find_spec('py4j') is None; import skyband.spark.stateful; print(callable(step))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.stdout.strip() == "True", done.stderr[-2000:]
