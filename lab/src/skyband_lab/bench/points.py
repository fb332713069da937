"""Seeded streams of points, as the top-k/w paper measures them: uniform, clustered, real, and real in random order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from skyband.errors import SourceError
from skyband_lab.bench.workloads import SENSORS, find

READINGS = SENSORS
"""The real stream: readings of weather stations on the Great St Bernard, a sister of the paper's LUCE set."""

COLUMNS = ("ambient_temp_c", "relative_humidity_pct", "surface_temp_c", "solar_radiation_wm2")


def uniform(rows: int, d: int, seed: int = 0) -> np.ndarray:
    """Points all over the unit cube.

    Examples
    --------
    >>> uniform(3, 2).shape
    (3, 2)
    """
    return np.random.default_rng(seed).random((rows, d))


def clustered(rows: int, d: int, seed: int = 0) -> np.ndarray:
    """Two clusters around random centres, in random order; what falls out of the unit cube is mirrored into it.

    The paper gives a variance of 0.1 in each dimension, which nearly fills the cube; read as a standard deviation it
    makes clusters, so that is what we take.
    """
    rng = np.random.default_rng(seed)
    centre = rng.random((2, d))
    points = centre[rng.integers(0, 2, rows)] + rng.normal(0.0, 0.1, (rows, d))
    return np.clip(1.0 - np.abs(1.0 - np.abs(points)), 0.0, 1.0)


def real(rows: int, d: int, seed: int = 0, data: Path | None = None) -> np.ndarray:
    """Readings in the order of time, each column brought to [0, 1]; at most as many as there are.

    One in a thousand at either end is taken for a fault of the sensor and cut off. Up to four dimensions.
    """
    import pyarrow.parquet as pq

    del seed  # there is but one
    path = find(data, READINGS)
    if path is None:
        raise SourceError(f"{READINGS} was found nowhere: name its folder by --data DIR or by SKYBAND_DATA")
    table = pq.read_table(path, columns=list(COLUMNS[:d]))
    points = np.stack([table[name].to_numpy().astype(np.float64) for name in COLUMNS[:d]], axis=1)
    points = points[~np.isnan(points).any(axis=1)][:rows]
    low, high = np.quantile(points, [0.001, 0.999], axis=0)
    return np.ascontiguousarray(np.clip((points - low) / (high - low), 0.0, 1.0))


def shuffled(rows: int, d: int, seed: int = 0, data: Path | None = None) -> np.ndarray:
    """The same readings in random order."""
    return np.random.default_rng(seed).permutation(real(rows, d, 0, data))


POINTS: Mapping[str, Callable[..., np.ndarray]] = MappingProxyType(
    {"uniform": uniform, "clustered": clustered, "shuffled": shuffled, "real": real}
)
"""The streams of points by name: functions from rows, dimensions and a seed."""
