"""Where a grid is cut: evenly, or so that every slice holds as many objects."""

from __future__ import annotations

import numpy as np

from skyband.kernels.grid import Grid
from skyband.query.validation import check_choice, check_integer

GRIDS = ("quantile", "uniform")
SAMPLE = 4096  # objects that a grid is fitted to
_USUAL_CELLS = 1 << 14  # at most, unless a number of slices is asked for
_PER_CELL = 16  # objects, where that leaves enough cells
_MAX_CELLS = 1 << 22


def slices_for(objects: int, d: int) -> int:
    """Return into how many slices to cut each dimension, for a window of so many objects.

    Examples
    --------
    >>> slices_for(40_000, 1), slices_for(40_000, 2), slices_for(40_000, 4), slices_for(40_000, 10)
    (256, 50, 7, 2)
    """
    if 1 << d > _MAX_CELLS:  # so many dimensions that two slices of each are too many
        return 1
    cells = min(max(objects // _PER_CELL, 4), _USUAL_CELLS)
    return min(max(int(cells ** (1 / d) + 1e-9), 2), 256)


def check_grid(grid: object, slices: object, d: int) -> None:
    """Raise unless a grid of this kind can be made."""
    check_choice("grid", grid, GRIDS)
    if slices is not None:
        check_integer("slices", slices, 1, max(int(_MAX_CELLS ** (1 / d) + 1e-9), 1))


def cut(sample: np.ndarray, slices: int, kind: str = "quantile") -> Grid:
    """Make a grid that fits a sample of points: "uniform" slices are equally wide, "quantile" slices equally full.

    Examples
    --------
    >>> some = np.array([[0.0], [1.0], [2.0], [10.0]])
    >>> cut(some, 2, "uniform").edge.tolist(), cut(some, 2, "quantile").edge.tolist()
    ([[0.0, 5.0, 10.0]], [[0.0, 1.5, 10.0]])
    """
    d = sample.shape[1]
    # where exactly the cuts are matters for speed only: keep clear of overflows
    finite = [np.clip(column[np.isfinite(column)], -1e300, 1e300) for column in sample.T]
    finite = [column if len(column) else np.zeros(1) for column in finite]
    share = np.linspace(0, 1, slices + 1)
    edge = np.empty((d, slices + 1))
    for j, column in enumerate(finite):
        edge[j] = (
            np.quantile(column, share) if kind == "quantile" else np.linspace(column.min(), column.max(), slices + 1)
        )
    edge = np.maximum.accumulate(edge, axis=1)  # rounding may put two of them the wrong way round
    buckets = max(8 * slices, 64)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        width = (edge[:, -1] - edge[:, 0]) / buckets
        steady = np.isfinite(width) & (width > 0) & np.isfinite(1 / width)
        scale = np.stack([edge[:, 0], np.where(steady, 1 / width, 0.0)], axis=1)
        width = np.where(steady, width, 0.0)
    starts = edge[:, :1] + width[:, None] * np.arange(buckets)
    guess = np.stack([np.searchsorted(e[1:-1], s, side="right") for e, s in zip(edge, starts, strict=True)])
    return Grid(edge, guess.astype(np.int64), np.ascontiguousarray(scale))
