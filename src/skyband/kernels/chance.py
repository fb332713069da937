"""Does a stretch of scores look as if it came in random order? Two tests that need no distribution."""

import numpy as np

from skyband.kernels._jit import kernel

NO_ORDER, ALIKE, SLOPE = -1, 0, 1  # what a look finds


_MIDDLE = 31  # scores whose median parts all others: any value would do, and one in the middle tells most


@kernel
def runs(score):
    """How many standard deviations the runs above and below a middle are fewer than in random order, or more (-).

    Scores that stay near each other make few runs: a slow walk, a wave, a trend. Wald and Wolfowitz, 1940. O(n).

    Examples
    --------
    >>> runs(np.random.default_rng(1).random(1000)) < 4 < runs(np.arange(1000.0))
    True
    """
    n, some = len(score), np.empty(min(len(score), _MIDDLE))
    for j in range(len(some)):
        some[j] = score[j * n // len(some)]
    middle = np.sort(some)[len(some) // 2]
    high, changes = parted(score, middle)
    if high == 0:  # nothing is above it, so it parts what reaches it from the rest
        high, changes = parted(score, np.nextafter(middle, -np.inf))
    low = n - high
    if high == 0 or low == 0 or n < 3:
        return 0.0
    mean = 1 + 2 * high * low / n
    return (mean - 1 - changes) / np.sqrt(max((mean - 1) * (mean - 2) / (n - 1), 1e-12))


@kernel
def parted(score, middle):
    """How many scores are above `middle`, and how often one side follows the other. No branch: many at once."""
    high, changes = 0, 0
    for i in range(len(score)):
        high += score[i] > middle
    for i in range(1, len(score)):
        changes += (score[i] > middle) != (score[i - 1] > middle)
    return high, changes


@kernel
def trend(score):
    """How many standard deviations scores rise (+) or fall (-) with time: Spearman's rank correlation. O(n log n).

    Examples
    --------
    >>> trend(np.random.default_rng(1).random(1000)) > -4 > trend(np.arange(1000.0)[::-1])
    True
    """
    n, order = len(score), np.argsort(score)
    middle, both, spread, low = (n - 1) / 2, 0.0, 0.0, 0
    for high in range(1, n + 1):
        if high == n or score[order[high]] != score[order[low]]:
            rank = (low + high - 1) / 2 - middle  # equals share the mean of their ranks
            for i in range(low, high):
                both += rank * (order[i] - middle)
            spread += rank * rank * (high - low)
            low = high
    if spread == 0.0:
        return 0.0
    return both / np.sqrt(spread * n * (n * n - 1) / 12) * np.sqrt(n - 1)


@kernel
def looked(score, block, sample, window, few, sure):
    """What is found in each stretch of `score` from block[0, b] to block[1, b], NO_ORDER mostly.

    First whether its neighbours are alike, then whether `sample` from window[0, b] to window[1, b] rises or falls.
    Fewer than `few` scores say nothing; more than `sure` standard deviations are no chance.
    """
    found = np.full(block.shape[1], NO_ORDER)
    for b in range(len(found)):
        near, far = score[block[0, b] : block[1, b]], sample[window[0, b] : window[1, b]]
        if len(near) >= few and abs(runs(near)) > sure:
            found[b] = ALIKE
        elif len(far) >= few and abs(trend(far)) > sure:
            found[b] = SLOPE
    return found


@kernel
def crowd(time, span):
    """The most rows whose times lie within less than `span` of each other; times rise. O(n)."""
    most, low = 0, 0
    for high in range(len(time)):
        while time[high] - time[low] >= span:
            low += 1
        most = max(most, high - low + 1)
    return most
