"""Bounds on how long a view lasts without a refill: theorems 1 and 2 of Yi et al. (ICDE 2003)."""

from __future__ import annotations

import math

from skyband.errors import QueryError
from skyband.query.validation import check_number
from skyband.view.model import check_probabilities


def survival_bound(rows: float, n: float) -> float:
    """Theorem 1, p = q: a lower bound on Pr[Z > rows].

    Examples
    --------
    >>> round(survival_bound(1_000_000, 4500), 4)
    0.9998
    """
    _positive(rows=rows, n=n)
    return max(0.0, 1 - 4 * math.exp(-(n**2) / (2 * rows)))


def frequency_bound(rows: float, n: float) -> float:
    """Corollary 1, p = q: an upper bound on E[rows / Z], since Z is at least n.

    Examples
    --------
    >>> round(frequency_bound(1_000_000, 4500), 4)
    1.0355

    References
    ----------
    Yi et al., ICDE 2003, table 1. The formula of its last column is not printed; P + (1 - P) * rows / n reproduces it.
    """
    likely = survival_bound(rows, n)
    return likely + (1 - likely) * rows / n


def survival_bound_drifting(rows: float, n: float, p: float, q: float) -> float:
    """Theorem 2, p < q: a lower bound on Pr[Z > rows], with appendix B's constant.

    Examples
    --------
    >>> round(survival_bound_drifting(1_000_000, 5000, 0.3, 0.4), 4)
    0.9998

    References
    ----------
    Yi et al., ICDE 2003, theorem 2 and appendix B: Pr[X = i] <= exp(-c1 i) for i from n to rows, with
    c1 = q / 2 * (1 - 1 / 2q)^2 where p + q = 1.
    """
    check_probabilities(p, q)
    _positive(rows=rows, n=n)
    if p >= q:
        raise QueryError(f"p must be below q for theorem 2, got p={p!r} and q={q!r}; for p = q use survival_bound")
    share = q / (p + q)
    c1 = share / 2 * (1 - 1 / (2 * share)) ** 2
    return max(0.0, 1 - rows * math.exp(-c1 * n))


def _positive(**numbers: float) -> None:
    for name, number in numbers.items():
        check_number(name, number, above=0)
