"""One module per algorithm or paper, one registry; engines share kernels and a few base classes.

- `sweep`, `sweep_each_row` and `sweep_shared` are our own engine for one query by window, one query after every row and
  many queries.
- `mintopk`, `pretopk`, `sap` and `recompute` answer one query whenever a window closes (`slide_engine`); `mtoplist` and
  `mtopband` answer many (`mtops`).
- `topkw` (strict, relaxed, probabilistic, with filters) and `hybrid` answer one query after every row
  (`arrival_engine`).
- `point_grid` (ours, tma, sma, cpm, snn) keeps the window's points in a grid; `watched` puts the engines of `topkw`
  behind one (`grid_engine`).
- `composite` runs an engine once for every group, or for every query.
"""

from skyband.engines.family import FamilyMember, QueryFamily, ReservedCapacity
from skyband.engines.protocol import Answers, Engine, Objects, Snapshot
from skyband.engines.registry import ENGINES, EngineEntry, Traits, build

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
