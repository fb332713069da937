"""The operator as Spark sends it to its Python processes."""

import base64
import pickle
import subprocess
import sys

import pyarrow as pa
from test_top_k import QUERIES, asked

from skyband.operators.plan import plan
from skyband.spark.stateful import COUNTERS, BucketProcessor

OPENS = """
import base64, pickle, sys

class Handle:
    def getMapState(self, *declared):
        return declared

operator = pickle.loads(base64.b64decode(sys.argv[1]))
operator.init(Handle())
print(operator.state[0], "numba" in sys.modules, "skyband.operators.ranking" in sys.modules)
print(operator.specs[0].engine, operator.state[0], "skyband.operators.ranking" in sys.modules)
"""


def operator():
    schema = pa.schema({"ts": pa.timestamp("us"), "price": pa.float64(), "volume": pa.int64(), "symbol": pa.string()})
    return BucketProcessor({0: plan(asked(**next(iter(QUERIES.values()))))}, schema, {0: {"engine": "sweep"}})


def test_who_only_opens_the_state_loads_no_engine():
    sent = base64.b64encode(pickle.dumps(operator())).decode()
    told = subprocess.run([sys.executable, "-c", OPENS, sent], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["chunks False False", "sweep chunks True"]


def test_an_operator_sent_on_unopened_arrives_whole():
    away = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(operator()))))  # noqa: S301 - our own
    assert away.counters == COUNTERS
    assert away.specs == operator().specs
    assert not hasattr(away, "nothing of the kind")
