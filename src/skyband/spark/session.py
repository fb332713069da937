"""A local Spark session that suits small batches, for the commands, the benchmarks and the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_BYTES, _NO_LIMIT = "spark.sql.execution.arrow.maxBytesPerBatch", "2147483647"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    _PROVIDER: ROCKSDB,
    _BYTES: _NO_LIMIT,
    "spark.python.daemon.module": "skyband.spark.daemon",
    "spark.python.authenticate.socketTimeout": "120s",  # on a busy machine Python takes longer than Spark's 15 s
}


def session(
    name: str = "skyband", master: str | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the running session, or a new one: as many shuffle partitions as cores, RocksDB, workers that start warm.

    Parameters
    ----------
    name
        What Spark calls the application.
    master
        Where it runs. Default: what spark-submit says, else all cores of this machine.
    settings
        Further settings of Spark; they win over ours.
    """
    settings = dict(settings or {})
    find_java()
    share_classes()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if master is not None or "spark.master" not in settings:
        builder = builder.master(master or os.environ.get("MASTER", "local[*]"))
    ours = {**SETTINGS, "spark.sql.shuffle.partitions": str(os.cpu_count() or 2)}
    for key, value in {**ours, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def configure_session(spark: SparkSession) -> None:
    """Set what our operators need of a session that somebody else has made.

    RocksDB, since no other store serves them. And no limit of bytes on a batch for Python, where the session has
    Spark's own: to keep to it Spark adds up the size of all columns after every row, which takes two thirds of the
    hand-over. The limit of rows (`spark.sql.execution.arrow.maxRecordsPerBatch`) still holds.
    """
    use_our_python(spark)
    if spark.conf.get(_PROVIDER, "") != ROCKSDB:
        spark.conf.set(_PROVIDER, ROCKSDB)
    if spark.conf.get(_BYTES, None) is None:  # nobody has set it
        spark.conf.set(_BYTES, _NO_LIMIT)


def column(name: str) -> Column:
    """Return the column of this very name, whatever is in it."""
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own way

    return F.col(quoted(name))


def quoted(name: str) -> str:
    """Return a name as Spark reads it where it expects an expression."""
    return "`" + name.replace("`", "``") + "`"


def use_our_python(spark: SparkSession) -> None:
    """Let workers on this machine run this Python, where the one they would run does not have skyband.

    Raises ImportError if somebody has chosen that one by PYSPARK_PYTHON.
    """
    try:
        context = spark.sparkContext
    except Exception:  # noqa: BLE001 - Connect has no context, and says so in its own way
        return
    if not str(context.master).startswith("local") or _has_skyband(context.pythonExec):
        return
    if "PYSPARK_PYTHON" in os.environ:
        raise ImportError(
            f"PYSPARK_PYTHON must be a Python that has skyband, got {context.pythonExec!r}: "
            f"write PYSPARK_PYTHON={sys.executable}"
        )
    context.pythonExec = os.environ["PYSPARK_PYTHON"] = sys.executable


@cache
def _has_skyband(python: str) -> bool:
    """Return whether a Python finds this package and what it needs."""
    if shutil.which(python) == sys.executable:
        return True
    needed = ("skyband", "numba", "numpy", "pandas", "pyarrow")
    look = f"import importlib.util, sys; sys.exit(None in map(importlib.util.find_spec, {needed}))"
    try:
        done = subprocess.run([python, "-c", look], capture_output=True, timeout=60, check=False)  # noqa: S603 - Spark's
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def find_java() -> None:
    """Let Spark use the Java that `make env` found or fetched, where the machine names none."""
    noted = Path(sys.prefix) / "java-home"
    if "JAVA_HOME" not in os.environ and noted.exists():
        os.environ["JAVA_HOME"] = noted.read_text(encoding="utf-8").strip()


def share_classes() -> None:
    """Let Java take Spark's classes from the archive that `make env` left: it starts in a third of the time."""
    archive = Path(sys.prefix) / "spark.jsa"
    if archive.exists():
        os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:disable")
