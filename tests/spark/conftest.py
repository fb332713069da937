"""One Spark session for all tests: two partitions, no UI, scratch folders of its own."""

import os
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    home = Path(sys.prefix) / "java-home"
    if home.exists():
        os.environ.setdefault("JAVA_HOME", home.read_text().strip())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("skyband tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")  # must not matter
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.python.daemon.module", "skyband.spark.daemon")
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.driver.memory", "3g")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
