"""One Spark session for all tests: two partitions, no UI, scratch folders of its own."""

import pytest

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "America/New_York",  # must not matter
    "spark.driver.memory": "3g",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from skyband.spark.session import session

    scratch = tmp_path_factory.mktemp("spark")
    folders = {"spark.local.dir": str(scratch / "local"), "spark.sql.warehouse.dir": str(scratch / "warehouse")}
    found = session("skyband tests", "local[2]", {**SETTINGS, **folders})
    yield found
    found.stop()
