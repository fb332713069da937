"""A plan for a view: what the model expects of each kmax, as numbers and as a picture (figure 6 of the paper)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from skyband.errors import MissingLibraryError, QueryError
from skyband.view.model import Costs, checked, cost_curve, expected_interval

_LINES = 14


@dataclass(frozen=True)
class Line:
    """One kmax."""

    kmax: int
    interval: float  # updates between two refills, lemma 1
    cost: float  # seconds an update


@dataclass(frozen=True)
class Plan:
    """What the model expects."""

    rows: int
    k: int
    best: int
    lines: tuple[Line, ...]
    words: tuple[str, ...]
    kmax: np.ndarray
    cost: np.ndarray

    def as_dict(self) -> dict[str, object]:
        """The plan without its curve, as plain values; an interval beyond all numbers is None."""
        lines = [asdict(line) for line in self.lines]
        for line in lines:
            line["interval"] = line["interval"] if math.isfinite(line["interval"]) else None
        return {"rows": self.rows, "k": self.k, "best": self.best, "lines": lines, "words": list(self.words)}


def planned(rows: int, k: int, p: float, q: float, costs: Costs) -> Plan:
    """The plan for a table of `rows` rows.

    Examples
    --------
    >>> found = planned(1_000_000, 100, 0.01, 0.01, Costs(refill=0.4, update=1e-6))
    >>> 300 < found.best < 3000
    True
    >>> found.lines[0].cost > 1000 * min(line.cost for line in found.lines)
    True
    """
    checked(p, q)
    if k >= rows:
        msg = f"k={k} is not less than rows={rows}, so a view would be the whole table: write a smaller k"
        raise QueryError(msg)
    most = min(rows, k + math.ceil(10 * math.sqrt(rows)))
    words = []
    if p > q:
        words.append(
            f"More rows leave than enter (p > q): no small view serves long. kmax is held at {most:,}, that is k and "
            f"ten times the root of the table's size."
        )
    elif p == q:
        words.append(
            "As many rows leave as enter: kmax on the order of the root of the table's size is enough (theorem 1)."
        )
    else:
        words.append(
            "More rows enter than leave: kmax on the order of the logarithm of the table's size is enough (theorem 2)."
        )
    kmax, cost = cost_curve(k, most, p, q, costs)
    best = int(kmax[int(np.argmin(cost))])
    shown = {k, best, most, *(int(x) for x in np.geomspace(k, most, _LINES).clip(k, most))}
    lines = tuple(Line(at, expected_interval(at - k + 1, p, q), float(cost[at - k])) for at in sorted(shown))
    return Plan(rows, k, best, lines, tuple(words), kmax, cost)


def drawn(plan: Plan, path: Path) -> None:
    """Draw cost against kmax."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError as error:
        raise MissingLibraryError.of("a plot", "matplotlib") from error
    kinds = plt.gcf().canvas.get_supported_filetypes()
    plt.close()
    if path.suffix[1:].lower() not in kinds:
        msg = f"plot={str(path)!r} is no picture: write a name that ends with one of {', '.join(sorted(kinds))}"
        raise QueryError(msg)
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
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
