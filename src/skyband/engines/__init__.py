"""HOW: one file per algorithm, one registry, one planner.

`slide/` engines are driven by windows that close, `arrival/` engines by every object, `grid/` engines by
points in several dimensions. They share kernels, not classes.
"""

from skyband.engines.protocol import Answers, Engine, Objects, Snapshot, Traits
from skyband.engines.registry import ENGINES, build

__all__ = ["ENGINES", "Answers", "Engine", "Objects", "Snapshot", "Traits", "build"]
