"""Which look-ups an answer can do without, found by leaving them out one by one in sampled worlds."""

import numpy as np

from skyband.kernels._jit import inplace, kernel


@inplace
def _best(score, k, out):
    """Put the k best places into `out`, best first; equal scores in the order of the list."""
    n = 0
    for i in range(len(score)):
        s = score[i]
        if n == k and not s > score[out[k - 1]]:
            continue
        j = n if n < k else k - 1
        while j > 0 and s > score[out[j - 1]]:
            out[j] = out[j - 1]
            j -= 1
        out[j] = i
        n = min(n + 1, k)
    return n


@inplace
def _worth(score, k, gain, discount, hit, out):
    """What an answer by `score` is worth where `gain` is each object's true gain."""
    total = 0.0
    for r in range(_best(score, k, out)):
        g = gain[out[r]]
        if g > 0.0:
            total += g * discount[r] + hit
    return total


@inplace
def _loss(i, stale, mixed, base, least, k, gain, discount, hit, out):
    """What the answer is worth less, on the mean over the worlds, if object i is ranked by its stale score."""
    loss = 0.0
    for w in range(len(base)):
        true = mixed[w, i]
        if true != stale[i] and (true >= least[w] or stale[i] >= least[w]):
            mixed[w, i] = stale[i]
            loss += base[w] - _worth(mixed[w], k, gain[w], discount, hit, out)
            mixed[w, i] = true
    return loss / len(base)


@kernel
def spared(stale, worlds, weight, later, k, budget, hit, keep):
    """Leave out the look-ups that cost the answer least, until `budget` are left in `keep`; gives the losses found.

    `stale` has each object's score by the replica, best first; `worlds[w]` what the scores may be in truth. With
    a look-up the answer ranks an object by its true score, without it by the stale one. The worth of an answer
    is its nDCG plus `hit` for every object that belongs in it. Of equal losses the lowest on the list goes
    first. Each counts by its `weight`, and `later` is added to it. A loss found before others were left out is
    taken for a lower bound: only the least is computed anew, in the worlds where it is not below the k-th anyway.
    O(objects * worlds * (objects + k)) in the worst of the usual cases, `objects` times that in the worst of all.
    """
    m, n = worlds.shape
    out = np.empty(k, np.int64)
    gain = np.zeros((m, n))
    mixed = worlds.copy()
    base = np.empty(m)
    least = np.empty(m)  # the k-th score: what is below it, read or not, is of no matter
    discount = np.empty(k)
    ideal = 0.0
    for r in range(k):
        discount[r] = 1.0 / np.log2(r + 2.0)
        if r < n:
            ideal += (2.0 ** (k - r) - 1.0) * discount[r]
    for r in range(k):
        discount[r] /= ideal
    for w in range(m):
        for r in range(_best(mixed[w], k, out)):
            gain[w, out[r]] = 2.0 ** (k - r) - 1.0
        base[w] = _worth(mixed[w], k, gain[w], discount, hit, out)
        least[w] = mixed[w, out[k - 1]] if k <= n else -np.inf
    left = 0
    loss = np.zeros(n)
    fresh = np.zeros(n, np.bool_)
    for i in range(n):
        left += keep[i]
    while left > budget:
        gone = -1
        for i in range(n - 1, -1, -1):
            if keep[i] and (gone < 0 or loss[i] < loss[gone] - 1e-12):
                gone = i
        if not fresh[gone]:
            loss[gone] = later[gone] + weight[gone] * _loss(
                gone, stale, mixed, base, least, k, gain, discount, hit, out
            )
            fresh[gone] = True
            continue
        keep[gone] = False
        left -= 1
        for i in range(n):
            fresh[i] = False
        for w in range(m):
            if mixed[w, gone] != stale[gone]:
                matters = mixed[w, gone] >= least[w] or stale[gone] >= least[w]
                mixed[w, gone] = stale[gone]
                if matters:
                    base[w] = _worth(mixed[w], k, gain[w], discount, hit, out)
                    least[w] = mixed[w, out[k - 1]] if k <= n else -np.inf
    return loss
