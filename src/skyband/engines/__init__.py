"""One file per algorithm, one registry, one planner; engines share kernels and a few base classes.

- `sweep`, `sweep_each_row` and `sweep_shared` are our own engine for one query by window, one query after every row and
  many queries.
- `mintopk`, `pretopk`, `sap` and `recompute` answer one query whenever a window closes; `mtoplist` and `mtopband`
  answer many (`mtops`).
- `strict`, `relaxed`, `probabilistic`, `filtered` and `hybrid` answer one query after every row (`arrival_engine`).
- `tma`, `sma`, `cpm`, `snn` and `point_grid` keep the window's points in a grid; `watched` puts the engines of
  `filtered` behind one.
- `per_group` and `independent` run an engine once for every group, or for every query.
"""

from skyband.engines.builder import build
from skyband.engines.family import FamilyMember, QueryFamily, ReservedCapacity
from skyband.engines.protocol import Answers, Engine, Objects, Snapshot
from skyband.engines.registry import ENGINES, EngineEntry, Traits

__all__ = [
    "ENGINES",
    "Answers",
    "Engine",
    "EngineEntry",
    "FamilyMember",
    "Objects",
    "QueryFamily",
    "ReservedCapacity",
    "Snapshot",
    "Traits",
    "build",
]
