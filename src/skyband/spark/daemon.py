"""Python workers that start warm: everything they need is imported once, before Spark forks them.

Used with `spark.python.daemon.module=skyband.spark.daemon`. Without it each new worker imports pandas, Arrow
and the kernels itself, which takes it about a second.
"""

from __future__ import annotations

import gc
import importlib

WARM = ("pandas", "pyarrow.compute", "skyband.spark.maintain", "skyband.engines.eachrow", "skyband.kernels.prune")


def main() -> None:
    """Import, then do as Spark's own daemon does."""
    for name in WARM:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # Spark collects garbage after every task: 100 ms of looking at modules that stay
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
