"""What many queries about points ask, and how the list of each is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skyband.errors import QueryError, nearest
from skyband.kernels.grid import CHEBYSHEV, EUCLIDEAN, MANHATTAN, SUM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KINDS = {"sum": SUM, "euclidean": EUCLIDEAN, "manhattan": MANHATTAN, "chebyshev": CHEBYSHEV}


class Rule(NamedTuple):
    """How a query's list is kept: how long it is made, when and how far it is cut, and whether it is pruned."""

    fill: Callable[[np.ndarray], np.ndarray]
    most: Callable[[np.ndarray], np.ndarray]
    cut: Callable[[np.ndarray], np.ndarray]
    prunes: bool = False


RULES: Mapping[str, Rule] = {
    # a reserve behind the k best makes a search rare; the list is kept as it is, so no stream can make it long
    "reserve": Rule(lambda k: 2 * k + 16, lambda k: 4 * k + 32, lambda k: 2 * k + 16),
    # the k best and no more: TMA, CPM/w
    "best": Rule(lambda k: k, lambda k: k, lambda k: k),
    # what of those above the threshold fewer than k later ones beat: SMA, SNN
    "band": Rule(lambda k: k, lambda k: 4 * k + 8, lambda k: 2 * k, prunes=True),
}


@dataclass(frozen=True)
class Targets:
    """What many queries ask: `k[q]` and a score, one row of numbers for each query.

    `kind` is "sum" (of weight * x) or a metric; `to` is not looked at for sums.

    Examples
    --------
    >>> Targets.of("euclidean", to=[(0, 0), (1, 2)], k=3).k.tolist()
    [3, 3]
    """

    kind: str
    to: np.ndarray  # float64 (queries, d)
    weight: np.ndarray  # float64 (queries, d)
    k: np.ndarray  # int64 (queries)

    @classmethod
    def of(cls, kind: str, *, to: Any = None, weight: Any = None, k: Any = 1) -> Targets:
        """From anything that NumPy can make columns of."""
        if kind not in KINDS:
            msg = f"kind={kind!r} is unknown: {nearest(kind, KINDS)}"
            raise QueryError(msg)
        given = weight if to is None else to
        shape = np.atleast_2d(np.asarray(given, np.float64)).shape
        target = np.zeros(shape) if to is None else np.atleast_2d(np.asarray(to, np.float64))
        each = np.ones(shape) if weight is None else np.broadcast_to(np.asarray(weight, np.float64), shape)
        many = np.broadcast_to(np.asarray(k, np.int64), shape[:1])
        if not (np.isfinite(target).all() and np.isfinite(each).all() and (many > 0).all()) or shape[1] < 1:
            msg = "targets need finite numbers in one column or more, and a k of at least 1"
            raise QueryError(msg)
        # copies: numba would compile everything once more for columns that may not be written to
        return cls(kind, target.copy(), each.copy(), many.copy())
