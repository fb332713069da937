"""The random walk of a view's size, and what it says about kmax.

Between two refills k' walks on {k - 1, ..., kmax}. Position i stands for k' = kmax - i: a bad update moves it from i to
i + 1 with probability p[i], a good one back with probability q[i] (at 0 it stays). At n = kmax - k + 1 the view must be
refilled: Z is the number of updates until then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skyband.errors import QueryError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_POINTS = 160  # of the integral: its error falls exponentially with them
_REACH = 45.0
_NEAR = 0.01


class Costs(NamedTuple):
    """Seconds of a refill, and of an update of a view of k rows (it grows with the logarithm of kmax)."""

    refill: float
    update: float


def checked(p: float, q: float) -> None:
    """Refuse what are no chances of a bad and a good update.

    Examples
    --------
    >>> checked(0.7, 0.6)
    Traceback (most recent call last):
        ...
    skyband.errors.QueryError: p=0.7 and q=0.6 are more than all updates: write parts that add up to at most 1
    """
    for name, part in (("p", p), ("q", q)):
        if not 0 <= part <= 1:
            msg = f"{name}={part!r} is no part of the updates: write a number from 0 to 1"
            raise QueryError(msg)
    if p + q > 1 + 1e-9:
        msg = f"p={p!r} and q={q!r} are more than all updates: write parts that add up to at most 1"
        raise QueryError(msg)


def _vectors(p: ArrayLike, q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.atleast_1d(np.asarray(p, float)), np.atleast_1d(np.asarray(q, float))
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        msg = f"p and q have {a.size} and {b.size} numbers: write one of each for every position from 0 to n - 1"
        raise QueryError(msg)
    fine = (a >= 0) & (b >= 0) & (a + b <= 1)
    for i in np.flatnonzero(~fine):
        checked(float(a[i]), float(b[i]))
    return a, b


def expected_interval(n: int, p: float, q: float, i: int = 0) -> float:
    """Lemma 1: how many updates from position i until a refill, where p and q do not vary.

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
    checked(p, q)
    if not 0 <= i < n:
        msg = f"i={i!r} is no position of n={n!r}: write n of at least 1, and i from 0 to n - 1"
        raise QueryError(msg)
    if not p:
        return math.inf
    if p == q:
        return (n + i + 1) * (n - i) / (2 * p)
    t = q / p
    if t > 1 and n * math.log(t) > 700:
        return math.inf
    if n * abs(t - 1) < _NEAR:  # the same sum term by term, where the closed form would cancel
        return float((np.expm1(np.arange(i + 1, n + 1) * math.log1p((q - p) / p))).sum() / (q - p))
    return ((n - i) * (1 - t) - t ** (i + 1) + t ** (n + 1)) / (p * (1 - t) ** 2)


def hitting_time(p: ArrayLike, q: ArrayLike) -> float:
    """How many updates until a refill, where p and q vary with k' (section 4.6): vectors over positions 0 to n - 1.

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
    """E[1 / Z], the refills an update brings about, for vectors over positions 0 to n - 1.

    1 / Z is the integral of exp(-u Z) over u from 0 on, and E[exp(-u Z)] is a product of n factors that one pass from
    position 0 gives. With u = exp(x) the trapezoid rule converges exponentially.

    Examples
    --------
    A view of k rows must be refilled by every bad update; by a geometric law E[1 / Z] = -p ln(p) / (1 - p).

    >>> round(refill_frequency([0.25], [0.25]), 6), round(-0.25 * math.log(0.25) / 0.75, 6)
    (0.462098, 0.462098)
    """
    return float(_frequencies(*_vectors(p, q))[-1])


def refill_frequencies(most: int, p: float, q: float) -> np.ndarray:
    """E[1 / Z] for n = 1 to `most`, where p and q do not vary."""
    return _frequencies(*_vectors(np.full(most, p), np.full(most, q)))


def _frequencies(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    n = len(p)
    if not p.all():
        return np.zeros(n)
    far = min(max(math.log(hitting_time(p, q) + 1.0), 1.0), 2 * _REACH)
    x = np.linspace(-far - 30, math.log(_REACH), 4 * _POINTS)
    u = np.exp(x)
    s = np.exp(-u)
    log_g = np.zeros_like(x)
    out = np.empty(n)
    weight = u * (x[1] - x[0])
    stay = 1 - p - q
    ratio = np.zeros_like(x)
    for i in range(n):
        if i == 0:
            ratio = s * p[0] / -np.expm1(np.log(s) + math.log1p(-p[0])) if p[0] < 1 else s
        else:
            # 1 - s (stay) - s q r, written so that nothing cancels where s and r are near 1
            denominator = p[i] * s + (1 - s) + s * q[i] * (1 - ratio)
            ratio = s * p[i] / denominator if stay[i] >= -1e-12 else ratio
        log_g = log_g + np.log(ratio)
        out[i] = (np.exp(log_g) * weight).sum()
    return out


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
    Yi et al., ICDE 2003, table 1. How its last column is computed is not printed; P + (1 - P) * rows / n gives it.
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
    checked(p, q)
    _positive(rows=rows, n=n)
    if p >= q:
        msg = f"p={p!r} is not below q={q!r}, which theorem 2 needs: see survival_bound for p = q"
        raise QueryError(msg)
    share = q / (p + q)
    c1 = share / 2 * (1 - 1 / (2 * share)) ** 2
    return max(0.0, 1 - rows * math.exp(-c1 * n))


def _positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            msg = f"{name}={number!r} is no number of rows: write one above 0"
            raise QueryError(msg)


def rows_needed(rows: float, p: float, q: float) -> float:
    """How large n must be for the theorems to promise a refill interval of `rows` at 99.9 %; `rows` itself if p > q."""
    checked(p, q)
    _positive(rows=rows)
    if p > q:
        return rows
    if p == q:
        return math.sqrt(2 * rows * math.log(4e3))
    share = q / (p + q)
    return math.log(1e3 * rows) / (share / 2 * (1 - 1 / (2 * share)) ** 2)


def cost_curve(k: int, most: int, p: float, q: float, costs: Costs) -> tuple[np.ndarray, np.ndarray]:
    """Kmax from k to `most`, and the expected cost of an update at each: formula (1) of the paper."""
    kmax = np.arange(k, most + 1)
    update = costs.update * np.log2(kmax + 2) / math.log2(k + 2)
    return kmax, update + costs.refill * refill_frequencies(len(kmax), p, q)


def cheapest(k: int, most: int, p: float, q: float, costs: Costs) -> int:
    """The kmax of the least expected cost, at most `most`.

    Examples
    --------
    >>> cheapest(100, 5_000, 0.01, 0.01, Costs(refill=0.4, update=1e-6)) > 500
    True
    """
    kmax, cost = cost_curve(k, most, p, q, costs)
    return int(kmax[int(np.argmin(cost))])
