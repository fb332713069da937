"""The random-walk model of a view's size, and the plan it yields: expected cost against kmax (figure 6).

Between two refills the size k' of a view is a random walk on {k - 1, ..., kmax}. Position i stands for k' = kmax - i: a
bad update moves it from i to i + 1 with probability p[i], a good one back with probability q[i] (at 0 it stays). At
n = kmax - k + 1 the view is refilled. Z is the number of updates until then.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skyband.errors import MissingLibraryError, QueryError
from skyband.query.validation import check_number

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike

_POINTS = 640  # of the trapezoid rule: its error falls exponentially with their number
_UPPER = 45.0  # the integral of exp(-u Z) is cut at this u: exp(-45) is below the precision of a double
_TAIL = 30  # the lower end lies so far below -log E[Z]: what is cut off is exp(-30) of the result
_PLANNED = 14  # points of a plan
_NEAR_ONE = 0.01  # n * |q / p - 1|, below which the closed form of lemma 1 loses digits


class Costs(NamedTuple):
    """Seconds of a refill, and of an update of a view of k rows (it grows with the logarithm of kmax)."""

    refill: float
    update: float


def check_probabilities(p: float, q: float) -> None:
    """Check the probabilities of a bad and a good update.

    Examples
    --------
    >>> check_probabilities(0.7, 0.6)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: p + q must be at most 1, got p=0.7 and q=0.6
    """
    check_number("p", p, least=0)
    check_number("q", q, least=0)
    if p + q > 1 + 1e-9:
        raise QueryError(f"p + q must be at most 1, got p={p!r} and q={q!r}")


def _vectors(p: ArrayLike, q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.atleast_1d(np.asarray(p, float)), np.atleast_1d(np.asarray(q, float))
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise QueryError(
            f"p and q must have one number for each position from 0 to n - 1, got {a.size} and {b.size} numbers"
        )
    valid = (a >= 0) & (b >= 0) & (a + b <= 1)
    for i in np.flatnonzero(~valid):
        check_probabilities(float(a[i]), float(b[i]))
    return a, b


def expected_interval(n: int, p: float, q: float, i: int = 0) -> float:
    """Lemma 1: expected number of updates from position i until a refill, for constant p and q.

    Examples
    --------
    >>> round(expected_interval(100, 0.25, 0.25))
    20200
    >>> round(expected_interval(20, 0.2, 0.3))
    99528

    References
    ----------
    Yi et al., ICDE 2003, lemma 1.
    """
    check_probabilities(p, q)
    if not 0 <= i < n:
        raise QueryError(f"n must be at least 1 and i from 0 to n - 1, got n={n!r} and i={i!r}")
    if not p:
        return math.inf
    if p == q:
        return (n + i + 1) * (n - i) / (2 * p)
    t = q / p
    if t > 1 and n * math.log(t) > 700:
        return math.inf
    if n * abs(t - 1) < _NEAR_ONE:  # the same sum term by term
        return float((np.expm1(np.arange(i + 1, n + 1) * math.log1p((q - p) / p))).sum() / (q - p))
    return ((n - i) * (1 - t) - t ** (i + 1) + t ** (n + 1)) / (p * (1 - t) ** 2)


def hitting_time(p: ArrayLike, q: ArrayLike) -> float:
    """Expected number of updates until a refill, for p and q that vary with k' (section 4.6).

    `p` and `q` are vectors over positions 0 to n - 1.

    Examples
    --------
    >>> hitting_time([0.25] * 100, [0.25] * 100) == expected_interval(100, 0.25, 0.25)
    True
    """
    step, total = 0.0, 0.0
    with np.errstate(over="ignore"):
        for i, (a, b) in enumerate(zip(*_vectors(p, q), strict=True)):
            step = (1 + (b * step if i else 0.0)) / a if a else math.inf
            total += step
    return float(total)


def refill_frequency(p: ArrayLike, q: ArrayLike) -> float:
    """E[1 / Z], the expected refills per update, for vectors over positions 0 to n - 1.

    1 / Z is the integral of exp(-u Z) over all u > 0, and E[exp(-u Z)] is a product of n factors, computed in one pass
    from position 0. With u = exp(x) the trapezoid rule converges exponentially.

    Examples
    --------
    With kmax = k every bad update causes a refill: Z is geometric, and E[1 / Z] = -p ln(p) / (1 - p).

    >>> round(refill_frequency([0.25], [0.25]), 6), round(-0.25 * math.log(0.25) / 0.75, 6)
    (0.462098, 0.462098)
    """
    return float(_frequencies(*_vectors(p, q))[-1])


def refill_frequencies(max_n: int, p: float, q: float) -> np.ndarray:
    """E[1 / Z] for n = 1 to `max_n`, for constant p and q."""
    return _frequencies(*_vectors(np.full(max_n, p), np.full(max_n, q)))


def _frequencies(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    n = len(p)
    if not p.all():
        return np.zeros(n)
    reach = min(max(math.log(hitting_time(p, q) + 1.0), 1.0), 2 * _UPPER)
    x = np.linspace(-reach - _TAIL, math.log(_UPPER), _POINTS)
    u = np.exp(x)
    s = np.exp(-u)
    weight = u * (x[1] - x[0])
    ratio = s * p[0] / -np.expm1(np.log(s) + math.log1p(-p[0])) if p[0] < 1 else s
    log_g = np.log(ratio)
    out = np.empty(n)
    out[0] = (np.exp(log_g) * weight).sum()
    for i in range(1, n):
        # the denominator is 1 - s (1 - p - q) - s q ratio, written so that nothing cancels where s and ratio are near 1
        ratio = s * p[i] / (p[i] * s + (1 - s) + s * q[i] * (1 - ratio))
        log_g = log_g + np.log(ratio)
        out[i] = (np.exp(log_g) * weight).sum()
    return out


def cost_curve(k: int, max_kmax: int, p: float, q: float, costs: Costs) -> tuple[np.ndarray, np.ndarray]:
    """Kmax from k to `max_kmax`, and the expected cost of an update at each: formula (1) of the paper."""
    kmax = np.arange(k, max_kmax + 1)
    update = costs.update * np.log2(kmax + 2) / math.log2(k + 2)
    return kmax, update + costs.refill * refill_frequencies(len(kmax), p, q)


def best_kmax(k: int, max_kmax: int, p: float, q: float, costs: Costs) -> int:
    """The kmax of the least expected cost, at most `max_kmax`.

    Examples
    --------
    >>> best_kmax(100, 5_000, 0.01, 0.01, Costs(refill=0.4, update=1e-6)) > 500
    True
    """
    kmax, cost = cost_curve(k, max_kmax, p, q, costs)
    return int(kmax[int(np.argmin(cost))])


# ---------------------------------------------------------------- planning


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
        raise QueryError(f"k must be less than rows, got k={k} and rows={rows}")
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
    shown = {k, best, max_kmax, *(int(x) for x in np.geomspace(k, max_kmax, _PLANNED).clip(k, max_kmax))}
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
        raise QueryError(f"plot must be a file name that ends with one of {', '.join(formats)}, got {str(path)!r}")
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
