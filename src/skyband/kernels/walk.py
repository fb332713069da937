"""Random walks of a view's size, to hold the model against."""

import numpy as np

from skyband.kernels._jit import kernel


@kernel
def hits(p, q, runs, seed):
    """How many steps each of `runs` walks takes from 0 to n = len(p); `p` and `q` as in view/model.py."""
    np.random.seed(seed)  # noqa: NPY002 - numba knows this one
    n = len(p)
    out = np.empty(runs, np.int64)
    for r in range(runs):
        at, steps = 0, 0
        while at < n:
            x = np.random.random()  # noqa: NPY002 - the same
            if x < p[at]:
                at += 1
            elif at > 0 and x < p[at] + q[at]:
                at -= 1
            steps += 1
        out[r] = steps
    return out


@kernel
def running(value, ids, change):
    """Add each change to its row; the row's value after it."""
    out = np.empty(len(ids))
    for i in range(len(ids)):
        value[ids[i]] += change[i]
        out[i] = value[ids[i]]
    return out


@kernel
def sizes(moves, k, kmax, seed, p, q):
    """A view's size under random good and bad updates, refilled to kmax below k: for policies without a table.

    Not more than `moves` updates; stops after one that needs a refill. The updates made, the size and its least.
    """
    np.random.seed(seed)  # noqa: NPY002 - numba knows this one
    size, least = kmax, kmax
    for i in range(moves):
        x = np.random.random()  # noqa: NPY002 - the same
        if x < p:
            size -= 1
            least = min(least, size)
            if size < k:
                return i + 1, size, least
        elif x < p + q and size < kmax:
            size += 1
    return moves, size, least
