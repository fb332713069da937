"""Does a stretch of scores look as if it came in random order? Two tests that need no distribution."""

from __future__ import annotations

import numpy as np


def runs(score: np.ndarray) -> float:
    """How many standard deviations the runs above and below the median are fewer than in random order, or more (-).

    Scores that stay near each other make few runs: a slow walk, a wave, a trend. Wald and Wolfowitz, 1940. O(n).

    Examples
    --------
    >>> runs(np.random.default_rng(1).random(1000)) < 4 < runs(np.arange(1000.0))
    True
    """
    middle = np.partition(score, len(score) // 2)[len(score) // 2]
    above = score[score != middle] > middle
    high = int(above.sum())
    low = len(above) - high
    if not high or not low or high + low < 3:
        return 0.0
    mean = 1 + 2 * high * low / (high + low)
    spread = np.sqrt(max((mean - 1) * (mean - 2) / (high + low - 1), 1e-12))
    return float((mean - 1 - np.count_nonzero(above[1:] != above[:-1])) / spread)


def trend(score: np.ndarray) -> float:
    """How many standard deviations scores rise (+) or fall (-) with time: Spearman's rank correlation. O(n log n).

    Examples
    --------
    >>> trend(np.random.default_rng(1).random(1000)) > -4 > trend(np.arange(1000.0)[::-1])
    True
    """
    distinct, place, many = np.unique(score, return_inverse=True, return_counts=True)
    if len(distinct) < 2:
        return 0.0
    rank = (np.cumsum(many) - (many - 1) / 2)[place]
    return float(np.corrcoef(rank, np.arange(len(rank)))[0, 1] * np.sqrt(len(rank) - 1))
