"""The plan of a view: what the random-walk model expects for each kmax, as numbers and as a plot (figure 6)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from skyband.errors import MissingLibraryError, QueryError
from skyband.view.model import Costs, check_probabilities, cost_curve, expected_interval

_POINTS = 14


@dataclass(frozen=True)
class PlanPoint:
    """What to expect of one kmax."""

    kmax: int
    interval: float  # updates between two refills, lemma 1
    cost: float  # seconds per update


@dataclass(frozen=True)
class SizePlan:
    """Expected cost against kmax, and the kmax of the least cost."""

    rows: int
    k: int
    best: int
    points: tuple[PlanPoint, ...]
    notes: tuple[str, ...]
    kmax: np.ndarray
    cost: np.ndarray

    def as_dict(self) -> dict[str, object]:
        """The plan without its curve, as plain values for JSON; an infinite interval is None."""
        lines = [
            {**asdict(point), "interval": point.interval if math.isfinite(point.interval) else None}
            for point in self.points
        ]
        return {"rows": self.rows, "k": self.k, "best": self.best, "lines": lines, "words": list(self.notes)}


def plan_size(rows: int, k: int, p: float, q: float, costs: Costs) -> SizePlan:
    """Plan a view over a table of `rows` rows.

    Examples
    --------
    >>> plan = plan_size(1_000_000, 100, 0.01, 0.01, Costs(refill=0.4, update=1e-6))
    >>> 300 < plan.best < 3000
    True
    >>> plan.points[0].cost > 1000 * min(point.cost for point in plan.points)
    True
    """
    check_probabilities(p, q)
    if k >= rows:
        msg = f"k must be less than rows, got k={k} and rows={rows}"
        raise QueryError(msg)
    max_kmax = min(rows, k + math.ceil(10 * math.sqrt(rows)))
    if p > q:
        note = (
            f"More rows leave than enter (p > q): no small view lasts long. kmax is limited to {max_kmax:,}, k plus "
            f"ten times the square root of the table's size."
        )
    elif p == q:
        note = "As many rows enter as leave: a kmax on the order of the root of the table's size is enough (theorem 1)."
    else:
        note = "More rows enter than leave: a kmax on the order of the log of the table's size is enough (theorem 2)."
    kmax, cost = cost_curve(k, max_kmax, p, q, costs)
    best = int(kmax[int(np.argmin(cost))])
    shown = {k, best, max_kmax, *(int(x) for x in np.geomspace(k, max_kmax, _POINTS).clip(k, max_kmax))}
    points = tuple(PlanPoint(at, expected_interval(at - k + 1, p, q), float(cost[at - k])) for at in sorted(shown))
    return SizePlan(rows, k, best, points, (note,), kmax, cost)


def plot_plan(plan: SizePlan, path: Path) -> None:
    """Plot cost against kmax into a file."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingLibraryError.of("a plot", "matplotlib") from error
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    formats = sorted(figure.canvas.get_supported_filetypes())
    if path.suffix[1:].lower() not in formats:
        plt.close(figure)
        msg = f"plot must be a file name that ends with one of {', '.join(formats)}, got {str(path)!r}"
        raise QueryError(msg)
    axes.loglog(plan.kmax, plan.cost, color="#3f51b5", linewidth=2)
    least = plan.cost[plan.best - plan.k]
    axes.plot([plan.best], [least], "o", color="#ff5722")
    axes.annotate(f"kmax {plan.best:,}", (plan.best, least), (0, 12), textcoords="offset points", ha="center")
    axes.set_xlabel("kmax")
    axes.set_ylabel("expected cost per update, seconds")
    axes.set_title(f"k {plan.k:,}, table of {plan.rows:,} rows")
    axes.grid(which="both", alpha=0.2)
    figure.savefig(path)
    plt.close(figure)
