"""Python workers that start warm: everything they need is imported once, before Spark forks them.

Used with `spark.python.daemon.module=skyband.spark.daemon`. Without it each new worker imports pandas, Arrow
and the kernels itself, which takes it about a second.
"""

from __future__ import annotations

import gc
import importlib
from typing import Any

WARM = (
    "pandas",
    "pyarrow.compute",
    "pyspark.worker",
    "skyband.spark.stateful",
    "skyband.spark.bucket",
    "skyband.spark.transform",
    "skyband.operators.ranking",
    "skyband.engines.sweep_each_row",
    "skyband.kernels.select",
)
_FIRST = 12  # tasks of a worker: by then it has met each kind


def main() -> None:
    """Import, then do as Spark's own daemon does."""
    for name in WARM:
        importlib.import_module(name)
    settle()
    from pyspark import daemon

    daemon.worker = settled(daemon.worker)
    daemon.manager()


def settle() -> None:
    """What is there stays: Spark collects garbage after every task, and need not look at modules again and again."""
    gc.collect()
    gc.freeze()


def settled(serve: Any) -> Any:
    """Serve a task; after a worker's first ones, what they have loaded stays too."""
    served = 0

    def worker(*args: Any) -> int:
        nonlocal served
        code: int = serve(*args)
        served += 1
        if served <= _FIRST:
            settle()
        return code

    return worker


if __name__ == "__main__":
    main()
