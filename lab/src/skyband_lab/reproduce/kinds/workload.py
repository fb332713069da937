"""Many queries over one stream: CPU time and memory of one shared engine, or of one engine a query."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skyband_lab.bench import workload as suite
from skyband_lab.bench.workloads import STREAMS, trades

if TYPE_CHECKING:
    from skyband_lab.reproduce.kinds import Settings


def workload(settings: Settings, data: Path | None) -> dict[str, Any]:
    """One engine on one workload: what the workload suite measures. `scale` divides windows, slides and k alike."""
    seed, rows, by = settings.get("seed", 0), settings["rows"], settings.get("scale", 1)
    kind = next(one for one in suite.KINDS if one.name == settings["any"])
    k, win, slide = ((max(1, low // by), max(1, high // by)) for low, high in kind[1:])
    kind = suite.Kind(kind.name, k, win, slide)
    stream = settings["stream"]
    score = trades(rows, seed, data) if stream == "trades" else STREAMS[stream](rows, seed)
    scale = suite.Scale(rows, settings["budget"], settings["sample"])
    case = suite.Case(kind, settings["queries"], stream, settings["engine"])
    result = suite.measure(case, np.ascontiguousarray(score, np.float64), scale, seed)
    return {
        "us": result.seconds / result.rows * 1e6,
        "rows": result.rows,
        "filled": result.filled,
        "peak": result.candidates_peak,
        "bytes": result.candidate_bytes,
    }
