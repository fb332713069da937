"""How many candidates the probabilistic k-skyband needs: formulas (7) to (10) of the paper."""

from __future__ import annotations

from functools import cache
from math import isqrt, sqrt
from typing import NamedTuple

import numpy as np


class Limit(NamedTuple):
    """How many candidates to keep behind the k best."""

    printed: int  # as the paper counts, table V: the first rank above L whose probability is below sigma / 2
    summed: int  # definition 4.5: the probabilities of all ranks behind add up to less than sigma

    @property
    def shortfall(self) -> int:
        """By how many candidates the printed limit misses the definition."""
        return max(self.summed - self.printed, 0)


@cache
def limit(n: int, k: int, sigma: float) -> Limit:
    """The candidate limit of a window of `n` objects in random order, for a probability of error `sigma`.

    Cost: about 10 sqrt(k) ranks of at most k terms each, once a query.

    Examples
    --------
    >>> limit(10_000, 10, 0.001).printed  # table V
    37
    >>> limit(1_000_000, 200, 0.001)
    Limit(printed=138, summed=...)

    References
    ----------
    Pripuzic et al., TODS 2015, section 4.1.1, theorem 4.4, definition 4.5 and table V. Errata: the limit is
    l_c - 1 - k, the text forgets the k; the denominator in (9) is C(2n - 2, l + l' - 2); for k of 20 and more the
    factor-2 property does not hold at l_c, and about half of the printed limits miss definition 4.5 by 1 to 8 objects.
    """
    if n <= k + 1:
        return Limit(1, 1)
    least = _convex_from(n, k)
    further = 8 * (isqrt(2 * k) + 4)
    while True:
        further *= 2
        reach = min(k + further, n)
        ranks = np.arange(k + 1, reach + 1)
        chance = probability(ranks, n, k)
        if reach == n or (chance[-1] < 1e-6 * sigma and ranks[-1] > least):
            break
    poor = (ranks > least) & (chance < sigma / 2)
    first = int(ranks[np.argmax(poor)]) if poor.any() else n + 1
    behind = np.cumsum(chance[::-1])[::-1]  # of this rank and all after it
    small = (ranks > least) & (behind < sigma)
    short = int(ranks[np.argmax(small)]) if small.any() else n + 1
    return Limit(max(first - 1 - k, 1), max(short - 1 - k, 1))


def probability(rank: np.ndarray, n: int, k: int) -> np.ndarray:
    """At most how likely an object of this initial rank ever gets among the k best: p_practice, (9).

    Examples
    --------
    >>> probability(np.array([20, 40]), 1000, 10).round(4).tolist()
    [14.9832, 0.0018]
    """
    last = np.arange(max(1, k - 12 * (isqrt(2 * k) + 8)), k + 1)  # terms further off are below the last digit
    few, many = _log_choose(n - 1, int(rank[-1])), _log_choose(2 * n - 2, int(rank[-1]) + k)
    chance = [np.exp(few[last - 1] + few[at - 1] - many[at + last - 2]).sum() for at in rank]
    return n * n / (4 * n - 2) * np.array(chance)


def _log_choose(n: int, most: int) -> np.ndarray:
    """The logarithms of C(n, 0), ..., C(n, most)."""
    j = np.arange(1, most + 1, dtype=np.float64)
    return np.concatenate([[0.0], np.cumsum(np.log(np.maximum(n - j + 1, 1)) - np.log(j))])


def _convex_from(n: int, k: int) -> float:
    """L: above this rank the probability grows ever faster while the object is in the window, (13)."""
    inside = -8 * k * k * n + 4 * k * k + 8 * k * n * n + 4 * k * n - 4 * k - 5 * n * n - 2 * n + 3
    return (3 * n - 4 * k + 2 * k * n + 3 + sqrt(max(3 * inside, 0))) / (2 * n + 2)
